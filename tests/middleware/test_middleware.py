"""Middleware sees every use of a tool, resource or prompt, and may change, refuse or replace it."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from asking.asking_kit import Raw, accept, talking, text
from inmemory import hosting
from support import HANDSHAKE, REVISIONS, STATELESS, owned_time, request, serving

from mcpkit import Accepted, App, Context, McpError, NotFound, ToolError, ToolResult
from mcpkit.middleware import Call, CallNext, RateLimit, Timeout, Timing

every_revision = pytest.mark.parametrize("revision", REVISIONS)
both_eras = pytest.mark.parametrize("revision", [HANDSHAKE[-1], STATELESS])


class _Name(msgspec.Struct):
    name: str


@pytest.fixture
def app() -> App:
    """Something of every kind, in every kind of function."""
    app = App("layers")

    @app.tool
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @app.tool
    def shout(text: str) -> str:
        return text.upper()

    @app.tool(inline=True)
    def whisper(text: str) -> str:
        return text.lower()

    @app.tool(loop="asyncio")
    async def echo(text: str) -> str:
        return text

    @app.tool
    async def fail(how: str) -> str:
        raise {"tool": ToolError("broken"), "bug": ZeroDivisionError("secret"), "mcp": McpError(7, "seven")}[
            how
        ]

    @app.tool
    async def sleep(seconds: float) -> str:
        await trio.sleep(seconds)
        return "slept"

    @app.tool
    async def ask(ctx: Context) -> str:
        match await ctx.elicit(_Name, "Who?"):
            case Accepted(answer):
                return f"hello {answer.name}"
        return "nobody"

    @app.resource("notes://{name}/{page}")
    def note(name: str, page: int) -> str:
        if name == "none":
            raise NotFound
        return f"{name} {page}"

    @app.prompt
    async def review(code: str, depth: int = 1) -> str:
        return f"{depth} {code}"

    return app


USES: list[tuple[str, dict[str, Any], tuple[str, str, dict[str, Any], Any]]] = [
    ("tools/call", {"name": "add", "arguments": {"a": "2"}}, ("tool", "add", {"a": 2}, 3)),
    ("tools/call", {"name": "shout", "arguments": {"text": "x"}}, ("tool", "shout", {"text": "x"}, "X")),
    ("tools/call", {"name": "whisper", "arguments": {"text": "X"}}, ("tool", "whisper", {"text": "X"}, "x")),
    ("tools/call", {"name": "echo", "arguments": {"text": "x"}}, ("tool", "echo", {"text": "x"}, "x")),
    (
        "resources/read",
        {"uri": "notes://a%20b/7"},
        ("resource", "notes://a%20b/7", {"name": "a b", "page": 7}, "a b 7"),
    ),
    (
        "prompts/get",
        {"name": "review", "arguments": {"code": "x", "depth": "2"}},
        ("prompt", "review", {"code": "x", "depth": 2}, "2 x"),
    ),
]


@every_revision
@pytest.mark.parametrize(("method", "params", "seen"), USES, ids=[f"{m} {p}" for m, p, _ in USES])
async def test_it_sees_kind_name_typed_arguments_and_result(
    app: App, revision: str, method: str, params: dict[str, Any], seen: tuple[Any, ...]
) -> None:
    """What a handler gets and returns, before it becomes a message."""
    diary: list[Any] = []

    @app.middleware
    async def watch(call: Call, call_next: CallNext) -> Any:
        result = await call_next(call)
        diary.append((call.kind, call.name, call.arguments, result))
        assert (call.ctx.method, call.ctx.revision) == (method, revision)
        return result

    async with talking(app, revision) as client:
        assert "result" in await client.ask(method, params)
    assert diary == [seen]


async def test_the_first_is_outermost(app: App) -> None:
    """Like the layers of an onion: in, and out again."""
    diary: list[str] = []

    def layer(name: str) -> Any:
        async def write(call: Call, call_next: CallNext) -> Any:
            diary.append(f"into {name}")
            try:
                return await call_next(call)
            finally:
                diary.append(f"out of {name}")

        return write

    for name in ("first", "second", "third"):
        app.middleware(layer(name))
    async with talking(app) as client:
        await client.call("add", {"a": 1})
    inward = ["into first", "into second", "into third"]
    assert diary == [*inward, "out of third", "out of second", "out of first"]


@both_eras
async def test_it_can_change_arguments_and_result(app: App, revision: str) -> None:
    """What comes back is checked and sent like the handler's own."""

    @app.middleware
    async def double(call: Call, call_next: CallNext) -> Any:
        call.arguments["a"] *= 10
        return await call_next(call) * 2

    async with talking(app, revision) as client:
        assert text(await client.call("add", {"a": 1})) == "22"


