"""The handshake era: a question is a request to the client, which can fail in every way that a request can."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from asking import questionnaire
from asking.asking_kit import ASKABLE, Raw, accept, greeted, served, talking, text
from clients.peer import watched
from support import initialize, request

from mcpkit import (
    Accepted,
    App,
    Context,
    Declined,
    ElicitForm,
    InputRequired,
    ListRoots,
    Sample,
    SyncContext,
    Unavailable,
)

LIVE = ASKABLE[:2]
each_revision = pytest.mark.parametrize("revision", LIVE)
KINDS = ("task", "thread", "asyncio")
each_kind = pytest.mark.parametrize("kind", KINDS)


class Confirm(msgspec.Struct):
    proceed: bool


def asking(timeout: float = 60.0) -> App:
    """An app that asks with this time-out, in each kind of function. `app.left` tells who was left waiting."""
    app = App("asking")
    left: list[str] = []
    app.left = left  # type: ignore[attr-defined]

    @app.tool
    async def task(ctx: Context) -> str:
        try:
            return repr(await ctx.elicit(Confirm, "Go on?", timeout=timeout))
        except BaseException as error:
            left.append(f"task {type(error).__name__}")
            raise

    @app.tool
    def thread(ctx: SyncContext) -> str:
        try:
            return repr(ctx.elicit(Confirm, "Go on?", timeout=timeout))
        except BaseException as error:
            left.append(f"thread {type(error).__name__}")
            raise

    @app.tool(loop="asyncio")
    async def asyncio(ctx: Context) -> str:
        try:
            return repr(await ctx.elicit(Confirm, "Go on?", timeout=timeout))
        except BaseException as error:
            left.append(f"asyncio {type(error).__name__}")
            raise

    @app.tool
    async def several(ctx: Context) -> str:
        return repr(
            await ctx.ask(a=ElicitForm(Confirm, "a"), b=ElicitForm(Confirm, "b"), c=ElicitForm(Confirm, "c"))
        )

    return app


@each_revision
@each_kind
async def test_no_answer_in_time_is_unavailable_and_the_client_is_told(revision: str, kind: str) -> None:
    """CAN-04, S2C-06: the question is cancelled on time-out."""
    async with talking(asking(timeout=0.05), revision) as client:
        call = client.begin(kind)
        question = await client.question()
        cancelled = await client.receive()
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == question["id"]
        assert text(await client.reply(call)) == repr(Unavailable("the client did not answer within 0.05 s"))
        client.answer(question, accept(proceed=True))  # CAN-06: too late, and ignored
        await client.ping()


@each_revision
@each_kind
async def test_a_call_that_is_cancelled_takes_its_question_back(revision: str, kind: str) -> None:
    """CAN-01, CAN-04: the handler stops, the client is told, and nothing is sent for the call."""
    app = asking()
    async with talking(app, revision) as client:
        call = client.begin(kind)
        question = await client.question()
        client.send({"method": "notifications/cancelled", "params": {"requestId": call}})
        cancelled = await client.receive()
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == question["id"]
        client.answer(question, accept(proceed=True))  # crossing
        await client.ping()
        while not app.left:  # type: ignore[attr-defined]
            await trio.lowlevel.checkpoint()
    assert app.left == [f"{kind} {'CancelledError' if kind == 'asyncio' else 'Cancelled'}"]  # type: ignore[attr-defined]


@each_kind
async def test_a_handler_that_takes_too_long_takes_its_question_back(kind: str) -> None:
    """CAN-04: `timeout=` of the tool counts the time that a person takes."""
    app = App("hasty")

    async def task(ctx: Context) -> str:
        return repr(await ctx.elicit(Confirm, "Go on?"))

    def thread(ctx: SyncContext) -> str:
        return repr(ctx.elicit(Confirm, "Go on?"))

    loop = "asyncio" if kind == "asyncio" else None
    app.add_tool(thread if kind == "thread" else task, name="t", timeout=0.5, loop=loop)
    async with talking(app, LIVE[1]) as client:
        call = client.begin("t")
        question = await client.question()
        cancelled = await client.receive()
        assert cancelled["params"]["requestId"] == question["id"]
        assert "did not finish within 0.5 s" in text(await client.reply(call))


@each_kind
async def test_a_client_that_leaves_ends_the_questions(kind: str) -> None:
    """STD-05: the end of input ends the server, with a question open in any kind of handler."""
    app = asking()
    async with served(app) as wire:
        client = await greeted(wire, LIVE[1])
        client.begin(kind)
        await client.question()
        wire.close()
        while await wire.receive() is not None:
            pass
    while not app.left:  # type: ignore[attr-defined]
        await trio.lowlevel.checkpoint()  # a thread learns of it by itself


@each_kind
async def test_a_client_that_has_gone_is_no_failure(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """STD-05: nobody is left to hear that the question is taken back, and nothing is logged."""
    async with talking(asking(), LIVE[1]) as client:
        client.begin(kind)
        await client.question()
    assert caplog.records == []


@each_revision
@each_kind
@pytest.mark.parametrize("code", [-1, -32601, -32602])
async def test_an_error_for_an_answer_is_unavailable(revision: str, kind: str, code: int) -> None:
    """S2C-06: -1 (refused by a person), -32601, -32602; the reason is the client's."""
    async with talking(asking(), revision) as client:
        call = client.begin(kind)
        question = await client.question()
        client.send({"id": question["id"], "error": {"code": code, "message": "No, thanks"}})
        expected = Unavailable("the client answered with an error: No, thanks")
        assert text(await client.reply(call)) == repr(expected)


