"""From functions to JSON Schemas: names, defaults, descriptions, and every kind of callable."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import typing
from collections.abc import Callable
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypedDict,
    Unpack,
)

import attrs
import msgspec
import pytest
from clients.peer import described
from model.kinds import INTEGER, NULL, POINT, STRING, Colour, Point, Schema, parameter

from mcpkit import App, Context, Header, Param, SyncContext

# -- Arguments ---------------------------------------------------------------------------


def test_arguments_are_a_closed_object_in_declared_order() -> None:
    """DESIGN 4.2: `additionalProperties: false`, `required` in declared order, JSON defaults shown."""

    def fn(z: int, a: str, *, m: float = 1.5, b: bool) -> None: ...

    assert list(described(fn).input_schema["properties"]) == ["z", "a", "m", "b"]
    assert described(fn).input_schema == {
        "type": "object",
        "properties": {
            "z": INTEGER,
            "a": STRING,
            "m": {"type": "number", "default": 1.5},
            "b": {"type": "boolean"},
        },
        "required": ["z", "a", "b"],
        "additionalProperties": False,
    }


def test_a_tool_without_arguments_says_so() -> None:
    """SCH-05."""

    def fn() -> None: ...

    assert described(fn).input_schema == {"type": "object", "additionalProperties": False}


DEFAULTS = [
    (int, 3, {"type": "integer", "default": 3}),
    (Colour, Colour.RED, {"type": "string", "enum": ["red", "blue"], "default": "red"}),
    (list[int], [1], {"type": "array", "items": INTEGER, "default": [1]}),
    (Point, Point(1), POINT | {"default": {"x": 1, "y": 0, "label": None}}),
    (
        datetime.date,
        datetime.date(2026, 7, 28),
        {"type": "string", "format": "date", "default": "2026-07-28"},
    ),
    (int | None, None, INTEGER),
    (int | None, 3, {"anyOf": [INTEGER, NULL], "default": 3}),
    (int, None, INTEGER),
    (int | float | None, None, {"anyOf": [INTEGER, {"type": "number"}]}),
    (
        Annotated[int | None, Param("Some.", ge=1)],
        None,
        {"type": "integer", "minimum": 1, "description": "Some."},
    ),
    (Annotated[int, Param(ge=1)] | None, None, {"type": "integer", "minimum": 1}),
    (Any, object(), {}),
    (Any, None, {}),
]


@pytest.mark.parametrize(("hint", "default", "schema"), DEFAULTS)
def test_a_default_is_shown_where_it_has_a_json_form_and_is_not_null(
    hint: Any, default: Any, schema: Schema
) -> None:
    """DESIGN 4.2: JSON defaults shown, an optional shows no `default: null` and is plain T."""
    assert parameter(hint, default) == schema


def test_what_is_injected_is_no_argument() -> None:
    """DESIGN 4.2: Context and SyncContext are injected by annotation, under any name, and never in the schema."""

    async def one(ctx: Context, a: int) -> None: ...

    def two(a: int, anything: SyncContext | None = None) -> None: ...

    for fn in (one, two):
        assert described(fn).input_schema["properties"] == {"a": INTEGER}


def test_param_says_everything_that_a_schema_can() -> None:
    """DESIGN 4.2: title, description, examples, bounds, lengths, pattern; `extra` merges keywords."""
    whole = Param(
        "A code.", title="Code", examples=["ab"], pattern="^a", min_length=1, max_length=4, extra={"x-a": [1]}
    )
    assert parameter(Annotated[str, whole]) == {
        "type": "string",
        "title": "Code",
        "description": "A code.",
        "examples": ["ab"],
        "pattern": "^a",
        "minLength": 1,
        "maxLength": 4,
        "x-a": [1],
    }


def test_header_marks_a_parameter() -> None:
    """DESIGN 4.2: `x-mcp-header`."""

    def fn(region: Annotated[str, Header("Region"), Param("Where.")]) -> None: ...

    assert described(fn).input_schema["properties"]["region"] == {
        "type": "string",
        "x-mcp-header": "Region",
        "description": "Where.",
    }


def google(a: int, b: Annotated[int, "From the annotation."] = 1, c: int = 2) -> None:
    """Do a thing.

    And more of it.

    Args:
        a: From the docstring,
            going on.
        b: Not this one.
    """


def numpy(a: int, b: Annotated[int, Param("From the annotation.")] = 1, c: int = 2) -> None:
    """Do a thing.

    And more of it.

    Parameters
    ----------
    a : int
        From the docstring,
        going on.
    b : int
        Not this one.
    """


def sphinx(
    a: int, b: Annotated[int, msgspec.Meta(description="From the annotation.")] = 1, c: int = 2
) -> None:
    """Do a thing.

    And more of it.

    :param a: From the docstring,
        going on.
    :param int b: Not this one.
    """


@pytest.mark.parametrize("fn", [google, numpy, sphinx])
def test_descriptions_come_from_the_annotation_or_the_docstring(fn: Callable[..., None]) -> None:
    """DESIGN 4.2: the annotation goes before `Args:`; with none, there is no description."""
    definition = described(fn)
    assert definition.description == "Do a thing.\n\nAnd more of it."
    assert definition.input_schema["properties"] == {
        "a": {"type": "integer", "description": "From the docstring, going on."},
        "b": {"type": "integer", "description": "From the annotation.", "default": 1},
        "c": {"type": "integer", "default": 2},
    }


# -- Kinds of functions ------------------------------------------------------------------


class Desk:
    """A class of the user."""

    def method(self, a: int) -> None:
        """Of an instance."""

    @classmethod
    def of_class(cls, a: int) -> None:
        """Of the class."""

    @staticmethod
    def static(a: int) -> None:
        """Of nothing."""

    def __call__(self, a: int) -> None:
        """When called."""


class AsyncDesk:
    """Described by its class."""

    async def __call__(self, a: int) -> None: ...


def wrapped(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


def function(a: int) -> None:
    """A function."""


def longer(z: str, a: int, *, y: str = "") -> None:
    """Bound in part."""


FUNCTIONS: list[tuple[Any, str, str]] = [
    (function, "function", "A function."),
    (Desk().method, "method", "Of an instance."),
    (Desk.of_class, "of_class", "Of the class."),
    (Desk.static, "static", "Of nothing."),
    (Desk(), "Desk", "When called."),
    (AsyncDesk(), "AsyncDesk", "Described by its class."),
    (functools.partial(longer, "z", y="y"), "longer", "Bound in part."),
    (functools.partial(functools.partial(longer, "z"), y="y"), "longer", "Bound in part."),
    (wrapped(function), "function", "A function."),
    (wrapped(wrapped(function)), "function", "A function."),
    (functools.partial(wrapped(longer), "z", y="y"), "longer", "Bound in part."),
    (functools.lru_cache(function), "function", "A function."),
]


@pytest.mark.parametrize(
    ("fn", "name", "description"), FUNCTIONS, ids=[str(index) for index in range(len(FUNCTIONS))]
)
def test_every_kind_of_callable_is_read(fn: Any, name: str, description: str) -> None:
    """Functions, methods, callable objects, `functools.partial` and `functools.wraps`."""
    app = App("test")
    app.add_tool(fn)
    definition = app.registry.tools[name].definition
    assert definition.description == description
    assert definition.input_schema == {
        "type": "object",
        "properties": {"a": INTEGER},
        "required": ["a"],
        "additionalProperties": False,
    }


def test_what_a_partial_binds_by_name_is_no_argument() -> None:
    """A bound argument is not the client's to give."""
    schema = described(functools.partial(longer, y="y")).input_schema
    assert list(schema["properties"]) == ["z", "a"]


