"""Questions to the client, in both eras, behind one face.

In the handshake era a question is a request to the client, and the handler waits (`Live`). In the stateless
era the round ends, and the handler runs again with what the client brings (`Resumed`; see `journal`).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec
import trio
from msgspec import Raw, UnsetType

from mcpkit.journal import Journal, keep, restore
from mcpkit.output import BadResult
from mcpkit.protocol import events, jsonrpc
from mcpkit.protocol.questions import Question, fit, refusal
from mcpkit.questions import Unavailable

_PATIENCE_SECONDS = 1.0
"""For telling a client that a question is taken back."""

_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)


class Desk:
    """Where the questions of one session wait for their answers."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}

    async def ask(self, question: Question, write: Callable[[bytes], Awaitable[None]], seconds: float) -> Any:
        """The result of a question, or `Unavailable`. When nobody waits for it any more, the client is told
        (CAN-04).
        """
        # Another process may serve the same session: an answer to its question is not for one of ours.
        question_id = f"mcpkit-{secrets.token_hex(8)}"
        waiting = self._waiting[question_id] = _Waiting()
        try:
            await write(jsonrpc.request(question_id, question.method, question.params or msgspec.UNSET))
            with trio.move_on_after(seconds):
                await waiting.answered.wait()
            if not waiting.answered.is_set():
                return Unavailable(f"the client did not answer within {seconds:g} s")
            return waiting.answer()
        except _GONE:
            return Unavailable("the client has gone")
        finally:
            del self._waiting[question_id]
            if not waiting.answered.is_set():
                taken_back = jsonrpc.notification("notifications/cancelled", {"requestId": question_id})
                deadline = trio.current_time() + _PATIENCE_SECONDS
                with trio.CancelScope(shield=True, deadline=deadline), contextlib.suppress(*_GONE):
                    await write(taken_back)

    def answered(self, reply: events.Reply) -> None:
        """The client's response to a question; one that nobody waits for is ignored (CAN-06)."""
        waiting = self._waiting.get(str(reply.id)) if isinstance(reply.id, str) else None
        if waiting is not None:
            waiting.reply = reply
            waiting.answered.set()


class _Waiting:
    def __init__(self) -> None:
        self.answered = trio.Event()
        self.reply: events.Reply | None = None

    def answer(self) -> Any:
        assert self.reply is not None
        if isinstance(self.reply.result, UnsetType):
            return Unavailable(f"the client answered with an error: {_error_text(self.reply.error)}")
        try:
            return msgspec.json.decode(self.reply.result)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return Unavailable("the client's answer cannot be read")


def _error_text(error: Raw | UnsetType) -> str:
    try:
        return str(msgspec.json.decode(error, type=jsonrpc.ErrorObject).message)  # type: ignore[arg-type]
    except (msgspec.MsgspecError, RecursionError, UnicodeError, TypeError):
        return "no reason given"


class Asker(Protocol):
    """A port that reaches a client which can be asked while a call runs."""

    async def ask(self, question: Question, seconds: float) -> Any:
        """The result, or `Unavailable`."""
        ...


