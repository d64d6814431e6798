"""`mcpkit.testing.Client` answers for a user's tests, and fails them when the server asks what it must not."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from asking.asking_kit import ASKABLE, HANDSHAKE, STATELESS

from mcpkit import Accepted, App, Cancelled, Context, Declined, ElicitForm, InputRequired, McpError
from mcpkit.protocol.questions import Question, fit, violation
from mcpkit.testing import Client, ProtocolViolation

each_revision = pytest.mark.parametrize("revision", ASKABLE)


class Form(msgspec.Struct):
    name: str
    count: int = 1


app = App("answered")


@app.tool
async def form(ctx: Context) -> str:
    return repr(await ctx.elicit(Form, "Who?"))


@app.tool
async def model(ctx: Context) -> str:
    return repr(await ctx.sample("Say hi"))


@app.tool
async def roots(ctx: Context) -> str:
    return repr(await ctx.list_roots())


@app.tool
async def endless(ctx: Context) -> InputRequired:
    return InputRequired({"again": ElicitForm(Form, "Again?")}, state="s")


async def told(tool: str, revision: str, answers: Any) -> str:
    async with Client(app, revision=revision, answers=answers) as client:
        return (await client.call_tool(tool)).text


FILLED = "Accepted(value=Form(name='Ada', count=1))"


@each_revision
@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"name": "Ada"}, FILLED),
        ({"Who?": {"name": "Ada"}}, FILLED),
        ({"Who?": Accepted({"name": "Ada"})}, FILLED),
        ({"Who?": Declined(), "name": "Ada"}, "Declined()"),
        ({"Who?": Cancelled()}, "Cancelled()"),
        ({"other": 1}, "Cancelled()"),
        ({}, "Cancelled()"),
    ],
)
async def test_answers_are_found_by_message_and_by_field(answers: Any, expected: str, revision: str) -> None:
    """DESIGN 4.8: a mapping; what is not in it is cancelled."""
    assert await told("form", revision, answers) == expected


@each_revision
async def test_a_function_may_answer(revision: str) -> None:
    """Sync or async; it sees the question."""
    seen: list[Question] = []

    def answer(question: Question) -> Any:
        seen.append(question)
        return {"name": "Ada"}

    async def later(question: Question) -> Any:
        await trio.lowlevel.checkpoint()
        return answer(question)

    assert await told("form", revision, answer) == FILLED
    assert await told("form", revision, later) == FILLED
    assert [(question.method, question.params["message"]) for question in seen] == [
        ("elicitation/create", "Who?")
    ] * 2


@each_revision
async def test_completions_and_roots_are_answered(revision: str) -> None:
    """A text, a whole block, blocks; URIs, or roots with names."""
    for said in ("hi", {"type": "text", "text": "hi"}):
        assert "text='hi'" in await told("model", revision, {"sampling": said})
    named = {"uri": "file:///x", "name": "X"}
    assert "Root(uri='file:///x', name='X')" in await told("roots", revision, {"roots": [named]})
    assert await told("roots", revision, {}) == "Accepted(value=[])"


async def test_what_an_answer_raises_fails_the_test() -> None:
    """An assertion about a question is one about the server."""

    def answer(question: Question) -> Any:
        raise AssertionError(question.params["message"])

    for revision in ASKABLE:
        with pytest.raises(AssertionError, match=r"^Who\?$"):
            await told("form", revision, answer)


async def test_rounds_without_end_are_a_violation() -> None:
    """A test that never ends says nothing."""
    with pytest.raises(ProtocolViolation, match="asked for more in 20 rounds"):
        await told("endless", STATELESS, {"name": "Ada"})


async def test_a_client_without_answers_cannot_be_asked() -> None:
    """It declares nothing, unless it is told to."""
    async with Client(app) as client:
        assert "Unavailable" in (await client.call_tool("form")).text
        with pytest.raises(McpError) as caught:
            await client.call_tool("endless")
        assert caught.value.code == -32021
    async with Client(app, revision=HANDSHAKE[3], capabilities={"elicitation": {}}) as client:
        assert "does not answer elicitation/create" in (await client.call_tool("form")).text
    async with Client(app, capabilities={"elicitation": {}}) as client:
        with pytest.raises(ProtocolViolation, match="has no answers="):
            await client.call_tool("form")
        asked = await client.request("tools/call", {"name": "form"})
        assert asked["resultType"] == "input_required"


def test_a_client_that_is_to_come_back_later_does() -> None:
    """MRTR-13: a little later each time, with or without answers."""
    patient = App("patient")
    times: list[float] = []

    @patient.tool
    async def wait(ctx: Context) -> str | InputRequired:
        times.append(trio.current_time())
        return "done" if len(times) == 4 else InputRequired(state="wait")

    async def main() -> None:
        async with Client(patient) as client:
            assert (await client.call_tool("wait")).text == "done"

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses == pytest.approx([0.05, 0.1, 0.2])


@pytest.mark.parametrize(
    ("params", "revision", "capabilities", "reason"),
    [
        ({"mode": "form"}, HANDSHAKE[2], {"elicitation": {}}, "has what 2025-06-18 does not know"),
        ({}, HANDSHAKE[1], {"elicitation": {}}, "has no elicitation"),
        ({"mode": "form"}, HANDSHAKE[3], {}, "does not declare elicitation"),
        ({"mode": "form"}, HANDSHAKE[3], {"elicitation": {}}, None),
        ({"mode": "url", "elicitationId": "1"}, STATELESS, {"elicitation": {"url": {}}}, "does not know"),
    ],
)
def test_questions_that_must_not_be_asked_are_found(
    params: Any, revision: str, capabilities: Any, reason: str | None
) -> None:
    """S2C-01, S2C-07, MRTR-03, ELI-02: whatever was sent is compared with what may be."""
    shared = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
    found = violation(Question("elicitation/create", {**shared, **params}), revision, capabilities)
    assert found is None if reason is None else reason in str(found)


@pytest.mark.parametrize("revision", ASKABLE)
def test_what_fits_fits_again(revision: str) -> None:
    """Otherwise a client could not tell what must not be asked."""
    question = ElicitForm(Form, "Who?").question
    once = fit(question, revision)
    assert fit(Question(question.method, once), revision) == once
