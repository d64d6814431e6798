"""Clients that mean harm, or know no better: a clear answer or a closed connection, and the next one is served."""

from __future__ import annotations

import contextlib
import json
import select
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from kit import (
    Closed,
    Connection,
    Headers,
    Json,
    Server,
    call,
    discover,
    encoded,
    eventually,
    head,
    headers_for,
    over,
    serving,
)
from support import NO_SUCH_METHOD, SECONDS, otherwise

LIMIT = 1_000_000
BODY_SECONDS = 1.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("things.py", "--max-body", str(LIMIT), "--body-timeout", str(BODY_SECONDS)) as server:
        server.is_alive()
        yield server


@pytest.fixture(autouse=True)
def unharmed(server: Server) -> Iterator[None]:
    """After each test the next client is served, and nothing is left open."""
    descriptors = server.descriptors()
    yield
    assert server.is_alive()
    eventually(lambda: server.descriptors() <= descriptors, "the end of all connections")


def good(**headers: Json) -> Headers:
    return over(headers_for(discover()), headers)


def request(server: Server, body: bytes | None = None, **headers: Json) -> bytes:
    """A good request as bytes."""
    body = encoded(discover()) if body is None else body
    return head(server, "POST", good(**headers), len(body)) + body


# -- Bodies ----------------------------------------------------------------------------------


def padded(size: int) -> bytes:
    body = encoded(discover())
    return body + b" " * (size - len(body))


def test_the_limit_is_the_last_size_that_passes(server: Server) -> None:
    """SEC-02."""
    assert server.ask("POST", good(), padded(LIMIT)).status == 200
    assert server.ask("POST", good(), padded(LIMIT + 1)).status == 413


def test_a_large_body_is_refused_before_it_comes(server: Server) -> None:
    """PITFALLS: its length says enough."""
    for length in (str(LIMIT + 1), "9" * 18, "9" * 20, "9" * 5000):
        with server.connect() as connection:
            connection.begin("POST", good(**{"Content-Length": length}), None)
            response = connection.response()
            assert response.status in (400, 413), response
            assert connection.is_ended()


def test_a_body_is_refused_while_it_comes(server: Server) -> None:
    """PITFALLS: 50 MB that are being pushed; no dead-lock, the client gets the answer and the connection ends."""
    for chunked in (True, False):
        length: Json = {"Content-Length": None, "Transfer-Encoding": "chunked"}
        unknown = length if chunked else {"Content-Length": str(50_000_000)}
        before = server.memory()
        with server.connect() as connection:
            connection.begin("POST", good(**unknown), None)
            piece = b"x" * 50_000
            pusher = threading.Thread(
                target=push, args=(connection, b"c350\r\n" + piece + b"\r\n" if chunked else piece, 1000)
            )
            pusher.start()
            response = connection.response()
            assert response.status == 413, response
            assert response.get("connection") == "close"
            assert "limit" in response.message["error"]["message"]
            assert connection.is_ended()
            pusher.join(SECONDS)
            assert not pusher.is_alive()
        assert server.memory() - before < 20_000_000


def push(connection: Connection, data: bytes, times: int) -> None:
    with contextlib.suppress(OSError):
        for _ in range(times):
            connection.send(data)


@pytest.mark.parametrize("refusal", [{"Content-Type": "text/plain"}, {"Host": "evil.example"}])
def test_other_refusals_do_not_wait_for_the_body_either(server: Server, refusal: Json) -> None:
    """PITFALLS: nor do they leave the client alone with it."""
    with server.connect() as connection:
        connection.begin("POST", good(**refusal, **{"Content-Length": str(50_000_000)}), None)
        pusher = threading.Thread(target=push, args=(connection, b"x" * 50_000, 1000))
        pusher.start()
        assert connection.response().status in (403, 415)
        assert connection.is_ended()
        pusher.join(SECONDS)


