"""Who may speak to an HTTP server from a browser, and under which names it is reached.

A web page that a user visits can send requests to servers on the user's own machine. So a server on a
loopback address answers only to its own names (which defeats DNS rebinding), and a page of another origin is
refused everywhere unless the operator allowed it.
Source: MCP 2026-07-28, Streamable HTTP, "Security warning"; WHATWG Fetch, "CORS protocol".
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Sequence

from mcpkit.transports.http import HeaderList, Request

_LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._\-]+)(?::[0-9]*)?")
_PAGE = re.compile(rf"https?://{_HOST.pattern}")
_ORIGIN = re.compile(r"[a-z][a-z0-9+\-.]*://[^/?#\s*]+/?")
_PARAMETER = re.compile(r"mcp-param-[!#$%&'*+\-.^_`|~0-9a-z]+", re.IGNORECASE)
_ALLOWED_HEADERS = (
    b"Content-Type, Accept, Authorization, Last-Event-ID, Mcp-Session-Id, "
    b"MCP-Protocol-Version, Mcp-Method, Mcp-Name"
)
_EXPOSED_HEADERS = b"Mcp-Session-Id, WWW-Authenticate"


def check_host(name: str) -> None:
    """Raise ValueError for what no Host header can be."""
    if not _HOST.fullmatch(name.lower()):
        raise ValueError(
            f"{name!r} is no name of a host, such as mcp.example.com, with or without a port: without https://, a path "
            "or a wildcard"
        )


def check_origin(origin: str) -> None:
    """Raise ValueError for what no Origin header can be."""
    if origin != "*" and not _ORIGIN.fullmatch(origin.lower()):
        raise ValueError(f"{origin!r} is no origin of web pages, such as https://example.com, or * for all")


class Guard:
    """The rules of one server. `hosts` are further names under which it may be reached, `origins` pages that
    may use it ("*" for all). When it is `strict`, no other names are answered, wherever it listens.
    """

    def __init__(
        self, hosts: Sequence[str] = (), origins: Sequence[str] = (), *, strict: bool = False
    ) -> None:
        self._strict = strict
        self._hosts = {host.lower() for host in hosts}
        self._origins = {origin.lower().rstrip("/") for origin in origins}

    def refuses(self, request: Request) -> str | None:
        """Why the request is refused (403); None when it is not."""
        return self.refuses_host(request) or self._refuses_origin(request)

    def refuses_host(self, request: Request) -> str | None:
        """Why it is refused for the name that it was sent to."""
        host = (request.get("host") or "").lower()
        local = _is_loopback(request.server)
        if (local or self._hosts or self._strict) and not self._knows(host, local=local):
            return f"Forbidden: this server is not reached as {host!r}; allow the name with --allow-host"
        return None

    def _refuses_origin(self, request: Request) -> str | None:
        host = (request.get("host") or "").lower()
        local = _is_loopback(request.server)
        origin = request.get("origin")
        if origin is not None and not self._trusts(origin.lower(), request.scheme, host, local=local):
            return "Forbidden: pages of this origin may not use this server; allow it with --allow-origin"
        return None

    def _knows(self, host: str, *, local: bool) -> bool:
        match = _HOST.fullmatch(host)
        name = match[1] if match else ""
        return (local and name in _LOCAL_NAMES) or host in self._hosts or name in self._hosts

    def _trusts(self, origin: str, scheme: str, host: str, *, local: bool) -> bool:
        if "*" in self._origins or origin in self._origins:
            return True
        page = _PAGE.fullmatch(origin)
        own = _origin(scheme, host)
        return page is not None and (origin == own or (local and page[1] in _LOCAL_NAMES))

    def cors(self, request: Request) -> HeaderList:
        """The headers that let a page, which was not refused, read the answer."""
        origin = request.get("origin")
        if origin is None:
            return ()
        return (
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", _EXPOSED_HEADERS),
            (b"vary", b"Origin"),
        )

    def preflight(self, request: Request) -> HeaderList:
        """The headers that answer a browser's question before its real request."""
        asked = (request.get("access-control-request-headers") or "").split(",")
        mirrored = [name.strip().encode() for name in asked if _PARAMETER.fullmatch(name.strip())]
        allowed = b", ".join([_ALLOWED_HEADERS, *mirrored])
        return (
            *self.cors(request),
            (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
            (b"access-control-allow-headers", allowed),
            (b"access-control-max-age", b"600"),
        )


def own_origin(request: Request) -> str | None:
    """The origin under which the client reaches us; None when the Host header names none."""
    host = (request.get("host") or "").lower()
    return _origin(request.scheme, host) if _HOST.fullmatch(host) else None


def _origin(scheme: str, host: str) -> str:
    return f"{scheme}://{host.removesuffix(':443' if scheme == 'https' else ':80')}"


@functools.lru_cache(64)  # the same few for each request
def _is_loopback(address: str | None) -> bool:
    if address is None:
        return False
    try:
        parsed = ipaddress.ip_address(address)
        return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback  # ::ffff:127.0.0.1
    except ValueError:
        return address == "localhost"
