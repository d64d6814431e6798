"""Questions that a handler asks the client, and what comes of them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from mcpkit.content import Block, Message, user
from mcpkit.forms import Form
from mcpkit.protocol import types
from mcpkit.protocol.questions import (
    ELICIT,
    ROOTS,
    SAMPLE,
    ElicitResult,
    Question,
    Root,
    RootsResult,
    SamplingResult,
    check_turns,
)

T = TypeVar("T")


class Accepted(Struct, Generic[T], frozen=True):
    """The answer, as the type that was asked for."""

    value: T


class Declined(Struct, frozen=True):
    """The person said no."""


class Cancelled(Struct, frozen=True):
    """The person closed the question without an answer."""


class Unavailable(Struct, frozen=True):
    """The client cannot be asked, failed, or did not answer in time; `reason` says which."""

    reason: str = ""


class Sampled(Struct, frozen=True):
    """What the client's model said. `content` holds the blocks; `stop_reason` is such as "endTurn"."""

    content: list[Any]
    model: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """All text blocks, joined by line feeds."""
        return "\n".join(block.text for block in self.content if isinstance(block, types.TextContent))


class ElicitForm:
    """Ask a person to fill in a form: a flat Struct or dataclass, or a JSON Schema in the shape of forms.

    Its fields are `str`, `int`, `float`, `bool`, dates, enums and Literals, lists of these two, and optional
    ones; titles, descriptions, bounds and defaults come from `Param`, as does the format of a string:
    `Param(extra={"format": "email"})` ("email", "uri", "date", "date-time"). The choices of an enum get titles
    with `Annotated[Size, Param(extra={"enumNames": ["Small", "Large"]})]`, in the order of its members; the
    same around a list of it. Never ask for a secret in a form: use `ElicitUrl`.

    Raises TypeError for what a form cannot hold, and for a default that does not fit, naming the field. That is
    when the form is made: at import for one that stands in a module, else when a handler first asks. Clients of
    revision 2025-06-18 show no defaults but those of booleans; a form with a list is `Unavailable` there.
    """

    def __init__(self, kind: Any, message: str) -> None:
        self._form = Form(kind)
        self.message = message

    @property
    def question(self) -> Question:
        """What is sent."""
        return Question(
            ELICIT, {"mode": "form", "message": self.message, "requestedSchema": self._form.schema}
        )

    def again(self, reason: str) -> ElicitForm:
        """The same form, with the reason why the last answer did not fit."""
        copy: ElicitForm = object.__new__(ElicitForm)
        copy._form = self._form
        copy.message = f"{self.message}\n\nPlease correct: {reason}"
        return copy

    def read(self, result: Any) -> Any:
        """The answer for a result. Raises `forms.Misfit` for accepted content that does not fit."""
        return _elicited(result, self._form.read)


class ElicitUrl:
    """Send a person to a URL, for what must not pass through the client: credentials, payments. An accepted
    answer says that they agreed to go there, not that they have finished.

    The page must check who opens it: the URL can be passed on. Raises ValueError for what is no http or https
    URL.
    """

    def __init__(self, url: str, message: str) -> None:
        if not re.fullmatch(r"https?://[^\s/?#]\S*", url, re.IGNORECASE):
            raise ValueError(f"a person is sent to an http or https URL, which {url!r} is not")
        self.id = secrets.token_hex(16)
        """Names the visit in revision 2025-11-25."""
        self._params = {"mode": "url", "message": message, "elicitationId": self.id, "url": url}

    @property
    def question(self) -> Question:
        """What is sent."""
        return Question(ELICIT, self._params)

    def read(self, result: Any) -> Any:
        """The answer for a result."""
        return _elicited(result, lambda content: None)


def _elicited(result: Any, read: Any) -> Any:
    answer = msgspec.convert(result, ElicitResult)
    if answer.action == "accept":
        return Accepted(read(answer.content))
    return Declined() if answer.action == "decline" else Cancelled()


