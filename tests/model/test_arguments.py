"""Arguments: exactly where they are exact, leniently where a model is sloppy, and clear where nothing fits."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from typing import Annotated, Any, Literal, TypedDict, Unpack

import msgspec
import pydantic
import pytest
import trio
from clients.peer import called, talking
from hypothesis import given, settings
from hypothesis import strategies as st
from model.kinds import (
    Attrs,
    Box,
    Cat,
    Colour,
    Data,
    Dog,
    Level,
    Named,
    Pair,
    Point,
    Positional,
    Tree,
    Typed,
    UserId,
)

from mcpkit import App, Param, SyncContext
from mcpkit.errors import ArgumentError
from mcpkit.registry import Tool


class Model(pydantic.BaseModel):
    a: int = pydantic.Field(ge=1)
    inner: list[Inner] = []


class Inner(pydantic.BaseModel):
    x: float


def tool(hint: Any, *default: Any) -> Tool:
    """A tool whose parameter `x` has this type."""

    def fn(x: Any) -> None: ...

    fn.__annotations__ = {"x": hint}
    fn.__defaults__ = default
    app = App("test")
    app.add_tool(fn)
    app.registry.resolve()
    return app.registry.tools["fn"]


def decode(hint: Any, value: Any, *default: Any) -> Any:
    """What the function gets for `x`; bytes are JSON already."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return tool(hint, *default).decode(msgspec.Raw(b'{"x": %b}' % text))["x"]


def problem(hint: Any, value: Any, *default: Any) -> str:
    """What the model is told."""
    with pytest.raises(ArgumentError) as caught:
        decode(hint, value, *default)
    return str(caught.value)


# -- What fits is what it is -------------------------------------------------------------

UTC = datetime.UTC

