"""Set one member deep inside a JSON text, and leave every other character as it was.

Loading and dumping a client's whole file would reformat what its owner laid out, and lose what Python does
not carry: repeated keys, the spelling of numbers, escapes. So the text is scanned for the one place and
spliced.

Rule 1: the text was accepted by `parse`; the scanner relies on that and checks nothing again.
Rule 2: the value written is the only part that is formatted, in the indentation that the file already uses.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r'^([ \t]+)"', re.MULTILINE)
_DECODER = json.JSONDecoder()


class _Span(NamedTuple):
    start: int
    end: int


def parse(text: str) -> dict[str, Any]:
    """The object that `text` holds; `{}` for a text of blanks, which is how some clients create the file.

    Raises ValueError with the reason and the line when it is not strict JSON (RFC 8259), or not an object.
    """
    if not text.strip():
        return {}
    try:
        data: Any = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError("its root is not an object")
    return data


def put(text: str, keys: Sequence[str], entry: Mapping[str, Any], kept: Mapping[str, Any]) -> str:
    """`text` with `{**entry, **kept}` under the path `keys`; the objects on the way are made when missing."""
    if not text.strip():
        text = "{}\n"
    value: Any = {**entry, **kept}
    at = _skip(text, 0)
    end = len(text)
    for depth, key in enumerate(keys):
        members, closing = _members(text, at)
        if key not in members:
            for outer in reversed(keys[depth + 1 :]):
                value = {outer: value}
            return _insert(text, _Span(at, closing), members, f"{_dump(key)}: ", value, depth)
        at, end = members[key]
    return text[:at] + _render(text, value, len(keys)) + text[end:]


def _insert(text: str, whole: _Span, members: Mapping[str, _Span], label: str, value: Any, depth: int) -> str:
    """The member added behind the last one of the object at `whole`, which is `depth` levels deep."""
    new = _newline(text) + _indent(text) * (depth + 1) + label + _render(text, value, depth + 1)
    if members:
        last = max(span.end for span in members.values())
        return text[:last] + "," + new + text[last:]
    return text[: whole.start] + "{" + new + _newline(text) + _indent(text) * depth + "}" + text[whole.end :]


def _members(text: str, at: int) -> tuple[dict[str, _Span], int]:
    """Where the values of the object at `at` stand (of a repeated key: the last), and where it ends."""
    members: dict[str, _Span] = {}
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, start)
        members[key] = _Span(start, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return members, at + 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _render(text: str, value: Any, depth: int) -> str:
    lines = _dump(value, _indent(text)).split("\n")
    return (_newline(text) + _indent(text) * depth).join(lines)


def _dump(value: Any, indent: str | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False)


def _indent(text: str) -> str:
    match = _INDENT.search(text)
    return match[1] if match else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