@each_revision
@pytest.mark.parametrize(
    "result",
    [
        None,
        7,
        [],
        {},
        {"action": "maybe"},
        {"action": ["accept"]},
        {"action": "accept", "content": [1]},
        "accept",
    ],
)
async def test_a_malformed_answer_is_unavailable(revision: str, result: Any) -> None:
    """S2C-06: what is no result of the question is no answer."""
    async with talking(asking(), revision) as client:
        call = client.begin("task")
        client.answer(await client.question(), result)
        assert "Unavailable(reason=\"the client's answer is malformed" in text(await client.reply(call))


async def test_an_error_that_is_none_is_unavailable() -> None:
    """RPC-07: an error has a code and a message."""
    async with talking(asking(), LIVE[1]) as client:
        for error in ("no", {}, {"message": 3}, None):
            call = client.begin("task")
            client.send({"id": (await client.question())["id"], "error": error})
            assert "Unavailable" in text(await client.reply(call))


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("sampling/createMessage", {"role": "assistant", "content": {"type": "text"}, "model": "m"}),
        ("sampling/createMessage", {"role": "assistant", "content": "hi", "model": "m"}),
        ("sampling/createMessage", {"role": "assistant", "content": [{"text": "hi"}], "model": "m"}),
        ("sampling/createMessage", {"role": "assistant", "content": {"type": "text", "text": "hi"}}),
        ("roots/list", {"roots": [{"name": "x"}]}),
        ("roots/list", {"roots": None}),
        ("roots/list", {}),
    ],
)
async def test_malformed_completions_and_roots_are_unavailable(method: str, result: Any) -> None:
    """S2C-06 for the other questions."""
    app = App("other")

    @app.tool
    async def t(ctx: Context) -> str:
        return repr(await (ctx.sample("hi") if method.startswith("sampling") else ctx.list_roots()))

    async with talking(app, LIVE[1]) as client:
        call = client.begin("t")
        client.answer(await client.question(method), result)
        assert text(await client.reply(call)).startswith(
            "Unavailable(reason=\"the client's answer is malformed"
        )