EXACT = [
    (int, 42, 42),
    (int, b"123456789012345678901234567890", 123456789012345678901234567890),
    (int, b"4.0", 4),
    (int, b"1e2", 100),
    (float, 1, 1.0),
    (bool, True, True),
    (str, "", ""),
    (bytes, "aGk=", b"hi"),
    (bytearray, "aGk=", bytearray(b"hi")),
    (None, None, None),
    (list[int], [], []),
    (set[int], [1, 1], {1}),
    (frozenset[str], ["a"], frozenset("a")),
    (tuple[int, str], [1, "a"], (1, "a")),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (dict[Colour, int], {"red": 1}, {Colour.RED: 1}),
    (Literal["a", 1, None], None, None),
    (Literal[True], True, True),
    (Colour, "red", Colour.RED),
    (Level, 2, Level.HIGH),
    (datetime.datetime, "2026-07-28T12:00:00Z", datetime.datetime(2026, 7, 28, 12, tzinfo=UTC)),
    (datetime.datetime, "2026-07-28T12:00:00", datetime.datetime(2026, 7, 28, 12)),
    (datetime.date, "2026-07-28", datetime.date(2026, 7, 28)),
    (datetime.time, "12:30:00", datetime.time(12, 30)),
    (datetime.timedelta, "PT90S", datetime.timedelta(seconds=90)),
    (uuid.UUID, "00000000-0000-0000-0000-000000000005", uuid.UUID(int=5)),
    (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
    (decimal.Decimal, b"1.50", decimal.Decimal("1.50")),
    (Point, {"x": 1}, Point(1)),
    (Point, {"x": 1, "unknown": 2}, Point(1)),
    (Named, {"fullName": "Ada", "tags": ["a"]}, Named("Ada", ["a"])),
    (Positional, [1], Positional(1)),
    (Data, {"a": 1, "b": [{"x": 2}], "c": None}, Data(1, [Point(2)])),
    (Attrs, {"a": 1}, Attrs(1)),
    (Typed, {"a": 1}, {"a": 1}),
    (Pair, [1, "b"], Pair(1, "b")),
    (Cat | Dog, {"kind": "dog"}, Dog()),
    (Tree, {"value": 1, "children": [{"value": 2}]}, Tree(1, [Tree(2)])),
    (Box[int], {"item": 1}, Box(1)),
    (UserId, 5, 5),
    (Model, {"a": 1, "inner": [{"x": 2}]}, Model(a=1, inner=[Inner(x=2)])),
    (object, {"a": [None]}, {"a": [None]}),
    (list[object], [1, "a"], [1, "a"]),
    (msgspec.Raw, {"a": 1}, msgspec.Raw(b'{"a": 1}')),
]


@pytest.mark.parametrize(("hint", "sent", "got"), EXACT)
def test_what_fits_arrives_as_its_type(hint: Any, sent: Any, got: Any) -> None:
    """Issue, "Decoding arguments": exactly as typed."""
    value = decode(hint, sent)
    assert value == got
    assert type(value) is type(got)


STRINGS = [
    (str, '{"a":1}'),
    (str, "42"),
    (str, "null"),
    (str, "true"),
    (str | None, "null"),
    (str | None, '"x"'),
    (str | list[str], "[1]"),
    (str | int, "42"),
    (Any, "42"),
    (object, "[1]"),
    (Literal["1", "2"], "1"),
    (Literal["a", "1", 1], "1"),
    (list[str], ["1", "null"]),
    (dict[str, str], {"a": "1"}),
]


@pytest.mark.parametrize(("hint", "value"), STRINGS)
def test_a_string_that_fits_stays_that_string(hint: Any, value: Any) -> None:
    """PITFALLS: `str` given JSON text stays exactly the string."""
    assert decode(hint, value) == value


@given(st.text())
@settings(max_examples=100, deadline=None)
def test_any_string_stays_that_string(text: str) -> None:
    """PITFALLS, the same for whatever text, also beside an argument that had to be read leniently."""
    assert STRING_AND_INT.decode(msgspec.Raw(json.dumps({"s": text, "n": "1"}).encode())) == {
        "s": text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
        "n": 1,
    }


def _string_and_int(s: str, n: int) -> None: ...


_app = App("test")
_app.add_tool(_string_and_int)
STRING_AND_INT = _app.registry.tools["_string_and_int"]


# -- What was meant ----------------------------------------------------------------------

LENIENT = [
    (int, "42", 42),
    (int, "-3", -3),
    (int, "123456789012345678901234567890", 123456789012345678901234567890),
    (float, "1.5", 1.5),
    (float, "2", 2.0),
    (float, "1e3", 1000.0),
    (bool, "true", True),
    (bool, "False", False),
    (int | None, "null", None),
    (int | None, "5", 5),
    (bool | None, "true", True),
    (int | float, "42", 42),
    (int | float, "4.5", 4.5),
    (int | bool, "true", True),
    (Level, "2", Level.HIGH),
    (Literal[1, 2], "2", 2),
    (Literal["a", 1], "1", 1),
    (None, "null", None),
    (list[int], "[1,2]", [1, 2]),
    (list[int], ["1", 2.0], [1, 2]),
    (list[int], ' ["1"]', [1]),
    (list[str], '["a"]', ["a"]),
    (list[int] | None, "null", None),
    (tuple[int, bool], '["1", "true"]', (1, True)),
    (set[int], "[1]", {1}),
    (dict[str, int], '{"a": "1"}', {"a": 1}),
    (dict[str, list[int]], {"a": '["1"]'}, {"a": [1]}),
    (list[int] | dict[str, int], '{"a": 1}', {"a": 1}),
    (Point, '{"x": 1}', Point(1)),
    (Point, {"x": "1", "label": "null"}, Point(1, 0, "null")),
    (Point | None, '{"x": "1"}', Point(1)),
    (list[Point], '[{"x": 1}]', [Point(1)]),
    (list[Point], ['{"x": "1"}'], [Point(1)]),
    (Data, {"a": "1", "b": '[{"x": "2"}]'}, Data(1, [Point(2)])),
    (Attrs, '{"a": "1"}', Attrs(1)),
    (Typed, '{"a": "1"}', {"a": 1}),
    (Pair, '["1"]', Pair(1)),
    (Cat | Dog, {"kind": "cat", "lives": "9"}, Cat(9)),
    (Cat | Dog, '{"kind": "cat", "lives": 9}', Cat(9)),
    (Tree, {"value": "1", "children": '[{"value": "2"}]'}, Tree(1, [Tree(2)])),
    (Box[list[int]], {"item": "[1]"}, Box([1])),
    (Model, '{"a": 1}', Model(a=1)),
    (Annotated[int, Param(ge=1)], "3", 3),
]


@pytest.mark.parametrize(("hint", "sent", "got"), LENIENT)
def test_a_string_is_read_where_the_type_cannot_be_that_string(hint: Any, sent: Any, got: Any) -> None:
    """DESIGN 4.2, leniency: scalars, arrays and objects sent as JSON text, at every depth."""
    value = decode(hint, sent)
    assert value == got
    assert type(value) is type(got)


@pytest.mark.parametrize("value", [None, "null"])
@pytest.mark.parametrize("hint", [int | None, int, Point | None, Annotated[int | None, Param(ge=1)]])
def test_null_is_taken_for_what_is_none_by_default(hint: Any, value: Any) -> None:
    """PITFALLS: `T | None = None`; `x: int = None` is meant the same."""
    assert decode(hint, value, None) is None


def test_raw_json_stays_raw_beside_what_is_read_leniently() -> None:
    """One sloppy argument changes nothing for the others."""

    def fn(raw: msgspec.Raw, n: int) -> str:
        return f"{bytes(raw).decode()} {n}"

    assert called(fn, {"raw": {"a": "1"}, "n": "1"})["content"][0]["text"] == '{"a":"1"} 1'


def test_what_is_absent_is_left_to_the_default_of_the_function() -> None:
    """The function's own default, whatever object that is."""
    sentinel = object()

    def fn(a: int, b: Any = sentinel) -> None: ...

    app = App("test")
    app.add_tool(fn)
    assert app.registry.tools["fn"].decode(msgspec.Raw(b'{"a": 1}')) == {"a": 1}


# -- What does not fit -------------------------------------------------------------------

MISFITS = [
    (int, 4.5, "`x`: expected integer, got number"),
    (int, True, "`x`: expected integer, got boolean"),
    (int, None, "`x`: expected integer, got null"),
    (int, "a,b", "`x`: expected integer, got string"),
    (int, "nan", "`x`: expected integer, got string"),
    (int, "4.0", "`x`: expected integer, got string"),
    (int, " 42", "`x`: expected integer, got string"),
    (int, "4_2", "`x`: expected integer, got string"),
    (int, "", "`x`: expected integer, got string"),
    (int, [1], "`x`: expected integer, got array"),
    (int, "9" * 5000, "`x`: expected integer, got string"),
    (float, "nan", "`x`: expected number, got string"),
    (float, "inf", "`x`: expected number, got string"),
    (float, "-Infinity", "`x`: expected number, got string"),
    (float, "1e400", "`x`: expected number, got string"),
    (float, True, "`x`: expected number, got boolean"),
    (bool, "yes", "`x`: expected boolean, got string"),
    (bool, 1, "`x`: expected boolean, got integer"),
    (str, 42, "`x`: expected string, got integer"),
    (str, None, "`x`: expected string, got null"),
    (str | None, 5, "`x`: expected string or null, got integer"),
    (bytes, "not base64", "`x`: invalid base64 encoded string"),
    (list[int], "1,2", "`x`: expected array, got string"),
    (list[int], "[1,2", "`x`: expected array, got string"),
    (list[int], None, "`x`: expected array, got null"),
    (list[int], [1, "b"], "`x[1]`: expected integer, got string"),
    (list[str], '["a", 1]', "`x[1]`: expected string, got integer"),
    (tuple[int, str], [1], "`x`: expected array of length 2"),
    (dict[str, int], [1], "`x`: expected object, got array"),
    (dict[str, int], {"a": "b"}, "`x[...]`: expected integer, got string"),
    (dict[int, str], {"secret": "a"}, "`x`: wrong key: expected integer, got string"),
    (dict[Colour, int], {"secret": 1}, "`x`: wrong key: expected one of: red, blue"),
    (Colour, "green", "`x`: expected one of: red, blue"),
    (Colour, 1, "`x`: expected string, got integer"),
    (Level, 3, "`x`: expected one of: 2, 1"),
    (Level, "HIGH", "`x`: expected integer, got string"),
    (Literal["a", "b"], "secret", "`x`: expected one of: a, b"),
    (Literal["a", True, None], "secret", "`x`: expected one of: a, true, null"),
    (list[Colour], ["red", "green"], "`x[1]`: expected one of: red, blue"),
    (datetime.datetime, "yesterday", "`x`: invalid RFC3339 encoded datetime"),
    (datetime.datetime, 0, "`x`: expected date-time string, got integer"),
    (datetime.date, 0, "`x`: expected date string, got integer"),
    (datetime.timedelta, 300, "`x`: expected duration string, got integer"),
    (uuid.UUID, "x", "`x`: invalid UUID"),
    (decimal.Decimal, "x", "`x`: invalid decimal string"),
    (Point, {}, "`x`: object missing required field `x`"),
    (Point, {"x": "secret"}, "`x.x`: expected integer, got string"),
    (Point, "secret", "`x`: expected object, got string"),
    (Named, {"fullName": "a", "secret": 1}, "`x`: object contains unknown field `secret`"),
    (Data, {"a": 1, "b": [{"x": 1}, {"x": []}]}, "`x.b[1].x`: expected integer, got array"),
    (Cat | Dog, {"kind": "secret"}, "`x.kind`: expected one of: cat, dog"),
    (Cat | Dog, {"lives": 1}, "`x`: object missing required field `kind`"),
    (Tree, {"value": 1, "children": [{"value": "secret"}]}, "`x.children[0].value`: expected integer, got string"),
    (Model, {"a": 0}, "`x`: `a`: Input should be greater than or equal to 1"),
    (Model, {}, "`x`: `a`: Field required"),
    (Model, "secret", "`x`: input should be a valid dictionary or instance of Model"),
    (Annotated[int, Param(ge=1, le=5)], 0, "`x`: expected integer >= 1"),
    (Annotated[int | None, Param(ge=1)], 0, "`x`: expected integer >= 1"),
    (Annotated[str, Param(min_length=2)], "a", "`x`: expected string of length >= 2"),
    (Annotated[str, Param(pattern="^a+$")], "secret", "`x`: expected string matching regex '^a+$'"),
    (Annotated[list[int], Param(max_length=1)], "[1, 2]", "`x`: expected array of length <= 1"),
    (float, b"1e400", "the arguments cannot be read: Number out of range - at `$[...]`"),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "sent", "text"), MISFITS)
