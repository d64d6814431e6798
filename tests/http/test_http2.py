"""HTTP/2 in clear text, which hypercorn speaks where it is asked for: clients that mean harm, or know no better."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import h2.config
import h2.connection
import h2.events
import pytest
from kit import Closed, Headers, Json, Server, call, discover, encoded, eventually, headers_for, over, serving
from support import initialize

pytestmark = pytest.mark.once  # the server is named

HYPERCORN = ("--server", "hypercorn")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("things.py", "--max-body", "1000000", *HYPERCORN) as server:
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


def curl(server: Server, *options: str, message: Json = None) -> tuple[str, Json]:
    """What curl makes of it: the version of HTTP with the status, and the answer."""
    named = [f"-H{name}: {value}" for name, value in headers_for(message or discover()).items()]
    body = ["--data-binary", "@-"] if message else []
    done = subprocess.run(
        [
            "curl",
            "-sS",
            "-m",
            "20",
            "-w",
            "\n%{http_version} %{http_code}",
            *options,
            *named,
            *body,
            url(server),
        ],
        input=encoded(message) if message else b"",
        capture_output=True,
        check=True,
    )
    answer, _, status = done.stdout.decode().rpartition("\n")
    return status, answer


def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}/mcp"


def test_http_2_is_spoken_where_it_is_asked_for(server: Server) -> None:
    """PITFALLS: h2c with prior knowledge and by upgrade (which has no body)."""
    for message in (discover(), initialize("2025-11-25"), call(1, "count", {"to": 2}, progressToken=1)):
        status, body = curl(server, "--http2-prior-knowledge", message=message)
        assert status == "2 200"
        assert '"result"' in body
    assert curl(server, "--http2", message=discover())[0] == "1.1 200"
    assert curl(server, "--http2", "-XDELETE", message=None)[0] == "2 405"
    assert curl(server, "--http1.1", message=discover())[0] == "1.1 200"
    assert curl(server, "--http1.0", message=discover())[0].split()[1] == "200"


class Http2:
    """A client of HTTP/2 that does what it should not."""

    def __init__(self, server: Server) -> None:
        self.connection = server.connect()
        config = h2.config.H2Configuration(
            client_side=True,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
            header_encoding=None,
        )
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self.stream = -1
        self.statuses: dict[int, int] = {}

    def begin(self, *headers: tuple[bytes, bytes], end: bool = False) -> int:
        """Send the head of a request."""
        self.stream += 2
        self.h2.send_headers(self.stream, list(headers), end_stream=end)
        self.flush()
        return self.stream

    def flush(self) -> None:
        self.connection.send(self.h2.data_to_send())

    def receive(self) -> list[h2.events.Event]:
        """What has come."""
        data = self.connection.socket.recv(65536)
        if not data:
            raise Closed
        events = self.h2.receive_data(data)
        for event in events:
            if isinstance(event, h2.events.ResponseReceived):
                self.statuses[event.stream_id] = int(dict(event.headers)[b":status"])
        with contextlib.suppress(OSError):
            self.flush()
        return events

    def status(self, stream: int) -> int | None:
        """The status of the whole answer; None when the stream or the connection ends without one."""
        ends = (h2.events.StreamEnded, h2.events.StreamReset, h2.events.ConnectionTerminated)
        with contextlib.suppress(Closed, ConnectionError):
            while not any(
                isinstance(event, ends) and getattr(event, "stream_id", stream) == stream
                for event in self.receive()
            ):
                pass
        return self.statuses.get(stream)


def http2_head(server: Server, **changes: str) -> list[tuple[bytes, bytes]]:
    pseudo = {":method": "POST", ":scheme": "http", ":path": "/mcp", ":authority": f"127.0.0.1:{server.port}"}
    usual = {name.lower(): str(value) for name, value in headers_for(discover()).items()}
    changed = {name.replace("_", "-").replace("--", ":"): value for name, value in changes.items()}
    return [(n.encode("latin-1"), v.encode("latin-1")) for n, v in {**pseudo, **usual, **changed}.items()]


def test_requests_over_http_2_share_a_connection(server: Server) -> None:
    """RFC 9113: a refusal ends its own stream and nothing else."""
    client = Http2(server)
    bodies = {
        200: {},
        415: {"content_type": "text/plain"},
        406: {"accept": "text/html"},
        403: {"origin": "http://evil.example"},
    }
    for _ in range(2):
        for expected, changes in bodies.items():
            stream = client.begin(*http2_head(server, **changes))
            client.h2.send_data(stream, encoded(discover()), end_stream=True)
            client.flush()
            assert client.status(stream) == expected
    client.connection.close()


def test_a_body_over_http_2_is_limited(server: Server) -> None:
    """SEC-02, PITFALLS: 413 or the end of the connection, and no dead-lock."""
    client = Http2(server)
    stream = client.begin(*http2_head(server))
    with contextlib.suppress(OSError, Closed, h2.exceptions.ProtocolError):
        for _ in range(200):
            while client.h2.local_flow_control_window(stream) < 16384:
                client.receive()
            client.h2.send_data(stream, b" " * 16384)
            client.flush()
    assert client.statuses.get(stream, 413) == 413
    client.connection.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"--path": "/mcp\xff"},
        {"--method": "P\xff"},
        {"x": "a\0b"},
        {"x": "a\rb"},
        {"X": "upper"},
        {"connection": "close"},
        {"--path": ""},
    ],
)
def test_bad_heads_over_http_2_end_the_connection(server: Server, changes: dict[str, str]) -> None:
    """RFC 9113 section 8: an error of the stream or of the connection, never of the server."""
    client = Http2(server)
    stream = client.begin(*http2_head(server, **changes), end=True)
    status = client.status(stream)
    assert status is None or 400 <= status < 500
    client.connection.close()


def test_data_for_an_answered_stream_ends_the_connection_alone(server: Server) -> None:
    """RFC 9113 section 5.1: what comes after the answer."""
    client = Http2(server)
    stream = client.begin(*http2_head(server, content_length="9999999"))
    assert client.status(stream) == 413
    client.h2.send_data(stream, b"x" * 1000)
    client.flush()
    # Thrown away with the rest of the body, or the end of the connection when the stream is forgotten already.
    with contextlib.suppress(TimeoutError):
        client.connection.socket.settimeout(1.0)
        client.connection.rest()
    client.connection.close()


def test_leaving_an_http_2_stream_cancels_its_call(
    server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """HM-15: a reset stream is a closed response."""
    path = tmp_path_factory.mktemp("h2") / "call"
    message = call(1, "hang", {"path": str(path)})
    client = Http2(server)
    named = {"mcp_method": "tools/call", "mcp_name": "hang"}
    stream = client.begin(*http2_head(server, **named))
    client.h2.send_data(stream, encoded(message), end_stream=True)
    client.flush()
    eventually(path.with_suffix(".begun").exists, "the call")
    client.h2.reset_stream(stream)
    client.flush()
    eventually(path.with_suffix(".cleaned").exists, "the clean-up")
    client.connection.close()


def test_an_http_2_stream_that_is_not_read_is_reset() -> None:
    """SEC-02: its window is closed for longer than the client may take, and nothing piles up; the connection and its
    other streams go on.
    """
    meta = {"io.modelcontextprotocol/logLevel": "info"}
    with serving("things.py", "--send-timeout", "0.5", *HYPERCORN) as server:
        client = Http2(server)
        named = {"mcp_method": "tools/call", "mcp_name": "pour"}
        stream = client.begin(*http2_head(server, **named))
        client.h2.send_data(stream, encoded(call(1, "pour", {"megabytes": 1000}, **meta)), end_stream=True)
        client.flush()
        ends = (h2.events.StreamEnded, h2.events.StreamReset)
        memory = server.memory()
        last: list[h2.events.Event] = []
        while not last:
            last = [event for event in client.receive() if isinstance(event, ends)]
        assert isinstance(last[0], h2.events.StreamReset)
        assert server.memory() - memory < 20_000_000
        client.h2.increment_flow_control_window(2**20)
        stream = client.begin(*http2_head(server))
        client.h2.send_data(stream, encoded(discover()), end_stream=True)
        client.flush()
        assert client.status(stream) == 200
        client.connection.close()


@pytest.mark.parametrize("settings", ["", "!!!!", "AAMAAABk", "A" * 5000, "//8AAAAA"])
def test_a_bad_upgrade_ends_the_connection_alone(server: Server, settings: str) -> None:
    """RFC 7540 section 3.2.1."""
    with server.connect() as connection:
        upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": settings}
        connection.begin("GET", upgrade, None)
        assert server.is_alive()
