"""Plain `def` handlers in worker threads (`engine.threads`): limits, order, cancellation, exceptions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import trio
from support import STATELESS
from trio.testing import wait_all_tasks_blocked
from wirekit import call, cancel, eventually, heard, talking, text

from mcpkit import App, SyncContext
from mcpkit.engine import threads
from mcpkit.engine.runtime import MAX_THREADS, running
from mcpkit.transports.memory import attach

both_eras = pytest.mark.parametrize("revision", ["2025-11-25", STATELESS])


class Workshop:
    """An app whose handlers wait for a gate, and write down when they began and ended."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.began: list[str] = []
        self.ended: list[str] = []
        self.app = App("workshop")
        self.app.add_tool(self.hold)
        self.app.add_tool(self.spin)
        self.app.add_tool(self.fail)
        self.app.add_tool(self.engine)
        self.app.add_tool(self.polite)

    def hold(self, name: str) -> str:
        self.began.append(name)
        self.gate.wait(20)
        self.ended.append(name)
        return name

    def spin(self, microseconds: int) -> int:
        until = time.perf_counter() + microseconds / 1e6
        while time.perf_counter() < until:
            pass
        return microseconds

    def fail(self, kind: str) -> None:
        raise {"exit": SystemExit(3), "key": KeyboardInterrupt(), "stop": StopIteration(1)}[kind]

    def engine(self) -> bool:
        """trio's own way back from a thread."""
        return trio.from_thread.run_sync(trio.lowlevel.in_trio_run)

    def polite(self, ctx: SyncContext) -> None:
        self.began.append("polite")
        try:
            while not self.gate.wait(0.001):
                ctx.check_cancelled()
        except trio.Cancelled:
            self.ended.append("told")
            raise


@pytest.fixture
def shop() -> Iterator[Workshop]:
    """A workshop whose threads are let go at the end."""
    shop = Workshop()
    yield shop
    shop.gate.set()


@both_eras
async def test_a_thread_that_was_left_behind_counts_until_it_ends(shop: Workshop, revision: str) -> None:
    """SEC-02: cancelling calls must not be a way to more threads than there may be."""
    async with talking(shop.app, revision) as talk:
        for number in range(MAX_THREADS):
            talk.send(call(number, "hold", {"name": f"left {number}"}, revision=revision))
        await trio.to_thread.run_sync(eventually, lambda: len(shop.began) == MAX_THREADS)
        talk.send(*(cancel(number) for number in range(MAX_THREADS)))
        for name in ("first", "second"):
            talk.send(call(name, "hold", {"name": name}, revision=revision))
        await wait_all_tasks_blocked()
        assert len(shop.began) == MAX_THREADS
        assert not shop.ended
        shop.gate.set()
        assert sorted([text(await talk.receive()), text(await talk.receive())]) == ["first", "second"]
        assert sorted(shop.began)[:2] == ["first", "left 0"]


@pytest.mark.parametrize("microseconds", [0, 60, 95, 105, 200, 480, 510, 2000])
async def test_each_call_is_answered_once_however_long_its_handler_takes(
    shop: Workshop, microseconds: int
) -> None:
    """RPC-01: also those that end just when the engine no longer stands still for them (rule 4)."""
    async with talking(shop.app, STATELESS) as talk:
        count = 50 if microseconds > 1000 else 400
        for number in range(count):
            arguments = {"microseconds": microseconds + number % 7}
            talk.send(call(number, "spin", arguments, revision=STATELESS))
            if number % 5 == 4:
                await wait_all_tasks_blocked()
        answered = sorted([(await talk.receive())["id"] for _ in range(count)])
        assert answered == list(range(count))
        assert await talk.silence(STATELESS) == []


