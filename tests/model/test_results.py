"""What a tool returns, and what the client gets: text, content, structure, or an error that says what to do."""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import json
import logging
import re
import uuid
from collections.abc import Callable
from typing import Annotated, Any

import jsonschema
import msgspec
import pydantic
import pytest
import trio
from clients.peer import called, described, talking
from model.kinds import Attrs, Box, Cat, Colour, Data, Dog, Level, Named, Pair, Point, Positional, Tree, Typed
from support import REVISIONS, STATELESS

from mcpkit import (
    Annotations,
    App,
    Audio,
    EmbeddedResource,
    Image,
    McpError,
    NotFound,
    Param,
    ResourceLink,
    Text,
    ToolError,
    ToolResult,
    user,
)

PNG = b"\x89PNG\r\n\x1a\n"
UNDECLARED: Any = object()


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What a failed call logs is no part of the report."""
    caplog.set_level(logging.CRITICAL, "mcpkit")


def returning(value: Any, hint: Any = UNDECLARED) -> Callable[[], Any]:
    """A tool that returns this value, declared so; a function is called for it."""

    def fn():  # type: ignore[no-untyped-def]
        return value() if callable(value) and not isinstance(value, type) else value

    if hint is not UNDECLARED:
        fn.__annotations__ = {"return": hint}
    return fn


def sent(value: Any, hint: Any = UNDECLARED, revision: str = STATELESS) -> Any:
    """The result that a client gets."""
    return called(returning(value, hint), revision=revision, inline=True)


def failure(value: Any, hint: Any = UNDECLARED) -> str:
    """What the client is told of a value that cannot be sent."""
    result = sent(value, hint)
    assert result.keys() == {"content", "isError"}
    said = re.fullmatch(r"Internal error \(ref [0-9a-f]{6}\): (.*)", result["content"][0]["text"], re.DOTALL)
    assert said is not None, result
    return said[1]


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


# -- Structure ---------------------------------------------------------------------------


class Plain(str):
    """A subclass of a builtin type, as libraries return them."""


class Count(int):
    """Another one."""


class Share(float):
    """Another one."""


class Blob(bytes):
    """Another one."""


class Scalar:
    """What numpy's scalars and arrays look like."""

    dtype = "int64"

    def __init__(self, value: Any) -> None:
        self.value = value

    def tolist(self) -> Any:
        return self.value


