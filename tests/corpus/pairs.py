"""The golden corpus as data: loading, planning connections, comparing. `fixtures/README.md` has the rules."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FIXTURES = Path(__file__).parents[2] / "fixtures"

_ANY = "<any-string"
_CAPTURED = "<captured "


class Line(NamedTuple):
    """A line to send, without its end."""

    text: str


class Wait(NamedTuple):
    """Go on when so many lines of the response have come."""

    lines: int


class End(NamedTuple):
    """End the connection in an orderly way."""


Step = Line | Wait | End


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of the manifest, with its two files."""

    name: str
    era: str
    revision: str | None
    server: str
    before: tuple[str, ...]
    requires: tuple[str, ...]
    shows: str
    fresh: bool = False
    lenient: bool = False
    transports: tuple[str, ...] = ("stdio", "http")
    capture: dict[str, str] = dataclasses.field(default_factory=dict, hash=False)

    @functools.cached_property
    def request(self) -> Any:
        """What the request file holds."""
        return read(f"{self.name}.request.json")

    @functools.cached_property
    def response(self) -> Any:
        """What the response file holds."""
        return read(f"{self.name}.response.json")

    @property
    def streams(self) -> list[list[Any]]:
        """The lines of the response, one list for each stream."""
        if isinstance(self.response, dict) and self.response.keys() == {"streams"}:
            return list(self.response["streams"])
        return [list(_elements(self.response))]

    @property
    def replies(self) -> list[Any]:
        """All lines of the response."""
        return list(itertools.chain.from_iterable(self.streams))

    @functools.cached_property
    def lines(self) -> list[Any]:
        """What the lines of the request say; None for one that is no JSON."""
        elements = [element for element in _elements(self.request) if _form(element) not in ("wait", "end")]
        return [parsed(element["raw"]) if _form(element) == "raw" else element for element in elements]

    @property
    def ends(self) -> bool:
        """Whether the connection is at its end after the case."""
        return any(_form(element) == "end" for element in _elements(self.request))

    def steps(self, captured: dict[str, Any]) -> Iterator[Step]:
        """What to do, with the values that were remembered."""
        for element in _elements(self.request):
            form = _form(element)
            if form == "raw":
                yield Line(element["raw"])
            elif form == "wait":
                yield Wait(element["wait"])
            elif form == "end":
                yield End()
            else:
                filled = _fill(element, captured)
                yield Line(json.dumps(filled, ensure_ascii=False, separators=(",", ":")))


def read(path: str) -> Any:
    """The JSON in a file of the corpus."""
    return json.loads((FIXTURES / path).read_text(encoding="utf-8"))


def manifest() -> Any:
    """The manifest as it is written."""
    return read("manifest.json")


@functools.cache
def cases() -> dict[str, Case]:
    """All cases by name, in the manifest's order."""
    return {row["name"]: Case(**_with_tuples(row)) for row in manifest()["cases"]}


def _with_tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def _elements(value: Any) -> Any:
    return value["messages"] if _form(value) == "messages" else [value]


def _form(element: Any) -> str | None:
    """The only member of an object that is no message."""
    forms = {"messages", "raw", "wait", "end"}
    return (
        next(iter(element))
        if isinstance(element, dict) and len(element) == 1 and element.keys() <= forms
        else None
    )


def _fill(value: Any, captured: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _fill(item, captured) for key, item in value.items()}
    if isinstance(value, str) and value.startswith(_CAPTURED):
        return captured[value.removeprefix(_CAPTURED).removesuffix(">")]
    return value


def at(value: Any, pointer: str) -> Any:
    """What a JSON Pointer (RFC 6901) without escapes points at."""
    for step in pointer.split("/")[1:]:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


# -- Connections ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Conversation:
    """Cases to play on one connection to one variant; the first `opening` of them for the others' sake."""

    server: str
    names: tuple[str, ...]
    opening: int


