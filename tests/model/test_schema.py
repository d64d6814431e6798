"""From types to JSON Schemas: what a model is told that it may send, and what it will get."""

from __future__ import annotations

import collections.abc
import datetime
import decimal
import typing
import uuid
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    Optional,
)

import jsonschema
import msgspec
import pydantic
import pytest
import trio
from clients.peer import described, talking
from model.kinds import (
    CAT,
    DATA_BOX,
    INTEGER,
    NULL,
    PAIR,
    POINT,
    POINT_OUT,
    STRING,
    Attrs,
    Box,
    Cat,
    Colour,
    Data,
    DataBox,
    Dog,
    Even,
    IntBox,
    Kind,
    Level,
    Named,
    Numbered,
    Pair,
    Partial,
    Point,
    Positional,
    Schema,
    Tree,
    Typed,
    UserId,
    parameter,
    result,
)
from support import REVISIONS, STATELESS

from mcpkit import App, Image, Param, ResourceLink, Text, ToolResult

# -- Types -------------------------------------------------------------------------------

SAME = [
    (int, INTEGER),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (bytes, {"type": "string", "contentEncoding": "base64"}),
    (bytearray, {"type": "string", "contentEncoding": "base64"}),
    (object, {}),
    (msgspec.Raw, {}),
    (datetime.datetime, {"type": "string", "format": "date-time"}),
    (datetime.date, {"type": "string", "format": "date"}),
    (datetime.time, {"type": "string", "format": "time"}),
    (datetime.timedelta, {"type": "string", "format": "duration"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (decimal.Decimal, {"type": "string", "format": "decimal"}),
    (list, {"type": "array"}),
    (list[Any], {"type": "array"}),
    (list[int], {"type": "array", "items": INTEGER}),
    (collections.abc.Sequence[int], {"type": "array", "items": INTEGER}),
    (list[list[int]], {"type": "array", "items": {"type": "array", "items": INTEGER}}),
    (set[str], {"type": "array", "items": STRING, "uniqueItems": True}),
    (frozenset, {"type": "array", "uniqueItems": True}),
    (tuple, {"type": "array"}),
    (tuple[int, ...], {"type": "array", "items": INTEGER}),
    (
        tuple[int, str],
        {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [INTEGER, STRING], "items": False},
    ),
    (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}),
    (dict, {"type": "object"}),
    (dict[str, Any], {"type": "object"}),
    (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
    (dict[int, str], {"type": "object", "additionalProperties": STRING}),
    (
        dict[Colour, int],
        {
            "type": "object",
            "additionalProperties": INTEGER,
            "propertyNames": {"enum": ["red", "blue"]},
        },
    ),
    (collections.abc.Mapping[str, int], {"type": "object", "additionalProperties": INTEGER}),
    (Literal["b", "a"], {"type": "string", "enum": ["b", "a"]}),
    (Literal[2, 1], {"type": "integer", "enum": [2, 1]}),
    (Literal[True], {"type": "boolean", "enum": [True]}),
    (Literal["a", 1, None], {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
    (Colour, {"type": "string", "enum": ["red", "blue"]}),
    (Level, {"type": "integer", "enum": [2, 1], "description": "How loud."}),
    (Kind, {"type": "string", "enum": ["big"]}),
    (Optional[int], {"anyOf": [INTEGER, NULL]}),  # noqa: UP045
    (int | None, {"anyOf": [INTEGER, NULL]}),
    (list[int | None], {"type": "array", "items": {"anyOf": [INTEGER, NULL]}}),
    (float | list[int], {"anyOf": [{"type": "number"}, {"type": "array", "items": INTEGER}]}),
    (int | bool | None, {"anyOf": [INTEGER, {"type": "boolean"}, NULL]}),
    (Typed, {"type": "object", "properties": {"a": INTEGER, "b": STRING}, "required": ["a"]}),
    (
        Partial,
        {
            "type": "object",
            "properties": {"a": INTEGER, "b": {"type": "string", "description": "Second."}},
            "required": ["a"],
        },
    ),
    (Pair, PAIR),
    (Positional, PAIR | {"prefixItems": [INTEGER, INTEGER]}),
    (Cat, CAT),
    (
        Numbered,
        {
            "type": "object",
            "properties": {"type": {"type": "integer", "const": 1}, "a": INTEGER},
            "required": ["type", "a"],
        },
    ),
    (DataBox[int], DATA_BOX | {"properties": {"item": INTEGER}}),
    (DataBox, DATA_BOX),
    (UserId, INTEGER),
    (typing.Final[int], INTEGER),
    (Annotated[int, "The number."], {"type": "integer", "description": "The number."}),
    (Annotated[int, Param(ge=1, le=5)], {"type": "integer", "minimum": 1, "maximum": 5}),
    (
        Annotated[float, msgspec.Meta(gt=0, lt=1)],
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    ),
    (Annotated[int, Param(multiple_of=5)], {"type": "integer", "multipleOf": 5}),
    (
        Annotated[Annotated[int, Param(ge=1)], Param("A number.")],
        {"type": "integer", "minimum": 1, "description": "A number."},
    ),
    (
        Annotated[list[Annotated[int, Param(ge=0)]], Param(min_length=1, max_length=3)],
        {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 3},
    ),
    (
        Annotated[dict[str, int], Param(min_length=1)],
        {"type": "object", "additionalProperties": INTEGER, "minProperties": 1},
    ),
    (Annotated[int | None, Param(ge=1)], {"anyOf": [{"type": "integer", "minimum": 1}, NULL]}),
]


@pytest.mark.parametrize(("hint", "schema"), SAME, ids=[str(hint) for hint, _ in SAME])
def test_a_type_has_one_schema_both_ways(hint: Any, schema: Schema) -> None:
    """DESIGN 4.2: in-lined, enums with an explicit type and in declared order, no titles."""
    assert parameter(hint) == schema
    assert result(hint) == schema


DIFFERENT = [
    (Point, POINT, POINT_OUT),
    (list[Point], {"type": "array", "items": POINT}, {"type": "array", "items": POINT_OUT}),
    (
        dict[str, list[Point]],
        {"type": "object", "additionalProperties": {"type": "array", "items": POINT}},
        {"type": "object", "additionalProperties": {"type": "array", "items": POINT_OUT}},
    ),
    (
        Named,
        {
            "type": "object",
            "properties": {
                "fullName": {"type": "string", "description": "Both names."},
                "tags": {"type": "array", "items": STRING, "default": []},
                "extra": INTEGER,
            },
            "required": ["fullName"],
            "additionalProperties": False,
            "description": "A thing with a name.",
        },
        {
            "type": "object",
            "properties": {
                "fullName": {"type": "string", "description": "Both names."},
                "tags": {"type": "array", "items": STRING},
                "extra": INTEGER,
            },
            "required": ["fullName"],
            "additionalProperties": False,
            "description": "A thing with a name.",
        },
    ),
    (
        Data,
        {
            "type": "object",
            "properties": {
                "a": INTEGER,
                "b": {"type": "array", "items": POINT, "default": []},
                "c": STRING,
            },
            "required": ["a"],
        },
        {
            "type": "object",
            "properties": {
                "a": INTEGER,
                "b": {"type": "array", "items": POINT_OUT},
                "c": {"anyOf": [STRING, NULL]},
            },
            "required": ["a"],
        },
    ),
    (
        Attrs,
        {
            "type": "object",
            "properties": {
                "a": INTEGER,
                "b": {"type": "string", "default": "x"},
                "c": {"type": "array", "items": INTEGER},
            },
            "required": ["a"],
        },
        {
            "type": "object",
            "properties": {"a": INTEGER, "b": STRING, "c": {"type": "array", "items": INTEGER}},
            "required": ["a"],
        },
    ),
    (
        Cat | Dog,
        {
            "anyOf": [
                CAT,
                {
                    "type": "object",
                    "properties": {
                        "kind": {"type": "string", "const": "dog"},
                        "name": {"type": "string", "default": "Rex"},
                    },
                    "required": ["kind"],
                },
            ]
        },
        {
            "anyOf": [
                CAT,
                {
                    "type": "object",
                    "properties": {"kind": {"type": "string", "const": "dog"}, "name": STRING},
                    "required": ["kind"],
                },
            ]
        },
    ),
    (
        Box[Colour],
        {
            "type": "object",
            "properties": {
                "item": {"type": "string", "enum": ["red", "blue"]},
                "more": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["red", "blue"]},
                    "default": [],
                },
            },
            "required": ["item"],
        },
        {
            "type": "object",
            "properties": {
                "item": {"type": "string", "enum": ["red", "blue"]},
                "more": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}},
            },
            "required": ["item"],
        },
    ),
    (
        IntBox,
        {
            "type": "object",
            "properties": {
                "item": INTEGER,
                "more": {"type": "array", "items": INTEGER, "default": []},
                "extra": {"type": "string", "default": ""},
            },
            "required": ["item"],
        },
        {
            "type": "object",
            "properties": {"item": INTEGER, "more": {"type": "array", "items": INTEGER}, "extra": STRING},
            "required": ["item"],
        },
    ),
]


