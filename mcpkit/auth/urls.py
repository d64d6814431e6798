"""Which URLs a client may have, and when two of them are the same.

Rule 1. A code goes only where the client said in advance, character by character. The one exception is the port of a
        redirect to the user's own machine, which a program gets from its system (RFC 8252 section 7.3).
Rule 2. What browsers and Python may read differently (user names, backslashes, fragments) is refused, so that there
        is nothing to disagree about.

Source: RFC 6749 section 3.1.2; RFC 8252 section 7; RFC 9700 sections 2.1 and 4.1; RFC 8707.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlencode, urlsplit

from mcpkit.auth.base import canonical

MAX_URL = 2048

_URL = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()+,;=%]+")  # RFC 3986, but for # and *
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9]([a-z0-9.\-_]*[a-z0-9.])?)(:[0-9]{1,5})?", re.IGNORECASE)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_NATIVE = re.compile(r"[a-z][a-z0-9+\-]*(\.[a-z0-9+\-]+)+", re.IGNORECASE)
_NATIVE_WITHOUT_DOT = ("cursor",)
"""Private-use schemes of clients that do not follow RFC 8252 section 7.1. Schemes that browsers know, such as
javascript: and data:, have no dot either, and must never be here.
"""


def split(url: str) -> SplitResult | None:
    """The parts of a URL without user name and fragment; None when it is not one."""
    if not _URL.fullmatch(url) or len(url) > MAX_URL:
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError above 65535
    except ValueError:
        return None
    return parts if not parts.netloc or _HOST.fullmatch(parts.netloc) else None


def is_loopback(parts: SplitResult) -> bool:
    """Whether the host is this machine, by one of the names that mean it everywhere."""
    return parts.hostname in _LOOPBACK


def redirect_problem(uri: str) -> str | None:
    """Why a client may not have this redirect URI; None when it may."""
    parts = split(uri)
    if parts is None:
        return "is not an absolute URL without user name, wildcard and fragment"
    if parts.scheme == "https":
        return None if parts.hostname else "has no host"
    if parts.scheme == "http":
        return (
            None if is_loopback(parts) else "must be https, unless its host is localhost, 127.0.0.1 or [::1]"
        )
    if _NATIVE.fullmatch(parts.scheme) or parts.scheme in _NATIVE_WITHOUT_DOT:
        return None
    return "has a scheme that is neither https nor a reversed domain name such as com.example.app"


def is_registered(uri: str, registered: tuple[str, ...]) -> bool:
    """Whether a redirect URI is one of those that the client has registered."""
    return uri in registered or any(_differ_in_port(uri, other) for other in registered)


def _differ_in_port(one: str, other: str) -> bool:
    a, b = split(one), split(other)
    return (
        a is not None
        and b is not None
        and a.scheme == b.scheme == "http"
        and is_loopback(a)
        and (a.hostname, a.path, a.query) == (b.hostname, b.path, b.query)
    )


def is_same_resource(asked: str, resource: str) -> bool:
    """Whether a client means a resource, which has the canonical form. One with a fragment is none (RFC 8707 section
    2).
    """
    try:
        return "#" not in asked and canonical(asked) == resource
    except ValueError:
        return False


def with_parameters(uri: str, **parameters: str | None) -> str:
    """A redirect URI with more parameters; those that are None are left out."""
    query = urlencode({name: value for name, value in parameters.items() if value is not None})
    return f"{uri}{'&' if '?' in uri else '?'}{query}"
