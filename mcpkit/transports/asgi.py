"""The app as an ASGI application, for any ASGI server: on trio, and as a guest on asyncio.

Source: ASGI 3.0, "HTTP & WebSocket" and "Lifespan".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, MutableMapping
from contextlib import asynccontextmanager, contextmanager, suppress
from types import TracebackType
from typing import Any

import sniffio
import trio

from mcpkit.app import App
from mcpkit.engine import access
from mcpkit.engine.dispatch import report
from mcpkit.engine.runtime import Runtime, running
from mcpkit.errors import innermost
from mcpkit.transports.entrance import Entrance
from mcpkit.transports.gateway import Gateway
from mcpkit.transports.guest import Guest, from_asyncio, until_host_ends
from mcpkit.transports.http import BodyRefused, Disconnected, Handler, HeaderList, Request
from mcpkit.transports.options import HttpOptions
from mcpkit.transports.sse import SseEndpoint
from mcpkit.transports.streamable import Endpoint

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


MAX_HEADER_BYTES = 32 * 1024
"""Bytes of all headers of a request together."""

_SMALL_BODY = 64 * 1024
_PIECE = 64 * 1024
_SOON_SECONDS = 1.0

_log = logging.getLogger("mcpkit")


@asynccontextmanager
async def serving(app: App, options: HttpOptions) -> AsyncGenerator[Endpoints]:
    """The endpoints of `app`, running inside the block. Raises TypeError when something that was registered
    cannot be served, and what the lifespan raises.
    """
    async with running(app) as runtime, trio.open_nursery() as nursery:
        if app.auth is not None:
            await app.auth.run(runtime.store)
        endpoints = Endpoints(runtime, nursery, options)
        try:
            yield endpoints
        finally:
            endpoints.end()
            nursery.cancel_scope.cancel()


class Endpoints:
    """All endpoints of one running app; which of them are there, the options say."""

    def __init__(self, runtime: Runtime, nursery: trio.Nursery, options: HttpOptions) -> None:
        entrance = Entrance(options, guarded=runtime.app.auth is not None)
        streamable = Endpoint(runtime, nursery, options, entrance)
        sse = SseEndpoint(runtime, options, entrance)
        handlers: dict[str, Handler] = {
            "streamable": streamable.handle,
            "stream": sse.stream,
            "message": sse.message,
        }
        self._runtime = runtime
        self._all = (streamable, sse)
        self.handlers = {path: handlers[kind] for path, kind in options.endpoints}
        """By path, those of the options."""

    async def ready(self) -> None:
        """Wait until the lifespan has begun."""
        await self._runtime.ready.wait()

    def end(self) -> None:
        """End all streams, so that the server can stop."""
        for endpoint in self._all:
            endpoint.end()


class _Life:
    """One time that the app is served, from the first who asks for it to its end."""

    def __init__(self) -> None:
        self.ready = trio.Event()
        self.stop = trio.Event()
        self.ended = trio.Event()
        self.endpoints: Endpoints | None = None
        self.failure: BaseException | None = None
        self.trace: TracebackType | None = None
        self._requests: set[trio.CancelScope] = set()
        self._idle = trio.Event()

    @contextmanager
    def request(self) -> Generator[trio.CancelScope]:
        """Around one request: the scope in which `end_requests` cancels it."""
        self._idle = self._idle if self._requests else trio.Event()
        with trio.CancelScope() as scope:
            self._requests.add(scope)
            try:
                yield scope
            finally:
                self._requests.remove(scope)
                if not self._requests:
                    self._idle.set()

    async def end_requests(self) -> None:
        """Cancel all requests, and wait for their clean-up."""
        for scope in self._requests:
            scope.cancel()
        if self._requests:
            await self._idle.wait()


class Application:
    """An app as an ASGI 3 application.

    It runs from the host's lifespan start-up to its shut-down. A host that forwards no lifespan events starts it
    with the first request, and ends it with the loop; or is given `lifespan`. What the app's lifespan raises at its
    start is logged, unless whoever serves `raises` it.
    """

    def __init__(self, app: App, options: HttpOptions, *, raises: bool = False) -> None:
        app.registry.resolve()
        self._app = app
        self._options = options
        self._gateway = Gateway(app.auth, options)
        self._paths = {path for path, _ in options.endpoints}
        self._raises = raises
        # Of each trio run: a process may have several, one after the other or in threads.
        self._life: trio.lowlevel.RunVar[_Life | None] = trio.lowlevel.RunVar("_life", None)

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
        life = self._life.get()
        if life is not None and life.endpoints is not None:
            life.endpoints.end()

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
                await guest.call(self._start)
                try:
                    yield
                finally:
                    await guest.call(self._end)
        else:
            await self._start()
            try:
                yield
            finally:
                await self._end()

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

    async def _start(self) -> _Life:
        """Start once, whoever asks first. Raises what start-up raised."""
        life = self._life.get()
        if life is None:
            life = _Life()
            self._life.set(life)
            # Not a child of this request: it must go on when the request has ended.
            trio.lowlevel.spawn_system_task(self._run, life)
        await life.ready.wait()
        if life.failure is not None:
            raise life.failure.with_traceback(life.trace)  # its own, which would grow with each raise
        return life

    async def _run(self, life: _Life) -> None:
        try:
            async with serving(self._app, self._options) as life.endpoints:
                await life.endpoints.ready()
                life.ready.set()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._end_with_host, life)
                    await life.stop.wait()
                    nursery.cancel_scope.cancel()
                with trio.move_on_after(self._options.grace):
                    await life.end_requests()
        except BaseException as error:
            _, failed = (
                error.split(trio.Cancelled) if isinstance(error, BaseExceptionGroup) else (None, error)
            )
            if failed is None or isinstance(failed, trio.Cancelled):
                raise
            life.failure = innermost(failed)
            life.trace = life.failure.__traceback__
            if life.ready.is_set() or not self._raises:
                _log.error("the app failed", exc_info=life.failure)
        finally:
            life.endpoints = None
            life.ready.set()
            life.ended.set()

    async def _end_with_host(self, life: _Life) -> None:
        """End what would hold up a host that waits for its responses: streams at once, calls after a while."""
        await until_host_ends()
        self.end_streams()
        await trio.sleep(self._options.grace)
        await life.end_requests()

    async def _end(self) -> None:
        life = self._life.get()
        if life is not None:
            life.stop.set()
            await life.ended.wait()
            self._life.set(None)

    # -- Requests --------------------------------------------------------------------------------

    async def _serve_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            exchange = AsgiExchange(scope, receive, send, nursery, self._options.send_timeout)
            with suppress(Disconnected):
                if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
                    await exchange.refuse(431, f"The headers are larger than {MAX_HEADER_BYTES:,} bytes")
                elif exchange.is_ambiguous():
                    await exchange.refuse(400, "The length of the body is given in two ways")
                else:
                    await self._answer(exchange)
            nursery.cancel_scope.cancel()

    async def _answer(self, exchange: AsgiExchange) -> None:
        """What goes wrong outside a handler, in a store or an `Auth` of the user's, is logged here: hypercorn would say
        nothing of it.
        """
        try:
            await self._route(exchange)
        except Disconnected:
            raise
        except Exception as error:
            request = exchange.request
            report("%s %s failed", request.method, access.clean(request.path), error=error)
            if exchange.started:
                raise  # the server cuts what has begun
            await exchange.refuse(500, "Internal Server Error")

    async def _route(self, exchange: AsgiExchange) -> None:
        path, root = exchange.request.path, exchange.request.prefix
        if root and path.startswith(root):
            path = path[len(root) :]
        exchange.request = self._gateway.seen(exchange.request)
        endpoint = path.rstrip("/")
        open_route = None if endpoint in self._paths else self._gateway.open_route(path)
        if endpoint in self._paths or open_route is not None:
            await self._handle(endpoint, exchange, open_route)
        else:
            await exchange.refuse(404, "Not Found")

    async def _handle(self, path: str, exchange: AsgiExchange, open_route: Handler | None) -> None:
        try:
            life = await self._start()
        except Exception:
            await exchange.refuse(503, "The app could not be started")
            return
        if life.endpoints is None:
            await exchange.refuse(503, "The app has ended")
            return
        with life.request() as scope:
            await (open_route or self._gateway.guarded(path, life.endpoints.handlers[path]))(exchange)
        if scope.cancelled_caught and not exchange.started:
            await exchange.refuse(503, "The server is ending")
        await exchange.finish()


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
        self._body_read = False
        self._body_tried = False
        self._gone = False
        self._watching = False
        self._on_disconnect: list[Callable[[], object]] = []

    def is_ambiguous(self) -> bool:
        """Whether the body has two lengths. Then a proxy may have seen another end of it than this server, and what
        follows on the connection is not to be trusted (RFC 9112 section 6.3).
        """
        self._body_tried = all(map(self.request.all, ("content-length", "transfer-encoding")))
        return self._body_tried

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
        if self._has_body() and not (self._body_read or self._body_tried):
            with suppress(BodyRefused):
                await self.body(_SMALL_BODY, _SOON_SECONDS)
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

    async def refuse(self, status: int, text: str) -> None:
        """Answer where the protocol has not begun."""
        if access.enabled():
            access.write(access.clean(f"{self.request.method} {self.request.path}"), str(status))
        await self.respond(status, [(b"content-type", b"text/plain")], text.encode() + b"\n")

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
        pieces = 1 + len(message.get("body", b"")) // _PIECE
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
