"""Forms from types: what a person fills in.

A form is flat: text, numbers, booleans, a choice, a choice of several. A type that holds anything else is
refused, with the field that does; so is a default that does not fit.

Rule 1. A form shows what the type says as far as forms can; the type decides. What it knows beyond (a pattern,
        an open bound) is checked when the answer is read.
Rule 2. Choices are strings on the wire, whatever the values of the enum are; they are read back leniently.

Source: MCP 2025-11-25, "Elicitation", requested schema; the older shape is made by `protocol.questions`.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from mcpkit import foreign, leniency
from mcpkit.fields import members
from mcpkit.schema import Schema, Unrepresentable, input_schema, undecodable

_FORMATS: dict[str, Any] = {
    "email": Annotated[str, msgspec.Meta(pattern=r"^[^@\s]+@[^@\s]+$")],
    "uri": Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:\S+$")],
    "date": datetime.date,
    "date-time": datetime.datetime,
}
_KEPT: dict[str, tuple[str, ...]] = {
    "string": ("title", "description", "minLength", "maxLength", "format", "default"),
    "number": ("title", "description", "minimum", "maximum", "default"),
    "integer": ("title", "description", "minimum", "maximum", "default"),
    "boolean": ("title", "description", "default"),
    "array": ("title", "description", "minItems", "maxItems", "default"),
    "choice": ("title", "description", "default"),
}
_ROOT = ("$schema", "type", "properties", "required")
_IGNORED = ("title", "description", "additionalProperties")
"""What generated schemas have at their root, and forms have not."""


class Misfit(ValueError):
    """What a person entered does not fit the form; the message names the field and what is expected."""


class Form:
    """A form and how its content is read. `kind` is a Struct or dataclass, or a JSON Schema in the shape of
    forms.

    Raises TypeError for what a form cannot hold, naming the field.
    """

    def __init__(self, kind: Any) -> None:
        self._decode: Any = None
        self._absent: dict[str, None] = {}  # fields that are None when they are not filled in
        if isinstance(kind, dict):
            self._described: Schema = kind
            self.schema: Schema = _given(kind)
            return
        label = getattr(kind, "__name__", None) or repr(kind)
        self._described = _describe(label, kind)
        self.schema = self._shape(label)
        try:
            self._decode = _decoder(kind)
        except (TypeError, ValueError) as error:
            place = _culprit(label, kind, _decoder)
            raise TypeError(f"form field '{place}' {undecodable(error)}{_ADVICE}") from None

    def _shape(self, label: str) -> Schema:
        required: list[str] = self._described.get("required", [])
        shaped: dict[str, Schema] = {}
        for name, described in self._described["properties"].items():
            if "const" in described:  # the tag of a Struct, which is nothing to ask for
                continue
            plain = _without_null(described)
            if plain is not described and name in required:
                self._absent[name] = None
            shaped[name] = _member(f"{label}.{name}", plain)
        needed = [name for name in required if name in shaped and name not in self._absent]
        return {"type": "object", "properties": shaped, **({"required": needed} if needed else {})}

    def read(self, content: dict[str, Any] | None) -> Any:
        """The value that accepted content stands for. Raises `Misfit`."""
        filled = {name: value for name, value in (content or {}).items() if not self._is_blank(name, value)}
        value = leniency.coerce({**self._absent, **filled}, self._described, {})
        if self._decode is None:
            return _checked(value, self.schema)
        try:
            read = self._decode(msgspec.json.encode(value))
        except (msgspec.ValidationError, ValueError, RecursionError) as error:
            text = leniency.explain(error, "", self._described, {})
            raise Misfit(text.replace("`.", "`").removeprefix("``: ")) from None
        for name, member in self.schema["properties"].items():
            if "format" in member and isinstance(value.get(name), str):
                _check(name, value[name], member)
        return read

    def _is_blank(self, name: str, value: Any) -> bool:
        """Whether a field that may be left out was: some clients send what they show for it, an empty text."""
        member = self.schema["properties"].get(name, {})
        if name in self.schema.get("required", ()) or not member:
            return False
        is_text = member["type"] == "string" and not member.keys() & {"enum", "oneOf", "format"}
        return value is None or (value == "" and not is_text)


_ADVICE = " Bounds of an optional stand inside: Annotated[int, Param(ge=1)] | None."


def _decoder(hint: Any) -> Any:
    return msgspec.json.Decoder(hint, dec_hook=foreign.from_builtins).decode


def _describe(label: str, kind: Any) -> Schema:
    try:
        described = input_schema(kind)
    except NameError as error:
        raise TypeError(
            f"form '{label}': {error}. Define the types of its fields where the module can see them"
        ) from None
    except Unrepresentable as error:
        raise TypeError(f"form field '{_culprit(label, kind, input_schema)}': {error}") from None
    if described.get("type") != "object" or "properties" not in described:
        raise TypeError(f"a form is a Struct or dataclass with fields, which {label} is not")
    return described


def _culprit(label: str, kind: Any, test: Callable[[Any], object]) -> str:
    """The field whose type does not pass a test."""
    for field in members(kind, kind) or ():
        try:
            test(field.hint)
        except (TypeError, ValueError):
            return f"{label}.{field.name}"
    return label


# -- A member of a type, in the shape of forms ---------------------------------------------------------------


def _without_null(schema: Schema) -> Schema:
    """An optional as what it is when it is there."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) != 1:
        return schema
    return {**options[0], **{key: value for key, value in schema.items() if key != "anyOf"}}


