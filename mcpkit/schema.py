"""From a Python type to its JSON Schema, exactly as typed.

Rule 1. msgspec decides what a type accepts; this module only says so. A type that msgspec would not take is
        `Unrepresentable`.
Rule 2. Schemas are written for language models and their clients: in-lined (`$defs` only for a type that
        contains itself), every enum with its type and in declared order, no generated titles, no `default:
        null`.
Rule 3. Input and output differ: an input field `x: T | None = None` is plain T that may be left out; in an
        output its null is kept, because what is sent must fit what was listed.

Source: JSON Schema 2020-12.
"""

from __future__ import annotations

import collections
import collections.abc
import datetime
import decimal
import enum
import inspect
import pathlib
import re
import types
import typing
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from mcpkit import foreign
from mcpkit.fields import MISSING, Field, members
from mcpkit.hints import unwrap, without_none

Schema = dict[str, Any]

_SCALARS: dict[Any, Schema] = {
    Any: {},
    object: {},
    msgspec.Raw: {},
    None: {"type": "null"},
    type(None): {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    bytearray: {"type": "string", "contentEncoding": "base64"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: {"type": "string", "format": "duration"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "string", "format": "decimal"},
}

_ARRAYS: dict[Any, Schema] = {
    list: {},
    collections.abc.Sequence: {},
    collections.abc.MutableSequence: {},
    collections.abc.Collection: {},
    set: {"uniqueItems": True},
    frozenset: {"uniqueItems": True},
    collections.abc.Set: {"uniqueItems": True},
    collections.abc.MutableSet: {"uniqueItems": True},
}

_OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)

_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_LENGTHS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_LITERAL_TYPES = {str: "string", int: "integer", bool: "boolean", type(None): "null"}


class Unrepresentable(TypeError):
    """A type without a JSON form. `kind` names it; `advice` says what to use instead. `is_unknown` means that
    the advice is no more than general.
    """

    def __init__(self, kind: Any, advice: str | None = None) -> None:
        self.kind = kind if isinstance(kind, str) else getattr(kind, "__name__", None) or str(kind)
        self.is_unknown = advice is None
        self.advice = advice or "Use a Struct, a dataclass or a builtin type"
        super().__init__(f"{self.kind} has no JSON form. {self.advice}.")


def input_schema(hint: Any) -> Schema:
    """The schema of what may be sent for `hint`. Raises `Unrepresentable`; NameError for an unresolved
    forward reference.
    """
    return _root(_Describer(output=False), hint)


def output_schema(hint: Any) -> Schema:
    """The schema of what a value of `hint` is encoded to. Raises like `input_schema`."""
    return _root(_Describer(output=True), hint)


def arguments_schema(fields: Iterable[Field]) -> Schema:
    """The schema of an object with just these members: a tool's arguments."""
    describer = _Describer(output=False)
    schema = describer.object(fields)
    schema["additionalProperties"] = False
    if not schema["properties"]:
        del schema["properties"]
    return _with_definitions(schema, describer.definitions)


def _root(describer: _Describer, hint: Any) -> Schema:
    schema = describer.describe(hint)
    reference = schema.pop("$ref", None)
    if (
        reference is not None
    ):  # clients read "type" at the root, so a root that contains itself is written out once more
        schema = describer.definitions[reference.rpartition("/")[2]] | schema
    return _with_definitions(schema, describer.definitions)


def _with_definitions(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    return schema | {"$defs": definitions} if definitions else schema


class _Describer:
    def __init__(self, *, output: bool) -> None:
        self._output = output
        self.definitions: dict[str, Schema] = {}
        self._open: dict[Any, str] = {}
        self._defined: dict[Any, str] = {}
        self._recursive: set[str] = set()

    def describe(self, hint: Any) -> Schema:
        hint = unwrap(hint)
        if isinstance(hint, typing.TypeVar):
            return self.describe(hint.__bound__) if hint.__bound__ is not None else {}
        if typing.get_origin(hint) is typing.Annotated:
            return self._annotated(hint)
        try:
            scalar = _SCALARS.get(hint)
        except TypeError:  # unhashable
            scalar = None
        return dict(scalar) if scalar is not None else self._composite(hint)

    def _composite(self, hint: Any) -> Schema:
        if isinstance(hint, list | dict | set | tuple):
            raise Unrepresentable(hint, "Write it as list[…], dict[str, …] or tuple[…]")
        origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments)
        if origin is typing.Literal:
            return _literal(arguments)
        if origin in _ARRAYS:
            return {"type": "array"} | self._items(arguments) | _ARRAYS[origin]
        if origin in _OBJECTS:
            return {"type": "object"} | self._values(arguments)
        if origin is tuple:
            return {"type": "array"} if hint is origin else self._tuple(arguments)
        if type(origin).__name__ == "TypeAliasType":
            return self._named(hint, origin.__name__, lambda: self.describe(_alias_value(origin, arguments)))
        if inspect.isclass(origin):
            return self._class(hint, origin)
        raise Unrepresentable(hint)

    def _items(self, arguments: tuple[Any, ...]) -> Schema:
        item = self.describe(arguments[0]) if arguments else {}
        return {"items": item} if item else {}

    def _values(self, arguments: tuple[Any, ...]) -> Schema:
        if not arguments:
            return {}
        if len(arguments) != 2:
            raise Unrepresentable("dict of one type", "Write dict[str, …]")
        key, value = (self.describe(argument) for argument in arguments)
        schema: Schema = {"additionalProperties": value} if value else {}
        if "enum" in key or "pattern" in key:
            schema["propertyNames"] = {name: key[name] for name in ("enum", "pattern") if name in key}
        return schema

    def _tuple(self, arguments: tuple[Any, ...]) -> Schema:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array"} | self._items(arguments)
        return _fixed_array([self.describe(argument) for argument in arguments], len(arguments))

    def _union(self, arguments: tuple[Any, ...]) -> Schema:
        options: list[Schema] = []
        for argument in arguments:
            if argument is msgspec.UnsetType:
                continue
            option = self.describe(argument)
            options += option["anyOf"] if set(option) == {"anyOf"} else [option]
        if {} in options:
            return {}
        return options[0] if len(options) == 1 else {"anyOf": options}

    def _annotated(self, hint: Any) -> Schema:
        inner, *metadata = typing.get_args(hint)
        schema = self.describe(inner)
        for meta in metadata:
            if isinstance(meta, str):
                schema["description"] = meta
            elif isinstance(meta, msgspec.Meta):
                _apply(meta, schema)
        return schema

    def _class(self, hint: Any, cls: type) -> Schema:
        if issubclass(cls, enum.Enum):
            return _enum(cls)
        if foreign.is_model(cls):
            return foreign.model_schema(cls, output=self._output, definitions=self.definitions)
        fields = members(hint, cls)
        if fields is None:
            raise Unrepresentable(cls, _ADVICE.get(cls))
        return self._named(hint, cls.__name__, lambda: self._record(cls, fields))

    def _named(self, hint: Any, name: str, build: Callable[[], Schema]) -> Schema:
        """In-lined, unless `hint` turns out to contain itself."""
        if hint in self._open:
            self._recursive.add(self._open[hint])
            return {"$ref": f"#/$defs/{self._open[hint]}"}
        if hint in self._defined:
            return {"$ref": f"#/$defs/{self._defined[hint]}"}
        known = self._open[hint] = self._free_name(name)
        schema = build()
        del self._open[hint]
        if known not in self._recursive:
            return schema
        self.definitions[known] = schema
        self._defined[hint] = known
        return {"$ref": f"#/$defs/{known}"}

    def _free_name(self, name: str) -> str:
        taken = {*self.definitions, *self._open.values()}
        return next(free for n in range(1, 1000) if (free := name if n == 1 else f"{name}_{n}") not in taken)

    def _record(self, cls: type, fields: Iterable[Field]) -> Schema:
        config = getattr(cls, "__struct_config__", None)
        if getattr(config, "array_like", False) or issubclass(cls, tuple):
            listed = list(fields)
            required = sum(member.required for member in listed)
            schema = _fixed_array([self.describe(member.hint) for member in listed], required)
        else:
            schema = self.object(
                fields,
                tag=(config.tag_field, config.tag) if config is not None and config.tag_field else None,
            )
            if getattr(config, "forbid_unknown_fields", False):
                schema["additionalProperties"] = False
        description = _own_doc(cls)
        return schema | {"description": description} if description else schema

    def object(self, fields: Iterable[Field], tag: tuple[str, Any] | None = None) -> Schema:
        """An object with these members; `tag` is the member that tells it from others in a union, and its
        value.
        """
        properties: dict[str, Schema] = {}
        required: list[str] = []
        if tag is not None:
            properties[tag[0]] = {"type": _LITERAL_TYPES[type(tag[1])], "const": tag[1]}
            required.append(tag[0])
        for member in fields:
            properties[member.name] = self._member(member)
            if member.required:
                required.append(member.name)
        schema: Schema = {"type": "object", "properties": properties}
        return schema | {"required": required} if required else schema

    def _member(self, member: Field) -> Schema:
        if self._output:
            return self.describe(member.hint)
        if member.default is None:
            return self.describe(without_none(member.hint))
        schema = self.describe(member.hint)
        if member.default is not MISSING:
            try:
                schema["default"] = msgspec.to_builtins(
                    member.default, str_keys=True, enc_hook=foreign.to_builtins
                )
            except (TypeError, ValueError, RecursionError):
                pass  # a default without a JSON form is not shown
        return schema


_ADVICE: dict[Any, str] = {
    **dict.fromkeys(
        (collections.abc.Iterable, collections.abc.Iterator, collections.abc.Generator), "Use a list"
    ),
    **dict.fromkeys((collections.deque, range), "Use a list"),
    **dict.fromkeys((collections.OrderedDict, collections.defaultdict, collections.Counter), "Use a dict"),
    **dict.fromkeys((pathlib.Path, pathlib.PurePath), "Use a str"),
    collections.abc.Callable: "Use an enum of names, and look the function up",
    complex: "Use a list of two numbers",
}


_ALIKE = {
    "str": "strings in JSON, which cannot be told apart. Keep one of them",
    "int": "integers in JSON, which cannot be told apart. Keep one of them",
    "array": "arrays in JSON, which cannot be told apart. Keep one of them",
    "dict": "objects in JSON, which cannot be told apart. Keep one of them, or make them Structs with tag=True",
}


def undecodable(error: Exception) -> str:
    """Why msgspec does not take a type: the rest of a sentence that begins with what has the type."""
    text, _, hint = str(error).partition(" - type `")
    alike = re.search(r"more than one (\w+)-like", text)
    if alike is not None:
        return f"is a union of several types that are {_ALIKE[alike[1]]}."
    kind = hint.rpartition("`")[0]
    subject = f"has type {kind}, which cannot be" if kind else "cannot be decoded"
    return f"{subject}: {text[:1].lower()}{text[1:]}."


def _alias_value(alias: Any, arguments: tuple[Any, ...]) -> Any:
    return alias.__value__[arguments] if arguments else alias.__value__


def _literal(values: tuple[Any, ...]) -> Schema:
    for value in values:
        if type(value) not in _LITERAL_TYPES:
            raise Unrepresentable(f"Literal[{value!r}]", "Use strings, integers or booleans as literals")
    kinds = list(dict.fromkeys(_LITERAL_TYPES[type(value)] for value in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(values)}


def _enum(cls: type[enum.Enum]) -> Schema:
    values = [member.value for member in cls]
    kinds = {_LITERAL_TYPES.get(type(value)) for value in values}
    if len(kinds) != 1 or not kinds <= {"string", "integer"}:
        raise Unrepresentable(cls, "Give the members of the enum values that are all strings or all integers")
    schema = {"type": kinds.pop(), "enum": values}
    description = _own_doc(cls)
    return schema | {"description": description} if description else schema


def _fixed_array(items: list[Schema], required: int) -> Schema:
    schema: Schema = {"type": "array", "minItems": required, "maxItems": len(items)}
    return schema | {"prefixItems": items, "items": False} if items else schema


def _apply(meta: msgspec.Meta, schema: Schema) -> None:
    targets = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    for target in targets:
        for bound, keyword in _BOUNDS.items():
            if getattr(meta, bound) is not None:
                target[keyword] = getattr(meta, bound)
        if meta.pattern is not None:
            target["pattern"] = meta.pattern
        names = _LENGTHS.get(str(target.get("type")), ())
        for keyword, length in zip(names, (meta.min_length, meta.max_length), strict=False):
            if length is not None:
                target[keyword] = length
    schema.update(
        {
            key: value
            for key in ("title", "description", "examples")
            if (value := getattr(meta, key)) is not None
        }
    )
    if meta.extra_json_schema:
        schema.update(msgspec.to_builtins(meta.extra_json_schema, str_keys=True))


def _own_doc(cls: type) -> str | None:
    """The docstring that was written for `cls`: not an inherited one, nor the signature that dataclasses and
    named tuples make up.
    """
    doc = cls.__dict__.get("__doc__")
    if not isinstance(doc, str) or doc.startswith(f"{cls.__name__}(") or not doc.strip():
        return None
    return inspect.cleandoc(doc)
