"""What a model meant by a value of the wrong JSON type, and what to tell it when nothing fits.

Rule 1. Only a string (and a whole number written as a float) is ever read as something else, and only where
        the declared type cannot be that string: `"42"` for an int, `"true"` for a bool, `"[1, 2]"` for a
        list; for a `str` they stay what they are.
Rule 2. This runs after exact decoding failed, so it never changes a value that fits.
Rule 3. A message names the argument and what is expected, never the value: it may be a secret, and it may be
        huge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

_Schema = dict[str, Any]

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,400})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?")
_BOOLEANS = {"true": True, "True": True, "false": False, "False": False}
_MAX_DEPTH = 200


def coerce(value: Any, schema: _Schema, definitions: dict[str, _Schema], depth: int = 0) -> Any:
    """`value`, JSON decoded, with strings read as the schema wants them; what cannot be read stays as it is."""
    if depth > _MAX_DEPTH:
        return value
    options = list(_options(schema, definitions))
    if isinstance(value, str):
        parsed = value if any(_takes_string(option, value) for option in options) else _parse(value, options)
        if isinstance(parsed, str):
            return value
        value = parsed
    if (
        isinstance(value, float)
        and value.is_integer()
        and "number" not in _kinds(options)
        and "integer" in _kinds(options)
    ):
        return int(value)
    if isinstance(value, dict):
        return _coerce_members(value, _meant(options, value), definitions, depth)
    if isinstance(value, list):
        return _coerce_items(value, _only(options, "array"), definitions, depth)
    return value


def _options(schema: _Schema, definitions: dict[str, _Schema]) -> Iterable[_Schema]:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        schema = definitions.get(reference.rpartition("/")[2], {})
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    for option in alternatives or ():
        yield from _options(option, definitions)
    if not alternatives:
        yield schema


def _kinds(options: Iterable[_Schema]) -> set[str]:
    kinds: set[str] = set()
    for option in options:
        kind = option.get("type", ())
        kinds.update([kind] if isinstance(kind, str) else kind)
    return kinds


def _takes_string(option: _Schema, value: str) -> bool:
    if "enum" in option or "const" in option:
        return value in option.get("enum", ()) or value == option.get("const")
    return "type" not in option or "string" in _kinds([option])


def _parse(text: str, options: list[_Schema]) -> Any:
    kinds = _kinds(options)
    if text == "null" and "null" in kinds:
        return None
    if text in _BOOLEANS and "boolean" in kinds:
        return _BOOLEANS[text]
    if "integer" in kinds and _INTEGER.fullmatch(text):
        return int(text)
    if "number" in kinds and _NUMBER.fullmatch(text):
        number = float(text)
        return text if number in (float("inf"), float("-inf")) else number
    wanted = tuple(python for kind, python in (("array", list), ("object", dict)) if kind in kinds)
    return _parse_container(text, wanted) if wanted and text.lstrip()[:1] in ("[", "{") else text


def _parse_container(text: str, wanted: tuple[type, ...]) -> Any:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return text
    return value if isinstance(value, wanted) else text


def _only(options: list[_Schema], kind: str) -> _Schema:
    """The one option of a kind; none when there are several, since it is not known which is meant."""
    matching = [option for option in options if option.get("type") == kind]
    return matching[0] if len(matching) == 1 else {}


def _meant(options: list[_Schema], value: dict[str, Any]) -> _Schema:
    """The one option for an object; of several, the one whose tag it has."""
    tagged = [option for option in options if _has_tag(option, value)]
    return _only(tagged or options, "object")


def _has_tag(option: _Schema, value: dict[str, Any]) -> bool:
    members = option.get("properties", {}).items()
    return any("const" in member and value.get(name) == member["const"] for name, member in members)


def _coerce_members(
    value: dict[str, Any], schema: _Schema, definitions: dict[str, _Schema], depth: int
) -> dict[str, Any]:
    members = schema.get("properties", {})
    others = schema.get("additionalProperties")
    others = others if isinstance(others, dict) else {}
    return {
        name: coerce(item, members.get(name, others), definitions, depth + 1) for name, item in value.items()
    }


def _coerce_items(
    value: list[Any], schema: _Schema, definitions: dict[str, _Schema], depth: int
) -> list[Any]:
    first = schema.get("prefixItems", [])
    rest = schema.get("items")
    rest = rest if isinstance(rest, dict) else {}
    return [
        coerce(item, first[index] if index < len(first) else rest, definitions, depth + 1)
        for index, item in enumerate(value)
    ]


# -- What to say -------------------------------------------------------------------------

_JSON_NAMES = {
    "int": "integer",
    "str": "string",
    "float": "number",
    "bool": "boolean",
    "array": "array",
    "object": "object",
    "null": "null",
    "bytes": "base64 string",
    "datetime": "date-time string",
    "date": "date string",
    "time": "time string",
    "duration": "duration string",
    "uuid": "UUID string",
    "decimal": "decimal string",
}
_TYPES = re.compile(r"`([a-z]+(?: \| [a-z]+)*)`")
_PLACE = re.compile(r" - at (`key` in )?`\$([^`]*)`$")
_SEGMENT = re.compile(r"\.([^.\[\]]+)|\[(\.\.\.|\d+)\]")


def explain(error: Exception, name: str, schema: _Schema, definitions: dict[str, _Schema]) -> str:
    """One line for a failed argument: "`order.items[0].qty`: expected integer, got string"."""
    if isinstance(error, RecursionError):
        return f"`{name}`: nested too deeply"
    text = str(error)
    place = _PLACE.search(text)
    key, path = (place[1], place[2]) if place is not None else (None, "")
    text = text[: place.start()] if place is not None else text
    if text.startswith(("Invalid enum value", "Invalid value")):  # they go on with the value
        text = _allowed(_at(path, schema, definitions), definitions, "propertyNames" if key else None)
    text = _TYPES.sub(_in_json_terms, text)
    return f"`{name}{path}`: {'wrong key: ' if key else ''}{text[:1].lower() + text[1:]}"


def _in_json_terms(match: re.Match[str]) -> str:
    kinds = match[1].split(" | ")
    return " or ".join(_JSON_NAMES[kind] for kind in kinds) if _JSON_NAMES.keys() >= set(kinds) else match[0]


def _at(path: str, schema: _Schema, definitions: dict[str, _Schema]) -> _Schema:
    for name, index in _SEGMENT.findall(path):
        children = [_child(option, name, index) for option in _options(schema, definitions)]
        schema = {"anyOf": [child for child in children if child is not None] or [{}]}
    return schema


def _child(option: _Schema, name: str, index: str) -> _Schema | None:
    if name:
        found = option.get("properties", {}).get(name)
    elif index.isdecimal() and int(index) < len(option.get("prefixItems", ())):
        found = option["prefixItems"][int(index)]
    else:
        found = option.get("items", option.get("additionalProperties"))
    return found if isinstance(found, dict) else None


def _allowed(schema: _Schema, definitions: dict[str, _Schema], part: str | None) -> str:
    values: list[Any] = []
    for option in _options(schema, definitions):
        listed = option.get(part, {}) if part is not None else option
        values += listed.get("enum", ()) or ([listed["const"]] if "const" in listed else [])
    names = [value if isinstance(value, str) else msgspec.json.encode(value).decode() for value in values]
    return "expected one of: " + ", ".join(names) if names else "not one of the allowed values"
