"""Progress that comes faster than a client can use it (REQUIREMENTS section 21, PROG-04)."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import trio
from asking.asking_kit import Raw, talking
from support import HANDSHAKE, REVISIONS, owned_time

from mcpkit import App, Context, SyncContext, ToolError

BURST = 50
PER_SECOND = 20
every_revision = pytest.mark.parametrize("revision", REVISIONS)


@pytest.fixture
def app() -> App:
    """Tools that report progress, each in its own rhythm."""
    app = App("pacing")

    @app.tool
    async def count(numbers: int, pause: float, ctx: Context, fails: bool = False) -> str:
        for number in range(1, numbers + 1):
            await ctx.report_progress(number, numbers)
            await trio.sleep(pause)
        if fails:
            raise ToolError("counted too far")
        return "counted"

    @app.tool
    async def count_and_rest(numbers: int, ctx: Context) -> str:
        for number in range(1, numbers + 1):
            await ctx.report_progress(number)
        await ctx.report_progress(numbers - 1)  # an older value is none
        await trio.sleep(10)
        return "rested"

    @app.tool
    def count_in_thread(numbers: int, ctx: SyncContext) -> str:
        for number in range(1, numbers + 1):
            ctx.report_progress(number)
        return "counted"

    @app.tool(timeout=5)
    async def count_for_ever(ctx: Context) -> str:
        number = 0
        while True:
            number += 1
            await ctx.report_progress(number)
            await trio.sleep(0.001)

    return app


async def counted(client: Raw, tool: str, **arguments: Any) -> tuple[list[tuple[float, float]], Any]:
    """The progress that comes, each with its time, and the answer."""
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}}
    request_id = client.request("tools/call", params)
    got: list[tuple[float, float]] = []
    while "method" in (message := await client.receive()):
        assert message["method"] == "notifications/progress" and message["params"]["progressToken"] == "p"
        got.append((trio.current_time(), message["params"]["progress"]))
    assert message["id"] == request_id
    return got, message


def most(times: list[float], seconds: float) -> int:
    """How many fall into one interval at most."""
    return max(sum(start <= time < start + seconds for time in times) for start in times)


@every_revision
def test_a_flood_of_progress_becomes_a_burst_and_the_newest_values(app: App, revision: str) -> None:
    """After 50 at once, 20 a second; the values rise, and the last one is there."""

    @owned_time
    async def scene() -> None:
        async with talking(app, revision) as client:
            got, _ = await counted(client, "count", numbers=10_000, pause=0.001)
            values = [value for _, value in got]
            times = [time for time, _ in got]
            assert values[:BURST] == list(range(1, BURST + 1))
            assert values == sorted(set(values)) and values[-1] == 10_000
            assert BURST + 9 * PER_SECOND <= len(values) <= BURST + 10 * PER_SECOND + 2
            assert most(times[BURST + 2 :], 0.999) <= PER_SECOND

    scene()


@every_revision
def test_nothing_is_dropped_below_the_limit(app: App, revision: str) -> None:
    """20 a second go on for ever."""

    @owned_time
    async def scene() -> None:
        async with talking(app, revision) as client:
            got, _ = await counted(client, "count", numbers=1_000, pause=1 / PER_SECOND)
            assert [value for _, value in got] == list(range(1, 1_001))

    scene()


@every_revision
def test_the_newest_value_does_not_wait_for_the_next_one(app: App, revision: str) -> None:
    """What a handler said last arrives while it rests, not when it ends; older values never."""

    @owned_time
    async def scene() -> None:
        async with talking(app, revision) as client:
            began = trio.current_time()
            got, _ = await counted(client, "count_and_rest", numbers=500)
            assert [value for _, value in got] == [*range(1, BURST + 1), 500]
            assert got[-1][0] - began <= 1 / PER_SECOND + 0.001

    scene()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("count", {"numbers": 100, "pause": 0}),
        ("count", {"numbers": 100, "pause": 0, "fails": True}),
        ("count_for_ever", {}),
    ],
)
def test_the_last_value_comes_before_the_answer_whatever_the_answer_is(
    app: App, tool: str, arguments: dict[str, Any]
) -> None:
    """PROG-03: a result, an error result, the end of the handler's time."""

    @owned_time
    async def scene() -> None:
        async with talking(app) as client:
            got, answer = await counted(client, tool, **arguments)
            assert got[-1][1] >= 100
            assert bool(answer["result"].get("isError")) is (tool != "count" or "fails" in arguments)
            await trio.sleep(1)
            await client.ping()  # which fails when anything comes before its answer

    scene()


async def test_a_handler_in_a_thread_is_paced_as_well(app: App) -> None:
    """The burst, what time adds to it, and the last value."""
    async with talking(app) as client:
        got, _ = await counted(client, "count_in_thread", numbers=300)
        values = [value for _, value in got]
        assert values[:BURST] == list(range(1, BURST + 1)) and values[-1] == 300 and values == sorted(values)
        assert len(values) < 300 or got[-1][0] - got[0][0] > (300 - BURST) / PER_SECOND


