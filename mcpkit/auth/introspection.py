"""Tokens that only their issuer can read: it is asked.

Source: RFC 7662.
"""

from __future__ import annotations

import base64
import hashlib
import math
import time
from collections import OrderedDict
from typing import Any, Unpack
from urllib.parse import quote_plus

import trio

from mcpkit.auth import claims as read
from mcpkit.auth.base import Auth, AuthOptions, Site, Unavailable
from mcpkit.auth.outbound import RETRY_SECONDS, Issuer, checked_url
from mcpkit.principal import Principal
from mcpkit.stores.base import Store

MAX_CACHED = 10_000
"""Tokens whose answers are kept."""
BAD_SECONDS = 10.0
"""How long it is kept that a token is not good."""
MAX_QUESTIONS = 50
"""At the same time."""

Claims = dict[str, Any] | None


class IntrospectionAuth(Auth):
    """Ask the introspection endpoint at `url` for every token, as `client_id` with `client_secret`.

    A good answer is kept for `cache_ttl` seconds, and not beyond the token's own end. A token that is issued for
    somebody else (`aud`) is not good. When the endpoint fails, clients are told to come back (503). The other options
    are those of `Auth`.
    """

    def __init__(
        self,
        url: str,
        *,
        client_id: str,
        client_secret: str,
        cache_ttl: float = 60.0,
        **options: Unpack[AuthOptions],
    ) -> None:
        super().__init__(**options)
        if not 0 <= cache_ttl < 1e9:
            raise ValueError(f"cache_ttl is a number of seconds, not {cache_ttl!r}")
        self._issuer = Issuer(checked_url("url", url))
        # Encoded first, so that a colon in the id is none (RFC 6749 section 2.3.1).
        pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
        self._headers = {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
        self._ttl = cache_ttl

    async def run(self, store: Store) -> None:
        """See `Auth`."""
        await super().run(store)
        self._cache = _Cache()
        self._asking: dict[bytes, _Question] = {}
        self._limit = trio.CapacityLimiter(MAX_QUESTIONS)

    async def verify(self, token: str, site: Site) -> Principal | None:
        """See `Auth`."""
        claims = await self._claims(token)
        if claims is None or not read.is_current(claims, 0.0):
            return None
        if "aud" in claims and not read.is_for(claims["aud"], site.resource):
            return None
        return read.principal(claims)

    async def _claims(self, token: str) -> Claims:
        """What the issuer says; None for a token that is not active. One question for all who wait for it."""
        name = hashlib.sha256(token.encode()).digest()  # who reads our memory finds no token
        while (found := self._cache.get(name)) is None:
            question = self._asking.get(name)
            if question is None:
                return await self._ask_for_all(name, token)
            await question.over.wait()
            if question.failed:
                raise Unavailable(RETRY_SECONDS)
        return found[0]

    async def _ask_for_all(self, name: bytes, token: str) -> Claims:
        question = self._asking[name] = _Question()
        try:
            claims = await self._ask(token)
            self._cache.put(name, claims, self._seconds(claims))
            return claims
        except Unavailable:
            question.failed = True
            raise
        finally:
            del self._asking[name]
            question.over.set()

    async def _ask(self, token: str) -> Claims:
        async with self._limit:
            answer = await self._issuer.post(
                {"token": token, "token_type_hint": "access_token"}, self._headers
            )
        return answer if answer.get("active") is True and read.is_current(answer, 0.0) else None

    def _seconds(self, claims: Claims) -> float:
        if claims is None:
            return min(BAD_SECONDS, self._ttl)
        return float(min(self._ttl, claims.get("exp", math.inf) - time.time()))


class _Question:
    """One that others wait for, too: when whoever asked it has left, one of them asks again."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.failed = False


class _Cache:
    """Answers by the hash of their token, each until its time; the oldest make room."""

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, tuple[Claims, float]] = OrderedDict()

    def get(self, name: bytes) -> tuple[Claims] | None:
        """The answer, in a tuple since it may be None itself."""
        found = self._answers.get(name)
        if found is None or found[1] <= trio.current_time():
            return None
        return (found[0],)

    def put(self, name: bytes, claims: Claims, seconds: float) -> None:
        """Keep an answer."""
        self._answers.pop(name, None)
        self._answers[name] = (claims, trio.current_time() + seconds)
        if len(self._answers) > MAX_CACHED:
            self._answers.popitem(last=False)
