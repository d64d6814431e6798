"""The variant `verbatim` of the golden corpus's reference server (`fixtures/README.md`): a schema by hand.

Run it with `mcpkit run tests/corpus/verbatim.py:verbatim`.
"""

from __future__ import annotations

from typing import Any

from mcpkit import App

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