def test_what_does_not_fit_is_said_by_name_without_the_value(hint: Any, sent: Any, text: str) -> None:
    """PITFALLS: an error naming the argument and the expected type; the value may be a secret."""
    said = problem(hint, sent)
    assert said == text
    assert "secret" not in said or "unknown field" in said


def test_a_value_that_looks_like_a_place_is_not_echoed() -> None:
    """The value of an enum error stands where msgspec puts the path."""
    assert problem(Colour, "x - at `$.secret`") == "`x`: expected one of: red, blue"
    assert problem(list[Colour], ["x' - at `$.secret"]) == "`x[0]`: expected one of: red, blue"


def test_every_wrong_argument_is_named_at_once() -> None:
    """A model corrects all of them in one go; unknown ones come with the known."""

    def fn(a: int, b: Colour, c: Point, d: int = 1) -> None: ...

    assert called(fn, {"a": "x", "b": "x", "e": 1, "f": 2}) == {
        "content": [
            {
                "type": "text",
                "text": "Invalid arguments for tool 't': unknown argument `e`; known arguments: `a`, `b`, `c`, `d`; "
                "unknown argument `f`; known arguments: `a`, `b`, `c`, `d`; `a`: expected integer, got string; "
                "`b`: expected one of: red, blue; `c`: missing, and it is required",
            }
        ],
        "isError": True,
    }


