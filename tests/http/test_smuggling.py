"""Where a request ends, when somebody wants two servers to disagree: refused, or read exactly as RFC 9112 says.

Each row is sent with a good request behind it. `REFUSED` ends the connection, with an answer that says so or without,
and nothing behind it is served. `READ` is one request with one answer, and the one behind it gets its own.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator, Sequence

import pytest
from kit import Closed, Connection, Server, discover, encoded, eventually, headers_for, serving
from support import SERVER

from mcpkit.transports import h1, limits

BODY = encoded(discover())
HOST = b"Host: localhost\r\n"
NAMED = b"".join(f"{name}: {value}\r\n".encode() for name, value in headers_for(discover()).items())
LINE = b"POST /mcp HTTP/1.1\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
SIZE = b"%x" % len(BODY)
WHOLE = SIZE + b"\r\n" + BODY + b"\r\n"
END = b"0\r\n\r\n"


def post(*fields: bytes, body: bytes = BODY, line: bytes = LINE, host: bytes = HOST) -> bytes:
    """A good request, but for what is said."""
    return line + host + NAMED + b"".join(fields) + b"\r\n" + body


def chunked(body: bytes) -> bytes:
    return post(CHUNKED, body=body)


def header(field: bytes) -> bytes:
    return post(LENGTH, field)


def target(text: bytes) -> bytes:
    return post(LENGTH, line=b"POST " + text + b" HTTP/1.1\r\n")


GOOD = post(LENGTH)

LENGTHS = {
    "Content-Length and chunks": post(LENGTH, CHUNKED, body=END + BODY),
    "chunks and Content-Length": post(CHUNKED, LENGTH, body=END + BODY),
    "two lengths": post(LENGTH, b"Content-Length: 5\r\n"),
    "the same length twice": post(LENGTH, LENGTH),
    "two lengths in one": post(b"Content-Length: 5, 5\r\n"),
    "a sign": post(b"Content-Length: +%d\r\n" % len(BODY)),
    "a negative length": post(b"Content-Length: -1\r\n"),
    "something behind it": post(b"Content-Length:  5 x\r\n"),
    "a hexadecimal length": post(b"Content-Length: 0x10\r\n"),
    "an underscore": post(b"Content-Length: 1_0\r\n"),
    "digits of another script": post("Content-Length: ١\r\n".encode()),
    "a vertical tab": post(b"Content-Length: \x0b5\r\n"),
    "no length": post(b"Content-Length:\r\n"),
    "a huge length": post(b"Content-Length: 99999999999999999999999\r\n"),
    "a length as long as a book": post(b"Content-Length: " + b"9" * 5000 + b"\r\n"),
}
CODINGS = {
    "chunked twice": post(b"Transfer-Encoding: chunked, chunked\r\n", body=END),
    "chunked twice, in two fields": post(CHUNKED, CHUNKED, body=END),
    "a coding that is none": post(b"Transfer-Encoding: xchunked\r\n", body=END),
    "identity": post(b"Transfer-Encoding: identity\r\n", body=END),
    "identity behind chunked": post(CHUNKED, b"Transfer-Encoding: identity\r\n", body=END),
    "identity before chunked": post(b"Transfer-Encoding: identity\r\n", CHUNKED, body=END),
    "gzip": post(b"Transfer-Encoding: gzip\r\n", body=END),
    "gzip and chunked": post(b"Transfer-Encoding: gzip, chunked\r\n", body=END),
    "a parameter": post(b"Transfer-Encoding: chunked;q=1\r\n", body=END),
    "a vertical tab before it": post(b"Transfer-Encoding: \x0bchunked\r\n", body=END),
    "a vertical tab behind it": post(b"Transfer-Encoding: chunked\x0b\r\n", body=END),
    "quotes": post(b'Transfer-Encoding: "chunked"\r\n', body=END),
    "empty": post(b"Transfer-Encoding:\r\n", body=END),
    "empty, with a length": post(b"Transfer-Encoding:\r\n", LENGTH),
    "a comma": post(b"Transfer-Encoding: ,chunked\r\n", body=END),
    "a space before the colon": post(b"Transfer-Encoding : chunked\r\n", LENGTH),
    "a tab before the colon": post(b"Transfer-Encoding\t: chunked\r\n", LENGTH),
    "on a line that goes on": post(b"Transfer-Encoding:\r\n chunked\r\n", LENGTH),
    "in HTTP/1.0": post(CHUNKED, body=END, line=b"POST /mcp HTTP/1.0\r\n"),
}
FIELDS = {
    "a line that goes on": header(b"X: a\r\n b\r\n"),
    "a line that goes on with a tab": header(b"X: a\r\n\tb\r\n"),
    "a space before the first field": LINE + b" X: a\r\n" + GOOD[len(LINE) :],
    "a line that ends with LF": header(b"X: a\n"),
    "a request line that ends with LF": post(LENGTH, line=LINE.replace(b"\r", b"")),
    "an end that is LF": LINE + HOST + NAMED + LENGTH + b"\n" + BODY,
    "a request of LF": GOOD.replace(b"\r\n", b"\n"),
    "a line that ends with CR": header(b"X: a\rY: b\r\n"),
    "a request line that ends with CR": post(LENGTH, line=LINE.replace(b"\n", b"")),
    "two CR": header(b"X: a\r\r\n"),
    "NUL in a value": header(b"X: a\0b\r\n"),
    "NUL in a name": header(b"X\0: a\r\n"),
    "a control character": header(b"X: a\x01b\r\n"),
    "DEL": header(b"X: a\x7fb\r\n"),
    "a space before the colon": header(b"X : a\r\n"),
    "a space in a name": header(b"X Y: a\r\n"),
    "no name": header(b": a\r\n"),
    "no colon": header(b"nonsense\r\n"),
    "a name that is no token": header(b"X(y): a\r\n"),
    "a name that is not ASCII": header(b"X\xff: a\r\n"),
    "two hosts": header(b"Host: evil.example\r\n"),
    "the same host twice": header(HOST),
    "no host": post(LENGTH, host=b""),
    "a flood of fields": header(b"X: a\r\n" * (h1.MAX_FIELDS + 1)),
    "a flood of bytes": header(b"X: " + b"a" * limits.MAX_HEADER_BYTES + b"\r\n"),
}
LINES = {
    "HTTP/0.9": b"GET /mcp\r\n\r\n",
    "HTTP/0.9 in words": b"GET /mcp HTTP/0.9\r\n" + HOST + b"\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/2 in words": post(LENGTH, line=b"POST /mcp HTTP/2.0\r\n"),
    "two digits": post(LENGTH, line=b"POST /mcp HTTP/1.11\r\n"),
    "lower case": post(LENGTH, line=b"POST /mcp http/1.1\r\n"),
    "another protocol": post(LENGTH, line=b"POST /mcp RTSP/1.0\r\n"),
    "two spaces": post(LENGTH, line=b"POST  /mcp HTTP/1.1\r\n"),
    "two spaces before the version": post(LENGTH, line=b"POST /mcp  HTTP/1.1\r\n"),
    "a space at the end": post(LENGTH, line=b"POST /mcp HTTP/1.1 \r\n"),
    "a space in front": post(LENGTH, line=b" POST /mcp HTTP/1.1\r\n"),
    "tabs": post(LENGTH, line=b"POST\t/mcp\tHTTP/1.1\r\n"),
    "no method": post(LENGTH, line=b"/mcp HTTP/1.1\r\n"),
    "a method that is no token": post(LENGTH, line=b"PO(ST /mcp HTTP/1.1\r\n"),
    "a space in the target": target(b"/mcp x"),
    "a target that is not ASCII": target(b"/m\xffcp"),
    "a control character in the target": target(b"/mcp\x01"),
    "a target without a slash": target(b"mcp"),
    "an asterisk that is no OPTIONS": target(b"*"),
    "an authority that is no CONNECT": target(b"localhost:80"),
    "another scheme": target(b"ftp://localhost/mcp"),
    "a user in the target": target(b"http://localhost@evil.example/mcp"),
    "a long request line": target(b"/mcp?" + b"x" * limits.MAX_HEADER_BYTES),
    "TLS": bytes.fromhex("16030100a5010000a10303") + b"\r\n\r\n",
    "two empty lines in front": b"\r\n\r\n" + GOOD,
    "LF in front": b"\n" + GOOD,
}
CHUNKS = {
    "a sign": chunked(b"+" + WHOLE + END),
    "an underscore": chunked(b"0_" + WHOLE + END),
    "0x": chunked(b"0x" + WHOLE + END),
    "a space before the size": chunked(b" " + WHOLE + END),
    "a space behind the size": chunked(SIZE + b" \r\n" + BODY + b"\r\n" + END),
    "no size": chunked(b"\r\n" + WHOLE + END),
    "an extension without a size": chunked(b";x\r\n" + WHOLE + END),
    "a size that overflows 64 bits": chunked(b"f" * 17 + b"\r\n" + WHOLE + END),
    "a size as long as a book": chunked(b"0" * 5000 + WHOLE + END),
    "a size that ends with LF": chunked(SIZE + b"\n" + BODY + b"\r\n" + END),
    "a size that ends with CR": chunked(SIZE + b"\r" + BODY + b"\r\n" + END),
    "a chunk that ends with LF": chunked(SIZE + b"\r\n" + BODY + b"\n" + END),
    "a chunk that ends with two characters": chunked(SIZE + b"\r\n" + BODY + b"xx" + END),
    "a chunk that is longer": chunked(SIZE + b"\r\n" + BODY + b" \r\n" + END),
    "a chunk that is shorter": chunked(SIZE + b"\r\n" + BODY[1:] + b"\r\n" + END),
    "NUL in an extension": chunked(SIZE + b";x=\0\r\n" + BODY + b"\r\n" + END),
    "LF in an extension": chunked(SIZE + b";x=\n\r\n" + BODY + b"\r\n" + END),
    "a long extension": chunked(SIZE + b";" + b"x" * 5000 + b"\r\n" + BODY + b"\r\n" + END),
    "a flood of extensions": chunked((b"1;" + b"x" * 1000 + b"\r\n \r\n") * 100 + END),
    "a trailer that is none": chunked(WHOLE + b"0\r\nnonsense\r\n\r\n"),
    "a trailer that ends with LF": chunked(WHOLE + b"0\r\nX: a\n\r\n"),
    "a trailer that goes on": chunked(WHOLE + b"0\r\nX: a\r\n b\r\n\r\n"),
    "a flood of trailers": chunked(WHOLE + b"0\r\n" + b"X: a\r\n" * 10_000 + b"\r\n"),
}
REFUSED = {
    f"{kind}: {name}": data
    for kind, rows in (
        ("length", LENGTHS),
        ("coding", CODINGS),
        ("field", FIELDS),
        ("line", LINES),
        ("chunk", CHUNKS),
    )
    for name, data in rows.items()
}

READ: dict[str, tuple[int, bytes]] = {
    "a length": (200, GOOD),
    "a length with zeros": (200, post(b"Content-Length: 00%d\r\n" % len(BODY))),
    "a length with blanks": (200, post(b"Content-Length: \t %d \r\n" % len(BODY))),
    "chunks": (200, chunked(WHOLE + END)),
    "chunks of a byte": (200, chunked(b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + END)),
    "a coding in capitals": (200, post(b"tRANSFER-eNCODING: CHUNKED\r\n", body=WHOLE + END)),
    "a size in capitals": (200, chunked(WHOLE.replace(SIZE, SIZE.upper(), 1) + END)),
    "extensions": (200, chunked(SIZE + b';a;b=c; d="e\xff"\r\n' + BODY + b"\r\n0;x\r\n\r\n")),
    "a size that looks like a request": (200, chunked(WHOLE + b"0;GET / HTTP/1.1\r\n\r\n")),
    "trailers": (200, chunked(WHOLE + b"0\r\nContent-Length: 5\r\nHost: evil.example\r\n\r\n")),
    "no blank behind the colon": (200, post(LENGTH.replace(b": ", b":"))),
    "blanks around a value": (200, header(b"X: \t a \t \r\n")),
    "an empty value": (200, header(b"X:\r\n")),
    "a value that is not ASCII": (200, header(b"X: \xe9\xff\r\n")),
    "an empty line in front": (200, b"\r\n" + GOOD),
    "the whole URL": (200, target(b"http://localhost/mcp")),
    "the whole URL of a name that is not ours": (403, target(b"http://evil.example/mcp")),
    "the whole URL in capitals": (200, target(b"HTTP://LOCALHOST/mcp?x=1")),
    "the whole URL without a path": (404, target(b"http://localhost")),
    "an asterisk": (404, post(b"Content-Length: 0\r\n", body=b"", line=b"OPTIONS * HTTP/1.1\r\n")),
    "an authority": (404, post(LENGTH, line=b"CONNECT localhost:80 HTTP/1.1\r\n")),
    "a method that nobody knows": (405, post(LENGTH, line=b"BREW /mcp HTTP/1.1\r\n")),
    "a method in small letters": (405, post(LENGTH, line=b"post /mcp HTTP/1.1\r\n")),
    "a version to come": (200, post(LENGTH, line=b"POST /mcp HTTP/1.2\r\n")),
    "an upgrade": (200, post(LENGTH, b"Connection: Upgrade\r\nUpgrade: h2c\r\n")),
    "an upgrade with chunks": (
        200,
        post(CHUNKED, b"Connection: Upgrade\r\nUpgrade: websocket\r\n", body=WHOLE + END),
    ),
    "a body where none is expected": (
        405,
        post(LENGTH, line=b"GET /mcp HTTP/1.1\r\n"),
    ),
}

CLEAR = (400, 403, 404, 405, 408, 413, 414, 415, 431, 501, 505)

GENEROUS = {
    "hypercorn": {
        "length: the same length twice",
        "length: two lengths in one",
        "field: a line that goes on",
        "field: a line that goes on with a tab",
        "field: a line that ends with LF",
        "field: a request line that ends with LF",
        "field: an end that is LF",
        "field: a request of LF",
        "field: a control character",
        "field: DEL",
        "field: a flood of fields",
        "field: a flood of bytes",
        "line: HTTP/2",
        "line: HTTP/2 in words",
        "line: a target without a slash",
        "line: an asterisk that is no OPTIONS",
        "line: an authority that is no CONNECT",
        "line: another scheme",
        "line: a user in the target",
        "line: a long request line",
        "chunk: a space behind the size",
        "chunk: a size that overflows 64 bits",
        "chunk: NUL in an extension",
        "chunk: a long extension",
        "chunk: a flood of extensions",
        "chunk: a trailer that ends with LF",
        "chunk: a trailer that goes on",
        "chunk: a flood of trailers",
        "an empty line in front",
        "the whole URL",
        "the whole URL of a name that is not ours",
        "the whole URL in capitals",
        "a method in small letters",
    },
    "uvicorn": {
        "field: a flood of fields",
        "field: a flood of bytes",
        "line: HTTP/2 in words",
        "line: another protocol",
        "line: two spaces",
        "line: two spaces before the version",
        "line: an asterisk that is no OPTIONS",
        "line: another scheme",
        "line: a user in the target",
        "line: a long request line",
        "line: two empty lines in front",
        "line: LF in front",
        "chunk: a size as long as a book",
        "chunk: a long extension",
        "chunk: a flood of extensions",
        "chunk: a flood of trailers",
        "extensions",
        "a size that looks like a request",
        "trailers",
        "the whole URL of a name that is not ours",
        "the whole URL without a path",
        "an authority",
        "a method that nobody knows",
        "a method in small letters",
        "a version to come",
        "an upgrade",
        "an upgrade with chunks",
    },
}
"""Where other servers do otherwise, by what reads the bytes: h11 in hypercorn, llhttp in uvicorn. Mostly they take
more, as the standard lets a server that stands alone do; llhttp knows fewer methods, versions and chunk extensions,
sets no limits, and loses the body of a request that offers an upgrade.
"""

ours = pytest.mark.skipif(SERVER != "auto", reason="other servers have their own words for it")


def rows(table: Iterable[str]) -> list[str]:
    """Those that the server under test is held to."""
    return [name for name in table if name not in GENEROUS.get(SERVER, ())]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("things.py") as server:
        server.is_alive()
        yield server


@pytest.fixture(autouse=True)
def unharmed(server: Server) -> Iterator[None]:
    """After each test the next client is served, and nothing is left open."""
    descriptors = server.descriptors()
    yield
    assert server.is_alive()
    eventually(lambda: server.descriptors() <= descriptors, "the end of all connections")


def ways(data: bytes) -> Iterator[Sequence[bytes]]:
    """The same bytes at once, in two pieces, and in small ones."""
    yield [data]
    yield [data[: len(data) // 3], data[len(data) // 3 :]]
    if len(data) < 3000:
        yield [data[at : at + 7] for at in range(0, len(data), 7)]


def statuses(data: bytes) -> list[int]:
    """The statuses of all answers in what came back."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", data)]


