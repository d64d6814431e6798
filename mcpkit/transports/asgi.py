"""The app as an ASGI application, for any ASGI server: on trio, and as a guest on asyncio.

Source: ASGI 3.0, "HTTP & WebSocket" and "Lifespan".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from itertools import chain
from typing import Any

import sniffio
import trio

from mcpkit.app import App
from mcpkit.transports import limits
from mcpkit.transports.guest import Guest, from_asyncio, until_host_ends
from mcpkit.transports.http import BodyRefused, Disconnected, HeaderList, Request
from mcpkit.transports.options import HttpOptions
from mcpkit.transports.service import Service

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Application:
    """An app as an ASGI 3 application.

    It runs from the host's lifespan start-up to its shut-down. A host that forwards no lifespan events starts it
    with the first request, and ends it with the loop; or is given `lifespan`. What the app's lifespan raises at its
    start is logged.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    @classmethod
    def of(cls, app: App, options: HttpOptions) -> Application:
        """An app, for a host that knows nothing of it."""
        return cls(Service(app, options, host_ends=until_host_ends))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await self._serve_lifespan(receive, send)
        elif scope["type"] != "http":  # a WebSocket, which is no transport of the protocol
            await receive()
            await send({"type": "websocket.close"})
        elif sniffio.current_async_library() == "asyncio":
            guest = await Guest.here()
            await guest.call(self._serve_http, scope, from_asyncio(receive), from_asyncio(send))
        else:
            await self._serve_http(scope, receive, send)

    def end_streams(self) -> None:
        """Let all streams end, so that the server can stop."""
        self._service.end_streams()

    # -- Life ------------------------------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, host: object = None) -> AsyncGenerator[None]:
        """The app runs inside the block. For hosts that do not forward lifespan events to what is mounted in them:
        `mcp = app.asgi(); Starlette(routes=[Mount("/api", mcp)], lifespan=mcp.lifespan)`. Raises what the
        app's own lifespan raises at its start.
        """
        if sniffio.current_async_library() == "asyncio":
            guest = await Guest.here()
            async with guest.held():
                await guest.call(self._service.start)
                try:
                    yield
                finally:
                    await guest.call(self._service.end)
        else:
            async with self._service.living():
                yield

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
        """On either kind of loop. Nothing may be left to do after the last message: hypercorn on asyncio cancels
        then, and takes it for an error.
        """
        await receive()
        try:
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except BaseException as error:
            if isinstance(error, trio.Cancelled | asyncio.CancelledError):
                raise
            await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
        else:
            await send({"type": "lifespan.shutdown.complete"})

    # -- Requests --------------------------------------------------------------------------------

    async def _serve_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            exchange = AsgiExchange(scope, receive, send, nursery, self._service.options.send_timeout)
            with suppress(Disconnected):
                await self._service.serve(exchange, exchange.problem())
                await exchange.finish()
            nursery.cancel_scope.cancel()


