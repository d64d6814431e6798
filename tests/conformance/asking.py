"""The part of the conformance server that asks: sampling, elicitation, multi round-trip requests."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mcpkit import (
    Accepted,
    Blueprint,
    Cancelled,
    Context,
    Declined,
    ElicitForm,
    InputRequired,
    ListRoots,
    Message,
    Sample,
    Unavailable,
    user,
)

asking = Blueprint("asking")


def told(answer: Accepted[Any] | Declined | Cancelled | Unavailable) -> str:
    """What became of a form, as the suite's own server says it."""
    action = {Accepted: "accept", Declined: "decline", Cancelled: "cancel"}.get(type(answer), "none")
    content = msgspec.json.encode(answer.value).decode() if isinstance(answer, Accepted) else "null"
    return f"action={action}, content={content}"


# -- One handler, whatever the era -------------------------------------------------------------


class Account(msgspec.Struct):
    username: str
    email: str


@asking.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Asks the client's model."""
    answer = await ctx.sample(prompt, max_tokens=100)
    return f"LLM response: {answer.value.text}" if isinstance(answer, Accepted) else str(answer)


@asking.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the user."""
    return f"User response: {told(await ctx.elicit(Account, message))}"


class Defaults(msgspec.Struct):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


@asking.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks with a default for each field."""
    return f"Elicitation completed: {told(await ctx.elicit(Defaults, 'Please review the defaults.'))}"


def titled(kind: str, names: tuple[str, ...], titles: tuple[str, ...]) -> dict[str, Any]:
    return {kind: [{"const": name, "title": title} for name, title in zip(names, titles, strict=True)]}


OPTIONS = ("option1", "option2", "option3")
VALUES = ("value1", "value2", "value3")
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": list(OPTIONS)},
        "titledSingle": {"type": "string"}
        | titled("oneOf", VALUES, ("First Option", "Second Option", "Third Option")),
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": list(OPTIONS)}},
        "titledMulti": {
            "type": "array",
            "items": titled("anyOf", VALUES, ("First Choice", "Second Choice", "Third Choice")),
        },
    },
}


@asking.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks with each form of a choice."""
    answers = await ctx.ask(choices=ElicitForm(ENUMS, "Please choose."))
    return f"Elicitation completed: {told(answers['choices'])}"


# -- The low-level way: names and states of our own ---------------------------------------------


class Name(msgspec.Struct):
    name: str


class Color(msgspec.Struct):
    color: str


class Ok(msgspec.Struct):
    ok: bool


class Text(msgspec.Struct):
    context: str


WHO = ElicitForm(Name, "What is your name?")


def content(ctx: Context, key: str) -> dict[str, Any]:
    answer = ctx.input_responses.get(key) or {}
    return answer.get("content") or {}


@asking.tool
async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequired:
    """Greets whoever answers."""
    name = content(ctx, "user_name").get("name")
    return f"Hello, {name}!" if name is not None else InputRequired({"user_name": WHO})


@asking.tool
async def test_input_required_result_sampling(ctx: Context) -> str | InputRequired:
    """Asks the client's model for a capital."""
    if "capital_question" not in ctx.input_responses:
        return InputRequired({"capital_question": Sample("What is the capital of France?", max_tokens=100)})
    return f"The model said: {ctx.input_responses['capital_question']['content']}"


@asking.tool
async def test_input_required_result_list_roots(ctx: Context) -> str | InputRequired:
    """Asks for the client's roots."""
    if "client_roots" not in ctx.input_responses:
        return InputRequired({"client_roots": ListRoots()})
    return f"Roots: {len(ctx.input_responses['client_roots']['roots'])}"


@asking.tool
async def test_input_required_result_request_state(ctx: Context) -> str | InputRequired:
    """Goes on with the state that it gave away."""
    if "confirm" not in ctx.input_responses:
        return InputRequired({"confirm": ElicitForm(Ok, "Go on?")}, state="waiting")
    return "state-ok" if ctx.request_state == "waiting" else "state-missing"


@asking.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str | InputRequired:
    """Asks for everything at once."""
    questions = {
        "user_name": WHO,
        "greeting": Sample("Greet the user.", max_tokens=50),
        "client_roots": ListRoots(),
    }
    if not questions.keys() <= ctx.input_responses.keys():
        return InputRequired(questions, state="all")
    return f"Hello, {content(ctx, 'user_name').get('name')}!"


@asking.tool
async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequired:
    """Asks twice, and remembers the first answer."""
    if ctx.request_state is None or (
        "step1" not in ctx.input_responses and "step2" not in ctx.input_responses
    ):
        return InputRequired({"step1": ElicitForm(Name, "Step 1: your name?")}, state="step 1")
    if "step2" not in ctx.input_responses:
        name = content(ctx, "step1").get("name")
        return InputRequired({"step2": ElicitForm(Color, "Step 2: your colour?")}, state=f"step 2 for {name}")
    return f"{ctx.request_state}: {content(ctx, 'step2').get('color')}"


@asking.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequired:
    """Has a state that nobody may change."""
    if "confirm" not in ctx.input_responses:
        return InputRequired({"confirm": ElicitForm(Ok, "Go on?")}, state="sealed")
    return f"The state is {ctx.request_state}."


@asking.tool
async def test_input_required_result_capabilities(ctx: Context) -> str | InputRequired:
    """Asks what the client can be asked."""
    questions = {
        "user_name": WHO,
        "capital_question": Sample("What is the capital of France?", max_tokens=100),
    }
    possible = {key: question for key, question in questions.items() if ctx.supports(question)}
    if possible and not ctx.input_responses:
        return InputRequired(possible)
    return "There is nothing to ask, or all is answered."


@asking.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Asks the user; in the stateless era nothing but the question may come."""
    return told(await ctx.elicit(Name, "What is your name?"))


@asking.prompt
async def test_input_required_result_prompt(ctx: Context) -> list[Message] | InputRequired:
    """A prompt that asks first."""
    context = content(ctx, "user_context").get("context")
    if context is None:
        return InputRequired({"user_context": ElicitForm(Text, "What is it about?")})
    return [user(f"Use this context: {context}")]