def test_arguments_that_are_absent_or_null_are_none_at_all() -> None:
    """TOOL-07; PITFALLS: `arguments` missing or null is `{}`, and a JSON string of an object is that object."""

    async def main() -> list[Any]:
        app = App("test")

        @app.tool
        def fn(a: int) -> int:
            return a

        async with talking(app) as peer:
            sent = [
                {},
                {"arguments": None},
                {"arguments": "null"},
                {"arguments": '{"a": 1}'},
                {"arguments": "{"},
            ]
            return [await peer.ask("tools/call", {"name": "fn"} | arguments) for arguments in sent]

    *absent, parsed, broken = trio.run(main)
    for result in absent:
        assert (
            result["content"][0]["text"]
            == "Invalid arguments for tool 'fn': `a`: missing, and it is required"
        )
    assert parsed["structuredContent"] == 1
    assert broken["error"]["code"] == -32602


def test_a_tool_without_arguments_takes_none() -> None:
    """SCH-05."""

    def fn() -> str:
        return "done"

    assert called(fn)["content"][0]["text"] == "done"
    (block,) = called(fn, {"a": 1})["content"]
    assert block["text"] == "Invalid arguments for tool 't': unknown argument `a`; known arguments: none"


def test_deep_nesting_is_an_error_and_not_the_end() -> None:
    """PITFALLS: JSON nested deeply; a recursive type followed down."""
    text = b'{"value":1,"children":[' * 600 + b'{"value":1}' + b"]}" * 600
    assert "nested too deeply" in problem(Tree, text)
    assert "nested too deeply" in problem(list[Any], b"[" * 5000 + b"]" * 5000)