class Dialogue:
    """What `Context` asks and steps through. `responses` and `state` are for the low-level way."""

    def __init__(self, call: events.Call, responses: Mapping[str, Any], state: str | None) -> None:
        self._call = call
        self._stepping = False
        self._count = 0
        self.responses = responses
        self.state = state

    def refusal(self, question: Question) -> str | None:
        """Why the client, in this revision, cannot be asked; None when it can."""
        return refusal(question, self._call.envelope.revision, self._call.envelope.capabilities)

    def supports(self, question: Question) -> bool:
        """Whether the client, in this revision, can be asked."""
        return self.refusal(question) is None

    def key(self) -> str:
        """A name for the next question that has none."""
        self._count += 1
        return f"question_{self._count}"

    async def ask(self, asked: Mapping[str, Question], seconds: float) -> dict[str, Any]:
        """The result of each question, or `Unavailable`."""
        self._refuse_inside_step("ask")
        answers: dict[str, Any] = {}
        possible: dict[str, Question] = {}
        for key, question in asked.items():
            reason = self.refusal(question)
            if reason is None:
                possible[key] = question
            else:
                answers[key] = Unavailable(reason)
        return {**answers, **(await self._ask(possible, seconds) if possible else {})}

    def begin_step(self, function: Callable[..., Any]) -> tuple[bool, Any]:
        """Whether a step has been done in an earlier round, and its result. If not, `end_step` or `fail_step`
        follows.
        """
        self._refuse_inside_step("take a step")
        done, result = self._begin_step(function)
        self._stepping = not done
        return done, result

    def end_step(self, function: Callable[..., Any], result: Any) -> Any:
        """The step has been done; its result, as it would be restored. Raises `output.BadResult`."""
        try:
            kept = keep(function, result)
            restored = restore(function, kept)
        except BadResult as error:
            self.fail_step(function, error)
            raise
        self._stepping = False
        self._keep_step(function, kept)
        return restored

    def fail_step(self, function: Callable[..., Any], error: BaseException) -> None:
        """The step has raised."""
        self._stepping = False

    def check_ended(self) -> None:
        """After the handler has returned or failed: raise if it should have ended its round, or has strayed."""

    async def close(self) -> None:
        """The call has ended: take back what is still asked."""

    def _refuse_inside_step(self, what: str) -> None:
        if self._stepping:
            raise RuntimeError(
                f"a handler cannot {what} while a step of it runs: a step is done as a whole or not at all, so "
                "it cannot ask or take steps itself, and steps come one after the other"
            )

    async def _ask(self, asked: Mapping[str, Question], seconds: float) -> dict[str, Any]:
        raise NotImplementedError

    def _begin_step(self, function: Callable[..., Any]) -> tuple[bool, Any]:
        return False, None

    def _keep_step(self, function: Callable[..., Any], kept: bytes) -> None:
        pass


class Live(Dialogue):
    """The handshake era: a question is a request to the client."""

    def __init__(self, call: events.Call, port: Asker, state: str | None = None) -> None:
        super().__init__(call, {}, state)
        self._port = port
        self._open: set[trio.CancelScope] = set()
        self._closed = trio.Event()
        self._ended = False

    async def close(self) -> None:
        """See `Dialogue`. Handlers on other threads ask from tasks that outlive the call, while the client must
        hear that a question is taken back before the call's stream ends.
        """
        self._ended = True
        for scope in self._open:
            scope.cancel()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _PATIENCE_SECONDS):
            while self._open:
                self._closed = trio.Event()
                await self._closed.wait()

    async def _ask(self, asked: Mapping[str, Question], seconds: float) -> dict[str, Any]:
        answers: dict[str, Any] = dict.fromkeys(asked, Unavailable("the call has ended"))

        async def one(key: str, question: Question) -> None:
            fitted = Question(question.method, fit(question, self._call.envelope.revision))
            if self._ended:
                return
            with trio.CancelScope() as scope:
                self._open.add(scope)
                try:
                    answers[key] = await self._port.ask(fitted, seconds)
                finally:
                    self._open.discard(scope)
                    self._closed.set()

        if len(asked) == 1:  # no nursery, and no exception groups, around what is mostly one question
            await one(*next(iter(asked.items())))
            return answers
        async with trio.open_nursery() as nursery:
            for key, question in asked.items():
                nursery.start_soon(one, key, question)
        return answers


class Resumed(Dialogue):
    """The stateless era: a question ends the round."""

    def __init__(self, call: events.Call, journal: Journal, responses: Mapping[str, Any]) -> None:
        super().__init__(call, responses, journal.pages.state)
        self._journal = journal

    def check_ended(self) -> None:
        """See `Dialogue`."""
        self._journal.check_ended()

    def fail_step(self, function: Callable[..., Any], error: BaseException) -> None:
        """See `Dialogue`."""
        super().fail_step(function, error)
        if isinstance(error, Exception):
            self._journal.fail_step(function, error)

    async def _ask(self, asked: Mapping[str, Question], seconds: float) -> dict[str, Any]:
        return self._journal.ask(asked)

    def _begin_step(self, function: Callable[..., Any]) -> tuple[bool, Any]:
        return self._journal.begin_step(function)

    def _keep_step(self, function: Callable[..., Any], kept: bytes) -> None:
        self._journal.end_step(function, kept)
