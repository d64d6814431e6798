"""One handler for both eras: what it has been told and what it has done, so that it can run again from the
start.

In the stateless era a handler that asks a question cannot wait. Its round ends; on the retry it runs again,
and the journal gives the answers and the results of its steps as it reaches them, until it comes to the first
question that has no answer yet.

Rule 1. The journal is a list. A handler must come to the same questions and steps in the same order each
        time; where it does not, it is told the position, what was expected, and what came.
Rule 2. A question that has no answer ends the round by an exception that no `except Exception` catches. After
        it nothing more is asked or done in this round.
Rule 3. What is kept is JSON: of an answer what the client sent, of a step its result, encoded and restored by
        the type that it is annotated with. A handler gets the restored result at once, in both eras, so that it
        sees the same the first time as when it runs again.
Rule 4. A step that raises is kept as well, once the handler goes on: it would come to other questions if the
        step succeeded the next time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, NoReturn

import msgspec
from msgspec import Raw, Struct

from mcpkit import foreign, output
from mcpkit.hints import function_hints
from mcpkit.protocol.errors import InvalidParams
from mcpkit.protocol.questions import RESULTS, Question

Kind = Literal["ask", "step", "failed"]


class Entry(Struct, array_like=True):
    """A question that was answered, or a step that is done or has failed; `label` says which it was."""

    kind: Kind
    label: str
    value: Raw


class Pages(Struct, omit_defaults=True):
    """What is kept between rounds. `pending` is the label of the last round's questions, if it ended with some;
    `asked` are those that have no answer yet, by key, with their methods, and `partial` the answers to the others.

    A handler that asks the low-level way has a `state`; `wanted` are its questions, `brought` their answers.
    """

    entries: list[Entry] = []
    pending: str | None = None
    asked: dict[str, str] = {}
    partial: dict[str, Raw] = {}
    state: str | None = None
    wanted: dict[str, str] = {}
    brought: dict[str, Raw] = {}


class Suspended(BaseException):
    """The round ends with these questions, and is taken up with these pages."""

    def __init__(self, questions: Mapping[str, Question], pages: Pages) -> None:
        super().__init__("the handler waits for answers; do not catch this")
        self.questions = questions
        self.pages = pages


class Strayed(Exception):
    """The handler did not come to the question or step that it came to before."""


class StepFailed(Exception):
    """A step had failed in an earlier round, with an exception that cannot be made again; the text is its own."""


class Journal:
    """The journal of one run of a handler. `responses` are the client's answers to what was asked last.

    Raises `InvalidParams` for a response that is none.
    """

    def __init__(self, pages: Pages | None = None, responses: Mapping[str, Raw] | None = None) -> None:
        self.pages = pages or Pages()
        self.suspended = False
        self._strayed: Strayed | None = None
        self._position = 0
        answered = check_responses(self.pages.asked, responses or {})
        self._fresh = {**self.pages.partial, **answered}

    def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """The results of these questions. Raises `Suspended` while one has none, `Strayed`."""
        label = ", ".join(f"{key} ({question.method})" for key, question in questions.items())
        entry = self._replay("ask", label)
        if entry is not None:
            answers: dict[str, Any] = msgspec.json.decode(entry.value)
            return answers
        missing = {key: question for key, question in questions.items() if key not in self._fresh}
        if missing:
            self.suspended = True
            self.pages.pending = label
            self.pages.asked = {key: question.method for key, question in missing.items()}
            self.pages.partial = {key: value for key, value in self._fresh.items() if key in questions}
            raise Suspended(missing, self.pages)
        found = {key: self._fresh.pop(key) for key in questions}
        self._write("ask", label, msgspec.json.encode(found))
        return {key: msgspec.json.decode(value) for key, value in found.items()}

    def begin_step(self, function: Callable[..., Any]) -> tuple[bool, Any]:
        """Whether the step has been done, and its result. Raises `Strayed`, and what a step raised that failed
        in an earlier round.
        """
        entry = self._replay("step", name_of(function))
        if entry is None:
            return False, None
        if entry.kind == "failed":
            _raise_again(entry.value)
        return True, restore(function, entry.value)

    def end_step(self, function: Callable[..., Any], result: bytes) -> None:
        """Write the result of a step down, as `keep` made it."""
        self._write("step", name_of(function), result)

    def fail_step(self, function: Callable[..., Any], error: Exception) -> None:
        """Write down that a step has failed."""
        self._write("failed", name_of(function), _failure(error))

    def check_ended(self) -> None:
        """After the handler has returned or failed. Raises RuntimeError when it should have ended its round
        instead, and what it was told when it strayed.
        """
        if self.suspended:
            raise RuntimeError(
                "the handler caught, or replaced by another, the exception that ends its round when it asks: "
                "catch Exception, not BaseException, and use no bare except"
            )
        if self._strayed is not None:
            raise self._strayed

    def _replay(self, kind: Kind, label: str) -> Entry | None:
        if self._strayed is not None:
            raise self._strayed
        if self.suspended:
            raise RuntimeError(
                f"the handler came to {_say(kind, label)} after a question that ends its round: ask several "
                "questions at a time with ctx.ask, catch no BaseException, and take no steps in a finally"
            )
        if self._position >= len(self.pages.entries):
            pending = self.pages.pending
            if pending is not None and (kind, label) != ("ask", pending):
                self._stray(_say(kind, label), _say("ask", pending))
            return None
        entry = self.pages.entries[self._position]
        if (_SAME[entry.kind], entry.label) != (kind, label):
            self._stray(_say(kind, label), _say(entry.kind, entry.label))
        self._position += 1
        return entry

    def _stray(self, came: str, before: str) -> NoReturn:
        self._strayed = Strayed(
            f"at position {self._position + 1} the handler came to {came}, and before to {before}: between its "
            "questions and steps it must do the same each time"
        )
        raise self._strayed

    def _write(self, kind: Kind, label: str, value: bytes) -> None:
        if self.suspended:  # the round is over: what was under way is done again
            return
        self.pages.entries.append(Entry(kind, label, Raw(value)))
        self.pages.pending, self.pages.asked, self.pages.partial = None, {}, {}
        self._position += 1


_SAME: dict[Kind, Kind] = {"ask": "ask", "step": "step", "failed": "step"}


def _say(kind: Kind, label: str) -> str:
    return f"the question {label}" if kind == "ask" else f"the step {label}"


def name_of(function: Callable[..., Any]) -> str:
    """What a step is called."""
    return getattr(function, "__qualname__", type(function).__qualname__)


def check_responses(asked: Mapping[str, str], responses: Mapping[str, Raw]) -> dict[str, Raw]:
    """Those responses that were asked for, by key and method; others are ignored (MRTR-08). Each must be a
    result of what was asked. Raises `InvalidParams` (MRTR-09).
    """
    answered = {key: responses[key] for key in asked if key in responses}
    for key, response in answered.items():
        try:
            msgspec.json.decode(response, type=RESULTS[asked[key]])
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            raise InvalidParams(f"inputResponses.{key} is not a result of {asked[key]}") from None
    return answered


# -- Results of steps ----------------------------------------------------------------------------------------


def keep(function: Callable[..., Any], result: Any) -> bytes:
    """The result of a step as JSON. Raises `output.BadResult` when it has none."""
    try:
        return output.encode(result)
    except output.BadResult as error:
        problem = str(error).removeprefix("the result ")
        raise output.BadResult(f"the result of the step {name_of(function)} {problem}") from None


def restore(function: Callable[..., Any], value: bytes) -> Any:
    """The result of a step, by its return annotation. Raises `output.BadResult` when it does not fit."""
    returns = _returns(function)
    try:
        return msgspec.json.decode(value, type=returns, dec_hook=foreign.from_builtins)
    except (msgspec.ValidationError, ValueError, TypeError, NotImplementedError) as error:
        raise output.BadResult(
            f"the result of the step {name_of(function)} does not fit its return annotation: {error}"
        ) from None


def _returns(function: Callable[..., Any]) -> Any:
    try:
        return function_hints(function, {}).get("return", Any)
    except TypeError:  # a callable without hints
        return Any
    except NameError as error:
        raise output.BadResult(
            f"the return annotation of the step {name_of(function)} cannot be resolved: {error}. Define it where "
            "the module of the step can see it"
        ) from None


# -- Failures of steps ---------------------------------------------------------------------------------------


class _Failure(Struct, array_like=True):
    module: str
    name: str
    text: str
    arguments: Raw
    members: Raw


def _failure(error: Exception) -> bytes:
    kind = type(error)
    try:
        text = str(error)
    except Exception:  # a class of the user's
        text = kind.__qualname__
    try:
        arguments, members = output.encode(list(error.args)), output.encode(vars(error))
    except output.BadResult:
        arguments, members = msgspec.json.encode([text]), b"{}"
    return msgspec.json.encode(
        _Failure(kind.__module__, kind.__qualname__, text, Raw(arguments), Raw(members))
    )


def _raise_again(value: Raw) -> NoReturn:
    """Raise what a step has raised: the same class, arguments and members, where these can be had."""
    failure = msgspec.json.decode(value, type=_Failure)
    kind = getattr(sys.modules.get(failure.module), failure.name, None)
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        raise StepFailed(f"{failure.name}: {failure.text}")
    arguments = msgspec.json.decode(failure.arguments)
    try:  # without __init__, which may take other arguments than it keeps
        error = kind.__new__(kind, *arguments)
    except TypeError:
        raise StepFailed(f"{failure.name}: {failure.text}") from None
    error.args = tuple(arguments)
    vars(error).update(msgspec.json.decode(failure.members))
    raise error
