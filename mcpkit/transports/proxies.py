"""What a reverse proxy says of the request that it passes on: believed from proxies that the operator trusts.

Each proxy adds to what the one before has said, at the end; a client can write whatever it likes at the beginning. So
the lists are read from their ends, for as long as a trusted proxy speaks.

Nearly all proxies write X-Forwarded-*, and hand on a `Forwarded` of the client's as it is. So that counts only where
there is nothing else; a proxy that writes it has to remove the others.

Source: RFC 7239; X-Forwarded-For, -Proto, -Host and -Prefix have no specification.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from mcpkit.auth.base import is_prefix
from mcpkit.transports.http import Request

_PAIR = re.compile(r"""\s*([A-Za-z]+)=(?:"([^"]*)"|([^\s";,]*))\s*""")
_UNIX = "unix"


class Proxies:
    """The proxies of one server: addresses and networks such as "10.0.0.0/8", and "unix" for whoever can open its unix
    socket. Raises ValueError for what is neither.
    """

    def __init__(self, trusted: Sequence[str] = ()) -> None:
        self._unix = _UNIX in trusted
        try:
            self._networks = [ipaddress.ip_network(name, strict=False) for name in trusted if name != _UNIX]
        except ValueError as error:
            raise ValueError(f"a trusted proxy is an address, a network or {_UNIX!r}: {error}") from None

    def seen(self, request: Request) -> Request:
        """The request as the client has sent it."""
        if not (self._networks or self._unix) or not self._trusts(request.client):
            return request
        hops = _x_forwarded(request) or _forwarded(request)
        client, scheme, host = request.client, request.scheme, request.get("host")
        for hop in reversed(hops):
            client = hop.get("for", client)
            scheme = hop.get("proto", scheme).lower()
            host = hop.get("host", host)
            if "for" not in hop or not self._trusts(client):  # whoever spoke to this proxy may be anybody
                break
        headers = [(name, value) for name, value in request.headers if name != b"host"]
        if host is not None:
            headers.append((b"host", host.encode("latin-1", "replace")))
        return request.altered(
            client=client,
            scheme=scheme if scheme in ("http", "https") else request.scheme,
            headers=headers,
            prefix=_prefix(request) + request.prefix,
        )

    def _trusts(self, address: str | None) -> bool:
        if address is None:
            return self._unix
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        parsed = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(parsed in network for network in self._networks)


def _prefix(request: Request) -> str:
    prefix = _items(request, "x-forwarded-prefix")[-1:]
    return prefix[0].rstrip("/") if prefix and is_prefix(prefix[0].rstrip("/")) else ""


def _forwarded(request: Request) -> list[dict[str, str]]:
    hops = []
    for item in _items(request, "forwarded"):
        pairs = [match for part in item.split(";") if (match := _PAIR.fullmatch(part))]
        hops.append({match[1].lower(): match[2] or match[3] or "" for match in pairs})
    return [hop | ({"for": _address(hop["for"])} if "for" in hop else {}) for hop in hops]


def _x_forwarded(request: Request) -> list[dict[str, str]]:
    """The last proxy says what it was asked for; the ones before it, only for whom they asked."""
    hops = [{"for": _address(item)} for item in _items(request, "x-forwarded-for")] or [{}]
    for key in ("proto", "host"):
        values = _items(request, f"x-forwarded-{key}")
        if values:
            hops[-1][key] = values[-1]
    return hops if any(hops) else []


def _items(request: Request, name: str) -> list[str]:
    return [item.strip() for item in (request.get(name) or "").split(",") if item.strip()]


def _address(text: str) -> str:
    """The address in "192.0.2.1:8080" and "[2001:db8::1]:8080" (RFC 7239 section 6)."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text