class AsgiExchange:
    """An `http.Exchange` over the channels of an ASGI server. A client that takes longer than `send_timeout` seconds
    for 64 KiB has left. Servers drop clients that do not read at different times, or never; and in HTTP/2 one may
    read its connection without making room for one stream.
    """

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, nursery: trio.Nursery, send_timeout: float
    ) -> None:
        server = scope.get("server")
        client = scope.get("client")
        self.request = Request(
            scope["method"],
            scope["path"],
            [(bytes(name).lower(), bytes(value)) for name, value in scope["headers"]],
            scope.get("scheme", "http"),
            server[0] if server and server[1] is not None else None,
            client[0] if client else None,
            prefix=scope.get("root_path", "").rstrip("/"),
            query=scope.get("query_string", b""),
        )
        self.started = False
        """Whether an answer has begun."""
        self._streaming = False
        self._finished = False
        self._receive = receive
        self._send = send
        self._send_timeout = send_timeout
        self._nursery = nursery
        self._multiplexed = scope.get("http_version", "1.1")[:1] not in ("0", "1")
        self._needs_host = scope.get("http_version") == "1.1"
        self._body_read = False
        self._body_tried = False
        self._ambiguous = False
        self._gone = False
        self._watching = False
        self._on_disconnect: list[Callable[[], object]] = []

    def problem(self) -> tuple[int, str] | None:
        """Why the request is not to be served, with a status: a host may allow more than we do."""
        if sum(map(len, chain.from_iterable(self.request.headers))) > limits.MAX_HEADER_BYTES:
            return 431, f"The headers are larger than {limits.MAX_HEADER_BYTES:,} bytes"
        ambiguity = self._ambiguity()
        self._ambiguous = ambiguity is not None
        return None if ambiguity is None else (400, ambiguity)

    def _ambiguity(self) -> str | None:
        """Why a proxy may have read this request in another way than this server; None where nothing says so. Its body
        is not read, so that the connection ends with the answer: what follows on it is not to be trusted (RFC 9112
        sections 3.2, 6.1, 6.3). Hosts differ in what of it they refuse themselves.
        """
        codings = self.request.all("transfer-encoding")
        if codings and self.request.all("content-length"):
            return "The length of the body is given in two ways"
        if codings and ",".join(codings).lower() != "chunked":
            return "The only Transfer-Encoding that is understood is chunked"
        if self._needs_host and len(self.request.all("host")) != 1:
            return "A request has one Host header (RFC 9112 section 3.2)"
        return None

    async def body(self, limit: int, seconds: float) -> bytes:
        """See `http.Exchange`."""
        self._body_tried = True
        announced = self.request.get("content-length") or ""
        if announced.isdecimal() and (len(announced) > 18 or int(announced) > limit):
            raise BodyRefused(413, f"The body is larger than the limit of {limit:,} bytes")
        parts: list[bytes] = []
        size = 0
        with trio.move_on_after(seconds) as timer:
            while not self._body_read:
                message = await self._next()
                if message["type"] == "http.disconnect":
                    self._gone = True
                    raise Disconnected
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                self._body_read = not message.get("more_body", False)
                if size > limit:
                    raise BodyRefused(413, f"The body is larger than the limit of {limit:,} bytes")
        if timer.cancelled_caught:
            raise BodyRefused(408, f"The body did not arrive within {seconds:g} s")
        return b"".join(parts)

    async def _swallow(self) -> bool:
        """Read what is left of a body that is small and comes at once; whether there is no more. Then the connection
        can go on.
        """
        if self._ambiguous:
            return False
        if self._has_body() and not (self._body_read or self._body_tried):
            with suppress(BodyRefused):
                await self.body(limits.SMALL_BODY, limits.SOON_SECONDS)
        return self._body_read or not self._has_body()

    async def respond(self, status: int, headers: HeaderList, body: bytes = b"") -> None:
        """See `http.Exchange`."""
        close: HeaderList = ()
        if not await self._swallow():
            # While the answer is sent, or a server that waits for the body to be read would wait for ever.
            self._nursery.start_soon(self._throw_away)
            close = () if self._multiplexed else ((b"connection", b"close"),)
        length = (b"content-length", str(len(body)).encode())
        head = [*headers, *close] if status == 204 else [*headers, length, *close]
        await self._give({"type": "http.response.start", "status": status, "headers": head})
        await self._give({"type": "http.response.body", "body": body})

    async def start(self, status: int, headers: HeaderList, first: bytes) -> None:
        """See `http.Exchange`."""
        self._streaming = True
        await self._give({"type": "http.response.start", "status": status, "headers": list(headers)})
        await self.write(first)

    async def write(self, data: bytes) -> None:
        """See `http.Exchange`."""
        await self._give({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self) -> None:
        """End a streamed answer, if it is one."""
        if self._streaming:
            await self._give({"type": "http.response.body", "body": b""})
            self._finished = True

    def start_soon(self, task: Callable[[], Awaitable[object]]) -> None:
        """See `http.Exchange`."""
        self._nursery.start_soon(task)

    def on_disconnect(self, call: Callable[[], object]) -> None:
        """See `http.Exchange`."""
        if self._gone:
            call()
            return
        self._on_disconnect.append(call)
        if not self._watching:
            self._watching = True
            self._nursery.start_soon(self._watch)

    def end_with_client(self) -> None:
        """See `http.Exchange`."""
        self.on_disconnect(self._nursery.cancel_scope.cancel)

    async def _watch(self) -> None:
        await self._throw_away()
        self._leave()

    def _leave(self) -> None:
        self._gone = True
        for call in self._on_disconnect:
            call()

    async def _throw_away(self) -> None:
        while (await self._next())["type"] != "http.disconnect":
            pass

    async def _next(self) -> Message:
        try:
            return await self._receive()
        except OSError:
            return {"type": "http.disconnect"}

    async def _give(self, message: Message) -> None:
        """Send a message. Raises `Disconnected`; hosts raise an OSError for that (ASGI 2.4), or nothing."""
        pieces = 1 + len(message.get("body", b"")) // limits.PIECE
        if self._gone or self._finished:
            raise Disconnected
        self.started = True
        try:
            with trio.fail_after(self._send_timeout * pieces):
                await self._send(message)
        except (OSError, trio.TooSlowError):
            self._leave()
            raise Disconnected from None

    def _has_body(self) -> bool:
        return (
            self._multiplexed  # whose bodies need not be announced
            or self.request.get("content-length") not in (None, "0")
            or self.request.get("transfer-encoding") is not None
        )