@pytest.mark.parametrize(
    ("hint", "incoming", "outgoing"), DIFFERENT, ids=[str(hint) for hint, _, _ in DIFFERENT]
)
def test_defaults_are_for_input_and_nulls_for_output(hint: Any, incoming: Schema, outgoing: Schema) -> None:
    """DESIGN 4.2: an input member `T | None = None` is plain T; in an output its null is kept, and there are no
    defaults.
    """
    assert parameter(hint) == incoming
    assert result(hint) == outgoing


NO_STRUCTURE = [
    *(str, Text, Image, ToolResult, None, Any, str | None, Image | None, Text | Image, ToolResult | str),
    *(list[Image], list[Image | str], list[Text | ResourceLink] | None, tuple[Image, ...], str | int),
    *(
        collections.abc.Sequence[Image],
        Annotated[str, "Some text."],
        NewType("Note", str),
        Image | dict[str, int],
    ),
]


@pytest.mark.parametrize("hint", NO_STRUCTURE, ids=[str(hint) for hint in NO_STRUCTURE])
def test_text_and_content_promise_no_structure(hint: Any) -> None:
    """DESIGN 4.2: the output schema comes from the annotation unless that is str, content, ToolResult or absent."""
    assert result(hint) is None


def test_without_an_annotation_there_is_no_output_schema_and_any_input() -> None:
    """DESIGN 4.2: an untyped parameter takes anything; `Any` is the empty schema, never `true`."""

    def fn(x):  # type: ignore[no-untyped-def]
        return x

    assert described(fn).output_schema is None
    assert described(fn).input_schema["properties"] == {"x": {}}
    assert parameter(Any) == {}


