"""Real clients over HTTP+SSE: the Python SDK in every revision that it speaks, curl, and our own. The TypeScript SDK is
in `clients.test_node_clients`.

Whatever the Python SDK receives is also validated as it passes (see `clients.messages`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urljoin

import anyio
import mcp_types as types
import pytest
from clients.messages import STATELESS, Watch
from clients.test_python_sdk import SHOP, Logs, _Tap, open_in, value
from clients.test_python_sdk_http import on_asyncio, ordered, until_free
from hosts.process import Process, serving_http
from mcp import Client, ClientSession
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPError
from stream import DESK
from support import HANDSHAKE, REVISIONS, SECONDS, initialize

from mcpkit import testing
from mcpkit.transports.wire import HttpFailure

pytestmark = pytest.mark.once
each_revision = pytest.mark.parametrize("revision", REVISIONS)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving_http(SHOP, "--transport", "sse") as (process, url):
        yield url
        assert "Traceback" not in process.output


@pytest.fixture(scope="module")
def desk() -> Iterator[str]:
    with serving_http(DESK, "--transport", "sse", "--path", "/desk/sse") as (process, url):
        yield url
        assert "Traceback" not in process.output


# -- The Python SDK --------------------------------------------------------------------------


@asynccontextmanager
async def transport(url: str) -> AsyncIterator[Any]:
    """The SDK's transport, validated."""
    watch = Watch()
    async with sse_client(url) as (received, sent):
        yield _Tap(received, watch), _Tap(sent, watch)
    assert watch.validated


@asynccontextmanager
async def session(url: str, revision: str, logs: Logs | None = None) -> AsyncGenerator[ClientSession]:
    """A session of the SDK in the given revision; see the same function for stdio."""
    async with (
        transport(url) as (received, sent),
        ClientSession(received, sent, logging_callback=logs, log_level="info") as opened,
    ):
        await open_in(opened, revision)
        yield opened


@pytest.mark.parametrize(
    ("mode", "revision"), [("auto", STATELESS), (STATELESS, STATELESS), ("legacy", HANDSHAKE[-1])]
)
@on_asyncio
async def test_the_high_level_client_connects_in_each_of_its_modes(
    url: str, mode: str, revision: str
) -> None:
    """It tries the stateless era first, whatever the transport: on this one it is served as on stdio."""
    async with Client(transport(url), mode=mode) as client:
        assert client.protocol_version == revision
        found = await client.call_tool("search", {"query": "mug"})
        assert value(found)[0]["sku"] == "MU-1"


@each_revision
@on_asyncio
async def test_tools_resources_and_prompts_are_there(url: str, revision: str) -> None:
    """SSE-08: with the errors of the revision."""
    async with session(url, revision) as shop:
        assert "search" in {tool.name for tool in (await shop.list_tools()).tools}
        refused = await shop.call_tool("add_to_cart", {"items": [{"sku": "??"}]})
        assert refused.is_error
        with pytest.raises(MCPError) as caught:
            await shop.call_tool("nothing")
        assert caught.value.error.code == -32602
        (logo,) = (await shop.read_resource("shop://logo")).contents
        assert isinstance(logo, types.BlobResourceContents)
        compared = await shop.get_prompt("compare", {"first": "SH-1", "second": "SH-2"})
        assert len(compared.messages) == 4


@each_revision
@on_asyncio
async def test_progress_logs_and_cancellation(url: str, revision: str) -> None:
    """All on the one stream; a call that its client gives up cleans up."""
    logs = Logs()
    progress: list[float] = []
    on_its_way = anyio.Event()

    async def note(done: float, total: float | None, message: str | None) -> None:
        progress.append(done)
        if len(progress) > 3:
            on_its_way.set()

    async with session(url, revision, logs) as shop:
        order = await ordered(shop, progress_callback=note)
        assert (await logs.first()).data == {"order": order["number"], "total": 1890}

        async def follow() -> None:
            arguments = {"number": order["number"], "pace": 60}
            await shop.call_tool("follow_parcel", arguments, progress_callback=note)

        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await on_its_way.wait()
            group.cancel_scope.cancel()
        await until_free(shop, order["number"])
    assert progress[:3] == [1, 2, 3]  # of the order; the next one is of the parcel


@on_asyncio
async def test_the_sdk_answers_what_the_server_asks(desk: str) -> None:
    """S2C-02: elicitation, sampling and roots come on the stream, and their answers are posted."""

    async def elicit(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def sample(context: Any, params: Any) -> types.CreateMessageResult:
        return types.CreateMessageResult(
            role="assistant", model="m", content=types.TextContent(type="text", text="word")
        )

    async def roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///a")])

    asked = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}
    async with transport(desk) as (received, sent), ClientSession(received, sent, **asked) as opened:
        await opened.initialize()
        for tool, said in (("greet", "Hello Ada"), ("compose", "word"), ("roots", "file:///a")):
            assert (await opened.call_tool(tool)).content[0].text == said


# -- Our own ---------------------------------------------------------------------------------


@each_revision
async def test_our_own_client_speaks_it(desk: str, revision: str) -> None:
    """DESIGN 4.8: any revision, at a URL that ends in /sse; questions, progress, errors."""
    progress: list[float] = []
    async with testing.Client(desk, revision=revision, answers={"name": "Ada"}) as client:
        answer = await client.call_tool("count", {"to": 3}, on_progress=lambda p: progress.append(p.progress))
        assert (answer.text, progress) == ("counted", [1, 2, 3])
        if revision >= "2025-06-18":
            assert (await client.call_tool("greet")).text == "Hello Ada"
        assert [contents.text for contents in await client.read_resource("memo://a")] == ["about a"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_our_own_client_sees_that_the_server_has_gone(number: int) -> None:
    """The end of the stream is the end of the connection, and one that breaks off is told as such."""

    async def lose(process: Process, url: str) -> None:
        async with testing.Client(url) as client:
            process.signal(number)
            assert process.wait() == (0 if number == signal.SIGTERM else -number)
            await client.list_tools()

    gone = (testing.Disconnected, HttpFailure)
    with serving_http(DESK, "--transport", "sse") as server, pytest.raises(gone):
        await lose(*server)


# -- curl ------------------------------------------------------------------------------------


@pytest.mark.skipif(
    shutil.which("curl") is None and not os.environ.get("CI"),  # there, what is missing is installed
    reason="curl is not installed",
)
def test_curl_sees_each_event_as_it_comes(url: str) -> None:
    """The shell's way to try a server: `curl -N` in one window, posts in another."""
    curl = ["curl", "--silent", "--show-error", "--noproxy", "*"]
    with subprocess.Popen([*curl, "-N", url], stdout=subprocess.PIPE, text=True) as stream:
        assert stream.stdout is not None
        lines = iter(stream.stdout.readline, "")
        assert next(lines) == "event: endpoint\n"
        endpoint = urljoin(url, next(lines).removeprefix("data: ").strip())
        message = ["-H", "Content-Type: application/json", "-d", json.dumps(initialize("2024-11-05"))]
        shown = ["-w", "%{http_code}", endpoint]
        posted = subprocess.run(
            [*curl, *message, *shown], capture_output=True, text=True, timeout=SECONDS, check=True
        )
        assert posted.stdout == "202"
        assert [next(lines) for _ in range(2)] == ["\n", "event: message\n"]
        answer = json.loads(next(lines).removeprefix("data: "))
        assert answer["result"]["protocolVersion"] == "2024-11-05"
        stream.terminate()
