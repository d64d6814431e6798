"""A channel of lines over two byte streams: stdio's framing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from mcpkit.engine.bell import Bell
from mcpkit.protocol.lines import LineSplitter, Oversized

MAX_MESSAGE = 4 * 1024 * 1024
"""Bytes of one message."""

_HIGH_WATER = 1024 * 1024
"""Bytes in the outgoing buffer from which writers wait."""


class LineChannel:
    """Messages as lines. `read` returns some bytes, none at the end. `write` sends a buffer and takes away
    from it what has been sent, so that a write that is cancelled can be continued; it raises
    trio.BrokenResourceError when nobody reads any more. `write_now` does the same as far as that needs no waiting.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[bytes | bytearray]],
        write: Callable[[bytearray], Awaitable[None]],
        write_now: Callable[[bytearray], None] | None = None,
        *,
        max_message: int = MAX_MESSAGE,
    ) -> None:
        self._read = read
        self._write = write
        self._write_now = write_now
        self._splitter = LineSplitter(max_message)
        self._buffer = bytearray()
        self._flushing = False
        self._room = Bell()
        self._ended = False

    async def receive(self) -> list[bytes | Oversized] | None:
        """The lines of the next read that completes any; None at the end."""
        while not self._ended:
            data = await self._read()
            self._ended = not data
            lines = self._splitter.feed(data) if data else self._splitter.close()
            if lines:
                return lines
        return None

    def write(self, message: bytes) -> None:
        """Put a line into the buffer."""
        self._buffer += message
        self._buffer += b"\n"

    def flush_now(self) -> bool:
        """See `Channel`."""
        if self._flushing:
            return False
        if self._buffer and self._write_now is not None:
            self._write_now(self._buffer)
        return not self._buffer

    async def flush(self, *, at_once: bool = False) -> None:
        """Send the buffer. One caller sends for all who come meanwhile, and unless `at_once` for all calls that end
        in the same pass of the scheduler.
        """
        if self._flushing or not self._buffer:
            return
        self._flushing = True
        data = bytearray()
        try:
            if not at_once:
                await trio.lowlevel.checkpoint()
            while self._buffer:
                data, self._buffer = self._buffer, bytearray()
                await self._write(data)
        finally:
            self._buffer[:0] = data
            self._flushing = False
            self._room.ring()

    async def drain(self) -> None:
        """Wait while the client reads too slowly."""
        while self._flushing and len(self._buffer) > _HIGH_WATER:
            await self._room.wait()
