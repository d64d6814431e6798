"""Docstrings: the description of a function and of its parameters.

Three styles are read, also mixed: Google (``Args:`` and an indented list), NumPy (``Parameters`` underlined
with dashes) and Sphinx (``:param x:``).

Rule 1. The summary ends at the first section that describes parameters, results or exceptions, or at the
    first Sphinx field that does. What stands before it belongs to the description, examples and notes
    included; what comes after it is left out.
Rule 2. A heading is certain, or it is prose. It is one of the known words alone on a line that is not
    indented, with either a colon and an indented line below, or a line of dashes below. ``Returns: a list.``
    is prose.
Rule 3. Nothing is an error. A parameter that cannot be read or has no text is left out. Time is linear.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

_LEADING_BLANK_LINES = re.compile(r"\s*\n")
_PARAGRAPH_END = re.compile(r"\n\n+")
_UNDERLINE = re.compile(r"-{3,}\s*")
_FIELD = re.compile(r":(\w+)\b([^:]*):")
_FIELD_WITH_ROLE = re.compile(r":(\w+)\s+(:.*?):(?=\s|$)")
_NAME = r"[*\\`]*\w+[*`]*"
_NAMES = re.compile(rf"(?:[-+*]\s+)?({_NAME}(?:\s*,\s*{_NAME})*)\s*")


class Doc(NamedTuple):
    """What a docstring says: `summary` of the whole, `params` the descriptions by parameter name.

    All are plain text without indentation. The summary keeps its lines; the description of a parameter has
    one line for each paragraph and is never empty.
    """

    summary: str
    params: dict[str, str]


def parse(docstring: str | None) -> Doc:
    """Read a docstring in Google, NumPy or Sphinx style; None is read as an empty one. Raises nothing."""
    lines = _lines(docstring or "")
    params: dict[str, str] = {}
    end = len(lines)
    at = 0
    while at < len(lines):
        read = _reader(lines, at)
        if read is None:
            at += 1
            continue
        end = min(end, at)
        at = read(lines, at, params)
    return Doc("\n".join(lines[:end]).strip(), params)


def _lines(docstring: str) -> list[str]:
    text = docstring.replace("\r\n", "\n").replace("\r", "\n")
    blank = _LEADING_BLANK_LINES.match(text)
    if blank is not None:  # cleandoc takes quadratic time to drop many
        text = "\n" + text[blank.end() :]
    lines = inspect.cleandoc(text).split("\n")
    if _GOOGLE_SECTIONS.get(lines[0].rstrip()) is _read_google and not _is_indented_below(lines, 0):
        # The first line has no indentation to compare with, so cleandoc took away all that stood below it.
        lines[1:] = [" " + line for line in lines[1:]]
    return lines


def _reader(lines: list[str], at: int) -> _Reader | None:
    """Return what reads the section or field that starts at line `at`; None for prose."""
    line = lines[at].rstrip()
    if line.startswith(":"):
        return _FIELDS.get(_field(line)[0])
    if _is_underlined(lines, at):
        return _NUMPY_SECTIONS.get(line.removesuffix(":"))
    read = _GOOGLE_SECTIONS.get(line)
    return read if read is not None and _is_indented_below(lines, at) else None


def _is_unindented(line: str) -> bool:
    return line[:1].strip() != ""


def _is_underlined(lines: list[str], at: int) -> bool:
    below = lines[at + 1] if at + 1 < len(lines) else ""
    return _is_unindented(lines[at]) and _UNDERLINE.fullmatch(below) is not None


def _is_indented_below(lines: list[str], at: int) -> bool:
    """Whether the first text below line `at` is indented; also when there is none."""
    for index in range(at + 1, len(lines)):
        if lines[index].strip():
            return not _is_unindented(lines[index])
    return True


def _skip(lines: list[str], at: int, params: dict[str, str]) -> int:
    return at + 1


def _read_google(lines: list[str], at: int, params: dict[str, str]) -> int:
    stop = _unindented(lines, at + 1)
    _read_entries(lines[at + 1 : stop], _google_entry, params)
    return stop


def _read_numpy(lines: list[str], at: int, params: dict[str, str]) -> int:
    stop = at + 2
    while stop < len(lines) and not _is_underlined(lines, stop) and _reader(lines, stop) is None:
        stop += 1
    _read_entries(lines[at + 2 : stop], _numpy_entry, params)
    return stop


def _read_field(lines: list[str], at: int, params: dict[str, str]) -> int:
    stop = _unindented(lines, at + 1)
    _, subject, text = _field(lines[at])
    names = subject.split()[-1:]  # a type may stand before the name
    _add(params, names, [text, *lines[at + 1 : stop]])
    return stop


def _unindented(lines: list[str], at: int) -> int:
    """Return the first line from `at` on that is neither blank nor indented."""
    while at < len(lines) and not _is_unindented(lines[at]):
        at += 1
    return at


def _field(line: str) -> tuple[str, str, str]:
    """Split ``:kind subject: text``; three empty strings for any other line."""
    field = _FIELD.match(line)
    if field is None:
        return "", "", ""
    if not field[2].strip():  # ":param :class:`Path` x: text"
        field = _FIELD_WITH_ROLE.match(line) or field
    return field[1], field[2], line[field.end() :]


def _read_entries(body: list[str], entry: _Entry, params: dict[str, str]) -> None:
    """Read a list of parameters: what is indented deeper than the first line, or is no entry, goes on."""
    base = next((_indentation(line) for line in body if line.strip()), 0)
    names: list[str] = []
    text: list[str] = []
    for line in body:
        found = entry(line.strip()) if _indentation(line) <= base else None
        if found is None:
            text.append(line)
            continue
        _add(params, names, text)
        names, text = found[0], [found[1]]
    _add(params, names, text)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _google_entry(line: str) -> tuple[list[str], str] | None:
    """Split ``name (type): text``."""
    found = _NAMES.match(line)
    if found is None:
        return None
    rest = line[found.end() :]
    if rest.startswith("("):
        rest = _after_parenthesis(rest).lstrip()
    return (found[1].split(","), rest[1:]) if rest.startswith(":") else None


def _numpy_entry(line: str) -> tuple[list[str], str] | None:
    """Split ``name, name : type``, whose text stands below."""
    found = _NAMES.match(line)
    if found is None or line[found.end() : found.end() + 1] not in ("", ":"):
        return None
    return found[1].split(","), ""


def _after_parenthesis(text: str) -> str:
    """Return what stands behind the parenthesis that `text` starts with; nothing if it is not closed."""
    depth = 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return text[index + 1 :]
    return ""


def _add(params: dict[str, str], names: Iterable[str], text: list[str]) -> None:
    paragraphs = _PARAGRAPH_END.split("\n".join(line.strip() for line in text).strip())
    description = "\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
    for name in names:
        if description:
            params.setdefault(name.strip("*\\` "), description)


_Reader = Callable[[list[str], int, dict[str, str]], int]
"""Reads what starts at a line: puts parameters into the dictionary and returns the line to go on from."""

_Entry = Callable[[str], tuple[list[str], str] | None]
"""Splits the first line of an entry into names and text; None when it is not one."""

_PARAMETERS = [
    "Args",
    "Arguments",
    "Keyword Args",
    "Keyword Arguments",
    "Other Parameters",
    "Parameters",
    "Params",
]
_RESULTS = ["Raises", "Return", "Returns", "Yield", "Yields"]

_GOOGLE_SECTIONS: dict[str, _Reader] = {
    **dict.fromkeys([f"{word}:" for word in _RESULTS], _skip),
    **dict.fromkeys([f"{word}:" for word in _PARAMETERS], _read_google),
}
_NUMPY_SECTIONS: dict[str, _Reader] = {
    **dict.fromkeys(_RESULTS, _skip),
    **dict.fromkeys(_PARAMETERS, _read_numpy),
}
_FIELDS: dict[str, _Reader] = {
    **dict.fromkeys(["except", "exception", "raise", "raises", "return", "returns", "rtype", "type"], _skip),
    **dict.fromkeys(["yield", "yields"], _skip),
    **dict.fromkeys(["arg", "argument", "key", "keyword", "param", "parameter"], _read_field),
}