def test_each_call_has_its_own_pace(app: App) -> None:
    """The limit is per token: a second call is not slowed by the first."""

    @owned_time
    async def scene() -> None:
        async with talking(app) as client:
            for token in ("first", "second"):
                params = {"name": "count_and_rest", "arguments": {"numbers": 40}}
                client.request("tools/call", {**params, "_meta": {"progressToken": token}})
            got = [(await client.receive())["params"]["progressToken"] for _ in range(80)]
            assert got.count("first") == got.count("second") == 40

    scene()


def test_a_cancelled_call_takes_its_held_value_with_it(app: App) -> None:
    """PROG-03, CAN-01: nothing is said about it any more."""

    @owned_time
    async def scene() -> None:
        async with talking(app) as client:
            params = {"name": "count_and_rest", "arguments": {"numbers": 51}}
            request_id = client.request("tools/call", {**params, "_meta": {"progressToken": 1}})
            for _ in range(BURST):
                await client.receive()
            client.send({"method": "notifications/cancelled", "params": {"requestId": request_id}})
            await trio.sleep(1)
            await client.ping()

    scene()


@pytest.mark.parametrize("loop", [None, "asyncio"])
@pytest.mark.parametrize("wrong", [Path("file.txt"), 7, b"text"], ids=repr)
async def test_what_cannot_be_sent_fails_in_its_handler_also_where_it_would_wait(
    wrong: Any, loop: Any
) -> None:
    """A bug of one handler must not end the server, whichever value it comes with."""
    app = App("wrong")

    @app.tool(loop=loop)
    async def work(ctx: Context) -> str:
        for number in range(BURST + 1):
            await ctx.report_progress(number)
        with pytest.raises(TypeError, match="text"):
            await ctx.report_progress(BURST + 1, message=wrong)
        await ctx.report_progress(BURST + 2, message=Text("last"))
        return "worked"

    async with talking(app) as client:
        got, answer = await counted(client, "work")
        assert answer["result"]["content"][0]["text"] == "worked"
        assert got[-1][1] == BURST + 2
        await client.ping()


@every_revision
async def test_numbers_of_any_kind_are_sent_as_numbers(revision: str) -> None:
    """PROG-02: what a client gets is a number, whatever library it comes from."""
    app = App("numbers")

    @app.tool
    async def work(ctx: Context) -> str:
        for number in (True, Decimal("1.5"), Fraction(9, 4), Odd(3), 10**30):
            await ctx.report_progress(number)  # type: ignore[arg-type]
        for number in (10**400, math.nan, math.inf):
            with pytest.raises(ValueError, match="finite"):
                await ctx.report_progress(number)
        return "worked"

    async with talking(app, revision) as client:
        got, answer = await counted(client, "work")
        assert answer["result"]["content"][0]["text"] == "worked"
        assert [value for _, value in got] == [1, 1.5, 2.25, 3, 10**30]
        assert not any(isinstance(value, bool | str) for _, value in got)


class Text(str):
    """Like a string of a library for templates."""


class Odd(float):
    """Like a number of numpy's."""


async def test_a_log_on_asyncio_is_what_was_logged_then() -> None:
    """The handler may go on with its data, while the engine has not sent it yet."""
    app = App("mutable")

    @app.tool(loop="asyncio")
    async def work(ctx: Context) -> str:
        data: dict[str, Any] = {"a": 1}
        await ctx.info(data)
        data["b"] = object()
        return "worked"

    async with talking(app, HANDSHAKE[-1]) as client:
        await client.ask("logging/setLevel", {"level": "debug"})
        request_id = client.begin("work")
        assert (await client.receive())["params"]["data"] == {"a": 1}
        assert "result" in await client.reply(request_id)
        await client.ping()


@pytest.mark.parametrize("tool", ["work", "work_inline"])
async def test_a_handler_that_holds_the_engine_gets_its_value_out(tool: str) -> None:
    """It may take longer than a value has to wait, before anything else can run."""
    app = App("busy")

    def hold() -> None:
        until = trio.current_time() + 2 / PER_SECOND
        while trio.current_time() < until:
            pass

    @app.tool(inline=True)
    def work_inline(ctx: SyncContext) -> str:
        for number in range(BURST + 1):
            ctx.report_progress(number)
        hold()
        return "worked"

    @app.tool
    async def work(ctx: Context) -> str:
        for number in range(BURST + 1):
            await ctx.report_progress(number)
        hold()
        await trio.lowlevel.checkpoint()
        return "worked"

    async with talking(app) as client:
        got, answer = await counted(client, tool)
        assert answer["result"]["content"][0]["text"] == "worked"
        assert got[-1][1] == BURST
        await client.ping()
