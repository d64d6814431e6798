"""One serving of an app: its lifespan and what all connections share."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import trio

from mcpkit import around
from mcpkit.app import App
from mcpkit.engine.pages import Pages
from mcpkit.engine.subscriptions import Hub
from mcpkit.engine.threads import Threads
from mcpkit.handler import Handler
from mcpkit.protocol.events import Identity
from mcpkit.seal import Sealer, keys_from_environment
from mcpkit.stores.base import Bus, Store
from mcpkit.stores.memory import MemoryStore
from mcpkit.watching import Watch

if TYPE_CHECKING:
    from mcpkit.engine.aio import AsyncioThread
    from mcpkit.engine.watcher import Watcher

MAX_THREADS = 40
"""Plain `def` handlers that run at once; more wait for a thread."""

_CLEANUP_SECONDS = 5.0


class Runtime:
    """An app that is being served. `state` is what its lifespan yielded, from `ready` on."""

    def __init__(self, app: App) -> None:
        app.registry.resolve()
        self.app = app
        self.registry = app.registry
        self.way = around.stack(app.layers) if app.layers else None
        """From a bound call through the middleware to its handler; None where there is no middleware."""
        self.identity = Identity(app.implementation, app.cache.wire)
        self.store: Store = MemoryStore() if app.store is None else app.store
        self.bus = app.store if isinstance(app.store, Bus) else None
        self.hub = Hub(self.bus)
        self.sealer = Sealer(app.state_keys or keys_from_environment(), app.state_ttl, "request state")
        self.pages: Pages | None = None
        """What has been listed; see `listing`."""
        self.background: trio.Nursery
        """For what goes on beside the calls, and ends by itself."""
        self.threads: Threads
        self.ready = trio.Event()
        self.state: Any = None
        self._closing = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        # logging.config.dictConfig in a script switches off the loggers that it does not name, and with ours the
        # tracebacks of its own handlers.
        logging.getLogger("mcpkit").disabled = False
        # Around the whole lifespan: a scope that is opened for its end alone could not enclose the nurseries
        # that it opened at its beginning.
        self._lifetime = trio.CancelScope(shield=True)
        self._asyncio_thread: AsyncioThread | None = None
        self._watcher: Watcher | None = None

    def providing(self, method: str) -> Iterator[Handler]:
        """The handlers of the providers that override a method, in order."""
        return (source.handlers[method] for source in self.app.sources if method in source.handlers)

    def provides(self, method: str) -> bool:
        """Whether a provider overrides a method."""
        return bool(self.app.sources) and any(method in source.handlers for source in self.app.sources)

    def asyncio_thread(self) -> AsyncioThread:
        """The thread for handlers that need asyncio."""
        if self._asyncio_thread is None:
            from mcpkit.engine.aio import AsyncioThread  # asyncio is slow to import, and seldom needed

            self._asyncio_thread = AsyncioThread()
        return self._asyncio_thread

    def watch(self, known: tuple[Watch, ...] = ()) -> Watcher:
        """Watch what the app watches, with `known` as it is found."""
        if self._watcher is None:
            from mcpkit.engine.watcher import Watcher  # few apps watch files

            self._watcher = Watcher(self.app.watches, self.app.notifier, known)
            self.background.start_soon(self._watcher.run)
        self._watcher.wake()
        return self._watcher

    def watch_more(self) -> None:
        """The app watches more than before; from any thread."""
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(lambda: None if self._closing.is_set() else self.watch())

    async def _live(self) -> None:
        """Enter the lifespan, wait for the end, leave it."""
        if self.app.lifespan is None:
            self.ready.set()
            return
        with self._lifetime:
            async with self.app.lifespan(self.app) as self.state:
                self.ready.set()
                await self._closing.wait()

    def close(self) -> None:
        """End the lifespan: at once while it is still starting. Its clean-up may take a while, even when
        everything is being cancelled.
        """
        self.hub.close()
        self._closing.set()
        self._lifetime.deadline = trio.current_time() + (_CLEANUP_SECONDS if self.ready.is_set() else 0.0)
        self.threads.close()
        if self._asyncio_thread is not None:
            self._asyncio_thread.close()
        if self._watcher is not None:
            self._watcher.close()


@asynccontextmanager
async def running(app: App) -> AsyncGenerator[Runtime]:
    """Serve `app` inside the block. Its lifespan starts beside it, so that a client gets its first answer
    however long that takes; what it raises ends the block. Raises TypeError when something that was
    registered cannot be served.
    """
    runtime = Runtime(app)
    hearing = nullcontext() if runtime.bus is None else runtime.bus.listen(runtime.hub.hear)
    async with hearing, trio.open_nursery() as runtime.background:
        runtime.threads = Threads(runtime.background, MAX_THREADS)
        runtime.background.start_soon(runtime._live)
        app.notifier.attach(runtime.hub.publish)
        app.watches.attach(runtime.watch_more)
        app.servings += 1
        try:
            known = app.watches.all()
            if known:
                await runtime.watch(known).first_look()
            yield runtime
        finally:
            app.servings -= 1
            app.watches.detach(runtime.watch_more)
            app.notifier.detach(runtime.hub.publish)
            runtime.close()
