"""Calls while they run: cancellation, progress, logs, concurrency, time limits; and handlers that go wrong.

The rows are those of PITFALLS, "Cancellation, progress, concurrency", and of REQUIREMENTS sections 20 to 22. What
needs no process is tested over memory, where a test knows exactly when a handler waits.
"""

from __future__ import annotations

import asyncio
import json
import select
import signal
import subprocess
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from support import HANDSHAKE, PREFIX, REVISIONS, SECONDS, STATELESS, initialize, request
from trio.testing import wait_all_tasks_blocked
from wirekit import (
    Process,
    Talk,
    alive,
    call,
    cancel,
    command,
    eventually,
    heard,
    lines,
    serving,
    talking,
    text,
)

from mcpkit import App, Context, SyncContext
from mcpkit.engine.runtime import MAX_THREADS

CURRENT = "2025-11-25"
MIB = 1024 * 1024

every_revision = pytest.mark.parametrize("revision", REVISIONS)
both_eras = pytest.mark.parametrize("revision", [CURRENT, STATELESS])


class Stage:
    """What the tools of a test share with it: gates to wait at, and a diary of what they did."""

    def __init__(self) -> None:
        self.gates: defaultdict[str, trio.Event] = defaultdict(trio.Event)
        self.thread_gates: defaultdict[str, threading.Event] = defaultdict(threading.Event)
        self.diary: list[str] = []
        self.contexts: list[Any] = []

    async def written(self, entry: str) -> None:
        """Wait until the diary has this entry, for what another thread does."""
        with trio.fail_after(SECONDS):
            while entry not in self.diary:
                await trio.lowlevel.checkpoint()


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A stage of its own for each test; whoever still blocks a thread is let go."""
    stage = Stage()
    yield stage
    for gate in stage.thread_gates.values():
        gate.set()


@pytest.fixture
def app(stage: Stage) -> App:
    """Tools that wait, report and misbehave."""
    app = App("calls")

    @app.tool
    async def echo(text: str) -> str:
        return text

    @app.tool
    async def hold(name: str, ctx: Context) -> str:
        try:
            await ctx.info(f"holding {name}")
            await stage.gates[name].wait()
        finally:
            stage.diary.append(f"cleaned up {name}")
        return name

    @app.tool
    async def hold_with_long_cleanup(name: str, ctx: Context) -> str:
        try:
            await ctx.info(f"holding {name}")
            await stage.gates[name].wait()
        finally:
            with trio.CancelScope(shield=True):
                await stage.gates["let go"].wait()
                await ctx.report_progress(1)
                await ctx.info("late")
            stage.diary.append(f"cleaned up {name}")
        return name

    @app.tool
    async def stubborn(name: str, ctx: Context) -> str:
        try:
            await ctx.info(f"holding {name}")
            await stage.gates[name].wait()
        except trio.Cancelled:
            stage.diary.append(f"ignored for {name}")
        return "done all the same"

    @app.tool
    async def clumsy(name: str, ctx: Context) -> str:
        try:
            await ctx.info(f"holding {name}")
            await stage.gates[name].wait()
        finally:
            stage.diary.append(f"cleaned up {name}")
            raise ValueError("in the clean-up")

    @app.tool
    async def clumsy_family(name: str, ctx: Context) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clumsy, name, ctx)
            await trio.sleep_forever()
        return "never"

    @app.tool
    def hold_thread(name: str, ctx: SyncContext) -> str:
        ctx.info(f"holding {name}")
        stage.thread_gates[name].wait(SECONDS)
        stage.diary.append(f"went on with {name}")
        ctx.info("late")
        ctx.report_progress(1)
        return name

    @app.tool
    def polite(name: str, ctx: SyncContext) -> str:
        ctx.info(f"holding {name}")
        try:
            while not stage.thread_gates[name].wait(0.001):
                ctx.check_cancelled()
        finally:
            stage.diary.append(f"cleaned up {name}")
        return name

    @app.tool
    def note(entry: str) -> str:
        stage.diary.append(entry)
        return entry

    @app.tool
    async def count(
        values: list[float], ctx: Context, total: float | None = None, message: str | None = None
    ) -> str:
        for number in values:
            await ctx.report_progress(number, total, message)
        return "counted"

    @app.tool
    def count_in_thread(values: list[float], ctx: SyncContext, total: float | None = None) -> str:
        for number in values:
            ctx.report_progress(number, total)
        return "counted"

    @app.tool(inline=True)
    def count_inline(values: list[float], ctx: SyncContext) -> str:
        for number in values:
            ctx.report_progress(number)
        return "counted"

    @app.tool(loop="asyncio")
    async def count_on_asyncio(values: list[float], ctx: Context) -> str:
        for number in values:
            await ctx.report_progress(number)
        return "counted"

    @app.tool
    async def say_all(ctx: Context) -> str:
        for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
            await ctx.log(level, level)  # type: ignore[arg-type]
        return "said"

    @app.tool
    async def say(data: Any, ctx: Context, logger: str | None = None) -> str:
        await ctx.warning(data, logger)
        return "said"

    @app.tool
    async def hold_then_say(name: str, ctx: Context) -> str:
        await ctx.error("waiting")
        await stage.gates[name].wait()
        await ctx.info("after")
        return "said"

    @app.tool
    async def keep(ctx: Context) -> str:
        stage.contexts.append(ctx)
        return "kept"

    @app.tool
    async def speak_late() -> str:
        for ctx in stage.contexts:
            await ctx.report_progress(99)
            await ctx.error("late")
        return "spoken"

    @app.tool(timeout=0.01)
    async def limited(name: str) -> str:
        try:
            await stage.gates[name].wait()
        finally:
            stage.diary.append(f"cleaned up {name}")
        return name

    @app.tool(timeout=0.01)
    def limited_thread(name: str) -> str:
        stage.thread_gates[name].wait(SECONDS)
        return name

    @app.tool(timeout=60)
    async def in_time() -> str:
        return "in time"

    @app.tool(loop="asyncio")
    async def hold_on_asyncio(name: str, ctx: Context) -> str:
        try:
            await ctx.info(f"holding {name}")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stage.diary.append(f"cleaned up {name}")
            raise
        return "never"

    @app.tool(loop="asyncio")
    async def say_nonsense_on_asyncio(ctx: Context, how: str) -> str:
        if how == "log":
            await ctx.info(object())
        else:
            await ctx.report_progress(1, message=object())  # type: ignore[arg-type]
        return "said"

    return app


async def started(talk: Talk, name: str) -> None:
    """Wait until a tool holds."""
    while (await talk.receive()).get("params", {}).get("data") != f"holding {name}":
        pass


# -- Section 22: cancellation ----------------------------------------------------------------------------------


@every_revision
@pytest.mark.parametrize("tool", ["hold", "clumsy", "clumsy_family"])
async def test_a_cancelled_call_is_cleaned_up_and_never_answered(
    app: App, stage: Stage, revision: str, tool: str
) -> None:
    """PITFALLS, cancellation row 1; CAN-01, STD-04: also when its clean-up fails."""
    async with talking(app, revision) as talk:
        talk.send(heard(1, tool, {"name": "it"}, revision=revision))
        await started(talk, "it")
        talk.send(cancel(1, reason="no longer needed"))
        await wait_all_tasks_blocked()
        assert stage.diary == ["cleaned up it"]
        assert await talk.silence(revision) == []


@every_revision
async def test_a_handler_that_ignores_its_cancellation_is_not_answered(
    app: App, stage: Stage, revision: str
) -> None:
    """CAN-01: whatever it returns."""
    async with talking(app, revision) as talk:
        talk.send(heard(1, "stubborn", {"name": "it"}, revision=revision))
        await started(talk, "it")
        talk.send(cancel(1))
        await wait_all_tasks_blocked()
        assert stage.diary == ["ignored for it"]
        assert await talk.silence(revision) == []


@both_eras
async def test_nothing_is_said_about_a_call_after_its_cancellation(
    app: App, stage: Stage, revision: str
) -> None:
    """STD-04, PROG-03: progress and log messages of its clean-up vanish."""
    async with talking(app, revision) as talk:
        message = heard(1, "hold_with_long_cleanup", {"name": "it"}, revision=revision)
        message["params"].setdefault("_meta", {})["progressToken"] = "t"
        talk.send(message)
        await started(talk, "it")
        talk.send(cancel(1))
        assert await talk.silence(revision) == []
        stage.gates["let go"].set()
        await wait_all_tasks_blocked()
        assert stage.diary == ["cleaned up it"]
        assert await talk.silence(revision) == []


@both_eras
async def test_an_id_is_free_again_after_a_cancellation(app: App, stage: Stage, revision: str) -> None:
    """RPC-10, CAN-06: while the first call's clean-up still runs; the second is answered, once."""
    async with talking(app, revision) as talk:
        talk.send(heard(1, "hold_with_long_cleanup", {"name": "first"}, revision=revision))
        await started(talk, "first")
        talk.send(cancel(1))
        talk.send(call(1, "echo", {"text": "second"}, revision=revision))
        assert text(await talk.receive()) == "second"
        talk.send(heard(1, "hold", {"name": "third"}, revision=revision))
        await started(talk, "third")
        stage.gates["let go"].set()
        await wait_all_tasks_blocked()
        assert stage.diary == ["cleaned up first"]
        stage.gates["third"].set()
        assert text(await talk.receive()) == "third"
        assert await talk.silence(revision) == []