@both_eras
async def test_it_can_answer_by_itself(app: App, revision: str) -> None:
    """A short circuit: the handler does not run; a result that does not fit the listed schema is refused."""

    @app.middleware
    async def cached(call: Call, call_next: CallNext) -> Any:
        return {"add": 42, "shout": 42, "review": "cached"}.get(call.name, "cached")

    async with talking(app, revision) as client:
        assert text(await client.call("add", {"a": 1})) == "42"
        assert (await client.call("shout", {"text": "x"}))["result"]["isError"]
        read = await client.ask("resources/read", {"uri": "notes://a/1"})
        assert read["result"]["contents"][0]["text"] == "cached"
        got = await client.ask("prompts/get", {"name": "review", "arguments": {"code": "x"}})
        assert got["result"]["messages"][0]["content"]["text"] == "cached"


@both_eras
async def test_it_can_refuse(app: App, revision: str) -> None:
    """Its exceptions are what the handler's are: text for the model, an error of the protocol, a bug of which the
    client sees a reference.
    """

    @app.middleware
    async def guard(call: Call, call_next: CallNext) -> Any:
        if call.kind == "resource":
            raise McpError(1234, "closed")
        if call.arguments.get("a") == 1:
            raise ToolError("not one")
        raise RuntimeError("secret")

    async with talking(app, revision) as client:
        refused = (await client.call("add", {"a": 1}))["result"]
        assert refused["isError"] and refused["content"][0]["text"] == "not one"
        broken = (await client.call("add", {"a": 2}))["result"]
        assert broken["isError"] and "secret" not in broken["content"][0]["text"]
        error = (await client.ask("resources/read", {"uri": "notes://a/1"}))["error"]
        assert (error["code"], error["message"]) == (1234, "closed")
        await client.ping()


@both_eras
async def test_it_can_try_again_and_recover(app: App, revision: str) -> None:
    """It may catch what a handler raises, and call it as often as it likes, with its own arguments each time."""

    @app.middleware
    async def stubborn(call: Call, call_next: CallNext) -> Any:
        try:
            return await call_next(call)
        except (ZeroDivisionError, ToolError, McpError):
            call.arguments.clear()
            return ToolResult("recovered")

    async with talking(app, revision) as client:
        for how in ("tool", "bug", "mcp"):
            assert text(await client.call("fail", {"how": how})) == "recovered"


async def test_what_reaches_no_handler_reaches_no_middleware(app: App) -> None:
    """An unknown name, arguments that do not fit."""
    diary: list[Call] = []

    @app.middleware
    async def watch(call: Call, call_next: CallNext) -> Any:
        diary.append(call)
        return await call_next(call)

    async with talking(app) as client:
        await client.call("nobody")
        await client.call("add", {"a": "x"})
        await client.ask("resources/read", {"uri": "other://x"})
        await client.ask("prompts/get", {"name": "review", "arguments": {}})
        await client.ask("tools/list", {})
        assert diary == []
        await client.call("add", {"a": 1})
        assert len(diary) == 1


async def test_the_rest_of_the_way_takes_a_call_and_nothing_else(app: App) -> None:
    """A slip is a bug of the middleware, told in the log; the server lives on."""

    @app.middleware
    async def slips(call: Call, call_next: CallNext) -> Any:
        return await call_next(call.name)  # type: ignore[arg-type]

    async with talking(app) as client:
        assert (await client.call("add", {"a": 1}))["result"]["isError"]
        await client.ping()


@both_eras
async def test_a_cancelled_call_unwinds_its_middleware(app: App, revision: str) -> None:
    """CAN-01: clean-up code runs."""
    began, ended = trio.Event(), trio.Event()

    @app.middleware
    async def tidy(call: Call, call_next: CallNext) -> Any:
        began.set()
        try:
            return await call_next(call)
        finally:
            ended.set()

    async with talking(app, revision) as client:
        request_id = client.begin("sleep", {"seconds": 1000})
        await began.wait()
        client.send({"method": "notifications/cancelled", "params": {"requestId": request_id}})
        await ended.wait()
        await client.ping()


