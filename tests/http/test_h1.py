"""HTTP/1.1 as bytes, whatever the bytes: the same however they arrive, and never more generous than another parser."""

from __future__ import annotations

from collections.abc import Sequence

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit.transports import h1

pytestmark = pytest.mark.once

PIECES = [b"\r\n", b"\r", b"\n", b"0", b"5", b"a", b"hello", b";x=y", b" ", b"\t", b"X: y", b"\0", b"+", b"_"]
PIECES += [b"0\r\n\r\n", b"5\r\nhello\r\n"]
HEAD = b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nX: y\r\n\r\n"
FAULTS = [b"", b"\0", b"\r", b"\n", b" ", b":", b"\x0b", b",", b"\xff", b"1", b"\r\n", b"\t", b"chunked"]


def read(pieces: Sequence[bytes]) -> tuple[bool, bytes, bytes] | None:
    """Whether a body in chunks is complete, what is in it and what follows; None when it is refused."""
    body, content, rest = h1.Chunks(), b"", b""
    try:
        for piece in pieces:
            more, behind = (b"", piece) if body.done else body.feed(piece)
            content, rest = content + more, rest + behind
    except h1.Refused:
        return None
    return body.done, content, rest


@settings(max_examples=500)
@given(parts=st.lists(st.sampled_from(PIECES), min_size=1, max_size=9), data=st.data())
def test_chunks_are_the_same_however_they_arrive(parts: list[bytes], data: st.DataObject) -> None:
    """RFC 9112 section 7.1: whole, byte by byte, in two pieces; with whatever follows."""
    whole = b"".join(parts)
    at = data.draw(st.integers(0, len(whole)))
    expected = read([whole])
    assert read([whole[i : i + 1] for i in range(len(whole))]) == expected
    assert read([whole[:at], whole[at:]]) == expected


@settings(max_examples=500)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(HEAD)), st.integers(0, 2), st.sampled_from(FAULTS)), max_size=3
    )
)
def test_a_head_that_is_read_is_read_alike_by_another_parser(edits: list[tuple[int, int, bytes]]) -> None:
    """RFC 9112 section 11.2: the same method, target and fields as h11 finds, which takes no empty line in front."""
    data = HEAD
    for at, lost, added in edits:
        data = data[:at] + added + data[at + lost :]
    end = data.find(b"\r\n\r\n")
    try:
        head = h1.parse_head(data[: end + 4])
    except h1.Refused:
        return
    other = h11.Connection(h11.SERVER)
    other.receive_data(data[: end + 4].removeprefix(b"\r\n"))
    event = other.next_event()
    assert isinstance(event, h11.Request)
    assert head.method == event.method.decode()
    assert [field for field in head.headers if field[0] != b"host"] == [
        (bytes(name), bytes(value)) for name, value in event.headers if name != b"host"
    ]
