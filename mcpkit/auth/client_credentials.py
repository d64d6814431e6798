"""Tokens for programs that know a secret: this server hands them out itself.

Source: RFC 6749 section 4.4; RFC 8414 for the metadata.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Unpack

import msgspec
from msgspec import Struct

from mcpkit.auth import forms
from mcpkit.auth.base import SERVER_METADATA, Auth, AuthOptions, Route, Site, Unavailable
from mcpkit.auth.forms import RETRY_SECONDS, OAuthError, endpoint, invalid_client, require
from mcpkit.auth.limits import Failures, retry_after
from mcpkit.auth.secret import digest, is_secret, new_secret
from mcpkit.principal import Principal, checked_scopes
from mcpkit.stores.base import StoreError
from mcpkit.transports.http import Exchange, Request

TOKEN = "/token"  # noqa: S105 - a path
AUTHORIZE = "/authorize"


class _Grant(Struct):
    """What is kept of a token, under its hash."""

    client: str
    scopes: list[str]
    expiry: int


class ClientCredentialsAuth(Auth):
    """`clients` are secrets by the id of their client. A client posts both to `/token`, and gets a token that is good
    for `token_ttl` seconds.

    `scopes` are what each client may have, by its id: `required_scopes` unless given. A client that asks for no scope
    gets all of them. Tokens are kept in the app's store. The other options are those of `Auth`.
    """

    def __init__(
        self,
        clients: Mapping[str, str],
        *,
        token_ttl: float = 3600,
        scopes: Mapping[str, Sequence[str]] | None = None,
        **options: Unpack[AuthOptions],
    ) -> None:
        super().__init__(**options)
        if not clients or not all(clients) or not all(clients.values()):
            raise ValueError("ClientCredentialsAuth needs clients, each with an id and a secret")
        if not 1 <= token_ttl < 1e9:
            raise ValueError(f"token_ttl is a number of seconds from 1 on, not {token_ttl!r}")
        strange = [client for client in scopes or () if client not in clients]
        if strange:
            raise ValueError(f"scopes= names {strange[0]!r}, which is none of the clients")
        self._secrets = {client: digest(secret) for client, secret in clients.items()}
        given = scopes or {}
        self._scopes = {
            client: checked_scopes(given[client]) if client in given else self.required_scopes
            for client in clients
        }
        self._ttl = int(token_ttl)
        self._failures = Failures()

    @property
    def trusts_host(self) -> bool:
        """See `Auth`. All tokens are its own."""
        return False

    def routes(self) -> Mapping[str, Route]:
        """See `Auth`."""
        metadata = endpoint(self._describe, "GET", "HEAD")
        return {
            TOKEN: endpoint(self._token, "POST"),
            AUTHORIZE: endpoint(self._authorize, "GET", "HEAD", "POST"),
            SERVER_METADATA: metadata,
            # Where it is found below a prefix (RFC 8414 section 5).
            "/.well-known/openid-configuration": metadata,
        }

    async def verify(self, token: str, site: Site) -> Principal | None:
        """See `Auth`."""
        try:
            kept = await self.store.get(_name(token))
        except StoreError:
            raise Unavailable(RETRY_SECONDS) from None
        if kept is None:
            return None
        grant = msgspec.json.decode(kept, type=_Grant)
        if grant.client not in self._secrets or grant.expiry <= time.time():
            return None
        # What a client may have no more is taken away from the tokens that it has.
        scopes = tuple(scope for scope in grant.scopes if scope in self._scopes[grant.client])
        return Principal(grant.client, scopes, {"client_id": grant.client, "exp": grant.expiry})

    # -- The token endpoint ------------------------------------------------------------------

    async def _token(self, exchange: Exchange, site: Site) -> None:
        form = await forms.read_form(exchange)
        await forms.respond(exchange, 200, await self._granted(exchange.request, form, site))

    async def _granted(self, request: Request, form: Mapping[str, str], site: Site) -> dict[str, object]:
        if require(form, "grant_type") != "client_credentials":
            raise OAuthError("unsupported_grant_type", "The grant type is client_credentials")
        client = self._client(request, form, site)
        allowed = self._scopes[client]
        scopes = list(dict.fromkeys(form.get("scope", "").split())) or list(allowed)
        if not set(scopes) <= set(allowed):
            raise OAuthError("invalid_scope", f"The client may have: {' '.join(allowed) or 'no scope'}")
        token = new_secret()
        grant = _Grant(client, scopes, int(time.time()) + self._ttl)
        await self.store.put(_name(token), msgspec.json.encode(grant), self._ttl)
        granted: dict[str, object] = {"access_token": token, "token_type": "Bearer", "expires_in": self._ttl}
        return granted | ({"scope": " ".join(scopes)} if scopes else {})

    def _client(self, request: Request, form: Mapping[str, str], site: Site) -> str:
        """The client whose secret is there. Raises `OAuthError`."""
        try:
            basic = forms.basic_credentials(request)
        except ValueError:
            raise invalid_client("The credentials cannot be read", basic=True) from None
        if basic is not None and "client_secret" in form:
            raise OAuthError(
                "invalid_request", "Send the secret in one way: as Basic credentials, or in the form"
            )
        if basic is not None:
            ids, given = forms.spellings(basic[0]), forms.spellings(basic[1])
        else:
            ids, given = (form.get("client_id", ""),), (form.get("client_secret", ""),)
        known = [client for client in ids for secret in given if self._knows(client, secret)]
        if not known:
            raise self._refusal(site)
        return known[0]

    def _knows(self, client: str, secret: str) -> bool:
        """As long for an unknown client as for a known one, and whatever is wrong about the secret."""
        expected = self._secrets.get(client, _NOBODY)
        return is_secret(secret, expected) and client in self._secrets

    def _refusal(self, site: Site) -> OAuthError:
        seconds = self._failures.count(site.client)
        if seconds:
            problem = "Too many wrong secrets come from this address"
            return OAuthError("invalid_client", problem, 429, [retry_after(seconds)])
        return invalid_client("There is no such client, or its secret is another", basic=True)

    async def _authorize(self, exchange: Exchange, site: Site) -> None:
        problem = "This server has no users, only clients with a secret"
        raise OAuthError("unsupported_response_type", problem)

    async def _describe(self, exchange: Exchange, site: Site) -> None:
        document = {
            "issuer": site.url(""),
            # There is nothing there but an error: the official clients read no metadata without it.
            "authorization_endpoint": site.url(AUTHORIZE),
            "token_endpoint": site.url(TOKEN),
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": [],
            # No scopes_supported: clients ask for all of them, and each may have others.
        }
        await forms.respond(exchange, 200, document)


_NOBODY = digest(new_secret())
"""What would be kept of the secret of a client that does not exist."""


def _name(token: str) -> str:
    return f"token:{digest(token)}"
