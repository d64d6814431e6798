"""What users have granted: codes, access tokens, refresh tokens, and how they end.

    oauth:code:D       a code that was not used yet, for a minute                  (D: the digest of the secret)
    oauth:family:F     what the user granted, and to whom; all tokens from one code are a family
    oauth:access:D     an access token: its family, its scopes and its end
    oauth:refresh:D    a refresh token that was not used yet: nothing
    oauth:spent:D      a refresh token that was used just now: nothing

Rule 1. Tokens are random, and only their digests are kept. Whoever reads the store can use none.
Rule 2. A token is good only while its family is there. So deleting the family ends all of them, at once.
Rule 3. `delete` says whether there was something: of two who use the same code, one deletes it.
Rule 4. The family of a code follows from the code, and a refresh token names its family. So one that comes a second
        time, which means that somebody has stolen it, ends the family, however long ago the first time was.
Rule 5. A client that did not get the answer sends its refresh token again, and so do two of its processes at the same
        moment. Once, and for a moment, that is no theft: it gets a further token of the family.
Rule 6. Nothing is written again to live longer: a family ends when it was said to, and what was revoked stays so.

The grants of authlib are not used. They are synchronous, over a store that is not, and every decision above (one-time
codes under concurrency, families, the moment of tolerance, audiences, PKCE without exceptions) would be an override
of one; what is left of them is shorter than the overrides.

Source: RFC 6749 sections 4.1.2, 6, 10.4; RFC 7009; RFC 7636; RFC 8707; RFC 9700 section 4.14.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from typing import Any

import msgspec
from msgspec import Struct

from mcpkit.auth.forms import OAuthError
from mcpkit.auth.secret import digest, new_secret
from mcpkit.auth.urls import is_same_resource
from mcpkit.principal import Principal
from mcpkit.stores.base import Store

CODE_SECONDS = 60.0
REUSE_SECONDS = 30.0
_VERIFIER = re.compile(r"[A-Za-z0-9\-._~]{43,128}")


class Grant(Struct):
    """What a user granted. `user` has the scopes that were granted. `resource` is the endpoint that the tokens are
    for.
    """

    client: str
    user: Principal
    resource: str
    refreshes: bool


class Code(Struct):
    """A code that was given out, with what must be the same when it comes back."""

    grant: Grant
    redirect_uri: str
    challenge: str


class _Access(Struct):
    family: str
    scopes: tuple[str, ...]
    expiry: int


class Grants:
    """The codes and tokens in a store. Seconds that an access token is good, and that a user's grant is."""

    def __init__(self, store: Store, access_ttl: float, refresh_ttl: float) -> None:
        self._store = store
        self._access_ttl = access_ttl
        self._refresh_ttl = refresh_ttl

    async def offer(self, code: Code) -> str:
        """A new code. Raises TypeError when the principal has no JSON form."""
        secret = new_secret()
        await self._put("code", digest(secret), code, CODE_SECONDS)
        return secret

    async def redeem(
        self, secret: str, client: str, redirect_uri: str | None, verifier: str, resource: str | None
    ) -> dict[str, Any]:
        """The answer of the token endpoint to a code. Raises `OAuthError`."""
        key, family = digest(secret), digest(f"family {secret}")
        code = await self._get("code", key, Code)
        if code is None or not await self._delete("code", key):
            await self._delete("family", family)
            raise _invalid("The code is unknown, expired, or was used before")
        if code.grant.client != client:
            raise _invalid("The code was given to another client")
        if redirect_uri is not None and redirect_uri != code.redirect_uri:
            raise _invalid("The code was sent to another redirect_uri")
        if not _VERIFIER.fullmatch(verifier) or not _proves(verifier, code.challenge):
            raise _invalid("The code_verifier does not belong to the code")
        _check_resource(resource, code.grant)
        ttl = self._refresh_ttl if code.grant.refreshes else self._access_ttl
        await self._put("family", family, code.grant, ttl)
        return await self._issue(family, code.grant, code.grant.user.scopes)

    async def refresh(
        self, token: str, client: str, scope: str | None, resource: str | None
    ) -> dict[str, Any]:
        """The answer of the token endpoint to a refresh token. Raises `OAuthError`."""
        key, family = digest(token), token.partition(".")[0]
        grant = await self._family(family)
        if grant is None or not grant.refreshes or grant.client != client:
            raise _invalid("The refresh token is unknown, expired or revoked, or belongs to another client")
        _check_resource(resource, grant)
        scopes = grant.user.scopes if scope is None else tuple(dict.fromkeys(scope.split()))
        if not set(scopes) <= set(grant.user.scopes):
            raise OAuthError("invalid_scope", "The user did not grant all of these scopes")
        if not await self._spend(key):
            await self._delete("family", family)
            raise _invalid("The refresh token was used before, so all tokens of its family are revoked")
        return await self._issue(family, grant, scopes)

    async def _spend(self, key: str) -> bool:
        """Use a refresh token; whether that was allowed. It is called spent before it is taken away, so that another
        process, which looks in between, finds one or the other.
        """
        if await self._store.get(f"oauth:refresh:{key}") is not None:
            await self._put("spent", key, None, REUSE_SECONDS)
            if await self._delete("refresh", key):
                return True
        return await self._delete("spent", key)

    async def _issue(self, family: str, grant: Grant, scopes: tuple[str, ...]) -> dict[str, Any]:
        access = new_secret()
        kept = _Access(family, scopes, int(time.time() + self._access_ttl))
        await self._put("access", digest(access), kept, self._access_ttl)
        answer: dict[str, Any] = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": int(self._access_ttl),
        }
        if scopes:
            answer["scope"] = " ".join(scopes)
        if grant.refreshes:
            answer["refresh_token"] = f"{family}.{new_secret()}"
            await self._put("refresh", digest(answer["refresh_token"]), None, self._refresh_ttl)
        return answer

    async def revoke(self, token: str, client: str) -> None:
        """End a token that the client has: a refresh token with its family. Nothing for any other (RFC 7009 section
        2.2).
        """
        access = await self._get("access", digest(token), _Access)
        family = token.partition(".")[0] if access is None else access.family
        grant = await self._family(family)
        if grant is not None and grant.client == client:
            await (
                self._delete("family", family) if access is None else self._delete("access", digest(token))
            )

    async def find(self, token: str, resource: str) -> Principal | None:
        """Whose access token this is, if it is good for this resource; until when, its claims say: streams end then."""
        access = await self._get("access", digest(token), _Access)
        grant = None if access is None else await self._family(access.family)
        if access is None or grant is None or not is_same_resource(grant.resource, resource):
            return None
        claims = {**grant.user.claims, "exp": access.expiry}
        return msgspec.structs.replace(grant.user, scopes=access.scopes, claims=claims)

    async def _family(self, family: str) -> Grant | None:
        return await self._get("family", family, Grant) if len(family) == 64 else None

    async def _get(self, kind: str, key: str, kind_of: Any) -> Any:
        found = await self._store.get(f"oauth:{kind}:{key}")
        return None if found is None else msgspec.json.decode(found, type=kind_of)

    async def _put(self, kind: str, key: str, value: Any, ttl: float) -> None:
        await self._store.put(f"oauth:{kind}:{key}", msgspec.json.encode(value), ttl)

    async def _delete(self, kind: str, key: str) -> bool:
        return await self._store.delete(f"oauth:{kind}:{key}")


def _proves(verifier: str, challenge: str) -> bool:
    computed = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    return hmac.compare_digest(computed, challenge.encode())


def _check_resource(resource: str | None, grant: Grant) -> None:
    if resource is not None and not is_same_resource(resource, grant.resource):
        raise OAuthError("invalid_target", "The user granted access to another resource")


def _invalid(description: str) -> OAuthError:
    return OAuthError("invalid_grant", description)
