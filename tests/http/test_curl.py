"""Status codes and headers as curl sees them: an HTTP client that knows nothing of the protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hosts.process import APPS, serving_http
from support import SECONDS, STATELESS, initialize, meta, otherwise, request

pytestmark = pytest.mark.skipif(
    shutil.which("curl") is None and not os.environ.get("CI"),  # there, what is missing is installed
    reason="curl is not installed",
)

TYPE = ("-H", "Content-Type: application/json")
ACCEPT = ("-H", "Accept: application/json, text/event-stream")
POST = (*TYPE, *ACCEPT)
VERSION = ("-H", f"MCP-Protocol-Version: {STATELESS}")
LIST = ("-d", json.dumps(request(1, "tools/list", revision=STATELESS)))
ASK = (*VERSION, "-H", "Mcp-Method: tools/list", *LIST)
LISTING = (*POST, *ASK)


class Answer(NamedTuple):
    """What curl says about an answer."""

    status: int
    headers: dict[str, str]
    body: str


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving_http(APPS, "--allow-origin", "https://example.com") as (process, url):
        yield url
        assert "Traceback" not in process.output


def curl(url: str, *options: str) -> Answer:
    """Run curl: `-i` puts the headers before the body."""
    command = ["curl", "--silent", "--show-error", "--include", "--noproxy", "*", *options, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    head, _, body = done.stdout.partition("\n\n")
    while " 100 " in head.split("\n")[0] or " 101 " in head.split("\n")[0]:
        head, _, body = body.partition("\n\n")
    first, *lines = head.splitlines()
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Answer(int(first.split()[1]), headers, body)


GOOD = {
    "a plain request": LISTING,
    "a slash at the end": ("--request-target", "/mcp/", *LISTING),
    "HTTP/1.0": ("--http1.0", *LISTING),
    "a chunked body": ("-H", "Transfer-Encoding: chunked", *LISTING),
    "a body that waits to be asked for": ("-H", "Expect: 100-continue", *LISTING),
    "any answer will do": ("-H", "Accept: */*", *TYPE, *ASK),
    "a page of this machine": ("-H", "Origin: http://localhost:3000", *LISTING),
    "a page that is allowed": ("-H", "Origin: https://example.com", *LISTING),
    "another case in the type": ("-H", "Content-Type: APPLICATION/JSON; charset=utf-8", *ACCEPT, *ASK),
}


@pytest.mark.parametrize("options", GOOD.values(), ids=GOOD.keys())
def test_good_requests_are_answered_with_json(url: str, options: tuple[str, ...]) -> None:
    """PITFALLS, HTTP; HM-06: the same answer in every way to ask for it."""
    listed(curl(url, *options))


@otherwise(
    "uvicorn", "loses the body of a request that offers an upgrade (with httptools; with h11 it does not)"
)
def test_an_upgrade_that_is_offered_is_no_condition(url: str) -> None:
    """RFC 9110 section 7.8: whether HTTP/2 is there or not, the request is answered."""
    listed(curl(url, "--http2", *LISTING))


def listed(answer: Answer) -> None:
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in answer.headers
    assert json.loads(answer.body)["result"]["tools"][0]["name"] == "add"


BAD: dict[str, tuple[int, tuple[str, ...]]] = {
    "GET without a session": (400, ("-H", "Accept: text/event-stream")),
    "GET in the stateless era": (405, VERSION),
    "HEAD": (405, ("--head",)),
    "PUT": (405, ("-X", "PUT", *LISTING)),
    "DELETE without a session": (400, ("-X", "DELETE")),
    "DELETE of no session": (404, ("-X", "DELETE", "-H", "Mcp-Session-Id: none")),
    "another path": (404, ("--request-target", "/", *LISTING)),
    "another type": (415, ("-H", "Content-Type: text/plain", *ACCEPT, *ASK)),
    "no type": (415, ("-H", "Content-Type:", *ACCEPT, *ASK)),
    "an answer that nobody gives": (406, ("-H", "Accept: text/html", *TYPE, *ASK)),
    "no JSON": (400, (*POST, "-d", "{")),
    "no header for the method": (400, (*POST, *VERSION, *LIST)),
    "a host of somebody else": (403, ("-H", "Host: evil.example.com", *LISTING)),
    "a page of somebody else": (403, ("-H", "Origin: https://evil.example.com", *LISTING)),
    "a page of nobody": (403, ("-H", "Origin: null", *LISTING)),
}


@pytest.mark.parametrize(("status", "options"), BAD.values(), ids=BAD.keys())
def test_bad_requests_are_refused(url: str, status: int, options: tuple[str, ...]) -> None:
    """PITFALLS, HTTP: never a session, never a redirect, never 500."""
    answer = curl(url, *options)
    assert answer.status == status
    assert "mcp-session-id" not in answer.headers
    assert "location" not in answer.headers
    if status == 405:
        assert "POST" in answer.headers["allow"]


def test_an_unknown_method_is_not_found(url: str) -> None:
    """HM-23: with a body that says so, which tells it from a wrong URL."""
    body = json.dumps(request("x", "nothing", revision=STATELESS))
    answer = curl(url, *POST, *VERSION, "-H", "Mcp-Method: nothing", "-d", body)
    assert answer.status == 404
    assert json.loads(answer.body)["error"]["code"] == -32601


def test_a_session_is_named_in_a_header(url: str) -> None:
    """HL-06, HL-08, HL-09: minted with the answer to `initialize`, and gone after DELETE."""
    opened = curl(url, *POST, "-d", json.dumps(initialize("2025-11-25")))
    assert opened.status == 200
    named = ("-H", f"Mcp-Session-Id: {opened.headers['mcp-session-id']}")
    ready = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    told = curl(url, *POST, *named, "-d", ready)
    assert (told.status, told.body) == (202, "")
    assert curl(url, "-X", "DELETE", *named).status == 204
    assert curl(url, *POST, *named, "-d", ready).status == 404


def test_a_stream_is_one_that_proxies_leave_alone(url: str) -> None:
    """HM-12: asked for with a progress token; each event is one line of data."""
    params: dict[str, Any] = {"name": "wave", "arguments": {}, "_meta": meta(progressToken="t")}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    names = ("-H", "Mcp-Method: tools/call", "-H", "Mcp-Name: wave")
    answer = curl(url, "--no-buffer", *POST, *VERSION, *names, "-d", body)
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    data = [json.loads(line[6:]) for line in answer.body.splitlines() if line.startswith("data: ")]
    assert data[0]["params"] == {"progressToken": "t", "progress": 1, "message": "hello"}
    assert data[1]["id"] == 1


@pytest.mark.parametrize("chunked", [True, False])
def test_a_large_body_is_refused_while_it_is_sent(url: str, tmp_path: Path, chunked: bool) -> None:
    """PITFALLS, HTTP: 413 without a dead-lock. curl sends all of it unless it is told to stop."""
    large = tmp_path / "large.json"
    large.write_bytes(b" " * 50_000_000)
    coding = ("-H", "Transfer-Encoding: chunked") if chunked else ()
    answer = curl(url, *POST, *coding, "-H", "Expect:", "--data-binary", f"@{large}")
    assert answer.status == 413


def test_a_preflight_is_answered_without_credentials(url: str) -> None:
    """PITFALLS, HTTP: 204, with the headers that may be sent, those that may be read, and nothing else."""
    asked = ("-H", "Access-Control-Request-Method: POST", "-H", "Access-Control-Request-Headers: mcp-param-x")
    answer = curl(url, "-X", "OPTIONS", "-H", "Origin: https://example.com", *asked)
    assert (answer.status, answer.body) == (204, "")
    allowed = answer.headers["access-control-allow-headers"].lower()
    for name in ("mcp-session-id", "mcp-protocol-version", "authorization", "last-event-id", "mcp-param-x"):
        assert name in allowed
    assert "Mcp-Session-Id" in answer.headers["access-control-expose-headers"]
    assert answer.headers["access-control-allow-origin"] == "https://example.com"
