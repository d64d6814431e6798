"""What an app with auth serves to clients without a token: its metadata, and what its `Auth` has routes for."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import msgspec

from mcpkit.auth.base import Auth, Route, Site
from mcpkit.auth.metadata import RESOURCE_METADATA, protected_resource, split_well_known
from mcpkit.transports import http
from mcpkit.transports.entrance import Refused, refused, site_of
from mcpkit.transports.http import Exchange, Handler, HeaderList
from mcpkit.transports.security import Guard


class OpenRoutes:
    """The open routes of one app, whose resources are at some paths; the first is the app's own."""

    def __init__(self, auth: Auth, guard: Guard, resources: Sequence[str]) -> None:
        self._auth = auth
        self._guard = guard
        self._resources = resources
        self._routes: Mapping[str, Route] = {
            RESOURCE_METADATA: functools.partial(_describe, auth),
            **auth.routes(),
        }

    def find(self, path: str) -> Handler | None:
        """What is served at a path (below the place where the app is mounted) to everybody; None for all others."""
        for name, route in self._routes.items():
            if name.startswith("/.well-known/"):
                split = split_well_known(path, name, self._resources)
            else:
                split = ("", self._resources[0]) if path == name else None
            if split is not None:
                return functools.partial(self._serve, route, *split)
        return None

    async def _serve(self, route: Route, prefix: str, path: str, exchange: Exchange) -> None:
        """Answer web pages of any origin: a page that has no token can do here what anybody can."""
        request = exchange.request
        if prefix:
            request.prefix = prefix
        try:
            reason = self._guard.refuses_host(request)
            if reason is not None:
                raise refused(403, reason)
            site = site_of(self._auth, request, path)
        except Refused as refusal:
            await refusal.answer(exchange)
            return
        if request.method == "OPTIONS":
            await exchange.respond(204, self._guard.preflight(request))
        else:
            await route(_Open(exchange, self._guard.cors(request)), site)


class _Open:
    """An exchange whose answers get more headers, unless they have them already."""

    def __init__(self, exchange: Exchange, headers: HeaderList) -> None:
        self.request = exchange.request
        self.body = exchange.body
        self.write = exchange.write
        self.start_soon = exchange.start_soon
        self.on_disconnect = exchange.on_disconnect
        self.end_with_client = exchange.end_with_client
        self._exchange = exchange
        self._headers = headers

    async def respond(self, status: int, headers: HeaderList, body: bytes = b"") -> None:
        """See `http.Exchange`."""
        await self._exchange.respond(status, self._with(headers), body)

    async def start(self, status: int, headers: HeaderList, first: bytes) -> None:
        """See `http.Exchange`."""
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
