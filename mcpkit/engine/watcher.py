"""Tell clients of files that change, while an app is served. All of it happens in one thread, so that a slow disk never
keeps the engine waiting.
"""

from __future__ import annotations

import contextlib
import threading
import time

import trio

from mcpkit.engine.files import looks, snapshot
from mcpkit.notifier import Notifier
from mcpkit.watching import Found, Watch, Watches

_FIRST_SECONDS = 1.0
_LAST_SECONDS = 1.0
_BATCH = 256
_PAUSE = 0.001
"""Seconds, after each batch of changes: the engine answers others meanwhile."""


class Watcher:
    """What happens to the files of one served app. What it watches already is measured by its first look; what comes
    later is told as found: nobody knows what a client has read of it before.
    """

    def __init__(self, watches: Watches, notifier: Notifier, known: tuple[Watch, ...]) -> None:
        self._watches = watches
        self._notifier = notifier
        self._known = frozenset(known)
        self._before: dict[Watch, Found] = {}
        self._more = threading.Event()
        self._closed = False
        self._looked = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._scope = trio.CancelScope(shield=True)

    async def run(self) -> None:
        """Watch until `close`."""
        with self._scope:
            await trio.to_thread.run_sync(self._work, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))

    async def first_look(self) -> None:
        """Wait until changes are noticed, for a second at most: a client must not wait for a slow disk."""
        with trio.move_on_after(_FIRST_SECONDS):
            await self._looked.wait()

    def wake(self) -> None:
        """There is more to watch."""
        self._more.set()

    def close(self) -> None:
        """End: within 50 ms, or a second when the disk does not answer."""
        self._closed = True
        self._scope.deadline = trio.current_time() + _LAST_SECONDS

    def _work(self) -> None:
        for _ in looks(self._look, lambda: self._closed or self._more.is_set()):
            if self._closed:
                return
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._looked.set, idempotent=True)

    def _look(self, places: set[str]) -> None:
        self._more.clear()
        listed, members = False, set[str]()
        for watch in self._watches.all():
            now = snapshot(watch.root, places, depth=watch.depth, stopped=lambda: self._closed)
            if now is None:
                continue
            before = self._before.get(watch, now if watch in self._known else {})
            self._before[watch] = now
            appeared, changed = watch.difference(before, now)
            listed |= appeared
            members |= changed
        self._tell(listed, members)

    def _tell(self, listed: bool, members: set[str]) -> None:
        if listed:
            self._notifier.resources_changed()
        for number, uri in enumerate(sorted(members), 1):
            self._notifier.resource_updated(uri)
            if number % _BATCH == 0:
                time.sleep(_PAUSE)