STRUCTURE: list[tuple[Any, Any]] = [
    (5, 5),
    (1.5, 1.5),
    (True, True),
    ([], []),
    ([1, 2], [1, 2]),
    (["a", "b"], ["a", "b"]),
    (["a", 1, None], ["a", 1, None]),
    ((1, "a"), [1, "a"]),
    ({}, {}),
    ({"a": [{"b": None}]}, {"a": [{"b": None}]}),
    ({1: "a", Colour.RED: 2}, {"1": "a", "red": 2}),
    ({1}, [1]),
    (frozenset("a"), ["a"]),
    (b"hi", "aGk="),
    (bytearray(b"hi"), "aGk="),
    (memoryview(b"hi"), "aGk="),
    (2**70, 2**70),
    (-(2**70), -(2**70)),
    (datetime.datetime(2026, 7, 28, 12, tzinfo=datetime.UTC), "2026-07-28T12:00:00Z"),
    (datetime.date(2026, 7, 28), "2026-07-28"),
    (datetime.time(12, 30), "12:30:00"),
    (datetime.timedelta(seconds=90), "PT90S"),
    (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    (decimal.Decimal("1.50"), "1.50"),
    (Colour.RED, "red"),
    (Level.HIGH, 2),
    (Point(1), {"x": 1, "y": 0, "label": None}),
    (Named("Ada"), {"fullName": "Ada", "tags": []}),
    (Positional(1), [1, 0]),
    (Cat(9), {"kind": "cat", "lives": 9}),
    (Data(1, [Point(2)]), {"a": 1, "b": [{"x": 2, "y": 0, "label": None}], "c": None}),
    (Attrs(1), {"a": 1, "b": "x", "c": [], "hidden": 1}),
    (Pair(1), [1, "x"]),
    (Tree(1, [Tree(2)]), {"value": 1, "children": [{"value": 2, "children": [], "parent": None}], "parent": None}),
    (msgspec.Raw(b'{"a":1}'), {"a": 1}),
    (collections.Counter("aab"), {"a": 2, "b": 1}),
    (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    ({"a": Plain("x"), Plain("b"): Count(1)}, {"a": "x", "b": 1}),
    ([Share(0.5), Blob(b"hi")], [0.5, "aGk="]),
    (Count(1), 1),
    (Scalar(5), 5),
    ({"rows": Scalar([[1, 2], [3, 4]])}, {"rows": [[1, 2], [3, 4]]}),
    ({"a": "\ud800"}, {"a": "\ufffd"}),
    (ToolResult(structured=None), None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "structure"), STRUCTURE)
def test_any_value_is_structure_and_the_same_as_text(value: Any, structure: Any) -> None:
    """DESIGN 4.2: structuredContent plus the same JSON, compact, as a text block."""
    encoded = json.dumps(structure, separators=(",", ":"), ensure_ascii=False)
    assert sent(value) == {"content": [text(encoded)], "structuredContent": structure}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("value", "hint"), [([1], list[int]), ({"a": 1}, dict[str, int]), (None, int | None)]
)
def test_structure_is_narrowed_to_the_revision(value: Any, hint: Any, revision: str) -> None:
    """DESIGN 4.2: what is no object is wrapped for 2025-06-18 and 2025-11-25; the text never is."""
    result = sent(value, hint, revision)
    encoded = json.dumps(value, separators=(",", ":"))
    assert result["content"] == [text(encoded)]
    if revision < "2025-06-18":
        assert "structuredContent" not in result
    else:
        whole = revision == STATELESS or isinstance(value, dict)
        assert result["structuredContent"] == (value if whole else {"result": value})


FITTING: list[tuple[Any, Any]] = [
    (5, int),
    (5, float),
    (None, int | None),
    ([Point(1)], list[Point]),
    ([{"x": 1}], list[Point]),
    ({"x": 1}, Point),
    ({"a": 1}, Typed),
    ({1: "a"}, dict[int, str]),
    ({"red": 1}, dict[Colour, int]),
    ({1, 2}, set[int]),
    ((1, "a"), tuple[int, str]),
    ("red", Colour),
    (Colour.RED, Colour),
    (b"hi", bytes),
    (2**80, int),
    (datetime.datetime(2026, 7, 28, tzinfo=datetime.UTC), datetime.datetime),
    (Dog(), Cat | Dog),
    (Tree(1, [Tree(2)]), Tree),
    (Box(1), Box[int]),
    (Scalar(5), int),
    (Count(5), int),
    (5, object),
    (None, object),
    (3, Annotated[int, Param(le=5)]),
    (3, Annotated[int | None, Param(le=5)]),
    (ToolResult("x", structured={"x": 1}), Point),
]


@pytest.mark.parametrize(("value", "hint"), FITTING)
def test_what_is_declared_fits_the_schema_that_is_listed(value: Any, hint: Any) -> None:
    """TOOL-10."""
    schema = described(returning(value, hint)).output_schema
    assert schema is not None
    result = sent(value, hint)
    jsonschema.Draft202012Validator(schema).validate(result["structuredContent"])


MISFITS: list[tuple[Any, Any, str]] = [
    ("5", int, "Expected `int`, got `str`"),
    (5.0, int, "Expected `int`, got `float`"),
    (None, int, "Expected `int`, got `null`"),
    (1, bool, "Expected `bool`, got `int`"),
    (None, dict, "Expected `object`, got `null`"),
    (None, list[int], "Expected `array`, got `null`"),
    ([1, "b"], list[int], "Expected `int`, got `str` - at `$[1]`"),
    ([{"x": "b"}], list[Point], "Expected `int`, got `str` - at `$[0].x`"),
    ({}, Typed, "Object missing required field `a`"),
    ("green", Colour, "Invalid enum value 'green'"),
    ((1,), tuple[int, str], "Expected `array` of length 2"),
    (9, Annotated[int, Param(le=5)], "Expected `int` <= 5"),
    (Box("x"), Box[int], "Expected `int`, got `str` - at `$.item`"),
    (ToolResult("x", structured={"x": "b"}), Point, "Expected `int`, got `str` - at `$.x`"),
    (5, str, "it is declared as text or content, and is neither"),
    ({"a": 1}, str | None, "it is declared as text or content, and is neither"),
    (["a"], str, "it is declared as text or content, and is neither"),
    ({"a": 1}, Image, "it is declared as text or content, and is neither"),
    ([1], list[Image | str], "it is declared as text or content, and is neither"),
    ({"a": "b"}, Image | dict[str, int], "Expected `int`, got `str` - at `$[...]`"),
]


@pytest.mark.parametrize(("value", "hint", "why"), MISFITS)
def test_what_does_not_fit_its_declared_type_is_never_sent(value: Any, hint: Any, why: str) -> None:
    """PITFALLS: a wrong shape returned against the declared return type."""
    assert failure(value, hint) == f"the result does not fit its declared type: {why}"


def test_other_promises_are_kept_too() -> None:
    """`-> None`, an output schema and a ToolResult without structure, content where structure was declared."""
    assert failure(5, None) == "the tool is declared to return None, and returned a value of type int"
    assert failure(ToolResult("x"), Point) == (
        "the tool has an output schema, so its ToolResult needs structured="
    )
    for value in (Image(PNG), [Image(PNG), "a"]):
        assert failure(value, list[Any]) == (
            "the tool is declared to return structure, and returned content: annotate it with what it returns, such "
            "as list[Image | str], or leave the annotation out"
        )


UNSENDABLE: list[tuple[Any, str]] = [
    (float("nan"), "the result holds NaN or an infinite number, which JSON cannot express"),
    ([None, {"a": float("inf")}], "the result holds NaN or an infinite number, which JSON cannot express"),
    (Share("nan"), "the result holds NaN or an infinite number, which JSON cannot express"),
    (Scalar([1.0, float("nan")]), "the result holds NaN or an infinite number, which JSON cannot express"),
    (
        {"a": float("nan"), "b": "\ud800"},
        "the result holds NaN or an infinite number, which JSON cannot express",
    ),
    (
        lambda: (n for n in (1, 2)),
        "the result is a generator or another iterator: return a list of what it yields",
    ),
    (lambda: map(str, [1]), "the result is a generator or another iterator: return a list of what it yields"),
    (object(), "the result cannot be sent: a value of type object has no JSON form"),
    (1j, "the result cannot be sent: a value of type complex has no JSON form"),
    (range(3), "the result cannot be sent: a value of type range has no JSON form"),
    (ValueError("secret"), "the result cannot be sent: a value of type ValueError has no JSON form"),
    (int, "the result cannot be sent: a value of type type has no JSON form"),
    ({"a": {1: object()}}, "the result cannot be sent: a value of type object has no JSON form"),
    ({(1, 2): 3}, "the result cannot be sent: a value of type tuple has no JSON form"),
    ({"a": Image(PNG)}, "the result cannot be sent: a value of type Image has no JSON form"),
    ([Image(PNG), 5], "the result cannot be sent: a value of type Image has no JSON form"),
    (user("x"), "the result cannot be sent: a value of type Message has no JSON form"),
]


@pytest.mark.parametrize(("value", "why"), UNSENDABLE)
def test_what_has_no_json_form_is_a_clear_error(value: Any, why: str) -> None:
    """PITFALLS: NaN, generators and the like; never a broken message."""
    assert failure(value) == why


def test_a_value_that_contains_itself_is_a_clear_error() -> None:
    """PITFALLS, deep nesting."""
    circle: list[Any] = []
    circle.append(circle)
    assert failure(circle) == "the result is nested too deeply, or contains itself"


def test_ten_megabytes_arrive_whole() -> None:
    """Results have no limit of their own."""
    result = sent("ü" * 5_000_000)
    assert result == {"content": [text("ü" * 5_000_000)]}
    rows = [{"number": n, "name": "x" * 90} for n in range(50_000)]
    assert sent(rows, list[dict[str, Any]])["structuredContent"] == rows


# -- Text and content --------------------------------------------------------------------


class Picture:
    """What the images of Pillow look like."""

    def __init__(self, data: bytes | None = PNG) -> None:
        self.data = data

    def _repr_png_(self) -> bytes | None:
        return self.data


IMAGE = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}

