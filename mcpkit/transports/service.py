"""An app as it is served over HTTP, whoever listens: how long it lives, and what is at which path.

    Service      the app: it starts once, routes requests, and ends
    Endpoints    what there is while it runs

An adapter (`asgi`, `listener`) makes an exchange of each request, and the service answers it.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType

import trio

from mcpkit.app import App
from mcpkit.auth.guard import Gate
from mcpkit.engine import access, scopes
from mcpkit.engine.dispatch import report
from mcpkit.engine.runtime import Runtime, running
from mcpkit.errors import innermost
from mcpkit.transports.access import LoggedExchange
from mcpkit.transports.entrance import Answer, Entrance
from mcpkit.transports.http import Answering, Disconnected, Exchange, Handler, Request
from mcpkit.transports.openroutes import OpenRoutes
from mcpkit.transports.options import HttpOptions, Kind
from mcpkit.transports.proxies import Proxies
from mcpkit.transports.security import Guard
from mcpkit.transports.sse import SseEndpoint
from mcpkit.transports.streamable import Endpoint

_log = logging.getLogger("mcpkit")


@asynccontextmanager
async def serving(app: App, options: HttpOptions, guard: Guard) -> AsyncGenerator[Endpoints]:
    """The endpoints of `app`, running inside the block. Raises TypeError when something that was registered
    cannot be served, and what the lifespan raises.
    """
    async with running(app) as runtime, trio.open_nursery() as nursery:
        if app.auth is not None:
            await app.auth.run(runtime.store)
        endpoints = Endpoints(runtime, nursery, options, guard)
        try:
            yield endpoints
        finally:
            endpoints.end()
            nursery.cancel_scope.cancel()


class Endpoints:
    """All endpoints of one running app; which of them are there, the options say."""

    def __init__(self, runtime: Runtime, nursery: trio.Nursery, options: HttpOptions, guard: Guard) -> None:
        streamable = Endpoint(runtime, nursery, options)
        sse = SseEndpoint(runtime, options)
        kinds: dict[Kind, tuple[tuple[str, ...], Answer]] = {
            "streamable": (("POST", "GET", "DELETE"), streamable.answer),
            "stream": (("GET",), sse.stream),
            "message": (("POST",), sse.message),
        }
        gate = None if runtime.app.auth is None else Gate(runtime.app.auth)
        resources = options.resources
        self._runtime = runtime
        self._all = (streamable, sse)
        self.handlers: dict[str, Handler] = {
            path: Entrance(guard, gate, path if path in resources else resources[-1], *kinds[kind]).serve
            for path, kind in options.endpoints
        }
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


async def refuse(exchange: Exchange, status: int, text: str) -> None:
    """Answer where the protocol has not begun."""
    await exchange.respond(status, [(b"content-type", b"text/plain")], text.encode() + b"\n")


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
        self._proxies = Proxies(options.trusted_proxies) if options.trusted_proxies else None
        strict = app.auth is not None and app.auth.trusts_host
        self._guard = Guard(options.allowed_hosts, options.allowed_origins, strict=strict)
        self._open = None if app.auth is None else OpenRoutes(app.auth, self._guard, options.resources)
        self._kinds = dict(options.endpoints)
        self._logs = access.enabled()
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
            self._logs = access.enabled()
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
            async with serving(self._app, self.options, self._guard) as life.endpoints:
                await life.endpoints.ready()
                life.ready.set()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._end_with_host, life)
                    await life.stop.wait()
                    nursery.cancel_scope.cancel()
                life.endpoints = None  # whoever comes now is told so, since nobody will run what they bring
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

    async def serve(self, exchange: Answering, wrong: tuple[int, str] | None = None) -> None:
        """Answer a request, whatever it is for. The first starts the app, where nobody has. One that is cut short by
        the end of the server is told so. `wrong` is the status and the reason for one that is not to be served.
        """
        await self._logged(exchange, functools.partial(self._serve, wrong))

    async def _serve(self, wrong: tuple[int, str] | None, exchange: Answering) -> None:
        if wrong is not None:
            await refuse(exchange, *wrong)
            return
        try:
            life = await self.start()
        except Exception:
            await refuse(exchange, 503, "The app could not be started")
            return
        with life.requests() as scope:
            await self._answer(life, exchange)
        if scope.cancelled_caught:
            await self.tell_ending(exchange)

    async def answer(self, life: Life, exchange: Answering) -> None:
        """`serve`, for whoever has started the app, and sees to its end with `Life.requests`."""
        await self._logged(exchange, functools.partial(self._answer, life))

    async def _logged(self, exchange: Answering, answer: Callable[[Answering], Awaitable[None]]) -> None:
        """Answer, with a line in the access log. What is posted beside a stream has none when it is accepted: its
        true answer has one.
        """
        if not self._logs:
            await answer(exchange)
            return
        logged = LoggedExchange(exchange)
        route = exchange.request.once(self._route)
        try:
            await answer(logged)
        finally:
            if logged.status != 202 or not isinstance(route, str) or self._kinds[route] != "message":
                logged.log()

    async def _answer(self, life: Life, exchange: Answering) -> None:
        """What goes wrong outside the user's handlers, in a store or an `Auth` of the user's, is logged here, and told
        unless an answer has begun: then it is raised, for whoever carries the answer to cut it.
        """
        request = exchange.request
        route = request.once(self._route)
        if self._proxies is not None:
            exchange.request = self._proxies.seen(request)
        try:
            if route is None:
                await refuse(exchange, 404, "Not Found")
            elif life.endpoints is None:
                await refuse(exchange, 503, "The app has ended")
            else:
                handler = life.endpoints.handlers[route] if isinstance(route, str) else route
                await handler(exchange)
        except Disconnected:
            raise
        except Exception as error:
            report("%s %s failed", request.method, access.clean(request.path), error=error)
            if exchange.started:
                raise
            await refuse(exchange, 500, "Internal Server Error")

    def _route(self, request: Request) -> str | Handler | None:
        """The path of an endpoint, or what is open to all at this one; None where there is nothing."""
        path = request.path
        if request.prefix and path.startswith(request.prefix):
            path = path[len(request.prefix) :]
        endpoint = path.rstrip("/")
        if endpoint in self._kinds:
            return endpoint
        return None if self._open is None else self._open.find(path)

    async def tell_ending(self, exchange: Answering) -> None:
        """Answer a request that was cut short, if nothing was said yet."""
        if not exchange.started:
            await refuse(exchange, 503, "The server is ending")