async def test_a_handler_that_blocks_holds_up_nobody(shop: Workshop) -> None:
    """PITFALLS, cancellation row 5: the engine stands still for a moment only, whatever the handler did before."""
    async with talking(shop.app, STATELESS) as talk:
        shop.gate.set()
        for number in range(3):  # quick so far
            talk.send(call(number, "hold", {"name": "quick"}, revision=STATELESS))
            await talk.receive()
        shop.gate.clear()
        began = time.perf_counter()
        talk.send(call("slow", "hold", {"name": "slow"}, revision=STATELESS))
        talk.send(call("other", "spin", {"microseconds": 0}, revision=STATELESS))
        assert (await talk.receive())["id"] == "other"
        assert time.perf_counter() - began < 10  # and not the 20 s that the handler would wait
        shop.gate.set()
        assert text(await talk.receive()) == "slow"


@both_eras
@pytest.mark.parametrize("kind", ["exit", "key", "stop"])
async def test_what_a_thread_raises_fails_its_call_alone(shop: Workshop, revision: str, kind: str) -> None:
    """DESIGN 4.2, from a new thread and from one that stands ready."""
    async with talking(shop.app, revision) as talk:
        for number in range(3):
            talk.send(call(number, "fail", {"kind": kind}, revision=revision))
            reply = await talk.receive()
            assert reply["id"] == number
            assert reply["result"]["isError"]


@both_eras
async def test_a_handler_reaches_the_engine_as_from_any_thread_of_trio(shop: Workshop, revision: str) -> None:
    """Libraries use trio.from_thread; so may handlers."""
    async with talking(shop.app, revision) as talk:
        for number in range(3):
            talk.send(call(number, "engine", {}, revision=revision))
            assert text(await talk.receive()) == "true"


async def test_a_handler_is_told_of_its_own_cancellation_alone(shop: Workshop) -> None:
    """CAN-01: threads stay, and what was cancelled in one is no longer when it does something else."""
    async with talking(shop.app, STATELESS) as talk:
        talk.send(heard(1, "polite", revision=STATELESS))
        await trio.to_thread.run_sync(eventually, lambda: "polite" in shop.began)
        talk.send(cancel(1))
        await trio.to_thread.run_sync(eventually, lambda: "told" in shop.ended)
        shop.gate.set()
        talk.send(heard(2, "polite", revision=STATELESS))
        assert (await talk.receive())["id"] == 2


async def test_threads_end_with_the_serving(shop: Workshop) -> None:
    """Those that stand ready at once, those that are busy when they have done their work."""

    def workers() -> int:
        return sum(
            thread.name.startswith("run from mcpkit.engine.threads") for thread in threading.enumerate()
        )

    await trio.to_thread.run_sync(eventually, lambda: not workers())  # those of other tests
    async with running(shop.app) as runtime, attach(runtime) as wire:
        for number in range(4):
            wire.send(_line(call(number, "hold", {"name": str(number)}, revision=STATELESS)))
        await trio.to_thread.run_sync(eventually, lambda: len(shop.began) == 4)
        assert workers() == 4
        assert runtime.threads.busy == 4
    shop.gate.set()
    await trio.to_thread.run_sync(eventually, lambda: not workers())


async def test_a_call_fails_when_the_system_has_no_thread_left(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-02: and the next one is served, once there are threads again."""
    real = trio.to_thread.run_sync

    async def none_left(function: object, *args: object, **options: object) -> object:
        raise RuntimeError("can't start new thread")

    async with talking(shop.app, STATELESS) as talk:
        monkeypatch.setattr(threads.trio.to_thread, "run_sync", none_left)
        talk.send(call(1, "spin", {"microseconds": 0}, revision=STATELESS))
        assert (await talk.receive())["result"]["isError"]
        monkeypatch.setattr(threads.trio.to_thread, "run_sync", real)
        talk.send(call(2, "spin", {"microseconds": 0}, revision=STATELESS))
        assert text(await talk.receive()) == "0"


def _line(message: object) -> bytes:
    import json

    return json.dumps(message).encode() + b"\n"