@every_revision
@pytest.mark.parametrize(
    "params",
    [
        {"requestId": "finished"},
        {"requestId": "unknown"},
        {"requestId": 1},
        {"requestId": None},
        {"requestId": 1.5},
        {"requestId": True},
        {"requestId": {}},
        {"requestId": [["running"]]},
        {"requestID": "running"},
        {},
        None,
        [],
        "running",
        5,
    ],
    ids=json.dumps,
)
async def test_a_cancellation_of_nothing_is_ignored(
    app: App, stage: Stage, revision: str, params: Any
) -> None:
    """PITFALLS, cancellation row 1; CAN-02: finished, unknown, malformed."""
    async with talking(app, revision) as talk:
        talk.send(call("finished", "echo", {"text": ""}, revision=revision))
        await talk.receive()
        talk.send(heard("running", "hold", {"name": "it"}, revision=revision))
        await started(talk, "it")
        talk.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        assert await talk.silence(revision) == []
        stage.gates["it"].set()
        assert text(await talk.receive()) == "it"


@both_eras
async def test_a_call_can_be_cancelled_in_the_write_that_asks_for_it(
    app: App, stage: Stage, revision: str
) -> None:
    """CAN-06: whether it has begun or not, it is not answered."""
    async with talking(app, revision) as talk:
        talk.send(
            call(1, "hold", {"name": "a"}, revision=revision),
            cancel(1),
            call(2, "note", {"entry": "written"}, revision=revision),
            cancel(2),
        )
        await wait_all_tasks_blocked()
        assert all("method" in message for message in await talk.silence(revision))
        assert "written" not in stage.diary


