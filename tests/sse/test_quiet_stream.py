"""Streams over time, in this process: on a clock that the test owns, or with limits that it sets."""

from __future__ import annotations

import trio
from inmemory import hosting
from kit import encoded
from support import initialize, owned_time, request

from mcpkit import App, Context


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


@owned_time
async def test_a_server_that_is_ending_opens_no_stream() -> None:
    """Whoever comes back at once, on a connection that is still open, is told to come back later."""
    async with hosting(App("ending"), with_sse=True) as host:
        stream = host.begin("GET", {"Accept": "text/event-stream"}, path="/sse")
        assert (await stream.head()).status == 200
        host.application.end_streams()
        await stream.done.wait()
        again = await host.ask("GET", {"Accept": "text/event-stream"}, path="/sse")
        assert (again.status, again.get("retry-after")) == (503, "60")


async def test_a_client_that_never_reads_is_given_up() -> None:
    """SEC-02: when it has taken nothing for the send time-out, its connection ends and its calls are cancelled."""
    app, cleaned = App("poured"), trio.Event()

    @app.tool
    async def pour(ctx: Context) -> None:
        try:
            while True:
                await ctx.info("x" * 65536)
        finally:
            cleaned.set()

    async with trio.open_nursery() as nursery:

        async def serve(task_status: trio.TaskStatus[str]) -> None:
            await app.serve("sse", port=0, send_timeout=0.3, task_status=task_status)

        port = int((await nursery.start(serve)).rpartition(":")[2].partition("/")[0])
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n")
        path = (await stream.receive_some()).partition(b"data: ")[2].partition(b"\n")[0]
        post = await trio.open_tcp_stream("127.0.0.1", port)
        for message in (initialize("2024-11-05"), request(1, "tools/call", {"name": "pour"})):
            body = encoded(message)
            head = b"POST /%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % path
            await post.send_all(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert (await post.receive_some()).startswith(b"HTTP/1.1 202")
        with trio.fail_after(10):
            await cleaned.wait()
        await stream.aclose()
        await post.aclose()
        nursery.cancel_scope.cancel()