def test_huge_strings_are_looked_at_once() -> None:
    """A megabyte where a number is expected is refused as fast as a byte."""
    for text in ("9" * 1_000_000, "[" * 1_000_000, "{" * 1_000_000, " " * 1_000_000):
        assert problem(list[int], text) == "`x`: expected array, got string"
        assert problem(float, text) == "`x`: expected number, got string"


# -- How functions are called ------------------------------------------------------------


class Options(TypedDict, total=False):
    limit: int
    order: Literal["up", "down"]


def test_arguments_reach_the_parameters_that_have_their_names() -> None:
    """Positional-only, keyword-only, unpacked, injected: whatever the signature looks like."""

    def fn(
        a: int,
        b: int = 2,
        c: int = 3,
        /,
        d: int = 4,
        *,
        ctx: SyncContext,
        e: int = 5,
        **more: Unpack[Options],
    ) -> str:
        return f"{a} {b} {c} {d} {e} {more} {ctx.method}"

    assert called(fn, {"a": 1})["content"][0]["text"] == "1 2 3 4 5 {} tools/call"
    sent = {"a": 1, "c": 30, "e": "50", "limit": "7", "d": 40}
    assert called(fn, sent)["content"][0]["text"] == "1 2 30 40 50 {'limit': 7} tools/call"


def test_names_that_are_no_fields_are_fine() -> None:
    """Parameters may be called what Python allows."""

    def fn(_x: int, __y: int, class_: int, p0: int, größe: int, self_: int) -> list[int]:
        return [_x, __y, class_, p0, größe, self_]

    names = ("_x", "__y", "class_", "p0", "größe", "self_")
    result = called(fn, dict(zip(names, range(6), strict=True)))
    assert result["structuredContent"] == [0, 1, 2, 3, 4, 5]


def test_mutable_arguments_and_defaults_are_not_shared() -> None:
    """Each call decodes its own."""

    def fn(items: list[int], seen: dict[str, int] | None = None) -> int:
        items.append(1)
        return len(items)

    assert [called(fn, {"items": []})["structuredContent"] for _ in range(2)] == [1, 1]


