"""Who may use an app over HTTP: what `App(auth=...)` takes.

The modes are imported when they are first used, since what they need is not needed on stdio.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mcpkit.auth.base import Auth, Site, Unavailable
from mcpkit.auth.principal import Principal

_MODES: dict[str, str] = {}
"""The module of each mode."""

__all__ = ["Auth", "Principal", "Site", "Unavailable"]


def __getattr__(name: str) -> Any:
    if name not in _MODES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODES[name]), name)
