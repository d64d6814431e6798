"""Event streams: how the messages about a request reach the client that waits for them.

A stream of the stateless era lives as long as its response. One of the handshake era outlives it: the client
may lose the connection, come back with the id of the last event that it saw, and get the rest.
"""

from __future__ import annotations

import trio

from mcpkit.engine.bell import Bell
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

PATIENCE_SECONDS = 1.0
"""How long an answer may take before a stream is begun that a client can come back to."""


class Writer:
    """One response that is an event stream. It begins with the first event; from then on a comment breaks
    `silence` seconds without one. `close` it, whatever happens.

    Only a task of its own writes. A call that is cut short (by its time limit, say) would otherwise cut an event, and
    what is put by a handler that cannot wait would stay behind.
    """

    def __init__(self, exchange: Exchange, headers: HeaderList, silence: float) -> None:
        self._exchange = exchange
        self._headers = headers
        self._silence = silence
        self._buffer = bytearray()
        self._changed = Bell()
        self._written = Bell()
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
        self._changed.ring()
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
        self._changed.ring()
        while not (self.empty or self.gone):
            await self._written.wait()

    async def _run(self) -> None:
        try:
            await self._exchange.start(200, [*EVENT_STREAM_HEADERS, *self._headers], self._take())
            while await self._anything():
                await self._exchange.write(self._take())
        except Disconnected:
            pass
        finally:
            self.gone = True
            self._written.ring()

    async def _anything(self) -> bool:
        """Whether there is more to write, sooner or later."""
        self._written.ring()
        while not (self._buffer or self._closing):
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
        self.oldest = 1
        """The number of the oldest message that it keeps, or of its first one, which is still to come."""
        self.changed = Bell()
        self._kept: list[bytes] = []
        self._reader = 0
        self._attached = False
        self._unread = 0
        self._brief = False

    @property
    def newest(self) -> int:
        """The number of the newest message, 0 when there was none."""
        return self.oldest + len(self._kept) - 1

    def put(self, message: bytes) -> None:
        """Add a message."""
        self._kept.append(message)
        self._unread += len(message)
        self.size += len(message)
        while len(self._kept) > 1 and (len(self._kept) > MAX_KEPT or self.size > MAX_KEPT_BYTES):
            self.size -= len(self._kept.pop(0))
            self.oldest += 1
        self.changed.ring()

    def end(self) -> None:
        """There will be no more messages."""
        self.complete = True
        self.changed.ring()

    async def wait(self) -> None:
        """Wait for the first message, the end, `detach`, or that the bell rings: no reader is there yet."""
        if not (self._kept or self.complete or self._brief):
            await self.changed.wait()

    def single(self) -> bytes | None:
        """The message, when the stream is complete with just one."""
        return self._kept[0] if self.complete and len(self._kept) == 1 else None

    @property
    def lagging(self) -> bool:
        """Whether somebody reads, and lags behind."""
        return self._attached and self._unread > ROOM

    async def room(self) -> None:
        """Wait for a reader that lags behind; one that is away is not waited for."""
        await trio.lowlevel.checkpoint()
        while self.lagging:
            await self.changed.wait()

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

    async def copy(
        self,
        exchange: Exchange,
        headers: HeaderList,
        silence: float,
        *,
        after: int,
        prime: bool,
        until: float,
    ) -> None:
        """Answer with the messages after a number, as they come, until the stream is complete or lets go of its
        reader, another one attaches, or the time is `until`. A comment breaks `silence` seconds without any. Raises
        `Disconnected`.
        """
        self._reader += 1
        mine = self._reader
        self._attached = True
        self._take()  # whoever reads now stops
        brief, self._brief = self._brief, False
        exchange.on_disconnect(lambda: self.detach() if mine == self._reader else None)
        self.fill()  # which begins to hear of changes, before the client can know that it listens
        # Something leaves at once, or who stands between would take the silence for an answer that does not come.
        first = sse.priming(self._event_id(after), RETRY_MS) if prime else sse.KEEP_ALIVE
        try:
            await exchange.start(200, [*EVENT_STREAM_HEADERS, *headers], first)
            while mine == self._reader and trio.current_time() < until:
                self.fill()
                data, after = self._events(after)
                if data:
                    await exchange.write(data)
                    self._take()
                elif brief or self.complete:
                    return
                else:
                    with trio.move_on_at(min(until, trio.current_time() + silence)) as timer:
                        await self.changed.wait()
                    if timer.cancelled_caught:
                        await exchange.write(sse.KEEP_ALIVE)
        finally:
            if mine == self._reader:
                self._attached = False
                self._take()

    def fill(self) -> None:
        """Put in what has waited for a reader with room."""

    def _events(self, after: int) -> tuple[bytes, int]:
        """The kept messages after a number as events, and the number of the last."""
        start = max(after + 1, self.oldest)
        kept = self._kept[start - self.oldest :]
        events = [sse.event(message, id=self._event_id(start + n)) for n, message in enumerate(kept)]
        return b"".join(events), max(after, self.newest)

    def _event_id(self, number: int) -> str:
        return f"{self.number}.{number}"

    def _take(self) -> None:
        self._unread = 0
        self.changed.ring()


class Patience:
    """Waits for the first message of streams, but not long. One task ends all waits that have lasted
    `PATIENCE_SECONDS`: a timer for each would cost as much as a call.
    """

    def __init__(self) -> None:
        self._waits: dict[Stream, float] = {}
        """Until when for each stream; the oldest comes first."""
        self._some = Bell()

    async def wait(self, stream: Stream) -> None:
        """See `Stream.wait`."""
        self._waits[stream] = trio.current_time() + PATIENCE_SECONDS
        self._some.ring()
        try:
            await stream.wait()
        finally:
            del self._waits[stream]

    async def run(self) -> None:
        """End waits, for ever."""
        while True:
            while not self._waits:
                await self._some.wait()
            await trio.sleep_until(next(iter(self._waits.values())))
            self._end_waits(trio.current_time())

    def _end_waits(self, now: float) -> None:
        for stream, until in self._waits.items():
            if until > now:
                break
            stream.changed.ring()
