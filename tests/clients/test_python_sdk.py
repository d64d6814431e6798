"""The client of the official Python SDK drives examples/complete.py over stdio, in every revision that it speaks.

Whatever the server sends is also validated as it passes (see `messages`).
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from clients.messages import STATELESS, Watch
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from support import HANDSHAKE, REVISIONS

SHOP = Path(__file__).parents[2] / "examples" / "complete.py"
ADDRESS = {"name": "A. Customer", "street": "Main Street 1", "city": "Oslo", "country": "NO"}
SERVER = StdioServerParameters(command=sys.executable, args=["-m", "mcpkit", "run", str(SHOP)])

each_revision = pytest.mark.parametrize("revision", REVISIONS)


class _Tap:
    """A stream of the SDK, either way, whose messages a `Watch` sees."""

    def __init__(self, stream: Any, watch: Watch) -> None:
        self._stream = stream
        self._watch = watch

    async def receive(self) -> Any:
        item = await self._stream.receive()
        assert not isinstance(item, Exception), item
        self._watch.received(_plain(item))
        return item

    async def send(self, item: Any) -> None:
        self._watch.sent(_plain(item))
        await self._stream.send(item)

    def __aiter__(self) -> _Tap:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> _Tap:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


def _plain(item: Any) -> Any:
    return item.message.model_dump(mode="json", by_alias=True, exclude_unset=True)


@asynccontextmanager
async def transport(watch: Watch | None = None) -> AsyncIterator[Any]:
    """The SDK's stdio transport, validated. What the server says on standard error must be nothing."""
    watch = watch or Watch()
    reading, writing = os.pipe()
    with open(writing, "w") as errors:
        async with stdio_client(SERVER, errlog=errors) as (received, sent):
            yield _Tap(received, watch), _Tap(sent, watch)
    with open(reading) as said:
        assert said.read() == ""
    assert watch.validated


class Logs:
    """Takes log messages, and wakes whoever waits for one."""

    def __init__(self) -> None:
        self.taken: list[types.LoggingMessageNotificationParams] = []
        self._came = anyio.Event()

    async def __call__(self, params: types.LoggingMessageNotificationParams) -> None:
        self.taken.append(params)
        self._came.set()

    async def first(self) -> types.LoggingMessageNotificationParams:
        await self._came.wait()
        return self.taken[0]


async def open_in(opened: ClientSession, revision: str) -> None:
    """Begin a session in the given revision.

    `ClientSession.initialize` offers only the newest revision that has a handshake; the others are offered with a
    request made by hand, and its result is adopted.
    """
    if revision == STATELESS:
        await opened.discover()
    else:
        info = types.Implementation(name="test", version="1")
        params = types.InitializeRequestParams(
            protocol_version=revision, capabilities=types.ClientCapabilities(), client_info=info
        )
        request = types.InitializeRequest(params=params)
        opened.adopt(await opened.send_request(request, types.InitializeResult))
        await opened.send_notification(types.InitializedNotification())
    assert opened.protocol_version == revision


@asynccontextmanager
async def session(revision: str, logs: Logs | None = None) -> AsyncGenerator[ClientSession]:
    """A session of the SDK in the given revision."""
    async with (
        transport() as (received, sent),
        ClientSession(received, sent, logging_callback=logs, log_level="info") as opened,
    ):
        await open_in(opened, revision)
        yield opened


def value(result: types.CallToolResult) -> Any:
    """The structured content, behind the wrapper of revisions that want an object."""
    structured = result.structured_content
    return (
        structured["result"]
        if isinstance(structured, dict) and structured.keys() == {"result"}
        else structured
    )


# -- Connecting --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "revision"), [("auto", STATELESS), (STATELESS, STATELESS), ("legacy", HANDSHAKE[-1])]
)
async def test_the_high_level_client_connects_in_each_of_its_modes(mode: str, revision: str) -> None:
    """Auto-negotiation finds the stateless era; pinned and handshake modes work as well."""
    watch = Watch()
    async with Client(transport(watch), mode=mode) as client:
        assert client.protocol_version == revision
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools][:2] == ["search", "add_to_cart"]
        found = await client.call_tool("search", {"query": "mug"})
        assert value(found)[0]["sku"] == "MU-1"
        if mode != STATELESS:  # pinned, the client never asks
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.version) == ("shop", "1.0.0")
            assert client.instructions is not None
            assert client.instructions.startswith("Search for products")
    assert watch.validated == (2 if mode == STATELESS else 3)


@each_revision
async def test_what_is_offered_and_listed_is_what_the_revision_knows(revision: str) -> None:
    """INIT-04, DISC: capabilities of what there is; titles, annotations and output schemas from the revision on that
    has them.
    """
    async with session(revision) as shop:
        offered = shop.server_capabilities
        assert offered is not None
        assert None not in (offered.tools, offered.resources, offered.prompts, offered.logging)
        assert (offered.completions is None) == (revision == "2024-11-05")
        tools = {tool.name: tool for tool in (await shop.list_tools()).tools}
        search = tools["search"]
        assert search.description == "Search the catalogue."
        assert search.input_schema["properties"]["category"]["enum"] == ["clothing", "kitchen", "garden"]
        assert (search.title is None) == (revision < "2025-06-18")
        assert (search.output_schema is None) == (revision < "2025-06-18")
        assert (search.annotations is None) == (revision < "2025-03-26")


