"""Providers: tools, resources and prompts whose lists come from elsewhere, with the guarantees of decorated ones."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from asking.asking_kit import accept, talking, text
from support import HANDSHAKE, REVISIONS, STATELESS

from mcpkit import (
    Accepted,
    App,
    Context,
    EmbeddedResource,
    Image,
    NotFound,
    Provider,
    SyncContext,
    ToolError,
    ToolResult,
    user,
)
from mcpkit.middleware import Call, CallNext
from mcpkit.protocol import types

every_revision = pytest.mark.parametrize("revision", REVISIONS)
both_eras = pytest.mark.parametrize("revision", [HANDSHAKE[-1], STATELESS])
EMPTY = {"type": "object"}


class Name(msgspec.Struct):
    name: str


class Everything(Provider):
    """One of each, in `async def`s."""

    def __init__(self, prefix: str = "p") -> None:
        self.prefix = prefix
        self.extra: list[types.Tool] = []

    async def list_tools(self, ctx: Context) -> list[Any]:
        return [
            types.Tool(f"{self.prefix}_echo", EMPTY, description="Echoes"),
            {"name": f"{self.prefix}_ask", "inputSchema": EMPTY, "annotations": {"readOnlyHint": True}},
            *self.extra,
        ]

    async def call_tool(self, ctx: Context, name: str, arguments: dict[str, Any]) -> Any:
        if name == f"{self.prefix}_echo":
            return arguments
        if name == f"{self.prefix}_ask":
            match await ctx.elicit(Name, "Who?"):
                case Accepted(answer):
                    return f"hello {answer.name}"
        raise NotFound

    async def list_resources(self, ctx: Context) -> list[types.Resource]:
        return [types.Resource(f"{self.prefix}://one", "one")]

    async def list_resource_templates(self, ctx: Context) -> list[types.ResourceTemplate]:
        return [types.ResourceTemplate(f"{self.prefix}://{{name}}", "any")]

    async def read_resource(self, ctx: Context, uri: str) -> Any:
        kinds: dict[str, Any] = {
            "one": "text",
            "blob": b"\x00\x01",
            "json": {"a": 1},
            "own": EmbeddedResource("p://own", text="<p>", mime_type="text/html"),
        }
        scheme, _, name = uri.partition("://")
        if scheme != self.prefix or name not in kinds:
            raise NotFound
        return kinds[name]

    async def list_prompts(self, ctx: Context) -> list[types.Prompt]:
        return [types.Prompt(f"{self.prefix}_review", arguments=[types.PromptArgument("code")])]

    async def get_prompt(self, ctx: Context, name: str, arguments: dict[str, str]) -> Any:
        if name != f"{self.prefix}_review":
            raise NotFound
        return [user(f"{self.prefix} reviews {arguments}")]

    async def complete(
        self, ctx: Context, ref: Any, argument: str, value: str, arguments: dict[str, str]
    ) -> list[str]:
        if getattr(ref, "name", None) != f"{self.prefix}_review":
            raise NotFound
        return [f"{value}{end}" for end in ("a", "b")]


def make(*providers: Provider) -> App:
    """An app with these, and with a tool, a prompt and a resource of its own."""
    app = App("provided")

    @app.tool
    async def own() -> str:
        return "own"

    @app.prompt
    async def own_prompt() -> str:
        return "own"

    @app.resource("own://it")
    async def own_resource() -> str:
        return "own"

    for provider in providers:
        app.add_provider(provider)
    return app


async def names(client: Any, kind: str, key: str = "name") -> list[str]:
    """The names in a list."""
    result = (await client.ask(f"{kind}/list", {}))["result"]
    return [entry[key] for entry in result[kind]]


@every_revision
async def test_what_providers_have_stands_in_the_lists_after_the_apps_own(revision: str) -> None:
    """DESIGN 4.1: the app's registry is the first provider; the others follow in order."""
    async with talking(make(Everything("p"), Everything("q")), revision) as client:
        assert await names(client, "tools") == ["own", "p_echo", "p_ask", "q_echo", "q_ask"]
        assert await names(client, "prompts") == ["own_prompt", "p_review", "q_review"]
        assert await names(client, "resources", "uri") == ["own://it", "p://one", "q://one"]
        templates = (await client.ask("resources/templates/list", {}))["result"]["resourceTemplates"]
        assert [template["uriTemplate"] for template in templates] == ["p://{name}", "q://{name}"]


