"""trio as a guest of an asyncio loop, so that an app can be mounted in servers that run on asyncio.

Rule 1. A thread has room for one trio run, so all applications on a loop share one guest.
Rule 2. It ends when the last who holds it lets go, or with the loop: asyncio cancels all tasks before it closes, and
        one of them keeps the guest, and does not end before it.
Rule 3. A cancellation never crosses the border as an exception of the other side: to trio it is a cancelled scope, to
        asyncio a cancelled future.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, ClassVar

import outcome
import trio

_LOOK_SECONDS = 0.2
_ENDING: trio.lowlevel.RunVar[trio.Event | None] = trio.lowlevel.RunVar("_ENDING", None)


async def until_host_ends() -> None:
    """Wait until the host of this trio run begins to end; for ever where it cannot be known."""
    event = _ENDING.get()
    await (trio.sleep_forever() if event is None else event.wait())


class Guest:
    """The trio run on an asyncio loop."""

    _all: ClassVar[dict[asyncio.AbstractEventLoop, Guest]] = {}

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._holders = 0
        self._stopping = False
        self._started: asyncio.Future[None] = loop.create_future()
        self._done: asyncio.Future[None] = loop.create_future()
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=loop.call_soon,
            done_callback=self._finished,
            host_uses_signal_set_wakeup_fd=True,
        )
        self._keeper = loop.create_task(self._keep())

    @classmethod
    async def here(cls) -> Guest:
        """The guest of the running loop, which has started."""
        loop = asyncio.get_running_loop()
        while (guest := cls._all.get(loop)) is not None and guest._stopping:
            await asyncio.wait([guest._done])
        if guest is None:
            guest = cls._all[loop] = cls(loop)
        await asyncio.shield(guest._started)
        return guest

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        """Hold it inside the block. It has ended with the last block."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                self._keeper.cancel()
                await asyncio.wait([self._keeper])

    async def call(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Run a trio function in the guest, from asyncio; a cancellation is carried over."""
        result: asyncio.Future[Any] = self._loop.create_future()
        scope = trio.CancelScope()

        async def run() -> None:
            captured: outcome.Outcome[Any] | None = None
            try:
                with scope:
                    captured = outcome.Value(await function(*args))
            except trio.Cancelled:
                raise
            except BaseException as error:
                captured = outcome.Error(error)
            finally:
                _settle(result, captured)

        self._token.run_sync_soon(self._nursery.start_soon, run)
        try:
            return await result
        except asyncio.CancelledError:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(scope.cancel)
            raise

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._ending = trio.Event()
        _ENDING.set(self._ending)
        async with trio.open_nursery() as self._nursery:
            self._started.set_result(None)
            if not self._stopping:
                await trio.sleep_forever()

    def _finished(self, captured: outcome.Outcome[None]) -> None:
        del self._all[self._loop]
        _settle(self._done, captured)

    async def _keep(self) -> None:
        while not self._done.done():
            try:
                await asyncio.wait([self._done], timeout=_LOOK_SECONDS)
            except asyncio.CancelledError:
                self._stop()
            if not self._done.done():
                self._look()
        self._done.result()

    def _stop(self) -> None:
        self._stopping = True
        if self._started.done():
            self._token.run_sync_soon(self._nursery.cancel_scope.cancel)

    def _look(self) -> None:
        """See whether the host is ending. uvicorn waits for all responses to end before it says so, and a stream
        does not end before it knows; but uvicorn's signal handler is a method of the server.
        """
        server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
        if getattr(server, "should_exit", False) is True and self._started.done():
            self._token.run_sync_soon(self._ending.set, idempotent=True)


def _settle(future: asyncio.Future[Any], captured: outcome.Outcome[Any] | None) -> None:
    """Give a future its outcome; none means that it is cancelled."""
    if future.done():
        return
    if captured is None:
        future.cancel()
    elif isinstance(captured, outcome.Error):
        future.set_exception(captured.error)
    else:
        future.set_result(captured.unwrap())


def from_asyncio(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """An asyncio function for code that runs in a guest of the same loop. When the host cancels it, it raises
    ConnectionAbortedError.
    """
    loop = asyncio.get_running_loop()

    async def call(*args: Any) -> Any:
        waiting = trio.lowlevel.current_task()
        token = trio.lowlevel.current_trio_token()
        abandoned = False

        async def run() -> Any:
            return await function(*args)

        def finished(task: asyncio.Task[Any]) -> None:
            captured: outcome.Outcome[Any]
            if task.cancelled():
                captured = outcome.Error(ConnectionAbortedError("the host has cancelled it"))
            else:
                captured = outcome.capture(task.result)
            if not abandoned:
                token.run_sync_soon(reschedule, captured)

        def reschedule(captured: outcome.Outcome[Any]) -> None:
            if not abandoned:
                trio.lowlevel.reschedule(waiting, captured)

        task = loop.create_task(run())
        task.add_done_callback(finished)

        def abort(_: Any) -> trio.lowlevel.Abort:
            nonlocal abandoned
            abandoned = True
            task.cancel()
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(abort)

    return call
