"""Event streams: how the messages about a request reach the client that waits for them.

A stream of the stateless era lives as long as its response. One of the handshake era outlives it: the client
may lose the connection, come back with the id of the last event that it saw, and get the rest.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator

import trio

from mcpkit.protocol import sse
from mcpkit.transports.http import EVENT_STREAM_HEADERS, Disconnected, Exchange, HeaderList

MAX_KEPT = 1000
"""Events that a stream keeps for a client that is away."""

MAX_KEPT_BYTES = 1024 * 1024
"""Their size; the newest is kept however large it is."""

ROOM = 64 * 1024
"""Bytes that may wait for a client that reads slowly before those who write wait, too."""

RETRY_MS = 1000
"""How long a client is asked to wait before it reconnects."""


class Writer:
    """One response that is an event stream. It begins with the first event; from then on a comment breaks
    `silence` seconds without one. `close` it, whatever happens.

    Only a task of its own writes. A call that is cut short (by its time limit, say) would otherwise cut an event, and
    what is put by a handler that cannot wait would stay behind.
    """

    def __init__(self, exchange: Exchange, headers: HeaderList, silence: float) -> None:
        self._exchange = exchange
        self._headers = [*EVENT_STREAM_HEADERS, *headers]
        self._silence = silence
        self._buffer = bytearray()
        self._changed = trio.Event()
        self._written = trio.Event()
        self._ended = trio.Event()
        self._closing = False
        self.empty = True
        """Whether nothing was put into it so far."""
        self.gone = False
        """Whether nothing is written any more: the client has left, or has everything."""

    def put(self, event: bytes) -> None:
        """Write an event, soon. Nothing is written once it is closed, or the client has left."""
        if self._closing or self.gone:
            return
        self._buffer += event
        self._changed.set()
        if self.empty:
            self.empty = False
            self._exchange.start_soon(self._run)

    async def room(self) -> None:
        """Wait for a client that reads slowly."""
        await trio.lowlevel.checkpoint()
        while len(self._buffer) > ROOM and not self.gone:
            await self._written.wait()

    async def close(self) -> None:
        """Write what is left; nothing is written after that."""
        self._closing = True
        self._changed.set()
        if not self.empty:
            await self._ended.wait()

    async def _run(self) -> None:
        try:
            await self._exchange.start(200, self._headers, self._take())
            while await self._anything():
                await self._exchange.write(self._take())
        except Disconnected:
            pass
        finally:
            self.gone = True
            self._written.set()
            self._ended.set()

    async def _anything(self) -> bool:
        """Whether there is more to write, sooner or later."""
        self._written.set()
        self._written = trio.Event()
        while not (self._buffer or self._closing):
            self._changed = trio.Event()
            with trio.move_on_after(self._silence) as silence:
                await self._changed.wait()
            if silence.cancelled_caught:
                self._buffer += sse.KEEP_ALIVE
        return bool(self._buffer)

    def _take(self) -> bytes:
        data = bytes(self._buffer)
        self._buffer.clear()
        return data


class Stream:
    """The messages about one request (or about none) of a session, each with an id: "STREAM.NUMBER"."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.complete = False
        """Whether the last message is in it."""
        self.size = 0
        """Bytes that it keeps."""
        self._kept: deque[tuple[int, bytes]] = deque()
        self._next = itertools.count(1)
        self._changed = trio.Event()
        self._reader = 0
        self._attached = False
        self._unread = 0
        self._taken = trio.Event()
        self._brief = False

    @property
    def newest(self) -> int:
        """The number of the newest message, 0 when there was none."""
        return self._kept[-1][0] if self._kept else 0

    @property
    def oldest(self) -> int:
        """The number of the oldest message that it keeps, 0 when there was none."""
        return self._kept[0][0] if self._kept else 0

    def put(self, message: bytes, *, last: bool = False) -> None:
        """Add a message."""
        self._kept.append((next(self._next), message))
        self._unread += len(message)
        self.size += len(message)
        while len(self._kept) > 1 and (len(self._kept) > MAX_KEPT or self.size > MAX_KEPT_BYTES):
            self.size -= len(self._kept.popleft()[1])
        self.complete = self.complete or last
        self.wake()

    def end(self) -> None:
        """There will be no more messages."""
        self.complete = True
        self.wake()

    def wake(self) -> None:
        """Let whoever reads look again."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait(self) -> None:
        """Wait for the first message, the end, or `detach`."""
        while not (self._kept or self.complete or self._brief):
            await self._changed.wait()

    def single(self) -> bytes | None:
        """The message, when the stream is complete with just one."""
        return self._kept[0][1] if self.complete and len(self._kept) == 1 else None

    @property
    def lagging(self) -> bool:
        """Whether somebody reads, and lags behind."""
        return self._attached and self._unread > ROOM

    async def room(self) -> None:
        """Wait for a reader that lags behind; one that is away is not waited for."""
        await trio.lowlevel.checkpoint()
        while self.lagging:
            await self._taken.wait()

    def attach(self) -> int:
        """Become the reader: whoever reads now stops."""
        self._reader += 1
        self.wake()
        return self._reader

    def detach(self) -> None:
        """Let whoever reads stop, with the stream going on. A first reader that is still to come stops at
        once, with an event to come back with.
        """
        if self._reader:
            self._reader += 1
        else:
            self._brief = True
        self._attached = False
        self._take()  # whoever waits for room waits for this reader
        self.wake()

    def after(self, number: int) -> Iterator[tuple[int, bytes]]:
        """The kept messages after that number."""
        return ((n, message) for n, message in tuple(self._kept) if n > number)

    def event_id(self, number: int) -> str:
        """The id of an event, which tells the stream."""
        return f"{self.number}.{number}"

    async def copy(self, writer: Writer, *, after: int = 0, prime: bool = False) -> None:
        """Write the messages after a number, as they come, until the stream is complete or lets go of its
        reader, another one attaches, or the client leaves.
        """
        mine = self.attach()
        brief, self._brief = self._brief, False
        # Something leaves at once, or who stands between would take the silence for an answer that does not come.
        writer.put(sse.priming(self.event_id(after), RETRY_MS) if prime else sse.KEEP_ALIVE)
        self._attached = True
        try:
            while mine == self._reader and not writer.gone:
                changed = self._changed
                for number, message in self.after(after):
                    writer.put(sse.event(message, id=self.event_id(number)))
                    after = number
                await writer.room()
                self._take()
                if brief or (self.complete and not any(self.after(after))):
                    return
                if changed is self._changed:
                    await changed.wait()
        finally:
            if mine == self._reader:
                self._attached = False
            self._take()

    def _take(self) -> None:
        self._unread = 0
        self._taken.set()
        self._taken = trio.Event()