@functools.cache
def conversations(transport: str = "stdio") -> tuple[Conversation, ...]:
    """Connections that play every case of a transport, as few as the rules allow."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for case in cases().values():
        if transport in case.transports:
            own = case.name if case.fresh else None
            groups.setdefault((case.server, case.before, case.era, own), []).append(case.name)
    plans = [
        Conversation(server, (*before, *names), len(before))
        for (server, before, _, _), names in groups.items()
    ]
    openings = [set(plan.names[: plan.opening]) for plan in plans]
    return tuple(plan for plan in plans if not any(set(plan.names) <= opening for opening in openings))


@functools.cache
def conversation_of(name: str, transport: str = "stdio") -> Conversation:
    """The connection on which a case is played: one where it is no part of the opening, if there is one."""
    found = [plan for plan in conversations(transport) if name in plan.names]
    return next((plan for plan in found if name in plan.names[plan.opening :]), found[0])


# -- Comparing -----------------------------------------------------------------------------------------------


def differences(expected: Any, actual: Any, path: str = "") -> Iterator[str]:
    """Where `actual` is not what a response file says, as JSON Pointers with a reason."""
    if isinstance(expected, dict):
        yield from _object_differences(expected, actual, path)
    elif isinstance(expected, list):
        yield from _array_differences(expected, actual, path)
    elif isinstance(expected, str) and expected.startswith(_ANY):
        word = expected.removeprefix(_ANY).removeprefix(" containing ").removesuffix(">")
        if not (isinstance(actual, str) and actual and word in actual):
            yield f"{path}: expected {expected}, got {actual!r}"
    elif type(expected) is not type(actual) or expected != actual:
        yield f"{path}: expected {expected!r}, got {actual!r}"


def _object_differences(expected: dict[str, Any], actual: Any, path: str) -> Iterator[str]:
    if expected.keys() == {"<array>"}:
        yield from _part_differences(expected["<array>"], actual, path)
    elif not isinstance(actual, dict):
        yield f"{path}: expected an object, got {actual!r}"
    else:
        yield from (f"{path}/{key}: missing" for key in expected.keys() - actual.keys())
        yield from (f"{path}/{key}: unexpected {actual[key]!r}" for key in actual.keys() - expected.keys())
        for key in expected.keys() & actual.keys():
            yield from differences(expected[key], actual[key], f"{path}/{key}")


def _array_differences(expected: list[Any], actual: Any, path: str) -> Iterator[str]:
    if not isinstance(actual, list):
        yield f"{path}: expected an array, got {actual!r}"
        return
    for index, (one, other) in enumerate(zip(expected, actual, strict=False)):
        yield from differences(one, other, f"{path}/{index}")
    if len(expected) != len(actual):
        yield f"{path}: expected {len(expected)} elements, got {len(actual)}"


def _part_differences(expected: dict[str, Any], actual: Any, path: str) -> Iterator[str]:
    if not isinstance(actual, list) or len(actual) != expected["length"]:
        yield f"{path}: expected an array of {expected['length']}"
        return
    for index, element in expected["at"].items():
        yield from differences(element, actual[int(index)], f"{path}/{index}")


def line_differences(expected: Any, actual: Any) -> list[str]:
    """`differences` of two lines. The replies to a batch (an array) come in any order."""
    if isinstance(expected, list) and isinstance(actual, list):
        orders = (list(differences(list(order), actual)) for order in itertools.permutations(expected))
        return min(orders, key=len)
    return list(differences(expected, actual))


def differences_of(streams: Sequence[Sequence[Any]], lines: Sequence[Any]) -> list[str]:
    """Where the lines that came are not those of the streams, each in its order, between them in any."""
    count = sum(map(len, streams))
    if count != len(lines):
        return [f"expected {count} lines, got {len(lines)}: {lines!r}"]
    return min((_compared(order, lines) for order in _orders(streams)), key=len)


def without_null_ids(value: Any) -> Any:
    """A response as it comes over HTTP, where an id that cannot be read is left out in every revision."""
    if isinstance(value, list):
        return [without_null_ids(item) for item in value]
    if isinstance(value, dict) and "error" in value and value.get("id", 0) is None:
        return {key: item for key, item in value.items() if key != "id"}
    return value


def _compared(expected: Sequence[Any], lines: Sequence[Any]) -> list[str]:
    pairs = enumerate(zip(expected, lines, strict=True))
    return [f"line {index}: {text}" for index, (one, other) in pairs for text in line_differences(one, other)]


def _orders(streams: Sequence[Sequence[Any]]) -> Iterator[list[Any]]:
    """All ways in which the lines of the streams can come."""
    if not any(streams):
        yield []
    for index, stream in enumerate(streams):
        if stream:
            rest = [*streams[:index], stream[1:], *streams[index + 1 :]]
            yield from ([stream[0], *order] for order in _orders(rest))


def messages(lines: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The messages in lines, batches taken apart."""
    for line in lines:
        elements = line if isinstance(line, list) else [line]
        yield from (item for item in elements if isinstance(item, dict))


def parsed(text: str) -> Any:
    """The JSON of a line; None when it is none."""
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except ValueError:
        return None


def sent(case: Case) -> list[dict[str, Any]]:
    """The messages in a case's request."""
    return list(messages(case.lines))


def received(case: Case) -> list[dict[str, Any]]:
    """The messages in a case's response."""
    return list(messages(case.replies))