CONTENT: list[tuple[Any, list[Any]]] = [
    ("hi", [text("hi")]),
    ("", [text("")]),
    ("42", [text("42")]),
    ("a\ud800b", [text("a\ufffdb")]),
    ("a\0b\u2028", [text("a\0b\u2028")]),
    (Plain("hi"), [text("hi")]),
    (enum.StrEnum("Mode", ["FAST"])("fast"), [text("fast")]),
    (None, []),
    (Text("hi"), [text("hi")]),
    (Text(Plain("hi")), [text("hi")]),
    (Image(PNG), [IMAGE]),
    ([Image(PNG), "and text"], [IMAGE, text("and text")]),
    ((Text("a"), Text("b")), [text("a"), text("b")]),
    (Picture(), [IMAGE]),
    ([Picture(), "a"], [IMAGE, text("a")]),
    (Audio(b"ID3"), [{"type": "audio", "data": "SUQz", "mimeType": "audio/mpeg"}]),
    (ResourceLink("docs://a/b"), [{"type": "resource_link", "uri": "docs://a/b", "name": "b"}]),
    (
        ResourceLink("docs://a", "A", title="T", description="D", mime_type="text/plain", size=3),
        [
            {
                "type": "resource_link",
                "uri": "docs://a",
                "name": "A",
                "title": "T",
                "description": "D",
                "mimeType": "text/plain",
                "size": 3,
            }
        ],
    ),
    (
        EmbeddedResource("docs://a", text="x", mime_type="text/plain"),
        [{"type": "resource", "resource": {"uri": "docs://a", "text": "x", "mimeType": "text/plain"}}],
    ),
    (
        EmbeddedResource("docs://a", blob=b"hi"),
        [{"type": "resource", "resource": {"uri": "docs://a", "blob": "aGk="}}],
    ),
    (
        Text("hi", Annotations(("user", "assistant"), 0.5, "2026-07-28T00:00:00Z")),
        [
            text("hi")
            | {
                "annotations": {
                    "audience": ["user", "assistant"],
                    "priority": 0.5,
                    "lastModified": "2026-07-28T00:00:00Z",
                }
            }
        ],
    ),
    (ToolResult("hi"), [text("hi")]),
    (ToolResult(["a", Image(PNG)]), [text("a"), IMAGE]),
    (ToolResult(), []),
]