def send(connection: Connection, pieces: Sequence[bytes]) -> None:
    with contextlib.suppress(OSError):
        for piece in pieces:
            connection.send(piece)


@pytest.mark.parametrize("name", rows(REFUSED))
def test_what_two_servers_could_read_differently_is_refused(server: Server, name: str) -> None:
    """RFC 9112 sections 2.2, 3, 5, 6.1, 6.3, 7.1 and 11.2: the connection ends, and the rest of it is never served."""
    for pieces in ways(REFUSED[name] + GOOD):
        with server.connect() as connection:
            send(connection, pieces)
            rest = connection.rest()
        assert [status in CLEAR for status in statuses(rest)] in ([], [True]), rest


@ours
@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_why(server: Server, name: str) -> None:
    """Errors are for people: a status and a sentence, which no reset overtakes (RFC 9112 section 9.6)."""
    with server.connect() as connection:
        send(connection, [REFUSED[name], GOOD])
        response = connection.response()
        assert response.status in CLEAR
        assert len(response.body) > 10
        assert response.get("connection") == "close"
        assert connection.is_ended()


@pytest.mark.parametrize("name", rows(READ))
def test_what_the_standard_allows_is_read_as_it_says(server: Server, name: str) -> None:
    """RFC 9112 sections 2 to 7: one answer, and the request behind it gets its own."""
    status, data = READ[name]
    for pieces in ways(data + GOOD):
        with server.connect() as connection:
            send(connection, pieces)
            assert connection.response().status == status
            assert connection.response().status == 200