class Sample:
    """Ask the client's model. `messages` is a string, a `Message`, or a list of them; a message can also be a
    dict as the specification has it, such as one with the results of tools. `max_tokens` bounds the answer;
    `options` are further params of the specification in its spelling, such as `modelPreferences={…}` or
    `tools=[…]`.

    Raises TypeError for a message with other content than text, images and sound, ValueError for uses of tools
    without their results.
    """

    def __init__(
        self,
        messages: str | Message | Mapping[str, Any] | Iterable[str | Message | Mapping[str, Any]],
        *,
        max_tokens: int = 1000,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] = (),
        **options: Any,
    ) -> None:
        items = [messages] if isinstance(messages, str | Message | Block | Mapping) else list(messages)
        wire = [_said(item) for item in items]
        check_turns(wire)
        params: dict[str, Any] = {"messages": wire, "maxTokens": max_tokens}
        named = {
            "systemPrompt": system_prompt,
            "temperature": temperature,
            "stopSequences": list(stop_sequences) or None,
        }
        self._params = params | {key: value for key, value in named.items() if value is not None} | options

    @property
    def question(self) -> Question:
        """What is sent."""
        return Question(SAMPLE, self._params)

    def read(self, result: Any) -> Any:
        """The answer for a result."""
        answer = msgspec.convert(result, SamplingResult)
        return Accepted(Sampled(answer.blocks, answer.model, answer.stop_reason))


def _said(item: Any) -> dict[str, Any]:
    """A message of a sampling request."""
    if isinstance(item, Mapping):
        if not {"role", "content"} <= item.keys():
            raise TypeError("a message that is a dict has a role and a content")
        return dict(item)
    message = item.wire if isinstance(item, Message) else user(item).wire
    if not isinstance(message.content, types.TextContent | types.ImageContent | types.AudioContent):
        kind = type(message.content).__name__.removesuffix("Content")
        raise TypeError(f"a model is asked with text, images and sound, not with {kind}: put its text in")
    wire: dict[str, Any] = msgspec.to_builtins(message)
    return wire


class ListRoots:
    """Ask which folders and files the client works in."""

    question = Question(ROOTS, {})

    def read(self, result: Any) -> Any:
        """The answer for a result: a list of roots with `.uri` and `.name`."""
        return Accepted(msgspec.convert(result, RootsResult).roots)


AnyQuestion = ElicitForm | ElicitUrl | Sample | ListRoots
Answer = Accepted[Any] | Declined | Cancelled | Unavailable


class InputRequired:
    """The low-level way to ask: a handler returns it, and is called again with `ctx.input_responses` and
    `ctx.request_state`.

    `questions` maps names of its own choosing to questions; `state` comes back as it is, sealed on its way
    through the client. A client may bring only some of the answers: return it again for what is missing. What
    the handler has to know again stands in `state`: `ctx.step` and `ctx.elicit` begin anew.

    Raises TypeError for questions that are none, ValueError without questions and state.
    """

    def __init__(self, questions: Mapping[str, AnyQuestion] | None = None, state: str | None = None) -> None:
        if not questions and state is None:
            raise ValueError(
                "InputRequired needs questions, or a state with which the client comes back later"
            )
        if not isinstance(state, str | None):
            raise TypeError(f"the state of InputRequired is a string, not {type(state).__name__}")
        self.questions = checked(questions or {})
        self.state = state


def checked(questions: Mapping[str, Any]) -> dict[str, AnyQuestion]:
    """The questions by their names. Raises TypeError for anything else."""
    for key, question in questions.items():
        if not isinstance(key, str) or not isinstance(question, AnyQuestion):
            raise TypeError(
                f"what is asked is an ElicitForm, ElicitUrl, Sample or ListRoots under a name, not "
                f"{type(question).__name__} under {key!r}"
            )
    return dict(questions)


__all__ = [
    "Accepted",
    "Answer",
    "Cancelled",
    "Declined",
    "ElicitForm",
    "ElicitUrl",
    "InputRequired",
    "ListRoots",
    "Root",
    "Sample",
    "Sampled",
    "Unavailable",
]
