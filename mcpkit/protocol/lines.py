"""Lines of a byte stream, however it is cut into reads.

Rule 1. No byte is looked at twice: a line that arrives in a thousand pieces costs a thousand appends, not a
        thousand searches.
Rule 2. A line above the limit is reported once, with its beginning, and the rest of it is skipped without
        being kept.
"""

from __future__ import annotations

from typing import NamedTuple


class Oversized(NamedTuple):
    """A line of more than `limit` bytes; `beginning` is what was kept of it."""

    beginning: bytes
    limit: int


class LineSplitter:
    """Cuts a stream at line feeds; blank lines are left out, and so is the carriage return of a CRLF."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._skipping = False

    def feed(self, data: bytes | bytearray) -> list[bytes | Oversized]:
        """The lines that `data` completes."""
        if b"\n" not in data:  # many times faster than to find that nothing is to be split
            lines: list[bytes | Oversized] = []
            self._keep(data, lines)
            return lines
        pieces = data.split(b"\n")
        rest = pieces.pop()
        lines = []
        for piece in pieces:
            if self._rest or self._skipping or len(piece) > self._limit:
                self._complete(piece, lines)
            elif line := piece.strip():
                lines.append(bytes(line))
        if rest:
            self._keep(rest, lines)
        return lines

    def close(self) -> list[bytes | Oversized]:
        """The last line, when the stream ends without a line feed."""
        lines: list[bytes | Oversized] = []
        self._complete(b"", lines)
        return lines

    def _complete(self, piece: bytes | bytearray, lines: list[bytes | Oversized]) -> None:
        if self._rest or self._skipping or len(piece) > self._limit:
            self._keep(piece, lines)
            piece = bytes(self._rest)
            self._rest.clear()
        if not self._skipping and (line := bytes(piece.strip())):
            lines.append(line if len(line) <= self._limit else Oversized(line[: self._limit], self._limit))
        self._skipping = False

    def _keep(self, piece: bytes | bytearray, lines: list[bytes | Oversized]) -> None:
        if self._skipping:
            return
        if len(self._rest) + len(piece) <= self._limit + 1:  # one more, for a carriage return
            self._rest += piece
            return
        self._rest += piece[: self._limit]
        lines.append(Oversized(bytes(self._rest[: self._limit]), self._limit))
        self._rest.clear()
        self._skipping = True