async def test_a_handler_that_asks_takes_its_middleware_along(app: App) -> None:
    """In the stateless era each round passes through it; `except Exception` does not catch a round's end."""
    rounds: list[str] = []

    @app.middleware
    async def watch(call: Call, call_next: CallNext) -> Any:
        try:
            result = await call_next(call)
        except Exception:
            rounds.append("failed")
            raise
        except BaseException as error:
            rounds.append(type(error).__name__)
            raise
        rounds.append("done")
        return result

    async with talking(app) as client:
        first = await client.call("ask")
        (key,) = first["result"]["inputRequests"]
        assert text(await client.retry("ask", first, **{key: accept(name="you")})) == "hello you"
    assert rounds == ["Suspended", "done"]


async def confirm(call: Call, call_next: CallNext) -> Any:
    match await call.ctx.elicit(_Name, f"Who calls {call.name}?"):
        case Accepted(answer):
            return f"{await call_next(call)} for {answer.name}"
    return "not confirmed"


async def test_it_can_ask_the_client_itself(app: App) -> None:
    """In both eras, with a handler that asks nothing."""
    app.middleware(confirm)
    async with talking(app) as client:
        first = await client.call("shout", {"text": "x"})
        (key,) = first["result"]["inputRequests"]
        last = await client.retry("shout", first, {"text": "x"}, **{key: accept(name="me")})
        assert text(last) == "X for me"
    async with talking(app, HANDSHAKE[-1]) as client:
        request_id = client.begin("shout", {"text": "x"})
        client.answer(await client.question(), accept(name="me"))
        assert text(await client.reply(request_id)) == "X for me"


async def test_it_can_log_and_report_to_the_client(app: App) -> None:
    """Through the context of the call."""

    @app.middleware
    async def talk(call: Call, call_next: CallNext) -> Any:
        await call.ctx.report_progress(0.5, 1)
        return await call_next(call)

    async with talking(app) as client:
        client.request("tools/call", {"name": "add", "arguments": {"a": 1}, "_meta": {"progressToken": 1}})
        assert (await client.receive())["params"]["progress"] == 0.5
        assert text(await client.receive()) == "2"


# -- Registering -------------------------------------------------------------------------


def not_async(call: Any, call_next: Any) -> Any:
    return None


async def too_few(call: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (not_async, "async def not_async"),
        (too_few, "two arguments"),
        (Timing, "app.middleware(Timing())"),
        (42, "async"),
    ],
)
def test_what_cannot_be_middleware_is_refused_where_it_is_registered(
    app: App, wrong: Any, advice: str
) -> None:
    """Errors are for people: what to write instead."""
    with pytest.raises(TypeError) as caught:
        app.middleware(wrong)
    assert advice in str(caught.value)


async def test_middleware_that_comes_too_late_is_refused(app: App) -> None:
    """The way is built once, when serving begins; before and after, it can be changed."""
    async with talking(app):
        with pytest.raises(RuntimeError, match="too late"):
            app.middleware(Timing())
    app.middleware(Timing())


async def forgets_to_return(call: Call, call_next: CallNext) -> Any:
    await call_next(call)


async def forgets_to_await(call: Call, call_next: CallNext) -> Any:
    return call_next(call)


@pytest.mark.parametrize("forgetful", [forgets_to_return, forgets_to_await])
async def test_a_middleware_that_loses_the_result_is_named(
    app: App, caplog: pytest.LogCaptureFixture, forgetful: Any
) -> None:
    """The handler is not to blame; the log says whose fault it is, and what to write."""
    app.middleware(forgetful)

    @app.tool
    async def nothing() -> None:
        return None

    async with talking(app) as client:
        assert (await client.call("shout", {"text": "x"}))["result"]["isError"]
        if forgetful is forgets_to_return:
            assert "isError" not in (await client.call("nothing"))["result"]
    assert f"middleware '{forgetful.__name__}'" in caplog.text and "await call_next(call)" in caplog.text


# -- What is shipped ---------------------------------------------------------------------


async def test_timing_says_how_each_use_ended(app: App, caplog: pytest.LogCaptureFixture) -> None:
    """Kind, name, outcome, milliseconds; no arguments and no texts of errors."""

    @app.tool
    async def refuse() -> ToolResult:
        return ToolResult("no", is_error=True)

    app.middleware(Timing())
    caplog.set_level(logging.INFO, "mcpkit.timing")
    async with talking(app) as client:
        await client.call("add", {"a": 1})
        await client.call("fail", {"how": "tool"})
        await client.call("fail", {"how": "bug"})
        await client.call("refuse")
        await client.call("ask")
        await client.ask("resources/read", {"uri": "notes://secret/1"})
    lines = [r.getMessage().rsplit(" ", 2) for r in caplog.records if r.name == "mcpkit.timing"]
    assert [line[0] for line in lines] == [
        "tool add ok",
        "tool fail ToolError",
        "tool fail ZeroDivisionError",
        "tool refuse failed",
        "tool ask asks",
        "resource notes://secret/1 ok",
    ]
    assert all(float(line[1]) >= 0 and line[2] == "ms" for line in lines)


