"""Changes on their way from the app to the clients that asked for them.

Rule 1. Publishing never waits, and may come from any thread.
Rule 2. What a client has not taken yet is kept once for each change: a list that changed a thousand times has
        changed. So a listener that does not read holds at most one entry for each list and each resource that
        it asked for, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from mcpkit.protocol.events import Change


class Listener:
    """The changes for one client; `wants` decides which."""

    def __init__(self, hub: Hub, wants: Callable[[Change], bool]) -> None:
        self._hub = hub
        self._wants = wants
        self._waiting: dict[Change, None] = {}
        self._woken = trio.Event()

    def offer(self, change: Change) -> None:
        """Keep a change, if it is wanted."""
        if self._wants(change):
            self._waiting[change] = None
            self._woken.set()

    def wake(self) -> None:
        """Let `next` look whether the server ends."""
        self._woken.set()

    async def next(self) -> list[Change] | None:
        """The changes since the last call, as soon as there are any; None when the server ends."""
        while not self._waiting:
            if self._hub.closed:
                return None
            self._woken = trio.Event()
            await self._woken.wait()
        changes = list(self._waiting)
        self._waiting.clear()
        return changes

    def close(self) -> None:
        """No more changes are wanted."""
        self._hub.remove(self)


class Hub:
    """All listeners of one running app."""

    def __init__(self) -> None:
        self.closed = False
        self._listeners: set[Listener] = set()
        self._token = trio.lowlevel.current_trio_token()

    def publish(self, change: Change) -> None:
        """Pass a change on, from any thread."""
        try:
            if trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is self._token:
                self._deliver(change)
            else:
                self._token.run_sync_soon(self._deliver, change)
        except trio.RunFinishedError:
            pass  # nobody is served any more

    def listen(self, wants: Callable[[Change], bool]) -> Listener:
        """Begin to listen; `Listener.close` ends it."""
        listener = Listener(self, wants)
        self._listeners.add(listener)
        return listener

    def remove(self, listener: Listener) -> None:
        """Forget a listener."""
        self._listeners.discard(listener)

    def close(self) -> None:
        """Tell all listeners that the server ends."""
        self.closed = True
        for listener in self._listeners:
            listener.wake()

    def _deliver(self, change: Change) -> None:
        for listener in self._listeners:
            listener.offer(change)
