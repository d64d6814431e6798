"""The keys that an application may put into `_meta`.

Source: MCP 2026-07-28, basic, "_meta".
"""

from __future__ import annotations

import re
from typing import Any

_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_KEY = re.compile(
    rf"(?:(?P<prefix>{_LABEL}(?:\.{_LABEL})*)/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
)
_OWNED_LABELS = ("modelcontextprotocol", "mcp")


def check_meta(meta: dict[str, Any] | None) -> dict[str, Any] | None:
    """`meta` as it is. Raises ValueError for a key that is malformed, or that the protocol owns."""
    for key in meta or ():
        match = _KEY.fullmatch(key)
        if match is None or not key:
            raise ValueError(
                f"_meta key {key!r} is malformed: write a name, or a dotted prefix and a name, "
                "like 'example.com/colour'"
            )
        labels = (match["prefix"] or "").split(".")
        if len(labels) > 1 and labels[1] in _OWNED_LABELS:
            raise ValueError(
                f"_meta key {key!r} belongs to the protocol: use a prefix of your own, like 'example.com/'"
            )
    return meta
