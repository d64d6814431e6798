"""What every HTTP request passes before it reaches what it asks for.

    a proxy           what a trusted one says of the request is believed
    an open route     metadata, and what an `Auth` serves to clients without a token: `Gateway.open_route`
    everything else   needs a token, in an app with auth: `Gateway.guarded`

A preflight never needs a token: browsers send none with it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import msgspec

from mcpkit.auth.base import Auth, Route, Site, canonical
from mcpkit.auth.guard import Gate, Refusal
from mcpkit.auth.metadata import RESOURCE_METADATA, protected_resource, split_well_known
from mcpkit.engine import access
from mcpkit.protocol import eras, jsonrpc
from mcpkit.protocol.errors import InvalidRequest
from mcpkit.transports import http
from mcpkit.transports.http import Exchange, Handler, HeaderList, Request
from mcpkit.transports.options import HttpOptions
from mcpkit.transports.proxies import Proxies
from mcpkit.transports.security import Guard, own_origin


class Gateway:
    """The gateway of one app."""

    def __init__(self, auth: Auth | None, options: HttpOptions) -> None:
        self._auth = auth
        self._paths = tuple(path for path, kind in options.endpoints if kind != "message")
        """Of the resources that there are tokens for; the first is the app's own."""
        self._proxies = Proxies(options.trusted_proxies)
        strict = auth is not None and auth.trusts_host
        self._guard = Guard(options.allowed_hosts, options.allowed_origins, strict=strict)
        self._gate = None if auth is None else Gate(auth)
        self._routes: Mapping[str, Route] = {}
        if auth is not None:
            self._routes = {RESOURCE_METADATA: functools.partial(_describe, auth), **auth.routes()}

    def seen(self, request: Request) -> Request:
        """The request as the client has sent it."""
        return self._proxies.seen(request)

    # -- With a token ------------------------------------------------------------------------

    def guarded(self, path: str, handler: Handler) -> Handler:
        """`handler`, which serves a path, for those who are let in. Messages are posted to the resource that their
        stream is.
        """
        if self._gate is None:
            return handler
        return functools.partial(
            self._enter, self._gate, handler, path if path in self._paths else self._paths[-1]
        )

    async def _enter(self, gate: Gate, handler: Handler, path: str, exchange: Exchange) -> None:
        request = exchange.request
        if request.method == "OPTIONS":
            await handler(exchange)
            return
        reason = self._guard.refuses(request)
        site = self._site(request, path)
        if reason is not None or site is None:
            await _refuse(exchange, Refusal(403, reason or "Forbidden: the Host header names no host"))
            return
        admitted = await gate.admit(request, site)
        if isinstance(admitted, Refusal):
            await _refuse(exchange, admitted, self._guard.cors(request))
            return
        request.caller = admitted
        await handler(exchange)

    # -- Without -----------------------------------------------------------------------------

    def open_route(self, path: str) -> Handler | None:
        """What is served at a path (below the place where the app is mounted) to everybody; None for all others."""
        for name, route in self._routes.items():
            if name.startswith("/.well-known/"):
                split = split_well_known(path, name, self._paths)
            else:
                split = ("", self._paths[0]) if path == name else None
            if split is not None:
                return functools.partial(self._serve, route, *split)
        return None

    async def _serve(self, route: Route, prefix: str, path: str, exchange: Exchange) -> None:
        """Answer web pages of any origin: a page that has no token can do here what anybody can."""
        request = exchange.request
        if prefix:
            request.prefix = prefix
        reason, site = self._guard.refuses_host(request), self._site(request, path)
        if reason is not None or site is None:
            await _refuse(exchange, Refusal(403, reason or "Forbidden: the Host header names no host"))
        elif request.method == "OPTIONS":
            await exchange.respond(204, self._guard.preflight(request))
        else:
            opened = _Open(exchange, self._guard.cors(request))
            await route(opened, site)
            _log_answer(request, opened.status)

    def _site(self, request: Request, path: str) -> Site | None:
        """Where the request found us; None when its Host header cannot be part of a URL."""
        origin = own_origin(request)
        if origin is None or self._auth is None:
            return None
        try:
            origin = canonical(origin)
        except ValueError:  # a port that is none
            return None
        resource = self._auth.resource or origin + (request.prefix + path).rstrip("/")
        return Site(origin, request.prefix, path, resource, request.client)


class _Open:
    """An exchange whose answers get more headers, unless they have them already."""

    def __init__(self, exchange: Exchange, headers: HeaderList) -> None:
        self.request = exchange.request
        self.status: int | None = None
        self.body = exchange.body
        self.write = exchange.write
        self.start_soon = exchange.start_soon
        self.on_disconnect = exchange.on_disconnect
        self._exchange = exchange
        self._headers = headers

    async def respond(self, status: int, headers: HeaderList, body: bytes = b"") -> None:
        """See `http.Exchange`."""
        self.status = status
        await self._exchange.respond(status, self._with(headers), body)

    async def start(self, status: int, headers: HeaderList, first: bytes) -> None:
        """See `http.Exchange`."""
        self.status = status
        await self._exchange.start(status, self._with(headers), first)

    def _with(self, headers: HeaderList) -> HeaderList:
        there = {name.lower() for name, _ in headers}
        return [*headers, *((name, value) for name, value in self._headers if name not in there)]


async def _describe(auth: Auth, exchange: Exchange, site: Site) -> None:
    """RFC 9728 section 3."""
    if exchange.request.method not in ("GET", "HEAD"):
        await exchange.respond(405, [(b"allow", b"GET, HEAD, OPTIONS")])
        return
    body = msgspec.json.encode(protected_resource(auth, site))
    await exchange.respond(200, http.json_headers([(b"cache-control", b"no-cache")]), body)


async def _refuse(exchange: Exchange, refusal: Refusal, cors: HeaderList = ()) -> None:
    error = eras.error_object(InvalidRequest(refusal.message), None)
    headers = http.json_headers((*cors, *refusal.headers))
    await exchange.respond(refusal.status, headers, jsonrpc.error(msgspec.UNSET, error))
    _log_answer(exchange.request, refusal.status)


def _log_answer(request: Request, status: int | None) -> None:
    if access.enabled():
        access.write(access.clean(f"{request.method} {request.path}"), str(status or ""))