@every_revision
async def test_the_one_that_knows_a_name_serves_it(revision: str) -> None:
    """One that does not know it raises `NotFound`, and the next is asked."""
    async with talking(make(Everything("p"), Everything("q")), revision) as client:
        for prefix in "pq":
            result = (await client.call(f"{prefix}_echo", {"a": [1, None]}))["result"]
            assert result["content"][0]["text"] == '{"a":[1,null]}'
            assert result.get("structuredContent") == ({"a": [1, None]} if revision >= "2025-06-18" else None)
            read = await client.ask("resources/read", {"uri": f"{prefix}://one"})
            assert read["result"]["contents"] == [
                {"uri": f"{prefix}://one", "mimeType": "text/plain", "text": "text"}
            ]
            got = await client.ask("prompts/get", {"name": f"{prefix}_review", "arguments": {"code": "x"}})
            (message,) = got["result"]["messages"]
            assert message["content"]["text"] == f"{prefix} reviews {{'code': 'x'}}"
            ref = {"type": "ref/prompt", "name": f"{prefix}_review"}
            params = {"ref": ref, "argument": {"name": "code", "value": "x"}}
            completion = (await client.ask("completion/complete", params))["result"]["completion"]
            assert completion["values"] == ["xa", "xb"]
        assert text(await client.call("own")) == "own"


@both_eras
async def test_what_nobody_knows_is_told_as_without_providers(revision: str) -> None:
    """TOOL-06, RES-03, PRM-03: the same codes, the same words."""
    async with talking(make(Everything()), revision) as client, talking(make(), revision) as plain:
        requests: list[tuple[str, dict[str, Any]]] = [
            ("tools/call", {"name": "nobody"}),
            ("resources/read", {"uri": "p://nobody"}),
            ("prompts/get", {"name": "nobody"}),
            (
                "completion/complete",
                {"ref": {"type": "ref/prompt", "name": "nobody"}, "argument": {"name": "a", "value": ""}},
            ),
        ]
        for method, params in requests[:3]:
            error = (await client.ask(method, params))["error"]
            assert error == (await plain.ask(method, params))["error"], method
        assert (await client.ask(*requests[3]))["error"]["code"] == -32602


@both_eras
async def test_contents_are_what_decorated_resources_give(revision: str) -> None:
    """Text, bytes, JSON, and what brings a MIME type of its own."""
    async with talking(make(Everything()), revision) as client:

        async def read(name: str) -> Any:
            (contents,) = (await client.ask("resources/read", {"uri": f"p://{name}"}))["result"]["contents"]
            return contents

        assert (await read("blob"))["blob"] == "AAE="
        assert (await read("json"))["text"] == '{"a":1}'
        assert (await read("own"))["mimeType"] == "text/html"


async def test_a_tool_of_a_provider_can_ask_in_both_eras() -> None:
    """Also when an earlier provider was asked first."""
    app = make(Everything("p"), Everything("q"))
    async with talking(app) as client:
        first = await client.call("q_ask")
        (key,) = first["result"]["inputRequests"]
        assert text(await client.retry("q_ask", first, **{key: accept(name="you")})) == "hello you"
    async with talking(app, HANDSHAKE[-1]) as client:
        request_id = client.begin("q_ask")
        client.answer(await client.question(), accept(name="you"))
        assert text(await client.reply(request_id)) == "hello you"


class Blocking(Provider):
    """Plain `def`s, generators included."""

    def __init__(self) -> None:
        self.threads: set[str] = set()

    def list_tools(self, ctx: SyncContext) -> Iterator[types.Tool]:
        self.threads.add(threading.current_thread().name)
        yield types.Tool("block", EMPTY)

    def call_tool(self, ctx: SyncContext, name: str, arguments: dict[str, Any]) -> Any:
        self.threads.add(threading.current_thread().name)
        ctx.report_progress(1)
        return [Image(b"\x89PNG", "image/png"), "text"]


class Query:
    """Like that of a library for databases: it asks when it is read."""

    def __init__(self) -> None:
        self.threads: set[str] = set()

    def __iter__(self) -> Iterator[types.Tool]:
        self.threads.add(threading.current_thread().name)
        return iter([types.Tool("row", EMPTY)])


