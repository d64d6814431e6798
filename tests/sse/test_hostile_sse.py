"""What clients of HTTP+SSE get wrong, on purpose or not: each gets its answer, and the server goes on."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kit import Closed, Connection, Server, encoded, eventually
from stream import JSON, Stream, serving_sse, started, text, waiting_post
from support import HANDSHAKE, NO_SUCH_METHOD, initialize, request

from mcpkit.transports.sse import MAX_CALLS, MAX_MESSAGE

PING = request(1, "ping")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_sse("--body-timeout", "0.5", "--allow-origin", "https://example.com") as server:
        yield server
        with started(server) as stream:
            assert stream.call(1, "echo", {"text": "alive"}) == "alive"


@pytest.fixture
def stream(server: Server) -> Iterator[Stream]:
    with Stream(server) as stream:
        yield stream
        assert stream.ask("last", "ping")["result"] == {}


# -- Messages that are none ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code", "id"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[", -32700, None),
        (b"[" * 20_000, -32700, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":' + b"[" * 20_000, -32700, 7),
        (b"7", -32600, None),
        (b"{}", -32600, None),
        (b'{"id":7,"method":"ping"}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_message_is_answered_at_once(stream: Stream, body: bytes, code: int, id: Any) -> None:
    """SSE-04: 400 with a JSON-RPC error, which names the request where its id can be read (RPC-06)."""
    response = stream.post(body)
    assert response.status == 400
    assert (response.code, response.message.get("id")) == (code, id)


@pytest.mark.parametrize("message", [b"\xef\xbb\xbf" + encoded(PING), b"\r\n " + encoded(PING) + b"\r\n"])
def test_blanks_and_a_byte_order_mark_are_no_error(stream: Stream, message: bytes) -> None:
    """As on stdio: accepted."""
    stream.send(message)
    assert stream.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_an_id_in_use_is_refused_and_its_first_call_goes_on(stream: Stream, tmp_path: Path) -> None:
    """RPC-09, and RPC-02: 1 and "1" are two calls."""
    stream.start()
    path = tmp_path / "go"
    stream.begin(1, "wait", {"path": str(path)})
    stream.begin("1", "echo", {"text": "another"})
    assert text(stream.receive()) == "another"
    stream.begin(1, "echo", {"text": "the same"})
    assert stream.receive()["error"]["code"] == -32600
    path.touch()
    assert text(stream.receive()) == "done"


def test_noise_is_ignored(stream: Stream) -> None:
    """Notifications that nobody knows, answers to nothing, cancellations of nothing: 202, and silence."""
    stream.start()
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/nothing"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [1]},
        {"jsonrpc": "2.0", "id": "mcpkit-1", "result": {}},
        {"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "no"}},
    ):
        stream.send(message)
    stream.send(PING)
    assert stream.receive()["id"] == 1


# -- Requests that are wrong as HTTP ---------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("?", 400),
        ("?session_id=abc", 400),
        ("?sessionId=", 400),
        ("?sessionId=a&sessionId=b", 400),
        ("?sessionId=abc", 404),
        ("?sessionId=%00%ff", 404),
        ("?sessionId=" + "a" * 20_000, 404),
        ("?" + "&" * 20_000, 400),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_message_needs_a_session(server: Server, query: str, status: int) -> None:
    """SSE-04: none is 400, an unknown one 404; whatever the body is."""
    response = server.ask("POST", JSON, b"{", path="/message" + query)
    assert (response.status, response.code) == (status, -32600)


@pytest.mark.parametrize("kind", [None, "text/plain", "application/jsonx", "multipart/form-data"])
def test_other_types_are_refused(stream: Stream, kind: str | None) -> None:
    """PITFALLS, HTTP: 415. A form is what a page can send without being asked for leave."""
    assert stream.post(PING, {"Content-Type": kind}).status == 415


def test_a_type_in_capitals_with_a_parameter_is_the_same(stream: Stream) -> None:
    """PITFALLS, HTTP."""
    assert stream.post(PING, {"Content-Type": "APPLICATION/JSON; charset=utf-8"}).status == 202
    assert stream.receive()["id"] == 1


@pytest.mark.parametrize(
    "method", ["HEAD", "GET", "PUT", "DELETE", "PATCH", pytest.param("BREW", marks=NO_SUCH_METHOD)]
)
def test_only_post_brings_messages(stream: Stream, method: str) -> None:
    """SSE-04: 405, with what is allowed; also without a session."""
    for path in (stream.path, "/message"):
        response = stream.server.ask(method, JSON, None if method == "HEAD" else b"{}", path=path)
        assert (response.status, response.get("allow")) == (405, "POST, OPTIONS")


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE"])
def test_only_get_opens_a_stream(server: Server, method: str) -> None:
    """SSE-04: 405, with what is allowed."""
    response = server.ask(method, JSON, None if method == "HEAD" else b"{}", path="/sse")
    assert (response.status, response.get("allow")) == (405, "GET, OPTIONS")


def test_a_client_that_takes_no_stream_gets_none(server: Server) -> None:
    """406; one that does not say what it takes gets it."""
    assert server.ask("GET", {"Accept": "application/json"}, None, path="/sse").status == 406
    for accept in (None, "*/*", "text/*;q=0.5"):
        Stream(server, headers={"Accept": accept}).close()


def test_the_limit_is_the_last_size_that_passes(stream: Stream) -> None:
    """1 MiB of a message; one byte more is 413, and no harm."""
    filled = PING | {"params": {"x": ""}}
    filled["params"]["x"] = "x" * (MAX_MESSAGE - len(encoded(filled)))
    assert len(encoded(filled)) == MAX_MESSAGE
    stream.send(filled)
    assert stream.receive()["id"] == 1
    filled["params"]["x"] += "x"
    assert stream.post(filled).status == 413


def test_a_large_body_is_refused_before_it_comes(stream: Stream) -> None:
    """PITFALLS, HTTP: without a dead-lock."""
    with stream.server.connect() as connection:
        connection.begin("POST", {**JSON, "Content-Length": str(10**9)}, b"", path=stream.path)
        assert connection.response().status == 413


def test_the_limit_can_be_moved() -> None:
    """`--max-body` is for both transports."""
    with serving_sse("--max-body", "2000") as server, Stream(server) as stream:
        assert stream.post(PING | {"params": {"x": "x" * 2000}}).status == 413
        assert stream.ask(1, "ping")["result"] == {}


def test_a_body_that_stalls_is_given_up(stream: Stream) -> None:
    """PITFALLS, HTTP: 408 after the body time-out."""
    with stream.server.connect() as connection:
        connection.begin("POST", {**JSON, "Content-Length": "100"}, b"{", path=stream.path)
        assert connection.response().status == 408


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example.com"}, 403),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://example.com"}, 200),
        ({"Origin": "http://localhost:3000"}, 200),
    ],
    ids=str,
)
def test_pages_and_names_are_refused_as_on_the_other_transport(
    server: Server, headers: dict[str, str], status: int
) -> None:
    """SSE-05, HM-03: on both paths, the preflight included."""
    with Stream(server) as stream:
        assert stream.post(PING, headers).status == (202 if status == 200 else 403)
    for path in ("/sse", "/message"):
        asked = server.ask("OPTIONS", headers, None, path=path)
        assert asked.status == (204 if status == 200 else 403)
        if "Origin" in headers and status == 200:
            assert asked.get("access-control-allow-origin") == headers["Origin"]
    with server.connect() as connection:
        connection.begin("GET", headers, None, path="/sse")
        head = connection.head()
        assert head.status == status
        if "Origin" in headers and status == 200:
            assert head.get("access-control-allow-origin") == headers["Origin"]


# -- Clients that do not keep up, or go on ---------------------------------------------------


def test_sessions_are_limited() -> None:
    """`--max-sessions`: 503, with when to come back; a stream that ends makes room."""
    with serving_sse("--max-sessions", "2") as server, Stream(server) as one:
        two = Stream(server)
        refused = server.ask("GET", {"Accept": "text/event-stream"}, None, path="/sse")
        assert (refused.status, refused.get("retry-after")) == (503, "60")
        two.close()
        eventually(
            lambda: server.ask("POST", JSON, encoded(PING), path=two.path).status == 404,
            "the end of a session",
        )
        Stream(server).close()
        assert one.ask(1, "ping")["result"] == {}


def test_calls_of_a_client_are_limited(server: Server, tmp_path: Path) -> None:
    """SEC-02: one more than may run is refused, whatever was posted before; cancelling makes room."""
    path = str(tmp_path / "go")
    with started(server, "2025-03-26") as stream:
        calls = [request(n, "tools/call", {"name": "wait", "arguments": {"path": path}}) for n in range(300)]
        for call in calls[: MAX_CALLS - 1]:
            stream.send(call)
        stream.send(calls[-2:])
        stream.send(request("ping", "ping"))
        assert stream.receive_until("ping")[1] == []
        stream.send(request("more", "tools/call", {"name": "echo", "arguments": {"text": "a"}}))
        refused = stream.receive()
        assert (refused["id"], refused["error"]["code"]) == ("more", -32600)
        stream.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}})
        eventually(lambda: "result" in stream.ask("again", "tools/call", ECHO), "room for a call")
        Path(path).touch()
        left = {**dict.fromkeys(range(1, MAX_CALLS - 1))}
        while left:
            for answer in _each(stream.receive()):
                left.pop(answer["id"], None)


ECHO = {"name": "echo", "arguments": {"text": "a"}}


def _each(message: Any) -> list[Any]:
    return message if isinstance(message, list) else [message]


def test_a_client_that_does_not_read_slows_only_itself(server: Server) -> None:
    """SEC-02: its messages wait in their requests, and what is kept for it is bounded."""
    with started(server) as slow, started(server) as other:
        other.call(0, "echo", {"text": "warm"})
        before = server.memory()
        slow.begin(1, "pour", {"megabytes": 64})
        posts = [Connection(server) for _ in range(40)]
        body = encoded(request("p", "ping", {"x": "x" * 500_000}))
        for connection in posts:
            connection.begin("POST", JSON, body, path=slow.path)
        for number in range(20):
            assert other.call(number, "echo", {"text": "quick"}) == "quick"
        assert server.memory() < before + 64 * 2**20
        answer, logs = slow.receive_until(1)
        assert (text(answer), len([m for m in logs if "method" in m])) == ("poured", 64 * 16)
        for connection in posts:
            assert connection.response().status == 202
            connection.close()


def test_a_post_that_waits_learns_that_its_stream_has_ended(server: Server) -> None:
    """404, not silence."""
    with started(server) as stream, waiting_post(stream) as post:
        stream.connection.close()
        assert post.response().status == 404


def test_many_streams_leave_nothing(server: Server) -> None:
    """Neither descriptors nor sessions, however their clients leave."""
    with started(server):
        before = server.descriptors()
        for number in range(100):
            stream = Stream(server)
            stream.start()
            if number % 2:
                stream.connection.abort()
            stream.close()
        eventually(lambda: server.descriptors() <= before, "the end of all connections")


def test_rubbish_ends_nothing_but_its_connection(server: Server) -> None:
    """Random bytes and cut requests on both paths, while a client is served."""
    chance = random.Random(7)
    with started(server) as stream:
        for _ in range(60):
            with socket.create_connection(("127.0.0.1", server.port)) as raw:
                good = (
                    f"POST {stream.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\n".encode()
                )
                noise = chance.randbytes(chance.randrange(200))
                raw.sendall(chance.choice([noise, good[: chance.randrange(len(good))] + noise, good + noise]))
        assert stream.call(1, "echo", {"text": "alive"}) == "alive"


# -- Many at once ----------------------------------------------------------------------------


def test_answers_never_cross(server: Server) -> None:
    """A hundred clients with the same ids and calls that interleave: each gets its own answers, all of them."""
    ready = threading.Barrier(100)

    def client(number: int) -> list[str]:
        with started(server, HANDSHAKE[number % 4]) as stream:
            ready.wait(60)
            for id in range(5):
                stream.begin(id, "echo", {"text": f"{number}-{id}"})
            stream.begin("count", "count", {"to": 3}, progressToken=number)
            answers: dict[Any, Any] = {}
            tokens = set()
            while len(answers) < 6:
                message = stream.receive()
                if message.get("method") == "notifications/progress":
                    tokens.add(message["params"]["progressToken"])
                elif "id" in message:
                    answers[message["id"]] = text(message)
            assert tokens == {number}
            return [answers[id] for id in range(5)]

    with ThreadPoolExecutor(100) as pool:
        for number, answers in enumerate(pool.map(client, range(100))):
            assert answers == [f"{number}-{id}" for id in range(5)]


def test_a_stream_that_the_server_has_ended_says_so() -> None:
    """A killed server is the end of the stream, and a new one knows none of its sessions."""
    with serving_sse() as server, Stream(server) as stream:
        server.process.kill()
        with pytest.raises(Closed):
            stream.receive()
    with serving_sse() as other:
        assert other.ask("POST", JSON, encoded(initialize("2024-11-05")), path=stream.path).status == 404
        assert json.loads(other.ask("POST", JSON, b"{}", path=stream.path).body)["error"]["code"] == -32600
