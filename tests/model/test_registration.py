"""What is wrong with a function is said when it is registered: what happened, why, and what to do."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import datetime
import enum
import math
import pathlib
import typing
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

import msgspec
import pydantic
import pytest
from clients.peer import described
from model.kinds import Data, Level, Point, Tree

from mcpkit import App, Blueprint, Complete, Context, Header, Icon, Image, Param, SyncContext
from mcpkit.scaffold import ToolOptions

if TYPE_CHECKING:
    from decimal import Decimal


class Figure:
    """A class of some library."""


class Mixed(enum.Enum):
    A = "a"
    B = 2


class Empty(enum.Enum):
    pass


class Options(TypedDict):
    limit: int


@dataclasses.dataclass
class WithInitVar:
    a: int
    b: dataclasses.InitVar[int] = 1


def refused(fn: Any, **options: Any) -> str:
    """What registering (and serving) says."""
    app = App("test")
    with pytest.raises((TypeError, ValueError)) as caught:  # noqa: PT012 - at once, or at the latest before serving
        app.add_tool(fn, **options)
        app.registry.resolve()
    assert type(caught.value) in (TypeError, ValueError)
    return str(caught.value)


def with_parameter(hint: Any) -> Callable[..., Any]:
    """A tool `plot` whose parameter `fig` has this type."""

    def plot(fig: Any) -> str: ...

    plot.__annotations__ = {"fig": hint}
    return plot


def with_result(hint: Any) -> Callable[..., Any]:
    """A tool `plot` that returns this type."""

    def plot() -> Any: ...

    plot.__annotations__ = {"return": hint}
    return plot


# -- Parameters --------------------------------------------------------------------------

GENERAL = "Use a Struct, a dataclass or a builtin type."
ENUM = "Give the members of the enum values that are all strings or all integers."
SHAPE = "Write it as list[…], dict[str, …] or tuple[…]."

PARAMETERS = [
    (Figure, f"Figure, which has no JSON form. {GENERAL}"),
    (list[Figure], f"Figure, which has no JSON form. {GENERAL}"),
    (dict[str, list[Figure | None]], f"Figure, which has no JSON form. {GENERAL}"),
    (complex, "complex, which has no JSON form. Use a list of two numbers."),
    (
        Callable[[int], int],
        "Callable, which has no JSON form. Use an enum of names, and look the function up.",
    ),
    (collections.abc.Iterable[int], "Iterable, which has no JSON form. Use a list."),
    (Iterator[int], "Iterator, which has no JSON form. Use a list."),
    (collections.deque, "deque, which has no JSON form. Use a list."),
    (collections.defaultdict, "defaultdict, which has no JSON form. Use a dict."),
    (pathlib.Path, "Path, which has no JSON form. Use a str."),
    (Literal[1.5], "Literal[1.5], which has no JSON form. Use strings, integers or booleans as literals."),
    (Mixed, f"Mixed, which has no JSON form. {ENUM}"),
    (Empty, f"Empty, which has no JSON form. {ENUM}"),
    ([int], f"[<class 'int'>], which has no JSON form. {SHAPE}"),
    ({"a": int}, f"{{'a': <class 'int'>}}, which has no JSON form. {SHAPE}"),
    (3, f"3, which has no JSON form. {GENERAL}"),
    (dict[int], "dict of one type, which has no JSON form. Write dict[str, …]."),  # type: ignore[misc]
    (
        Annotated[str, Param(ge=1)],
        "typing.Annotated[str, msgspec.Meta(ge=1)], which cannot be: can only set `ge` on a numeric type.",
    ),
    (
        Annotated[int | list[int], Param(ge=1)],
        "typing.Annotated[list[int], msgspec.Meta(ge=1)], which cannot be: can only set `ge` on a numeric type.",
    ),
]


@pytest.mark.parametrize(("hint", "text"), PARAMETERS, ids=[str(hint) for hint, _ in PARAMETERS])
def test_a_type_without_a_json_form_is_named_with_what_to_use_instead(hint: Any, text: str) -> None:
    """STYLE, habit 10."""
    assert refused(with_parameter(hint)) == f"tool 'plot': parameter 'fig' has type {text}"


UNIONS = [
    (datetime.date | str, "strings", ""),
    (Level | int, "integers", ""),
    (list[int] | set[int], "arrays", ""),
    (Point | Data, "objects", ", or make them Structs with tag=True"),
    (Point | dict[str, int], "objects", ", or make them Structs with tag=True"),
]


@pytest.mark.parametrize(("hint", "kinds", "more"), UNIONS, ids=[str(hint) for hint, _, _ in UNIONS])
def test_a_union_whose_members_look_alike_is_refused(hint: Any, kinds: str, more: str) -> None:
    """Nobody can tell what was meant; STYLE, habit 10."""
    assert refused(with_parameter(hint)) == (
        f"tool 'plot': parameter 'fig' is a union of several types that are {kinds} in JSON, which cannot be told "
        f"apart. Keep one of them{more}."
    )


def test_structs_that_carry_no_tag_cannot_be_told_apart() -> None:
    """What msgspec says is passed on."""
    assert refused(with_parameter(Point | Tree)) == (
        "tool 'plot': parameter 'fig' has type model.kinds.Point | model.kinds.Tree, which cannot be: if a type "
        "union contains multiple Struct types, all Struct types must be tagged (via `tag` or `tag_field` kwarg)."
    )
    assert refused(with_parameter(WithInitVar)) == (
        "tool 'plot': parameter 'fig' cannot be decoded: dataclasses with `InitVar` fields are not supported."
    )


def test_parameters_that_cannot_be_sent_by_name_are_refused() -> None:
    """Arguments are a JSON object."""

    def star(*words: str) -> None: ...

    def keywords(**options: int) -> None: ...

    def twice(limit: int, **options: Unpack[Options]) -> None: ...

    assert refused(star) == "tool 'star': parameter '*words' cannot be sent by name. Take a list instead."
    assert refused(keywords) == (
        "tool 'keywords': parameter '**options' says nothing about its names. Annotate it with "
        "Unpack[SomeTypedDict], or pass input_schema={…}."
    )
    assert (
        refused(twice)
        == "tool 'twice': parameter 'limit' is also a member of the TypedDict. Rename one of them."
    )


def test_the_fields_of_pydantic_outside_a_model_are_refused() -> None:
    """They would do nothing: no bounds, no description, and an object as the default."""

    def fn(x: int = pydantic.Field(3, ge=1)) -> None: ...

    text = (
        "parameter 'x' is described by pydantic's Field, which does nothing here. Annotate it with "
        "Annotated[…, Param(…)], and give it a plain default."
    )
    assert refused(fn) == f"tool 'fn': {text}"
    fn.__annotations__["x"] = Annotated[int, pydantic.Field(ge=1)]
    fn.__defaults__ = ()
    assert refused(fn) == f"tool 'fn': {text}"


def test_a_header_takes_a_plain_value_and_a_name_of_its_own() -> None:
    """MCP 2026-07-28, x-mcp-header."""

    def number(x: Annotated[float, Header("Region")]) -> None: ...

    def twice(x: Annotated[str, Header("Region")], y: Annotated[str, Header("region")]) -> None: ...

    assert refused(number) == (
        "tool 'number': header 'Region' is on a parameter of type 'number'; use a string, integer or boolean"
    )
    assert refused(twice) == "tool 'twice': two parameters are mirrored into the header 'region'"
    with pytest.raises(
        ValueError, match="Header name 'a b' is not an HTTP token: use letters, digits and hyphens"
    ):
        Header("a b")


# -- Results -----------------------------------------------------------------------------

RESULTS = [
    (Figure, f"Figure, which has no JSON form. {GENERAL[:-1]}, return a str, or leave the annotation out."),
    (
        dict[str, Image],
        f"Image, which has no JSON form. {GENERAL[:-1]}, return a str, or leave the annotation out.",
    ),
    (pathlib.Path, "Path, which has no JSON form. Use a str."),
    (
        Awaitable[int],
        f"Awaitable, which has no JSON form. {GENERAL[:-1]}, return a str, or leave the annotation out.",
    ),
]


@pytest.mark.parametrize(("hint", "text"), RESULTS, ids=[str(hint) for hint, _ in RESULTS])
def test_a_result_without_a_json_form_is_named(hint: Any, text: str) -> None:
    """STYLE, habit 10."""
    assert refused(with_result(hint)) == f"tool 'plot': its result has type {text}"


def test_a_result_that_looks_like_several_types_is_refused() -> None:
    """It could not be checked."""
    assert refused(with_result(Point | Data)) == (
        "tool 'plot': its result is a union of several types that are objects in JSON, which cannot be told apart. "
        "Keep one of them, or make them Structs with tag=True."
    )


def test_generators_are_refused() -> None:
    """PITFALLS: a generator as a result."""

    def some() -> Iterator[int]:
        yield 1

    async def more() -> AsyncIterator[int]:
        yield 1

    text = "it is a generator, which would send nothing: return a list of what it yields."
    assert refused(some) == f"tool 'some': {text}"
    assert refused(more) == f"tool 'more': {text}"
    assert refused(with_result(Generator[int, None, None])) == (
        "tool 'plot': its result is a generator, which has no JSON form. Return a list of what it yields."
    )


# -- Functions ---------------------------------------------------------------------------


class Desk:
    """A class of the user."""

    def method(self, a: int) -> None: ...

    async def slow(self) -> None: ...


def unwrapped(fn: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


FUNCTIONS = [
    (3, "tool '?': a handler is a function, a method or a callable object, not 3."),
    (Desk, "tool 'Desk': it is a class: register an instance that can be called, Desk(), or a method."),
    (
        Desk.method,
        "tool 'method': parameter 'self' is the instance of a method: register the bound method, with "
        "app.add_tool(obj.method).",
    ),
    (
        lambda: None,
        "tool '<lambda>': a tool's name is 1 to 128 letters, digits, '_', '-' and '.': give it another with name=",
    ),
    (max, "tool 'max': its parameters cannot be told: wrap it in a def that names and types them."),
    (unwrapped(math.sqrt), "tool 'wrapper': parameter '*args' cannot be sent by name. Take a list instead."),
]


@pytest.mark.parametrize(("fn", "text"), FUNCTIONS, ids=[str(index) for index in range(len(FUNCTIONS))])
def test_what_cannot_be_called_with_named_arguments_is_refused(fn: Any, text: str) -> None:
    """STYLE, habit 10."""
    assert refused(fn) == text


def test_a_context_of_the_wrong_kind_is_refused() -> None:
    """A plain def cannot await; an async def must not block."""

    def plain(ctx: Context) -> None: ...

    async def task(ctx: SyncContext) -> None: ...

    assert refused(plain) == (
        "tool 'plain': parameter 'ctx' is a Context, but a plain def takes a SyncContext."
    )
    assert refused(task) == "tool 'task': parameter 'ctx' is a SyncContext, but an async def takes a Context."


def test_names_that_exist_only_for_type_checkers_are_refused_at_the_start() -> None:
    """PITFALLS: names under TYPE_CHECKING."""

    def pay(amount: Decimal) -> None: ...

    assert refused(pay) == (
        "tool 'pay': its annotations name 'Decimal', which is not defined. Import it for good: what stands under "
        "`if TYPE_CHECKING:` does not exist when the server runs."
    )


def test_annotations_that_are_no_types_are_refused() -> None:
    """A typing error, in whatever way Python reports it."""

    def prose(x: this is prose) -> None: ...  # type: ignore # noqa: F821

    def typo(x: datetime.DateTime) -> None: ...  # type: ignore[name-defined]

    prose.__annotations__["x"] = "a number of things"
    assert refused(prose).startswith(
        "tool 'prose': its annotations cannot be read as types: Forward reference"
    )
    assert refused(typo) == (
        "tool 'typo': its annotations cannot be read as types: module 'datetime' has no attribute 'DateTime'."
    )


# -- Names -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "a b", "größe", "a/b", "a" * 129, "名前", "a\n"])
def test_names_that_no_client_can_call_are_refused(name: str) -> None:
    """TOOL-04."""
    assert refused(Desk().method, name=name) == (
        f"tool '{name}': a tool's name is 1 to 128 letters, digits, '_', '-' and '.': give it another with name="
    )


@pytest.mark.parametrize("name", ["a.b", "a" * 65])
def test_names_that_some_clients_cannot_call_are_warned_about_where_they_are_given(name: str) -> None:
    """PITFALLS, CLIENTS: the narrower rule of model APIs; the warning points at the user's line."""
    app = App("test")
    with pytest.warns(UserWarning, match="some clients rename or drop tools") as caught:
        app.add_tool(Desk().method, name=name)
    assert caught[0].filename == __file__
    assert str(caught[0].message) == (
        f"tool '{name}': some clients rename or drop tools whose names are longer than 64 characters or hold a dot"
    )
    assert name in app.registry.tools