@both_eras
async def test_a_sync_handler_that_asks_is_told_of_its_cancellation(
    app: App, stage: Stage, revision: str
) -> None:
    """CAN-01; DESIGN 4.4: `check_cancelled` raises, so that `finally` blocks run."""
    async with talking(app, revision) as talk:
        talk.send(heard(1, "polite", {"name": "it"}, revision=revision))
        await started(talk, "it")
        talk.send(cancel(1))
        await stage.written("cleaned up it")
        assert await talk.silence(revision) == []


@both_eras
async def test_a_sync_handler_that_does_not_ask_is_not_answered(
    app: App, stage: Stage, revision: str
) -> None:
    """CAN-01: its thread cannot be stopped; what it says and returns later is dropped."""
    async with talking(app, revision) as talk:
        talk.send(heard(1, "hold_thread", {"name": "it"}, revision=revision))
        await started(talk, "it")
        talk.send(cancel(1))
        assert await talk.silence(revision) == []
        stage.thread_gates["it"].set()
        await stage.written("went on with it")
        await wait_all_tasks_blocked()
        assert await talk.silence(revision) == []


# -- Section 21: progress --------------------------------------------------------------------------------------

COUNTERS = ["count", "count_in_thread", "count_inline", "count_on_asyncio"]


async def progress(talk: Talk, tool: str, arguments: Any, revision: str, **meta: Any) -> list[Any]:
    """The progress notifications that come before a tool's result."""
    talk.send(call("p", tool, arguments, revision=revision, **meta))
    reply, before = await talk.receive_until("p")
    assert text(reply) == "counted"
    assert {message["method"] for message in before} <= {"notifications/progress"}
    return [message["params"] for message in before]


@every_revision
@pytest.mark.parametrize("tool", COUNTERS)
async def test_progress_arrives_in_order_before_the_result(app: App, revision: str, tool: str) -> None:
    """PROG-01, STD-06: with the token, from every kind of handler."""
    async with talking(app, revision) as talk:
        got = await progress(talk, tool, {"values": [1, 2, 3.5]}, revision, progressToken="t")
        assert got == [{"progressToken": "t", "progress": number} for number in (1, 2, 3.5)]


@both_eras
@pytest.mark.parametrize("tool", COUNTERS)
async def test_progress_that_does_not_increase_is_dropped(app: App, revision: str, tool: str) -> None:
    """PITFALLS, cancellation row 4; PROG-02: strictly, from whatever it begins with."""
    async with talking(app, revision) as talk:
        values = [-1, -1, -2, 0, 0.0, -0.0, 5, 4, 5, 5.5, 1e300, 6]
        got = await progress(talk, tool, {"values": values}, revision, progressToken=1)
        assert [params["progress"] for params in got] == [-1, 0, 5, 5.5, 1e300]


