"""Request metadata in HTTP headers: what a proxy can route on without reading the body.

The body is what counts; headers that differ from it are refused, since someone on the way may have decided on
them.

Source: MCP 2026-07-28, Streamable HTTP; RFC 9110 section 5.6.2 (token).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcpkit.protocol.errors import HeaderMismatch

PARAMETER_KEY = "x-mcp-header"
"""The schema keyword that names the header of a parameter."""

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_MIRRORED_TYPES = ("string", "integer", "boolean")


def check_header_name(name: str) -> None:
    """Raise ValueError unless `name` is an RFC 9110 token."""
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"Header name {name!r} is not an HTTP token: use letters, digits and hyphens")


def check_schema(schema: dict[str, Any]) -> bool:
    """Whether an input schema mirrors parameters into headers. Raise ValueError unless each `x-mcp-header` in
    an input schema is well placed: a token, unique whatever its case, on a string, integer or boolean that is
    reached through `properties` alone.
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
    return bool(reachable)


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


# -- The headers of a request ----------------------------------------------------------------


class Metadata:
    """What the headers of a stateless request say of its body; each check raises `HeaderMismatch`.

    `values` are those of each header by its name in lower case, surrounding blanks removed.
    """

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values
        self._found: dict[str, str] = {}
        """What was read of them: the next message with these headers is mostly of the same kind."""

    def check_version(self, version: str) -> None:
        """`MCP-Protocol-Version` is there and is the body's (HM-16)."""
        if self._found.get("MCP-Protocol-Version") != version:
            if len(self._values.get("mcp-protocol-version", ())) > 1:
                raise HeaderMismatch("The header MCP-Protocol-Version is there more than once")
            self._require("MCP-Protocol-Version", version)

    def check_method(self, method: str) -> None:
        """`Mcp-Method` is there and is the body's (HM-17)."""
        if self._found.get("Mcp-Method") != method:
            self._require("Mcp-Method", method)

    def check_name(self, name: str) -> None:
        """`Mcp-Name` is there and, decoded, is what the body calls (HM-18, HM-20)."""
        if self._found.get("Mcp-Name") != name:
            self._require("Mcp-Name", name, decode=True)

    def check_arguments(self, schema: dict[str, Any], arguments: Any) -> None:
        """Each parameter that the tool mirrors into a header stands there as in the body, and absent where it
        is absent or null there (XH-03 to XH-06).
        """
        for path, node in _mirrored(schema):
            header = f"Mcp-Param-{node[PARAMETER_KEY]}"
            value = _at(arguments, path)
            if value is None:
                if header.lower() in self._values:
                    raise HeaderMismatch(f"{header} is set, but the body has no value for it")
            elif not _same(self._single(header, decode=True), value):
                raise HeaderMismatch(f"{header} differs from the body")

    def _require(self, header: str, expected: str, *, decode: bool = False) -> None:
        found = self._found[header] = self._single(header, decode=decode)
        if found != expected:
            raise HeaderMismatch(f"{header} differs from the body")

    def _single(self, header: str, *, decode: bool) -> str:
        values = self._values.get(header.lower())
        if not values:
            raise HeaderMismatch(f"The header {header} is missing")
        if len(set(values)) > 1:
            raise HeaderMismatch(f"The header {header} is there more than once, with different values")
        if _NOT_VISIBLE.search(values[0]):
            raise HeaderMismatch(f"The header {header} holds characters that must be encoded: =?base64?…?=")
        return _decoded(header, values[0]) if decode else values[0]


_NOT_VISIBLE = re.compile(r"[^\t\x20-\x7e]")
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)


def _decoded(header: str, value: str) -> str:
    """A value that stands for text which no header can hold: Base64 between marks; others are literal."""
    match = _SENTINEL.fullmatch(value)
    if match is None:
        return value
    try:
        return base64.b64decode(match[1], validate=True).decode()
    except ValueError:
        raise HeaderMismatch(f"The header {header} is not valid Base64 of UTF-8 text") from None


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _same(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        match = _INTEGER.fullmatch(text)
        return match is not None and int(match[1]) == value
    return bool(text == value)


_INTEGER = re.compile(r"(-?[0-9]{1,400})(?:\.0*)?")
"""An integer as some languages write it: 42, 42.0 (XH-05)."""


# -- A client's headers ---------------------------------------------------------------------


def mirror(schema: dict[str, Any], arguments: Any) -> dict[str, str]:
    """The headers that repeat arguments, as a tool's input schema wants them."""
    found = ((node[PARAMETER_KEY], _at(arguments, path)) for path, node in _mirrored(schema))
    return {f"mcp-param-{name}": encode(_text(value)) for name, value in found if value is not None}


def encode(text: str) -> str:
    """Text as a header can hold it."""
    if text == text.strip() and not _NOT_VISIBLE.search(text) and not _SENTINEL.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
