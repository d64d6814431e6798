"""Sessions over hours and over several processes, and streams with nothing to say. Time is owned here."""

from __future__ import annotations

import contextvars
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from inmemory import Host, hosting
from kit import Json, Response, call, encoded, eventually, headers_for, serving
from support import HOUR, initialize, owned_time, request

from mcpkit import App, Context
from mcpkit.engine.runtime import running
from mcpkit.protocol.connection import Connection
from mcpkit.stores.base import StoreError
from mcpkit.stores.memory import MemoryStore
from mcpkit.transports.asgi import Application
from mcpkit.transports.options import HttpOptions
from mcpkit.transports.table import Table

IDLE = 1800.0
LATE = IDLE * 1.06
"""When a session has expired for certain: a use is noted within a twentieth of the idle time."""

around = contextvars.ContextVar("around", default="nothing")


def make_app() -> App:
    app = App("timed")

    @app.tool
    async def surroundings(waits: bool) -> str:
        found = around.get()
        around.set("the handler's own")
        if waits:
            await trio.sleep(1)
        return f"{found}, then {around.get()}"

    @app.tool
    async def wait(seconds: float, ctx: Context) -> str:
        await ctx.report_progress(1)
        await trio.sleep(seconds)
        await ctx.info("awake")
        return "done"

    @app.tool
    async def who(ctx: Context) -> list[object]:
        return [ctx.revision, ctx.client and ctx.client.name, dict(ctx.capabilities)]

    @app.resource("memo://{name}")
    def memo(name: str) -> str:
        return name

    return app


# -- Calls -----------------------------------------------------------------------------------


@owned_time
async def test_a_call_runs_in_the_context_of_its_request() -> None:
    """Middleware of a host says who asks, or which trace this belongs to, in context variables: a call in a session
    has those of its own request, whatever ran before in the same task.
    """
    async with hosting(make_app()) as host:
        session = {"Mcp-Session-Id": await host.open("2025-11-25")}
        for number, waits in enumerate((False, True, False, False, True)):
            around.set(f"request {number}")
            answer = await host.post(call(number, "surroundings", {"waits": waits}, "2025-11-25"), session)
            assert (
                answer.message["result"]["content"][0]["text"] == f"request {number}, then the handler's own"
            )


@owned_time
async def test_a_call_that_comes_when_the_app_has_ended_is_told_so() -> None:
    """While a lifespan cleans up, nobody runs calls any more; nobody waits for an answer either."""
    cleaning, done = trio.Event(), trio.Event()

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        yield
        cleaning.set()
        with trio.CancelScope(shield=True):
            await done.wait()

    app = make_app()
    app.lifespan = lifespan
    async with trio.open_nursery() as nursery:
        application = Application.of(app, HttpOptions())
        host = Host(app, application, nursery)

        async def come_late(session: dict[str, str]) -> None:
            await cleaning.wait()
            try:
                answer = await host.post(call(1, "who", None, "2025-11-25"), session)
                assert (answer.status, answer.body) == (503, b"The app has ended\n")
            finally:
                done.set()

        async with application.lifespan():
            nursery.start_soon(come_late, {"Mcp-Session-Id": await host.open("2025-11-25")})


# -- Silence ---------------------------------------------------------------------------------


