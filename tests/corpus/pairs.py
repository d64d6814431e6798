"""The golden corpus as data: loading, planning connections, comparing. `fixtures/README.md` has the rules."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[2] / "fixtures"

_ANY = "<any-string"
_CAPTURED = "<captured "


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
    def replies(self) -> list[Any]:
        """The lines of the response."""
        return list(_lines(self.response))

    def lines(self, captured: dict[str, Any]) -> Iterator[bytes]:
        """The lines to send, each with its end."""
        for line in _lines(self.request):
            raw = line.get("raw") if isinstance(line, dict) else None
            text = (
                raw
                if raw is not None
                else json.dumps(_fill(line, captured), ensure_ascii=False, separators=(",", ":"))
            )
            yield text.encode() + b"\n"


def read(path: str) -> Any:
    """The JSON in a file of the corpus."""
    return json.loads((FIXTURES / path).read_text(encoding="utf-8"))


def manifest() -> Any:
    """The manifest as it is written."""
    return read("manifest.json")


@functools.cache
def cases() -> dict[str, Case]:
    """All cases by name, in the manifest's order."""
    rows = manifest()["cases"]
    return {
        row["name"]: Case(**row | {"before": tuple(row["before"]), "requires": tuple(row["requires"])})
        for row in rows
    }


def _lines(value: Any) -> Any:
    return value["messages"] if isinstance(value, dict) and value.keys() == {"messages"} else [value]


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
def conversations() -> tuple[Conversation, ...]:
    """Connections that play every case, as few as the rules allow."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for case in cases().values():
        own = case.name if case.fresh else None
        groups.setdefault((case.server, case.before, case.era, own), []).append(case.name)
    plans = [
        Conversation(server, (*before, *names), len(before))
        for (server, before, _, _), names in groups.items()
    ]
    openings = [set(plan.names[: plan.opening]) for plan in plans]
    return tuple(plan for plan in plans if not any(set(plan.names) <= opening for opening in openings))


@functools.cache
def conversation_of(name: str) -> Conversation:
    """The connection on which a case is played: one where it is no part of the opening, if there is one."""
    found = [plan for plan in conversations() if name in plan.names]
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


def messages(lines: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The messages in lines: batches taken apart, raw text read if it is JSON."""
    for line in lines:
        if isinstance(line, dict) and line.keys() == {"raw"}:
            line = _parsed(line["raw"])
        elements = line if isinstance(line, list) else [line]
        yield from (item for item in elements if isinstance(item, dict))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except ValueError:
        return None


def sent(case: Case) -> list[dict[str, Any]]:
    """The messages in a case's request."""
    return list(messages(_lines(case.request)))


def received(case: Case) -> list[dict[str, Any]]:
    """The messages in a case's response."""
    return list(messages(case.replies))
