"""`mcpkit run -v`: a line for each request and its answer, with nothing in it that is nobody's business."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hosts.process import Process, serving_http
from support import SECONDS, STATELESS, Server, initialize, request, serving
from web import posted

from mcpkit.engine import access

SCRIPT = """\
from typing import Literal

import trio
from mcpkit import App, Context, NotFound, ToolError

app = App("talkative")


@app.tool
def add(a: int, secret: str = "") -> str:
    return f"result-{a}"


@app.tool
def refuse(secret: str) -> str:
    raise ToolError(f"no-{secret}")


@app.tool
async def wait(ctx: Context, seconds: float) -> str:
    await ctx.report_progress(1)
    await trio.sleep(seconds)
    return "waited"


@app.resource("docs://{name}")
def doc(name: str) -> str:
    if name == "none":
        raise NotFound(f"secret-{name}")
    return "contents"


@app.prompt
def greet(mood: Literal["kind", "harsh"]) -> str:
    return "hello"
"""
MS = r"\d+\.\d ms"


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("talkative") / "talkative.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


# -- HTTP ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def web(script: Path) -> Iterator[tuple[Process, str]]:
    with serving_http(script, "-v") as served:
        yield served


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=SECONDS) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "params", "line"),
    [
        ("server/discover", {}, "server/discover id=ID 200"),
        ("tools/list", {}, "tools/list id=ID 200"),
        ("tools/call", {"name": "add", "arguments": {"a": 1}}, "tools/call add id=ID 200"),
        (
            "tools/call",
            {"name": "refuse", "arguments": {"secret": "s"}},
            "tools/call refuse id=ID 200 isError",
        ),
        ("tools/call", {"name": "nope"}, r"tools/call nope id=ID \d+ -32602"),
        ("resources/read", {"uri": "docs://a"}, "resources/read docs://a id=ID 200"),
        ("resources/read", {"uri": "docs://none"}, r"resources/read docs://none id=ID \d+ -32602"),
        ("prompts/get", {"name": "greet", "arguments": {"mood": "kind"}}, "prompts/get greet id=ID 200"),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "mood", "value": "k"}},
            "completion/complete greet id=ID 200",
        ),
        ("no/such", {}, r"no/such id=ID 404 -32601"),
    ],
)
def test_a_request_is_one_line(
    web: tuple[Process, str], client: httpx.Client, method: str, params: dict[str, Any], line: str
) -> None:
    """Method, name (tool, prompt or URI), id, status and error code, milliseconds."""
    process, url = web
    unique = uuid.uuid4().hex
    names = (
        {"mcp-name": params.get("uri", params.get("name", ""))} if "name" in params or "uri" in params else {}
    )
    client.post(url, **posted(method, params, id=unique, **names))
    process.expect(f"^mcpkit: {line.replace('ID', unique)} {MS}$")
    assert process.count(unique) == 1


def test_the_end_of_a_stream_counts(web: tuple[Process, str], client: httpx.Client) -> None:
    """The answer is in its last event, after the progress."""
    process, url = web
    params = {"name": "wait", "arguments": {"seconds": 0}, "_meta": {"progressToken": 1}}
    assert '"progress"' in client.post(url, **posted("tools/call", params, id="streamed")).text
    process.expect(f"^mcpkit: tools/call wait id=streamed 200 {MS}$")
    bad = {"name": "wait", "arguments": {"seconds": "x"}, "_meta": {"progressToken": 1}}
    client.post(url, **posted("tools/call", bad, id="bad"))
    process.expect(f"^mcpkit: tools/call wait id=bad 200 isError {MS}$")


def test_a_call_whose_client_left_is_unanswered(web: tuple[Process, str], client: httpx.Client) -> None:
    """Leaving is how a stateless client cancels (HM-15)."""
    process, url = web
    params = {"name": "wait", "arguments": {"seconds": 600}, "_meta": {"progressToken": 1}}
    with client.stream("POST", url, **posted("tools/call", params, id="left")) as response:
        next(response.iter_lines())
    process.expect(f"^mcpkit: tools/call wait id=left 200 unanswered {MS}$")


def test_a_session_is_shown_as_it_goes(web: tuple[Process, str], client: httpx.Client) -> None:
    """Notifications and the other verbs have a status, too; the id of the session is a secret."""
    process, url = web
    names = {"accept": "application/json, text/event-stream"}
    opened = client.post(url, json=initialize("2025-03-26", "open"), headers=names)
    session = opened.headers["mcp-session-id"]
    names["mcp-session-id"] = session
    client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=names)
    client.post(
        url, json=request("called", "tools/call", {"name": "add", "arguments": {"a": 7}}), headers=names
    )
    client.post(url, json=[request(1, "ping"), request(2, "ping")], headers=names)
    with client.stream("GET", url, headers={**names, "accept": "text/event-stream"}):
        client.delete(url, headers=names)
    for line in (
        "initialize id=open 200",
        "notifications/initialized 202",
        "tools/call add id=called 200",
        "batch of 2 200",
        "DELETE /mcp 204",
        "GET /mcp 200",
    ):
        process.expect(f"^mcpkit: {line} {MS}$")
    assert session not in process.output


def test_what_is_wrong_before_the_protocol_begins_is_shown(
    web: tuple[Process, str], client: httpx.Client
) -> None:
    """A wrong path is what people look for here."""
    process, url = web
    client.post(url + "/wrong?token=secret", json={})
    process.expect(rf"^mcpkit: POST /mcp/wrong 404 {MS}$")
    client.put(url)
    process.expect(rf"^mcpkit: PUT /mcp 405 -32600 {MS}$")
    client.post(url, content="{", headers={"content-type": "text/plain"})
    process.expect(rf"^mcpkit: POST /mcp 415 -32600 {MS}$")
    client.post(url, content="{", headers={"content-type": "application/json"})
    process.expect(rf"^mcpkit: invalid 400 -32700 {MS}$")


def test_nothing_that_is_secret_is_shown(web: tuple[Process, str], client: httpx.Client) -> None:
    """Neither arguments nor results, neither headers nor the texts of errors."""
    process, url = web
    headers = {"authorization": "Bearer token-123", "cookie": "cookie-123"}
    for id, name in (("first", "add"), ("second", "refuse")):
        params = {"name": name, "arguments": {"a": 123456, "secret": "hidden"}}
        client.post(f"{url}?query=query-123", **posted("tools/call", params, id=id, **headers))
    process.expect("id=second 200 isError")
    shown = process.output
    for secret in (
        "token-123",
        "cookie-123",
        "query-123",
        "123456",
        "hidden",
        "result-",
        "no-",
        "secret-none",
    ):
        assert secret not in shown


def test_what_a_client_sends_stays_in_its_line(web: tuple[Process, str], client: httpx.Client) -> None:
    """Line ends and escape sequences would forge lines or drive the terminal; very long names are cut."""
    process, url = web
    name, evil = "n" * 1000, "evil\nmcpkit: forged\x1b[31m"
    client.post(url, json=request(evil, "tools/call", {"name": name}))
    shown = re.escape(r"id=evil\nmcpkit: forged\x1b[31m")
    process.expect(rf"^mcpkit: tools/call n{{200}} {shown} \d+ ")
    assert "\x1b" not in process.output


def test_without_it_only_the_ready_line_is_there(script: Path, client: httpx.Client) -> None:
    """And the logger is left alone: it costs nothing."""
    with serving_http(script) as (process, url):
        client.post(url, **posted("tools/list"))
        client.post(url + "/wrong", json={})
        process.signal()
        assert process.wait() == 0
        assert process.output == f"mcpkit: talkative serving {url}\n"
    assert not access.enabled()


# -- stdio -----------------------------------------------------------------------------------


def lines(server: Server) -> list[str]:
    """What was logged, without the time that it took."""
    server.close_input()
    assert server.wait() == 0
    logged = server.errors.splitlines()
    assert all(re.fullmatch(rf"mcpkit: .*[^ ]( {MS})?", line) for line in logged)
    return [re.sub(f" {MS}$", "", line.removeprefix("mcpkit: ")) for line in logged]


def test_over_stdio_it_is_the_same_without_a_status(script: Path) -> None:
    """Notifications are not shown: they have no answer. What is no request has no name."""
    with serving(script, "-v") as server:
        server.start("2025-11-25")
        for id, name in ((1, "add"), ("1", "refuse"), (2, "nope")):
            server.ask(id, "tools/call", {"name": name, "arguments": {"a": 1234567, "secret": "hidden"}})
        server.ask(3, "ping")
        server.ask(4, "resources/read", {"uri": "docs://none"})
        server.ask(5, "server/discover", revision=STATELESS)
        server.send(b"junk\n", {"jsonrpc": "2.0", "id": True, "method": "ping"}, {"jsonrpc": "1.0", "id": 6})
        for _ in range(3):
            server.receive()
        assert lines(server) == [
            "initialize id=init ok",
            "tools/call add id=1 ok",
            "tools/call refuse id=1 isError",
            "tools/call nope id=2 -32602",
            "ping id=3 ok",
            "resources/read docs://none id=4 -32002",
            "server/discover id=5 ok",
            "invalid -32700",
            "invalid -32600",
            "invalid id=6 -32600",
        ]
        assert "hidden" not in server.errors
        assert "1234567" not in server.errors


def test_over_stdio_a_cancelled_call_is_shown_as_such(script: Path) -> None:
    """It has no answer, and it was asked for; a request that reuses its id is told apart from it."""
    with serving(script, "-v") as server:
        server.start("2025-11-25")
        server.send(request("a", "tools/call", {"name": "wait", "arguments": {"seconds": 600}}))
        server.ask("a", "ping")
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}})
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "b"}})
        server.ask("c", "ping")
        assert lines(server)[1:] == ["ping id=a -32600", "tools/call wait id=a cancelled", "ping id=c ok"]


def test_over_stdio_the_requests_of_a_batch_have_a_line_each(script: Path) -> None:
    """Batches exist in one revision (BAT-01)."""
    with serving(script, "-v") as server:
        server.start("2025-03-26")
        server.send([request(1, "ping"), request(2, "tools/call", {"name": "add", "arguments": {"a": 1}})])
        assert {reply["id"] for reply in server.receive()} == {1, 2}
        assert lines(server)[1:] == ["ping id=1 ok", "tools/call add id=2 ok"]


def test_over_stdio_a_script_that_logs_by_itself_sees_each_line_once(script: Path, tmp_path: Path) -> None:
    """A root handler of the script must not double them, nor switch them off."""
    loud = tmp_path / "loud.py"
    setup = "import logging, logging.config\nlogging.basicConfig(level=logging.INFO)\n"
    loud.write_text(f"{setup}logging.config.dictConfig({{'version': 1}})\n{SCRIPT}", encoding="utf-8")
    with serving(loud, "-v") as server:
        server.start("2025-11-25")
        assert lines(server) == ["initialize id=init ok"]
