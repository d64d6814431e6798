"""A stream over time, on a clock that the test owns."""

from __future__ import annotations

import trio
from inmemory import hosting, owned_time

from mcpkit import App


@owned_time
async def test_a_quiet_stream_gets_a_comment_every_fifteen_seconds() -> None:
    """PITFALLS, HTTP: or a proxy takes it for dead; and no time ends a session whose stream is open."""
    async with hosting(App("quiet"), transport="sse", path="/sse", session_idle=60) as host:
        stream = host.begin("GET", {"Accept": "text/event-stream"}, path="/sse")
        assert (await stream.head()).status == 200
        assert (await stream.part()).startswith(b"event: endpoint\ndata: message?sessionId=")
        began = trio.current_time()
        for _ in range(20):
            assert await stream.part() == b":\n\n"
        assert trio.current_time() - began == 300
        stream.leave()
        await stream.done.wait()


@owned_time
async def test_below_where_it_is_mounted_the_url_stays_relative() -> None:
    """SSE-02: whatever the prefix is, in either way that a host tells it (ASGI "root_path")."""
    async with hosting(App("mounted"), with_sse=True) as host:
        for path, root in (("/api/sse", "/api"), ("/sse", "/api"), ("/api/sse/", "/api")):
            stream = host.begin("GET", {"Accept": "text/event-stream"}, path=path, root=root)
            assert (await stream.head()).status == 200
            above = b"../" if path.endswith("/") else b""
            assert (await stream.part()).startswith(b"event: endpoint\ndata: " + above + b"message?")
            stream.leave()
            await stream.done.wait()