@owned_time
async def test_a_stream_whose_client_left_in_the_middle_of_much_goes_on_for_the_next() -> None:
    """HL-12: what the first had no time to read does not count against the second."""
    async with hosting(make_app()) as host:
        session = await host.open("2025-11-25")
        named = {"Mcp-Session-Id": session}
        uris = [f"memo://{number}-{'x' * 4000}" for number in range(40)]
        for number, uri in enumerate([*uris, "memo://last"]):
            subscribe = request(number, "resources/subscribe", {"uri": uri})
            assert (await host.post(subscribe, named)).status == 200
        stuck = host.listen(session, room=0)
        assert (await stuck.head()).status == 200
        await stuck.part()
        for uri in uris:
            host.app.notifier.resource_updated(uri)
        await trio.testing.wait_all_tasks_blocked()
        stuck.leave()
        await stuck.done.wait()
        stream = host.listen(session)
        assert (await stream.head()).status == 200
        host.app.notifier.resource_updated("memo://last")
        heard = b""
        while b"memo://last" not in heard:
            part = await stream.part()
            assert part != b":\n\n"
            heard += part


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
@owned_time
async def test_a_sessions_stream_breaks_the_silence(revision: str) -> None:
    """PITFALLS: a comment every 15 seconds."""
    async with hosting(make_app()) as host:
        stream = host.listen(await host.open(revision))
        assert (await stream.head()).status == 200
        await stream.part()
        for _ in range(3):
            began = trio.current_time()
            assert await stream.part() == b":\n\n"
            assert trio.current_time() - began == pytest.approx(15)


@pytest.mark.parametrize("method", ["tools/call", "subscriptions/listen"])
@owned_time
async def test_a_quiet_call_breaks_the_silence(method: str) -> None:
    """PITFALLS, HM-12, SUB-09: while the handler says nothing; the answer comes when it is there."""
    message = call(1, "wait", {"seconds": 50}, progressToken=1)
    if method == "subscriptions/listen":
        message = request(1, method, {"notifications": {"toolsListChanged": True}}, revision="2026-07-28")
    async with hosting(make_app()) as host:
        exchange = host.begin("POST", headers_for(message), encoded(message))
        head = await exchange.head()
        assert (head.status, head.get("x-accel-buffering")) == (200, "no")
        assert b"data: " in await exchange.part()
        began = trio.current_time()
        assert [await exchange.part() for _ in range(3)] == [b":\n\n"] * 3
        assert trio.current_time() - began == pytest.approx(45)
        if method == "tools/call":
            assert b'"done"' in await exchange.part()
            assert trio.current_time() - began == pytest.approx(50)


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25"])
@owned_time
async def test_an_answer_that_takes_its_time_becomes_a_stream(revision: str) -> None:
    """HL-04: so that a proxy does not give up on it, and a client can come back for it."""
    async with hosting(make_app()) as host:
        session = await host.open(revision)
        message = call(1, "wait", {"seconds": 300}, revision)
        exchange = host.begin("POST", {**headers_for(message), "Mcp-Session-Id": session}, encoded(message))
        began = trio.current_time()
        assert (await exchange.head()).get("content-type") == "text/event-stream"
        assert trio.current_time() - began < 10
        assert b'"done"' in (await rest(exchange))


async def rest(exchange: Json) -> bytes:
    parts = []
    while part := await exchange.part():
        parts.append(part)
    return b"".join(parts)


# -- Idle sessions ---------------------------------------------------------------------------


@owned_time
async def test_an_idle_session_expires() -> None:
    """HL-20: half an hour after its last use, and not before."""
    async with hosting(make_app(), session_idle=IDLE) as host:
        session = await host.open()
        for _ in range(5):
            await trio.sleep(IDLE - 1)
            assert await host.ping(session) == 200
        await trio.sleep(LATE)
        assert await host.ping(session) == 404
        assert await host.ping(session) == 404


@pytest.mark.parametrize("pause", [5.0, 60.0, IDLE / 5, IDLE / 3, IDLE - 1])
@owned_time
async def test_a_session_in_use_does_not_expire(pause: float) -> None:
    """HL-20: here or in the store that other processes look into, however often it is used."""
    store = MemoryStore()
    async with hosting(make_app(), store, session_idle=IDLE) as host:
        session = await host.open()
        began = trio.current_time()
        while trio.current_time() - began < 2.5 * IDLE:
            await trio.sleep(pause)
            assert await host.ping(session) == 200
        async with hosting(make_app(), store, session_idle=IDLE) as other:
            assert await other.ping(session) == 200


