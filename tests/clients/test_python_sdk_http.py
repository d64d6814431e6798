"""The client of the official Python SDK drives examples/complete.py over Streamable HTTP, in every revision that it
speaks. Whatever the server sends is also validated as it passes (see `messages`).

One server serves all tests, as it would serve many clients: each test has a cart and an order of its own.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import httpx2
import mcp_types as types
import pytest
from clients.messages import STATELESS, Watch
from clients.test_python_sdk import ADDRESS, SHOP, Logs, _Tap, open_in, value
from hosts.process import serving_http
from mcp import Client, ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from support import HANDSHAKE, SECONDS

REVISIONS = (*HANDSHAKE[1:], STATELESS)

each_revision = pytest.mark.parametrize("revision", REVISIONS)


def on_asyncio(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an `async def` test on asyncio: on trio the SDK's HTTP client leaves generators unfinished, with warnings."""

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        async def limited() -> None:
            with anyio.fail_after(SECONDS):
                await test(**arguments)

        anyio.run(limited)

    return run


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving_http(SHOP) as (process, url):
        yield url
        assert "Traceback" not in process.output


@asynccontextmanager
async def transport(
    url: str, watch: Watch | None = None, http: httpx2.AsyncClient | None = None
) -> AsyncIterator[Any]:
    """The SDK's HTTP transport, validated."""
    watch = watch or Watch()
    async with streamable_http_client(url, http_client=http) as (received, sent):
        yield _Tap(received, watch), _Tap(sent, watch)
    assert watch.validated


@asynccontextmanager
async def session(
    url: str, revision: str, logs: Logs | None = None, http: httpx2.AsyncClient | None = None
) -> AsyncGenerator[ClientSession]:
    """A session of the SDK in the given revision; see the same function for stdio."""
    async with (
        transport(url, http=http) as (received, sent),
        ClientSession(received, sent, logging_callback=logs, log_level="info") as opened,
    ):
        await open_in(opened, revision)
        yield opened


async def ordered(shop: ClientSession, **more: Any) -> dict[str, Any]:
    """Place an order, from a cart of one's own; what the tool answers, from its text."""
    cart = _text(await shop.call_tool("add_to_cart", {"items": [{"sku": "MU-1"}]}))
    arguments = {"cart_id": json.loads(cart)["id"], "address": ADDRESS}
    return dict(json.loads(_text(await shop.call_tool("check_out", arguments, **more))))


def _text(result: types.CallToolResult) -> str:
    assert not result.is_error, result
    assert result.content[0].type == "text"
    return result.content[0].text


@pytest.mark.parametrize(
    ("mode", "revision"), [("auto", STATELESS), (STATELESS, STATELESS), ("legacy", HANDSHAKE[-1])]
)
@on_asyncio
async def test_the_high_level_client_connects_in_each_of_its_modes(
    url: str, mode: str, revision: str
) -> None:
    """The same URL serves both eras: which one is decided for each request."""
    async with Client(transport(url), mode=mode) as client:
        assert client.protocol_version == revision
        found = await client.call_tool("search", {"query": "mug"})
        assert value(found)[0]["sku"] == "MU-1"


@each_revision
@on_asyncio
async def test_tools_are_listed_and_called(url: str, revision: str) -> None:
    """HL-04, HM-06: structured results as JSON, failures that the model sees, an unknown tool."""
    async with session(url, revision) as shop:
        tools = {tool.name: tool for tool in (await shop.list_tools()).tools}
        assert tools["search"].input_schema["properties"]["category"]["enum"][0] == "clothing"
        found = await shop.call_tool("search", {"query": "shirt"})
        if revision >= "2025-06-18":
            assert [product["sku"] for product in value(found)] == ["SH-1", "SH-2"]
        refused = await shop.call_tool("add_to_cart", {"items": [{"sku": "??"}]})
        assert refused.is_error
        with pytest.raises(MCPError) as caught:
            await shop.call_tool("nothing")
        assert caught.value.error.code == -32602


