"""A client's side of questions: what tests, and people at a terminal, answer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcpkit.protocol.questions import ELICIT, SAMPLE, Question
from mcpkit.questions import Accepted, Cancelled, Declined

Answerer = Callable[[Question], Any | Awaitable[Any]]
Answers = Mapping[str, Any] | Answerer
"""A function of the question, sync or async; or a mapping.

In a mapping a key is the message of a question, with the whole answer as its value, or the name of a form's
field, with what is entered there. "sampling" is the text that the client's model says, "roots" a list of
URIs. A question without any of these is cancelled.

An answer is a dict of what a form holds, a string for a completion, a list of URIs for roots; `Declined()` or
`Cancelled()`; or `Accepted(…)` of any of the first.
"""


async def result(answers: Answers, question: Question) -> dict[str, Any]:
    """The result that a client sends for a question."""
    answer = answers(question) if callable(answers) else _looked_up(answers, question)
    if inspect.isawaitable(answer):
        answer = await answer
    if isinstance(answer, Accepted):
        answer = answer.value
    if question.method == ELICIT:
        return _elicited(answer)
    if question.method == SAMPLE:
        content = {"type": "text", "text": answer} if isinstance(answer, str) else answer
        return {"role": "assistant", "content": content, "model": "test", "stopReason": "endTurn"}
    return {"roots": [{"uri": root} if isinstance(root, str) else root for root in answer or ()]}


def _elicited(answer: Any) -> dict[str, Any]:
    if isinstance(answer, Declined):
        return {"action": "decline"}
    if isinstance(answer, Cancelled):
        return {"action": "cancel"}
    return {"action": "accept", **({"content": answer} if answer is not None else {})}


def _looked_up(answers: Mapping[str, Any], question: Question) -> Any:
    params = question.params
    if question.method == SAMPLE:
        return answers.get("sampling", "")
    if question.method != ELICIT:
        return answers.get("roots", ())
    if params["message"] in answers:
        return answers[params["message"]]
    fields = params.get("requestedSchema", {}).get("properties", {})
    content = {name: answers[name] for name in fields if name in answers}
    return content or Cancelled()
