"""The small variants of the golden corpus's reference server (`fixtures/README.md`), one App for each.

Run one with `mcpkit run tests/corpus/small.py:cached`.
"""

from __future__ import annotations

from typing import Any

from reference import echo

from mcpkit import App, Cache

tools_only = App("tools-only")
tools_only.add_tool(echo)

empty = App("empty")

cached = App("cached", cache=Cache(ttl=300.0, scope="public"))


@cached.tool
def now() -> str:
    """Tell the time."""
    return "noon"


@cached.resource("memo://plain", mime_type="text/plain")
def plain() -> str:
    """Cached like everything else."""
    return "plain"


@cached.resource("memo://own", mime_type="text/plain", cache=Cache(ttl=1.5, scope="private"))
def own() -> str:
    """Cached in its own way."""
    return "own"


verbatim = App("verbatim")

BY_HAND = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contact": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contact": {"const": "phone"}}, "required": ["contact"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@verbatim.tool(name="verbatim", input_schema=BY_HAND)
def by_hand(**arguments: Any) -> str:
    """Tell which arguments came."""
    return ", ".join(sorted(arguments))
