"""The matching half of `uritemplate`: which values of a template's parts make up a URI, in linear time.

Why not a regular expression: ``{a}-{b}-{c}`` makes a backtracking engine cubic in the length of a URI that a
stranger sends. Here a *set of positions* in the URI is one integer: bit d stands for the position d
characters before the end. Going through the template backwards, each piece turns the set of positions where
the rest fits into the set where piece and rest fit. One character is a mask and a shift; a run of characters
is one addition, whose carry walks through the run. A walk forwards through these sets then reads the values
and never turns back.

Rule 1. All pieces together match all of the text.
Rule 2. A percent escape is one unit, and so are the escapes of one character in UTF-8: no piece starts or
    stops inside. All escapes of the text are well-formed; the caller has checked that.
Rule 3. Where several splits fit, the leftmost piece decides: one of `ANY` characters takes as few as it can,
    all others as many as they can.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Sequence
from typing import NamedTuple, Protocol

UNRESERVED = string.ascii_letters + string.digits + "-._~"
"""RFC 3986 section 2.3."""

RESERVED = ":/?#[]@!$&'()*+,;="
"""RFC 3986 section 2.2."""

_MARKS = "!*'()@:$"
"""Besides UNRESERVED: what JavaScript's encodeURIComponent leaves alone, and what people and models write
into a path as it is, since it may stand there (RFC 3986 section 3.3) and separates nothing in a template."""


class Chars(NamedTuple):
    """A set of characters: the digits of its mask for `bytes.translate`, and a pattern for a run of them."""

    table: bytes
    run: re.Pattern[str]


def _table(chars: str) -> bytes:
    return bytes(ord("1") if chr(code) in chars else ord("0") for code in range(256))


@functools.cache
def _char_table(char: str) -> bytes:
    return _table(char)


def _chars(chars: str) -> Chars:
    # Each "%" of the text starts a whole escape (rule 2), so that it can stand among the characters.
    return Chars(_table(chars + "%"), re.compile(f"[{re.escape(chars)}%]*"))


_CONTINUATION = _table("89ABab")
"""The first digits of the escapes that continue a character in UTF-8 (RFC 3629 section 3)."""

SIMPLE = _chars(UNRESERVED + _MARKS)
SEGMENTS = _chars(UNRESERVED + _MARKS + "/")
ANY = _chars(UNRESERVED + RESERVED)


class Uri:
    """The text under match (ASCII), its masks and its sets of positions.

    Bit d of a mask stands for the character that stops at position d, counted from the end like the
    positions.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.size = len(text)
        self._bytes = text.encode("ascii")
        self._masks: dict[bytes, int] = {}
        self._boundaries = ~self._inside()

    def _inside(self) -> int:
        """Return the positions inside a character (rule 2)."""
        percent = self._mask(_char_table("%"))
        if not percent:
            return 0
        continued = percent & self._mask(_CONTINUATION) << 1
        return percent | percent >> 1 | continued << 1  # after "%", after its first digit, before the escape

    def _mask(self, table: bytes) -> int:
        mask = self._masks.get(table)
        if mask is None:
            mask = self._masks[table] = int(b"0" + self._bytes.translate(table), 2)
        return mask

    def before(self, literal: str, ends: int) -> int:
        """Return the positions where `literal` starts if it is to stop at one of `ends`."""
        if literal not in self.text:
            return 0
        for char in reversed(literal):
            ends = (ends & self._mask(_char_table(char))) << 1
        return ends & self._boundaries

    def before_run(self, chars: Chars, ends: int, least: int = 0) -> int:
        """Return where `least` (0 or 1) or more of `chars` start if they are to stop at one of `ends`."""
        mask = self._mask(chars.table)
        if least:
            ends = (ends & mask) << 1
        # Adding a bit to the ones of its run clears them up to the next zero: what changes can be reached.
        return ((((ends & mask) + mask) ^ mask) | ends) & self._boundaries

    def run_end(self, chars: Chars, at: int) -> int:
        """Return where the run of `chars` that starts at index `at` stops."""
        run = chars.run.match(self.text, at)
        return run.end() if run is not None else at

    def has(self, ends: int, at: int) -> bool:
        """Whether the index `at` is one of the positions `ends`."""
        return bool(ends >> (self.size - at) & 1)

    def first(self, ends: int, at: int) -> int:
        """Return the first index from `at` on that is one of `ends`; past the end if there is none."""
        below = ends & ((2 << (self.size - at)) - 1)
        return self.size + 1 - below.bit_length()

    def last(self, ends: int, at: int, limit: int) -> int:
        """Return the last index from `at` to `limit` that is one of `ends`; -1 if there is none."""
        above = ends >> (self.size - limit)
        index = limit + 1 - (above & -above).bit_length()
        return index if above and index >= at else -1