@every_revision
@pytest.mark.parametrize("token", [0, "", "0", 1, -1, 2**53, 10**30, "süß"], ids=repr)
async def test_a_progress_token_comes_back_with_its_exact_type(app: App, revision: str, token: Any) -> None:
    """PITFALLS, cancellation row 4; PROG-01, META-09: 0 and "" are tokens."""
    async with talking(app, revision) as talk:
        (got,) = await progress(talk, "count", {"values": [1]}, revision, progressToken=token)
        assert (got["progressToken"], type(got["progressToken"])) == (token, type(token))


@both_eras
@pytest.mark.parametrize("token", [1.5, True, None, {}, []], ids=repr)
async def test_a_progress_token_that_is_none_is_refused(app: App, revision: str, token: Any) -> None:
    """META-09: -32602."""
    async with talking(app, revision) as talk:
        talk.send(call(1, "count", {"values": [1]}, revision=revision, progressToken=token))
        assert (await talk.receive())["error"]["code"] == -32602


@every_revision
async def test_without_a_token_there_is_no_progress(app: App, revision: str) -> None:
    """PROG-01."""
    async with talking(app, revision) as talk:
        assert await progress(talk, "count", {"values": [1, 2]}, revision) == []


@every_revision
async def test_progress_has_the_members_that_its_revision_knows(app: App, revision: str) -> None:
    """PROG-02, section 1.4: `message` since 2025-03-26."""
    async with talking(app, revision) as talk:
        arguments = {"values": [0.5], "total": 2, "message": "half of one"}
        (got,) = await progress(talk, "count", arguments, revision, progressToken="t")
        message = {} if revision == "2024-11-05" else {"message": "half of one"}
        assert got == {"progressToken": "t", "progress": 0.5, "total": 2, **message}


@both_eras
async def test_nothing_is_said_about_a_call_after_its_answer(app: App, revision: str) -> None:
    """PITFALLS, cancellation row 4; PROG-03, LOG-04: by a handler that kept its context."""
    async with talking(app, revision) as talk:
        message = heard(1, "keep", revision=revision)
        message["params"].setdefault("_meta", {})["progressToken"] = "t"
        talk.send(message)
        await talk.receive()
        talk.send(call(1, "speak_late", revision=revision))
        reply, before = await talk.receive_until(1)
        assert (text(reply), before) == ("spoken", [])


# -- Section 20: log messages ----------------------------------------------------------------------------------

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


async def said(talk: Talk, revision: str, **meta: Any) -> list[str]:
    """The levels at which messages come from a tool that uses them all."""
    talk.send(call("s", "say_all", revision=revision, **meta))
    _, before = await talk.receive_until("s")
    return [message["params"]["level"] for message in before]


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_a_session_hears_info_and_above_until_it_sets_a_level(app: App, revision: str) -> None:
    """LOG-02 (DEC)."""
    async with talking(app, revision) as talk:
        assert await said(talk, revision) == LEVELS[1:]


@pytest.mark.parametrize("revision", HANDSHAKE)
@pytest.mark.parametrize("level", LEVELS)
async def test_a_session_hears_the_level_that_it_set_and_above(app: App, revision: str, level: str) -> None:
    """LOG-02."""
    async with talking(app, revision) as talk:
        assert (await talk.ask(1, "logging/setLevel", {"level": level}))["result"] == {}
        assert await said(talk, revision) == LEVELS[LEVELS.index(level) :]


@pytest.mark.parametrize("bad", [..., None, "loud", "INFO", 3, ["info"]])
async def test_a_level_that_does_not_exist_is_refused_and_changes_nothing(app: App, bad: Any) -> None:
    """LOG-02: -32602."""
    async with talking(app, CURRENT) as talk:
        params = {} if bad is ... else {"level": bad}
        assert (await talk.ask(1, "logging/setLevel", params))["error"]["code"] == -32602
        assert await said(talk, CURRENT) == LEVELS[1:]


async def test_a_level_holds_for_calls_that_run_already(app: App, stage: Stage) -> None:
    """LOG-02: it is the session's."""
    async with talking(app, CURRENT) as talk:
        talk.send(call(1, "hold_then_say", {"name": "it"}))
        await talk.receive()
        await talk.ask(2, "logging/setLevel", {"level": "error"})
        stage.gates["it"].set()
        assert (await talk.receive())["id"] == 1


async def test_a_stateless_request_hears_nothing_unless_it_asks(app: App) -> None:
    """LOG-03, META-03: also after a handshake that set a level, and after a request that asked."""
    async with talking(app, CURRENT) as talk:
        await talk.ask(1, "logging/setLevel", {"level": "debug"})
        assert await said(talk, STATELESS) == []
        assert await said(talk, STATELESS, **{PREFIX + "logLevel": "alert"}) == ["alert", "emergency"]
        assert await said(talk, STATELESS) == []


