"""Lines of a byte stream, however it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.protocol.lines import LineSplitter, Oversized

BYTES = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b" ", b"a", b"{}", b"xyz", b"\xff"]), max_size=40
).map(b"".join)


def whole(data: bytes, limit: int = 1000) -> list[bytes | Oversized]:
    """The lines of a stream that comes in one piece."""
    splitter = LineSplitter(limit)
    return splitter.feed(data) + splitter.close()


def in_pieces(data: bytes, size: int, limit: int = 1000) -> list[bytes | Oversized]:
    """The lines of a stream that comes in pieces."""
    splitter = LineSplitter(limit)
    lines: list[bytes | Oversized] = []
    for start in range(0, len(data), size):
        lines += splitter.feed(data[start : start + size])
    return lines + splitter.close()


@given(BYTES)
def test_lines_are_what_stands_between_line_feeds(data: bytes) -> None:
    """STD-01: without the white space around them, and without blank ones."""
    assert whole(data) == [line.strip() for line in data.split(b"\n") if line.strip()]


@given(BYTES, st.integers(1, 7), st.integers(1, 12))
def test_the_cut_makes_no_difference(data: bytes, size: int, limit: int) -> None:
    """STYLE habit 3: whole, byte by byte, and in between; also around the limit."""
    assert in_pieces(data, size, limit) == whole(data, limit)


@given(BYTES, BYTES)
def test_a_line_is_given_out_as_soon_as_it_ends(first: bytes, second: bytes) -> None:
    """PITFALLS, stdio row 6: whatever junk follows it."""
    splitter = LineSplitter(1000)
    assert splitter.feed(first + b"\n") == whole(first)
    assert splitter.feed(second) + splitter.close() == whole(second)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_line_of_exactly_the_limit_is_kept(end: bytes, size: int) -> None:
    """PITFALLS, stdio row 4: its end does not count."""
    assert in_pieces(b"x" * 10 + end, size, limit=10) == [b"x" * 10]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("length", [11, 12, 13, 100])
@pytest.mark.parametrize("size", [1, 3, 11, 1000])
def test_a_longer_line_is_reported_once_with_its_beginning(end: bytes, length: int, size: int) -> None:
    """PITFALLS, stdio row 4; SEC-02."""
    data = b"0123456789".ljust(length, b"x") + end
    assert in_pieces(data, size, limit=10) == [Oversized(b"0123456789", 10)]


def test_a_longer_line_is_reported_before_it_ends() -> None:
    """PITFALLS, stdio row 4: it may never end."""
    splitter = LineSplitter(10)
    assert splitter.feed(b"x" * 100) == [Oversized(b"x" * 10, 10)]
    assert splitter.feed(b"x" * 100) == []
    assert splitter.close() == []


def test_the_line_after_a_longer_one_is_kept() -> None:
    """PITFALLS, stdio row 4: the next message is answered."""
    assert whole(b"x" * 100 + b"\nab\n" + b"y" * 11 + b"\ncd", limit=10) == [
        Oversized(b"x" * 10, 10),
        b"ab",
        Oversized(b"y" * 10, 10),
        b"cd",
    ]


def test_a_long_line_in_single_bytes_is_one_line() -> None:
    """Rule 1 of the module: what is kept is not searched again with each byte; otherwise this would take minutes."""
    splitter = LineSplitter(2**18)
    for _ in range(2**18):
        assert splitter.feed(b"x") == []
    assert splitter.feed(b"\n") == [b"x" * 2**18]