@owned_time
async def test_a_client_that_only_listens_is_not_idle() -> None:
    """HL-20: nor one that waits for an answer."""
    store = MemoryStore()
    async with hosting(make_app(), store, session_idle=IDLE) as host:
        listening, waiting = await host.open(), await host.open()
        stream = host.listen(listening)
        message = call(1, "wait", {"seconds": 5 * HOUR}, "2025-11-25")
        exchange = host.begin("POST", {**headers_for(message), "Mcp-Session-Id": waiting}, encoded(message))
        await trio.sleep(4.9 * HOUR)
        async with hosting(make_app(), store, session_idle=IDLE) as other:
            assert await other.ping(listening) == 200
        await stream.head()
        stream.leave()
        await exchange.head()
        assert b'"done"' in await rest(exchange)
        assert await host.ping(listening) == 200
        assert await host.ping(waiting) == 200
        await trio.sleep(LATE)
        assert await host.ping(listening) == 404
        assert await host.ping(waiting) == 404


# -- Limits ----------------------------------------------------------------------------------


def is_full(response: Response) -> bool:
    """Whether the answer says that there are too many sessions, and when to come back."""
    assert response.status == 503, response
    assert response.get("mcp-session-id") is None
    assert int(response.get("retry-after") or 0) > 0
    return "session" in response.message["error"]["message"] and response.message["id"] == "init"


@owned_time
async def test_the_number_of_sessions_is_limited() -> None:
    """SEC-02: a clear 503; ending one makes room, and so does one that expires."""
    async with hosting(make_app(), max_sessions=2, session_idle=IDLE) as host:
        one, two = await host.open(), await host.open()
        assert is_full(await host.post(initialize("2025-11-25")))
        assert (await host.ping(one), await host.ping(two)) == (200, 200)
        assert (await host.ask("DELETE", {"Mcp-Session-Id": one})).status == 204
        three = await host.open()
        assert is_full(await host.post(initialize("2025-11-25")))
        await trio.sleep(IDLE - 1)
        assert await host.ping(two) == 200
        await trio.sleep(LATE - IDLE + 1)
        await host.open()
        assert await host.ping(three) == 404


@owned_time
async def test_stateless_requests_need_no_room() -> None:
    """ERA-04: the limit is one of sessions."""
    async with hosting(make_app(), max_sessions=0) as host:
        assert is_full(await host.post(initialize("2025-11-25")))
        assert (await host.post(call(1, "who"))).status == 200


@owned_time
async def test_a_process_takes_over_no_more_than_it_may_hold() -> None:
    """SEC-02."""
    store = MemoryStore()
    async with hosting(make_app(), store) as host, hosting(make_app(), store, max_sessions=1) as small:
        one, two = await host.open(), await host.open()
        assert [await small.ping(one), await small.ping(two), await small.ping(one)] == [200, 503, 200]


# -- Several processes -----------------------------------------------------------------------


@asynccontextmanager
async def pair(store: MemoryStore | None = None) -> AsyncIterator[tuple[Host, Host]]:
    """Two processes with one store."""
    store = store or MemoryStore()
    async with hosting(make_app(), store) as one, hosting(make_app(), store) as two:
        yield one, two


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
@owned_time
async def test_another_process_takes_over_a_session(revision: str) -> None:
    """Section 10: what the handshake settled goes along."""
    async with pair() as (one, two):
        capabilities = {"roots": {"listChanged": True}, "experimental": {"é": [1, None]}}
        response = await one.post(initialize(revision, capabilities=capabilities))
        session = {"Mcp-Session-Id": response.get("mcp-session-id")}
        expected = [revision, "test", capabilities]
        for host in (one, two, one):
            answer = await host.post(call(1, "who", None, revision), session)
            assert json.loads(answer.text) == expected
        assert (
            await two.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
        ).status == 202
        wrong = {**session, "MCP-Protocol-Version": "1999-01-01"}
        assert (await two.post(request(1, "ping"), wrong)).status == 400


