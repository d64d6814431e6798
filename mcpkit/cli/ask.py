"""Answers to what a tool asks while `mcpkit call` waits for it: given as `--answer`, or typed in the terminal.

A form is shown field by field on standard error, so that standard output holds the result alone. It is read in the
main thread and blocks it: in the stateless era nothing happens while a question is open.
"""

from __future__ import annotations

import getpass
import re
import sys
from collections.abc import Mapping
from typing import Any

from mcpkit import leniency
from mcpkit.answering import Answerer
from mcpkit.forms import problem_of
from mcpkit.protocol.questions import ELICIT, SAMPLE, Question
from mcpkit.questions import Cancelled, Declined

_YES, _NO = ("y", "yes", "true", "1"), ("n", "no", "false", "0")
_SECRET = re.compile(r"pass.?(word|phrase|code)|secret|token|api.?key|credential|\bpin\b", re.IGNORECASE)

_Schema = dict[str, Any]


class BadAnswer(Exception):
    """An `--answer` does not fit what was asked; the message names it, never its value."""


def choose(given: Mapping[str, str]) -> tuple[Answerer | None, dict[str, Any]]:
    """Who answers, and the capabilities to declare: what was given, else whoever sits at the terminal, else
    nobody.
    """
    if given:
        named: dict[str, Any] = {name: {} for name in ("sampling", "roots") if name in given}
        return Given(given).answer, {"elicitation": {"form": {}}, **named}
    if sys.stdin.isatty():
        return at_terminal, {"elicitation": {"form": {}, "url": {}}}
    return None, {}


class Given:
    """Answers by the names of fields; "sampling" is what the model says, "roots" a URI."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def answer(self, question: Question) -> Any:
        """The answer to a question. Raises `BadAnswer`."""
        if question.method != ELICIT:
            value = self._values["sampling" if question.method == SAMPLE else "roots"]
            return value if question.method == SAMPLE else [value]
        schema: _Schema = question.params["requestedSchema"]
        fields = schema["properties"]
        missing = [name for name in schema.get("required", ()) if name not in self._values]
        content = {name: self._read(name, fields[name]) for name in fields if name in self._values}
        if missing or not content:
            _say(f"mcpkit: cancelled: {question.params['message']}")
            _say(f"mcpkit: it needs --answer {'=…  --answer '.join(missing or fields)}=…")
            return Cancelled()
        return content

    def _read(self, name: str, schema: _Schema) -> Any:
        try:
            return read(self._values[name], schema)
        except ValueError as error:
            raise BadAnswer(f"--answer {name} {error}") from None


# -- In the terminal ---------------------------------------------------------------------


def at_terminal(question: Question) -> Any:
    """Show a question and read the answer. The end of input (ctrl-d) cancels."""
    params = question.params
    _say(f"\n{params['message']}")
    try:
        if params.get("mode") == "url":
            _say(f"  {params['url']}")
            return None if _agrees("Open this page yourself. Going there?") else Declined()
        schema: _Schema = params["requestedSchema"]
        if not schema["properties"]:
            return {} if _agrees("Agree?") else Declined()
        _say("(an empty line takes the default in brackets; ctrl-d cancels)")
        entered = {
            name: _enter(name, member, required=name in schema.get("required", ()))
            for name, member in schema["properties"].items()
        }
    except EOFError:
        _say("\ncancelled")
        return Cancelled()
    return {name: value for name, value in entered.items() if value is not None}


def _enter(name: str, schema: _Schema, *, required: bool) -> Any:
    """What is entered for a field; None when it is left out."""
    title = schema.get("title", name)
    _say(f"{title}: {schema['description']}" if "description" in schema else title)
    options = _options(schema)
    for number, (value, label) in enumerate(options, 1):
        _say(f"  {number}) {value}" + (f" - {label}" if label != value else ""))
    prompt = f"  {_hint(schema, options)}{_default(schema)}: "
    hidden = _SECRET.search(f"{name} {title}") is not None
    while True:
        text = (getpass.getpass(prompt, sys.stderr) if hidden else _input(prompt)).strip()
        if not text and "default" in schema:
            return schema["default"]
        if not text and not required:
            return None
        try:
            if not text:
                raise ValueError("is needed")
            return read(text, schema)
        except ValueError as error:
            _say(f"  {title} {error}")


def _agrees(prompt: str) -> bool:
    while True:
        text = _input(f"{prompt} [y/n]: ").strip().lower()
        if text in (*_YES, *_NO):
            return text in _YES


def _input(prompt: str) -> str:
    _say(prompt, end="")
    return input()


def _say(text: str, end: str = "\n") -> None:
    """Show a text of the server's, without what would steer the terminal."""
    shown = "".join(character if character.isprintable() or character == "\n" else "?" for character in text)
    print(shown, file=sys.stderr, end=end, flush=True)


def _hint(schema: _Schema, options: list[tuple[str, str]]) -> str:
    kind = schema["type"]
    if kind == "array":
        return "numbers, with commas between"
    if options:
        return "number"
    if kind == "boolean":
        return "y/n"
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = f" from {low}" * (low is not None) + f" up to {high}" * (high is not None)
    return f"{schema.get('format', 'text' if kind == 'string' else kind)}{bounds}"


def _default(schema: _Schema) -> str:
    if "default" not in schema:
        return ""
    default = schema["default"]
    if isinstance(default, list):
        return f" [{','.join(default)}]"
    return f" [{'ny'[default]}]" if isinstance(default, bool) else f" [{default}]"


# -- Text as a value ---------------------------------------------------------------------


def _options(schema: _Schema) -> list[tuple[str, str]]:
    """The choices of a field: values and titles."""
    holder = schema.get("items", schema)
    titled = holder.get("oneOf") or holder.get("anyOf")
    if titled:
        return [(option["const"], option["title"]) for option in titled]
    values = holder.get("enum", [])
    return list(zip(values, holder.get("enumNames", values), strict=True))


def read(text: str, schema: _Schema) -> Any:
    """The value that a text stands for. Raises ValueError, with the rest of a sentence that begins with the
    field's name.
    """
    options = _options(schema)
    value: Any = text
    if schema["type"] == "array":
        value = [_chosen(part.strip(), options) for part in text.split(",") if part.strip()]
    elif options:
        value = _chosen(text, options)
    elif schema["type"] == "boolean" and text.lower() in (*_YES, *_NO):
        value = text.lower() in _YES
    else:
        value = leniency.coerce(text, schema, {})
    problem = problem_of(value, schema)
    if problem is not None:
        raise ValueError(problem)
    return value


def _chosen(text: str, options: list[tuple[str, str]]) -> str:
    """A choice, by its value, its title or its number."""
    for value, label in options:
        if text in (value, label):
            return value
    return options[int(text) - 1][0] if text.isdecimal() and 1 <= int(text) <= len(options) else text
