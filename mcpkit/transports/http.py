"""HTTP as the transports see it: a request to read, an exchange to answer through. It knows no server.

An adapter (`asgi`, later others) makes an `Exchange` for each request and calls a `Handler` with it. The
handler answers with `respond`, or streams with `start`, `write` and the end of its own call. When the client
goes away, writing raises `Disconnected` and the functions given to `on_disconnect` are called, at once and
from the adapter's own task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from msgspec import Struct, structs

from mcpkit.principal import Principal

HeaderList = Sequence[tuple[bytes, bytes]]
T = TypeVar("T")


class Disconnected(Exception):
    """The client has gone."""


class BodyRefused(Exception):
    """The body cannot be read: `status` is 413 (too large) or 408 (too slow)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Caller(Struct, frozen=True):
    """Who sends a request, once it is let in, and the token that it has shown. `forbidden` gives the headers of the
    answer (403) that names the scopes which an operation needs.
    """

    principal: Principal
    token: str
    forbidden: Callable[[Sequence[str]], HeaderList]


class Request(Struct):
    """The head of a request. Header names are lower case; `server` is the address that the client connected
    to, None on a unix socket. `prefix` is the beginning of the URL's path that is not ours: of a host application, or
    of a proxy. `caller` is None in an app without auth. `query` is what stands behind the question mark.
    """

    method: str
    path: str
    headers: HeaderList
    scheme: str = "http"
    server: str | None = None
    client: str | None = None
    prefix: str = ""
    caller: Caller | None = None
    query: bytes = b""
    _by_name: dict[str, list[str]] = {}
    _seen: dict[Any, Any] = {}

    @property
    def values(self) -> Mapping[str, list[str]]:
        """The values of each header, surrounding blanks removed. What is not ASCII comes out as Latin-1."""
        names = self._by_name
        if not names:
            for key, value in self.headers:
                values = names.setdefault(key.decode("latin-1"), [])
                values.append(value.decode("latin-1").strip(" \t"))
        return names

    def all(self, name: str) -> list[str]:
        """The values of a header; its name in lower case, as for `get`."""
        return self.values.get(name, [])

    def get(self, name: str) -> str | None:
        """The value of a header; several are joined by commas (RFC 9110 section 5.3)."""
        values = self.values.get(name)
        return None if values is None else ", ".join(values)

    def once(self, look: Callable[[Request], T]) -> T:
        """What `look` says of the request: it is asked once for all copies of the request, since a client says the
        same each time. It may look at nothing that is told later: the caller, and the prefix of an open route.
        """
        found = self._seen.get(look)
        if found is None:
            found = self._seen[look] = look(self)
        return cast(T, found)

    def altered(self, **changes: Any) -> Request:
        """Another request, of which nothing is known yet."""
        return structs.replace(self, **changes, _by_name={}, _seen={})

    @property
    def principal(self) -> Principal | None:
        """Who sends it."""
        return None if self.caller is None else self.caller.principal

    @property
    def owner(self) -> str:
        """Whose the session is that it begins: of the principal, whichever token it comes with; "" where nobody is
        asked who they are.
        """
        return "" if self.caller is None else self.caller.principal.id

    def forbidden(self, scopes: Sequence[str]) -> HeaderList:
        """The headers of the answer that names missing scopes (403)."""
        return () if self.caller is None else self.caller.forbidden(scopes)

    @property
    def mapping(self) -> dict[str, str]:
        """All headers by name."""
        return {name: ", ".join(values) for name, values in self.values.items()}


class Exchange(Protocol):
    """One request and the answer to it."""

    request: Request

    async def body(self, limit: int, seconds: float) -> bytes:
        """The whole body. Raises `BodyRefused` above `limit` bytes and when it takes longer than `seconds`,
        `Disconnected`.
        """
        ...

    async def respond(self, status: int, headers: HeaderList, body: bytes = b"") -> None:
        """The whole answer. A body that was not read is read and thrown away meanwhile."""

    async def start(self, status: int, headers: HeaderList, first: bytes) -> None:
        """Begin a streamed answer with its first bytes."""

    async def write(self, data: bytes) -> None:
        """More of a streamed answer. Raises `Disconnected`; waits while the client reads slowly."""

    def start_soon(self, task: Callable[[], Awaitable[object]]) -> None:
        """Run something beside the answer; it is cancelled when the answer is complete."""

    def on_disconnect(self, call: Callable[[], object]) -> None:
        """Call a function when the client goes away before the answer is complete; at once when it has
        already.
        """

    def end_with_client(self) -> None:
        """From here on, whoever answers is cancelled when the client goes away. What is answered is over then."""


class Answering(Exchange, Protocol):
    """The exchange of an adapter, which sees to its end."""

    @property
    def started(self) -> bool:
        """Whether an answer has begun."""
        ...


Handler = Callable[[Exchange], Awaitable[None]]


def json_headers(extra: Iterable[tuple[bytes, bytes]] = ()) -> list[tuple[bytes, bytes]]:
    """The headers of a JSON answer."""
    return [(b"content-type", b"application/json"), *extra]


EVENT_STREAM_HEADERS: HeaderList = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # or nginx holds events back
]