@owned_time
async def test_what_a_session_has_set_goes_along() -> None:
    """LOG-02, RES-08: the level of its logs and its subscriptions, whenever they change."""
    async with pair() as (one, two):
        session = {"Mcp-Session-Id": await one.open()}
        message = call(1, "wait", {"seconds": 0}, "2025-11-25")

        async def hears(host: Host) -> bool:
            return (await host.post(message, session)).get("content-type") == "text/event-stream"

        assert await hears(two)
        for host, other, level in ((one, two, "error"), (two, one, "info"), (one, two, "emergency")):
            assert (await host.post(request(1, "logging/setLevel", {"level": level}), session)).status == 200
            assert await hears(other) == (level == "info")
        await one.post(request(1, "resources/subscribe", {"uri": "memo://x"}), session)
        stream = two.begin("GET", {**session, "Accept": "text/event-stream"})
        await stream.head()
        await stream.part()
        two.app.notifier.resource_updated("memo://y")
        two.app.notifier.resource_updated("memo://x")
        assert b"memo://x" in await stream.part()


@owned_time
async def test_a_session_that_was_ended_elsewhere_has_ended() -> None:
    """HL-08: in each process that knew it, with its streams."""
    async with pair() as (one, two):
        session = await one.open()
        assert await two.ping(session) == 200
        assert (await one.ask("DELETE", {"Mcp-Session-Id": session})).status == 204
        assert await two.ping(session) == 404
        assert await one.ping(session) == 404


class SlowStore(MemoryStore):
    """A store that other tasks run beside."""

    async def get(self, name: str) -> bytes | None:
        await trio.sleep(0.1)
        return await super().get(name)


@owned_time
async def test_requests_that_come_together_meet_in_one_session() -> None:
    """RPC-09: the session that is taken over knows of both."""
    async with pair(SlowStore()) as (one, two):
        session = {"Mcp-Session-Id": await one.open()}
        codes: list[Json] = []

        async def ask() -> None:
            answer = await two.post(call(1, "wait", {"seconds": 0.5}, "2025-11-25"), session)
            codes.append(answer.message.get("error", {}).get("code"))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
        assert sorted(codes, key=str) == [-32600, -32600, None]


class BrokenStore(MemoryStore):
    """A store that can go away."""

    broken = False

    async def get(self, name: str) -> bytes | None:
        self.check()
        return await super().get(name)

    async def put(self, name: str, value: bytes, ttl: float) -> None:
        self.check()
        await super().put(name, value, ttl)

    async def delete(self, name: str) -> bool:
        self.check()
        return await super().delete(name)

    def check(self) -> None:
        if self.broken:
            raise StoreError("The store cannot be reached")


@owned_time
async def test_a_store_that_has_gone_is_said_clearly() -> None:
    """PITFALLS: never 500. A session that this process knows is served while it can be."""
    store = BrokenStore()
    async with pair(store) as (one, two):
        session = await one.open()
        store.broken = True
        opening = await one.post(initialize("2025-11-25"))
        assert (opening.status, opening.get("mcp-session-id")) == (503, None)
        assert "cannot be reached" in opening.message["error"]["message"]
        assert await one.ping(session) == 200
        assert await two.ping(session) == 503
        assert (await one.post(call(1, "who"))).status == 200
        assert (await one.ask("DELETE", {"Mcp-Session-Id": session})).status in (204, 503)
        store.broken = False
        assert await two.ping(session) in (200, 404)
        assert await one.open()


@owned_time
async def test_a_full_store_is_said_clearly() -> None:
    """SEC-02: and leaves no session that its client does not know of."""
    async with hosting(make_app(), MemoryStore(max_entries=1), max_sessions=2) as host:
        session = await host.open()
        for _ in range(5):
            assert (await host.post(initialize("2025-11-25"))).status == 503
        assert await host.ping(session) == 200
        assert (await host.ask("DELETE", {"Mcp-Session-Id": session})).status == 204
        assert await host.open()


