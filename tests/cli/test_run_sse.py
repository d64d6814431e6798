"""`mcpkit run --transport sse` and `--with-sse`: where they listen, and what they say."""

from __future__ import annotations

import re
import signal
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hosts.process import started
from hosts.web import old_stream
from support import initialize, request
from web import HTTP, RUN, SERVER, here, make_certificate

from mcpkit import App
from mcpkit.transports.wire import is_sse

SSE = [*HTTP, "--transport", "sse"]
LOCAL = "http://localhost"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_certificate(tmp_path_factory.mktemp("streamed"))
    (folder / "streamed.py").write_text(SERVER, encoding="utf-8")
    return folder


@pytest.fixture
def script(folder: Path) -> str:
    return str(folder / "streamed.py")


def version(post: Callable[[Any], None], messages: Iterator[Any]) -> str:
    """What the tool says, after the handshake."""
    post(initialize("2024-11-05", 1))
    assert next(messages)["result"]["serverInfo"]["name"] == "My shop"
    post(request(2, "tools/call", {"name": "version"}))
    return str(next(messages)["result"]["content"][0]["text"])


def test_a_unix_socket_has_both_and_one_name(script: str, tmp_path: Path) -> None:
    """DESIGN 4.7: `unix:PATH`; a path is nothing that a client is told there, so it is said once."""
    path = tmp_path / "socket"
    with started([*RUN, script, *HTTP, "--with-sse", "--host", f"unix:{path}"]) as process:
        process.expect(rf"^mcpkit: My shop serving unix:{path}$")
        with old_stream(f"{LOCAL}/sse", transport=httpx.HTTPTransport(uds=str(path))) as (post, messages):
            assert version(post, messages) == "one"
        process.signal()
        assert process.wait() == 0
        assert process.count("serving") == 1


def test_tls_is_served(script: str, folder: Path) -> None:
    """Also to a client that speaks HTTP/2, whose stream and posts share a connection."""
    with started([*RUN, script, *SSE, "--certfile", str(folder / "both.pem")]) as process:
        url = process.expect(r"serving (https\S+/sse)$")[1]
        trusting = ssl.create_default_context(cafile=folder / "cert.pem")
        with old_stream(url, verify=trusting) as (post, messages):
            assert version(post, messages) == "one"


def test_an_edit_ends_the_stream_and_a_new_one_is_served(tmp_path: Path) -> None:
    """`--reload`: nothing is left of the old server's sessions."""
    script = tmp_path / "reloaded.py"
    script.write_text(SERVER, encoding="utf-8")
    with started([*RUN, str(script), *SSE, "--reload"]) as process:
        url = process.expect(r"serving (\S+)$")[1]
        with old_stream(url) as (post, messages):
            assert version(post, messages) == "one"
            script.write_text(SERVER.replace("one", "two"), encoding="utf-8")
            assert list(messages) == []
        process.expect(r"serving (\S+)$", times=2)
        with old_stream(url) as (post, messages):
            assert version(post, messages) == "two"


def test_a_request_is_one_line_with_its_true_outcome(script: str) -> None:
    """`-v`: as on stdio, since the answer is not that of the POST; what is refused at once, and the stream's end, are
    shown as HTTP. The session's id is a secret.
    """
    ms = r"\d+\.\d ms$"
    with started([*RUN, script, *SSE, "-v"]) as process:
        url = process.expect(r"serving (\S+)$")[1]
        with old_stream(url) as (post, messages):
            assert version(post, messages) == "one"
            post(request(3, "tools/call", {"name": "nothing"}))
            assert "error" in next(messages)
            post({"jsonrpc": "2.0", "method": "notifications/initialized"})
            assert httpx.post(url.replace("/sse", "/message?sessionId=secret"), json={}).status_code == 404
        for line in (
            "initialize id=1 ok",
            "tools/call version id=2 ok",
            "tools/call nothing id=3 -32602",
            "POST /message 404 -32600",
            "GET /sse 200",
        ):
            process.expect(f"^mcpkit: {line} {ms}")
        process.signal()
        assert process.wait() == 0
        assert len(process.output.splitlines()) == 6
        assert "secret" not in process.output
        assert "sessionId" not in process.output


