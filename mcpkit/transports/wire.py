"""The client's end of a connection: bytes in, lines out."""

from __future__ import annotations

import re

import trio

from mcpkit.protocol.lines import LineSplitter, Oversized

_NO_LIMIT = 2**62
_STREAM = re.compile(r"https?://[^/?#]+[^?#]*/sse/?([?#]|$)")


def is_sse(url: str) -> bool:
    """Whether a URL is, by its name, the stream of a server of HTTP+SSE."""
    return _STREAM.match(url) is not None


class HttpFailure(Exception):
    """A server that cannot be reached, or that answered with no message of the protocol; the text says how."""


class Wire:
    """What a client sends and receives, whatever carries it."""

    def __init__(
        self, outgoing: trio.MemorySendChannel[bytes], incoming: trio.MemoryReceiveChannel[bytes]
    ) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self._splitter = LineSplitter(_NO_LIMIT)
        self._lines: list[bytes | Oversized] = []
        self.exit_code: int | None = None
        """How the server's process ended, once it has."""

    def send(self, data: bytes) -> None:
        """Send bytes: lines, or parts of lines. Raises trio.BrokenResourceError when the server has gone."""
        self._outgoing.send_nowait(data)

    def close(self) -> None:
        """Send the end of file."""
        self._outgoing.close()

    async def receive(self) -> bytes | None:
        """The next line, without its end; None when the server has gone."""
        while not self._lines:
            try:
                self._lines = self._splitter.feed(await self._incoming.receive())
            except trio.EndOfChannel:
                return None
        line = self._lines.pop(0)
        assert isinstance(line, bytes)
        return line
