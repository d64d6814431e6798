"""Each round may reach another process: all that they share is MCPKIT_STATE_KEYS."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from asking.asking_kit import ALL, STATELESS, accept
from clients.peer import WatchedServer, watched
from hosts.process import serving_http
from support import OVER_HTTP, PREFIX, STDIO_AND_HTTP

SCRIPT = Path(__file__).with_name("questionnaire.py")
KEYS = "a:" + base64.urlsafe_b64encode(bytes(range(32))).decode()
TABLE = {"number": 7, "area": "inside", "day": "2030-01-02"}
META = {PREFIX + "protocolVersion": STATELESS, PREFIX + "clientCapabilities": ALL}


def params(name: str, last: Any = None, **responses: Any) -> Any:
    """The params of a call, or of its next round."""
    request = {"name": name, "arguments": {"name": "Ada"}, "_meta": META}
    return (
        request
        if last is None
        else {
            **request,
            "requestState": last["requestState"],
            "inputResponses": responses,
        }
    )


class Stdio:
    """A server on standard streams."""

    def __init__(self, server: WatchedServer) -> None:
        self._server = server
        self._id = 0

    def call(self, params: Any) -> Any:
        self._id += 1
        self._server.send({"jsonrpc": "2.0", "id": self._id, "method": "tools/call", "params": params})
        return self._server.receive_until(self._id)[0]


class Http:
    """A server at a URL."""

    def __init__(self, url: str) -> None:
        self._url = url

    def call(self, params: Any) -> Any:
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": STATELESS,
            "mcp-method": "tools/call",
            "mcp-name": params["name"],
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return httpx.post(self._url, json=body, headers=headers, timeout=20).json()


@contextmanager
def process(transport: str) -> Iterator[Stdio | Http]:
    """A process of its own."""
    if transport == "stdio":
        with watched(SCRIPT) as server:
            yield Stdio(server)
    else:
        with serving_http(SCRIPT) as (_, url):
            yield Http(url)


@pytest.mark.parametrize("transport", STDIO_AND_HTTP)
@pytest.mark.parametrize("kind", ["", "_sync", "_asyncio"])
def test_each_round_on_another_process(
    transport: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MRTR-05, SEC-04: the second process goes on where the first has left off; steps are taken once."""
    steps = tmp_path / "steps"
    monkeypatch.setenv("STEPS", str(steps))
    monkeypatch.setenv("MCPKIT_STATE_KEYS", KEYS)
    tool = f"book{kind}"
    with process(transport) as one, process(transport) as two:
        first = one.call(params(tool))["result"]
        assert list(first["inputRequests"]) == ["question_1"]
        second = two.call(params(tool, first, question_1=accept(area="inside")))["result"]
        assert list(second["inputRequests"]) == ["question_2"]
        assert "table 7 on the inside" in second["inputRequests"]["question_2"]["params"]["message"]
        last = one.call(params(tool, second, question_2=accept(proceed=True)))["result"]
    assert last["structuredContent"] == {"table": TABLE, "guests": 2, "paid": True}
    assert steps.read_text().split() == ["reserve", "pay"]


@OVER_HTTP
def test_the_transport_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round over stdio, the next over HTTP; a process with another key refuses."""
    monkeypatch.setenv("MCPKIT_STATE_KEYS", KEYS)
    with process("stdio") as one, process("http") as two:
        first = one.call(params("book"))["result"]
        second = two.call(params("book", first, question_1=accept(area="inside")))["result"]
        assert second["resultType"] == "input_required"
        monkeypatch.setenv("MCPKIT_STATE_KEYS", "a:" + base64.urlsafe_b64encode(bytes(32)).decode())
        with process("stdio") as other:
            refused = other.call(params("book", second, question_2=accept(proceed=True)))
    assert refused["error"]["code"] == -32602
    assert "requestState" in json.dumps(refused)