@owned_time
async def test_a_session_belongs_to_whoever_opened_it() -> None:
    """HL-20, SEC-03, PITFALLS: another principal gets nothing, here or in another process."""
    async with running(make_app()) as runtime:
        one, two = (Table(runtime, most=10, idle=IDLE) for _ in range(2))
        connection = Connection(runtime.identity)
        connection.receive(encoded(initialize("2025-11-25")))
        session = await one.open(connection, "ann")
        for table in (two, one, two):
            assert await table.find(session.id, "bob") is None
            assert await table.find(session.id, "") is None
        for table in (one, two):
            found = await table.find(session.id, "ann")
            assert found is not None
            assert found.owner == "ann"
        assert await two.find(session.id, "bob") is None


# -- Mounted ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "root", "path", "status"),
    [
        ({}, "", "/mcp", 200),
        ({}, "", "/mcp/", 200),
        ({}, "/api", "/api/mcp", 200),
        ({}, "/api", "/api/mcp/", 200),
        ({}, "/api/", "/api/mcp", 200),
        ({}, "/a/b", "/a/b/mcp", 200),
        ({}, "/api", "/mcp", 200),
        ({}, "/api", "/api/other", 404),
        ({}, "/api", "/api", 404),
        ({}, "", "/api/mcp", 404),
        ({}, "", "/", 404),
        ({}, "", "/mcp/x", 404),
        ({}, "", "/mcpx", 404),
        ({"path": "/"}, "/api", "/api", 200),
        ({"path": "/"}, "/api", "/api/", 200),
        ({"path": "/"}, "", "/", 200),
        ({"path": "/a/b"}, "", "/a/b", 200),
        ({"path": "/a/b/"}, "", "/a/b", 200),
        ({"path": "/mcp"}, "/mcp", "/mcp/mcp", 200),
    ],
)
@owned_time
async def test_an_app_answers_where_it_is_mounted(options: Json, root: str, path: str, status: int) -> None:
    """PITFALLS: with and without a slash, under any prefix, with a token as well; never a redirect."""
    async with hosting(make_app(), **options) as host:
        for headers in ({}, {"Authorization": "Bearer x"}):
            response = await host.post(call(1, "who"), headers, path=path, root=root)
            assert (response.status, response.get("location")) == (status, None)


@owned_time
async def test_a_mounted_app_has_sessions_and_streams() -> None:
    """PITFALLS: every verb."""
    async with hosting(make_app()) as host:
        where = {"path": "/api/mcp/", "root": "/api"}
        response = await host.post(initialize("2025-11-25"), **where)
        session = {"Mcp-Session-Id": response.get("mcp-session-id")}
        stream = host.begin("GET", {**session, "Accept": "text/event-stream"}, **where)
        assert (await stream.head()).status == 200
        assert (await host.ask("DELETE", session, **where)).status == 204
        await rest(stream)
        origin = {"Origin": "http://localhost", "Access-Control-Request-Method": "POST"}
        assert (await host.ask("OPTIONS", origin, **where)).status == 204


@owned_time
async def test_lengths_that_no_server_would_pass_on_are_refused() -> None:
    """SEC-02: other hosts check less."""
    async with hosting(make_app()) as host:
        for length in ("9" * 5000, "²", "1e9", "-5", ""):
            response = await host.post(call(1, "who"), {"Content-Length": length})
            assert response.status in (200, 400, 413)


# -- In a process ----------------------------------------------------------------------------


def test_the_command_has_options_for_both_limits() -> None:
    """DESIGN 4.7, HL-20, SEC-02: --max-sessions and --session-idle."""
    with serving("things.py", "--max-sessions", "1", "--session-idle", "0.4") as server:
        session = server.session()
        assert is_full(server.post(initialize("2025-11-25")))
        eventually(lambda: server.post(initialize("2025-11-25")).status == 200, "room for another session")
        assert session.post(request(1, "ping")).status in (404, 503)
