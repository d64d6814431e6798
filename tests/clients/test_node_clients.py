"""The clients of the TypeScript SDK, both generations, and the bridge mcp-remote, against examples/complete.py."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clients import nodejs
from clients.peer import WatchedServer
from clients.test_python_sdk import ADDRESS, SHOP
from hosts.process import Process, serving_http
from support import HANDSHAKE, SECONDS, STATELESS, request

LAST = HANDSHAKE[-1]


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    nodejs.install()


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Process, str]]:
    with serving_http(SHOP, "--with-sse", "--verbose") as (process, url):
        process.expect(r"serving \S+/sse$")
        yield process, url
        assert "Traceback" not in process.output


@pytest.fixture(params=["stdio", "http", "sse"])
def target(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Where the client finds the server."""
    if request.param != "stdio":
        url = request.getfixturevalue("server")[1]
        return {"url": url} if request.param == "http" else {"sse": url.replace("/mcp", "/sse")}
    return {"command": sys.executable, "args": ["-m", "mcpkit", "run", str(SHOP)]}


@pytest.mark.parametrize(
    ("generation", "mode", "revision"),
    [
        ("v1", "legacy", None),  # it does not tell
        ("v2", "legacy", LAST),
        ("v2", "auto", STATELESS),
        ("v2", STATELESS, STATELESS),
    ],
)
def test_the_typescript_sdk_sees_what_there_is(
    target: dict[str, Any], generation: str, mode: str, revision: str | None
) -> None:
    """Lists, calls with structure, errors, progress and cancellation, resources, prompts, completion: the SDK validates
    all of it, structure against the output schemas as well.
    """
    command = nodejs.command("drive.mjs", generation, json.dumps(target), mode)
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["revision"] == revision
    # A client that is bound to the stateless era asks too, unlike the one of the Python SDK.
    assert (seen["server"], seen["instructions"]) == ("shop", "Search")
    assert seen["tools"][:2] == ["search", "add_to_cart"]
    assert "shop://products/SH-1" in seen["resources"]
    assert seen["templates"][2] == "shop://orders/{number}"
    assert seen["prompts"] == ["find_present", "compare"]
    found = seen["found"] if revision == STATELESS else seen["found"]["result"]
    assert [product["sku"] for product in found] == ["MU-1"]
    assert seen["refused"]["isError"]
    assert seen["refused"]["content"][0]["text"] == "There is no product '??': search for one first."
    assert seen["unknownTool"] == -32602
    assert seen["about"][0]["text"].startswith("# Corner shop")
    # v2 translates the code of the handshake era.
    assert seen["unknownResource"] == (-32002 if generation == "v1" else -32602)
    assert [message["role"] for message in seen["prompt"]] == ["user", "user", "user", "assistant"]
    assert seen["completed"] == ["SH-2"]
    assert seen["total"] == 1890
    # Both generations forget a call with its answer, and see no progress that came in the same read; over HTTP each
    # event is read for itself.
    if "url" in target:
        assert seen["progress"] == ["Packing", "Charging", "Done"]
    assert seen["cancelled"] == ["On its way", "failed"]


@pytest.mark.parametrize(
    ("path", "strategy"), [("/mcp", "http-only"), ("/sse", "sse-only"), ("/sse", "http-first")]
)
def test_mcp_remote_is_a_bridge_from_stdio(
    server: tuple[Process, str], tmp_path: Path, path: str, strategy: str
) -> None:
    """CLIENTS.md: before it connects it looks for OAuth metadata, and makes a session of its own to try. At the URL of
    a stream it falls back from the newer transport to the older one (SSE-07).
    """
    process, url = server[0], server[1].replace("/mcp", path)
    home = {"HOME": str(tmp_path), "MCP_REMOTE_CONFIG_DIR": str(tmp_path)}
    command = nodejs.command("node_modules/mcp-remote/dist/proxy.js", url, "--transport", strategy)
    bridge = WatchedServer(command, env=home)
    try:
        assert bridge.start(LAST)["serverInfo"]["name"] == "shop"
        tools = bridge.ask(1, "tools/list")["result"]["tools"]
        assert tools[0]["name"] == "search"
        cart = call(bridge, 2, "add_to_cart", {"items": [{"sku": "MU-1"}]})["structuredContent"]
        order = call(bridge, 3, "check_out", {"cart_id": cart["id"], "address": ADDRESS})["structuredContent"]
        parcel = {"number": order["number"], "pace": 60}
        params = {"name": "follow_parcel", "arguments": parcel, "_meta": {"progressToken": 0}}
        bridge.send(request(4, "tools/call", params))
        while bridge.receive()["method"] != "notifications/progress":
            pass
        bridge.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}})
        while call(bridge, 5, "follow_parcel", {**parcel, "pace": 0}).get("isError"):
            pass  # nothing says when the cancellation has arrived
        bridge.close_input()
        assert bridge.wait() == 0
    finally:
        bridge.end()
    assert process.count(r"GET \S*/\.well-known/") == process.count(r"GET \S*/\.well-known/\S+ 404") > 4


def call(bridge: WatchedServer, id: int, name: str, arguments: dict[str, Any]) -> Any:
    """The result of a tool."""
    return bridge.ask(id, "tools/call", {"name": name, "arguments": arguments})["result"]