def _member(label: str, schema: Schema) -> Schema:
    shaped = _shaped(label, schema)
    problem = problem_of(schema["default"], schema) if "default" in schema else None
    if problem is not None:
        raise TypeError(f"form field '{label}': its default {problem}")
    return shaped


def _shaped(label: str, schema: Schema) -> Schema:
    kind = schema.get("type")
    if kind == "array" and _is_choice(schema.get("items", {})):
        return {**_kept(schema, "array"), "items": _choice(label, schema["items"], schema, "anyOf")}
    if _is_choice(schema):
        return {**_kept(schema, "choice"), **_choice(label, schema, schema, "oneOf")}
    if kind not in ("string", "number", "integer", "boolean") or "contentEncoding" in schema:
        raise TypeError(
            f"form field '{label}' cannot be asked for in a form: use str, int, float, bool, "
            "an enum, or a list of an enum"
        )
    return _kept(schema, kind)


def _is_choice(schema: Any) -> bool:
    return isinstance(schema, dict) and "enum" in schema and schema.get("type") in ("string", "integer")


def _choice(label: str, schema: Schema, titled: Schema, several: str) -> Schema:
    """The values of an enum, with titles where `enumNames` gives them."""
    values = _texts(schema["enum"])
    names = schema.get("enumNames") or titled.get("enumNames")
    if names is None:
        return {"type": "string", "enum": values}
    if not _are_texts(names) or len(names) != len(values):
        raise TypeError(f"form field '{label}': enumNames has a title for each of {', '.join(values)}")
    options = [{"const": value, "title": name} for value, name in zip(values, names, strict=True)]
    return {several: options} if several == "anyOf" else {"type": "string", several: options}


def _kept(schema: Schema, shape: str) -> Schema:
    kept = {key: schema[key] for key in _KEPT[shape] if key in schema}
    if kept.get("format", "email") not in _FORMATS:
        del kept["format"]
    if shape == "integer":
        kept |= {
            bound: schema[key] + step
            for bound, key, step in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1))
            if isinstance(schema.get(key), int)
        }
    if "default" in kept and shape in ("choice", "array"):
        default = kept["default"]
        kept["default"] = _texts(default) if shape == "array" else str(default)
    return {"type": "string" if shape == "choice" else shape, **kept}


def _texts(values: list[Any]) -> list[str]:
    return [str(value) for value in values]


def _are_texts(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, str) for value in values)


# -- A schema that is given ----------------------------------------------------------------------------------


def _given(schema: Schema) -> Schema:
    """A schema as it is sent. Raises TypeError unless it has the shape of forms (ELI-01)."""
    fields = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(fields, dict):
        raise TypeError('the schema of a form has "type": "object" and "properties"')
    for key in schema:
        if key not in (*_ROOT, *_IGNORED):
            raise TypeError(f"the schema of a form has no {key!r} at its root")
    for name, member in fields.items():
        problem = _misshapen(member) if isinstance(member, dict) else "is no schema"
        if problem is not None:
            raise TypeError(f"form field '{name}' {problem}")
        if "default" in member and (problem := problem_of(member["default"], member)) is not None:
            raise TypeError(f"form field '{name}': its default {problem}")
    unknown = [name for name in schema.get("required", ()) if name not in fields]
    if unknown:
        raise TypeError(f"form field '{unknown[0]}' is required, and is not among the properties")
    return {key: value for key, value in schema.items() if key in _ROOT}


