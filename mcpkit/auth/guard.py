"""Who is let in: in front of everything that is served over HTTP, before any of it is looked at.

Rule 1. Every request of every verb shows a token (AUTH-09), in one Authorization header and nowhere else (AUTH-08).
Rule 2. A token is checked before the body is read, and what is said about a refusal depends on nothing in it
        (AUTH-13).
Rule 3. What cannot be decided is not let in.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Sequence

import trio
from msgspec import Struct

from mcpkit.auth.base import Auth, Site, Unavailable
from mcpkit.auth.limits import Failures, retry_after
from mcpkit.auth.metadata import challenge
from mcpkit.principal import Principal
from mcpkit.transports.http import Caller, HeaderList, Request

MAX_TOKEN = 8 * 1024
"""Characters of a token."""

_BEARER = re.compile(r"bearer(?: +(.*))?", re.IGNORECASE)
_TOKEN = re.compile(r"[!-~]+")
"""More than RFC 6750 section 2.1 has: people choose tokens, and nothing would tell them what is wrong with theirs."""

_log = logging.getLogger("mcpkit")


class Refusal(Struct):
    """The answer to a request that is not let in."""

    status: int
    message: str
    headers: HeaderList = ()


class Gate:
    """The gate of one app."""

    def __init__(self, auth: Auth) -> None:
        self.auth = auth
        self._failures = Failures()

    async def admit(self, request: Request, site: Site) -> Caller | Refusal:
        """Who sends the request, or why it is refused."""
        tokens = request.all("authorization")
        if len(tokens) > 1:
            return self._refuse(400, site, "invalid_request", "There is more than one Authorization header")
        match = _BEARER.fullmatch(tokens[0]) if tokens else None
        if match is None:
            return self._refuse(401, site, "", "This server needs a token: Authorization: Bearer TOKEN")
        token = match[1] or ""
        if len(token) > MAX_TOKEN or not _TOKEN.fullmatch(token):
            return self._wrong(site)
        try:
            principal = await self.auth.verify(token, site)
        except Unavailable as unavailable:
            return Refusal(503, str(unavailable), [retry_after(unavailable.retry_after)])
        except trio.Cancelled:
            raise
        except BaseException:  # a function that calls sys.exit() must not end the server
            _log.exception("the token could not be checked")
            return Refusal(500, "The token could not be checked")
        if principal is None or not principal.id:
            return self._wrong(site)
        return self._with_scopes(principal, token, site)

    def _with_scopes(self, principal: Principal, token: str, site: Site) -> Caller | Refusal:
        auth = self.auth
        forbidden = functools.partial(self._forbidden, site)
        if not all(auth.allows(principal, scope) for scope in auth.required_scopes):
            needed = " ".join(auth.required_scopes)
            return Refusal(403, f"The token lacks a scope; needed: {needed}", forbidden(auth.required_scopes))
        return Caller(principal, token, forbidden)

    def _forbidden(self, site: Site, scopes: Sequence[str]) -> HeaderList:
        return [challenge(self.auth, site, "insufficient_scope", "The token lacks a scope", scopes)]

    def _refuse(self, status: int, site: Site, error: str, message: str) -> Refusal:
        scopes = self.auth.required_scopes
        header = challenge(self.auth, site, error, message if error else "", scopes)
        return Refusal(status, message, [header])

    def _wrong(self, site: Site) -> Refusal:
        seconds = self._failures.count(site.client)
        if seconds:
            return Refusal(429, "Too many wrong tokens come from this address", [retry_after(seconds)])
        return self._refuse(401, site, "invalid_token", "The token is not valid here, or has expired")
