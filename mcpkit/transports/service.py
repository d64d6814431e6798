"""An app as it is served over HTTP, whoever listens: how long it lives, and what is at which path.

    Service      the app: it starts once, routes requests, and ends
    Endpoints    what there is while it runs

An adapter (`asgi`, `listener`) makes an exchange of each request, and the service answers it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Protocol

import trio

from mcpkit.app import App
from mcpkit.engine import access, scopes
from mcpkit.engine.dispatch import report
from mcpkit.engine.runtime import Runtime, running
from mcpkit.errors import innermost
from mcpkit.transports.entrance import Entrance
from mcpkit.transports.gateway import Gateway
from mcpkit.transports.http import Disconnected, Exchange, Handler
from mcpkit.transports.options import HttpOptions
from mcpkit.transports.sse import SseEndpoint
from mcpkit.transports.streamable import Endpoint

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


class Life:
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
    def requests(self) -> Generator[trio.CancelScope]:
        """Around one request, or all of one connection: the scope in which `end_requests` cancels it."""
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


class Answering(Exchange, Protocol):
    """The exchange of an adapter."""

    started: bool
    """Whether an answer has begun."""


async def refuse(exchange: Exchange, status: int, text: str) -> None:
    """Answer where the protocol has not begun."""
    if access.enabled():
        access.write(access.clean(f"{exchange.request.method} {exchange.request.path}"), str(status))
    await exchange.respond(status, [(b"content-type", b"text/plain")], text.encode() + b"\n")


async def _handled(handler: Handler, exchange: Answering) -> None:
    """What goes wrong outside the user's handlers, in a store or an `Auth` of the user's, is logged here, and told
    unless an answer has begun: then it is raised, for whoever carries the answer to cut it.
    """
    try:
        await handler(exchange)
    except Disconnected:
        raise
    except Exception as error:
        request = exchange.request
        report("%s %s failed", request.method, access.clean(request.path), error=error)
        if exchange.started:
            raise
        await refuse(exchange, 500, "Internal Server Error")


class Service:
    """An app with the options that it is served with. `host_ends` waits until a host that waits for its responses
    begins to end. What the app's lifespan raises at its start is logged, unless whoever serves `raises` it.
    """

    def __init__(
        self,
        app: App,
        options: HttpOptions,
        *,
        raises: bool = False,
        host_ends: Callable[[], Awaitable[object]] = trio.sleep_forever,
    ) -> None:
        app.registry.resolve()
        if app.auth is None:
            scopes.check_unguarded(app)
        self.options = options
        self._app = app
        self._gateway = Gateway(app.auth, options)
        self._paths = {path for path, _ in options.endpoints}
        self._raises = raises
        self._host_ends = host_ends
        # Of each trio run: a process may have several, one after the other or in threads.
        self._life: trio.lowlevel.RunVar[Life | None] = trio.lowlevel.RunVar("_life", None)

    # -- Life ------------------------------------------------------------------------------------

    async def start(self) -> Life:
        """Start once, whoever asks first. Raises what start-up raised."""
        life = self._life.get()
        if life is None:
            life = Life()
            self._life.set(life)
            # Not a child of this request: it must go on when the request has ended.
            trio.lowlevel.spawn_system_task(self._run, life)
        if not life.ready.is_set():
            await life.ready.wait()
        if life.failure is not None:
            raise life.failure.with_traceback(life.trace)  # its own, which would grow with each raise
        return life

    async def end(self) -> None:
        """End it, and wait for that."""
        life = self._life.get()
        if life is not None:
            life.stop.set()
            await life.ended.wait()
            self._life.set(None)

    @asynccontextmanager
    async def living(self) -> AsyncGenerator[Life]:
        """Its life, inside the block. Raises what start-up raised."""
        life = await self.start()
        try:
            yield life
        finally:
            await self.end()

    def end_streams(self) -> None:
        """Let all streams end, so that the server can stop."""
        life = self._life.get()
        if life is not None and life.endpoints is not None:
            life.endpoints.end()

    async def _run(self, life: Life) -> None:
        try:
            async with serving(self._app, self.options) as life.endpoints:
                await life.endpoints.ready()
                life.ready.set()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._end_with_host, life)
                    await life.stop.wait()
                    nursery.cancel_scope.cancel()
                with trio.move_on_after(self.options.grace):
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

    async def _end_with_host(self, life: Life) -> None:
        """End what would hold up a host that waits for its responses: streams at once, calls after a while."""
        await self._host_ends()
        self.end_streams()
        await trio.sleep(self.options.grace)
        await life.end_requests()

    # -- Requests --------------------------------------------------------------------------------

    async def serve(self, exchange: Answering) -> None:
        """Answer a request, whatever it is for. The first starts the app, where nobody has. One that is cut short by
        the end of the server is told so.
        """
        found = await self._find(exchange)
        if found is not None:
            life, handler = found
            with life.requests() as scope:
                await _handled(handler, exchange)
            if scope.cancelled_caught:
                await self.tell_ending(exchange)

    async def answer(self, exchange: Answering) -> None:
        """`serve`, for whoever sees to the end of the server with `Life.requests` of their own."""
        found = await self._find(exchange)
        if found is not None:
            await _handled(found[1], exchange)

    async def _find(self, exchange: Answering) -> tuple[Life, Handler] | None:
        """What answers a request; nothing when it is answered already."""
        path, open_route = self._route(exchange)
        if path is None:
            await refuse(exchange, 404, "Not Found")
            return None
        try:
            life = await self.start()
        except Exception:
            await refuse(exchange, 503, "The app could not be started")
            return None
        if life.endpoints is None:
            await refuse(exchange, 503, "The app has ended")
            return None
        return life, open_route or self._gateway.guarded(path, life.endpoints.handlers[path])

    def _route(self, exchange: Answering) -> tuple[str | None, Handler | None]:
        """The path of an endpoint, or what is open to all at this one; no path where there is nothing."""
        path, root = exchange.request.path, exchange.request.prefix
        if root and path.startswith(root):
            path = path[len(root) :]
        exchange.request = self._gateway.seen(exchange.request)
        endpoint = path.rstrip("/")
        open_route = None if endpoint in self._paths else self._gateway.open_route(path)
        return (endpoint if endpoint in self._paths or open_route is not None else None), open_route

    async def tell_ending(self, exchange: Answering) -> None:
        """Answer a request that was cut short, if nothing was said yet."""
        if not exchange.started:
            await refuse(exchange, 503, "The server is ending")
