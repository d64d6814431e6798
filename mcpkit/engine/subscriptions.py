"""Changes on their way from the app to the clients that asked for them.

Rule 1. Publishing never waits, and may come from any thread.
Rule 2. What a client has not taken yet is kept once for each change: a list that changed a thousand times has
        changed. So a listener that does not read holds at most one entry for each list and each resource that
        it asked for, and nothing is lost.
Rule 3. More than `MOST` changed resources become one changed list, where the client wants to hear of it.
Rule 4. What this process publishes reaches its own clients at once, and those of other processes through the
        `Bus`, if the app's store is one.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

import msgspec
import trio
from msgspec import Struct

from mcpkit.engine.bell import Bell
from mcpkit.protocol.events import Change
from mcpkit.stores.base import Bus

MOST = 1000
"""Changed resources that wait for one client."""

_LIST = Change("resources")

_log = logging.getLogger("mcpkit")


class _Published(Struct, array_like=True):
    """A change on the bus."""

    origin: str
    change: Change


_decode = msgspec.msgpack.Decoder(_Published).decode


class Listener:
    """The changes for one client; `wants` decides which. `owner` ends it, see `Hub.end`. `bell` rings when there is
    something to take.
    """

    def __init__(self, hub: Hub, wants: Callable[[Change], bool], owner: object, bell: Bell) -> None:
        self.owner = owner
        self.ended = False
        self._hub = hub
        self._wants = wants
        self._waiting: dict[Change, None] = {}
        self._bell = bell

    def offer(self, change: Change) -> None:
        """Keep a change, if it is wanted."""
        try:
            if not self._wants(change):
                return
        except Exception:  # of an `Auth` of the user's
            _log.exception("a client is not told of a change: whether it may hear of it cannot be said")
            return
        self._waiting[change] = None
        if len(self._waiting) > MOST and self._wants(_LIST):
            self._waiting = {waiting: None for waiting in self._waiting if waiting.uri is None}
            self._waiting[_LIST] = None
        self._bell.ring()

    def end(self) -> None:
        """Let `next` return None."""
        self.ended = True
        self._bell.ring()

    async def next(self) -> list[Change] | None:
        """The changes since the last call, as soon as there are any; None at the end."""
        while not self._waiting:
            if self.ended or self._hub.closed:
                return None
            await self._bell.wait()
        return self.take()

    def take(self) -> list[Change]:
        """The changes since the last call."""
        changes = list(self._waiting)
        self._waiting.clear()
        return changes

    def close(self) -> None:
        """No more changes are wanted."""
        self._hub.remove(self)


class Hub:
    """All listeners of one running app."""

    def __init__(self, bus: Bus | None = None) -> None:
        self.closed = False
        self._bus = bus
        self._name = secrets.token_hex(8)
        self._listeners: set[Listener] = set()
        self._token = trio.lowlevel.current_trio_token()

    def publish(self, change: Change) -> None:
        """Tell everyone of a change, from any thread."""
        self._in_engine(self._deliver_everywhere, change)

    def hear(self, message: bytes) -> None:
        """Tell the clients of this process what the bus says, from any thread."""
        try:
            published = _decode(message)
        except msgspec.MsgspecError:
            return  # of another version
        if published.origin != self._name:
            self._in_engine(self._deliver, published.change)

    def listen(
        self, wants: Callable[[Change], bool], owner: object = None, bell: Bell | None = None
    ) -> Listener:
        """Begin to listen; `Listener.close` ends it."""
        listener = Listener(self, wants, owner, bell or Bell())
        self._listeners.add(listener)
        return listener

    def remove(self, listener: Listener) -> None:
        """Forget a listener."""
        self._listeners.discard(listener)

    def close(self) -> None:
        """Tell all listeners that the server ends."""
        self.closed = True
        for listener in self._listeners:
            listener.end()

    def end(self, owner: object) -> None:
        """Tell the listeners of an owner that their connection ends."""
        for listener in self._listeners:
            if listener.owner is owner:
                listener.end()

    def _in_engine(self, function: Callable[[Change], None], change: Change) -> None:
        try:
            if trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is self._token:
                function(change)
            else:
                self._token.run_sync_soon(function, change)
        except trio.RunFinishedError:
            pass  # nobody is served any more

    def _deliver_everywhere(self, change: Change) -> None:
        self._deliver(change)
        if self._bus is None:
            return
        try:
            self._bus.publish(msgspec.msgpack.encode(_Published(self._name, change)))
        except Exception:  # of a bus of the user's, in spite of its promise
            _log.exception("a change did not reach other processes: the bus failed")

    def _deliver(self, change: Change) -> None:
        for listener in self._listeners:
            listener.offer(change)
