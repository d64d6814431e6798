"""What a server says of itself to clients that have no token yet.

Source: RFC 9728 (protected resource metadata), RFC 6750 section 3 (challenges).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from mcpkit.auth.base import Auth, Site, is_prefix

RESOURCE_METADATA = "/.well-known/oauth-protected-resource"

_NOT_QUOTED = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")


def protected_resource(auth: Auth, site: Site) -> dict[str, Any]:
    """The metadata of the endpoint at a site (AUTH-01). The scopes are those that everything needs; clients learn of
    others when they need them.
    """
    document: dict[str, Any] = {"resource": site.resource, "bearer_methods_supported": ["header"]}
    if issuers := auth.issuers(site):
        document["authorization_servers"] = list(issuers)
    if scopes := requested(auth.required_scopes):
        document["scopes_supported"] = scopes
    return document


def requested(scopes: Iterable[str]) -> list[str]:
    """The scopes that a client is told to ask for (AUTH-10)."""
    return [scope for scope in scopes if scope != "offline_access"]


def challenge(
    auth: Auth, site: Site, error: str = "", description: str = "", scopes: Sequence[str] = ()
) -> tuple[bytes, bytes]:
    """The header that says what is missing, and where to learn more (AUTH-03, AUTH-04). There is no error where there
    was no token (RFC 6750 section 3.1).
    """
    parameters = {
        "realm": auth.realm,
        "error": error,
        "error_description": description,
        "scope": " ".join(requested(scopes)),
        # Below the prefix, where it reaches this server whatever else the origin serves.
        "resource_metadata": site.url(RESOURCE_METADATA + site.path),
    }
    text = ", ".join(f'{name}="{_quoted(value)}"' for name, value in parameters.items() if value)
    return b"www-authenticate", f"Bearer {text}".encode("ascii")


def _quoted(text: str) -> str:
    return _NOT_QUOTED.sub("'", text)


def split_well_known(path: str, name: str, endpoints: Sequence[str]) -> tuple[str, str] | None:
    """The prefix in the path of a well-known document, whose name comes first (RFC 8414 section 3.1), and the path of
    the endpoint: "/notes" and "/mcp" for `name`/notes/mcp. The endpoint is the first of them where the path names none,
    which it has to in the metadata of a resource. None when it is no such path.
    """
    if path != name and not path.startswith(name + "/"):
        return None
    rest = path.removeprefix(name).rstrip("/")
    # The longest: an endpoint at the root ends every path.
    endpoint = max(filter(rest.endswith, endpoints), key=len, default=None)
    if endpoint is None and rest and name == RESOURCE_METADATA:
        return None
    prefix = rest.removesuffix(endpoint or "")
    return (prefix, endpoint or endpoints[0]) if is_prefix(prefix) else None