def test_a_small_refused_body_leaves_the_connection(server: Server) -> None:
    """RFC 9112 section 9.3: what is read completely can be followed by the next request."""
    with server.connect() as connection:
        for _ in range(3):
            assert connection.post(discover(), {"Content-Type": "text/plain"}).status == 415
            assert connection.post(discover(), {"Accept": "text/html"}).status == 406
            assert connection.post(discover()).status == 200


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("trickle", [True, False])
def test_a_body_that_stalls_is_given_up(server: Server, chunked: bool, trickle: bool) -> None:
    """PITFALLS: 408 after the time for a body, also for one that comes byte by byte."""
    length: Json = (
        {"Content-Length": None, "Transfer-Encoding": "chunked"} if chunked else {"Content-Length": "500000"}
    )
    with server.connect() as connection:
        connection.begin("POST", good(**length), None)
        connection.send(b"1\r\n \r\n" if chunked else b" ")
        began = time.monotonic()
        while trickle and not readable(connection, 0.05):
            connection.send(b"1\r\n \r\n" if chunked else b" ")
        response = connection.response()
        assert response.status == 408
        assert response.get("connection") == "close"
        assert BODY_SECONDS / 2 < time.monotonic() - began < BODY_SECONDS + 5
        assert connection.is_ended()


def readable(connection: Connection, seconds: float) -> bool:
    return bool(select.select([connection.socket], [], [], seconds)[0])


@pytest.mark.parametrize(
    "chunks",
    [
        lambda body: b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body),
        lambda body: b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n",
        lambda body: b"%X;name=value\r\n%s\r\n0\r\nTrailer: x\r\n\r\n" % (len(body), body),
        lambda body: b"000%x\r\n%s\r\n000\r\n\r\n" % (len(body), body),
    ],
)
def test_chunked_bodies_are_read(server: Server, chunks: Callable[[bytes], bytes]) -> None:
    """RFC 9112 section 7.1."""
    with server.connect() as connection:
        for _ in range(2):
            connection.begin("POST", good(**{"Content-Length": None, "Transfer-Encoding": "chunked"}), None)
            connection.send(chunks(encoded(discover())))
            assert connection.response().status == 200


@pytest.mark.parametrize(
    "chunks",
    [
        b"x\r\n",
        b"-1\r\n",
        b"1\r\nxx\r\n",
        b"ffffffffffffffffffff\r\n",
        b"1" * 100_000,
        b"\r\n",
        b"5\r\n{\r\n0\r\n\r\n",
    ],
)
def test_bad_chunks_end_the_connection(server: Server, chunks: bytes) -> None:
    """RFC 9112 section 7.1: 400 or nothing; what follows is not taken for a request."""
    with server.connect() as connection:
        connection.begin("POST", good(**{"Content-Length": None, "Transfer-Encoding": "chunked"}), None)
        with contextlib.suppress(OSError):
            connection.send(chunks + request(server))
        try:
            assert connection.response().status in (400, 408, 413, 431)
        except Closed:
            pass
        assert b"200" not in connection.rest()


def test_a_client_that_waits_for_leave_to_send_gets_it(server: Server) -> None:
    """RFC 9110 section 10.1.1."""
    body = encoded(discover())
    with server.connect() as connection:
        connection.begin("POST", good(Expect="100-continue", **{"Content-Length": str(len(body))}), None)
        assert readable(connection, SECONDS)
        assert connection.socket.recv(65536).startswith(b"HTTP/1.1 100")
        connection.send(body)
        assert connection.response().status == 200


# -- Heads -----------------------------------------------------------------------------------


