"""`mcpkit call` and `mcpkit inspect` of a server that runs already."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.process import serving_http
from web import SERVER, cli, failure, here, make_certificate

ECHO = """

from mcpkit import Context


@app.tool
async def double(ctx: Context, number: int) -> dict[str, int]:
    await ctx.report_progress(1, total=2, message="half")
    return {"twice": 2 * number}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_certificate(tmp_path_factory.mktemp("served"))
    (folder / "server.py").write_text(SERVER + ECHO, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """A running server."""
    with serving_http(folder / "server.py") as (_, url):
        yield url


def test_call_prints_what_the_tool_returns(url: str) -> None:
    """DESIGN 4.7: TARGET may be a running server's URL; progress is on standard error."""
    done = cli("call", url, "double", "number=2")
    assert (done.returncode, done.stderr, done.stdout) == (0, "1/2 half\n", '{"twice":4}\n')


def test_a_tool_that_fails_is_exit_code_1(url: str) -> None:
    """Its text is on standard error, as with a script."""
    assert here("call", url, "refuse", "secret=x") == (1, "", "No.\n")


def test_inspect_shows_the_same_as_of_the_script(url: str, folder: Path) -> None:
    """What a client sees does not depend on the transport."""
    over_http, over_stdio = (cli("inspect", target, "--json") for target in (url, str(folder / "server.py")))
    assert over_http.returncode == 0
    assert over_http.stdout == over_stdio.stdout
    assert "tool version" in here("inspect", url)[1]


def test_headers_for_a_script_are_a_usage_error(folder: Path) -> None:
    """Standard input has none; exit code 2."""
    for words in (("inspect", str(folder / "server.py")), ("call", str(folder / "server.py"), "version")):
        code, out, err = here(*words, "--header", "A=b")
        assert (code, out) == (2, "")
        assert "--header is for servers that are reached at a URL" in err


# -- What can be wrong: one line, exit code 1 ------------------------------------------------


def test_a_wrong_path_is_said(url: str) -> None:
    """With what the path should be."""
    assert f"{url}x answered 404 Not Found: is this the path of the endpoint? It is /mcp" in failure(
        "inspect", f"{url}x"
    )
    assert "404 Not Found" in failure("call", f"{url}x", "version")


def test_nothing_listening_is_said() -> None:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"
    assert f"{url} cannot be reached: " in failure("inspect", url)


@pytest.mark.parametrize("url", ["http://", "http://[::1/mcp", "https://127.0.0.1:99999/mcp"])
def test_what_is_no_url_is_said(url: str) -> None:
    """Not a traceback of the HTTP library."""
    assert "cannot be reached" in failure("inspect", url)


def test_a_refusal_of_the_server_is_said(url: str) -> None:
    """It has no request id (HTTP 403), and still answers this request."""
    assert "this server is not reached as 'evil.example'" in failure(
        "inspect", url, "--header", "Host=evil.example"
    )


def test_a_certificate_that_is_not_trusted_is_said(folder: Path) -> None:
    """Self-signed; and SSL_CERT_FILE makes it trusted."""
    tls = ("--certfile", str(folder / "cert.pem"), "--keyfile", str(folder / "key.pem"))
    with serving_http(folder / "server.py", *tls) as (_, url):
        assert url.startswith("https://127.0.0.1:")
        assert "its certificate is not trusted: self-signed certificate" in failure("inspect", url)
        done = cli("call", url, "version", SSL_CERT_FILE=str(folder / "cert.pem"))
        assert (done.returncode, done.stdout) == (0, "one\n")


class _Page(http.server.BaseHTTPRequestHandler):
    """Answers what its path says: /STATUS/TYPE/SUBTYPE/BODY, where the body may name a header of the request."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        status, kind, subtype, body = self.path.strip("/").split("/")
        body = self.headers.get(body, body)
        self.send_response(int(status))
        self.send_header("content-type", f"{kind}/{subtype}")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *arguments: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """A server of something else."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("200/text/html/hello", "answered 200 OK: no message of the protocol, but text/html"),
        ("501/text/html/hello", "answered 501 Not Implemented\n"),
        ("502/text/plain/busy", "answered 502 Bad Gateway: busy\n"),
        ("401/application/json/0", "answered 401 Unauthorized: 0\n"),
        ("299/text/plain/x", "answered 299: no message"),
        ("200/application/json/{}", "not a JSON-RPC message"),
        ("200/application/json/[", "not a JSON-RPC message"),
        ("200/application/json/7", "not a JSON-RPC message"),
    ],
)
def test_a_server_of_something_else_is_said(page: str, path: str, reason: str) -> None:
    """A web site, a proxy, another protocol: never waited for without an end."""
    assert reason in failure("inspect", f"{page}/{path}")


def test_headers_are_sent(page: str) -> None:
    """Such as a token; `=` in its value belongs to it."""
    words = ("--header", "Authorization=Bearer abc==", "--header", "X-Other=1")
    assert "400 Bad Request: Bearer abc==\n" in failure(
        "inspect", f"{page}/400/text/plain/authorization", *words
    )
    assert "400 Bad Request: 1\n" in failure("call", f"{page}/400/text/plain/x-other", "tool", *words)
    as_curl_has_it = ("--header", "X-Other: a=b: c")
    assert "400 Bad Request: a=b: c\n" in failure(
        "inspect", f"{page}/400/text/plain/x-other", *as_curl_has_it
    )