# -- Tools -------------------------------------------------------------------------------


@each_revision
async def test_an_order_is_placed(revision: str) -> None:
    """Lists, nested objects, enums; structured results that fit their schema (the SDK checks); the same as text."""
    async with session(revision) as shop:
        await shop.list_tools()
        items = [{"sku": "SH-1", "quantity": 2}, {"sku": "MU-1"}]
        cart = await shop.call_tool("add_to_cart", {"items": items})
        assert cart.content[0].type == "text"
        assert cart.content[0].text.startswith('{"id":"cart-1","lines":[{"sku":"SH-1","quantity":2}')
        arguments = {"cart_id": "cart-1", "address": ADDRESS, "shipping": "drone"}
        order = await shop.call_tool("check_out", arguments)
        assert not order.is_error
        if revision < "2025-06-18":
            assert order.structured_content is None
        else:
            assert value(order)["shipping"] == "drone"
            assert value(order)["address"] == {**ADDRESS, "floor": None}
            assert value(order)["total"] == 2 * 4900 + 1400 + 2490


@each_revision
async def test_results_have_the_shape_of_the_revision(revision: str) -> None:
    """A list is wrapped where structure must be an object, and only text before there was structure; a link is text
    before 2025-06-18.
    """
    async with session(revision) as shop:
        await shop.list_tools()
        found = await shop.call_tool("search", {"query": "shirt"})
        if revision >= "2025-06-18":
            assert isinstance(found.structured_content, list) == (revision == STATELESS)
            assert [product["sku"] for product in value(found)] == ["SH-1", "SH-2"]
        text, image, link = (await shop.call_tool("show", {"sku": "MU-1"})).content
        assert text.type == "text"
        assert text.annotations is not None
        assert text.annotations.priority == 1.0
        assert image.type == "image"
        assert base64.b64decode(image.data).startswith(b"\x89PNG")
        assert link.type == ("text" if revision < "2025-06-18" else "resource_link")


@each_revision
async def test_failures_of_a_tool_are_results_that_the_model_sees(revision: str) -> None:
    """ToolError, and arguments that do not fit: isError; an unknown tool is -32602."""
    async with session(revision) as shop:
        refused = await shop.call_tool("add_to_cart", {"items": [{"sku": "??"}]})
        assert refused.is_error
        assert refused.content[0].type == "text"
        assert refused.content[0].text == "There is no product '??': search for one first."
        wrong = await shop.call_tool("check_out", {"cart_id": "x", "address": ADDRESS, "shipping": "pigeon"})
        assert wrong.is_error
        assert wrong.content[0].type == "text"
        assert "`shipping`: expected one of: standard, express, drone" in wrong.content[0].text
        with pytest.raises(MCPError) as caught:
            await shop.call_tool("nothing")
        assert caught.value.error.code == -32602


# -- While a call runs -------------------------------------------------------------------


@each_revision
async def test_progress_and_logs_arrive_before_the_result(revision: str) -> None:
    """PROG, LOG: the SDK asks with a token, and for logs in the way of the era; no less severe ones than it wants."""
    logs = Logs()
    progress: list[tuple[float, float | None, str | None]] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, total, message))

    async with session(revision, logs) as shop:
        await shop.call_tool("add_to_cart", {"items": [{"sku": "MU-1"}]})
        arguments = {"cart_id": "cart-1", "address": ADDRESS}
        await shop.call_tool("check_out", arguments, progress_callback=note)
        log = await logs.first()
        if revision != STATELESS:  # there, each request says its level
            with pytest.warns(MCPDeprecationWarning):
                await shop.set_logging_level("error")
            await shop.call_tool("add_to_cart", {"items": [{"sku": "MU-1"}]})
            await shop.call_tool("check_out", arguments)
            await shop.list_tools()  # what had been sent before would have arrived
            assert logs.taken == [log]
    said = ["Packing", "Charging", "Done"] if revision >= "2025-03-26" else [None] * 3
    assert progress == [(1, 3, said[0]), (2, 3, said[1]), (3, 3, said[2])]
    assert (log.level, log.logger, log.data) == ("info", "orders", {"order": 1, "total": 1890})


