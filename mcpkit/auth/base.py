"""What all ways of authentication have in common: what `App(auth=...)` takes.

Auth is for HTTP. On stdio and in memory whoever started the process is the caller, and no scope is checked.
Source: MCP 2026-07-28, "Authorization"; RFC 6750, RFC 9728.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypedDict
from urllib.parse import urlsplit

from msgspec import Struct

from mcpkit.principal import Principal, checked_scopes
from mcpkit.stores.base import Store
from mcpkit.transports.http import Exchange

SERVER_METADATA = "/.well-known/oauth-authorization-server"
"""Where an authorization server describes itself (RFC 8414 section 3)."""


@functools.lru_cache(64)  # the same few for each request
def canonical(url: str) -> str:
    """A URL as it is published and compared (AUTH-11): scheme and host in lower case, without a default port, a
    fragment, or a slash at its end. Raises ValueError for what is none.
    """
    parts = urlsplit(url)
    if parts.scheme.lower() not in _DEFAULT_PORTS or not parts.hostname or "@" in parts.netloc:
        raise ValueError(f"{url!r} is no absolute http(s) URL")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port
    authority = host if port in (None, _DEFAULT_PORTS[parts.scheme.lower()]) else f"{host}:{port}"
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme.lower()}://{authority}{parts.path.rstrip('/')}{query}"


_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_prefix(path: str) -> bool:
    """Whether a path can stand before one of ours: "" or "/notes"."""
    return len(path) <= _LONGEST_PREFIX and _PREFIX.fullmatch(path) is not None


_LONGEST_PREFIX = 1000
_PREFIX = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9._~%-]+)*")


class Site(Struct, frozen=True):
    """Where a request found this server, as the client typed it: from `Host`, or from what a trusted proxy says."""

    origin: str
    """Scheme and authority: "https://mcp.example.com", lower case, without a default port."""
    prefix: str
    """The path under which a proxy or a host application has the server: "" or "/notes"."""
    path: str
    """The path of the MCP endpoint below the prefix: "/mcp"."""
    resource: str
    """The canonical URL of the MCP endpoint: `Auth.resource`, or else origin, prefix and path together."""
    client: str | None = None
    """The address of the client; None when it is not known, as on a unix socket."""

    def url(self, path: str) -> str:
        """The URL of a route of this server, such as "/token"."""
        return f"{self.origin}{self.prefix}{path}"


Route = Callable[[Exchange, Site], Awaitable[None]]
"""Answers a request. `Disconnected` may pass through. The headers that let web pages read the answer are added by
whoever calls it, and so is the answer to a preflight.
"""


class Unavailable(Exception):
    """Whoever knows the tokens cannot be asked now: 503, to be tried again after `retry_after` seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"The token cannot be checked now; try again in {retry_after:g} s")
        self.retry_after = retry_after


class AuthOptions(TypedDict, total=False):
    """The options that every way of authentication takes; see `Auth`."""

    required_scopes: Sequence[str]
    resource: str | None
    authorization_servers: Sequence[str]
    realm: str


class Auth:
    """Who may use an app over HTTP. The modes are subclasses.

    `required_scopes` are needed for everything. `resource` is the URL of the MCP endpoint as clients know it; that of
    each request unless given. `authorization_servers` are the issuers that clients get their tokens from.
    """

    def __init__(
        self,
        *,
        required_scopes: Sequence[str] = (),
        resource: str | None = None,
        authorization_servers: Sequence[str] = (),
        realm: str = "mcp",
    ) -> None:
        self.required_scopes = checked_scopes(required_scopes)
        self.resource = None if resource is None else canonical(resource)
        self.authorization_servers = tuple(authorization_servers)
        if isinstance(authorization_servers, str):
            raise TypeError("authorization_servers is a list of URLs, not one string")
        if not realm.isascii() or not realm.isprintable():
            raise ValueError(f"the realm has printable ASCII characters only, which {realm!r} has not")
        self.realm = realm

    @property
    def trusts_host(self) -> bool:
        """Whether the name that a request was sent to decides which tokens are good. Then only names are answered that
        the operator allowed: another server could pass its own tokens on under its own name.
        """
        return self.resource is None

    def issuers(self, site: Site) -> Sequence[str]:
        """Who issues the tokens, for clients: `authorization_servers`, or this server where its `routes` say that it
        is one.
        """
        if not self.authorization_servers and SERVER_METADATA in self.routes():
            return [site.origin + site.prefix]
        return self.authorization_servers

    def allows(self, principal: Principal, scope: str) -> bool:
        """Whether a principal has a scope. A subclass can let broader scopes stand for narrower ones (AUTH-05)."""
        return scope in principal.scopes

    async def verify(self, token: str, site: Site) -> Principal | None:
        """Who the token stands for; None when it is not good. Raises `Unavailable`."""
        raise NotImplementedError

    def routes(self) -> Mapping[str, Route]:
        """What is served without a token, by the path below the origin (and prefix), such as "/token". A path
        below "/.well-known/" is served with the prefix behind it as well (RFC 8414 section 3.1).
        """
        return {}

    async def run(self, store: Store) -> None:
        """Called once when serving begins, before the first request."""
        self.store = store