@each_revision
async def test_blocks_of_a_completion_are_typed(revision: str) -> None:
    """Schema, CreateMessageResult: one block, or several from 2025-11-25; uses of tools as they are."""
    app = App("sampling")

    @app.tool
    async def t(ctx: Context) -> list[str]:
        answer = await ctx.sample("hi", max_tokens=9)
        said = answer.value  # type: ignore[union-attr]
        kinds = [type(block).__name__ for block in said.content]
        return [*kinds, said.text, said.model, str(said.stop_reason)]

    use = {"type": "tool_use", "id": "1", "name": "x", "input": {}}
    blocks = [{"type": "text", "text": "a"}, use, {"type": "text", "text": "b"}]
    async with talking(app, revision) as client:
        for content, told in (
            (blocks, ["TextContent", "dict", "TextContent", "a\nb", "m", "toolUse"]),
            (blocks[0], ["TextContent", "a", "m", "toolUse"]),
        ):
            call = client.begin("t")
            question = await client.question("sampling/createMessage")
            answer = {"role": "assistant", "content": content, "model": "m", "stopReason": "toolUse"}
            client.answer(question, answer)
            assert msgspec.json.decode(text(await client.reply(call))) == told


async def test_several_questions_are_open_at_once_and_named_apart() -> None:
    """RPC-02: ids of requests are not used twice; answers come in any order."""
    async with talking(asking(), LIVE[1]) as client:
        call = client.begin("several")
        questions = {q["params"]["message"]: q for q in [await client.question() for _ in range(3)]}
        assert len({q["id"] for q in questions.values()}) == 3
        client.answer(questions["c"], accept(proceed=True))
        client.answer(questions["a"], {"action": "decline"})
        client.send({"id": "mcpkit-1", "result": accept(proceed=False)})  # a question that was never asked
        client.send({"id": questions["c"]["id"], "result": accept(proceed=False)})  # answered before
        client.send({"id": questions["b"]["id"], "error": {"code": -1, "message": "no"}})
        told = text(await client.reply(call))
        b = Unavailable("the client answered with an error: no")
        assert told == repr({"a": Declined(), "b": b, "c": Accepted(Confirm(True))})


async def test_two_sessions_never_have_the_same_question() -> None:
    """An answer that reaches another process, or another session, answers nothing there."""
    ids = []
    for _ in range(2):
        async with talking(asking(), LIVE[1]) as client:
            client.begin("task")
            ids.append((await client.question())["id"])
    assert ids[0] != ids[1]


@each_revision
async def test_what_does_not_fit_is_asked_for_again_with_the_reason(revision: str) -> None:
    """S2C-06: at most twice more; then the call fails, with the reason."""
    app = App("strict")

    @app.tool
    async def t(ctx: Context) -> str:
        return repr(await ctx.elicit(Confirm, "Go on?"))

    @app.prompt
    async def p(ctx: Context) -> str:
        return repr(await ctx.elicit(Confirm, "Go on?"))

    async def misfit(client: Raw, times: int) -> None:
        for number in range(times):
            question = await client.question()
            expected = (
                "Go on?"
                if number == 0
                else "Go on?\n\nPlease correct: `proceed`: expected boolean, got string"
            )
            assert question["params"]["message"] == expected
            client.answer(question, accept(proceed="so-so"))

    async with talking(app, revision) as client:
        call = client.begin("t")
        await misfit(client, 2)
        client.answer(await client.question(), accept(proceed=True))
        assert "proceed=True" in text(await client.reply(call))
        call = client.begin("t")
        await misfit(client, 3)
        reply = await client.reply(call)
        assert reply["result"]["isError"]
        assert text(reply).endswith("does not fit, 3 times: `proceed`: expected boolean, got string")
        call = client.request("prompts/get", {"name": "p"})
        await misfit(client, 3)
        assert (await client.reply(call))["error"]["code"] == -32603


@each_revision
async def test_of_several_forms_only_the_misfit_is_asked_again(revision: str) -> None:
    """S2C-06, for `ctx.ask`."""
    async with talking(asking(), revision) as client:
        call = client.begin("several")
        for question in [await client.question() for _ in range(3)]:
            fits = question["params"]["message"] != "b"
            client.answer(question, accept(proceed=True) if fits else accept())
        again = await client.question()
        assert again["params"]["message"].startswith("b\n\nPlease correct: ")
        client.answer(again, accept(proceed=False))
        told = text(await client.reply(call))
        assert told.count("proceed=True") == 2
        assert told.count("proceed=False") == 1