@each_revision
@on_asyncio
async def test_progress_and_logs_arrive_on_the_stream_of_their_call(url: str, revision: str) -> None:
    """HM-11, HL-12."""
    logs = Logs()
    progress: list[float] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        progress.append(done)

    async with session(url, revision, logs) as shop:
        order = await ordered(shop, progress_callback=note)
        log = await logs.first()
    assert progress == [1, 2, 3]
    assert log.data == {"order": order["number"], "total": 1890}


@each_revision
@on_asyncio
async def test_a_call_is_cancelled_and_cleans_up(url: str, revision: str) -> None:
    """HM-15: in the stateless era by leaving the response; with a handshake by a notification."""
    on_its_way = anyio.Event()

    async def note(done: float, total: float | None, message: str | None) -> None:
        on_its_way.set()

    async with session(url, revision) as shop:
        number = (await ordered(shop))["number"]

        async def follow() -> None:
            await shop.call_tool("follow_parcel", {"number": number, "pace": 60}, progress_callback=note)

        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            await on_its_way.wait()
            again = await shop.call_tool("follow_parcel", {"number": number, "pace": 0})
            assert again.is_error
            group.cancel_scope.cancel()
        await until_free(shop, number)


async def until_free(shop: ClientSession, number: int) -> None:
    """Call until the parcel can be followed again: nothing says when a cancellation has arrived."""
    while (await shop.call_tool("follow_parcel", {"number": number, "pace": 0})).is_error:
        pass


@each_revision
@on_asyncio
async def test_calls_run_at_the_same_time(url: str, revision: str) -> None:
    """HM-25: many POSTs at once, each with its own answer."""
    found: dict[str, str] = {}
    async with session(url, revision) as shop:
        await shop.list_tools()

        async def look(query: str) -> None:
            found[query] = _text(await shop.call_tool("search", {"query": query}))

        async with anyio.create_task_group() as group:
            for letter in "abcdefghijklmnopqrstuvwxyz":
                group.start_soon(look, letter)
    assert "Rake" in found["k"]
    assert found["z"] == "[]"


@each_revision
@on_asyncio
async def test_resources_prompts_and_completion(url: str, revision: str) -> None:
    """The URI and the names are in headers in the stateless era, which the SDK writes (HM-18)."""
    async with session(url, revision) as shop:
        assert len((await shop.list_resource_templates()).resource_templates) == 3
        (logo,) = (await shop.read_resource("shop://logo")).contents
        assert isinstance(logo, types.BlobResourceContents)
        assert base64.b64decode(logo.blob).startswith(b"\x89PNG")
        for uri in ("shop://nothing", "shop://products/süß"):
            with pytest.raises(MCPError) as caught:
                await shop.read_resource(uri)
            assert caught.value.error.code == (-32602 if revision == STATELESS else -32002)
        compared = await shop.get_prompt("compare", {"first": "SH-1", "second": "SH-2"})
        assert len(compared.messages) == 4
        compare = types.PromptReference(name="compare")
        second = await shop.complete(compare, {"name": "second", "value": "sh"}, {"first": "SH-1"})
        assert second.completion.values == ["SH-2"]


@on_asyncio
async def test_the_client_ends_its_session(url: str) -> None:
    """HL-09: the SDK sends DELETE when it leaves; then the id is unknown."""
    used: list[httpx2.Request] = []

    async def note(request: httpx2.Request) -> None:
        used.append(request)

    async with (
        httpx2.AsyncClient(event_hooks={"request": [note]}) as http,
        session(url, HANDSHAKE[-1], http=http) as shop,
    ):
        await shop.list_tools()
    assert used[-1].method == "DELETE"
    headers = {name: used[-1].headers[name] for name in ("mcp-session-id", "mcp-protocol-version")}
    async with httpx.AsyncClient() as after:
        assert (await after.delete(url, headers=headers)).status_code == 404
