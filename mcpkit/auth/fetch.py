"""Fetch a small JSON document from a URL that a stranger has named.

This is how a server is made to send requests into its own network (SSRF). So:

Rule 1. https only, and no redirect is followed.
Rule 2. The name is resolved once; every address must be public; the connection goes to an address that was checked.
        A name that is answered differently the second time (DNS rebinding) is never asked a second time.
Rule 3. What comes back is bounded in bytes and in time, and nothing of it reaches whoever named the URL.

Source: draft-ietf-oauth-client-id-metadata-document, "Security considerations"; RFC 6890 (special addresses).
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from typing import Any
from urllib.parse import SplitResult

import msgspec
import trio

from mcpkit.auth.urls import is_loopback, split

MAX_BYTES = 64 * 1024
SECONDS = 5.0
_AT_ONCE = 10
_HEADERS = {"accept": "application/json", "accept-encoding": "identity"}


class CannotFetch(Exception):
    """The document cannot be had; the message says why, for the log and for the user."""


class Fetcher:
    """Fetches documents. With `allow_loopback`, which is for development, this machine may be asked, also by plain
    http.
    """

    def __init__(self, *, allow_loopback: bool = False) -> None:
        self._allow_loopback = allow_loopback
        self._limiter = trio.CapacityLimiter(_AT_ONCE)
        self._tls: ssl.SSLContext | None = None

    async def json(self, url: str) -> Any:
        """The document. Raises `CannotFetch`."""
        parts = split(url)
        if parts is None or not parts.hostname:
            raise CannotFetch("It is not the URL of a document")
        local = self._allow_loopback and is_loopback(parts)
        if parts.scheme != "https" and not (local and parts.scheme == "http"):
            raise CannotFetch("It is not an https URL")
        with trio.move_on_after(SECONDS):
            async with self._limiter:
                return _decode(await self._get(parts, await _resolve(parts, loopback=local)))
        raise CannotFetch(f"Its host did not answer within {SECONDS:g} s")

    async def _get(self, parts: SplitResult, address: str) -> bytes:
        import httpx  # slow to import, and only needed here

        if self._tls is None:
            self._tls = ssl.create_default_context()
        # The name stays in Host, and in what the certificate must say.
        target = httpx.URL(parts.geturl(), host=address)
        try:
            async with (
                # trust_env=False: a proxy would resolve the name again, and what ~/.netrc holds is not for strangers.
                httpx.AsyncClient(verify=self._tls, trust_env=False, timeout=SECONDS) as client,
                client.stream(
                    "GET",
                    target,
                    headers={**_HEADERS, "host": parts.netloc},
                    extensions={"sni_hostname": parts.hostname},
                ) as response,
            ):
                _check(response.status_code, response.headers)
                return await _read(response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CannotFetch(f"Its host could not be reached ({type(error).__name__})") from None


def _check(status: int, headers: Any) -> None:
    if status != 200:
        raise CannotFetch(f"Its host answered with status {status}, not 200")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise CannotFetch("It is not JSON")
    if headers.get("content-encoding", "identity") != "identity":  # it could unpack to any size
        raise CannotFetch("It is compressed")


async def _read(response: Any) -> bytes:
    data = b""
    async for part in response.aiter_raw():
        data += part
        if len(data) > MAX_BYTES:
            raise CannotFetch(f"It is larger than {MAX_BYTES:,} bytes")
    return data


def _decode(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise CannotFetch("It is not JSON") from None


async def _resolve(parts: SplitResult, *, loopback: bool) -> str:
    """An address of the host. Raises `CannotFetch` unless all of them are allowed: one that is not shows bad intent."""
    try:
        found = await trio.socket.getaddrinfo(
            parts.hostname, parts.port or parts.scheme, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError):
        raise CannotFetch("Its host has no address") from None
    addresses = [str(entry[4][0]) for entry in found]
    if not addresses or not all(_is_allowed(address, loopback=loopback) for address in addresses):
        raise CannotFetch("Its host is not on the public internet")
    return addresses[0]


def _is_allowed(text: str, *, loopback: bool) -> bool:
    """`is_global` leaves out what is private, link-local (where clouds have their metadata), shared (RFC 6598),
    reserved or unspecified, but not multicast. Of IPv6 only global unicast is taken (RFC 4291 section 2.4), without
    what has an IPv4 address packed into it, which might lead inside.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    if loopback:
        return address.is_loopback
    if isinstance(address, ipaddress.IPv6Address):
        packed = address.sixtofour or address.teredo
        return address in _UNICAST and not packed and address.is_global
    return address.is_global and not address.is_multicast


_UNICAST = ipaddress.IPv6Network("2000::/3")
