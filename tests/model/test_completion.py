"""What completes arguments and enumerates templates: any iterable, sync or async, also a generator."""

from __future__ import annotations

import enum
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any, Literal

import pytest
import trio
from clients.peer import talking
from support import REVISIONS, STATELESS

from mcpkit import App, Complete, assistant, user


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What a failed call logs is no part of the report."""
    caplog.set_level(logging.CRITICAL, "mcpkit")


def completed(prompt: Callable[..., Any], name: str, value: str, **known: str) -> Any:
    """The answer to `completion/complete` for an argument of a prompt."""

    async def main() -> Any:
        app = App("test")
        app.add_prompt(prompt, name="p")
        async with talking(app) as peer:
            ref = {"type": "ref/prompt", "name": "p"}
            argument = {"name": name, "value": value}
            params = {"ref": ref, "argument": argument, "context": {"arguments": known}}
            answer = await peer.ask("completion/complete", params)
            return answer.get("completion", answer)

    return trio.run(main)


WORDS = ("apple", "avocado", "banana")


def as_list(typed: str) -> list[str]:
    return [word for word in WORDS if word.startswith(typed)]


def as_generator(typed: str) -> Iterator[str]:
    yield from as_list(typed)


async def as_task(typed: str) -> tuple[str, ...]:
    return tuple(as_list(typed))


async def as_async_generator(typed: str) -> AsyncIterator[str]:
    for word in as_list(typed):
        yield word


class Text(str):
    """Like a string of a library for templates."""


def as_strings_of_a_subclass(typed: str) -> list[str]:
    return [Text(word) for word in as_list(typed)]


@pytest.mark.parametrize("fn", [as_list, as_generator, as_task, as_async_generator, as_strings_of_a_subclass])
def test_any_iterable_of_strings_completes(fn: Callable[..., Any]) -> None:
    """DESIGN 4.3: `fn(partial)`, sync or async, any iterable of strings."""

    def prompt(word: Annotated[str, Complete(fn)]) -> str: ...

    assert completed(prompt, "word", "a") == {"values": ["apple", "avocado"], "total": 2, "hasMore": False}


def test_the_other_arguments_are_known_if_the_function_wants_them() -> None:
    """CMP-04; the marker may stand on an optional."""

    def fn(typed: str, arguments: dict[str, str]) -> list[str]:
        return [f"{typed} {sorted(arguments.items())}"]

    def prompt(word: Annotated[str, Complete(fn)] | None = None, other: str = "") -> str: ...

    assert completed(prompt, "word", "a", other="b")["values"] == ["a [('other', 'b')]"]


def test_more_than_a_hundred_are_cut() -> None:
    """CMP-03."""

    def prompt(word: Annotated[str, Complete(lambda typed: [f"{typed}{n}" for n in range(150)])]) -> str: ...

    answer = completed(prompt, "word", "w")
    assert (len(answer["values"]), answer["total"], answer["hasMore"]) == (100, 150, True)


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


def choices(
    size: Size, loud: bool, number: Literal[1, 12], maybe: Size | None = None, free: str = ""
) -> str: ...


@pytest.mark.parametrize(
    ("name", "value", "values"),
    [
        ("size", "", ["small", "large"]),
        ("size", "S", ["small"]),
        ("loud", "t", ["true"]),
        ("number", "1", ["1", "12"]),
        ("maybe", "l", ["large"]),
        ("free", "x", []),
        ("unknown", "", []),
    ],
)
def test_choices_complete_by_themselves(name: str, value: str, values: list[str]) -> None:
    """DESIGN 4.3: enums, Literals and bools."""
    assert completed(choices, name, value)["values"] == values


@pytest.mark.parametrize("returned", ["text", 5, [1], ["a", None]])
def test_what_is_no_iterable_of_strings_is_an_internal_error(returned: Any) -> None:
    """A string is an iterable of strings, and surely not meant."""

    def prompt(word: Annotated[str, Complete(lambda typed: returned)]) -> str: ...

    assert completed(prompt, "word", "")["error"]["code"] == -32603


# -- Members of templates ----------------------------------------------------------------


def list_members() -> list[dict[str, Any]]:
    return [{"page": "a b"}, {"page": 2}]


def yield_members() -> Iterator[dict[str, Any]]:
    yield from list_members()


async def yield_members_later() -> AsyncIterator[dict[str, Any]]:
    for member in list_members():
        yield member


def resources(fn: Callable[[], Any], revision: str = STATELESS) -> Any:
    """What `resources/list` says of a template with this `list=`."""

    async def main() -> Any:
        app = App("test")
        app.add_resource(lambda page: page, "docs://{page}", list=fn)
        async with talking(app, revision) as peer:
            answer = await peer.ask("resources/list")
            return answer.get("resources", answer)

    return trio.run(main)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("fn", [list_members, yield_members, yield_members_later])
def test_a_template_lists_its_members(fn: Callable[[], Any], revision: str) -> None:
    """DESIGN 4.3: `list=fn` yields dicts of parameter values."""
    assert [(entry["uri"], entry["name"]) for entry in resources(fn, revision)] == [
        ("docs://a%20b", "a b"),
        ("docs://2", "2"),
    ]


def test_a_member_that_is_none_of_the_template_is_an_error_and_not_a_wrong_uri() -> None:
    """A typing error in the name of a variable must not list what cannot be read."""
    assert resources(lambda: [{"pge": "a"}])["error"]["code"] == -32603


# -- Messages of prompts -----------------------------------------------------------------


def messages(returned: Any) -> Any:
    """What `prompts/get` says when the function returns this."""

    async def main() -> Any:
        app = App("test")
        app.add_prompt(lambda: returned, name="p")
        async with talking(app) as peer:
            answer = await peer.ask("prompts/get", {"name": "p"})
            return answer.get("messages", answer)

    return trio.run(main)


def test_a_prompt_is_a_string_a_message_or_a_list_of_them() -> None:
    """DESIGN 4.3."""
    one = {"role": "user", "content": {"type": "text", "text": "a"}}
    other = {"role": "assistant", "content": {"type": "text", "text": "b"}}
    assert messages("a") == [one]
    assert messages(user("a")) == [one]
    assert messages(["a", assistant("b")]) == [one, other]
    assert messages((user("a"),)) == [one]
    assert messages([]) == []


@pytest.mark.parametrize(
    "returned", [None, 5, b"a", {"role": "user", "content": "a"}, [{"role": "user"}], [5]]
)
def test_anything_else_is_an_internal_error(returned: Any) -> None:
    """Above all a dict, whose keys would make messages."""
    assert messages(returned)["error"]["code"] == -32603
