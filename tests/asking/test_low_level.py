"""The low-level way to ask: a handler returns its questions and keeps its own state."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest
from asking import questionnaire
from asking.asking_kit import ALL, STATELESS, accept, talking, text
from hosts.process import serving_http
from support import OVER_HTTP, PREFIX

from mcpkit import (
    App,
    Context,
    ElicitForm,
    ElicitUrl,
    InputRequired,
    ListRoots,
    Message,
    Sample,
    SyncContext,
    ToolResult,
    user,
)


class Confirm(msgspec.Struct):
    proceed: bool


YES = {"confirm": accept(proceed=True)}


async def test_questions_have_the_handler_s_own_keys_and_the_state_is_sealed() -> None:
    """MRTR-02, MRTR-06: the client sees neither the state nor what it is."""
    async with talking(questionnaire.app) as client:
        first = await client.call("by_hand")
        result = first["result"]
        assert result["resultType"] == "input_required"
        assert result["inputRequests"]["confirm"]["params"] == {
            "mode": "form",
            "message": "Sure?",
            "requestedSchema": {
                "type": "object",
                "properties": {"proceed": {"type": "boolean"}},
                "required": ["proceed"],
            },
        }
        assert "asked once" not in result["requestState"]
        assert text(await client.retry("by_hand", first, **YES)) == "asked once: accept"


async def test_what_is_missing_is_asked_again_with_the_state_that_the_handler_chooses() -> None:
    """MRTR-08: no answer, or only other keys; what is more is ignored, whatever it is."""
    async with talking(questionnaire.app) as client:
        first = await client.call("by_hand")
        for others in ({}, {"other": accept(x=1)}, {"other": 3}, {"Confirm": None}):
            again = await client.retry("by_hand", first, **others)
            assert list(again["result"]["inputRequests"]) == ["confirm"]
            assert text(await client.retry("by_hand", again, **YES, extra=3)) == "asked again: accept"


async def test_without_a_state_the_answers_are_enough() -> None:
    """MRTR-11: no `requestState` is issued, and none is needed; the first request may bring them."""
    async with talking(questionnaire.app) as client:
        first = await client.call("stateless_by_hand")
        assert "requestState" not in first["result"]
        name = accept(name="Ada")
        assert text(await client.retry("stateless_by_hand", first, user_name=name)) == "Hello, Ada!"
        extra = {"unknown": accept(foo="bar"), "roots": {"roots": []}}
        assert text(await client.call("stateless_by_hand", inputResponses={"user_name": name, **extra}))
        wrong = await client.call("stateless_by_hand", inputResponses={"wrong": accept(x=1)})
        assert list(wrong["result"]["inputRequests"]) == ["user_name"]


@pytest.mark.parametrize(
    "responses",
    [
        None,
        3,
        "x",
        [YES],
        {"confirm": 3},
        {"confirm": None},
        {"confirm": []},
        {"confirm": "accept"},
        {"confirm": {}},
        {"confirm": {"action": 3}},
        {"confirm": {"action": "yes"}},
        {"confirm": {"action": "accept", "content": []}},
    ],
)
@pytest.mark.parametrize("tool", ["by_hand", "without"])
async def test_answers_that_are_none_are_refused(responses: Any, tool: str) -> None:
    """MRTR-09: -32602 and never a result, with a state and without."""
    async with talking(questionnaire.app) as client:
        name = "by_hand" if tool == "by_hand" else "stateless_by_hand"
        first = await client.call(name)
        questionnaire.done.clear()
        more = {"requestState": first["result"]["requestState"]} if tool == "by_hand" else {}
        reply = await client.call(name, inputResponses=responses, **more)
        assert reply["error"]["code"] == -32602
    assert questionnaire.done == []


async def test_with_a_state_each_answer_is_one_to_its_own_question() -> None:
    """MRTR-09: the roots are no answer to a form."""
    async with talking(questionnaire.app) as client:
        first = await client.call("by_hand")
        reply = await client.retry("by_hand", first, confirm={"roots": []})
        assert reply["error"]["code"] == -32602
        assert reply["error"]["message"] == "inputResponses.confirm is not a result of elicitation/create"


async def test_every_kind_of_question_can_be_returned() -> None:
    """MRTR-03, and from prompts and resources (MRTR-01); in threads, too."""
    app = App("low")

    def questions() -> InputRequired:
        return InputRequired(
            {
                "form": ElicitForm(Confirm, "?"),
                "visit": ElicitUrl("https://example.com", "Go there"),
                "model": Sample("hi", max_tokens=5),
                "roots": ListRoots(),
            },
            state="s",
        )

    @app.tool
    def tool(ctx: SyncContext) -> ToolResult | InputRequired:
        if ctx.request_state is None:
            return questions()
        return ToolResult(structured=sorted(ctx.input_responses))

    @app.prompt
    async def prompt(ctx: Context) -> list[Message] | InputRequired:
        return questions() if ctx.request_state is None else [user(str(sorted(ctx.input_responses)))]

    @app.resource("low://it")
    async def resource(ctx: Context) -> str | InputRequired:
        return questions() if ctx.request_state is None else str(sorted(ctx.input_responses))

    answers = {
        "form": accept(proceed=True),
        "visit": {"action": "accept"},
        "model": {"role": "assistant", "content": {"type": "text", "text": "ho"}, "model": "m"},
        "roots": {"roots": [{"uri": "file:///x"}]},
    }
    async with talking(app) as client:
        for method, params in (
            ("tools/call", {"name": "tool"}),
            ("prompts/get", {"name": "prompt"}),
            ("resources/read", {"uri": "low://it"}),
        ):
            asked = (await client.ask(method, params))["result"]
            assert {key: request["method"] for key, request in asked["inputRequests"].items()} == {
                "form": "elicitation/create",
                "visit": "elicitation/create",
                "model": "sampling/createMessage",
                "roots": "roots/list",
            }
            assert "elicitationId" not in asked["inputRequests"]["visit"]["params"]
            retry = {**params, "requestState": asked["requestState"], "inputResponses": answers}
            done = (await client.ask(method, retry))["result"]
            assert done["resultType"] == "complete"
            assert "visit" in str(done)


async def test_a_state_alone_tells_the_client_to_come_back() -> None:
    """MRTR-13: neither questions nor an answer; MRTR-15: the handler decides whether a visit is over."""
    app = App("patient")
    finished = False

    @app.tool
    async def pay(ctx: Context) -> str | InputRequired:
        if ctx.request_state is None:
            visit = ElicitUrl("https://example.com/pay", "Pay here")
            return InputRequired({"pay": visit}, state="waiting")
        return "paid" if finished else InputRequired(state="waiting")

    async with talking(app) as client:
        asked = await client.call("pay")
        waiting = await client.retry("pay", asked, pay={"action": "accept"})
        assert set(waiting["result"]) == {"resultType", "requestState", "_meta"}
        assert waiting["result"]["requestState"] != asked["result"]["requestState"]
        finished = True
        assert text(await client.retry("pay", waiting)) == "paid"


async def test_a_state_of_any_text_comes_back_as_it_is() -> None:
    """DESIGN 4.5: sealed on the wire, plain in the handler; the empty one is one, too."""
    app = App("states")

    @app.tool
    async def t(ctx: Context, state: str) -> str | InputRequired:
        if ctx.request_state is None:
            return InputRequired({"confirm": ElicitForm(Confirm, "?")}, state=state)
        return repr(ctx.request_state)

    async with talking(app) as client:
        for state in ("", "step-1", "é\n\0", "x" * 40_000):
            first = await client.call("t", {"state": state})
            assert len(first["result"]["requestState"]) <= 16 * 1024
            assert text(await client.retry("t", first, {"state": state}, **YES)) == repr(state)


# -- Clients that cannot answer ------------------------------------------------------------------------------

NEEDS: list[tuple[InputRequired, dict[str, Any], dict[str, Any]]] = [
    (InputRequired({"a": ElicitForm(Confirm, "?")}), {}, {"elicitation": {}}),
    (InputRequired({"a": ElicitForm(Confirm, "?")}), {"elicitation": {"url": {}}}, {"elicitation": {}}),
    (
        InputRequired({"a": ElicitUrl("https://x.example", "?"), "b": ElicitForm(Confirm, "?")}),
        {},
        {"elicitation": {"url": {}}},
    ),
    (
        InputRequired({"a": ElicitUrl("https://x.example", "?")}),
        {"elicitation": {}},
        {"elicitation": {"url": {}}},
    ),
    (InputRequired({"a": Sample("?")}), {"elicitation": {}}, {"sampling": {}}),
    (
        InputRequired({"a": Sample("?", tools=[]), "b": ListRoots(), "c": ElicitForm(Confirm, "?")}),
        {"sampling": {}, "elicitation": {}},
        {"sampling": {"tools": {}}, "roots": {}},
    ),
]


@pytest.mark.parametrize(("wanted", "capabilities", "needed"), NEEDS)
async def test_a_client_that_cannot_answer_is_told_what_is_needed(
    wanted: InputRequired, capabilities: Any, needed: Any
) -> None:
    """MRTR-04, ERR-04: -32021, with the tree of what it does not declare."""
    app = App("needs")

    @app.tool
    async def t() -> InputRequired:
        return wanted

    async with talking(app, capabilities=capabilities) as client:
        error = (await client.call("t"))["error"]
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": needed}


async def test_a_handler_can_ask_what_the_client_is_able_to_answer() -> None:
    """MRTR-04: filter where there are alternatives."""
    app = App("filters")

    @app.tool
    async def t(ctx: Context) -> InputRequired:
        questions = {"form": ElicitForm(Confirm, "?"), "model": Sample("?")}
        able = {key: question for key, question in questions.items() if ctx.supports(question)}
        return InputRequired(able, state="s")

    async with talking(app, capabilities={"sampling": {}}) as client:
        assert list((await client.call("t"))["result"]["inputRequests"]) == ["model"]


@OVER_HTTP
def test_over_http_it_is_a_bad_request() -> None:
    """Section 3: -32021 has the status 400; a client that can answer gets 200."""
    with serving_http(questionnaire.__file__) as (_, url):
        for capabilities, status in (({}, 400), (ALL, 200)):
            meta = {PREFIX + "protocolVersion": STATELESS, PREFIX + "clientCapabilities": capabilities}
            headers = {
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": STATELESS,
                "mcp-method": "tools/call",
                "mcp-name": "by_hand",
            }
            params = {"name": "by_hand", "arguments": {}, "_meta": meta}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            response = httpx.post(url, json=body, headers=headers, timeout=20)
            assert response.status_code == status
            assert ("error" in response.json()) == (status == 400)


# -- What cannot be asked ------------------------------------------------------------------------------------


def test_questions_are_questions() -> None:
    """Errors where they are made, naming the key."""
    with pytest.raises(ValueError, match="needs questions, or a state"):
        InputRequired()
    with pytest.raises(ValueError, match="needs questions, or a state"):
        InputRequired({})
    with pytest.raises(TypeError, match="not str under 'a'"):
        InputRequired({"a": "Sure?"})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="a string, not dict"):
        InputRequired(state={"step": 1})  # type: ignore[arg-type]


async def test_only_questions_can_be_asked() -> None:
    """The same with `ctx.ask`."""
    app = App("asks", debug=True)

    @app.tool
    async def t(ctx: Context) -> str:
        await ctx.ask(a="Sure?")  # type: ignore[arg-type]
        return "done"

    async with talking(app) as client:
        assert "not str under 'a'" in text(await client.call("t"))


def test_a_tool_that_may_ask_promises_the_rest_of_its_results() -> None:
    """TOOL schemas: `InputRequired` in a return annotation is no result."""
    app = App("schemas")

    @app.tool
    async def either(ctx: Context) -> Confirm | InputRequired: ...

    @app.tool
    async def words(ctx: Context) -> str | InputRequired: ...

    @app.tool
    async def alone(ctx: Context) -> InputRequired: ...

    @app.tool
    async def optional(ctx: Context) -> Confirm | InputRequired | None: ...

    app.registry.resolve()
    confirm = {"type": "object", "properties": {"proceed": {"type": "boolean"}}, "required": ["proceed"]}
    schemas = {name: tool.output.schema for name, tool in app.registry.tools.items()}
    assert schemas == {
        "either": confirm,
        "words": None,
        "alone": None,
        "optional": {"anyOf": [confirm, {"type": "null"}]},
    }
