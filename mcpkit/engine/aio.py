"""Handlers that need asyncio: `@app.tool(loop="asyncio")`.

mcpkit runs on trio, where libraries that are written for asyncio alone do not work. Their handlers run on an
asyncio loop in a thread of its own, which starts with the first such call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import outcome
import trio

_JOIN_SECONDS = 1.0


class AsyncioThread:
    """An asyncio loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """The coroutine's result. A cancellation reaches it as `asyncio.CancelledError`; it is not waited
        for.
        """
        loop = self._start()
        task = trio.lowlevel.current_task()
        token = trio.lowlevel.current_trio_token()
        running: list[asyncio.Task[Any]] = []
        abandoned = False

        def finished(done: asyncio.Task[Any]) -> None:
            result = outcome.capture(done.result)
            token.run_sync_soon(lambda: None if abandoned else trio.lowlevel.reschedule(task, result))

        def start() -> None:
            running.append(loop.create_task(coroutine))
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
