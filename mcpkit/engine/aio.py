"""Handlers that need asyncio: `@app.tool(loop="asyncio")`.

mcpkit runs on trio, where libraries that are written for asyncio alone do not work. Their handlers run on an
asyncio loop in a thread of its own, which starts with the first such call.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import outcome
import trio

_JOIN_SECONDS = 1.0

T = TypeVar("T")


class AsyncioThread:
    """An asyncio loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def run(self, function: Callable[[], Awaitable[Any]]) -> Any:
        """What the function returns, called and awaited on the loop. A cancellation reaches it as
        `asyncio.CancelledError`; it is not waited for.
        """
        loop = self._start()
        task = trio.lowlevel.current_task()
        token = trio.lowlevel.current_trio_token()
        running: list[asyncio.Task[outcome.Outcome[Any]]] = []
        abandoned = False

        def finished(done: asyncio.Task[outcome.Outcome[Any]]) -> None:
            result = outcome.Error(asyncio.CancelledError()) if done.cancelled() else done.result()
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(lambda: None if abandoned else trio.lowlevel.reschedule(task, result))

        def start() -> None:
            # Captured, because a SystemExit or KeyboardInterrupt that leaves a task would end the loop.
            running.append(loop.create_task(outcome.acapture(function)))
            running[0].add_done_callback(finished)

        def abort(_: Any) -> trio.lowlevel.Abort:
            nonlocal abandoned
            abandoned = True
            loop.call_soon_threadsafe(lambda: running[0].cancel())
            return trio.lowlevel.Abort.SUCCEEDED

        loop.call_soon_threadsafe(start)
        return await trio.lowlevel.wait_task_rescheduled(abort)

    def close(self) -> None:
        """Cancel what still runs, give it a second, and stop the loop."""
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop)
        self._thread.join(_JOIN_SECONDS)
        self._loop = self._thread = None

    def _start(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_serve, args=(self._loop,), name="mcpkit asyncio", daemon=True
            )
            self._thread.start()
        return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    asyncio.get_running_loop().stop()


async def from_trio(token: trio.lowlevel.TrioToken, function: Callable[[], Awaitable[T]]) -> T:
    """Run a trio function in the loop of `token`, from asyncio; a cancellation is carried over."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[outcome.Outcome[T]] = loop.create_future()
    scope = trio.CancelScope()

    async def run() -> None:
        captured: outcome.Outcome[T] = outcome.Error(asyncio.CancelledError())
        with scope:
            captured = await outcome.acapture(function)
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
            loop.call_soon_threadsafe(lambda: None if result.done() else result.set_result(captured))

    token.run_sync_soon(trio.lowlevel.spawn_system_task, run)
    try:
        return (await result).unwrap()
    except asyncio.CancelledError:
        token.run_sync_soon(scope.cancel)
        raise