@pytest.mark.parametrize("level", LEVELS)
async def test_a_stateless_request_hears_the_level_that_it_asks_for_and_above(app: App, level: str) -> None:
    """LOG-04."""
    async with talking(app, STATELESS) as talk:
        assert await said(talk, STATELESS, **{PREFIX + "logLevel": level}) == LEVELS[LEVELS.index(level) :]


@every_revision
@pytest.mark.parametrize(
    "data", ["text", "", 5, 1.5, None, True, [1, [2]], {"a": {"b": None}}], ids=json.dumps
)
async def test_a_log_message_carries_any_json(app: App, revision: str, data: Any) -> None:
    """LOG-01: `data` is always there, `logger` where it was given."""
    async with talking(app, revision) as talk:
        for number, logger in enumerate((None, "calls.test")):
            talk.send(heard(number, "say", {"data": data, "logger": logger}, revision=revision))
            params = (await talk.receive())["params"]
            assert params == {"level": "warning", "data": data, **({"logger": logger} if logger else {})}
            await talk.receive_until(number)


# -- Concurrency -----------------------------------------------------------------------------------------------


@both_eras
async def test_requests_get_through_while_sync_tools_block_every_thread(
    app: App, stage: Stage, revision: str
) -> None:
    """PITFALLS, cancellation row 5; STD-06: more of them than threads; the rest queue, nothing dead-locks."""
    async with talking(app, revision) as talk:
        count = MAX_THREADS + 5
        for number in range(count):
            talk.send(call(number, "hold_thread", {"name": "all"}, revision=revision))
        assert all("method" in message for message in await talk.silence(revision))
        talk.send(call("async", "echo", {"text": "through"}, revision=revision))
        assert text((await talk.receive_until("async"))[0]) == "through"
        stage.thread_gates["all"].set()
        answered = set()
        while len(answered) < count:
            message = await talk.receive()
            if "id" in message:
                assert text(message) == "all"
                answered.add(message["id"])
        assert answered == set(range(count))


@both_eras
async def test_a_queued_call_that_is_cancelled_never_runs(app: App, stage: Stage, revision: str) -> None:
    """CAN-01: it has no thread yet."""
    async with talking(app, revision) as talk:
        for number in range(MAX_THREADS):
            talk.send(call(number, "hold_thread", {"name": "all"}, revision=revision))
        talk.send(call("queued", "note", {"entry": "ran"}, revision=revision))
        await wait_all_tasks_blocked()
        talk.send(cancel("queued"))
        await wait_all_tasks_blocked()
        stage.thread_gates["all"].set()
        talk.send(call("after", "note", {"entry": "after"}, revision=revision))
        _, before = await talk.receive_until("after")
        assert "queued" not in [message.get("id") for message in before]
        assert "ran" not in stage.diary


@both_eras
async def test_answers_come_in_the_order_in_which_calls_end(app: App, stage: Stage, revision: str) -> None:
    """STD-06: dispatched concurrently."""
    async with talking(app, revision) as talk:
        for number in range(3):
            talk.send(call(number, "hold", {"name": f"gate {number}"}, revision=revision))
        for number in (2, 0, 1):
            stage.gates[f"gate {number}"].set()
            reply, _ = await talk.receive_until(number)
            assert text(reply) == f"gate {number}"


@both_eras
async def test_the_end_of_file_lets_short_calls_finish(app: App, stage: Stage, revision: str) -> None:
    """STD-05: within the grace period; then what is left is cancelled."""
    async with talking(app, revision, grace=SECONDS) as talk:
        talk.send(heard(1, "hold", {"name": "it"}, revision=revision))
        await started(talk, "it")
        talk.wire.close()
        await wait_all_tasks_blocked()
        stage.gates["it"].set()
        assert text(await talk.receive()) == "it"
        assert await talk.receive() is None


@both_eras
async def test_the_end_of_file_cancels_calls_that_do_not_finish(
    app: App, stage: Stage, revision: str
) -> None:
    """STD-05: clean-up runs, no answer is made up."""
    async with talking(app, revision, grace=0) as talk:
        talk.send(heard(1, "hold", {"name": "it"}, revision=revision))
        await started(talk, "it")
        talk.wire.close()
        assert await talk.receive() is None
        assert stage.diary == ["cleaned up it"]


# -- Time limits -----------------------------------------------------------------------------------------------


@every_revision
@pytest.mark.parametrize("tool", ["limited", "limited_thread"])
async def test_a_tool_that_takes_longer_than_its_limit_is_an_error_result(
    app: App, stage: Stage, revision: str, tool: str
) -> None:
    """DESIGN 4.2: `timeout=` seconds give an error result, which says so; the handler is cancelled."""
    async with talking(app, revision) as talk:
        talk.send(call(1, tool, {"name": "it"}, revision=revision))
        reply = await talk.receive()
        assert reply["result"]["isError"]
        assert f"'{tool}'" in text(reply) and "0.01 s" in text(reply)
        assert stage.diary == (["cleaned up it"] if tool == "limited" else [])


