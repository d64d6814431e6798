"""`mcpkit run --transport http`: where it listens, what it says when it cannot, and how it ends."""

from __future__ import annotations

import re
import signal
import socket
import ssl
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hosts.process import serving_http, started
from support import SECONDS, initialize
from web import HTTP, RUN, SERVER, call, failure, here, make_certificate, posted

from mcpkit import App

BUSY = """

import trio
from mcpkit import Context


@app.tool
async def busy(ctx: Context, seconds: float) -> str:
    await ctx.report_progress(1)
    await trio.sleep(seconds)
    return "done"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_certificate(tmp_path_factory.mktemp("served"))
    (folder / "served.py").write_text(SERVER + BUSY, encoding="utf-8")
    return folder


@pytest.fixture
def script(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A script that is also imported into this process, of which nothing stays."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield str(folder / "served.py")
    for name in set(sys.modules) - before:
        if "served" in name:
            del sys.modules[name]


def over_unix(path: Path) -> httpx.Client:
    return httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), timeout=SECONDS)


# -- The address -----------------------------------------------------------------------------


def test_the_ready_line_has_the_port_that_was_free(script: str) -> None:
    """DESIGN 4.7: with the real port when 0 was asked for, on standard error, once."""
    with serving_http(script) as (process, url):
        assert int(url.removeprefix("http://127.0.0.1:").removesuffix("/mcp")) > 0
        assert call(url, "version") == "one"
        assert process.output == f"mcpkit: My shop serving {url}\n"


def test_an_ipv6_address_is_shown_as_in_urls(script: str) -> None:
    """RFC 3986 section 3.2.2."""
    with serving_http(script, "--host", "::1", "--path", "/other") as (_, url):
        assert url.startswith("http://[::1]:")
        assert url.endswith("/other")
        assert call(url, "version") == "one"


def test_a_port_that_is_taken_is_said(script: str) -> None:
    """One line and exit code 1, with what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = failure("run", script, "--transport", "http", "--port", port)
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use (take another one, or port 0" in said


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (
            "203.0.113.1",
            "cannot listen on 203.0.113.1:0: Cannot assign requested address (it belongs to another",
        ),
        ("", "cannot listen on :0: it is empty"),
        ("unix:", "cannot listen on unix:: it is empty"),
        ("unix:/nowhere/socket", "cannot listen on unix:/nowhere/socket: No such file or directory"),
        ("unix:" + "a" * 200, "AF_UNIX path too long"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_said(script: str, host: str, reason: str) -> None:
    """RFC 5737 addresses belong to nobody; an empty host would be every network of the machine."""
    assert reason in failure("run", script, *HTTP, "--host", host)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder that not even root can write")
def test_a_folder_that_cannot_be_written_is_said(script: str) -> None:
    """Such as /sys."""
    said = failure("run", script, *HTTP, "--host", "unix:/sys/socket")
    assert re.search("cannot listen on unix:/sys/socket: (Permission denied|Operation not permitted)", said)


def test_a_program_gets_the_same_as_an_exception() -> None:
    """`app.run("http")`."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="already in use"):
        App("taken").run("http", port=taken.getsockname()[1])


# -- Unix sockets ----------------------------------------------------------------------------


def test_a_unix_socket_is_served_and_removed(script: str, tmp_path: Path) -> None:
    """DESIGN 4.7: `--host unix:PATH`; the ready line is `unix:PATH`."""
    path = tmp_path / "socket"
    with started([*RUN, script, "--transport", "http", "--host", f"unix:{path}"]) as process:
        process.expect(rf"^mcpkit: My shop serving unix:{path}$")
        assert call("http://localhost/mcp", "version", client=over_unix(path)) == "one"
        process.signal()
        assert process.wait() == 0
        assert not path.exists()


def test_a_stale_socket_is_replaced_and_a_live_one_is_not(script: str, tmp_path: Path) -> None:
    """A server that was killed leaves its socket behind; one that runs must not lose its clients."""
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
        killed.listen()
    words = (script, "--transport", "http", "--host", f"unix:{path}")
    with started([*RUN, *words]) as process:
        process.expect("serving unix:")
        assert "Address already in use" in failure("run", *words)
        assert call("http://localhost/mcp", "version", client=over_unix(path)) == "one"


def test_a_file_in_the_place_of_a_socket_stays(script: str, tmp_path: Path) -> None:
    """A mistyped option must not cost a file."""
    path = tmp_path / "notes.txt"
    path.write_text("important", encoding="utf-8")
    assert f"unix:{path}: Address already in use" in failure("run", script, *HTTP, "--host", f"unix:{path}")
    assert path.read_text(encoding="utf-8") == "important"


def test_a_socket_that_another_server_has_put_there_stays(script: str, tmp_path: Path) -> None:
    """Only one's own is removed."""
    path = tmp_path / "socket"
    with started([*RUN, script, "--transport", "http", "--host", f"unix:{path}"]) as process:
        process.expect("serving unix:")
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
            process.signal()
            assert process.wait() == 0
    assert stat.S_ISSOCK(path.stat().st_mode)


# -- TLS -------------------------------------------------------------------------------------


@pytest.mark.parametrize("files", [("cert.pem", "key.pem"), ("both.pem",)])
def test_tls_is_served(script: str, folder: Path, files: tuple[str, ...]) -> None:
    """DESIGN 4.7: --certfile and --keyfile; without a --keyfile the key is in the same file."""
    names = [str(folder / file) for file in files]
    options = [word for pair in zip(("--certfile", "--keyfile"), names, strict=False) for word in pair]
    with serving_http(script, *options) as (process, url):
        assert url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=folder / "cert.pem")
        assert call(url, "version", client=httpx.Client(verify=trusting, timeout=SECONDS)) == "one"
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(url.replace("https", "http"), timeout=SECONDS)
        process.signal()
        assert process.wait() == 0
        assert process.output.count("\n") == 1


@pytest.mark.parametrize(
    ("certfile", "keyfile", "reason"),
    [
        ("missing.pem", "key.pem", "cannot read {folder}/missing.pem: No such file or directory"),
        ("cert.pem", "missing.pem", "cannot read {folder}/missing.pem: No such file or directory"),
        (
            "served.py",
            "key.pem",
            "served.py and {folder}/key.pem cannot be used: no certificate and key in PEM form",
        ),
        ("cert.pem", "cert.pem", "in {folder}/cert.pem cannot be used: no certificate and key in PEM form"),
        ("cert.pem", "other.pem", "cannot be used: KEY VALUES MISMATCH"),
        ("cert.pem", "locked.pem", "cannot be used: the key is encrypted; take one without a password"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_said(
    script: str, folder: Path, certfile: str, keyfile: str, reason: str
) -> None:
    """One line, exit code 1; and nobody is asked for a password on a terminal."""
    words = ("--certfile", str(folder / certfile), "--keyfile", str(folder / keyfile))
    assert reason.format(folder=folder) in failure("run", script, *HTTP, *words)


def test_a_key_without_a_certificate_is_a_usage_error(script: str, folder: Path) -> None:
    """It would be served in clear text otherwise."""
    code, out, err = here("run", script, *HTTP, "--keyfile", str(folder / "key.pem"))
    assert (code, out, err) == (2, "", "mcpkit: --keyfile needs --certfile\n")


# -- The server ------------------------------------------------------------------------------


def test_what_serves_it_can_be_chosen(script: str) -> None:
    """DESIGN 4.7: --server hypercorn speaks HTTP/2; by default a client is told that HTTP/1.1 is spoken."""
    for options, answer in (((), b"HTTP/1.1 505 "), (("--server", "hypercorn"), b"\0\0")):
        with serving_http(script, *options) as (_, url), socket.socket() as client:
            client.settimeout(SECONDS)
            client.connect((url.split("/")[2].split(":")[0], int(url.split(":")[2].split("/")[0])))
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000"))
            assert client.recv(1000).startswith(answer)
            assert call(url, "version") == "one"


def test_a_server_that_nobody_has_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(ValueError, match="use auto or hypercorn"):
        App("served").run("http", server="apache")


def test_in_clear_text_nothing_else_is_loaded(tmp_path: Path) -> None:
    """A start that takes half a second is one that a client gives up on; hypercorn waits until it is needed."""
    script = tmp_path / "loaded.py"
    script.write_text(
        "import sys\n"
        "from mcpkit import App\n"
        "app = App('loaded')\n"
        "@app.tool\n"
        "async def loaded() -> list[str]:\n"
        "    return sorted({'hypercorn', 'asyncio', 'h11', 'h2', 'joserfc', 'httpx', 'httptools'} & set(sys.modules))\n"
    )
    with serving_http(script) as (_, url):
        assert call(url, "loaded") == '["httptools"]'


# -- The end ---------------------------------------------------------------------------------


def test_open_streams_end_in_order_within_the_grace(script: str) -> None:
    """PITFALLS: shutdown with open streams is finished gracefully, within the grace period, without a traceback.

    The session's own stream, one of changes, and a call that takes too long; a call that does not is answered.
    """
    with serving_http(script, "--grace", "1") as (process, url), httpx.Client(timeout=SECONDS) as client:
        names = {"accept": "application/json, text/event-stream"}
        opened = client.post(url, json=initialize("2025-11-25"), headers=names)
        session = {**names, "mcp-session-id": opened.headers["mcp-session-id"]}
        meta = {"_meta": {"progressToken": 1}}
        quick = posted("tools/call", {"name": "busy", "arguments": {"seconds": 0.3}, **meta}, id=2)
        long = posted("tools/call", {"name": "busy", "arguments": {"seconds": 60}, **meta}, id=3)
        with (
            client.stream("GET", url, headers={**session, "accept": "text/event-stream"}) as own,
            client.stream("POST", url, **quick) as answered,
            client.stream("POST", url, **long) as cut,
        ):
            lines = [stream.iter_lines() for stream in (answered, cut)]
            for begun in lines:
                while "progress" not in next(begun):
                    pass
            process.signal()
            assert '"text":"done"' in "".join(lines[0]), process.output
            assert "result" not in "".join(own.iter_lines())
            assert "result" not in "".join(_until_cut(lines[1]))
        assert process.wait() == 0
        assert process.output.count("\n") == 1, process.output


def _until_cut(lines: Iterator[str]) -> Iterator[str]:
    """What comes until the server ends or cuts the stream."""
    try:
        yield from lines
    except httpx.RemoteProtocolError:
        return


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_0(script: str, number: int) -> None:
    """Idle connections do not hold it up."""
    with serving_http(script) as (process, url), httpx.Client(timeout=SECONDS) as client:
        client.get(url)
        process.signal(number)
        assert process.wait() == 0
        assert process.output.count("\n") == 1


LIFESPAN = """\
import contextlib
import trio
from mcpkit import App


@contextlib.asynccontextmanager
async def lifespan(app):
    print("begun", flush=True)
    {body}
    yield


app = App("never ready", lifespan=lifespan)
"""


def living(tmp_path: Path, body: str) -> list[str]:
    """The command that serves an app whose lifespan begins with `body`."""
    (tmp_path / "lives.py").write_text(LIFESPAN.format(body=body), encoding="utf-8")
    return [*RUN, str(tmp_path / "lives.py"), *HTTP]


def test_a_signal_ends_it_while_it_is_still_starting(tmp_path: Path) -> None:
    """A lifespan that waits for a database that never comes."""
    with started(living(tmp_path, "await trio.sleep_forever()")) as process:
        process.expect("begun")
        process.signal()
        assert process.wait() == 0
        assert process.output == "begun\n"


def test_a_lifespan_that_fails_ends_it_with_its_traceback(tmp_path: Path) -> None:
    """DESIGN 4.7: exit code 1, the app failed; said once, and never ready."""
    with started(living(tmp_path, "raise ConnectionError('no database')")) as process:
        assert process.wait() == 1
        assert process.count("^ConnectionError: no database$") == 1
        assert process.count("^Traceback") == 1
        assert "serving" not in process.output