@otherwise("uvicorn", "sets no limit to the time that a head may take")
def test_heads_that_do_not_end_are_given_up(server: Server) -> None:
    """PITFALLS: slow-loris headers, with and without bytes that come; nobody else is held up."""
    connections = [server.connect() for _ in range(30)]
    for connection, start in zip(
        connections, [b"", b"POST", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: "] * 10, strict=True
    ):
        connection.send(start)
    began = time.monotonic()
    waiting = list(connections)
    while waiting:
        assert time.monotonic() - began < 15, f"{len(waiting)} are left"
        ready, _, _ = select.select([connection.socket for connection in waiting], [], [], 0.2)
        for connection in [c for c in waiting if c.socket in ready]:
            rest = connection.rest()
            assert rest == b"" or rest.startswith(b"HTTP/1.1 4"), rest
            waiting.remove(connection)
            connection.close()
        for connection in waiting:
            with contextlib.suppress(OSError):
                connection.send(b"x")
        assert server.is_alive()
    assert time.monotonic() - began > 2


@pytest.mark.parametrize("size", [33_000, 60_000, 100_000, 1_000_000])
@pytest.mark.parametrize("count", [1, 50])
def test_large_heads_are_refused(server: Server, size: int, count: int) -> None:
    """SEC-02: 431, however they arrive."""
    for pause in (False, True):
        with server.connect() as connection:
            flood = {f"X-{number}": "x" * (size // count) for number in range(count)}
            data = head(server, "POST", good(**flood), 0)
            with contextlib.suppress(OSError):
                connection.send(data[:1000])
                if pause:
                    assert not readable(connection, 0.02)
                connection.send(data[1000:])
            try:
                assert connection.response().status in (400, 431)
            except Closed:
                pass


def test_many_small_headers_are_refused(server: Server) -> None:
    """SEC-02."""
    with server.connect() as connection:
        with contextlib.suppress(OSError):
            connection.begin("POST", [*good(), *((f"X-{number}", "x") for number in range(10_000))], b"")
        try:
            assert connection.response().status in (400, 431)
        except Closed:
            pass


def test_a_large_head_within_the_limit_passes(server: Server) -> None:
    """SEC-02: tokens can be long."""
    assert server.post(discover(), {"Authorization": "Bearer " + "x" * 20_000}).status == 200


BAD_HEADS = {
    "NUL in a value": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
    "NUL in a name": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX\0: a\r\n\r\n",
    "CR in a value": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n",
    "CR in a name": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX\ra: b\r\n\r\n",
    "space before the colon": b"POST /mcp HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "no colon": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n",
    "no name": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n",
    "two hosts": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    "no host": b"POST /mcp HTTP/1.1\r\n\r\n",
    "two lengths": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "negative length": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "signed length": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: +1\r\n\r\n",
    "hexadecimal length": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x10\r\n\r\n",
    "unknown coding": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
    "two codings": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
    "old version": b"GET /mcp\r\n\r\n",
    "no version": b"GET /mcp HTTP/\r\nHost: localhost\r\n\r\n",
    "no path": b"GET  HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "odd path": b"GET /m\xffcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100a5010000a10303"),
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "lines without end": b"\n" * 5000,
}


_LINES = otherwise("uvicorn", "skips all empty lines in front of a request")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=_LINES if name == "lines without end" else ()) for name in BAD_HEADS]
)
def test_bad_heads_end_the_connection(server: Server, name: str) -> None:
    """PITFALLS; RFC 9112 sections 2.2 to 6.1: 4xx or nothing, and what follows is not taken for a request."""
    with server.connect() as connection:
        connection.send(BAD_HEADS[name] + request(server))
        rest = connection.rest()
    assert rest == b"" or rest.startswith((b"HTTP/1.1 4", b"HTTP/1.1 501")), rest
    assert b"HTTP/1.1 200" not in rest