@each_revision
async def test_a_call_is_cancelled_and_cleans_up(revision: str) -> None:
    """CANC: the SDK sends notifications/cancelled when its caller gives up; the parcel can be followed again."""
    on_its_way = anyio.Event()

    async def note(done: float, total: float | None, message: str | None) -> None:
        on_its_way.set()

    async with session(revision) as shop:
        await shop.call_tool("add_to_cart", {"items": [{"sku": "MU-1"}]})
        await shop.call_tool("check_out", {"cart_id": "cart-1", "address": ADDRESS})
        async with anyio.create_task_group() as group:
            group.start_soon(shop.call_tool, "follow_parcel", {"number": 1, "pace": 60}, None, note)
            await on_its_way.wait()
            again = await shop.call_tool("follow_parcel", {"number": 1, "pace": 0})
            assert again.is_error
            group.cancel_scope.cancel()
        await shop.list_tools()  # by now the cancellation has reached the handler
        arrived = await shop.call_tool("follow_parcel", {"number": 1, "pace": 0})
        assert not arrived.is_error


@each_revision
async def test_calls_run_at_the_same_time(revision: str) -> None:
    """A slow call holds neither pings nor others up; each answer goes to its request."""
    found: dict[str, Any] = {}
    async with session(revision) as shop:
        await shop.list_tools()

        async def look(query: str) -> None:
            result = await shop.call_tool("search", {"query": query})
            assert result.content[0].type == "text"
            found[query] = result.content[0].text

        await shop.call_tool("add_to_cart", {"items": [{"sku": "MU-1"}]})
        await shop.call_tool("check_out", {"cart_id": "cart-1", "address": ADDRESS})
        async with anyio.create_task_group() as group:
            group.start_soon(shop.call_tool, "follow_parcel", {"number": 1, "pace": 60})
            async with anyio.create_task_group() as quick:
                if revision != STATELESS:
                    quick.start_soon(shop.send_ping)
                for letter in "abcdefghijklmnopqrstuvwxyz" * 2:
                    quick.start_soon(look, letter)
            group.cancel_scope.cancel()
    assert len(found) == 26
    assert "Rake" in found["k"]
    assert found["z"] == "[]"


# -- Resources, prompts, completion ------------------------------------------------------


@each_revision
async def test_resources_are_listed_and_read(revision: str) -> None:
    """Text, blob, JSON, the members of a template. RES-03, RES-04: what is unknown is -32002 with a handshake, -32602
    without; a variable that does not fit is always -32602.
    """
    async with session(revision) as shop:
        listed = [str(resource.uri) for resource in (await shop.list_resources()).resources]
        assert listed[:3] == ["shop://about", "shop://logo", "shop://products/SH-1"]
        templates = [t.uri_template for t in (await shop.list_resource_templates()).resource_templates]
        assert templates[2] == "shop://orders/{number}"
        (about,) = (await shop.read_resource("shop://about")).contents
        assert isinstance(about, types.TextResourceContents)
        assert (about.mime_type, about.text[:13]) == ("text/markdown", "# Corner shop")
        (logo,) = (await shop.read_resource("shop://logo")).contents
        assert isinstance(logo, types.BlobResourceContents)
        assert base64.b64decode(logo.blob).startswith(b"\x89PNG")
        (product,) = (await shop.read_resource("shop://products/TE-1")).contents
        assert isinstance(product, types.TextResourceContents)
        assert '"name":"Teapot"' in product.text
        unknown = -32602 if revision == STATELESS else -32002
        for uri, code in (
            ("shop://nothing", unknown),
            ("shop://products/x", unknown),
            ("shop://orders/x", -32602),
        ):
            with pytest.raises(MCPError) as caught:
                await shop.read_resource(uri)
            assert caught.value.error.code == code


@each_revision
async def test_prompts_are_listed_written_and_completed(revision: str) -> None:
    """One message, several messages, an embedded resource, arguments that do not fit; completion by a function, by one
    that knows the other arguments, by a Literal.
    """
    async with session(revision) as shop:
        prompts = {prompt.name: prompt for prompt in (await shop.list_prompts()).prompts}
        assert [argument.name for argument in prompts["compare"].arguments or ()] == ["first", "second"]
        present = await shop.get_prompt("find_present", {"recipient": "Ada", "budget": "100"})
        assert present.messages[0].content.type == "text"
        assert "at most 100 cents" in present.messages[0].content.text
        compared = await shop.get_prompt("compare", {"first": "SH-1", "second": "SH-2"})
        assert [message.role for message in compared.messages] == ["user", "user", "user", "assistant"]
        assert compared.messages[1].content.type == "resource"
        with pytest.raises(MCPError) as caught:
            await shop.get_prompt("find_present", {"budget": "much"})
        assert caught.value.error.code == -32602
        compare = types.PromptReference(name="compare")
        first = await shop.complete(compare, {"name": "first", "value": "sh"})
        assert first.completion.values == ["SH-1", "SH-2"]
        assert first.completion.total == 2
        second = await shop.complete(compare, {"name": "second", "value": "sh"}, {"first": "SH-1"})
        assert second.completion.values == ["SH-2"]
        present = types.PromptReference(name="find_present")
        category = await shop.complete(present, {"name": "category", "value": "k"})
        assert category.completion.values == ["kitchen"]
        template = types.ResourceTemplateReference(uri="shop://products/{sku}")
        assert (await shop.complete(template, {"name": "sku", "value": "ra"})).completion.values == ["RA-1"]