async def test_an_inline_handler_cannot_wait() -> None:
    """It holds the thread on which the answer would come."""
    app = App("inline", debug=True)

    @app.tool(inline=True)
    def t(ctx: SyncContext) -> str:
        return repr(ctx.elicit(Confirm, "Go on?"))

    async with talking(app, LIVE[1]) as client:
        assert "drop inline=True" in text(await client.call("t"))
        await client.ping()


async def test_a_handler_can_see_what_it_could_ask() -> None:
    """S2C-01, as `ctx.supports`."""
    app = App("questions")

    @app.tool
    async def t(ctx: Context) -> str:
        asked = {"form": ElicitForm(Confirm, "?"), "sampling": Sample("hi"), "roots": ListRoots()}
        return ",".join(name for name, question in asked.items() if ctx.supports(question))

    async with talking(app, LIVE[1]) as client:
        assert text(await client.call("t")) == "form,sampling,roots"
    async with talking(app, LIVE[1], {"roots": {}}) as client:
        assert text(await client.call("t")) == "roots"


# -- The low-level way --------------------------------------------------------------------------------------


@each_revision
async def test_a_returned_question_is_asked_and_the_handler_called_again(revision: str) -> None:
    """MRTR-14: what is written for the stateless era works for a client that waits."""
    questionnaire.done.clear()
    async with talking(questionnaire.app, revision) as client:
        call = client.begin("by_hand")
        client.answer(await client.question(), {"action": "decline"})
        assert text(await client.reply(call)) == "asked once: decline"
        call = client.begin("stateless_by_hand")
        client.answer(await client.question(), accept(name="Ada"))
        assert text(await client.reply(call)) == "Hello, Ada!"
    assert questionnaire.done == ["first"]


@each_revision
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"result": {"action": "maybe"}}, "what the client sent is none"),
        ({"result": 3}, "what the client sent is none"),
        ({"error": {"code": -1, "message": "no"}}, "the client answered with an error: no"),
    ],
)
async def test_a_returned_question_without_an_answer_fails_the_call(
    revision: str, answer: Any, reason: str
) -> None:
    """S2C-06."""
    async with talking(questionnaire.app, revision) as client:
        call = client.begin("by_hand")
        client.send({"id": (await client.question())["id"], **answer})
        reply = await client.reply(call)
        assert reply["result"]["isError"]
        assert text(reply) == f"There was no answer: {reason}"


async def test_a_returned_question_that_cannot_be_asked_fails_the_call() -> None:
    """S2C-01: an error result, which says what is missing."""
    async with talking(questionnaire.app, LIVE[1], {}) as client:
        reply = await client.call("by_hand")
        assert reply["result"]["isError"]
        assert text(reply).endswith("the client does not declare elicitation")


def test_a_state_alone_is_taken_up_a_little_later() -> None:
    """MRTR-13 means "come back later": here the handler is called again, without spinning."""
    app = App("patient")
    calls: list[float] = []

    @app.tool
    async def t(ctx: Context) -> str | InputRequired:
        calls.append(trio.current_time())
        return "done" if len(calls) == 3 else InputRequired(state=f"round {len(calls)}")

    async def main() -> None:
        async with talking(app, LIVE[1]) as client:
            assert text(await client.call("t")) == "done"

    trio.run(functools.partial(main), clock=trio.testing.MockClock(autojump_threshold=0))
    assert [later - calls[0] for later in calls] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("tool", ["book", "book_sync", "book_asyncio"])
@pytest.mark.parametrize("how", ["end of input", "signal"])
def test_a_process_ends_with_a_question_open(tool: str, how: str) -> None:
    """STD-05, PITFALLS stdio rows 7 and 8: within about a second, with exit code 0, and nothing is said."""
    with watched(questionnaire.__file__) as server:
        server.send(initialize(LIVE[1], capabilities={"elicitation": {}}))
        server.receive_until("init")
        server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        server.send(request(1, "tools/call", {"name": tool, "arguments": {"name": "Ada"}}))
        assert server.receive()["method"] == "elicitation/create"
        if how == "signal":
            server.process.terminate()
        else:
            server.close_input()
        assert server.wait(5) == 0
        assert server.errors == ""
