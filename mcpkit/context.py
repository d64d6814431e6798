"""What a handler can know about the request that it serves, and say while it runs.

A handler asks for it by annotating a parameter: `ctx: Context` in an `async def`, `ctx: SyncContext` in a
`def`. Both are safe to use unconditionally: what the client did not ask for is not sent.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from mcpkit.content import Message, plain
from mcpkit.errors import AnswerMisfit
from mcpkit.forms import Misfit
from mcpkit.principal import Principal
from mcpkit.protocol import events, jsonrpc
from mcpkit.protocol.questions import Question, Root
from mcpkit.protocol.types import LOG_LEVELS, Implementation, LogLevel, RequestId
from mcpkit.questions import (
    Accepted,
    Answer,
    AnyQuestion,
    Cancelled,
    Declined,
    ElicitForm,
    ElicitUrl,
    ListRoots,
    Sample,
    Sampled,
    Unavailable,
    checked,
)

T = TypeVar("T")


class Port(Protocol):
    """How a context reaches the engine that serves its call."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the request over HTTP, names in lower case; none elsewhere."""
        ...

    @property
    def principal(self) -> Principal | None:
        """Who calls; None where nobody is asked: on stdio, and in an app without auth."""
        ...

    @property
    def token(self) -> str | None:
        """The token that the caller has shown; None where nobody is asked for one."""
        ...

    @property
    def caller(self) -> str:
        """What tells callers apart where nobody is asked who they are: the session, or the client's address."""
        ...

    def emit(self, event: events.Said) -> None:
        """Put a message for the client into the outgoing buffer. Raises TypeError or ValueError for data
        without a JSON form.
        """

    async def drain(self) -> None:
        """Wait until the outgoing buffer has room."""

    def send(self, event: events.Said) -> None:
        """`emit` and `drain`, from a `def` handler."""

    def close_stream(self) -> None:
        """Let go of the client's response stream, where the client can come back for the rest."""

    def check_cancelled(self) -> None:
        """Raise the engine's cancellation in a `def` handler whose call was cancelled."""

    async def in_engine(self, function: Callable[[], Awaitable[T]]) -> T:
        """What one of the engine's async functions returns, in an `async def` handler."""
        ...

    def wait_for(self, function: Callable[[], Awaitable[T]]) -> T:
        """What an async function returns, in a `def` handler."""
        ...

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        """What a function returns that may block, in an `async def` handler."""
        ...


class Dialogue(Protocol):
    """What a handler has asked and done; see `engine.asking`."""

    responses: Mapping[str, Any]
    state: str | None

    def supports(self, question: Question) -> bool:
        """Whether the client, in this revision, can be asked."""
        ...

    def key(self) -> str:
        """A name for the next question that has none."""
        ...

    async def ask(self, asked: Mapping[str, Question], seconds: float) -> dict[str, Any]:
        """The result of each question, or `Unavailable`."""
        ...

    def begin_step(self, function: Callable[..., Any]) -> tuple[bool, Any]:
        """Whether a step has been done in an earlier round, and its result."""
        ...

    def end_step(self, function: Callable[..., Any], result: Any) -> Any:
        """The step has been done; its result, as it would be restored."""
        ...

    def fail_step(self, function: Callable[..., Any], error: BaseException) -> None:
        """The step has raised."""


QUESTION_SECONDS = 600.0
"""How long a client may take to answer a question, in the handshake era."""


