"""The journal: a handler that runs again gets what it was told and what it did, or is told where it strays."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import msgspec
import pydantic
import pytest
import trio
from asking.asking_kit import ASKABLE, STATELESS, Raw, accept, talking, text

from mcpkit import App, Context, ElicitForm, InputRequired, McpError, SyncContext, ToolError
from mcpkit.testing import Client

each_era = pytest.mark.parametrize("revision", ASKABLE[1:])


class Confirm(msgspec.Struct):
    proceed: bool


class Size(enum.Enum):
    small = "s"


class Plan(msgspec.Struct):
    size: Size
    day: datetime.date
    parts: tuple[int, ...] = ()


@dataclasses.dataclass
class Place:
    id: uuid.UUID
    plan: Plan | None = None


class Model(pydantic.BaseModel):
    n: int


PLAN = Plan(Size.small, datetime.date(2030, 1, 2), (1, 2))


def tool(fn: Callable[..., Any], **options: Any) -> App:
    """An app whose only tool is fn, as t."""
    app = App("journal", debug=options.pop("debug", False))
    app.add_tool(fn, name="t", **options)
    return app


async def finished(client: Raw, most: int = 6) -> Any:
    """The response that ends a call, every form being answered with yes."""
    response = await client.call("t")
    for _ in range(most):
        result = response.get("result", {})
        if result.get("resultType") != "input_required":
            return response
        answers = {key: accept(proceed=True) for key in result["inputRequests"]}
        response = await client.retry("t", response, **answers)
    raise AssertionError("it asks and asks")


async def outcome(handler: Callable[..., Any], revision: str = STATELESS, **options: Any) -> Any:
    """The outcome of a tool, every form being answered with yes."""
    async with Client(
        tool(handler, debug=True, **options), revision=revision, answers={"proceed": True}
    ) as client:
        return await client.call_tool("t")


def log(caplog: pytest.LogCaptureFixture) -> str:
    """What the last line of the log says, with its exception."""
    record = caplog.records[-1]
    return f"{record.getMessage()} {record.exc_info[1]!r}" if record.exc_info else record.getMessage()


# -- Straying ------------------------------------------------------------------------------------------------


async def one() -> int:
    return 1


async def two() -> int:
    return 2


Move = Callable[[Context], Awaitable[Any]]
ask: Move = lambda ctx: ctx.elicit(Confirm, "?")  # noqa: E731
ask_roots: Move = lambda ctx: ctx.list_roots()  # noqa: E731
ask_named: Move = lambda ctx: ctx.ask(other=ElicitForm(Confirm, "?"))  # noqa: E731
ask_more: Move = lambda ctx: ctx.ask(question_1=ElicitForm(Confirm, "?"), x=ElicitForm(Confirm, "?"))  # noqa: E731
step_one: Move = lambda ctx: ctx.step(one)  # noqa: E731
step_two: Move = lambda ctx: ctx.step(two)  # noqa: E731

QUESTION = "the question question_1 (elicitation/create)"


@pytest.mark.parametrize(
    ("first", "later", "position", "came", "before"),
    [
        ([step_one, ask], [step_two, ask], 1, "the step two", "the step one"),
        ([step_one, ask], [ask], 1, QUESTION, "the step one"),
        ([step_one, step_two, ask], [step_one, ask], 2, QUESTION, "the step two"),
        ([ask], [ask_roots], 1, "the question question_1 (roots/list)", QUESTION),
        ([ask], [ask_named], 1, "the question other (elicitation/create)", QUESTION),
        ([ask], [ask_more], 1, f"{QUESTION}, x (elicitation/create)", QUESTION),
        ([ask], [step_one, ask], 1, "the step one", QUESTION),
        ([step_one, ask], [step_one, step_two, ask], 2, "the step two", QUESTION),
    ],
)
async def test_a_handler_that_strays_is_told_where(
    first: list[Move],
    later: list[Move],
    position: int,
    came: str,
    before: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """MRTR-14: position, what was expected, what came; in the log, and an internal error for the client."""
    runs: list[int] = []

    async def handler(ctx: Context) -> str:
        runs.append(1)
        for move in first if len(runs) == 1 else later:
            await move(ctx)
        return "done"

    async with talking(tool(handler)) as client:
        reply = await finished(client)
    assert reply["result"]["isError"]
    assert text(reply).startswith("Internal error (ref ")
    assert "the step" not in text(reply)
    assert f"at position {position} the handler came to {came}, and before to {before}" in log(caplog)


async def test_a_stray_cannot_be_swallowed(caplog: pytest.LogCaptureFixture) -> None:
    """What a handler does after it has strayed rests on answers to something else."""
    runs: list[int] = []

    async def handler(ctx: Context) -> str:
        runs.append(1)
        try:
            await ctx.step(one if len(runs) == 1 else two)
        except Exception:
            return "went on"
        await ctx.elicit(Confirm, "?")
        return "done"

    async with talking(tool(handler)) as client:
        assert (await finished(client))["result"]["isError"]
    assert "came to the step two, and before to the step one" in log(caplog)


async def test_a_handler_that_ends_earlier_has_its_way() -> None:
    """It may find that there is nothing left to do: its answer is its own."""
    runs: list[int] = []

    async def handler(ctx: Context) -> str:
        runs.append(1)
        if len(runs) < 3:
            await ctx.elicit(Confirm, "one?")
            await ctx.elicit(Confirm, "two?")
        return "done already"

    async with talking(tool(handler)) as client:
        assert text(await finished(client)) == "done already"


# -- Results of steps ----------------------------------------------------------------------------------------


def plan() -> Plan:
    return PLAN


def optional_plan() -> Plan | None:
    return PLAN


def nothing() -> None:
    return None


def place() -> Place:
    return Place(uuid.UUID(int=5), PLAN)


def size() -> Size:
    return Size.small


def day() -> datetime.date:
    return datetime.date(2030, 1, 2)


def model() -> Model:
    return Model(n=3)


def plans() -> dict[str, list[Plan]]:
    return {"a": [PLAN]}


def raw() -> bytes:
    return b"\x00\xff"


def untyped():  # type: ignore[no-untyped-def]
    return (1, Size.small)


async def later() -> Plan:
    return PLAN


class Planner:
    def plan(self) -> Plan:
        return PLAN

    def __call__(self) -> Plan:
        return PLAN


STEPS: list[tuple[Callable[[], Any], Any]] = [
    (plan, PLAN),
    (optional_plan, PLAN),
    (nothing, None),
    (place, Place(uuid.UUID(int=5), PLAN)),
    (size, Size.small),
    (day, datetime.date(2030, 1, 2)),
    (model, Model(n=3)),
    (plans, {"a": [PLAN]}),
    (raw, b"\x00\xff"),
    (untyped, [1, "s"]),
    (later, PLAN),
    (Planner().plan, PLAN),
    (Planner(), PLAN),
]


@each_era
@pytest.mark.parametrize(("step", "expected"), STEPS, ids=lambda value: getattr(value, "__name__", ""))
async def test_results_of_steps_come_back_as_their_type(
    step: Callable[[], Any], expected: Any, revision: str
) -> None:
    """Each run sees the same, also the first one, and in the era that needs no journal."""
    seen: list[Any] = []

    async def handler(ctx: Context) -> str:
        seen.append(await ctx.step(step))
        await ctx.elicit(Confirm, "?")
        seen.append(await ctx.step(step))
        return "done"

    assert (await outcome(handler, revision)).text == "done"
    assert seen == [expected] * len(seen)
    assert [type(value) for value in seen] == [type(expected)] * len(seen)


@each_era
async def test_steps_run_once_however_they_are_written(revision: str) -> None:
    """Functions in threads, coroutine functions, lambdas; in a `def` handler as well."""
    ran: list[str] = []

    async def waits(word: str) -> str:
        await trio.lowlevel.checkpoint()
        ran.append(word)
        return word

    def blocks(word: str) -> str:
        ran.append(word)
        return word

    def handler(ctx: SyncContext) -> list[str]:
        words = [ctx.step(waits, "a"), ctx.step(blocks, "b"), ctx.step(lambda: blocks("c"))]
        ctx.elicit(Confirm, "?")
        words.append(ctx.step(blocks, "d"))
        ctx.elicit(Confirm, "?")
        return words

    assert (await outcome(handler, revision)).text == '["a","b","c","d"]'
    assert ran == ["a", "b", "c", "d"]


def stream() -> Any:
    return open  # it has no JSON form


def lies() -> int:
    return "x"  # type: ignore[return-value]


@each_era
@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (stream, "the result of the step stream cannot be sent: a value of type builtin_function_or_method"),
        (lies, "the result of the step lies does not fit its return annotation: Expected `int`, got `str`"),
        (lambda: float("nan"), "holds NaN or an infinite number"),
    ],
)
async def test_a_result_that_cannot_be_kept_fails_the_call(
    step: Callable[[], Any], reason: str, revision: str
) -> None:
    """In both eras, so that it is noticed whichever client comes first."""

    async def handler(ctx: Context) -> str:
        await ctx.step(step)
        return "done"

    result = await outcome(handler, revision)
    assert result.is_error
    assert reason in result.text


async def test_a_hint_that_cannot_be_seen_is_told() -> None:
    """A class that is local to a function, in hints that are strings."""

    class Local(msgspec.Struct):
        pass

    made = Local()

    def local() -> Local:
        return made

    async def handler(ctx: Context) -> str:
        await ctx.step(local)
        return "done"

    assert "the return annotation of the step" in (await outcome(handler)).text


# -- Steps that fail -----------------------------------------------------------------------------------------


class Down(Exception):
    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"{host}:{port} is down")
        self.port = port


class Open(Exception):
    def __init__(self) -> None:
        super().__init__("open")
        self.file = open


def hidden() -> NoReturn:
    class Local(Exception):
        pass

    raise Local("here")


def raiser(error: Exception) -> Callable[[], Any]:
    def fails() -> Any:
        raise error

    return fails


@pytest.mark.parametrize(
    "error",
    [
        Down("host", 80),
        KeyError("a"),
        ToolError("shown"),
        McpError(7, "seven", {"x": 1}),
        OSError(2, "No such file"),
        ValueError(),
        Open(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_step_that_failed_fails_again_as_it_did(error: Exception) -> None:
    """A handler that caught it comes to the same questions again; the step is not tried again meanwhile."""
    seen: list[Exception] = []
    tried: list[int] = []

    def fails() -> Any:
        tried.append(1)
        raise error

    async def handler(ctx: Context) -> str:
        try:
            await ctx.step(fails)
        except type(error) as caught:
            seen.append(caught)
        await ctx.elicit(Confirm, "?")
        await ctx.elicit(Confirm, "?")
        return "done"

    assert (await outcome(handler)).text == "done"
    assert tried == [1]
    assert len(seen) == 3
    assert {str(caught) for caught in seen} == {str(error)}
    assert {caught.args for caught in seen} == {error.args}
    for name in ("port", "code", "data", "errno"):
        assert [getattr(caught, name, None) for caught in seen] == [getattr(error, name, None)] * 3


async def test_an_exception_that_cannot_be_made_again_still_fails() -> None:
    """Its class is local to a function: the text is kept."""
    seen: list[str] = []

    async def handler(ctx: Context) -> str:
        try:
            await ctx.step(hidden)
        except Exception as caught:
            seen.append(f"{type(caught).__name__}: {caught}")
        await ctx.elicit(Confirm, "?")
        return "done"

    assert (await outcome(handler)).text == "done"
    assert seen == ["Local: here", "StepFailed: hidden.<locals>.Local: here"]


@each_era
async def test_a_step_that_fails_fails_the_call(revision: str) -> None:
    """Like any other exception; the next call tries again."""
    tries: list[int] = []

    async def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ToolError("try again")
        return "done"

    async def handler(ctx: Context) -> str:
        await ctx.elicit(Confirm, "?")
        return str(await ctx.step(flaky))

    async with Client(tool(handler), revision=revision, answers={"proceed": True}) as client:
        assert (await client.call_tool("t")).text == "try again"
        assert (await client.call_tool("t")).text == "done"


# -- What a step cannot do -----------------------------------------------------------------------------------


@each_era
@pytest.mark.parametrize("what", ["ask", "step"])
async def test_a_step_cannot_ask_or_take_steps(what: str, revision: str) -> None:
    """It is done as a whole or not at all: there would be half a step to go on with."""

    async def handler(ctx: Context) -> str:
        async def inner() -> str:
            return str(await (ctx.elicit(Confirm, "?") if what == "ask" else ctx.step(one)))

        return str(await ctx.step(inner))

    result = await outcome(handler, revision)
    assert result.is_error
    expected = "a handler cannot " + {"ask": "ask", "step": "take a step"}[what] + " while a step of it runs"
    assert expected in result.text


@each_era
async def test_steps_come_one_after_the_other(revision: str) -> None:
    """The journal is a list; side by side they would come in any order."""

    async def slow() -> int:
        await trio.sleep_forever()
        return 1

    async def handler(ctx: Context) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ctx.step, slow)
            nursery.start_soon(ctx.step, slow)
        return "done"

    result = await outcome(handler, revision)
    assert result.is_error
    assert "a handler cannot take a step while a step of it runs" in result.text


async def test_questions_side_by_side_are_told_apart_from_together(caplog: pytest.LogCaptureFixture) -> None:
    """In a round that ends they cannot both be asked; `ctx.ask` can."""

    async def handler(ctx: Context) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ctx.elicit, Confirm, "a?")
            nursery.start_soon(ctx.elicit, Confirm, "b?")
        return "done"

    async with talking(tool(handler)) as client:
        assert (await client.call("t"))["result"]["isError"]
    record = caplog.records[-1]
    assert record.exc_info is not None
    group = record.exc_info[1]
    assert isinstance(group, BaseExceptionGroup)
    assert any("ask several questions at a time with ctx.ask" in str(error) for error in group.exceptions)


async def test_questions_pass_through_nurseries_and_clean_up() -> None:
    """The exception that ends a round is one that trio, `finally` and `async with` let pass."""
    cleaned: list[int] = []

    async def handler(ctx: Context) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                with trio.fail_after(60):
                    answer = await ctx.elicit(Confirm, "?")
            except Exception:
                return "caught"
            finally:
                cleaned.append(1)
            nursery.cancel_scope.cancel()
        return str(answer)

    assert "proceed=True" in (await outcome(handler)).text
    assert cleaned == [1, 1]


# -- Swallowed suspensions -----------------------------------------------------------------------------------


async def returns(ctx: Context) -> str:
    try:
        await ctx.elicit(Confirm, "?")
    except BaseException:
        pass
    return "swallowed"


async def raises_another(ctx: Context) -> str:
    try:
        await ctx.elicit(Confirm, "?")
    except BaseException:
        raise ToolError("another") from None
    return "done"


async def asks_on(ctx: Context) -> str:
    for _ in range(2):
        try:
            await ctx.elicit(Confirm, "?")
        except BaseException:
            pass
    return "swallowed"


async def steps_on(ctx: Context) -> str:
    try:
        await ctx.elicit(Confirm, "?")
    finally:
        await ctx.step(one)
    return "done"


def returns_sync(ctx: SyncContext) -> str:
    try:
        ctx.elicit(Confirm, "?")
    except:  # noqa: E722
        pass
    return "swallowed"


@pytest.mark.parametrize("handler", [returns, raises_another, asks_on, steps_on, returns_sync])
async def test_a_round_that_does_not_end_is_reported(
    handler: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """MRTR-14: nobody would be asked, and the handler would go on without an answer."""
    async with talking(tool(handler)) as client:
        reply = await client.call("t")
    assert reply["result"]["isError"]
    assert text(reply).startswith("Internal error (ref ")
    assert "BaseException" in log(caplog)


@pytest.mark.parametrize("handler", [returns, asks_on, returns_sync])
async def test_where_a_handler_can_wait_nothing_is_swallowed(handler: Callable[..., Any]) -> None:
    """The handshake era raises nothing to ask."""
    assert (await outcome(handler, ASKABLE[1])).text == "swallowed"


# -- Rounds --------------------------------------------------------------------------------------------------


async def three_forms(ctx: Context) -> str:
    form = ElicitForm(Confirm, "?")
    return str(await ctx.ask(a=form, b=form, c=form))


async def test_what_is_missing_is_asked_again_and_what_is_more_is_ignored() -> None:
    """MRTR-08, MRTR-05: in as many rounds as it takes, in any order; the state changes each time (MRTR-11)."""
    yes, no = accept(proceed=True), {"action": "decline"}
    async with talking(tool(three_forms)) as client:
        states = set()
        response = await client.call("t")
        for answers, missing in (
            ({}, "abc"),
            ({"b": yes, "z": {"what": "ever"}}, "ac"),
            ({"y": 3}, "ac"),
            ({"b": no, "c": no}, "a"),
        ):
            response = await client.retry("t", response, **answers)
            assert sorted(response["result"]["inputRequests"]) == list(missing)
            states.add(response["result"]["requestState"])
        assert len(states) == 4
        told = text(await client.retry("t", response, a=yes))
    assert told.startswith(
        "{'a': Accepted(value=Confirm(proceed=True)), 'b': Accepted(value=Confirm(proceed=True))"
    )
    assert told.endswith("'c': Declined()}")


@pytest.mark.parametrize(
    "responses",
    [
        None,
        [],
        3,
        "x",
        {"question_1": None},
        {"question_1": 3},
        {"question_1": []},
        {"question_1": {}},
        {"question_1": {"action": "maybe"}},
        {"question_1": {"action": "accept", "content": 3}},
        {"question_1": {"roots": []}},
    ],
)
async def test_responses_that_are_none_are_refused(responses: Any) -> None:
    """MRTR-09: -32602, before the handler runs."""
    runs: list[int] = []

    async def handler(ctx: Context) -> str:
        runs.append(1)
        return str(await ctx.elicit(Confirm, "?"))

    async with talking(tool(handler)) as client:
        first = await client.call("t")
        reply = await client.call("t", requestState=first["result"]["requestState"], inputResponses=responses)
    assert reply["error"]["code"] == -32602
    assert runs == [1]


async def test_responses_without_their_state_start_again() -> None:
    """MRTR-11: what was asked is in the state; without it nothing was."""
    async with talking(tool(three_forms)) as client:
        reply = await client.call("t", inputResponses={"a": accept(proceed=True)})
        assert sorted(reply["result"]["inputRequests"]) == ["a", "b", "c"]


async def test_what_does_not_fit_ends_with_invalid_params() -> None:
    """S2C-06: asked three times, with the reason; then -32602 in the stateless era."""

    async def handler(ctx: Context) -> str:
        return str(await ctx.elicit(Confirm, "Go on?"))

    async with talking(tool(handler)) as client:
        response = await client.call("t")
        messages = []
        for _ in range(3):
            ((key, question),) = response["result"]["inputRequests"].items()
            messages.append(question["params"]["message"])
            response = await client.retry("t", response, **{key: accept(proceed="so-so")})
    again = "Go on?\n\nPlease correct: `proceed`: expected boolean, got string"
    assert messages == ["Go on?", again, again]
    assert response["error"]["code"] == -32602
    assert "`proceed`: expected boolean, got string" in response["error"]["message"]


async def test_a_result_that_asks_has_nothing_else() -> None:
    """MRTR-02, MRTR-03: no content, no cache fields; requests without id and jsonrpc."""
    app = App("menus")

    @app.resource("menu://today")
    async def menu(ctx: Context) -> str:
        await ctx.elicit_url("https://example.com", "Go there")
        return "soup"

    async with talking(app) as client:
        result = (await client.ask("resources/read", {"uri": "menu://today"}))["result"]
    assert set(result) == {"resultType", "inputRequests", "requestState", "_meta"}
    assert result["inputRequests"] == {
        "question_1": {
            "method": "elicitation/create",
            "params": {"mode": "url", "url": "https://example.com", "message": "Go there"},
        }
    }


# -- Both ways in one handler --------------------------------------------------------------------------------


@each_era
async def test_a_handler_may_return_questions_and_then_ask(revision: str) -> None:
    """What it returned questions with stays with it; the journal begins anew with each state."""
    runs: list[Any] = []

    async def handler(ctx: Context) -> str | InputRequired:
        if ctx.request_state is None:
            await ctx.step(one)
            return InputRequired({"first": ElicitForm(Confirm, "first?")}, state="s")
        runs.append((ctx.request_state, dict(ctx.input_responses)))
        await ctx.elicit(Confirm, "second?")
        await ctx.step(two)
        await ctx.elicit(Confirm, "third?")
        return "done"

    assert (await outcome(handler, revision)).text == "done"
    seen = ("s", {"first": accept(proceed=True)})
    assert runs == [seen] * (3 if revision == STATELESS else 1)
