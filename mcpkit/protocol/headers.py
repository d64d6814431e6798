"""Request metadata in HTTP headers: the names that mirror a tool's parameters.

Source: MCP 2026-07-28, Streamable HTTP; RFC 9110 section 5.6.2 (token).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

PARAMETER_KEY = "x-mcp-header"
"""The schema keyword that names the header of a parameter."""

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MIRRORED_TYPES = ("string", "integer", "boolean")


def check_header_name(name: str) -> None:
    """Raise ValueError unless `name` is an RFC 9110 token."""
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"Header name {name!r} is not an HTTP token: use letters, digits and hyphens")


def check_schema(schema: dict[str, Any]) -> None:
    """Raise ValueError unless each `x-mcp-header` in an input schema is well placed: a token, unique whatever
    its case, on a string, integer or boolean that is reached through `properties` alone.
    """
    seen: set[str] = set()
    reachable = dict(_mirrored(schema))
    for node in reachable.values():
        name = node[PARAMETER_KEY]
        if not isinstance(name, str):
            raise ValueError(f"x-mcp-header must be a string, not {name!r}")
        check_header_name(name)
        if name.lower() in seen:
            raise ValueError(f"two parameters are mirrored into the header {name!r}")
        if node.get("type") not in _MIRRORED_TYPES:
            raise ValueError(
                f"header {name!r} is on a parameter of type {node.get('type')!r}; use a string, integer or boolean"
            )
        seen.add(name.lower())
    if _count(schema) > len(reachable):
        raise ValueError(
            "x-mcp-header may stand only on parameters and members of nested objects, not inside lists or unions"
        )


def _mirrored(
    schema: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    if PARAMETER_KEY in schema:
        yield path, schema
    properties = schema.get("properties")
    for name, child in properties.items() if isinstance(properties, dict) else ():
        if isinstance(child, dict):
            yield from _mirrored(child, (*path, name))


def _count(node: Any) -> int:
    if isinstance(node, dict):
        return (PARAMETER_KEY in node) + sum(map(_count, node.values()))
    return sum(map(_count, node)) if isinstance(node, list) else 0