@ours
@pytest.mark.parametrize(
    ("status", "data"),
    [
        (414, b"POST /" + b"x" * (limits.MAX_HEADER_BYTES + 1)),
        (414, LINES["a long request line"]),
        (431, LINE + HOST + b"X: " + b"x" * limits.MAX_HEADER_BYTES),
        (431, FIELDS["a flood of bytes"]),
        (431, FIELDS["a flood of fields"]),
        (431, CHUNKS["a flood of trailers"]),
        (505, LINES["HTTP/2"]),
        (501, CODINGS["gzip and chunked"]),
        (400, LINES["TLS"]),
        (400, LINES["HTTP/0.9"]),
    ],
)
def test_what_is_wrong_has_its_own_status(server: Server, status: int, data: bytes) -> None:
    """RFC 9110 section 15.5, RFC 6585 section 5."""
    with server.connect() as connection:
        send(connection, [data])
        assert connection.response().status == status


@ours
@pytest.mark.parametrize("beginning", [b"\x16\x03\x01", b"\0", b"POST /mcp HTTP/1.1\nHost", b"\n\n", b"\xff"])
def test_what_can_become_no_request_is_refused_at_once(server: Server, beginning: bytes) -> None:
    """Nobody waits for the rest of it."""
    began = time.monotonic()
    with server.connect() as connection:
        connection.send(beginning)
        assert connection.response().status == 400
    assert time.monotonic() - began < limits.HEAD_SECONDS / 2


@ours
def test_a_head_that_does_not_come_is_told_so(server: Server) -> None:
    """RFC 9110 section 15.5.9; and a connection on which nothing comes is just closed."""
    with server.connect() as slow, server.connect() as silent:
        slow.send(b"POST /mcp HTTP/1.1\r\n")
        assert slow.response().status == 408
        assert slow.is_ended()
        assert silent.is_ended()


@ours
def test_what_leave_to_send_is_not_given_for_is_not_read(server: Server) -> None:
    """RFC 9110 section 10.1.1: the client may send the body all the same, so nothing behind it is a request."""
    expects = post(b"Expect: 100-continue\r\n", b"Content-Length: 100000000\r\n", body=b"")
    with server.connect() as connection:
        connection.send(expects + GOOD)
        assert connection.head().status == 413
        with contextlib.suppress(Closed):
            assert statuses(connection.rest()) == []