def test_timing_is_shown_by_verbose(tmp_path: Any) -> None:
    """`mcpkit run -v` shows it on standard error."""
    script = tmp_path / "server.py"
    script.write_text(
        "from mcpkit import App\nfrom mcpkit.middleware import Timing\n"
        "app = App('timed')\napp.middleware(Timing())\n@app.tool\ndef greet() -> str:\n    return 'hi'\n"
    )
    with serving(script, "-v") as server:
        server.ask(1, "tools/call", {"name": "greet"}, revision=STATELESS)
        server.close_input()
        assert server.wait() == 0
        assert "mcpkit: tool greet ok" in server.errors


@both_eras
def test_a_time_limit_for_all(app: App, revision: str) -> None:
    """What takes longer fails like a tool with `timeout=`; what is quick does not."""
    app.middleware(Timeout(5))

    @owned_time
    async def scene() -> None:
        async with talking(app, revision) as client:
            late = (await client.call("sleep", {"seconds": 6}))["result"]
            assert late["isError"] and "did not finish within 5 s" in late["content"][0]["text"]
            assert text(await client.call("sleep", {"seconds": 4})) == "slept"

    scene()


def test_a_rate_limit_refuses_what_is_too_much(app: App) -> None:
    """A token bucket: a burst, then the rate; the refusal says when to come again."""
    app.middleware(RateLimit(2, burst=5))

    @owned_time
    async def scene() -> None:
        async with talking(app) as client:

            async def passes() -> bool:
                return not (await client.call("add", {"a": 1}))["result"].get("isError")

            assert [await passes() for _ in range(7)] == [True] * 5 + [False] * 2
            refused = await client.call("add", {"a": 1})
            assert text(refused) == "Too many requests: try again in 1 s"
            await trio.sleep(1)
            assert [await passes() for _ in range(3)] == [True, True, False]
            await trio.sleep(1000)
            assert [await passes() for _ in range(6)] == [True] * 5 + [False]
            error = (await client.ask("resources/read", {"uri": "notes://a/1"}))["error"]
            assert error["message"].startswith("Too many requests")

    scene()


def test_each_session_has_its_own_rate(app: App) -> None:
    """One client that hurries does not slow another."""
    from asking.asking_kit import greeted

    from mcpkit.engine.runtime import running
    from mcpkit.transports.memory import attach

    app.middleware(RateLimit(1))

    @owned_time
    async def scene() -> None:
        async with running(app) as runtime, attach(runtime) as one, attach(runtime) as two:
            clients: list[Raw] = [await greeted(wire, STATELESS) for wire in (one, two)]
            for client in clients:
                outcomes = [(await client.call("add", {"a": 1}))["result"].get("isError") for _ in range(2)]
                assert outcomes == [None, True]

    scene()


async def test_a_rate_limit_holds_with_more_callers_than_it_remembers(app: App) -> None:
    """Those beyond share one bucket, so that nobody gets past it by being many."""
    import mcpkit.middleware as shipped

    buckets = shipped._Buckets(1, 1)
    passed = sum(buckets.take(f"caller {n}", 0.0) == 0 for n in range(shipped.MOST_CALLERS + 500))
    assert passed == shipped.MOST_CALLERS + 1
    assert buckets.take("caller 1", 0.5) > 0
    assert buckets.take("somebody new", 2.5) == 0
    assert len(buckets._full_at) < 10


def test_a_rate_begins_anew_where_an_app_is_served_again(app: App) -> None:
    """In another trio run, whose clock may be far behind the first."""
    app.middleware(RateLimit(1))
    message = request(1, "tools/call", {"name": "add", "arguments": {"a": 1}}, revision=STATELESS)

    async def refusals() -> list[bool]:
        async with hosting(app) as host:
            return [(await host.post(message)).result.get("isError", False) for _ in range(2)]

    for ahead in (1_000_000, 0):
        clock = trio.testing.MockClock()
        clock.jump(ahead)
        assert trio.run(refusals, clock=clock) == [False, True]


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_a_limit_that_lets_nothing_pass_is_refused(rate: float) -> None:
    """Where it is made."""
    with pytest.raises(ValueError):
        RateLimit(rate)
    with pytest.raises(ValueError):
        Timeout(0)