def test_two_ways_to_say_the_length_are_not_two_requests(server: Server) -> None:
    """RFC 9112 section 6.3: what a proxy could understand differently is never a second request."""
    smuggled = request(server)
    with server.connect() as connection:
        headers = good(**{"Content-Length": str(5 + len(smuggled)), "Transfer-Encoding": "chunked"})
        connection.begin("POST", headers, None)
        connection.send(b"0\r\n\r\n" + smuggled)
        first = connection.response()
        assert first.status == 400
        assert connection.rest().count(b"HTTP/1.1 200") == 0


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"POST http://localhost/mcp HTTP/1.1", (200, 404)),
        (b"OPTIONS * HTTP/1.1", (404,)),
        (b"POST /mcp?x=1&y=2#z HTTP/1.1", (200,)),
        (b"POST /mcp/../mcp HTTP/1.1", (404,)),
        (b"POST //mcp HTTP/1.1", (404,)),
        (b"POST /%6dcp HTTP/1.1", (200,)),
        (b"POST /mcp%00 HTTP/1.1", (404,)),
        (b"POST /mcp%ff HTTP/1.1", (404,)),
        (b"POST /MCP HTTP/1.1", (404,)),
        pytest.param(b"post /mcp HTTP/1.1", (200, 405), marks=NO_SUCH_METHOD),
        (b"GET /mcp HTTP/3.0", (400, 405, 505)),
        pytest.param(b"CONNECT localhost:80 HTTP/1.1", (404, 405), marks=NO_SUCH_METHOD),
    ],
)
def test_odd_targets_are_answered(server: Server, line: bytes, status: tuple[int, ...]) -> None:
    """RFC 9112 section 3.2."""
    with server.connect() as connection:
        _, _, rest = request(server).partition(b"\r\n")
        connection.send(line + b"\r\n" + rest)
        assert connection.response().status in status


# -- Connections -----------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    """PITFALLS; RFC 9112 section 9.3.2: streams among them."""
    messages = [
        call(number, "count" if number % 2 else "echo", {"to": 2, "text": "x"}, progressToken=number)
        for number in range(6)
    ]
    for message in messages:
        arguments = message["params"]["arguments"]
        arguments.pop("text" if message["params"]["name"] == "count" else "to")
    data = b"".join(
        head(server, "POST", headers_for(message), len(encoded(message))) + encoded(message)
        for message in messages
    )
    for pieces in ([data], [data[:700], data[700:]], [data[at : at + 97] for at in range(0, len(data), 97)]):
        with server.connect() as connection:
            for piece in pieces:
                connection.send(piece)
            assert [connection.response().message["id"] for _ in messages] == list(range(6))


def test_a_pipelined_request_behind_the_last_is_not_served(server: Server) -> None:
    """RFC 9112 section 9.6."""
    with server.connect() as connection:
        connection.send(request(server, Connection="close") + request(server))
        rest = connection.rest()
    assert rest.count(b"HTTP/1.1 ") == 1


@otherwise("uvicorn", "sends chunks to HTTP/1.0")
def test_http_1_0_is_answered_and_ends(server: Server) -> None:
    """PITFALLS: JSON and streams, whose end is the end of the connection."""
    for message, text in (
        (call(1, "echo", {"text": "x"}), b'"x"'),
        (call(1, "count", {"to": 2}, progressToken=1), b'"counted"'),
    ):
        body = encoded(message)
        data = head(server, "POST", headers_for(message), len(body)).replace(b"HTTP/1.1", b"HTTP/1.0") + body
        with server.connect() as connection:
            connection.send(data)
            rest = connection.rest()
        assert rest.split(b" ")[1] == b"200"
        assert text in rest.partition(b"\r\n\r\n")[2]
        assert b"transfer-encoding" not in rest.lower()


def test_http_1_0_without_a_name_is_answered(server: Server) -> None:
    """PITFALLS: a clear answer."""
    with server.connect() as connection:
        connection.send(b"GET /mcp HTTP/1.0\r\n\r\n")
        assert connection.rest().split(b" ")[1] in (b"400", b"403")


def test_a_web_socket_is_refused(server: Server) -> None:
    """It is no transport of the protocol."""
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    with server.connect() as connection:
        connection.begin("GET", upgrade, None)
        assert connection.response().status in (400, 403, 404)


def test_many_connections_leave_nothing(server: Server) -> None:
    """PITFALLS: no leak of descriptors or memory."""
    for number in range(100):
        with server.connect() as connection:
            connection.post(discover())
            [Connection.close, Connection.abort, Connection.end][number % 3](connection)
    descriptors, before = server.descriptors(), server.memory()
    for number in range(400):
        connection = server.connect()
        connection.send([b"", b"POST", request(server), request(server)[:-1]][number % 4])
        [Connection.close, Connection.abort, Connection.end][number % 3](connection)
        connection.close()
    assert server.is_alive()
    eventually(lambda: server.descriptors() <= descriptors, "the end of all connections")
    assert server.memory() - before < 10_000_000


