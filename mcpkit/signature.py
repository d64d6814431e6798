"""A function's signature, read once: what a client may send, how it is decoded, how the function is called.

The parameters become a msgspec Struct of their own, so that arguments are decoded and checked in one pass. A field
has the name of its parameter, unless no field can have it; a parameter with a default may be absent, and is then left
to the function's own default, whatever object that is.
"""

from __future__ import annotations

import collections
import functools
import inspect
import itertools
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mcpkit import docstrings, foreign, leniency
from mcpkit.errors import ArgumentError
from mcpkit.fields import MISSING, Field, typed_dict_fields
from mcpkit.hints import Namespace, bounds_inside, function_hints, innermost, union_members, without_none
from mcpkit.markers import Complete
from mcpkit.schema import Schema, Unrepresentable, arguments_schema, input_schema, undecodable

Values = dict[str, Any]

_as_dict = msgspec.structs.asdict


class Parameter(Struct, frozen=True):
    """One argument: how it is listed and what completes it."""

    name: str
    hint: Any
    required: bool
    schema: Schema
    complete: Complete | None


class Signature:
    """The arguments of a function. `injected` maps names of other parameters to the class that they are
    annotated with; those that are `optional` take None as well. When it is `raw`, the function takes whatever
    there is, as keywords or as the one parameter `target`.

    Raises TypeError for what cannot be an argument, naming the parameter; NameError for an unresolved forward
    reference.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        injectable: tuple[type, ...] = (),
        namespace: Namespace | None = None,
        raw: bool = False,
    ) -> None:
        hints = function_hints(fn, namespace or {})
        self.returns: Any = hints.get("return", MISSING)
        self.doc = docstrings.parse(_docstring(fn))
        self.injected: dict[str, type] = {}
        self.optional: set[str] = set()
        self.positional: dict[str, Any] = {}
        self.target: str | None = None
        fields: list[Field] = []
        for parameter in _parameters(fn):
            hint = hints.get(parameter.name, parameter.annotation)
            kind = _injected(hint, injectable)
            if kind is not None:
                self.injected[parameter.name] = kind
                if parameter.default is None or without_none(hint) is not hint:
                    self.optional.add(parameter.name)
            elif raw:
                self._take_raw(parameter)
            else:
                fields += _fields(parameter, Any if hint is MISSING else hint)
            if parameter.kind is parameter.POSITIONAL_ONLY:
                self.positional[parameter.name] = parameter.default
        self.schema = self._describe(fields)
        self._definitions: dict[str, Schema] = self.schema.get("$defs", {})
        properties: dict[str, Schema] = self.schema.get("properties", {})
        self.parameters = tuple(
            Parameter(
                field.name, _exact(field.hint), field.required, properties[field.name], _completer(field.hint)
            )
            for field in fields
        )
        self._names = {_field_name(at, field.name): field.name for at, field in enumerate(fields)}
        """The parameters by the names of their fields."""
        self._is_exact = all(
            parameter.required and parameter.name in self._names for parameter in self.parameters
        )
        """Whether the fields are the values."""
        self._decode = self._build_decoder()

    def _take_raw(self, parameter: inspect.Parameter) -> None:
        if parameter.kind is parameter.VAR_KEYWORD:
            return
        if self.target is not None or parameter.kind is parameter.VAR_POSITIONAL:
            raise TypeError(
                "with input_schema the function takes **arguments, or the whole object as one parameter."
            )
        self.target = parameter.name

    def _describe(self, fields: list[Field]) -> Schema:
        for name, count in collections.Counter(field.name for field in fields).items():
            if count > 1:
                raise TypeError(f"parameter '{name}' is also a member of the TypedDict. Rename one of them.")
        for field in fields:
            try:
                input_schema(field.hint)
            except Unrepresentable as error:
                raise TypeError(
                    f"parameter '{field.name}' has type {error.kind}, which has no JSON form. {error.advice}."
                ) from None
        schema = arguments_schema(fields)
        for name, property_ in schema.get("properties", {}).items():
            if name in self.doc.params:
                property_.setdefault("description", self.doc.params[name])
        return schema

    def _build_decoder(self) -> Callable[[Any], Struct]:
        members = [_member(*pair) for pair in zip(self._names, self.parameters, strict=True)]
        for parameter, member in zip(self.parameters, members, strict=True):
            try:
                msgspec.json.Decoder(member[1], dec_hook=foreign.from_builtins)
            except (TypeError, ValueError) as error:
                raise TypeError(f"parameter '{parameter.name}' {undecodable(error)}") from None
        record = msgspec.defstruct("Arguments", members, kw_only=True, forbid_unknown_fields=True)
        return msgspec.json.Decoder(record, dec_hook=foreign.from_builtins).decode

    # -- Values --------------------------------------------------------------------------

    def decode(self, arguments: msgspec.Raw | UnsetType) -> Values:
        """The values of a JSON object of arguments. Raises `ArgumentError`, which names every argument that
        is wrong.
        """
        arguments = msgspec.Raw(b"{}") if isinstance(arguments, UnsetType) else arguments
        try:
            record = self._decode(arguments)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return self._decode_leniently(arguments)
        values = _as_dict(record)
        if self._is_exact:
            return values
        names = self._names
        return {names[field]: value for field, value in values.items() if value is not UNSET}

    def _decode_leniently(self, arguments: Any) -> Values:
        try:
            value = msgspec.json.decode(arguments)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as failure:
            reason = "nested too deeply" if isinstance(failure, RecursionError) else str(failure)
            raise ArgumentError([f"the arguments cannot be read: {reason}"]) from None
        if not isinstance(value, dict):
            raise ArgumentError(["the arguments must be an object"]) from None
        return self.convert(value)

    def convert(self, arguments: Mapping[str, Any]) -> Values:
        """The values of arguments that are JSON decoded already, strings read leniently. Raises
        `ArgumentError`.
        """
        problems = self._unknown(arguments)
        values: Values = {}
        for parameter in self.parameters:
            if parameter.name in arguments:
                try:
                    values[parameter.name] = self._convert_one(parameter, arguments[parameter.name])
                except (msgspec.ValidationError, RecursionError, ValueError) as error:
                    problems.append(
                        leniency.explain(error, parameter.name, parameter.schema, self._definitions)
                    )
            elif parameter.required:
                problems.append(f"`{parameter.name}`: missing, and it is required")
        if problems:
            raise ArgumentError(problems)
        return values

    def _convert_one(self, parameter: Parameter, value: Any) -> Any:
        schema = parameter.schema
        if None in union_members(parameter.hint):  # an optional is listed without its null
            schema = {"anyOf": [schema, {"type": "null"}]}
        value = leniency.coerce(value, schema, self._definitions)
        # By way of JSON, so that it is decoded by the same rules as what needs no leniency.
        encoded = msgspec.json.encode(value)
        return msgspec.json.decode(encoded, type=parameter.hint, dec_hook=foreign.from_builtins)

    def _unknown(self, arguments: Mapping[str, Any]) -> list[str]:
        known_names = self._names.values()
        unknown = [name for name in arguments if name not in known_names]
        if not unknown:
            return []
        known = ", ".join(f"`{name}`" for name in known_names) or "none"
        return [f"unknown argument `{name[:100]}`; known arguments: {known}" for name in unknown[:10]]

    def call_arguments(self, values: Values) -> tuple[list[Any], Values]:
        """Positional and keyword arguments for the function; `values` is consumed."""
        if not self.positional:
            return [], values
        count = max((at for at, name in enumerate(self.positional, 1) if name in values), default=0)
        given = itertools.islice(self.positional.items(), count)
        return [values.pop(name, default) for name, default in given], values


def _docstring(fn: Callable[..., Any]) -> str | None:
    """What was written for the function; for a callable object without one on `__call__`, that of its class."""
    written = innermost(fn).__doc__
    is_object = not inspect.isroutine(fn) and not isinstance(fn, functools.partial)
    return type(fn).__doc__ if written is None and is_object else written


def _parameters(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters to fill: not those that a `functools.partial` has bound."""
    bound: dict[str, Any] = fn.keywords if isinstance(fn, functools.partial) else {}
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:
        raise TypeError(
            "its parameters cannot be told: wrap it in a def that names and types them."
        ) from None
    return [parameter for parameter in parameters if parameter.name not in bound]


