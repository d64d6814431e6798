"""Set one table in a TOML text, and leave every other character, comments included, as it was.

Theory. A TOML document is a sequence of statements: blank or comment lines, table headers, and pairs of a
key and a value. A pair belongs to the last header above it. A statement ends at a line end outside of strings
and brackets, so a scanner that knows only strings, brackets and comments finds them all. Replacing a table
means leaving out its statements and those of its sub-tables; adding one means a new header at the end of the
file, which is right in every document whose parent table is open.

Rule 1: the text was accepted by `parse`; the scanner relies on that.
Rule 2: keys are read by `tomllib` itself, one statement at a time, so quoting needs no second implementation.
Rule 3: forms that cannot be extended at the end (`parent = {…}` written inline) are not recognised here; the
        caller parses the outcome, compares it with what was meant, and refuses when they differ.

Source: TOML 1.0.0, https://toml.io/en/v1.0.0
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_TOKEN = re.compile(
    r'''
    """(?:[^\\]|\\.)*?"""(?:"{0,2})     # a multi-line string may end with two quotes of its own
    | \'\'\'.*?\'\'\'(?:'{0,2})
    | "(?:[^"\\\n]|\\.)*" | '[^'\n]*'
    | \#[^\n]*
    | \n
    | [\[\]{}]
    | [^"'\#\n\[\]{}]+
    ''',
    re.DOTALL | re.VERBOSE,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def parse(text: str) -> dict[str, Any]:
    """The document as tables; floats stay text, so that `nan` equals itself. Raises ValueError."""
    try:
        return tomllib.loads(text, parse_float=str)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def put(text: str, keys: Sequence[str], entry: Mapping[str, Any], kept: Mapping[str, Any]) -> str:
    """`text` with the table `keys` holding `entry`.

    `entry` holds strings, lists of strings and dicts of strings. What the table has under the names in
    `kept` stays where it is written; all else in it goes.
    """
    path, newline = tuple(keys), "\r\n" if "\r\n" in text else "\n"
    body = [f"{_key(name)} = {_value(value)}{newline}" for name, value in entry.items()]
    lines: list[str] = []
    place: int | None = None
    for statement, address, is_header in _addressed(text):
        if place is None and is_header and address == path:
            lines.append(statement if statement.endswith("\n") else statement + newline)
            place = len(lines)
        elif address[: len(path)] != path or address[len(path) : len(path) + 1] in {(name,) for name in kept}:
            lines.append(statement)
    if place is None:
        lines += _gap(lines, newline)
        lines.append(f"[{'.'.join(map(_key, path))}]{newline}")
        place = len(lines)
    return "".join([*lines[:place], *body, *lines[place:]])


def _gap(lines: Sequence[str], newline: str) -> list[str]:
    """What stands between `lines` and a new table: the end of an unfinished line, and one blank line."""
    last = lines[-1] if lines else newline
    return [newline] * (bool(last.strip()) + (not last.endswith("\n")))


def _addressed(text: str) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """Every statement, the full path that it sets (empty for a comment), and whether it is a header."""
    table: tuple[str, ...] = ()
    for statement in _statements(text):
        start = statement.lstrip()[:1]
        if start in ("", "#"):
            yield statement, (), False
        elif start == "[":
            table = _walk(tomllib.loads(statement))
            yield statement, table, True
        else:
            yield statement, table + _walk(tomllib.loads(f"{_key_part(statement)} = {{}}")), False


def _statements(text: str) -> Iterator[str]:
    start = depth = 0
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "[" | "{":
                depth += 1
            case "]" | "}":
                depth -= 1
            case "\n" if depth == 0:
                yield text[start : token.end()]
                start = token.end()
            case _:
                pass
    if start < len(text):
        yield text[start:]


def _key_part(statement: str) -> str:
    """The text before the `=` of a pair; an equals sign inside a quoted key does not count."""
    for token in _TOKEN.finditer(statement):
        if token[0][0] not in "\"'" and "=" in token[0]:
            return statement[: token.start() + token[0].index("=")]
    return statement


def _walk(node: Any) -> tuple[str, ...]:
    """The one path in a document of one statement: `{"a": {"b": [{}]}}` is `("a", "b")`."""
    path: list[str] = []
    while node:
        if isinstance(node, list):
            node = node[0]
            continue
        name, node = next(iter(node.items()))
        path.append(name)
    return tuple(path)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        # The escapes of JSON are TOML's too; TOML wants one more, for DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_value(item)}" for name, item in value.items()) + " }"
    return "[" + ", ".join(map(_value, value)) + "]"