# -- Types that contain themselves -------------------------------------------------------

TREE = {
    "type": "object",
    "properties": {
        "value": INTEGER,
        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []},
        "parent": {"$ref": "#/$defs/Tree"},
    },
    "required": ["value"],
}


def test_only_what_contains_itself_is_a_definition() -> None:
    """PITFALLS: `$defs` and `$ref` only for recursive types; each is defined once, at the root."""

    def fn(tree: Tree, forest: list[Tree], at: Point, best: Tree | None = None) -> None: ...

    assert described(fn).input_schema == {
        "type": "object",
        "properties": {
            "tree": {"$ref": "#/$defs/Tree"},
            "forest": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            "at": POINT,
            "best": {"$ref": "#/$defs/Tree"},
        },
        "required": ["tree", "forest", "at"],
        "additionalProperties": False,
        "$defs": {"Tree": TREE},
    }


def test_types_that_contain_each_other_are_defined_where_they_close_the_circle() -> None:
    """PITFALLS: recursion through another type."""
    odd = {"type": "object", "properties": {"even": {"$ref": "#/$defs/Even"}}}
    even = {"type": "object", "properties": {"odd": odd}}
    assert parameter(Even) == {"$ref": "#/$defs/Even", "$defs": {"Even": even}}


def test_the_root_of_an_output_is_written_out() -> None:
    """CLIENTS: a root without "type" empties the tool list of a client."""
    schema = result(Tree)
    assert schema is not None
    assert schema["type"] == "object"
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"] == schema["properties"]


def test_definitions_of_the_same_name_are_kept_apart() -> None:
    """Two recursive classes may have one name."""

    class Trunk(msgspec.Struct):
        leaves: list[Trunk] = []

    Trunk.__name__ = "Tree"

    def fn(a: Tree, b: Trunk) -> None: ...

    schema = described(fn).input_schema
    assert schema["properties"] == {"a": {"$ref": "#/$defs/Tree"}, "b": {"$ref": "#/$defs/Tree_2"}}
    leaves = {"type": "array", "items": {"$ref": "#/$defs/Tree_2"}, "default": []}
    assert schema["$defs"]["Tree_2"] == {"type": "object", "properties": {"leaves": leaves}}