def _injected(hint: Any, injectable: tuple[type, ...]) -> type | None:
    plain = without_none(typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint)
    return plain if isinstance(plain, type) and plain in injectable else None


def _fields(parameter: inspect.Parameter, hint: Any) -> list[Field]:
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise TypeError(f"parameter '*{parameter.name}' cannot be sent by name. Take a list instead.")
    if parameter.kind is parameter.VAR_KEYWORD:
        if typing.get_origin(hint) is not typing.Unpack:
            raise TypeError(
                f"parameter '**{parameter.name}' says nothing about its names. Annotate it with Unpack[SomeTypedDict], "
                "or pass input_schema={…}."
            )
        return list(typed_dict_fields(typing.get_args(hint)[0]))
    if parameter.name in ("self", "cls") and hint is Any:
        raise TypeError(
            f"parameter '{parameter.name}' is the instance of a method: register the bound method, "
            "with app.add_tool(obj.method)."
        )
    if foreign.is_pydantic_field(parameter.default) or any(
        map(foreign.is_pydantic_field, typing.get_args(hint))
    ):
        raise TypeError(
            f"parameter '{parameter.name}' is described by pydantic's Field, which does nothing here. "
            f"Annotate it with Annotated[…, Param(…)], and give it a plain default."
        )
    if parameter.default is None and without_none(hint) is hint:
        hint = typing.Optional[hint]  # noqa: UP045 - `x: int = None` is meant so; `|` does not take every hint
    required = parameter.default is parameter.empty
    return [Field(parameter.name, hint, required, parameter.default)]


def _exact(hint: Any) -> Any:
    """The hint as msgspec takes it: without the wrappers of TypedDict members, bounds where they bind."""
    while typing.get_origin(hint) in (typing.Required, typing.NotRequired):
        hint = typing.get_args(hint)[0]
    return bounds_inside(hint)


def _member(field: str, parameter: Parameter) -> tuple[str, Any, Any]:
    if parameter.required:
        return field, parameter.hint, msgspec.field(name=parameter.name)
    options = (parameter.hint, UnsetType)
    hint: Any = typing.Union[options]  # noqa: UP007 - built at run time
    return field, hint, msgspec.field(name=parameter.name, default=UNSET)


def _field_name(index: int, name: str) -> str:
    """The name of a parameter's field; members of a TypedDict can be called anything."""
    return name if name.isidentifier() and not name.startswith("__") else f"__{index}__"


def _completer(hint: Any) -> Complete | None:
    """The marker, also when it stands on the `T` of `T | None`."""
    plain = without_none(hint)
    metadata = typing.get_args(plain)[1:] if typing.get_origin(plain) is typing.Annotated else ()
    return next((item for item in metadata if isinstance(item, Complete)), None)