def test_an_app_serves_it_by_itself(folder: Path) -> None:
    """DESIGN 4.1: `app.run("sse")`, with the options of the command line."""
    own = folder / "own.py"
    own.write_text(f"{SERVER}\n\napp.run('sse', port=0, path='/events/sse')\n", encoding="utf-8")
    with started([RUN[0], str(own)]) as process:
        url = process.expect(r"^mcpkit: My shop serving (http://127.0.0.1:\d+/events/sse)$")[1]
        with old_stream(url) as (post, messages):
            assert version(post, messages) == "one"
        process.signal(signal.SIGINT)
        assert process.wait() == 0


async def test_an_app_serves_it_beside_the_other(script: str) -> None:
    """In a trio loop of somebody else's: `serve` starts with the URL of the first."""
    import trio

    app = App("own")
    async with trio.open_nursery() as nursery:

        async def serve(task_status: trio.TaskStatus[str]) -> None:
            await app.serve("http", port=0, with_sse=True, task_status=task_status)

        url = await nursery.start(serve)
        assert re.fullmatch(r"http://127.0.0.1:\d+/mcp", url)

        def handshake() -> str:
            with old_stream(url.replace("/mcp", "/sse")) as (post, messages):
                post(initialize("2024-11-05", 1))
                return str(next(messages)["result"]["serverInfo"]["name"])

        assert await trio.to_thread.run_sync(handshake) == "own"
        nursery.cancel_scope.cancel()


def test_a_transport_that_is_none_is_named() -> None:
    """What can be said instead."""
    with pytest.raises(ValueError, match="unknown transport 'ssh': use stdio, http or sse"):
        App("none").run("ssh")
    with pytest.raises(ValueError, match="with_sse is for the transport http"):
        App("none").asgi(transport="sse", with_sse=True)


def test_call_and_inspect_reach_it(script: str) -> None:
    """DESIGN 4.7: TARGET may be the URL of a running server; what is wrong with it is said in a line."""
    with started([*RUN, script, *SSE]) as process:
        url = process.expect(r"serving (\S+)$")[1]
        assert here("call", url, "version") == (0, "one\n", "")
        code, out, _ = here("inspect", url)
        assert (code, "tool version" in out) == (0, True)
        code, out, err = here("call", url.replace("/sse", "/other/sse"), "version")
        assert (code, out) == (1, "")
        assert "answered 404 Not Found: is this the path of the endpoint? It is /mcp or /sse" in err
        process.signal()
        assert process.wait() == 0
        assert "cannot be reached" in here("call", url, "version")[2]


@pytest.mark.parametrize(
    ("url", "stream"),
    [
        ("http://a/sse", True),
        ("https://a:1/b/sse/?c=d", True),
        ("http://[::1]/sse#e", True),
        ("http://a/mcp", False),
        ("http://a/sse/mcp", False),
        ("http://a/mcp?b=/sse", False),
        ("http://a/msse", False),
        ("http://sse", False),
        ("http://[::1/mcp", False),
    ],
)
def test_a_stream_is_known_by_its_path(url: str, stream: bool) -> None:
    """As people name it; what is no URL at all is said by whoever uses it."""
    assert is_sse(url) is stream


def test_a_server_that_sends_its_clients_elsewhere_is_not_followed(tmp_path: Path) -> None:
    """SSE-02: same origin. What a client posts may hold a token."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"event: endpoint\ndata: http://127.0.0.1:9/message\n\n")

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        code, _, err = here("call", f"http://127.0.0.1:{server.server_port}/sse", "version")
        thread.join()
    assert code == 1
    assert "wants its messages at another origin: 'http://127.0.0.1:9/message'" in err