@pytest.mark.parametrize("name", ["a", "A-b_9", "a" * 64])
def test_other_names_are_accepted_silently(name: str) -> None:
    """TOOL-04."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        described(Desk().method)
        App("test").add_tool(Desk().method, name=name)


def test_a_name_is_given_once() -> None:
    """PITFALLS: a tool called twice under the same name; resources and prompts alike."""
    app = App("test")

    @app.tool
    @app.prompt
    @app.resource("docs://readme")
    def readme() -> str: ...

    @app.resource("docs://{page}")
    def page(page: str) -> str: ...

    ending = "exists already: give one of the two another name."
    for kind, label, again in (
        ("tool", "readme", lambda: app.add_tool(readme)),
        ("prompt", "readme", lambda: app.add_prompt(readme)),
        ("resource", "docs://readme", lambda: app.add_resource(readme, "docs://readme")),
        ("resource", "docs://{page}", lambda: app.add_resource(page, "docs://{page}")),
    ):
        with pytest.raises(ValueError, match="exists already") as caught:
            again()
        assert str(caught.value) == f"{kind} '{label}' {ending}"


def test_a_blueprint_whose_prefix_makes_no_name_is_refused() -> None:
    """The tool is named as it would be called."""
    desk = Blueprint("my desk")
    desk.add_tool(Desk().method)
    with pytest.raises(ValueError, match="tool 'my desk_method': a tool's name is"):
        App("test").register(desk)


# -- Options -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"timeout": 0}, "timeout= is a number of seconds above 0, not 0."),
        ({"timeout": "3"}, "timeout= is a number of seconds above 0, not '3'."),
        ({"timeout": float("nan")}, "timeout= is a number of seconds above 0, not nan."),
        ({"name": 3}, "its name is a string, not 3."),
        ({"title": 3}, "title: expected `str | null`, got `int`"),
        ({"description": ["x"]}, "description: expected `str | null`, got `array`"),
        ({"read_only": "yes"}, "annotations.readOnlyHint: expected `bool | null`, got `str`"),
        ({"icons": ["x.png"]}, "icons[0]: expected `object`, got `str`"),
        ({"icons": [Icon("x.png", theme="red")]}, "icons[0].theme: invalid enum value 'red'"),  # type: ignore[arg-type]
        ({"meta": [1]}, "meta= is a dict with strings as keys."),
        ({"meta": {1: 2}}, "meta= is a dict with strings as keys."),
        (
            {"meta": {"x": object()}},
            "it holds what has no JSON form: Encoding objects of type object is unsupported",
        ),
        (
            {"meta": {"io.modelcontextprotocol/x": 1}},
            "_meta key 'io.modelcontextprotocol/x' belongs to the protocol: use a prefix of your own, like "
            "'example.com/'",
        ),
        ({"inline": True}, "inline=True is for a plain def; an async def runs in a task."),
        ({"loop": "uvloop"}, 'loop= takes only "asyncio", and only for an async def.'),
        ({"input_schema": {"type": "array"}}, 'input_schema needs "type": "object" at its root'),
        ({"input_schema": True}, 'input_schema needs "type": "object" at its root'),
    ],
)
def test_options_are_checked(options: dict[str, Any], text: str) -> None:
    """One entry that a client cannot read may cost it the whole list (CLIENTS)."""
    label = options.get("name", "slow")
    assert refused(Desk().slow, **options) == f"tool '{label}': {text}"


def test_an_unknown_option_is_named_with_those_that_exist() -> None:
    """STYLE, habit 10: a typing error in an option."""
    app = App("test")
    with pytest.raises(TypeError) as caught:

        @app.tool(readonly=True)  # type: ignore[call-overload,untyped-decorator,unused-ignore]
        def look() -> None: ...

    assert str(caught.value) == (
        f"tool 'look': there is no option 'readonly'. There are {', '.join(ToolOptions.__annotations__)}."
    )


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "object", "properties": 3}, "the schema is not valid: 3 is not of type 'object'"),
        (
            {"type": "object", "$schema": "https://example.com/own"},
            "the dialect 'https://example.com/own' is not supported: use JSON Schema 2020-12",
        ),
    ],
)
def test_a_wrong_schema_is_refused(schema: dict[str, Any], text: str) -> None:
    """SCH-01."""

    def fn(**arguments: Any) -> None: ...

    assert refused(fn, input_schema=schema) == f"tool 'fn': {text}"


def test_with_a_schema_the_function_takes_all_or_one() -> None:
    """DESIGN 4.2: `**arguments`, or one dict."""

    def two(a: dict[str, Any], b: dict[str, Any]) -> None: ...

    assert refused(two, input_schema={"type": "object"}) == (
        "tool 'two': with input_schema the function takes **arguments, or the whole object as one parameter."
    )


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_a_schema_whose_root_is_a_choice_is_warned_about(keyword: str) -> None:
    """CLIENTS: a client drops such a tool."""

    def fn(**arguments: Any) -> None: ...

    with pytest.warns(
        UserWarning, match="input_schema has anyOf or oneOf at its root: Claude Code drops such a tool"
    ):
        described(fn, input_schema={"type": "object", keyword: [{}]})


# -- Resources, prompts, completion ------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "fn", "text"),
    [
        ("readme", lambda: "", "a resource's URI starts with a scheme, like 'docs://'"),
        ("", lambda: "", "a resource's URI starts with a scheme, like 'docs://'"),
        ("docs://{page}", lambda: "", "its URI has {page}, but the function has no parameter 'page'."),
        ("docs://a", lambda page: "", "parameter 'page' never gets a value: put {page} into the URI."),
        ("docs://{page", lambda page: "", "URI template 'docs://{page', position 7: '{' has no counterpart"),
    ],
)  # fmt: skip
def test_a_uri_and_its_function_must_fit(uri: str, fn: Any, text: str) -> None:
    """RES-06; STYLE, habit 10."""
    with pytest.raises((TypeError, ValueError)) as caught:
        App("test").add_resource(fn, uri)
    assert str(caught.value) == f"resource '{uri}': {text}"


def test_the_lister_of_a_resource_is_checked() -> None:
    """DESIGN 4.3: `list=` is for templates, and takes no arguments that it would not get."""
    app = App("test")
    with pytest.raises(TypeError, match=r"resource 'docs://a': list= enumerates the members of a template"):
        app.add_resource(lambda: "", "docs://a", list=list)
    with pytest.raises(TypeError, match=r"resource 'docs://\{page\}': a handler is a function"):
        app.add_resource(lambda page: "", "docs://{page}", list=[{"page": "a"}])  # type: ignore[arg-type]


def test_the_completion_of_an_argument_is_checked() -> None:
    """DESIGN 4.3: `fn(partial)` or `fn(partial, arguments)`."""

    def none() -> list[str]: ...

    def three(a: str, b: dict[str, str], c: int) -> list[str]: ...

    for fn in (none, three):

        def prompt(word: Annotated[str, Complete(fn)]) -> str: ...

        with pytest.raises(TypeError) as caught:
            App("test").add_prompt(prompt)
        assert str(caught.value) == (
            "prompt 'prompt': the completion of 'word' takes what is typed so far, and optionally the other arguments."
        )
    with pytest.raises(TypeError, match=r"Complete takes a function of the text typed so far, not \['a'\]"):
        Complete(["a"])  # type: ignore[arg-type]


# -- Decorators --------------------------------------------------------------------------


def test_decorators_return_the_function_untouched() -> None:
    """DESIGN 4.1: bare, called, with options, and stacked."""
    app = App("test")

    def fn() -> str:
        return "still callable"

    assert app.tool(fn) is fn
    assert app.tool("second", read_only=True)(fn) is fn
    assert app.tool(name="third")(fn) is fn
    assert app.prompt(fn) is fn
    assert app.prompt("second", title="T")(fn) is fn
    assert app.resource("docs://a")(fn) is fn
    assert app.resource(fn) is fn
    assert fn() == "still callable"
    assert list(app.registry.tools) == ["fn", "second", "third"]
    assert list(app.registry.resources) == ["docs://a", "resource://fn"]


def test_options_beside_the_function_are_not_lost() -> None:
    """`app.tool(fn, read_only=True)` is no decorator, and means the same."""
    app = App("test")

    def fn() -> str: ...

    app.tool(fn, read_only=True, title="T")  # type: ignore[call-overload]
    app.resource(fn, mime_type="text/html")  # type: ignore[call-overload]
    definition = app.registry.tools["fn"].definition
    assert definition.title == "T"
    assert definition.annotations is not None
    assert definition.annotations.read_only_hint is True
    assert app.registry.resources["resource://fn"].mime_type == "text/html"


def test_a_failed_registration_leaves_nothing_behind() -> None:
    """What was refused is not half there."""
    app = App("test")
    with contextlib.suppress(TypeError):
        app.add_tool(with_parameter(Figure))
    assert app.registry.tools == {}
    app.add_tool(with_parameter(int))
    assert list(app.registry.tools) == ["plot"]


def test_a_thousand_tools_are_registered_quickly_and_by_name() -> None:
    """No registration looks at the others; each tool is found by its name."""
    app = App("test")
    for number in range(1000):
        app.add_tool(with_parameter(int), name=f"tool_{number}")
    assert list(app.registry.tools)[-1] == "tool_999"
    assert app.registry.tools["tool_500"].decode(msgspec.Raw(b'{"fig": 5}')) == {"fig": 5}


def test_typing_constructs_of_other_kinds_are_named() -> None:
    """Whatever it is, the message names tool and parameter."""
    for hint in (typing.NoReturn, typing.IO, type[int], typing.Hashable, Exception, collections.abc.Sized):
        assert refused(with_parameter(hint)).startswith("tool 'plot': parameter 'fig' has type ")