async def test_what_a_plain_function_returns_is_read_in_its_thread() -> None:
    """Lists may be lazy, and the server answers others meanwhile."""
    query = Query()
    async with talking(make(Listing(query))) as client:
        assert await names(client, "tools") == ["own", "row"]
    assert query.threads and threading.main_thread().name not in query.threads


class Streaming(Provider):
    """An async generator, for rows that come one by one."""

    async def list_resources(self, ctx: Context) -> AsyncIterator[types.Resource]:
        for number in range(3):
            await trio.lowlevel.checkpoint()
            yield types.Resource(f"row://{number}", str(number))


class OnAsyncio(Provider):
    """For a library that needs asyncio."""

    loop = "asyncio"

    async def list_tools(self, ctx: Context) -> list[types.Tool]:
        import asyncio

        await asyncio.sleep(0)
        return [types.Tool("aio", EMPTY)]

    async def call_tool(self, ctx: Context, name: str, arguments: dict[str, Any]) -> Any:
        import asyncio

        await asyncio.sleep(0)
        return "from asyncio"


@both_eras
async def test_plain_functions_run_in_a_worker_thread(revision: str) -> None:
    """The server answers others while a database blocks."""
    provider = Blocking()
    async with talking(make(provider), revision) as client:
        assert await names(client, "tools") == ["own", "block"]
        client.request("tools/call", {"name": "block", "_meta": {"progressToken": 1}})
        assert (await client.receive())["params"]["progress"] == 1
        content = (await client.receive())["result"]["content"]
        assert [block["type"] for block in content] == ["image", "text"]
    assert provider.threads and threading.main_thread().name not in provider.threads


@both_eras
async def test_rows_may_come_one_by_one_and_from_asyncio(revision: str) -> None:
    """Async generators, and `loop = "asyncio"`."""
    async with talking(make(Streaming(), OnAsyncio()), revision) as client:
        assert await names(client, "resources", "uri") == ["own://it", "row://0", "row://1", "row://2"]
        assert await names(client, "tools") == ["own", "aio"]
        assert text(await client.call("aio")) == "from asyncio"


class Shadowing(Provider):
    """The names of others."""

    def list_tools(self, ctx: SyncContext) -> list[types.Tool]:
        return [types.Tool("own", EMPTY, description="another"), types.Tool("p_echo", EMPTY)]

    def call_tool(self, ctx: SyncContext, name: str, arguments: dict[str, Any]) -> str:
        return "another"