class _Context:
    def __init__(
        self, call: events.Call, port: Port, app: Any, state: Any, dialogue: Dialogue | None = None
    ) -> None:
        self._call = call
        self._port = port
        self._talk = dialogue
        self._meta: dict[str, Any] | None = None
        self.app: Any = app
        """The `App`."""
        self.state: Any = state
        """What the lifespan yielded; None without one."""

    @property
    def request_id(self) -> RequestId:
        """The id of the request, a string or an integer."""
        return self._call.id

    @property
    def method(self) -> str:
        """The method of the request, such as "tools/call"."""
        return self._call.method.name

    @property
    def revision(self) -> str:
        """The protocol revision of the request, such as "2025-11-25"."""
        return self._call.envelope.revision

    @property
    def client(self) -> Implementation | None:
        """Who asks (`.name`, `.version`, `.title`), if it said so. A client can claim anything: never decide
        on it.
        """
        return self._call.envelope.client

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client declared that it can do."""
        return self._call.envelope.capabilities

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request, names in lower case; empty on stdio."""
        return self._port.headers

    @property
    def principal(self) -> Principal | None:
        """Who calls; None where nobody is asked: on stdio, and in an app without auth."""
        return self._port.principal

    @property
    def token(self) -> str | None:
        """The token that the caller has shown. It is for this server alone: never pass it on to another one."""
        return self._port.token

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`, applications' own keys included."""
        if self._meta is None:
            raw = jsonrpc.decode(self._call.data).params
            params: dict[str, Any] = {} if isinstance(raw, msgspec.UnsetType) else msgspec.json.decode(raw)
            self._meta = params.get("_meta") or {}
        return self._meta or {}

    def _progress(self, progress: float, total: float | None, message: str | None) -> events.Progress:
        # What has no JSON form must fail here, in the handler: a value that waits is sent where nobody catches that.
        if not (message is None or isinstance(message, str)):
            raise TypeError(f"the message of progress is text, not {message!r}")
        ends = None if total is None else _finite(total)
        return events.Progress(self._call, _finite(progress), ends, plain(message))

    def _log(self, level: LogLevel, data: Any, logger: str | None) -> events.Log:
        if level not in LOG_LEVELS:
            raise ValueError(f"unknown log level {level!r}: use one of {', '.join(LOG_LEVELS)}")
        if not (logger is None or isinstance(logger, str)):
            raise TypeError(f"a logger is named by a string, not by {logger!r}")
        return events.Log(self._call, level, data, plain(logger))

    # -- Asking, on the engine's side --------------------------------------------------------

    @property
    def input_responses(self) -> Mapping[str, Any]:
        """What the client brought for the questions of an `InputRequired`, as JSON by their names; empty in
        the first round.
        """
        return self._dialogue.responses

    @property
    def request_state(self) -> str | None:
        """The state of the `InputRequired` that is being answered; None in the first round."""
        return self._dialogue.state

    def supports(self, question: AnyQuestion) -> bool:
        """Whether the client can be asked this."""
        return self._dialogue.supports(question.question)

    @property
    def _dialogue(self) -> Dialogue:
        if self._talk is None:
            raise RuntimeError("only tools, prompts and resources can ask the client and take steps")
        return self._talk

    async def _one(self, question: AnyQuestion, seconds: float) -> Any:
        key = self._dialogue.key()
        return (await self._several({key: question}, seconds))[key]

    async def _several(
        self, questions: Mapping[str, AnyQuestion], seconds: float = QUESTION_SECONDS
    ) -> dict[str, Any]:
        """The answers. A form is asked for again, with the reason, when what was entered does not fit."""
        answers: dict[str, Any] = dict.fromkeys(questions)
        asked = checked(questions)
        reasons: list[str] = []
        for _ in range(_ATTEMPTS):
            results = await self._dialogue.ask({key: asked[key].question for key in asked}, seconds)
            again: dict[str, AnyQuestion] = {}
            for key in asked:
                original = questions[key]
                try:
                    answers[key] = _read(original, results[key])
                except Misfit as misfit:
                    assert isinstance(original, ElicitForm)
                    again[key] = original.again(str(misfit))
                    reasons.append(str(misfit))
            if not again:
                return answers
            asked = again
        raise AnswerMisfit(f"what was entered does not fit, {_ATTEMPTS} times: {reasons[-1]}")


_ATTEMPTS = 3


def _read(question: AnyQuestion, result: Any) -> Any:
    if isinstance(result, Unavailable):
        return result
    try:
        return question.read(result)
    except msgspec.ValidationError as error:
        return Unavailable(f"the client's answer is malformed: {error}")


def _finite(value: float) -> float:
    """A number as JSON has them, for one of any kind, such as a Fraction or numpy's."""
    try:
        finite = math.isfinite(value)
    except OverflowError:  # an integer that no float comes near
        finite = False
    if not finite:
        raise ValueError(f"progress must be a finite number, not {value!r:.100}")
    return int(value) if isinstance(value, int) else float(value)


class Context(_Context):
    """The request that an `async def` handler serves."""

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far the call is. Values that do not increase are not sent; of those that come faster
        than 20 a second, after a burst of 50, the newest is. Raises ValueError unless the numbers are finite,
        TypeError for a message that is no text.
        """
        self._port.emit(self._progress(progress, total, message))
        await self._port.drain()

    async def log(self, level: LogLevel, data: Any, logger: str | None = None) -> None:
        """Send a log message; `data` is any JSON-encodable value. Raises ValueError for an unknown level,
        TypeError for other data.
        """
        self._port.emit(self._log(level, data, logger))
        await self._port.drain()

    async def debug(self, data: Any, logger: str | None = None) -> None:
        """Log at level debug."""
        await self.log("debug", data, logger)

    async def info(self, data: Any, logger: str | None = None) -> None:
        """Log at level info."""
        await self.log("info", data, logger)

    async def warning(self, data: Any, logger: str | None = None) -> None:
        """Log at level warning."""
        await self.log("warning", data, logger)

    async def error(self, data: Any, logger: str | None = None) -> None:
        """Log at level error."""
        await self.log("error", data, logger)

    async def elicit(
        self, kind: type[T], message: str, *, timeout: float = QUESTION_SECONDS
    ) -> Accepted[T] | Declined | Cancelled | Unavailable:
        """Ask a person to fill in a form: a flat Struct or dataclass of `str`, `int`, `float`, `bool`, enums
        and Literals, lists of these, and optional ones.

        What does not fit is asked for again, twice, with the reason; then the call fails. `timeout` is in
        seconds, and counts in the handshake era only. Raises TypeError for what a form cannot hold, naming the
        field; see `ElicitForm`. In the stateless era the round ends here, and the handler runs again with the
        answer: see `step`.
        """
        form = ElicitForm(kind, message)
        return await self._port.in_engine(lambda: self._one(form, timeout))

    async def elicit_url(
        self, url: str, message: str, *, timeout: float = QUESTION_SECONDS
    ) -> Accepted[None] | Declined | Cancelled | Unavailable:
        """Send a person to a URL, for what must not pass through the client. `Accepted` says that they agreed
        to go there, not that they have finished.
        """
        visit = ElicitUrl(url, message)
        return await self._port.in_engine(lambda: self._one(visit, timeout))

    async def sample(
        self,
        messages: str | Message | Iterable[str | Message],
        *,
        timeout: float = QUESTION_SECONDS,
        **options: Any,
    ) -> Accepted[Sampled] | Declined | Cancelled | Unavailable:
        """Ask the client's model; the options are those of `Sample`, such as `max_tokens`."""
        request = Sample(messages, **options)
        return await self._port.in_engine(lambda: self._one(request, timeout))

    async def list_roots(
        self, *, timeout: float = QUESTION_SECONDS
    ) -> Accepted[list[Root]] | Declined | Cancelled | Unavailable:
        """Ask which folders and files the client works in."""
        return await self._port.in_engine(lambda: self._one(ListRoots(), timeout))

    async def ask(self, **questions: AnyQuestion) -> dict[str, Answer]:
        """Ask several questions in one round; the answers by the same names. Forms are asked for again like
        those of `elicit`.
        """
        return await self._port.in_engine(lambda: self._several(questions))

    async def step(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a function returns, which is called once however often the handler runs: what it does must not
        happen again because a question comes after it.

        Its result must have a JSON form, and comes back as its return annotation says, from the first time on.
        What it raises is raised again when the handler runs again. A plain function runs in a thread. A step
        cannot ask or take steps itself. When a round is lost on its way, its steps run again.
        """
        done, result = self._dialogue.begin_step(function)
        if done:
            return result
        try:
            if inspect.iscoroutinefunction(function):
                result = await function(*args)
            else:
                result = await self._port.in_thread(function, *args)
                result = await result if inspect.isawaitable(result) else result
        except BaseException as error:
            self._dialogue.fail_step(function, error)
            raise
        return self._dialogue.end_step(function, result)

    async def close_stream(self) -> None:
        """Let go of the client's response stream; the call goes on, and the client reconnects and fetches the
        rest. For calls that take longer than a connection should be held.

        Does nothing where a stream cannot be resumed: on stdio, in the stateless era, and in revisions before
        2025-11-25. Source: MCP 2025-11-25, Streamable HTTP, "Sending Messages to the Server".
        """
        self._port.close_stream()
        await self._port.drain()


class SyncContext(_Context):
    """The request that a `def` handler serves: the same methods, blocking."""

    def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far the call is. Values that do not increase are not sent; of those that come faster
        than 20 a second, after a burst of 50, the newest is. Raises ValueError unless the numbers are finite,
        TypeError for a message that is no text.
        """
        self._port.send(self._progress(progress, total, message))

    def log(self, level: LogLevel, data: Any, logger: str | None = None) -> None:
        """Send a log message; `data` is any JSON-encodable value. Raises ValueError for an unknown level,
        TypeError for other data.
        """
        self._port.send(self._log(level, data, logger))

    def debug(self, data: Any, logger: str | None = None) -> None:
        """Log at level debug."""
        self.log("debug", data, logger)

    def info(self, data: Any, logger: str | None = None) -> None:
        """Log at level info."""
        self.log("info", data, logger)

    def warning(self, data: Any, logger: str | None = None) -> None:
        """Log at level warning."""
        self.log("warning", data, logger)

    def error(self, data: Any, logger: str | None = None) -> None:
        """Log at level error."""
        self.log("error", data, logger)

    def elicit(
        self, kind: type[T], message: str, *, timeout: float = QUESTION_SECONDS
    ) -> Accepted[T] | Declined | Cancelled | Unavailable:
        """Ask a person to fill in a form; see `Context.elicit`."""
        form = ElicitForm(kind, message)
        return self._port.wait_for(lambda: self._one(form, timeout))  # type: ignore[no-any-return]

    def elicit_url(
        self, url: str, message: str, *, timeout: float = QUESTION_SECONDS
    ) -> Accepted[None] | Declined | Cancelled | Unavailable:
        """Send a person to a URL; see `Context.elicit_url`."""
        visit = ElicitUrl(url, message)
        return self._port.wait_for(lambda: self._one(visit, timeout))  # type: ignore[no-any-return]

    def sample(
        self,
        messages: str | Message | Iterable[str | Message],
        *,
        timeout: float = QUESTION_SECONDS,
        **options: Any,
    ) -> Accepted[Sampled] | Declined | Cancelled | Unavailable:
        """Ask the client's model; see `Context.sample`."""
        request = Sample(messages, **options)
        return self._port.wait_for(lambda: self._one(request, timeout))  # type: ignore[no-any-return]

    def list_roots(
        self, *, timeout: float = QUESTION_SECONDS
    ) -> Accepted[list[Root]] | Declined | Cancelled | Unavailable:
        """Ask which folders and files the client works in."""
        return self._port.wait_for(lambda: self._one(ListRoots(), timeout))  # type: ignore[no-any-return]

    def ask(self, **questions: AnyQuestion) -> dict[str, Answer]:
        """Ask several questions in one round; see `Context.ask`."""
        return self._port.wait_for(lambda: self._several(questions))

    def step(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a function returns, which is called once however often the handler runs; see `Context.step`."""
        done, result = self._dialogue.begin_step(function)
        if done:
            return result
        try:
            if inspect.iscoroutinefunction(function):
                result = self._port.wait_for(lambda: function(*args))
            else:
                result = function(*args)
        except BaseException as error:
            self._dialogue.fail_step(function, error)
            raise
        return self._dialogue.end_step(function, result)

    def close_stream(self) -> None:
        """Let go of the client's response stream; the call goes on, and the client reconnects and fetches the
        rest. Does nothing where a stream cannot be resumed; see `Context.close_stream`.
        """
        self._port.close_stream()

    def check_cancelled(self) -> None:
        """Return if the call is still wanted; otherwise raise, so that the handler ends."""
        self._port.check_cancelled()
