"""The members of each kind of record: Structs, dataclasses, attrs classes, TypedDicts and NamedTuples."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from mcpkit.hints import class_hints

MISSING: Any = inspect.Parameter.empty


class Field(NamedTuple):
    """A member of an object type: its name in JSON, its hint, and its default (MISSING when it is required or
    has none to show).
    """

    name: str
    hint: Any
    required: bool
    default: Any = MISSING


def members(hint: Any, cls: type) -> list[Field] | None:
    """The members of the class `cls`, bound as `hint` binds its type variables; None for any other class."""
    if hasattr(cls, "__struct_fields__"):
        return [_struct_field(item) for item in msgspec.structs.fields(hint)]
    if dataclasses.is_dataclass(cls):
        hints = class_hints(hint)
        return [_dataclass_field(item, hints[item.name]) for item in dataclasses.fields(cls)]
    if hasattr(cls, "__attrs_attrs__"):
        hints = class_hints(hint)
        return [_attrs_field(item, hints[item.name]) for item in cls.__attrs_attrs__ if item.init]
    if typing.is_typeddict(cls):
        return list(typed_dict_fields(hint))
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        hints, defaults = class_hints(hint), getattr(cls, "_field_defaults", {})
        return [
            Field(name, hints.get(name, Any), name not in defaults) for name in getattr(cls, "_fields", ())
        ]
    return None


def typed_dict_fields(hint: Any) -> Iterator[Field]:
    """The members of a TypedDict, in declared order."""
    required: frozenset[str] = (typing.get_origin(hint) or hint).__required_keys__
    for name, member in class_hints(hint).items():
        said = typing.get_origin(
            member
        )  # __required_keys__ does not see a Required that was written as a string
        yield Field(
            name, member, said is typing.Required or (name in required and said is not typing.NotRequired)
        )


def _struct_field(item: msgspec.structs.FieldInfo) -> Field:
    default = (
        item.default
        if item.default is not msgspec.NODEFAULT
        else _made(item.default_factory, msgspec.NODEFAULT)
    )
    return Field(item.encode_name, item.type, item.required, MISSING if default is msgspec.UNSET else default)


def _dataclass_field(item: dataclasses.Field[Any], hint: Any) -> Field:
    default = (
        item.default
        if item.default is not dataclasses.MISSING
        else _made(item.default_factory, dataclasses.MISSING)
    )
    required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
    return Field(item.name, hint, required, default)


def _attrs_field(item: Any, hint: Any) -> Field:
    if type(item.default).__name__ == "Factory":
        return Field(item.name, hint, required=False)
    required = repr(item.default) == "NOTHING"
    return Field(item.name, hint, required, MISSING if required else item.default)


def _made(factory: Any, none: Any) -> Any:
    """What a factory makes, where that is certain: an empty container."""
    return factory() if factory is not none and factory in (list, dict, set, tuple) else MISSING