async def test_a_tool_that_keeps_to_its_limit_is_not_disturbed(app: App) -> None:
    """DESIGN 4.2."""
    async with talking(app, CURRENT) as talk:
        talk.send(call(1, "in_time"))
        assert text(await talk.receive()) == "in time"


# -- Handlers on asyncio ---------------------------------------------------------------------------------------


@both_eras
async def test_a_handler_on_asyncio_is_heard_while_it_runs_and_can_be_cancelled(
    app: App, stage: Stage, revision: str
) -> None:
    """DESIGN 4.2: `loop="asyncio"`, with cancellation carried over."""
    async with talking(app, revision) as talk:
        talk.send(heard(1, "hold_on_asyncio", {"name": "it"}, revision=revision))
        await started(talk, "it")
        talk.send(cancel(1))
        await stage.written("cleaned up it")
        assert await talk.silence(revision) == []


@pytest.mark.parametrize("how", ["log", "progress"])
async def test_a_handler_on_asyncio_that_says_what_is_no_json_fails_alone(app: App, how: str) -> None:
    """DESIGN 4.4: the error is raised in the handler, not where its message would be sent."""
    async with talking(app, CURRENT) as talk:
        talk.send(call(1, "say_nonsense_on_asyncio", {"how": how}, progressToken=1))
        assert (await talk.receive())["result"]["isError"]
        assert await talk.silence(CURRENT) == []


# -- Lifespan --------------------------------------------------------------------------------------------------


@every_revision
async def test_the_first_answer_does_not_wait_for_a_slow_lifespan(revision: str) -> None:
    """CLIENTS, "What breaks them"; DESIGN 4.1: lists and pings neither; calls wait until there is a state."""
    ready = trio.Event()

    @asynccontextmanager
    async def slow(app: App) -> AsyncIterator[str]:
        await ready.wait()
        yield "the state"

    app = App("slow", lifespan=slow)

    @app.tool
    async def state(ctx: Context) -> str:
        return str(ctx.state)

    async with talking(app, revision) as talk:
        assert (await talk.ask(1, "tools/list", revision=revision))["result"]["tools"]
        talk.send(call(2, "state", revision=revision))
        await wait_all_tasks_blocked()
        assert await talk.silence(revision) == []
        ready.set()
        assert text(await talk.receive()) == "the state"


@both_eras
async def test_a_call_that_waits_for_the_lifespan_can_be_cancelled(revision: str) -> None:
    """CAN-01."""

    @asynccontextmanager
    async def endless(app: App) -> AsyncIterator[None]:
        await trio.sleep_forever()
        yield

    app = App("endless", lifespan=endless)
    app.add_tool(lambda: "never", name="tool")
    async with talking(app, revision) as talk:
        talk.send(call(1, "tool", revision=revision))
        await wait_all_tasks_blocked()
        talk.send(cancel(1))
        assert await talk.silence(revision) == []


def living(kind: str, trace: Path | None = None) -> dict[str, str]:
    """The environment of a server with this lifespan."""
    return {"LIFE": kind, **({"LIFE_TRACE": str(trace)} if trace is not None else {})}


def end(server: Process, how: str) -> int:
    """End a server; its exit code."""
    if how == "end of file":
        server.close_input()
    else:
        server.process.send_signal(signal.SIGTERM)
    return server.wait(5)


both_ends = pytest.mark.parametrize("how", ["end of file", "SIGTERM"])


@both_ends
@pytest.mark.parametrize("kind", ["plain", "with_tasks"])
def test_the_lifespan_is_cleaned_up_at_the_end(kind: str, how: str, tmp_path: Path) -> None:
    """DESIGN 4.1: once per process, also with background tasks of its own, which trio is for."""
    with serving("lives.py", env=living(kind, tmp_path / "trace")) as server:
        server.start(CURRENT)
        server.send(call(1, "state"))
        assert text(server.receive_until(1)[0]) == "state"
        assert end(server, how) == 0
    assert (tmp_path / "trace").read_text() == "cleaned up"
    assert "Traceback" not in server.errors