def test_many_sessions_at_once_are_served(server: Server) -> None:
    """PITFALLS, SEC-02: idle streams cost little."""
    sessions = [server.session() for _ in range(50)]
    connections = [server.connect() for _ in sessions]
    for session, connection in zip(sessions, connections, strict=True):
        session.listen(connection)
    assert server.is_alive()
    for session in sessions:
        assert session.ask("DELETE").status == 204
    for connection in connections:
        assert [event for event in connection.events() if event.data] == []
        connection.close()


# -- Clients that do not read ----------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_a_client_that_does_not_read_slows_nobody(server: Server, revision: str) -> None:
    """PITFALLS: it holds up its own call alone."""
    meta = {"io.modelcontextprotocol/logLevel": "info"}
    message = call(1, "pour", {"megabytes": 100}, revision, **(meta if revision == "2026-07-28" else {}))
    before = server.memory()
    with server.connect() as connection:
        if revision == "2026-07-28":
            connection.begin("POST", headers_for(message), encoded(message))
        else:
            server.session(revision).begin(connection, message)
        connection.stream()
        began = time.monotonic()
        for _ in range(20):
            assert server.is_alive()
        assert time.monotonic() - began < 5
        assert server.memory() - before < 30_000_000
        connection.abort()


def test_all_of_a_large_answer_comes(server: Server) -> None:
    """Whole, as JSON and as a stream, to a client that takes its time."""
    for accept in ("application/json", "text/event-stream"):
        with server.connect() as connection:
            message = call(1, "big", {"size": 8_000_000})
            connection.begin("POST", {**headers_for(message), "Accept": accept}, encoded(message))
            assert readable(connection, SECONDS)
            assert len(connection.response().text) == 8_000_000


def test_all_of_a_long_stream_comes(server: Server) -> None:
    """From one task and from several, none of them cut."""
    for tool, count in (("pour", 48), ("spill", 48)):
        message = call(1, tool, {"megabytes": 3}, **{"io.modelcontextprotocol/logLevel": "info"})
        *logs, last = server.post(message).messages
        assert len(logs) == count
        assert all(len(log["params"]["data"]) == 65536 for log in logs)
        assert last["id"] == 1


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_a_time_limit_does_not_cut_an_event(server: Server, revision: str) -> None:
    """HM-11: the call is given up while its client does not read; then what comes is whole."""
    meta = {"io.modelcontextprotocol/logLevel": "info"} if revision == "2026-07-28" else {}
    message = call(1, "pour_for_a_while", None, revision, **meta)
    with server.connect() as connection:
        if revision == "2026-07-28":
            connection.begin("POST", headers_for(message), encoded(message))
        else:
            server.session(revision).begin(connection, message)
        connection.stream()
        eventually(
            lambda: server.post(call(2, "block", {"seconds": 0.6})).text == "blocked", "the time limit"
        )
        *logs, last = [event for event in connection.events() if event.data]
        assert all(len(json.loads(log.data)["params"]["data"]) == 65536 for log in logs)
        answer = json.loads(last.data)
        assert answer["id"] == 1
        assert "0.5 s" in answer["result"]["content"][0]["text"]


@otherwise("uvicorn", "writes the head by itself")
def test_two_responses_are_as_large_as_one(server: Server) -> None:
    """A response with a body is a single write, which a client can read at once."""
    with server.connect() as connection:
        for _ in range(5):
            connection.begin("POST", good(), encoded(discover()))
            assert readable(connection, SECONDS)
            data = connection.socket.recv(65536)
            parsed, _, body = data.partition(b"\r\n\r\n")
            assert f"content-length: {len(body)}".encode() in parsed.lower()