# -- pydantic ----------------------------------------------------------------------------


class Feline(pydantic.BaseModel):
    kind: Literal["cat"]
    title: str = pydantic.Field("Sir", description="How to address it.")


class Canine(pydantic.BaseModel):
    kind: Literal["dog"]
    age: int = pydantic.Field(ge=0)


class Owner(pydantic.BaseModel):
    """Who has a pet."""

    pet: Feline | Canine = pydantic.Field(discriminator="kind")
    colour: Colour = Colour.RED
    since: datetime.date | None = None


class Nest(pydantic.BaseModel):
    eggs: list[Nest] = []


FELINE = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "const": "cat"},
        "title": {"type": "string", "description": "How to address it.", "default": "Sir"},
    },
    "required": ["kind"],
}
CANINE = {
    "type": "object",
    "properties": {"kind": {"type": "string", "const": "dog"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["kind", "age"],
}


def test_pydantic_models_have_the_same_shape_as_other_types() -> None:
    """DESIGN 3: accepted without importing pydantic; in-lined, no generated titles, an optional without null."""
    assert parameter(Owner) == {
        "type": "object",
        "properties": {
            "pet": {"oneOf": [FELINE, CANINE]},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "since": {"type": "string", "format": "date"},
        },
        "required": ["pet"],
        "description": "Who has a pet.",
    }
    outgoing = result(list[Owner])
    assert outgoing is not None
    since = {"anyOf": [{"type": "string", "format": "date"}, NULL]}
    assert outgoing["items"]["properties"]["since"] == since


def test_a_recursive_pydantic_model_is_a_definition() -> None:
    """PITFALLS: `$defs` for recursive types."""
    nest = {
        "type": "object",
        "properties": {"eggs": {"type": "array", "items": {"$ref": "#/$defs/Nest"}, "default": []}},
    }
    assert parameter(Nest) == {"$ref": "#/$defs/Nest", "$defs": {"Nest": nest}}


# -- As listed ---------------------------------------------------------------------------


def test_every_schema_is_a_valid_schema() -> None:
    """JSON Schema 2020-12; the peer checks it as well, for whatever is listed."""
    hints = [hint for hint, _ in SAME] + [hint for hint, _, _ in DIFFERENT] + [Tree, Even, Owner, Nest]
    for hint in hints:
        jsonschema.Draft202012Validator.check_schema({"properties": {"x": parameter(hint)}})
        jsonschema.Draft202012Validator.check_schema(result(hint) or {})


async def listed(revision: str, hints: list[Any]) -> list[Any]:
    app = App("test")
    for index, hint in enumerate(hints):

        def fn() -> None: ...

        fn.__annotations__ = {"return": hint}
        app.add_tool(fn, name=f"t{index}")
    async with talking(app, revision) as peer:
        tools = (await peer.ask("tools/list"))["tools"]
    return [tool.get("outputSchema") for tool in tools]


@pytest.mark.parametrize("revision", REVISIONS)
def test_output_schemas_are_listed_as_the_revision_takes_them(revision: str) -> None:
    """DESIGN 4.2: roots that are no object are wrapped for 2025-06-18 and 2025-11-25; before, there are none."""
    hints = [list[int], Point, Tree, list[Tree], int | None, str]
    schemas = [result(hint) for hint in hints]
    got = trio.run(listed, revision, hints)
    if revision == STATELESS:
        assert got == schemas
    elif revision < "2025-06-18":
        assert got == [None] * len(hints)
    else:
        assert got[0] == {
            "type": "object",
            "properties": {"result": {"type": "array", "items": INTEGER}},
            "required": ["result"],
        }
        assert got[1:3] == schemas[1:3]
        forest = got[3]
        assert forest["properties"] == {"result": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}
        assert list(forest["$defs"]) == ["Tree"]
        assert got[4]["properties"] == {"result": {"anyOf": [INTEGER, NULL]}}
        assert got[5] is None