@pytest.mark.parametrize(("value", "content"), CONTENT)
def test_text_and_blocks_are_sent_as_they_are(value: Any, content: list[Any]) -> None:
    """DESIGN 4.2: str is one text block, blocks and lists of them as they are, None is no content."""
    assert sent(value) == {"content": content}


DECLARED: list[tuple[Any, Any, list[Any]]] = [
    ("hi", str, [text("hi")]),
    (None, None, []),
    (None, str | None, []),
    (None, str, []),
    ("instead", Image, [text("instead")]),
    ([], list[Image], []),
    (["a", "b"], list[Image | str], [text("a"), text("b")]),
    (Picture(), Picture, [IMAGE]),
    (ToolResult("x", structured={"a": 1}), ToolResult, [text("x")]),
    ("x", Any, [text("x")]),
]


@pytest.mark.parametrize(("value", "hint", "content"), DECLARED)
def test_declared_content_is_sent_as_content(value: Any, hint: Any, content: list[Any]) -> None:
    """A list of strings is structure, unless the tool is declared to return a list of content."""
    assert sent(value, hint)["content"] == content


def test_a_result_written_out_has_what_it_says() -> None:
    """DESIGN 4.2: ToolResult for full control; without content, structure is its own text (TOOL-11)."""
    whole = ToolResult(["a"], structured={"n": 1}, is_error=True, meta={"example.com/trace": "x"})
    assert sent(whole) == {
        "content": [text("a")],
        "structuredContent": {"n": 1},
        "isError": True,
        "_meta": {"example.com/trace": "x"},
    }
    assert sent(ToolResult(structured=[1]))["content"] == [text("[1]")]
    assert sent(ToolResult([], structured=[1]))["content"] == []
    assert sent(ToolResult("no", is_error=True), Point) == {"content": [text("no")], "isError": True}


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Text(5), "text: expected `str`, got `int`"),
        (lambda: Text("a", Annotations("user")), "annotations.audience: expected `array`, got `str`"),
        (lambda: Text("a", Annotations(priority="high")), "annotations.priority: expected `float | null`, got `str`"),
        (lambda: ResourceLink("a:b", size="big"), "size: expected `int | null`, got `str`"),
        (lambda: Image(PNG, 5), "mimeType: expected `str`, got `int`"),
        (lambda: EmbeddedResource("a:b"), "EmbeddedResource('a:b') needs either text= or blob="),
        (lambda: EmbeddedResource("a:b", text="", blob=b""), "EmbeddedResource('a:b') needs either text= or blob="),
        (
            lambda: Image(b"what is this"),
            'the MIME type cannot be told from the data: pass mime_type="image/png" or the like',
        ),
        (
            lambda: ToolResult(meta={"io.mcp/x": 1}),
            "_meta key 'io.mcp/x' belongs to the protocol: use a prefix of your own, like 'example.com/'",
        ),
    ],
)  # fmt: skip
def test_a_block_that_no_client_could_read_is_refused_where_it_is_made(make: Any, text: str) -> None:
    """The traceback points at the line of the user."""
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"<svg xmlns=''/>", "image/svg+xml"),
    ],
)
def test_the_kind_of_an_image_is_told_from_its_bytes(data: bytes, mime_type: str) -> None:
    """DESIGN 4.2: `Image(data_or_path, mime_type=None)`."""
    (block,) = sent(Image(data))["content"]
    assert (block["mimeType"], base64.b64decode(block["data"])) == (mime_type, data)


