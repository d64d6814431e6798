"""`ctx.headers`: what of the HTTP request a handler may see."""

from __future__ import annotations

import pytest
import trio

from mcpkit import App, Context, SyncContext
from mcpkit.testing import Client
from mcpkit.transports import serving

REVISIONS = ("2025-03-26", "2025-11-25", "2026-07-28")


def headers_app() -> App:
    app = App("headers")

    @app.tool
    async def tenant(ctx: Context) -> str:
        """What a proxy put in front."""
        return ctx.headers.get("x-tenant", "nobody")

    @app.tool
    def tenant_in_thread(ctx: SyncContext) -> str:
        """The same for a plain def."""
        return ctx.headers.get("x-tenant", "nobody")

    return app


@pytest.mark.parametrize("tool", ["tenant", "tenant_in_thread"])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_handlers_see_the_headers_of_their_request(revision: str, tool: str) -> None:
    """DESIGN 4.4: `ctx.headers`, names in lower case, in both eras."""
    async with trio.open_nursery() as nursery:
        url = await nursery.start(
            lambda task_status: serving.serve(headers_app(), port=0, task_status=task_status)
        )
        async with Client(url, revision=revision, headers={"X-Tenant": "acme"}) as client:
            assert (await client.call_tool(tool)).text == "acme"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("tool", ["tenant", "tenant_in_thread"])
async def test_without_http_there_are_none(tool: str) -> None:
    """On stdio and in memory `ctx.headers` is empty."""
    async with Client(headers_app()) as client:
        assert (await client.call_tool(tool)).text == "nobody"