def test_a_partial_and_a_method_are_called_as_bound() -> None:
    """Class-based tools."""

    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def add(self, n: int = 1) -> int:
            self.count += n
            return self.count

    counter = Counter()
    assert called(counter.add, {"n": "5"})["structuredContent"] == 5
    assert called(counter.add)["structuredContent"] == 6


# -- With a schema of one's own ----------------------------------------------------------

OWN = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}, "in": {"$ref": "#/$defs/words"}},
    "required": ["n"],
    "$defs": {"words": {"type": "array", "items": {"enum": ["a", "b"]}}},
}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "breaks required ['n']"),
        ({"n": 0}, "`n`: breaks minimum 1"),
        ({"n": "1"}, "`n`: breaks type 'integer'"),
        ({"n": 1, "in": ["a", "secret"]}, "`in[1]`: breaks enum ['a', 'b']"),
    ],
)
def test_arguments_are_checked_against_a_hand_written_schema(arguments: dict[str, Any], text: str) -> None:
    """DESIGN 4.2: validated against it, exactly; the place and the rule are named, not the value."""

    def fn(**arguments: Any) -> str:
        raise AssertionError

    (block,) = called(fn, arguments, input_schema=OWN)["content"]
    assert block["text"] == f"Invalid arguments for tool 't': {text}"


def test_a_function_with_a_schema_takes_all_arguments_as_they_are() -> None:
    """DESIGN 4.2: `**arguments`, or one dict."""

    def spread(ctx: SyncContext, **arguments: Any) -> dict[str, Any]:
        return arguments

    def whole(ctx: SyncContext, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    sent = {"n": 1, "in": ["a"], "more": [None, {"x": "1"}]}
    for fn in (spread, whole):
        assert called(fn, sent, input_schema=OWN)["structuredContent"] == sent


def test_references_to_other_documents_are_never_followed() -> None:
    """SCH-02."""

    def fn(**arguments: Any) -> None: ...

    schema = {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema.json"}}}
    (block,) = called(fn, {"a": 1}, input_schema=schema)["content"]
    assert block["text"] == (
        "Invalid arguments for tool 't': the schema refers to 'https://example.com/schema.json', which is not "
        "part of it"
    )


# -- Anything ----------------------------------------------------------------------------

HINTS = [
    *(
        int,
        float,
        bool,
        str,
        bytes,
        list[int],
        dict[str, int],
        Colour,
        Level,
        Point,
        Data,
        Attrs,
        Typed,
        Pair,
    ),
    *(
        Cat | Dog,
        Tree,
        Model,
        int | None,
        datetime.datetime,
        uuid.UUID,
        decimal.Decimal,
        tuple[int, str],
        Any,
    ),
]
TOOLS = [tool(hint) for hint in HINTS]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(TOOLS), json_values, st.booleans())
@settings(max_examples=400, deadline=None)
def test_any_value_is_decoded_or_refused(tool: Tool, value: Any, as_text: bool) -> None:
    """Issue, "Bad input": random argument values; a misfit is an ArgumentError and nothing else."""
    sent = json.dumps(value) if as_text else value
    said = "`x`"
    try:
        assert "x" in tool.decode(msgspec.Raw(json.dumps({"x": sent}).encode()))
    except ArgumentError as error:
        said = str(error)
    assert "`x" in said or "the arguments cannot be read" in said


def test_enum_members_and_dataclasses_are_what_the_user_declared() -> None:
    """`match` and `is` work in the handler."""

    @dataclasses.dataclass(frozen=True)
    class Job:
        colour: Colour
        level: Level | None = None

    class Mode(str, enum.Enum):  # noqa: UP042 - as in older code
        FAST = "fast"

    def fn(job: Job, mode: Mode) -> str:
        assert job.colour is Colour.RED
        assert mode is Mode.FAST
        return f"{job.level!r}"

    result = called(fn, {"job": {"colour": "red", "level": "2"}, "mode": "fast"})
    assert result["content"][0]["text"] == "<Level.HIGH: 2>"