def test_the_kind_of_a_file_is_told_from_its_bytes_or_its_name(tmp_path: Any) -> None:
    """DESIGN 4.2: a path as a string or a Path."""
    for name, data, mime_type in (("a.png", b"x", "image/png"), ("b", PNG, "image/png")):
        path = tmp_path / name
        path.write_bytes(data)
        for given in (path, str(path)):
            assert sent(Image(given))["content"][0]["mimeType"] == mime_type
    path = tmp_path / "c.ogg"
    path.write_bytes(b"OggS")
    assert sent(Audio(path))["content"][0]["mimeType"] == "audio/ogg"


def test_an_image_that_cannot_be_written_is_an_error() -> None:
    """Pillow returns nothing for what PNG cannot hold."""
    result = sent(Picture(None))
    assert result["isError"] is True


# -- pydantic ----------------------------------------------------------------------------


class Account(pydantic.BaseModel):
    """Written differently from how it is read: a computed field, an excluded one, a name for output only."""

    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(serialization_alias="fullName")
    password: str = pydantic.Field(exclude=True)

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def shout(self) -> str:
        return self.name.upper()


ACCOUNT = {"fullName": "Ada", "shout": "ADA"}


class Team(msgspec.Struct):
    lead: Account
    others: list[Account] = []


@pytest.mark.parametrize(
    ("value", "hint", "structure"),
    [
        (Account(name="Ada", password="x"), Account, ACCOUNT),
        ([Account(name="Ada", password="x")] * 2, list[Account], [ACCOUNT] * 2),
        (
            Team(Account(name="Ada", password="x"), [Account(name="Ada", password="y")]),
            Team,
            {"lead": ACCOUNT, "others": [ACCOUNT]},
        ),
        (Account(name="Ada", password="x"), UNDECLARED, ACCOUNT),
        (Account(name="Ada", password="x"), Account | None, ACCOUNT),
    ],
)
def test_a_model_fits_its_own_type(value: Any, hint: Any, structure: Any) -> None:
    """DESIGN 3: pydantic models as results, however they are written."""
    assert sent(value, hint)["structuredContent"] == structure


def test_a_dict_is_validated_as_the_model_that_was_declared() -> None:
    """PITFALLS: a wrong shape."""
    assert failure({"name": 5, "password": "x"}, Account) == (
        "the result does not fit its declared type: `name`: Input should be a valid string"
    )
    assert failure([Account(name="Ada", password="x"), {"name": 5}], list[Account]).startswith(
        "the result does not fit its declared type: "
    )


# -- Raising -----------------------------------------------------------------------------


def raising(error: BaseException) -> Callable[[], str]:
    def fn() -> str:
        raise error

    return fn


def test_a_tool_error_is_shown() -> None:
    """DESIGN 4.2: isError with that text."""
    assert called(raising(ToolError("Out of paper"))) == {"content": [text("Out of paper")], "isError": True}
    group = ExceptionGroup("several", [ToolError("Out of paper")])
    assert called(raising(group)) == {"content": [text("Out of paper")], "isError": True}


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


