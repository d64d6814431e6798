"""HTTP/1.1 as bytes: the head of a request, how long its body is, the head of an answer. It knows no socket.

What stands in front of this server (nginx, a load balancer) has read the same bytes. If the two can see a different end
of a request, a client can smuggle one past the proxy: so whatever RFC 9112 does not allow is refused, also where most
servers are generous.

Rule 1. The end of a head is the first empty line, and every line ends with CR LF. One empty line in front is ignored.
Rule 2. The request line is read here: llhttp takes several spaces, no version at all, RTSP, and only the methods that
        it knows. The fields are llhttp's, with nothing lenient switched on.
Rule 3. A body has one length: one Content-Length, or "chunked" and nothing else, which HTTP/1.0 does not have.
Rule 4. Everything is bounded: lines, fields, sizes, extensions of chunks, trailers. The last two are thrown away.

Source: RFC 9112 sections 2 to 7; RFC 9110 sections 5, 7.2 and 10.1.1.
"""

from __future__ import annotations

import re
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from msgspec import Struct

from mcpkit.transports import limits
from mcpkit.transports.http import HeaderList

MAX_FIELDS = 256
"""Header fields of a request."""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_LINE = re.compile(rb"(?:\r\n)?(%s) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])\r\n" % _TOKEN)
_BEGINNING = re.compile(rb"(?:\r\n)?%s|\r?\n?\Z" % _TOKEN)
_NEVER = re.compile(rb"\0|(?<!\r)\n|\r(?!\n|\Z)")
_ABSOLUTE = re.compile(rb"https?://([^/?#@]+)([/?].*)?", re.IGNORECASE)
_DIGITS = re.compile(rb"[0-9]{1,18}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})([ \t]*;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER = re.compile(rb"%s:[\t\x20-\x7e\x80-\xff]*" % _TOKEN)
_MAX_LINE = 4096
_MAX_EXTRA = 16 * 1024


class Refused(Exception):
    """What came is no request of HTTP/1.1, or one that is too large; nothing after it can be trusted."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Head(Struct):
    """The head of a request. `length` is that of its body in bytes, None for one in chunks."""

    method: str
    path: str
    query: bytes
    headers: HeaderList
    length: int | None
    chunks: bool
    """Whether the client understands an answer in chunks: HTTP/1.1."""
    lasts: bool
    """Whether the client uses the connection again."""
    waits: bool
    """Whether the client waits for leave to send the body."""


# -- Heads -----------------------------------------------------------------------------------


def check_beginning(data: bytes) -> None:
    """Raise `Refused` for what cannot become a head, or one that is too large."""
    if len(data) > limits.MAX_HEADER_BYTES:
        begun = b"\r\n" in data[: limits.MAX_HEADER_BYTES]
        status, what = (431, "headers are") if begun else (414, "request line is")
        raise Refused(status, f"The {what} larger than {limits.MAX_HEADER_BYTES:,} bytes")
    if not _BEGINNING.match(data) or _NEVER.search(data):
        raise Refused(400, "This is no HTTP/1.1 request: this port speaks HTTP/1.1 in clear text")


def parse_head(data: bytes) -> Head:
    """The head in `data`, which ends with the empty line. Raises `Refused`."""
    if len(data) > limits.MAX_HEADER_BYTES:
        check_beginning(data)
    line = _LINE.match(data)
    if line is None:
        check_beginning(data)
        raise Refused(400, "The request line is malformed")
    method, target, major, minor = line.groups()
    if major != b"1":
        raise Refused(505, f"HTTP/{major.decode()} is not spoken here: use HTTP/1.1")
    headers = _fields(data[line.end() :])
    version = 11 if minor != b"0" else 10
    return _head(method, target, version, headers)


class _Fields:
    """What llhttp finds."""

    def __init__(self) -> None:
        self.found: list[tuple[bytes, bytes]] = []
        self.complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.found.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        self.complete = True


def _fields(data: bytes) -> list[tuple[bytes, bytes]]:
    """The header fields in the lines of a head."""
    fields = _Fields()
    try:
        HttpRequestParser(fields).feed_data(b"POST / HTTP/1.1\r\n" + data)
    except HttpParserUpgrade:
        pass  # nothing else is spoken here, which a client has to expect (RFC 9110 section 7.8)
    except HttpParserError as error:
        raise Refused(400, f"The headers are malformed: {error}") from None
    if not fields.complete:
        raise Refused(400, "The headers are malformed")
    if len(fields.found) > MAX_FIELDS:
        raise Refused(431, f"There are more than {MAX_FIELDS} headers")
    return fields.found


def _head(method: bytes, target: bytes, version: int, headers: list[tuple[bytes, bytes]]) -> Head:
    special: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if name in _SPECIAL:
            special.setdefault(name, []).append(value)
    path, host = _target(method, target)
    _check_host(special.get(b"host", []), version)
    if host is not None:  # RFC 9112 section 3.2.2: the target says it, whatever Host says
        headers = [(b"host", host), *((name, value) for name, value in headers if name != b"host")]
    path, _, query = path.partition("?")
    options = [word.strip(b" \t").lower() for word in b",".join(special.get(b"connection", [])).split(b",")]
    return Head(
        method=method.decode(),
        path=unquote(path) if "%" in path else path,
        query=query.encode(),
        headers=headers,
        length=_length(special, version),
        chunks=version == 11,
        lasts=b"close" not in options and (version == 11 or b"keep-alive" in options),
        waits=version == 11 and special.get(b"expect", [b""])[0].lower() == b"100-continue",
    )


_SPECIAL = {b"host", b"connection", b"content-length", b"transfer-encoding", b"expect"}


def _target(method: bytes, target: bytes) -> tuple[str, bytes | None]:
    """The path with its query, and the host where the target names one (RFC 9112 section 3.2)."""
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS") or method == b"CONNECT":
        return target.decode(), None
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise Refused(400, "The target of the request is malformed")
    path = (absolute[2] or b"/").decode()
    return path if path.startswith("/") else f"/{path}", absolute[1]


def _check_host(hosts: list[bytes], version: int) -> None:
    if len(hosts) > 1 or (not hosts and version == 11):
        raise Refused(400, "A request has one Host header (RFC 9112 section 3.2)")


def _length(special: dict[bytes, list[bytes]], version: int) -> int | None:
    """The length of the body; None for one in chunks (RFC 9112 section 6.3)."""
    lengths, codings = special.get(b"content-length", []), special.get(b"transfer-encoding", [])
    if codings:
        if lengths or version == 10:
            raise Refused(400, "The length of the body is given in two ways")
        if [coding.lower() for coding in codings] != [b"chunked"]:
            raise Refused(501, "The only transfer coding that is understood is chunked")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not _DIGITS.fullmatch(lengths[0]):
        raise Refused(400, "Content-Length is one number")
    return int(lengths[0])


# -- Bodies ----------------------------------------------------------------------------------


class Body(Protocol):
    """Takes the bytes that follow a head."""

    done: bool
    """Whether it is complete."""

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """What of `data` is content, and what comes after the body. Raises `Refused`."""
        ...


class Sized:
    """A body of known length."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = not length

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """See `Body`."""
        if len(data) <= self._left:
            self._left -= len(data)
            self.done = not self._left
            return data, b""
        content, rest = data[: self._left], data[self._left :]
        self._left, self.done = 0, True
        return content, rest


class Chunks:
    """A body in chunks (RFC 9112 section 7.1)."""

    def __init__(self) -> None:
        self.done = False
        self._data = b""
        self._at = 0
        self._content: list[bytes] = []
        self._left = 0
        self._extra = 0
        self._step = self._size

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """See `Body`."""
        self._data = self._data[self._at :] + data if self._data else data
        self._at = 0
        while not self.done and self._step():
            pass
        content, self._content = b"".join(self._content), []
        if not self.done:
            return content, b""
        rest, self._data = self._data[self._at :], b""
        return content, rest

    def _line(self) -> bytes | None:
        """The next line; nothing as long as it is not complete."""
        end = self._data.find(b"\r\n", self._at, self._at + _MAX_LINE)
        if end < 0:
            if len(self._data) - self._at >= _MAX_LINE or b"\n" in self._data[self._at :]:
                raise Refused(400, "A line of a body in chunks has no end")
            return None
        line = self._data[self._at : end]
        self._at = end + 2
        return line

    def _count(self, extra: int) -> None:
        self._extra += extra
        if self._extra > _MAX_EXTRA:
            raise Refused(431, f"Extensions and trailers are larger than {_MAX_EXTRA:,} bytes")

    def _size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        size = _CHUNK.fullmatch(line)
        if size is None:
            raise Refused(400, "The size of a chunk is malformed")
        self._count(len(size[2] or b""))
        self._left = int(size[1], 16)
        self._step = self._bytes if self._left else self._trailer
        return True

    def _bytes(self) -> bool:
        content = self._data[self._at : self._at + self._left]
        self._at += len(content)
        self._left -= len(content)
        self._content.append(content)
        if not self._left:
            self._step = self._end
        return not self._left

    def _end(self) -> bool:
        end = self._data[self._at : self._at + 2]
        if end != b"\r\n"[: len(end)]:
            raise Refused(400, "A chunk is longer than its size")
        if len(end) < 2:
            return False
        self._at += 2
        self._step = self._size
        return True

    def _trailer(self) -> bool:
        line = self._line()
        if line is None:
            return False
        self._count(len(line))
        self.done = not line
        if line and not _TRAILER.fullmatch(line):
            raise Refused(400, "A trailer is malformed")
        return True


# -- Answers ---------------------------------------------------------------------------------

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
"""Leave to send a body."""

LAST_CHUNK = b"0\r\n\r\n"
"""The end of an answer in chunks."""

_STATUS = {status.value: b"%d %s" % (status, status.phrase.encode()) for status in HTTPStatus}


def answer_head(status: int, headers: HeaderList, connection: bytes = b"") -> bytes:
    """The head of an answer. `connection` says what becomes of the connection, where that has to be said."""
    lines = [b"HTTP/1.1 " + (_STATUS.get(status) or b"%d " % status), *map(b": ".join, headers)]
    lines.append(b"date: " + _date())
    if connection:
        lines.append(b"connection: " + connection)
    head = b"\r\n".join(lines) + b"\r\n\r\n"
    if head.count(b"\n") != len(lines) + 1 or head.count(b"\r") != len(lines) + 1:
        raise ValueError("a header of an answer has a line break in it")
    return head


def chunk(data: bytes) -> bytes:
    """A chunk of an answer; data is needed, since an empty chunk is the last."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def text_answer(status: int, text: str) -> bytes:
    """The last answer of a connection whose client is not understood."""
    body = text.encode() + b"\n"
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    return answer_head(status, headers, b"close") + body


_dated = (0, b"")


def _date() -> bytes:
    """Now, as RFC 9110 section 5.6.7 writes it; the text is made once a second."""
    global _dated
    now = int(time.time())
    if _dated[0] != now:
        _dated = (now, formatdate(now, usegmt=True).encode())
    return _dated[1]
