"""An authorization server of one's own, beside the MCP endpoint, for teams without an identity provider.

    GET, POST /authorize      see `authorize`
    POST /token               a code or a refresh token for tokens, see `grants`
    POST /revoke              ends a token (RFC 7009)
    POST /register            makes a client known (RFC 7591), see `clients`
    GET /.well-known/...      where all that is (RFC 8414)

Source: MCP 2026-07-28, "Authorization"; OAuth 2.1 (draft-ietf-oauth-v2-1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from mcpkit.auth import forms, pages
from mcpkit.auth.asked import Rules
from mcpkit.auth.authorize import Authorization
from mcpkit.auth.base import SERVER_METADATA, Auth, AuthOptions, Route, Site, Unavailable, canonical
from mcpkit.auth.clientdata import GRANTS, METHODS
from mcpkit.auth.clients import Clients
from mcpkit.auth.documents import Documents
from mcpkit.auth.fetch import Fetcher
from mcpkit.auth.forms import (
    FORM_SECONDS,
    FULL,
    MAX_FORM,
    RETRY_SECONDS,
    OAuthError,
    endpoint,
    invalid_client,
    refuse_verb,
    require,
)
from mcpkit.auth.grants import Grants
from mcpkit.auth.signin import SignIn, Users
from mcpkit.principal import Principal, checked_scopes
from mcpkit.stores.base import Store, StoreError
from mcpkit.transports.http import BodyRefused, Exchange, Request

_PAGE_VERBS = ("GET", "HEAD", "POST")


class AuthorizationServer(Auth):
    """Signs users in with a page of its own, and gives clients tokens that they have allowed.

    `users` is `(username, password) -> Principal | str | None`, a plain function, which runs in a thread, or an
    async one; None when the password is wrong. A string is the user's name, and that user may grant every scope; a
    `Principal` may grant the scopes that it lists. Its claims and value must have a JSON form.

    `scopes` are names, each with what the user reads about it: `{"notes:write": "Change your notes"}`. `issuer` is
    the URL under which clients know the server, without a path below the one where it is mounted; that of each request
    unless given. `access_ttl` and `refresh_ttl` are seconds: of an access token, and until a user has to sign in again.
    With `register=False` only clients that publish a metadata document are known. `allow_loopback_clients` lets such a
    document come from this machine: for development only.

    State is in the app's store: with one that lasts, clients and tokens survive a restart. How often passwords may be
    tried is counted in each process.
    """

    def __init__(
        self,
        users: Users,
        *,
        scopes: Mapping[str, str] | None = None,
        issuer: str | None = None,
        access_ttl: float = 3600.0,
        refresh_ttl: float = 30 * 86400.0,
        register: bool = True,
        allow_loopback_clients: bool = False,
        **options: Unpack[AuthOptions],
    ) -> None:
        if issuer is not None:
            options.setdefault("authorization_servers", (issuer,))
            canonical(issuer)  # raises ValueError
        super().__init__(**options)
        if not callable(users):
            raise TypeError("users is a function (username, password) -> Principal | str | None")
        if not (1 <= access_ttl < 1e9 and 1 <= refresh_ttl < 1e9):
            raise ValueError("access_ttl and refresh_ttl are numbers of seconds from 1 on")
        described = scopes or {}
        names = checked_scopes([*self.required_scopes, *described])
        self._rules = Rules({name: described.get(name, "") for name in names}, self.required_scopes)
        self._users = users
        self._issuer = issuer
        self._access_ttl = access_ttl
        self._refresh_ttl = refresh_ttl
        self._register = register
        self._allow_loopback = allow_loopback_clients

    def issuer(self, site: Site) -> str:
        """Who the tokens are from, as this request's client knows it."""
        return self._issuer or site.origin + site.prefix

    async def run(self, store: Store) -> None:
        """See `Auth`."""
        await super().run(store)
        self._grants = Grants(store, self._access_ttl, self._refresh_ttl)
        documents = Documents(Fetcher(allow_loopback=self._allow_loopback))
        self._clients = Clients(store, documents, self._refresh_ttl)
        self._authorization = Authorization(
            SignIn(self._users), self._clients, self._grants, store, self._rules, self.issuer
        )

    async def verify(self, token: str, site: Site) -> Principal | None:
        """See `Auth`."""
        try:
            return await self._grants.find(token, site.resource)
        except StoreError:
            raise Unavailable(RETRY_SECONDS) from None

    def routes(self) -> Mapping[str, Route]:
        """See `Auth`. Some clients look only where OpenID Connect has its metadata."""
        metadata = endpoint(self._metadata, "GET", "HEAD")
        routes = {
            SERVER_METADATA: metadata,
            "/.well-known/openid-configuration": metadata,
            "/authorize": self._authorize,
            "/token": endpoint(self._token, "POST"),
            "/revoke": endpoint(self._revoke, "POST"),
        }
        return {**routes, "/register": endpoint(self._registration, "POST")} if self._register else routes

    async def _metadata(self, exchange: Exchange, site: Site) -> None:
        issuer = self.issuer(site)
        base = issuer.rstrip("/")
        metadata: dict[str, Any] = {
            "issuer": issuer,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "revocation_endpoint": f"{base}/revoke",
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": GRANTS,
            "token_endpoint_auth_methods_supported": METHODS,
            "revocation_endpoint_auth_methods_supported": METHODS,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
        }
        if self._register:
            metadata["registration_endpoint"] = f"{base}/register"
        if self._rules.scopes:
            metadata["scopes_supported"] = list(self._rules.scopes)
        await forms.respond(exchange, 200, metadata)

    async def _authorize(self, exchange: Exchange, site: Site) -> None:
        if exchange.request.method not in _PAGE_VERBS:
            await refuse_verb(exchange, _PAGE_VERBS)
            return
        try:
            await self._authorization.serve(exchange, site)
        except StoreError:
            page = pages.error(f"{FULL}.", "Try again in a minute.")
            await pages.show(exchange, FULL.status, page, FULL.headers)

    async def _token(self, exchange: Exchange, site: Site) -> None:
        form = await forms.read_form(exchange)
        grant_type, resource = require(form, "grant_type"), form.get("resource")
        if grant_type not in GRANTS:
            raise OAuthError("unsupported_grant_type", f"grant_type is one of {', '.join(GRANTS)}")
        client = await self._client(exchange.request, form)
        if grant_type == "refresh_token":
            token = require(form, "refresh_token")
            tokens = await self._grants.refresh(token, client, form.get("scope"), resource)
        else:
            code, verifier = require(form, "code"), require(form, "code_verifier")
            tokens = await self._grants.redeem(code, client, form.get("redirect_uri"), verifier, resource)
        await forms.respond(exchange, 200, tokens)

    async def _revoke(self, exchange: Exchange, site: Site) -> None:
        form = await forms.read_form(exchange)
        token = require(form, "token")
        await self._grants.revoke(token, await self._client(exchange.request, form))
        await forms.respond(exchange, 200, {})

    async def _client(self, request: Request, form: Mapping[str, str]) -> str:
        """The id of the client that asks, which has proved who it is. Raises `OAuthError`."""
        try:
            basic = forms.basic_credentials(request)
        except ValueError:
            raise invalid_client("The credentials cannot be read", basic=True) from None
        if basic is None:
            return await self._clients.authenticate(require(form, "client_id"), form.get("client_secret"))
        # Ids and secrets are made here, of letters that form-encoding leaves as they are.
        if "client_secret" in form or form.get("client_id", basic[0]) != basic[0]:
            raise OAuthError("invalid_request", "The client says in two ways who it is")
        return await self._clients.authenticate(*basic, basic=True)

    async def _registration(self, exchange: Exchange, site: Site) -> None:
        kind = (exchange.request.get("content-type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise OAuthError("invalid_client_metadata", "Content-Type must be application/json")
        try:
            body = await exchange.body(MAX_FORM, FORM_SECONDS)
        except BodyRefused as refused:
            raise OAuthError("invalid_client_metadata", str(refused)) from None
        await forms.respond(exchange, 201, await self._clients.register(body, site.client))