SECRETS: list[BaseException] = [
    ValueError("the password is secret"),
    KeyError("secret"),
    SystemExit("secret"),
    KeyboardInterrupt("secret"),
    GeneratorExit("secret"),
    StopIteration("secret"),
    ExceptionGroup("secret", [ValueError("secret"), TypeError("secret")]),
    Unprintable(),
    RecursionError("secret"),
    MemoryError("secret"),
    AssertionError("secret"),
]


@pytest.mark.parametrize("mode", ["thread", "task", "inline"])
@pytest.mark.parametrize("error", SECRETS, ids=lambda error: type(error).__name__)
def test_any_other_exception_fails_this_call_alone_and_says_nothing(error: BaseException, mode: str) -> None:
    """PITFALLS: an exception whose text holds a secret; SystemExit and KeyboardInterrupt in a handler."""

    async def task() -> str:
        raise error

    async def main() -> None:
        app = App("test")
        app.add_tool(task if mode == "task" else raising(error), name="fails", inline=mode == "inline")
        app.add_tool(returning("fine"), name="works")
        async with talking(app) as peer:
            failed = await peer.call("fails")
            assert failed["isError"] is True
            assert re.fullmatch(r"Internal error \(ref [0-9a-f]{6}\)", failed["content"][0]["text"])
            assert (await peer.call("works"))["content"] == [text("fine")]

    trio.run(main)


def test_in_debug_mode_the_text_is_shown() -> None:
    """DESIGN 4.2: `debug=True`."""

    async def main() -> str:
        app = App("test", debug=True)
        app.add_tool(raising(ValueError("the password is secret")), name="t")
        async with talking(app) as peer:
            shown: str = (await peer.call("t"))["content"][0]["text"]
            return shown

    assert trio.run(main).endswith(": ValueError: the password is secret")


@pytest.mark.parametrize(
    ("error", "code", "revision"),
    [
        (McpError(4001, "refused", {"why": "x"}), 4001, STATELESS),
        (NotFound("gone"), -32602, STATELESS),
        (NotFound("gone"), -32002, "2025-11-25"),
    ],
)
def test_a_protocol_error_is_an_error_of_the_protocol(error: McpError, code: int, revision: str) -> None:
    """TOOL-09: handlers may raise an explicit protocol error."""
    assert called(raising(error), revision=revision)["error"]["code"] == code


def test_a_timeout_is_an_error_result() -> None:
    """DESIGN 4.2: `timeout=` seconds give an error result."""

    async def fn() -> None:
        await trio.sleep_forever()

    assert called(fn, timeout=0.01) == {
        "content": [text("Tool 't' failed: it did not finish within 0.01 s")],
        "isError": True,
    }


# -- Schemas of one's own ----------------------------------------------------------------


def test_results_are_checked_against_a_hand_written_schema() -> None:
    """TOOL-10, with `output_schema=`."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert called(returning({"n": 1}), output_schema=schema)["structuredContent"] == {"n": 1}
    (block,) = called(returning({"n": "x"}), output_schema=schema)["content"]
    assert block["text"].endswith(": the result does not fit its declared type: `n`: breaks type 'integer'")


# -- Many at once ------------------------------------------------------------------------


def test_a_thousand_tools_are_one_page_and_more_are_two() -> None:
    """DESIGN 4.1: one page up to 1,000 entries, then opaque cursors."""

    async def main(count: int) -> list[int]:
        app = App("test")
        for number in range(count):
            app.add_tool(returning(number), name=f"tool_{number}")
        sizes: list[int] = []
        async with talking(app) as peer:
            page = await peer.ask("tools/list")
            sizes.append(len(page["tools"]))
            while "nextCursor" in page:
                page = await peer.ask("tools/list", {"cursor": page["nextCursor"]})
                sizes.append(len(page["tools"]))
            assert (await peer.call(f"tool_{count - 1}"))["structuredContent"] == count - 1
        return sizes

    assert trio.run(main, 1000) == [1000]
    assert trio.run(main, 1001) == [1000, 1]


def test_values_of_records_are_not_changed_by_sending_them() -> None:
    """A tool may return what it keeps."""

    @dataclasses.dataclass
    class Shelf:
        items: list[Point]

    shelf = Shelf([Point(1)])
    result = sent(shelf, Shelf)
    shelf.items.append(Point(2))
    assert result["structuredContent"] == {"items": [{"x": 1, "y": 0, "label": None}]}
    assert len(sent(shelf, Shelf)["structuredContent"]["items"]) == 2
