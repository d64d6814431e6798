"""Forms from types: what they hold, how they are described, how what a person enters is read."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import enum
import pathlib
import uuid
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import ElicitForm, Param
from mcpkit.forms import Form, Misfit


class Size(enum.Enum):
    small = "s"
    large = "l"


class Level(enum.IntEnum):
    low = 1
    high = 2


class Inner(msgspec.Struct):
    a: int


class Everything(msgspec.Struct, kw_only=True):
    text: Annotated[str, Param("A text", title="Text", min_length=2, max_length=5, pattern="^[a-z]*$")]
    count: Annotated[int, Param(gt=0, lt=10)]
    weight: Annotated[float, Param(ge=0, lt=2)]
    yes: bool
    size: Size
    level: Level
    word: Literal["a", "b"]
    number: Literal[3, 4]
    sizes: Annotated[list[Size], Param(min_length=1, max_length=2)]
    words: list[Literal["x", "y"]]
    day: datetime.date
    moment: datetime.datetime
    mail: Annotated[str, Param(extra={"format": "email"})]
    link: Annotated[str, Param(extra={"format": "uri"})]
    maybe: str | None
    perhaps: Size | None = Size.large
    note: Annotated[int, Param("A note", ge=5)] | None = None


FILLED: dict[str, Any] = {
    "text": "abc",
    "count": 3,
    "weight": 1,
    "yes": True,
    "size": "s",
    "level": "2",
    "word": "a",
    "number": "4",
    "sizes": ["s", "l"],
    "words": [],
    "day": "2030-01-02",
    "moment": "2030-01-02T03:04:05Z",
    "mail": "a@b.example",
    "link": "https://example.com",
}


def form_of(hint: Any, default: Any = ...) -> Form:
    """A form with one field, x."""
    namespace: dict[str, Any] = {"__annotations__": {"x": hint}}
    if default is not ...:
        namespace["x"] = default
    return Form(dataclasses.dataclass(type("Sheet", (), namespace)))


def field(hint: Any, default: Any = ...) -> Any:
    """The schema of that field."""
    return form_of(hint, default).schema["properties"]["x"]


def test_every_type_has_its_shape() -> None:
    """Section 26: string, number, integer, boolean, choice, choice of several, with what forms know of them."""
    schema = Form(Everything).schema
    assert schema["type"] == "object"
    assert schema["required"] == list(FILLED)
    assert schema["properties"] == {
        "text": {"type": "string", "title": "Text", "description": "A text", "minLength": 2, "maxLength": 5},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "weight": {"type": "number", "minimum": 0},
        "yes": {"type": "boolean"},
        "size": {"type": "string", "enum": ["s", "l"]},
        "level": {"type": "string", "enum": ["1", "2"]},
        "word": {"type": "string", "enum": ["a", "b"]},
        "number": {"type": "string", "enum": ["3", "4"]},
        "sizes": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {"type": "string", "enum": ["s", "l"]},
        },
        "words": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
        "day": {"type": "string", "format": "date"},
        "moment": {"type": "string", "format": "date-time"},
        "mail": {"type": "string", "format": "email"},
        "link": {"type": "string", "format": "uri"},
        "maybe": {"type": "string"},
        "perhaps": {"type": "string", "enum": ["s", "l"], "default": "l"},
        "note": {"type": "integer", "description": "A note", "minimum": 5},
    }


def test_what_is_entered_comes_back_as_the_type() -> None:
    """S2C-06: choices of integers are strings on the wire; what is left out has its default, or is None."""
    read = Form(Everything).read(FILLED)
    assert read == Everything(
        text="abc",
        count=3,
        weight=1.0,
        yes=True,
        size=Size.small,
        level=Level.high,
        word="a",
        number=4,
        sizes=[Size.small, Size.large],
        words=[],
        day=datetime.date(2030, 1, 2),
        moment=datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        mail="a@b.example",
        link="https://example.com",
        maybe=None,
        perhaps=Size.large,
        note=None,
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"text": "a"}, "`text`: expected string of length >= 2"),
        ({"text": "ABC"}, "`text`: expected string matching regex '^[a-z]*$'"),
        ({"text": 7}, "`text`: expected string, got integer"),
        ({"count": 0}, "`count`: expected integer >= 1"),
        ({"count": "many"}, "`count`: expected integer, got string"),
        ({"weight": 2}, "`weight`: expected number < 2.0"),
        ({"yes": "perhaps"}, "`yes`: expected boolean, got string"),
        ({"size": "m"}, "`size`: expected one of: s, l"),
        ({"level": "3"}, "`level`: expected one of: 1, 2"),
        ({"sizes": []}, "`sizes`: expected array of length >= 1"),
        ({"sizes": ["s", "q"]}, "`sizes[1]`: expected one of: s, l"),
        ({"sizes": "s"}, "`sizes`: expected array, got string"),
        ({"day": "tomorrow"}, "`day`: invalid RFC3339 encoded date"),
        ({"mail": "nobody"}, "`mail`: is no email"),
        ({"link": "nowhere"}, "`link`: is no uri"),
        ({"note": 4}, "`note`: expected integer >= 5"),
        ({"perhaps": "z"}, "`perhaps`: expected one of: s, l"),
    ],
)
def test_what_does_not_fit_is_told_by_field(change: Any, reason: str) -> None:
    """S2C-06; the reason goes back to whoever entered it."""
    with pytest.raises(Misfit) as caught:
        Form(Everything).read({**FILLED, **change})
    assert str(caught.value) == reason


@pytest.mark.parametrize("name", FILLED)
def test_what_is_required_is_missed(name: str) -> None:
    """S2C-06: content without a required field does not fit."""
    with pytest.raises(Misfit, match=name):
        Form(Everything).read({key: value for key, value in FILLED.items() if key != name})


def test_nothing_entered_is_an_empty_form() -> None:
    """Schema, ElicitResult: `content` is optional."""
    assert form_of(int, 3).read(None).x == 3
    with pytest.raises(Misfit, match="x"):
        form_of(int).read(None)


def test_what_was_typed_is_read_leniently() -> None:
    """Clients send what stands in their text fields."""
    typed = {"count": "3", "weight": "0.5", "yes": "true", "note": "7"}
    read = Form(Everything).read({**FILLED, **typed})
    assert (read.count, read.weight, read.yes, read.note) == (3, 0.5, True, 7)


def test_fields_that_were_left_blank_are_left_out() -> None:
    """Clients send what they show for an empty field: nothing, or an empty text, which only a text can be."""
    blank = {"maybe": None, "perhaps": "", "note": ""}
    read = Form(Everything).read({**FILLED, **blank})
    assert (read.maybe, read.perhaps, read.note) == (None, Size.large, None)
    assert Form(Everything).read({**FILLED, "maybe": ""}).maybe == ""


@pytest.mark.parametrize(
    "hint",
    [
        bytes,
        Inner,
        Inner | None,
        list[str],
        list[int],
        list[Inner],
        dict[str, int],
        dict,
        list,
        tuple[int, int],
        Any,
        object,
        int | str,
        str | datetime.date,
        Literal["a", 1],
        pathlib.Path,
        complex,
        None,
    ],
)
def test_what_a_form_cannot_hold_is_refused_by_field(hint: Any) -> None:
    """ELI-01: nothing nested, no lists but of choices, no unions."""
    with pytest.raises(TypeError, match=r"form field 'Sheet\.x'"):
        form_of(hint)


@pytest.mark.parametrize(
    ("hint", "default", "reason"),
    [
        (int, "3", "is no integer"),
        (int, True, "is no integer"),
        (float, float("nan"), "is not finite"),
        (bool, 1, "is no boolean"),
        (str, 1, "is no string"),
        (Annotated[int, Param(ge=3)], 2, "is not at least 3"),
        (Annotated[int, Param(gt=3, le=5)], 3, "is not at most 5 and above 3"),
        (Annotated[str, Param(max_length=2)], "abc", "is not at most 2 characters"),
        (Annotated[str, Param(pattern="^a")], "b", "does not match ^a"),
        (Annotated[str, Param(extra={"format": "email"})], "b", "is no email"),
        (datetime.date, "soon", "is no date"),
        (Size, "m", "is not one of s, l"),
        (Level, "1", "is not one of 1, 2"),
        (Literal["a", "b"], "c", "is not one of a, b"),
    ],
)
def test_a_default_that_does_not_fit_is_refused_by_field(hint: Any, default: Any, reason: str) -> None:
    """ELI-03: defaults go to the wire, so that they must be valid there."""
    with pytest.raises(TypeError) as caught:
        field(hint, default)
    assert str(caught.value) == f"form field 'Sheet.x': its default {reason}"


def test_defaults_have_their_form_on_the_wire() -> None:
    """ELI-03: of choices their string, of dates their text."""
    assert field(Level, Level.high)["default"] == "2"
    assert field(datetime.date, datetime.date(2030, 1, 2))["default"] == "2030-01-02"
    assert field(float, 0.5)["default"] == 0.5
    assert "default" not in field(str | None, None)


def test_a_default_of_several_choices() -> None:
    """ELI-03, for a list; an empty one that is too short is refused."""

    class Chosen(msgspec.Struct):
        sizes: list[Level] = []

    class TooFew(msgspec.Struct):
        sizes: Annotated[list[Level], Param(min_length=1)] = []

    assert Form(Chosen).schema["properties"]["sizes"]["default"] == []
    with pytest.raises(TypeError, match=r"TooFew\.sizes': its default is not at least 1"):
        Form(TooFew)


TITLES = Param(extra={"enumNames": ["Small", "Large"]})


@pytest.mark.parametrize(
    ("hint", "shape"),
    [
        (Annotated[Size, TITLES], {"type": "string", "oneOf": ...}),
        (Annotated[Literal["s", "l"], TITLES], {"type": "string", "oneOf": ...}),
        (Annotated[list[Size], TITLES], {"type": "array", "items": {"anyOf": ...}}),
        (list[Annotated[Size, TITLES]], {"type": "array", "items": {"anyOf": ...}}),
    ],
)
def test_choices_have_titles_where_they_are_given(hint: Any, shape: Any) -> None:
    """ELI-04: oneOf for one, anyOf for several, and no enum beside it."""
    titled = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]
    expected = {
        key: titled if value is ... else {"anyOf": titled} if isinstance(value, dict) else value
        for key, value in shape.items()
    }
    assert field(hint) == expected


def test_titles_that_do_not_match_are_refused() -> None:
    """ELI-04: a title for each value."""
    for names in (["Small"], ["Small", 2], "sl"):
        with pytest.raises(TypeError, match=r"'Sheet\.x': enumNames has a title for each of s, l"):
            form_of(Annotated[Size, Param(extra={"enumNames": names})])


class Point(NamedTuple):
    x: int


class Typed(TypedDict):
    x: int


@pytest.mark.parametrize("kind", [int, str, Size, list[int], dict[str, int], Point, None])
def test_only_records_are_forms(kind: Any) -> None:
    """Section 26: the root is an object with properties."""
    with pytest.raises(TypeError, match="a form is a Struct or dataclass with fields"):
        Form(kind)


def test_other_records_are_forms_too() -> None:
    """TypedDicts, tagged Structs (the tag is nothing to ask for), renamed fields, no fields at all."""

    class Tagged(msgspec.Struct, tag=True, rename="camel"):
        how_many: int

    class Nothing(msgspec.Struct):
        pass

    assert Form(Typed).read({"x": "1"}) == {"x": 1}
    assert Form(Tagged).schema == {
        "type": "object",
        "properties": {"howMany": {"type": "integer"}},
        "required": ["howMany"],
    }
    assert Form(Tagged).read({"howMany": 2}) == Tagged(2)
    assert Form(Nothing).schema == {"type": "object", "properties": {}}
    assert Form(Nothing).read({"more": 1}) == Nothing()


def test_names_that_cannot_be_resolved_are_told() -> None:
    """A class that is local to a function, with hints that are strings."""

    class Hidden(enum.Enum):
        a = "a"

    class Local(msgspec.Struct):
        x: Hidden

    with pytest.raises(TypeError, match="form 'Local': name 'Hidden' is not defined"):
        Form(Local)


def test_a_form_of_the_module_is_checked_when_it_is_made() -> None:
    """What can be known before anybody asks is an error at once."""

    class Wrong(msgspec.Struct):
        id: list[uuid.UUID]

    with pytest.raises(TypeError, match=r"form field 'Wrong\.id'"):
        ElicitForm(Wrong, "Which?")


def test_bounds_around_an_optional_are_refused_by_field() -> None:
    """What records cannot express; the error says how to write it."""

    class Outside(msgspec.Struct):
        fine: int
        note: Annotated[int | None, Param(ge=5)] = None

    with pytest.raises(TypeError, match=r"form field 'Outside\.note' .* Bounds of an optional stand inside"):
        Form(Outside)


GIVEN: dict[str, Any] = {
    "type": "object",
    "title": "dropped",
    "properties": {
        "name": {"type": "string", "default": "John"},
        "age": {"type": "integer", "minimum": 1},
        "score": {"type": "number", "default": 95.5},
        "ok": {"type": "boolean"},
        "day": {"type": "string", "format": "date"},
        "plain": {"type": "string", "enum": ["a", "b"]},
        "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
        "legacy": {"type": "string", "enum": ["a"], "enumNames": ["A"]},
        "several": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 1},
        "titled_several": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
    },
    "required": ["age"],
}


def test_schemas_are_sent_as_they_are_given() -> None:
    """ELI-04, section 26: the legacy `enumNames` is still allowed; what only generators write is dropped."""
    assert Form(GIVEN).schema == {key: value for key, value in GIVEN.items() if key != "title"}


def test_content_for_a_given_schema_is_a_checked_dict() -> None:
    """S2C-06: read leniently, too; what the form does not know is kept."""
    content = {"age": "3", "titled": "a", "several": ["b"], "titled_several": ["a"], "more": None}
    assert Form(GIVEN).read(content) == {**content, "age": 3}
    assert Form(GIVEN).read({"age": 1, "day": "", "score": None}) == {"age": 1}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({}, "`age`: missing, and it is required"),
        ({"age": 0}, "`age`: is not at least 1"),
        ({"age": True}, "`age`: is no integer"),
        ({"age": 1, "ok": 1}, "`ok`: is no boolean"),
        ({"age": 1, "name": 1}, "`name`: is no string"),
        ({"age": 1, "day": "soon"}, "`day`: is no date"),
        ({"age": 1, "plain": "c"}, "`plain`: is not one of a, b"),
        ({"age": 1, "titled": "A"}, "`titled`: is not one of a"),
        ({"age": 1, "several": "a"}, "`several`: is no array"),
        ({"age": 1, "several": ["a", "b"]}, "`several`: is not at most 1"),
        ({"age": 1, "titled_several": ["b"]}, "`titled_several`: is not one of a"),
    ],
)
def test_content_that_does_not_fit_a_given_schema(content: Any, reason: str) -> None:
    """S2C-06."""
    with pytest.raises(Misfit) as caught:
        Form(GIVEN).read(content)
    assert str(caught.value) == reason


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**30)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["1e400", "9" * 50, "[1,2", "null", "true", "1.0"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


BOTH = ((Form(Everything), FILLED), (Form(GIVEN), {"age": 1}))


@given(content=st.dictionaries(st.sampled_from([*FILLED, "maybe", "note", "age", "several", "x"]), VALUES))
@settings(max_examples=100, deadline=None)
def test_whatever_is_entered_is_read_or_does_not_fit(content: Any) -> None:
    """S2C-06: a client sends what it likes; nothing else comes of it."""
    for form, filled in BOTH:
        for entered in (content, {**filled, **content}):
            with contextlib.suppress(Misfit):
                form.read(entered)


@pytest.mark.parametrize("name", [*FILLED, "note", "age", "several", "x"])
def test_values_without_measure_do_not_fit(name: str) -> None:
    """S2C-06: too deep, too large for any type."""
    for value in (nested(3000), 10**400, -(10**25), 2.0**70, "9" * 5000):
        for form, filled in BOTH:
            with contextlib.suppress(Misfit):
                form.read({**filled, name: value})


def test_given_schemas_are_left_alone() -> None:
    """A schema may be shared."""
    before = msgspec.json.encode(GIVEN)
    Form(GIVEN).read({"age": "1"})
    assert msgspec.json.encode(GIVEN) == before


@pytest.mark.parametrize(
    "member",
    [
        {"type": "object", "properties": {}},
        {"type": "array", "items": {"type": "string"}},
        {"type": "array", "items": {"type": "object"}},
        {"type": "array"},
        {"type": "array", "items": {"anyOf": [{"const": "a"}]}},
        {"$ref": "#/$defs/x"},
        {"allOf": []},
        {},
        True,
        {"type": ["string", "null"]},
        {"type": "string", "pattern": "x"},
        {"type": "string", "format": "ipv4"},
        {"type": "string", "enum": [1]},
        {"type": "string", "enum": ["a"], "enumNames": []},
        {"type": "string", "enum": ["a"], "oneOf": [{"const": "a", "title": "A"}]},
        {"type": "string", "oneOf": [{"const": 1, "title": "A"}]},
        {"type": "string", "anyOf": [{"const": "a", "title": "A"}]},
        {"type": "integer", "enum": [1]},
        {"type": "integer", "exclusiveMinimum": 1},
        {"type": "integer", "default": "x"},
        {"type": "string", "enum": ["a"], "default": "b"},
    ],
)
def test_a_given_schema_has_the_shape_of_forms(member: Any) -> None:
    """ELI-01: anything else is refused, naming the field."""
    with pytest.raises(TypeError, match="form field 'x'"):
        Form({"type": "object", "properties": {"x": member}})


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "string"},
        {"type": "object"},
        {"type": "object", "properties": {}, "allOf": []},
        {"type": "object", "properties": {}, "$defs": {}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]},
    ],
)
def test_a_given_schema_has_the_root_of_forms(schema: Any) -> None:
    """ELI-01."""
    with pytest.raises(TypeError):
        Form(schema)
