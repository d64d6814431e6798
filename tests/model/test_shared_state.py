"""What handlers and apps share stays as the user made it."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import App, Context, NotFound, ToolResult
from mcpkit.protocol.errors import McpError
from mcpkit.stores.memory import MemoryStore
from mcpkit.testing import Client
from mcpkit.transports.options import HttpOptions


async def test_an_exception_that_is_raised_twice_is_not_written_to() -> None:
    """RES-03: the URI in an error is that of the request, whatever exception object the handler keeps."""
    app = App("shared")
    missing = NotFound("gone")

    @app.resource("a://{number}")
    async def read(number: int) -> str:
        raise missing

    async with Client(app) as client:
        for uri in ("a://1", "a://2"):
            with pytest.raises(McpError) as caught:
                await client.read_resource(uri)
            assert caught.value.data == {"uri": uri}
    assert missing.data is None


async def test_a_result_that_cannot_be_encoded_fails_its_call_alone() -> None:
    """DESIGN 4.2: an error result with a reference, like any other internal error."""
    app = App("unencodable")

    @app.tool
    async def bad() -> ToolResult:
        return ToolResult("fine", meta={"example.com/what": object()})

    async with Client(app) as client:
        outcome = await client.call_tool("bad")
        assert outcome.is_error
        assert outcome.text.startswith("Internal error (ref ")
        assert await client.list_tools()


async def test_a_change_is_named_by_a_string() -> None:
    """What could not be sent later is refused where it is said."""
    app = App("changes")

    @app.tool
    async def touch(ctx: Context) -> str:
        with pytest.raises(TypeError, match="named by its URI"):
            ctx.app.notifier.resource_updated(5)
        ctx.app.notifier.resource_updated(type("Uri", (str,), {})("a://1"))
        return "told"

    async with Client(app, revision="2025-11-25") as client:
        assert (await client.call_tool("touch")).text == "told"


class Empty(MemoryStore):
    """A store of the user's that is empty, and says so."""

    def __len__(self) -> int:
        return 0


async def test_the_store_of_the_app_is_used_even_when_it_is_empty() -> None:
    """`App(store=)` holds sessions and long journals."""
    from mcpkit.engine.runtime import running

    store = Empty()
    async with running(App("stored", store=store)) as runtime:
        assert runtime.store is store


@pytest.mark.parametrize(
    "options",
    [
        {"allowed_hosts": "example.com"},
        {"allowed_origins": "*"},
        {"max_body": "4MB"},
        {"grace": -1},
        {"path": "mcp"},
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any]) -> None:
    """One string is no list of strings, and a size is a number."""
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        HttpOptions(**options)
