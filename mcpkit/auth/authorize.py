"""The authorization endpoint: a browser comes from a client, a user signs in and allows, the browser goes back.

    GET /authorize     checks the request, shows the page with a form that holds the request again
    POST /authorize    checks form, request and password, sends the browser back with a code

Rule 1. Nothing is kept between the two: the form says again what was asked, and all of it is checked again.
Rule 2. Until client and redirect URI are known to belong together, an error is shown; from then on it is sent back,
        with `state` and `iss` (RFC 6749 section 4.1.2.1, RFC 9207).
Rule 3. A form counts only from the browser that was given it, see `marks`.

Source: OAuth 2.1 (draft-ietf-oauth-v2-1) section 4.1; RFC 9207; RFC 9700; MCP 2026-07-28, "Authorization".
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import Struct

from mcpkit.auth import forms, marks, pages
from mcpkit.auth.asked import Asked, Given, Rules
from mcpkit.auth.base import Site
from mcpkit.auth.clientdata import Client
from mcpkit.auth.clients import Clients
from mcpkit.auth.forms import OAuthError
from mcpkit.auth.grants import Code, Grant, Grants
from mcpkit.auth.limits import retry_after
from mcpkit.auth.signin import Broken, SignIn, TooMany, User
from mcpkit.auth.urls import is_loopback, is_registered, split, with_parameters
from mcpkit.principal import Principal
from mcpkit.stores.base import Store
from mcpkit.transports.http import Exchange, HeaderList

_STALE = "This page was no longer good. Sign in again here. If you see this again, allow cookies."
_AGAIN = (
    "Go back to the program that sent you here, and start again there. "
    "If that does not help, remove this server there and add it again."
)
_LATER = "Try again later. Whoever runs this server finds the reason in its log."
_log = logging.getLogger("mcpkit")


class _Visit(Struct):
    """One request of a browser, from a client whose redirect URI it is."""

    exchange: Exchange
    site: Site
    given: Given
    client: Client
    redirect_uri: str


class Authorization:
    """The endpoint. `issuer` says who the codes are from."""

    def __init__(
        self,
        sign_in: SignIn,
        clients: Clients,
        grants: Grants,
        store: Store,
        rules: Rules,
        issuer: Callable[[Site], str],
    ) -> None:
        self._sign_in = sign_in
        self._clients = clients
        self._grants = grants
        self._store = store
        self._rules = rules
        self._issuer = issuer

    async def serve(self, exchange: Exchange, site: Site) -> None:
        """Answer a GET or a POST."""
        posted = exchange.request.method == "POST"
        try:
            pairs = (
                (await forms.read_form(exchange)).items() if posted else forms.parse(exchange.request.query)
            )
            visit = await self._visit(exchange, site, Given(pairs))
        except OAuthError as error:
            status = (
                400 if error.status == 401 else error.status
            )  # nothing that a browser could show would help
            await pages.show(exchange, status, pages.error(f"{error}.", _AGAIN), error.headers)
            return
        try:
            asked = self._rules.check(visit.given, site.resource)
            await (self._submit(visit, asked) if posted else self._ask(visit, asked))
        except OAuthError as error:
            await self._send_back(visit, error=error.code, error_description=str(error))
        except Broken:
            await pages.show(exchange, 500, pages.error("You could not be signed in.", _LATER))

    async def _visit(self, exchange: Exchange, site: Site, given: Given) -> _Visit:
        """Who asks, and where the answer goes. Raises `OAuthError`, which is for the user."""
        client = await self._clients.find(given.require("client_id"), site.client)
        redirect_uri = given.get("redirect_uri")
        if not redirect_uri and len(client.redirect_uris) == 1:
            redirect_uri = client.redirect_uris[0]
        if not is_registered(redirect_uri, client.redirect_uris):
            problem = "The redirect_uri is not one that this program has registered"
            raise OAuthError("invalid_request", problem)
        return _Visit(exchange, site, given, client, redirect_uri)

    async def _ask(
        self,
        visit: _Visit,
        asked: Asked,
        status: int = 200,
        problem: str | None = None,
        headers: HeaderList = (),
    ) -> None:
        """Show the page, with what was wrong about the form that came."""
        given, site = visit.given.asked, visit.site
        secret = marks.secret_for(visit.exchange.request, site)
        page = pages.consent(
            pages.Consent(
                server=site.resource.partition("://")[2],
                client_name=visit.client.name,
                client_host=visit.client.host,
                target=_describe(visit.redirect_uri),
                scopes=[self._rules.scopes[scope] or scope for scope in asked.scopes],
                action=f"{site.prefix}/authorize",
                hidden={**given, "form": marks.new_mark(secret, given)},
                username=visit.given.get("username"),
                problem=problem,
            )
        )
        await pages.show(visit.exchange, status, page, [marks.cookie(secret, site), *headers])

    async def _submit(self, visit: _Visit, asked: Asked) -> None:
        given, site = visit.given, visit.site
        mark = given.get("form")
        if not await marks.is_good(visit.exchange.request, site, mark, given.asked, self._store):
            await self._ask(visit, asked, 403, _STALE)
            return
        if given.get("decision") == "deny":
            raise OAuthError("access_denied", "The user said no")
        try:
            user = await self._sign_in.check(given.get("username"), given.get("password"), site.client)
        except TooMany as many:
            problem = f"Too many tries. Try again in {_time(many.seconds)}."
            await self._ask(visit, asked, 429, problem, [retry_after(many.seconds)])
            return
        if user is None:
            await self._ask(visit, asked, 403, "User name or password is wrong.")
            return
        if not await marks.use(mark, self._store):
            await self._ask(visit, asked, 403, _STALE)
            return
        await self._send_back(visit, code=await self._code(visit, asked, user))

    async def _code(self, visit: _Visit, asked: Asked, user: User) -> str:
        """A code for what the user may grant of it. Raises `OAuthError`, `Broken`."""
        scopes = tuple(scope for scope in asked.scopes if user.allowed is None or scope in user.allowed)
        if asked.scopes and not scopes:
            raise OAuthError("access_denied", "The user may do nothing of what was asked for")
        client, known = visit.client, user.principal
        principal = Principal(known.id, scopes, known.claims, known.value)
        grant = Grant(client.id, principal, visit.site.resource, "refresh_token" in client.grant_types)
        try:
            code = await self._grants.offer(Code(grant, visit.redirect_uri, asked.challenge))
        except TypeError:
            _log.exception("claims and value of the Principal that users= returned must have a JSON form")
            raise Broken from None
        await self._clients.accept(client)
        return code

    async def _send_back(self, visit: _Visit, **answer: str) -> None:
        location = with_parameters(
            visit.redirect_uri, **answer, state=visit.given.state, iss=self._issuer(visit.site)
        )
        # 303: a 307 would send the password on (RFC 9700 section 4.12).
        headers = [(b"location", location.encode("ascii")), (b"referrer-policy", b"no-referrer")]
        await visit.exchange.respond(303, [*headers, (b"cache-control", b"no-store")])


def _describe(redirect_uri: str) -> str:
    parts = split(redirect_uri)
    if parts is None or not parts.scheme.startswith("http"):
        return f"an app on this device ({redirect_uri.partition(':')[0]})"
    return f"this computer ({parts.netloc})" if is_loopback(parts) else parts.netloc


def _time(seconds: int) -> str:
    return f"{seconds} seconds" if seconds < 90 else f"{-(-seconds // 60)} minutes"