def _misshapen(member: Schema) -> str | None:
    """Why a form cannot hold a member of a given schema; None when it can."""
    kind = member.get("type")
    if kind not in ("string", "number", "integer", "boolean", "array"):
        return "cannot be asked for in a form: its type is string, number, integer, boolean, or array"
    choices: tuple[str, ...] = ()
    if kind == "array":
        items = member.get("items")
        if not isinstance(items, dict) or not _lists_choices(items, "anyOf"):
            return "cannot be asked for in a form: its items are an enum of strings, or anyOf with titles"
        choices = ("items",)
    elif kind == "string" and member.keys() & {"enum", "oneOf", "anyOf"}:
        choices = ("enum", "enumNames") if "enum" in member else ("oneOf",)
        if not _lists_choices(member, "oneOf"):
            return "has choices that are no enum of strings, and no oneOf with const and title"
    for key in member:
        if key not in ("type", *_KEPT[kind], *choices):
            return f"has {key!r}, which forms do not know"
    if member.get("format", "email") not in _FORMATS:
        return f"has the format {member['format']!r}; forms know {', '.join(_FORMATS)}"
    return None


def _lists_choices(schema: Schema, titled: str) -> bool:
    if "enum" in schema:
        values: Any = schema["enum"]
        names: Any = schema.get("enumNames", values)
        return _are_texts(values) and _are_texts(names) and len(names) == len(values)
    options = schema.get(titled)
    return isinstance(options, list) and all(
        isinstance(option, dict) and option.keys() == {"const", "title"} and _are_texts([*option.values()])
        for option in options
    )


# -- A value against a schema --------------------------------------------------------------------------------


def _checked(content: dict[str, Any], schema: Schema) -> dict[str, Any]:
    for name in schema.get("required", ()):
        if name not in content:
            raise Misfit(f"`{name}`: missing, and it is required")
    for name, value in content.items():
        _check(name, value, schema["properties"].get(name, {}))
    return content


def _check(name: str, value: Any, schema: Schema) -> None:
    problem = problem_of(value, schema)
    if problem is not None:
        raise Misfit(f"`{name}`: {problem}")


def problem_of(value: Any, schema: Schema) -> str | None:
    """What is wrong with a value, in the words of the schema; None when nothing is."""
    titled: list[Schema] = schema.get("oneOf") or schema.get("anyOf") or []
    options: list[Any] = [option["const"] for option in titled] or schema.get("enum", [])
    if options:
        known = any(type(value) is type(option) and value == option for option in options)
        return None if known else f"is not one of {', '.join(map(str, options))}"
    kind = str(schema.get("type"))
    if kind in _PYTHON and not (
        isinstance(value, _PYTHON[kind]) and isinstance(value, bool) == (kind == "boolean")
    ):
        return f"is no {kind}"
    if isinstance(value, list):
        inside = (problem_of(item, schema["items"]) for item in value) if "items" in schema else ()
        return next(filter(None, inside), None) or _out_of_bounds(len(value), schema, "minItems", "maxItems")
    if isinstance(value, str):
        if "pattern" in schema and re.search(schema["pattern"], value) is None:
            return f"does not match {schema['pattern']}"
        if not _has_format(value, schema.get("format")):
            return f"is no {schema['format']}"
        return _out_of_bounds(len(value), schema, "minLength", "maxLength", "characters")
    return _out_of_bounds(value, schema, "minimum", "maximum") if isinstance(value, int | float) else None


def _has_format(value: str, name: str | None) -> bool:
    try:
        msgspec.convert(value, _FORMATS.get(name or "", str))
    except msgspec.ValidationError:
        return False
    return True


_PYTHON: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
}


def _out_of_bounds(size: float, schema: Schema, low: str, high: str, unit: str = "") -> str | None:
    least, most = schema.get(low, -math.inf), schema.get(high, math.inf)
    above, below = schema.get("exclusiveMinimum", -math.inf), schema.get("exclusiveMaximum", math.inf)
    finite = isinstance(size, int) or math.isfinite(size)
    if finite and least <= size <= most and (low != "minimum" or above < size < below):
        return None
    bounds = [f"at least {least}"] * (low in schema) + [f"at most {most}"] * (high in schema)
    bounds += [f"above {above}"] * ("exclusiveMinimum" in schema)
    bounds += [f"below {below}"] * ("exclusiveMaximum" in schema)
    return f"is not {' and '.join(bounds) or 'finite'}" + (f" {unit}" if unit and bounds else "")