class Options(TypedDict, total=False):
    limit: typing.Required[int]
    order: Annotated[Literal["up", "down"], Param("Which way.")]


def test_the_members_of_an_unpacked_typed_dict_are_arguments() -> None:
    """DESIGN 4.2: PEP 692."""

    def fn(query: str, **options: Unpack[Options]) -> None: ...

    assert described(fn).input_schema == {
        "type": "object",
        "properties": {
            "query": STRING,
            "limit": INTEGER,
            "order": {"type": "string", "enum": ["up", "down"], "description": "Which way."},
        },
        "required": ["query", "limit"],
        "additionalProperties": False,
    }


def test_a_hand_written_schema_is_passed_through_untouched() -> None:
    """SCH-04: nothing is added, dropped or reordered."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"b": {"$ref": "#/$defs/n"}, "a": True},
        "$defs": {"n": {"$anchor": "n", "type": "integer", "title": "N"}},
        "if": {"required": ["b"]},
        "then": {"required": ["a"]},
    }

    def fn(**arguments: Any) -> None: ...

    definition = described(fn, input_schema=schema, output_schema={"type": "object", "title": "Out"})
    assert json.dumps(definition.input_schema) == json.dumps(schema)
    assert definition.output_schema == {"type": "object", "title": "Out"}


# -- Names that are resolved late --------------------------------------------------------


def test_classes_local_to_a_function_are_found() -> None:
    """PITFALLS: `from __future__ import annotations` (this file has it) with local classes of every kind."""

    class Inner(msgspec.Struct):
        n: int

    class Outer(msgspec.Struct):
        inner: Inner

    @dataclasses.dataclass
    class LocalData:
        inner: Inner

    class LocalTyped(TypedDict):
        inner: Inner

    class LocalPair(NamedTuple):
        inner: Inner

    @attrs.define
    class LocalAttrs:
        inner: Inner

    def fn(a: Outer, b: LocalData, c: LocalTyped, d: LocalPair, e: LocalAttrs, f: list[Inner]) -> Outer: ...

    inner = {"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}
    outer = {"type": "object", "properties": {"inner": inner}, "required": ["inner"]}
    properties = described(fn).input_schema["properties"]
    assert [properties[name] for name in "abce"] == [outer] * 4
    assert properties["d"]["prefixItems"] == [inner]
    assert properties["f"]["items"] == inner
    assert described(fn).output_schema == outer


def test_a_class_further_down_in_the_script_is_found_when_serving_begins() -> None:
    """DESIGN 4.2: types are resolved just before serving."""
    app = App("test")

    @app.tool
    def fn(late: Late, there: list[Later]) -> Late: ...

    class Late(msgspec.Struct):
        later: Later

    class Later(msgspec.Struct):
        n: int

    app.registry.resolve()
    later = {"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}
    properties = app.registry.tools["fn"].definition.input_schema["properties"]
    assert properties["there"] == {"type": "array", "items": later}
    assert properties["late"]["properties"] == {"later": later}