class Piece(Protocol):
    """A part of a template. `read` is called only where `starts` said that this piece and the rest fit."""

    def starts(self, uri: Uri, ends: int) -> int:
        """Return the positions from which this piece can reach one of `ends`."""
        ...

    def read(self, uri: Uri, at: int, ends: int, found: dict[str, str]) -> int:
        """Put the values of this piece at index `at` into `found`; return where it stops, or -1."""
        ...


class Literal(NamedTuple):
    """Text that stands in the URI as it is."""

    text: str

    def starts(self, uri: Uri, ends: int) -> int:
        """See `Piece`."""
        return uri.before(self.text, ends)

    def read(self, uri: Uri, at: int, ends: int, found: dict[str, str]) -> int:
        """See `Piece`."""
        return at + len(self.text)


class Value(NamedTuple):
    """A value of `least` (0 or 1) or more characters without a name in the URI."""

    name: str
    chars: Chars
    least: int

    def starts(self, uri: Uri, ends: int) -> int:
        """See `Piece`."""
        return uri.before_run(self.chars, ends, self.least)

    def read(self, uri: Uri, at: int, ends: int, found: dict[str, str]) -> int:
        """See `Piece`."""
        if self.chars is ANY:
            stop = uri.first(ends, at + self.least)
        else:
            stop = uri.last(ends, at + self.least, uri.run_end(self.chars, at))
        found[self.name] = uri.text[at:stop]
        return stop


class PathParameter(NamedTuple):
    """What follows ``;x``: ``=value``, or nothing for an empty value (RFC 6570 section 3.2.7)."""

    name: str

    def starts(self, uri: Uri, ends: int) -> int:
        """See `Piece`."""
        return ends | uri.before("=", uri.before_run(SIMPLE, ends, 1))

    def read(self, uri: Uri, at: int, ends: int, found: dict[str, str]) -> int:
        """See `Piece`."""
        stop = -1
        if uri.text.startswith("=", at):
            stop = uri.last(ends, at + 2, uri.run_end(SIMPLE, at + 1))
        found[self.name] = uri.text[at + 1 : stop] if stop >= 0 else ""
        return stop if stop >= 0 else at


class Query(NamedTuple):
    """Pairs ``name=value`` in any order, each at most once: after `first` the first, after ``&`` the others.

    `starts` counts the pairs and leaves it to `read` to find one repeated: ``{+x}{?a,b}`` does not match
    ``x?a=1&a=2``, although ``x`` alone might be all of it.
    """

    first: str
    names: tuple[str, ...]

    def starts(self, uri: Uri, ends: int) -> int:
        """See `Piece`."""
        reached = ends
        for _ in self.names:
            values = uri.before_run(SIMPLE, ends)
            pairs = 0
            for name in self.names:
                pairs |= uri.before(name + "=", values)
            reached |= uri.before(self.first, pairs)
            ends = uri.before("&", pairs)
            if not ends:
                break
        return reached

    def read(self, uri: Uri, at: int, ends: int, found: dict[str, str]) -> int:
        """See `Piece`."""
        stop = at if uri.has(ends, at) else -1
        whole: dict[str, str] = {}
        separator = self.first
        while uri.text.startswith(separator, at):
            equals = uri.text.find("=", at)
            name = uri.text[at + 1 : max(equals, at)]
            if name not in self.names or name in whole:
                break
            at = uri.run_end(SIMPLE, equals + 1)
            last = uri.last(ends, equals + 1, at)
            if last >= 0:
                stop = last
                found |= whole | {name: uri.text[equals + 1 : last]}
            whole[name] = uri.text[equals + 1 : at]
            separator = "&"
        return stop


def read(pieces: Sequence[Piece], text: str) -> dict[str, str] | None:
    """Return the values that `pieces` have in `text`, still percent-encoded; None when they do not fit.

    `text` is ASCII and its percent escapes are well-formed. Takes time linear in the length of `text`.
    """
    uri = Uri(text)
    ends = [1]
    for piece in reversed(pieces):
        ends.append(piece.starts(uri, ends[-1]))
    if not uri.has(ends.pop(), 0):
        return None
    found: dict[str, str] = {}
    at = 0
    for piece in pieces:
        at = piece.read(uri, at, ends.pop(), found)
        if at < 0:
            return None
    return found