@both_ends
def test_a_lifespan_that_is_still_starting_does_not_hold_up_the_end(how: str, tmp_path: Path) -> None:
    """STD-05; PITFALLS, stdio row 8."""
    with serving("lives.py", env=living("endless_start", tmp_path / "trace")) as server:
        server.start(CURRENT)
        server.send(call(1, "state"))
        server.ask(2, "ping")
        assert end(server, how) == 0
    assert (tmp_path / "trace").read_text() == "cleaned up"
    assert "Traceback" not in server.errors


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("failing_start", "is away"), ("failing_end", "hung up"), ("failing_task", "went away")],
)
def test_a_lifespan_that_fails_ends_the_process_with_its_traceback(kind: str, reason: str) -> None:
    """DESIGN 4.7: exit code 1; when it starts, when it ends, and when one of its tasks does."""
    with serving("lives.py", env=living(kind)) as server:
        if kind == "failing_task":
            server.start(CURRENT)
            server.send(call(1, "tell"))
        elif kind == "failing_end":
            server.start(CURRENT)
            server.close_input()
        assert server.wait(5) == 1
    assert f"RuntimeError: the database {reason}" in server.errors
    assert "Traceback" in server.errors


# -- Handlers that go wrong ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def faulty() -> Iterator[Process]:
    """One server for all of them: none may end it, or hinder the next."""
    with serving("faults.py") as server:
        server.start(CURRENT)
        yield server
        server.close_input()
        assert server.wait() == 0


FAULTS = [
    "Exception",
    "BaseException",
    "SystemExit",
    "SystemExit with text",
    "KeyboardInterrupt",
    "GeneratorExit",
    "StopIteration",
    "StopAsyncIteration",
    "MemoryError",
    "endless recursion",
    "asyncio.CancelledError",
    "trio.Cancelled of another",
    "trio.BrokenResourceError",
    "trio.ClosedResourceError",
    "trio.EndOfChannel",
    "trio.RunFinishedError",
    "BrokenPipeError",
    "group",
    "group of one",
    "group of KeyboardInterrupt",
    "deep group",
    "caused by itself",
    "error without text",
    "ToolError without text",
    "ToolError of nothing",
    "ToolError with half a pair",
    "half an McpError",
    "McpError with a wrong code",
    "McpError with a wrong message",
    "McpError with data that is not JSON",
    "McpError with endless data",
    "long text",
]
PLACES = ["in_task", "in_nursery", "in_thread", "inline", "on_asyncio", "in_resource", "in_prompt"]


# trio itself cannot take the cancellation out of groups that are nested so deeply, and takes any for the nursery's own.
COMBINATIONS = [
    (fault, place, STATELESS if place == "in_task" else CURRENT)
    for fault in FAULTS
    for place in PLACES
    if place != "in_nursery" or fault not in ("deep group", "trio.Cancelled of another")
]


@pytest.mark.parametrize(("fault", "place", "revision"), COMBINATIONS)
def test_whatever_a_handler_raises_fails_its_call_alone(
    faulty: Process, fault: str, place: str, revision: str
) -> None:
    """TOOL-09, RPC-16; PITFALLS, signatures: one error for the call, nothing of its text, the next is answered."""
    if place == "in_resource":
        message = request(
            1, "resources/read", {"uri": f"faults://{fault.replace(' ', '%20')}"}, revision=revision
        )
    elif place == "in_prompt":
        message = request(1, "prompts/get", {"name": place, "arguments": {"what": fault}}, revision=revision)
    else:
        message = call(1, place, {"what": fault}, revision=revision)
    faulty.send(message, alive("next", revision))
    replies = {(reply := faulty.receive())["id"]: reply for _ in range(2)}
    assert "result" in replies["next"]
    assert "error" in replies[1] or replies[1]["result"]["isError"]
    assert "secret" not in json.dumps(replies)


@pytest.mark.parametrize(
    "what",
    [
        "meta with an object",
        "meta with an opaque object",
        "meta with an endless list",
        "structure with an object",
        "structure with an endless list",
        "content of numbers",
        "an object",
        "an opaque object",
        "a coroutine that is refused",
    ],
)
def test_whatever_a_handler_returns_fails_its_call_alone(faulty: Process, what: str) -> None:
    """PITFALLS, signatures: a valid answer or a clear error, never a broken message."""
    faulty.send(call(1, "returns", {"what": what}))
    reply = faulty.receive_until(1)[0]
    assert "error" in reply or reply["result"]["isError"]
    assert "secret" not in json.dumps(reply)
    assert faulty.ask(2, "ping")["result"] == {}


def test_asyncio_handlers_are_served_after_one_that_wanted_to_exit(faulty: Process) -> None:
    """DESIGN 4.2: SystemExit and KeyboardInterrupt would end the loop that they share."""
    for fault in ("SystemExit", "KeyboardInterrupt"):
        faulty.send(call(1, "on_asyncio", {"what": fault}), call(2, "fine_on_asyncio"))
        replies = {(reply := faulty.receive())["id"]: reply for _ in range(2)}
        assert text(replies[2]) == "fine"


