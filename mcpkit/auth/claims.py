"""What the claims of a token say, whether it holds them itself (RFC 7519) or its issuer gives them (RFC 7662)."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from mcpkit.auth.base import canonical
from mcpkit.principal import Principal

Claims = Mapping[str, Any]


def principal(claims: Claims) -> Principal | None:
    """Whose the token is: the user's who gave it, or else the client's (RFC 9068 section 2.2)."""
    names = (claims.get(name) for name in ("sub", "client_id", "azp", "username"))
    name = next((name for name in names if isinstance(name, str) and name), None)
    return None if name is None else Principal(name, _scopes(claims), dict(claims))


def _scopes(claims: Claims) -> tuple[str, ...]:
    """`scope` is a string with blanks (RFC 8693 section 4.2); some issuers have `scp`, a string or a list."""
    found: dict[str, None] = {}
    for claim in (claims.get("scope"), claims.get("scp")):
        scopes = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else ()
        found.update((scope, None) for scope in scopes if isinstance(scope, str))
    return tuple(found)


def is_for(audience: Any, wanted: str) -> bool:
    """Whether an `aud` claim names who is `wanted`. URLs are compared in their canonical form (AUTH-11)."""
    audiences = audience if isinstance(audience, list) else [audience]
    return any(isinstance(name, str) and _plain(name) == _plain(wanted) for name in audiences)


def _plain(name: str) -> str:
    try:
        return canonical(name)
    except ValueError:  # no URL: a name that the issuer has for this server
        return name


def is_current(claims: Claims, leeway: float) -> bool:
    """Whether now is between `nbf` and `exp`, as far as they are there. What is no number is no time."""
    now = time.time()
    if not all(is_time(claims[name]) for name in ("exp", "nbf") if name in claims):
        return False
    return bool(claims.get("nbf", now) - leeway <= now < claims.get("exp", math.inf) + leeway)


def is_time(value: Any) -> bool:
    """Whether a claim is a NumericDate that can be counted with (RFC 7519 section 2)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
