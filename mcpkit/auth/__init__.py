"""Who may use an app over HTTP: what `App(auth=...)` takes.

The modes are imported when they are first used, since what they need is not needed on stdio.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcpkit.auth.base import Auth, Site, Unavailable
from mcpkit.principal import Principal

if TYPE_CHECKING:
    from mcpkit.auth.bearer import BearerAuth
    from mcpkit.auth.client_credentials import ClientCredentialsAuth
    from mcpkit.auth.introspection import IntrospectionAuth
    from mcpkit.auth.jwt import JWTAuth
    from mcpkit.auth.server import AuthorizationServer

_MODES = {
    "AuthorizationServer": "mcpkit.auth.server",
    "BearerAuth": "mcpkit.auth.bearer",
    "ClientCredentialsAuth": "mcpkit.auth.client_credentials",
    "IntrospectionAuth": "mcpkit.auth.introspection",
    "JWTAuth": "mcpkit.auth.jwt",
}

__all__ = [
    "Auth",
    "AuthorizationServer",
    "BearerAuth",
    "ClientCredentialsAuth",
    "IntrospectionAuth",
    "JWTAuth",
    "Principal",
    "Site",
    "Unavailable",
]


def __getattr__(name: str) -> Any:
    if name not in _MODES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODES[name]), name)