async def test_a_name_that_two_have_is_the_first_ones_in_list_and_call() -> None:
    """A list holds each name once, and what it shows is what is called."""
    async with talking(make(Everything(), Shadowing())) as client:
        tools = (await client.ask("tools/list", {}))["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["own", "p_echo", "p_ask"]
        assert "description" not in tools[0]
        assert text(await client.call("own")) == "own"
        assert text(await client.call("p_echo")) == "{}"
        assert text(await client.call("anything else")) == "another"


class Listing(Provider):
    """Whatever it is given, as its list of tools."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def list_tools(self, ctx: SyncContext) -> Any:
        return self.value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "returns a list of Tools"),
        ("abc", "returns a list of Tools"),
        ({"name": "x"}, "returns a list of Tools"),
        (7, "returns a list of Tools"),
        ([7], "no Tool"),
        ([{"name": "x"}], "inputSchema"),
        ([{"name": 1, "inputSchema": EMPTY}], "no Tool"),
        ([types.Tool("x", {})], "input schema"),
        ([types.Tool("no way!", EMPTY)], "no way!"),
        ([types.Tool("x", {"type": "object", "default": object()})], "no Tool"),
    ],
    ids=repr,
)
@both_eras
async def test_a_list_that_no_client_could_read_is_an_error_that_says_why(
    revision: str, value: Any, said: str
) -> None:
    """One bad entry may cost a client the whole list; the author is told which, and the server lives on."""
    async with talking(make(Listing(value)), revision) as client:
        error = (await client.ask("tools/list", {}))["error"]
        assert error["code"] == -32603 and said in error["message"]
        assert text(await client.call("own")) == "own"


class Failing(Provider):
    """A database that is out of reach."""

    async def list_tools(self, ctx: Context) -> Any:
        raise ConnectionError("postgres://user:password@host")

    async def call_tool(self, ctx: Context, name: str, arguments: dict[str, Any]) -> Any:
        if name == "refuse":
            raise ToolError("not today")
        if name == "explicit":
            return ToolResult("no", is_error=True)
        raise ConnectionError("postgres://user:password@host")


@both_eras
async def test_failures_are_those_of_decorated_functions(revision: str, caplog: Any) -> None:
    """A reference for the client, the traceback for the log; `ToolError` as it is."""
    async with talking(make(Failing()), revision) as client:
        error = (await client.ask("tools/list", {}))["error"]
        assert error["code"] == -32603 and "password" not in error["message"]
        broken = (await client.call("other"))["result"]
        assert broken["isError"] and "password" not in str(broken)
        assert (await client.call("refuse"))["result"]["content"][0]["text"] == "not today"
        assert (await client.call("explicit"))["result"]["isError"]
    assert caplog.text.count("\nConnectionError: postgres") == 2


@pytest.mark.parametrize("arguments", ["[1]", "7", '"x"'])
async def test_arguments_that_are_no_object_reach_no_provider(arguments: str) -> None:
    """TOOL-09: the same rule as for decorated tools."""
    async with talking(make(Everything())) as client:
        reply = await client.ask(
            "tools/call", {"name": "p_echo", "arguments": msgspec.json.decode(arguments)}
        )
        assert reply["error"]["code"] == -32602
        assert text(await client.call("p_echo", {})) == "{}"


@both_eras
async def test_middleware_is_around_it_once(revision: str) -> None:
    """However many providers are asked."""
    app = make(Everything("p"), Everything("q"))
    diary: list[Any] = []

    @app.middleware
    async def watch(call: Call, call_next: CallNext) -> Any:
        result = await call_next(call)
        diary.append((call.kind, call.name, result))
        return result

    async with talking(app, revision) as client:
        await client.call("q_echo", {"a": 1})
        await client.ask("resources/read", {"uri": "q://one"})
    assert diary == [("tool", "q_echo", {"a": 1}), ("resource", "q://one", "text")]


@both_eras
async def test_a_call_of_a_provider_can_be_cancelled(revision: str) -> None:
    """CAN-01."""
    began, ended = trio.Event(), trio.Event()

    class Slow(Provider):
        async def call_tool(self, ctx: Context, name: str, arguments: dict[str, Any]) -> Any:
            began.set()
            try:
                await trio.sleep_forever()
            finally:
                ended.set()

    async with talking(make(Slow()), revision) as client:
        request_id = client.begin("slow")
        await began.wait()
        client.send({"method": "notifications/cancelled", "params": {"requestId": request_id}})
        await ended.wait()
        await client.ping()


@every_revision
async def test_long_lists_come_in_pages(revision: str) -> None:
    """PAGE-01: a thousand entries each, with a cursor."""
    provider = Everything()
    provider.extra = [types.Tool(f"t{number}", EMPTY) for number in range(1_500)]
    async with talking(make(provider), revision) as client:
        first = (await client.ask("tools/list", {}))["result"]
        second = (await client.ask("tools/list", {"cursor": first["nextCursor"]}))["result"]
        assert (len(first["tools"]), len(second["tools"])) == (1_000, 503)
        assert "nextCursor" not in second


SCRIPT = """\
from mcpkit import App, Provider
from mcpkit.protocol.types import Tool

class Weird(Provider):
    def list_tools(self, ctx):
        kinds = {"count": "integer", "names": "array", "odd": 7, "text": "string"}
        properties = {name: {"type": kind} for name, kind in kinds.items()}
        yield Tool("show", {"type": "object", "properties": properties})
    def call_tool(self, ctx, name, arguments):
        return arguments

app = App("weird")
app.add_provider(Weird())
"""


def test_the_command_line_writes_arguments_as_the_listed_schema_wants_them(tmp_path: Path) -> None:
    """`mcpkit call … count=2` sends a number, also to a server that would take "2" for a text."""
    (tmp_path / "weird.py").write_text(SCRIPT)
    words = ["show", "count=2", "names=[1]", "odd=3", "text=4", "other=5"]
    done = subprocess.run(
        [sys.executable, "-m", "mcpkit", "call", str(tmp_path / "weird.py"), *words], capture_output=True
    )
    assert msgspec.json.decode(done.stdout) == {
        "count": 2,
        "names": [1],
        "odd": "3",
        "text": "4",
        "other": "5",
    }, done.stderr


# -- Capabilities and changes ------------------------------------------------------------


def lifespan_app() -> App:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        yield

    return App("late", lifespan=lifespan)


def emptied_app() -> App:
    app = App("emptied")
    app.add_tool(lambda: "x", name="gone")
    app.remove_tool("gone")
    return app


def provided_app() -> App:
    app = App("provided")
    app.add_provider(Blocking())
    return app


async def capabilities(app: App) -> dict[str, Any]:
    async with talking(app) as client:
        return dict((await client.ask("server/discover", {}))["result"]["capabilities"])


async def test_what_may_come_is_declared() -> None:
    """A session learns only once what there is: what was there at any time, what a lifespan may add, what providers
    have. What can never be there is not declared.
    """
    changing = {"listChanged": True}
    assert await capabilities(App("empty")) == {"logging": {}}
    assert await capabilities(emptied_app()) == {"logging": {}, "tools": changing}
    assert await capabilities(provided_app()) == {"logging": {}, "tools": changing}
    assert (await capabilities(lifespan_app())).keys() == {"logging", "tools", "resources", "prompts"}
    full = await capabilities(make(Everything()))
    assert full.keys() == {"logging", "tools", "resources", "prompts", "completions"}
    assert full["resources"] == {"subscribe": True, "listChanged": True}


@every_revision
async def test_a_list_that_was_declared_can_be_asked_for_when_it_is_empty(revision: str) -> None:
    """Not -32601: the client was told that there are tools."""
    for app in (lifespan_app(), emptied_app()):
        async with talking(app, revision) as client:
            assert await names(client, "tools") == []


@both_eras
async def test_resources_of_a_provider_can_be_subscribed_to(revision: str) -> None:
    """RES-08, SUB-11: which of them there are, only the provider knows."""
    app = make(Everything())
    async with talking(app, revision) as client:
        if revision == STATELESS:
            filter = {"toolsListChanged": True, "resourceSubscriptions": ["p://one"]}
            client.request("subscriptions/listen", {"notifications": filter})
            acknowledged = (await client.receive())["params"]["notifications"]
            assert acknowledged == filter
        else:
            await client.ask("resources/subscribe", {"uri": "p://one"})
        app.notifier.resource_updated("p://one")
        assert (await client.receive())["params"]["uri"] == "p://one"


@both_eras
async def test_a_provider_that_is_added_while_serving_is_told(revision: str) -> None:
    """SUB-12: its tools are new; of what it has not, nothing is said."""
    app = make()
    async with talking(app, revision) as client:
        if revision == STATELESS:
            client.request(
                "subscriptions/listen",
                {"notifications": {"toolsListChanged": True, "promptsListChanged": True}},
            )
            await client.receive()
        await client.ping()
        app.add_provider(Blocking())
        assert (await client.receive())["method"] == "notifications/tools/list_changed"
        assert await names(client, "tools") == ["own", "block"]


@pytest.mark.parametrize("wrong", [Everything, object(), None, {"list_tools": None}], ids=repr)
def test_what_is_no_provider_is_refused(wrong: Any) -> None:
    """Where it is added."""
    with pytest.raises(TypeError, match=r"instance of a subclass of mcpkit\.Provider"):
        App("x").add_provider(wrong)


class Typo(Provider):
    def list_tool(self, ctx: SyncContext) -> list[types.Tool]:
        return []


class Misfit(Provider):
    async def call_tool(self, name: str, arguments: dict[str, Any]) -> str:  # type: ignore[override]
        return name


class Helped(Provider):
    """Helpers, and other names for the parameters."""

    def call_tool(self, context: SyncContext, tool: str, given: dict[str, Any]) -> str:  # type: ignore[override]
        return self.fetch(tool)

    def fetch(self, tool: str) -> str:
        return tool


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Typo, "Typo.list_tool: a provider has no such method. Is it meant to be list_tools?"),
        (Misfit, r"Misfit.call_tool takes \(self, ctx, name, arguments\)"),
    ],
)
def test_a_method_that_would_not_be_called_is_told_where_it_is_added(wrong: Any, said: str) -> None:
    """And not when a client calls it, or never."""
    with pytest.raises(TypeError, match=said):
        App("x").add_provider(wrong())
    App("x").add_provider(Helped())
