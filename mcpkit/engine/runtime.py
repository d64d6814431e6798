"""One serving of an app: its lifespan and what all connections share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from mcpkit.app import App
from mcpkit.protocol.events import Identity

if TYPE_CHECKING:
    from mcpkit.engine.aio import AsyncioThread

MAX_THREADS = 40
"""Plain `def` handlers that run at once; more wait for a thread."""

_CLEANUP_SECONDS = 5.0


class Runtime:
    """An app that is being served. `state` is what its lifespan yielded, from `ready` on."""

    def __init__(self, app: App) -> None:
        app.registry.resolve()
        self.app = app
        self.registry = app.registry
        self.identity = Identity(app.implementation, app.cache.wire)
        self.threads = trio.CapacityLimiter(MAX_THREADS)
        self.ready = trio.Event()
        self.state: Any = None
        self._closing = trio.Event()
        self._asyncio_thread: AsyncioThread | None = None

    def asyncio_thread(self) -> AsyncioThread:
        """The thread for handlers that need asyncio."""
        if self._asyncio_thread is None:
            from mcpkit.engine.aio import AsyncioThread  # asyncio is slow to import, and seldom needed

            self._asyncio_thread = AsyncioThread()
        return self._asyncio_thread

    async def _live(self) -> None:
        """Enter the lifespan, wait for the end, leave it. Its clean-up may take a while even when everything
        is being cancelled.
        """
        if self.app.lifespan is None:
            self.ready.set()
            return
        manager = self.app.lifespan(self.app)
        self.state = await manager.__aenter__()
        self.ready.set()
        try:
            await self._closing.wait()
        finally:
            with trio.move_on_after(_CLEANUP_SECONDS, shield=True):
                await manager.__aexit__(None, None, None)

    def close(self) -> None:
        """Begin the end of the lifespan."""
        self._closing.set()
        if self._asyncio_thread is not None:
            self._asyncio_thread.close()


@asynccontextmanager
async def running(app: App) -> AsyncGenerator[Runtime]:
    """Serve `app` inside the block. Its lifespan starts beside it, so that a client gets its first answer
    however long that takes; what it raises ends the block. Raises TypeError when something that was
    registered cannot be served.
    """
    runtime = Runtime(app)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runtime._live)
        try:
            yield runtime
        finally:
            if not runtime.ready.is_set():
                nursery.cancel_scope.cancel()
            runtime.close()