@both_ends
def test_a_handler_that_fails_while_the_server_ends_does_not_make_it_fail(how: str) -> None:
    """STD-05; PITFALLS, stdio row 8: its failure is logged, the exit code stays 0."""
    with serving("faults.py") as server:
        server.start(CURRENT)
        server.send(call(1, "fails_in_cleanup"))
        server.ask(2, "ping")
        assert end(server, how) == 0
    assert "left behind" in server.errors


@pytest.mark.parametrize(
    "what", ["close descriptors", "close streams", "lose streams", "go elsewhere", "clear the environment"]
)
def test_a_handler_that_breaks_its_process_does_not_break_the_protocol(what: str) -> None:
    """TOOL-09: descriptors 0 to 2 and what Python makes of them are not needed to serve, or to log failures."""
    with serving("faults.py") as server:
        server.start(CURRENT)
        server.send(call(1, "mischief", {"what": what}))
        assert text(server.receive_until(1)[0]) == "managed"
        server.send(call(2, "in_thread", {"what": "Exception"}))
        assert server.receive_until(2)[0]["result"]["isError"]
        server.send(call(3, "fine"))
        assert text(server.receive_until(3)[0]) == "fine"
        server.close_input()
        assert server.wait(5) == 0


@pytest.mark.parametrize("what", ["SIGTERM", "SIGINT"])
def test_a_handler_that_signals_its_own_process_ends_it_cleanly(what: str) -> None:
    """PITFALLS, stdio row 8."""
    with serving("faults.py") as server:
        server.start(CURRENT)
        server.send(call(1, "mischief", {"what": what}))
        assert server.wait(5) == 0
    assert "Traceback" not in server.errors


@both_ends
def test_a_handler_on_asyncio_is_cleaned_up_at_the_end(how: str, tmp_path: Path) -> None:
    """PITFALLS, stdio row 7; DESIGN 4.2."""
    with serving("faults.py") as server:
        server.start(CURRENT)
        server.send(call(1, "wait_on_asyncio", {"path": str(tmp_path / "trace")}))
        server.wait_for_log("waiting")
        assert end(server, how) == 0
    assert (tmp_path / "trace").read_text() == "cleaned up"
    assert "Traceback" not in server.errors


# -- A client that does not read -------------------------------------------------------------------------------


class Unread:
    """A server whose output is read only when the test wants it."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command("faults.py"), stdin=pipe, stdout=pipe)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout
        self.send(initialize(CURRENT))
        assert self.next()["id"] == "init"

    def send(self, *messages: Any) -> None:
        self.input.write(lines(*messages))
        self.input.flush()

    def next(self) -> Any:
        return json.loads(self.output.readline())

    def peak(self) -> int:
        """The most memory that the process ever used, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024


@pytest.fixture
def unread() -> Iterator[Unread]:
    """A server of this kind, which must end well."""
    server = Unread()
    with server.process:
        yield server
        server.input.close()
        assert server.process.wait(SECONDS) == 0


def test_pings_that_nobody_reads_the_answers_of_wait_in_the_pipe(unread: Unread) -> None:
    """STD-06: 10,000 of them, pipelined; the server stops reading, memory is bounded, all are answered in the end."""
    before = unread.peak()
    sender = threading.Thread(target=unread.send, args=[request(number, "ping") for number in range(10_000)])
    sender.start()
    eventually(lambda: has_output(unread), "the first answer")
    assert [unread.next()["id"] for _ in range(10_000)] == list(range(10_000))
    sender.join(SECONDS)
    assert unread.peak() - before < 16 * MIB


def test_log_messages_that_nobody_reads_hold_up_their_handler(unread: Unread) -> None:
    """PROG-04 for logs: back-pressure instead of memory; 64 MiB of them arrive in the end."""
    before = unread.peak()
    unread.send(call(1, "flood", {"count": 4000, "size": 16_384}))
    eventually(lambda: has_output(unread), "the first message")
    messages = [unread.next() for _ in range(4001)]
    assert {message["method"] for message in messages[:-1]} == {"notifications/message"}
    assert text(messages[-1]) == "flooded"
    assert unread.peak() - before < 16 * MIB


def test_a_handler_that_gives_up_sending_does_not_leave_the_rest_unsent(
    unread: Unread, tmp_path: Path
) -> None:
    """STD-06: the buffer is everybody's; its own time limit must not stop what others put into it."""
    unread.send(call(1, "impatient", {"size": 2 * MIB, "path": str(tmp_path / "trace")}))
    eventually(lambda: has_output(unread), "the first part of the message")
    unread.send(request(2, "ping"))
    eventually((tmp_path / "trace").exists, "the time limit")
    assert unread.next()["method"] == "notifications/message"
    assert unread.next() == {"jsonrpc": "2.0", "id": 2, "result": {}}


def has_output(server: Unread) -> bool:
    """Whether the server has written anything that was not read yet."""
    return bool(select.select([server.output], [], [], 0)[0])
