"""Envelopes, eras, handshake, `_meta`, discovery, batches: over memory, in both eras.

The rows are those of PITFALLS, "JSON-RPC and life cycle", and of REQUIREMENTS sections 2 to 8 and 12.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from support import HANDSHAKE, PREFIX, REVISIONS, STATELESS, initialize, meta, request
from trio.testing import wait_all_tasks_blocked
from wirekit import Talk, alive, call, cancel, heard, talking, text

from mcpkit import App, Context, McpError, NotFound, ToolResult

CURRENT = "2025-11-25"
BATCHING = "2025-03-26"

every_revision = pytest.mark.parametrize("revision", REVISIONS)
every_handshake = pytest.mark.parametrize("revision", HANDSHAKE)
both_eras = pytest.mark.parametrize("revision", [CURRENT, STATELESS])


class Gates:
    """Events by name, for tools that wait until a test lets them go on."""

    def __init__(self) -> None:
        self._events: dict[str, trio.Event] = {}

    def __getitem__(self, name: str) -> trio.Event:
        return self._events.setdefault(name, trio.Event())


@pytest.fixture
def gates() -> Gates:
    """A fresh set for each test."""
    return Gates()


@pytest.fixture
def app(gates: Gates) -> App:
    """An app with something of everything."""
    app = App("life", "1.2.3", title="Life", instructions="Ask.")

    @app.tool
    async def echo(text: str = "nothing") -> str:
        return text

    @app.tool
    async def hold(name: str, ctx: Context) -> str:
        await ctx.info(f"holding {name}")
        await gates[name].wait()
        return name

    @app.tool
    async def stubborn(name: str, ctx: Context) -> str:
        try:
            await ctx.info(f"holding {name}")
            await gates[name].wait()
        except trio.Cancelled:
            gates["ignored"].set()
        return "done all the same"

    @app.tool
    async def whoami(ctx: Context) -> dict[str, Any]:
        client = None if ctx.client is None else {"name": ctx.client.name, "version": ctx.client.version}
        return {
            "client": client,
            "capabilities": dict(ctx.capabilities),
            "revision": ctx.revision,
            "meta": dict(ctx.meta),
            "id": ctx.request_id,
        }

    @app.tool
    async def refuse(code: int, data: Any = None) -> str:
        raise McpError(code, "Refused", data)

    @app.tool
    async def missing() -> str:
        raise NotFound("Gone", {"uri": "x://y"})

    @app.tool
    async def crash() -> str:
        raise RuntimeError("secret password")

    @app.tool
    async def usurp(key: str) -> ToolResult:
        return ToolResult("mine", meta={key: "mine"})

    @app.resource("life://one")
    async def one() -> str:
        return "1"

    @app.prompt
    async def ask(code: int) -> str:
        """Ask."""
        return str(code)

    return app


async def value(talk: Talk, id: Any, tool: str, arguments: Any = None, *, revision: str, **meta: Any) -> Any:
    """The structured value that a tool returns."""
    talk.send(call(id, tool, arguments, revision=revision, **meta))
    return json.loads(text((await talk.receive_until(id))[0]))


# -- Section 2: the envelope -----------------------------------------------------------------------------------


@every_revision
@pytest.mark.parametrize("id", [None, 1.5, True, False, {}, {"a": 1}, [], [1]], ids=repr)
async def test_an_id_that_is_none_is_refused(app: App, revision: str, id: Any) -> None:
    """PITFALLS, life cycle row 1; RPC-02, RPC-05, RPC-06: -32600; no id in the answer, or null where it is demanded."""
    async with talking(app, revision) as talk:
        talk.send(request(id, "tools/list", revision=revision))
        error = await talk.receive()
        assert error["error"]["code"] == -32600
        assert ("id" in error) == (revision in HANDSHAKE[:3])
        assert await talk.silence(revision) == []


@both_eras
@pytest.mark.parametrize(
    "id",
    [
        "1",
        1,
        0,
        -1,
        "",
        " ",
        2**31,
        2**53 + 1,
        2**64,
        -(2**63) - 1,
        10**40,
        "süß",
        "null",
        "\x00",
        "a" * 10_000,
    ],
    ids=lambda id: repr(id)[:30],
)
async def test_an_id_comes_back_with_its_exact_type(app: App, revision: str, id: Any) -> None:
    """RPC-02: "1" is not 1."""
    async with talking(app, revision) as talk:
        for method in ("tools/list", "tools/call"):
            params = {"name": "echo"} if method == "tools/call" else None
            talk.send(request(id, method, params, revision=revision))
            reply = await talk.receive()
            assert (reply["id"], type(reply["id"])) == (id, type(id))


@both_eras
async def test_a_string_and_an_integer_in_flight_together_are_two_ids(
    app: App, gates: Gates, revision: str
) -> None:
    """PITFALLS, life cycle row 1; RPC-02: each gets its own answer, also when one is cancelled."""
    async with talking(app, revision) as talk:
        talk.send(call(1, "hold", {"name": "integer"}, revision=revision))
        talk.send(call("1", "hold", {"name": "string"}, revision=revision))
        talk.send(cancel("1"))
        await wait_all_tasks_blocked()
        gates["string"].set()
        gates["integer"].set()
        reply, _ = await talk.receive_until(1)
        assert text(reply) == "integer"
        assert await talk.silence(revision) == []


@both_eras
async def test_an_id_in_flight_is_refused_and_its_first_call_goes_on(
    app: App, gates: Gates, revision: str
) -> None:
    """PITFALLS, life cycle row 1; RPC-09: the first gets its one answer."""
    async with talking(app, revision) as talk:
        talk.send(heard(5, "hold", {"name": "first"}, revision=revision))
        await talk.receive()
        for method in ("tools/list", "tools/call"):
            params = {"name": "echo"} if method == "tools/call" else None
            talk.send(request(5, method, params, revision=revision))
            refusal = await talk.receive()
            assert (refusal["id"], refusal["error"]["code"]) == (5, -32600)
        gates["first"].set()
        assert text(await talk.receive()) == "first"
        assert await talk.silence(revision) == []


@both_eras
async def test_an_id_is_free_again_after_its_answer(app: App, revision: str) -> None:
    """RPC-10; in the handshake era clients must not, and are served all the same."""
    async with talking(app, revision) as talk:
        for word in ("one", "two"):
            talk.send(call(1, "echo", {"text": word}, revision=revision))
            assert text(await talk.receive()) == word


@every_revision
@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/initialized"},
        {"method": "notifications/roots/list_changed"},
        {"method": "notifications/unheard/of"},
        {"method": "notifications/cancelled"},
        {"method": "notifications/cancelled", "params": {"requestId": "never seen"}},
        {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 0.5}},
        {"method": "tools/call", "params": {"name": "echo"}},
        {"method": "initialize"},
        {"method": "ping"},
        {"method": "notifications/unheard/of", "params": []},
        {"method": "notifications/unheard/of", "params": "text"},
        {"method": "notifications/unheard/of", "params": None},
        {"method": "notifications/cancelled", "params": [1]},
    ],
    ids=lambda message: json.dumps(message)[11:-1],
)
async def test_a_notification_is_never_answered(app: App, revision: str, message: dict[str, Any]) -> None:
    """RPC-04: not even with an error, whatever its method and params are."""
    async with talking(app, revision) as talk:
        talk.send({"jsonrpc": "2.0", **message})
        assert await talk.silence(revision) == []


@every_revision
@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "result": {}},
        {"id": "x", "error": {"code": -32601, "message": "no"}},
        {"id": None, "error": {"code": -32700, "message": "what?"}},
        {"error": {"code": -32700, "message": "what?"}},
        {"id": 1, "result": {}, "error": {"code": 1, "message": "both"}},
    ],
    ids=json.dumps,
)
async def test_a_response_that_answers_nothing_is_ignored(
    app: App, revision: str, message: dict[str, Any]
) -> None:
    """RPC-15; answering an error with an error could go on for ever."""
    async with talking(app, revision) as talk:
        talk.send({"jsonrpc": "2.0", **message})
        assert await talk.silence(revision) == []


REQUESTS: dict[str, dict[str, Any]] = {
    "tools/list": {},
    "tools/call": {"name": "echo"},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "life://one"},
    "prompts/list": {},
    "prompts/get": {"name": "ask", "arguments": {"code": "1"}},
}


@pytest.mark.parametrize("method", ["server/discover", *REQUESTS])
async def test_a_stateless_result_says_that_it_is_complete_and_who_made_it(app: App, method: str) -> None:
    """RPC-11, META-05: `resultType` on every result, `serverInfo` in its `_meta`."""
    async with talking(app) as talk:
        result = (await talk.ask(1, method, REQUESTS.get(method), revision=STATELESS))["result"]
        assert result["resultType"] == "complete"
        assert result["_meta"] == {
            PREFIX + "serverInfo": {"name": "life", "version": "1.2.3", "title": "Life"}
        }


@every_handshake
@pytest.mark.parametrize("method", REQUESTS)
async def test_a_handshake_result_has_nothing_of_the_stateless_era(
    app: App, revision: str, method: str
) -> None:
    """RPC-12: no `resultType`, no cache fields, no `_meta`."""
    async with talking(app, revision) as talk:
        result = (await talk.ask(1, method, REQUESTS[method]))["result"]
        assert not result.keys() & {"resultType", "ttlMs", "cacheScope", "_meta"}


@every_handshake
@pytest.mark.parametrize(("method", "params"), [("ping", None), ("logging/setLevel", {"level": "error"})])
async def test_an_empty_result_is_empty(app: App, revision: str, method: str, params: Any) -> None:
    """RPC-12, INIT-05: exactly {}."""
    async with talking(app, revision) as talk:
        assert (await talk.ask(1, method, params))["result"] == {}


@every_revision
async def test_members_that_are_not_known_are_ignored(app: App, revision: str) -> None:
    """RPC-13: `task`, other keys of `_meta`, other capabilities, members of the envelope."""
    async with talking(app) as talk:
        if revision == STATELESS:
            own = meta(**{PREFIX + "clientCapabilities": {"unheard": {"of": True}}, PREFIX + "unheard": [1]})
        else:
            own = {"example.com/colour": "red"}
            talk.send({**initialize(revision, capabilities={"unheard": {"of": True}}), "extra": 1})
            await talk.receive_until("init")
        params = {"name": "echo", "task": {"ttl": 1}, "unheard": None, "_meta": own}
        talk.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params, "extra": {}})
        assert text(await talk.receive()) == "nothing"


@both_eras
@pytest.mark.parametrize(
    "key", [PREFIX + "serverInfo", "mcp.dev/x", "com.mcp/x", "com.modelcontextprotocol.x/y"]
)
async def test_an_application_cannot_write_the_protocols_own_keys(app: App, revision: str, key: str) -> None:
    """RPC-14: a reserved prefix is one whose second label is modelcontextprotocol or mcp; "mcp.dev" is not."""
    async with talking(app, revision) as talk:
        talk.send(call(1, "usurp", {"key": key}, revision=revision))
        result = (await talk.receive())["result"]
        assert result.get("isError", False) == (key != "mcp.dev/x")
        assert (result.get("_meta", {}).get(key) == "mine") == (key == "mcp.dev/x")


@both_eras
async def test_the_text_of_an_internal_failure_stays_inside(app: App, revision: str) -> None:
    """RPC-16."""
    async with talking(app, revision) as talk:
        talk.send(call(1, "crash", revision=revision))
        reply = await talk.receive()
        assert reply["result"]["isError"]
        assert "secret" not in json.dumps(reply)


# -- Section 3: error codes ------------------------------------------------------------------------------------

RESERVED = [-32001, -32019, -32020, -32021, -32022, -32023, -32042, -32050, -32099]


@every_revision
@pytest.mark.parametrize("code", RESERVED)
async def test_a_reserved_code_reaches_only_the_revision_that_defines_it(
    app: App, revision: str, code: int
) -> None:
    """ERR-01, ERR-02, ERR-03 and the table of section 3; -32042 is of 2025-11-25 alone."""
    defined = {-32020: STATELESS, -32021: STATELESS, -32022: STATELESS, -32042: CURRENT}
    async with talking(app, revision) as talk:
        talk.send(call(1, "refuse", {"code": code}, revision=revision))
        error = (await talk.receive())["error"]
        assert (error["code"] == code) == (defined.get(code) == revision)
        assert error["message"] == "Refused"


@every_revision
@pytest.mark.parametrize("code", [1, 0, -1, 4001, -31999, -33000, 2**40, -32603])
async def test_a_code_that_is_not_reserved_passes(app: App, revision: str, code: int) -> None:
    """ERR-01: applications have numbers of their own; `data` is any JSON value."""
    async with talking(app, revision) as talk:
        talk.send(call(1, "refuse", {"code": code, "data": {"a": [None, 1.5]}}, revision=revision))
        assert (await talk.receive())["error"] == {
            "code": code,
            "message": "Refused",
            "data": {"a": [None, 1.5]},
        }


@every_revision
async def test_what_is_not_found_has_the_code_of_the_era(app: App, revision: str) -> None:
    """ERR-02, RES-03, RES-04: -32002 in the handshake era, -32602 in the stateless era, from any handler."""
    async with talking(app, revision) as talk:
        talk.send(call(1, "missing", revision=revision))
        from_tool = (await talk.receive())["error"]
        from_read = (await talk.ask(2, "resources/read", {"uri": "life://two"}, revision=revision))["error"]
        expected = -32602 if revision == STATELESS else -32002
        assert (from_tool["code"], from_read["code"]) == (expected, expected)
        assert from_tool["data"] == {"uri": "x://y"}


# -- Section 4: eras and versions ------------------------------------------------------------------------------


def bare(id: Any, method: str, own: Any, **params: Any) -> dict[str, Any]:
    """A request with exactly this `_meta`."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": own}}


VERSION, CAPABILITIES = PREFIX + "protocolVersion", PREFIX + "clientCapabilities"


@pytest.mark.parametrize("initialized", [False, True])
@pytest.mark.parametrize(
    "own",
    [
        {VERSION: STATELESS},
        {CAPABILITIES: {}},
        {VERSION: 20260728, CAPABILITIES: {}},
        {VERSION: None, CAPABILITIES: {}},
        {VERSION: STATELESS, CAPABILITIES: []},
        {VERSION: STATELESS, CAPABILITIES: None},
        {VERSION: STATELESS, CAPABILITIES: {}, PREFIX + "clientInfo": {"name": "x"}},
        {VERSION: STATELESS, CAPABILITIES: {}, PREFIX + "clientInfo": "x"},
        {VERSION: STATELESS, CAPABILITIES: {}, PREFIX + "logLevel": "loud"},
        {VERSION: STATELESS, CAPABILITIES: {}, "progressToken": 1.5},
        {VERSION: STATELESS, CAPABILITIES: {}, "progressToken": None},
    ],
    ids=lambda own: json.dumps(own).replace(PREFIX, ""),
)
async def test_half_a_stateless_request_is_malformed(app: App, initialized: bool, own: Any) -> None:
    """ERA-01, META-01, META-02, META-08, META-09: -32602, also on a connection that is initialized."""
    async with talking(app, CURRENT if initialized else None) as talk:
        talk.send(bare(1, "tools/list", own))
        error = await talk.receive()
        assert (error["id"], error["error"]["code"]) == (1, -32602)


@pytest.mark.parametrize(
    "own",
    [{}, {"progressToken": 1}, {"example.com/x": 1}, {PREFIX + "clientInfo": {"name": "a", "version": "1"}}],
)
async def test_initialize_without_a_stateless_meta_opens_the_handshake_era(app: App, own: Any) -> None:
    """ERA-02."""
    async with talking(app) as talk:
        message = initialize(CURRENT)
        message["params"]["_meta"] = own
        talk.send(message)
        assert (await talk.receive())["result"]["protocolVersion"] == CURRENT


@pytest.mark.parametrize("initialized", [False, True])
@pytest.mark.parametrize(
    "method",
    [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
        "unheard/of",
    ],
)
async def test_a_method_that_the_stateless_era_lacks_is_not_found(
    app: App, initialized: bool, method: str
) -> None:
    """ERA-03: -32601, whatever its params are."""
    async with talking(app, CURRENT if initialized else None) as talk:
        params = initialize(STATELESS)["params"] if method == "initialize" else {"level": 5}
        assert (await talk.ask(1, method, params, revision=STATELESS))["error"]["code"] == -32601


@every_handshake
async def test_discovery_is_not_part_of_the_handshake_era(app: App, revision: str) -> None:
    """Section 1.1; ERA-12: an answer at once, with none of the stateless era's own codes."""
    async with talking(app, revision) as talk:
        assert (await talk.ask(1, "server/discover"))["error"]["code"] == -32601


@pytest.mark.parametrize("version", ["1900-01-01", "2026-07-29", "2099-01-01", "", "latest", "2026-07-28 "])
async def test_an_unknown_version_gets_the_list_of_served_ones(app: App, version: str) -> None:
    """ERA-05, ERA-06, ERR-05: -32022, newest first, echoing what was asked for, whatever else `_meta` lacks."""
    async with talking(app) as talk:
        talk.send(bare(1, "tools/list", {VERSION: version}))
        error = (await talk.receive())["error"]
        assert error["code"] == -32022
        assert error["data"] == {"requested": version, "supported": list(reversed(REVISIONS))}


@every_handshake
async def test_a_version_of_the_handshake_era_is_not_served_per_request(app: App, revision: str) -> None:
    """ERA-06: -32022 listing the stateless revisions alone, so that it does not contradict itself."""
    async with talking(app) as talk:
        talk.send(bare(1, "tools/list", meta(revision)))
        error = (await talk.receive())["error"]
        assert (error["code"], error["data"]) == (-32022, {"requested": revision, "supported": [STATELESS]})


@every_handshake
async def test_initialize_with_a_served_version_echoes_it(app: App, revision: str) -> None:
    """ERA-07."""
    async with talking(app) as talk:
        assert (await talk.start(revision))["protocolVersion"] == revision


@pytest.mark.parametrize("version", [STATELESS, "2099-01-01", "1900-01-01", "", "DRAFT-2026-v1"])
async def test_initialize_with_another_version_gets_the_newest_that_has_a_handshake(
    app: App, version: str
) -> None:
    """PITFALLS, life cycle row 5; ERA-07: a normal result, never a stateless revision."""
    async with talking(app) as talk:
        talk.send(initialize(version))
        assert (await talk.receive())["result"]["protocolVersion"] == CURRENT
        assert (await talk.ask(1, "tools/list"))["result"]


@pytest.mark.parametrize("method", [*REQUESTS, "logging/setLevel", "completion/complete", "unheard/of"])
async def test_a_request_before_initialize_is_told_what_to_send(app: App, method: str) -> None:
    """PITFALLS, life cycle row 3; ERA-10: -32600 that names both ways in."""
    async with talking(app) as talk:
        error = (await talk.ask(1, method, REQUESTS.get(method)))["error"]
        assert error["code"] == -32600
        assert all(word in error["message"] for word in ("initialize", "_meta", STATELESS, VERSION))
        assert (await talk.start(CURRENT))["protocolVersion"] == CURRENT


async def test_discovery_without_meta_is_told_what_it_lacks(app: App) -> None:
    """META-01 for `server/discover`; a client that probes for the era must get an answer."""
    async with talking(app) as talk:
        error = (await talk.ask(1, "server/discover"))["error"]
        assert error["code"] == -32602
        assert VERSION in error["message"]


@every_handshake
async def test_both_eras_are_served_on_one_connection(app: App, revision: str) -> None:
    """ERA-04, ERA-10: stateless before initialize, after it, and in between."""
    async with talking(app) as talk:
        assert (await value(talk, 1, "whoami", revision=STATELESS))["revision"] == STATELESS
        await talk.start(revision)
        assert (await value(talk, 2, "whoami", revision=revision))["revision"] == revision
        assert (await value(talk, 3, "whoami", revision=STATELESS))["revision"] == STATELESS
        assert (await value(talk, 4, "whoami", revision=revision))["revision"] == revision


# -- Section 5: _meta per request ------------------------------------------------------------------------------


async def test_a_client_need_not_say_who_it_is(app: App) -> None:
    """META-02."""
    async with talking(app) as talk:
        assert (await value(talk, 1, "whoami", revision=STATELESS))["client"] is None


async def test_nothing_is_remembered_from_one_stateless_request_to_the_next(app: App) -> None:
    """META-03: neither capabilities nor identity, also not those of a handshake."""
    async with talking(app, CURRENT) as talk:
        own = {CAPABILITIES: {"roots": {}}, PREFIX + "clientInfo": {"name": "a", "version": "9"}}
        first = await value(talk, 1, "whoami", revision=STATELESS, **own)
        assert (first["client"], first["capabilities"]) == ({"name": "a", "version": "9"}, {"roots": {}})
        second = await value(talk, 2, "whoami", revision=STATELESS)
        assert (second["client"], second["capabilities"]) == (None, {})
        third = await value(talk, 3, "whoami", revision=CURRENT)
        assert (third["client"], third["capabilities"]) == ({"name": "test", "version": "1"}, {})


@both_eras
async def test_trace_context_reaches_the_handler(app: App, revision: str) -> None:
    """META-07: traceparent, tracestate and baggage are no violation, and pass as they are."""
    trace = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "a=b",
        "baggage": "c=d",
    }
    async with talking(app, revision) as talk:
        assert (await value(talk, 1, "whoami", revision=revision, **trace))["meta"].items() >= trace.items()


# -- Section 6: discovery --------------------------------------------------------------------------------------


async def test_discovery_says_what_there_is(app: App) -> None:
    """DISC-01, DISC-02, DISC-05, CACH-01: no `serverInfo` in the body, no `tasks`."""
    async with talking(app) as talk:
        result = await talk.start(STATELESS)
        assert result.pop("_meta").keys() == {PREFIX + "serverInfo"}
        assert result.pop("capabilities").keys() == {"logging", "tools", "resources", "prompts"}
        assert result == {
            "resultType": "complete",
            "supportedVersions": list(reversed(REVISIONS)),
            "instructions": "Ask.",
            "ttlMs": 0,
            "cacheScope": "private",
        }


async def test_discovery_promises_no_changes_that_it_will_not_tell_of(app: App) -> None:
    """DISC-04, SUB-10: what is declared, `subscriptions/listen` honours."""
    async with talking(app) as talk:
        declared = (await talk.start(STATELESS))["capabilities"]
        promises = [name for kind in declared.values() for name in kind]
        wanted = {"toolsListChanged": True}
        talk.send(request(1, "subscriptions/listen", {"notifications": wanted}, revision=STATELESS))
        reply = await talk.receive()
        assert (reply.get("error", {}).get("code") != -32601) if promises else ("error" in reply)


@both_eras
@pytest.mark.parametrize("kind", ["tools", "prompts", "resources"])
async def test_a_list_is_answered_exactly_where_its_capability_is_declared(revision: str, kind: str) -> None:
    """DISC-03: an app that has only one kind of thing."""
    app = App("one kind")
    if kind == "tools":
        app.add_tool(lambda: None, name="t")
    elif kind == "prompts":
        app.add_prompt(lambda: "p", name="p")
    else:
        app.add_resource(lambda: "r", "r://r")
    async with talking(app) as talk:
        declared = (await talk.start(revision))["capabilities"]
        assert declared.keys() == {"logging", kind}
        for other in ("tools", "prompts", "resources"):
            reply = await talk.ask(other, f"{other}/list", revision=revision)
            assert ("result" in reply) == (other == kind)
            assert other == kind or reply["error"]["code"] == -32601


async def test_discovery_does_not_vary_with_earlier_requests(app: App) -> None:
    """DISC-06, TOOL-02."""
    async with talking(app) as talk:
        before = await talk.start(STATELESS)
        await talk.start(CURRENT)
        assert (await talk.ask(1, "server/discover", revision=STATELESS))["result"] == before


# -- Section 7: the handshake ----------------------------------------------------------------------------------


@every_handshake
async def test_initialize_answers_with_identity_and_capabilities(app: App, revision: str) -> None:
    """INIT-01, INIT-10: instructions beside serverInfo; no field that the revision lacks."""
    async with talking(app) as talk:
        result = await talk.start(revision)
        assert result.keys() == {"protocolVersion", "capabilities", "serverInfo", "instructions"}
        titled = {"title": "Life"} if revision >= "2025-06-18" else {}
        assert result["serverInfo"] == {"name": "life", "version": "1.2.3", **titled}
        assert "tasks" not in result["capabilities"]


@pytest.mark.parametrize("field", ["protocolVersion", "capabilities", "clientInfo"])
@pytest.mark.parametrize(
    "bad", [..., None, 5, [], "x", {}], ids=["missing", "null", "number", "array", "string", "object"]
)
async def test_initialize_with_a_field_that_does_not_fit_is_refused_and_can_be_repeated(
    app: App, field: str, bad: Any
) -> None:
    """INIT-09: -32602, and the connection is as fresh as before."""
    if (field, bad) in (("protocolVersion", "x"), ("capabilities", {})):
        return
    async with talking(app) as talk:
        message = initialize(CURRENT)
        if bad is ...:
            del message["params"][field]
        else:
            message["params"][field] = bad
        talk.send(message)
        assert (await talk.receive())["error"]["code"] == -32602
        assert (await talk.start(CURRENT))["protocolVersion"] == CURRENT


async def test_a_second_initialize_is_refused_and_changes_nothing(app: App) -> None:
    """INIT-08: -32600."""
    async with talking(app, "2025-06-18") as talk:
        talk.send(initialize(CURRENT, id="again"))
        assert (await talk.receive())["error"]["code"] == -32600
        assert (await value(talk, 1, "whoami", revision=CURRENT))["revision"] == "2025-06-18"


async def test_ping_is_answered_before_initialize(app: App) -> None:
    """PITFALLS, life cycle row 2; INIT-05."""
    async with talking(app) as talk:
        assert (await talk.ask(1, "ping"))["result"] == {}


@every_handshake
async def test_a_request_right_after_initialize_is_answered(app: App, revision: str) -> None:
    """PITFALLS, life cycle row 2: before `notifications/initialized`, even in the same write."""
    async with talking(app) as talk:
        talk.send(initialize(revision), request(1, "tools/list"), call(2, "echo"), request(3, "ping"))
        replies = {(await talk.receive())["id"] for _ in range(4)}
        assert replies == {"init", 1, 2, 3}


async def test_initialize_cannot_be_cancelled(app: App) -> None:
    """INIT-06, CAN-03."""
    async with talking(app) as talk:
        talk.send(initialize(CURRENT), cancel("init"))
        assert (await talk.receive())["result"]["protocolVersion"] == CURRENT


@every_handshake
async def test_nothing_is_sent_before_the_client_is_ready(app: App, revision: str) -> None:
    """INIT-03, RPC-15: the server does not speak first."""
    async with talking(app) as talk:
        talk.send(initialize(revision))
        await talk.receive_until("init")
        assert await talk.silence(revision) == []


# -- Arguments -------------------------------------------------------------------------------------------------


@every_revision
@pytest.mark.parametrize(
    "given",
    [{}, {"arguments": None}, {"arguments": {}}, {"arguments": "{}"}, {"arguments": "null"}],
    ids=json.dumps,
)
async def test_arguments_may_be_left_out(app: App, revision: str, given: Any) -> None:
    """PITFALLS, life cycle row 4; TOOL-07: missing and null are {}."""
    async with talking(app, revision) as talk:
        reply = await talk.ask(1, "tools/call", {"name": "echo", **given}, revision=revision)
        assert text(reply) == "nothing"


@both_eras
@pytest.mark.parametrize("given", [{}, {"arguments": None}, {"arguments": {}}], ids=json.dumps)
async def test_arguments_that_are_missing_are_named(app: App, revision: str, given: Any) -> None:
    """TOOL-07, TOOL-08: also where all of them are left out."""
    async with talking(app, revision) as talk:
        reply = await talk.ask(1, "tools/call", {"name": "hold", **given}, revision=revision)
        assert text(reply) == "Invalid arguments for tool 'hold': `name`: missing, and it is required"


@both_eras
async def test_arguments_as_json_text_are_parsed(app: App, revision: str) -> None:
    """PITFALLS, life cycle row 4."""
    async with talking(app, revision) as talk:
        params = {"name": "echo", "arguments": json.dumps({"text": "as text"})}
        assert text(await talk.ask(1, "tools/call", params, revision=revision)) == "as text"


@both_eras
@pytest.mark.parametrize("bad", [[], [1], 5, True, "words", "[1]", "5", '"{}"', "{", ""], ids=json.dumps)
async def test_arguments_that_are_no_object_are_refused(app: App, revision: str, bad: Any) -> None:
    """PITFALLS, life cycle row 4; TOOL-07: -32602, and the connection survives."""
    async with talking(app, revision) as talk:
        reply = await talk.ask(1, "tools/call", {"name": "echo", "arguments": bad}, revision=revision)
        assert reply["error"]["code"] == -32602
        assert await talk.silence(revision) == []


@both_eras
@pytest.mark.parametrize("bad", [..., None, 5, {}], ids=["missing", "null", "number", "object"])
async def test_a_tool_name_that_is_no_string_is_refused(app: App, revision: str, bad: Any) -> None:
    """TOOL-07: -32602."""
    async with talking(app, revision) as talk:
        params = {} if bad is ... else {"name": bad}
        assert (await talk.ask(1, "tools/call", params, revision=revision))["error"]["code"] == -32602


# -- Section 12: batches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [None, *[revision for revision in REVISIONS if revision != BATCHING]])
async def test_a_batch_is_refused_where_there_are_none(app: App, revision: str | None) -> None:
    """BAT-01: one -32600 for all of it; before initialize, too."""
    async with talking(app, revision) as talk:
        talk.send([request(1, "ping"), request(2, "ping")])
        error = await talk.receive()
        assert (error["error"]["code"], error.get("id")) == (-32600, None)
        assert await talk.silence(revision or STATELESS) == []


async def test_a_batch_gets_one_array_with_all_replies(app: App, gates: Gates) -> None:
    """BAT-01, BAT-03, STD-07: one reply for each request, none for notifications, when the last is known."""
    async with talking(app, BATCHING) as talk:
        talk.send(
            [
                request(1, "ping"),
                call(2, "hold", {"name": "b"}),
                cancel("nothing"),
                request("3", "tools/list"),
                call(4, "echo"),
            ]
        )
        assert (await talk.receive())["method"] == "notifications/message"
        assert await talk.silence(BATCHING) == []
        gates["b"].set()
        replies = await talk.receive()
        assert sorted(str(reply["id"]) for reply in replies) == ["1", "2", "3", "4"]


async def test_a_batch_of_notifications_and_responses_is_silent(app: App) -> None:
    """BAT-02."""
    async with talking(app, BATCHING) as talk:
        talk.send(
            [
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": 1, "result": {}},
            ]
        )
        assert await talk.silence(BATCHING) == []


async def test_initialize_inside_a_batch_is_refused(app: App) -> None:
    """BAT-04, INIT-07."""
    async with talking(app, BATCHING) as talk:
        talk.send([initialize(CURRENT), request(1, "ping")])
        codes = {reply["id"]: reply.get("error", {}).get("code") for reply in await talk.receive()}
        assert codes == {"init": -32600, 1: None}


@pytest.mark.parametrize("size", [0, 1001, 5000])
async def test_an_empty_batch_and_an_endless_one_are_refused(app: App, size: int) -> None:
    """BAT-01, BAT-06: one -32600, without an array around it."""
    async with talking(app, BATCHING) as talk:
        talk.send([request(number, "ping") for number in range(size)])
        error = await talk.receive()
        assert (error["error"]["code"], error["id"]) == (-32600, None)
        assert await talk.silence(BATCHING) == []


async def test_the_largest_batch_is_served(app: App) -> None:
    """BAT-06."""
    async with talking(app, BATCHING) as talk:
        talk.send([request(number, "ping") for number in range(1000)])
        assert [reply["id"] for reply in await talk.receive()] == list(range(1000))


async def test_each_bad_element_of_a_batch_gets_its_own_error(app: App) -> None:
    """JSON-RPC 2.0 section 6, "rpc call with an invalid batch"."""
    async with talking(app, BATCHING) as talk:
        talk.send(
            [
                1,
                "x",
                None,
                [],
                [request(9, "ping")],
                {},
                {"jsonrpc": "2.0", "id": 5, "method": 1},
                request(6, "ping"),
            ]
        )
        replies = await talk.receive()
        assert [reply["error"]["code"] for reply in replies[:-1]] == [-32600] * 7
        assert [reply["id"] for reply in replies] == [None] * 6 + [5, 6]


async def test_an_id_that_a_batch_uses_twice_is_refused_the_second_time(app: App, gates: Gates) -> None:
    """RPC-09, inside one array."""
    async with talking(app, BATCHING) as talk:
        talk.send([call(1, "hold", {"name": "b"}), request(1, "ping")])
        gates["b"].set()
        while "method" in (replies := await talk.receive()):
            pass
        assert sorted("error" in reply for reply in replies) == [False, True]


@pytest.mark.parametrize("tool", ["hold", "stubborn"])
async def test_a_cancelled_element_is_left_out_of_the_array(app: App, gates: Gates, tool: str) -> None:
    """CAN-01 and BAT-03: the others do not wait for it, also when its handler does not care."""
    async with talking(app, BATCHING) as talk:
        talk.send([call(1, tool, {"name": "never"}), call(2, "hold", {"name": "b"})])
        talk.send(cancel(1))
        gates["b"].set()
        while "method" in (replies := await talk.receive()):
            pass
        assert [reply["id"] for reply in replies] == [2]


async def test_a_batch_whose_elements_are_all_cancelled_is_silent(app: App) -> None:
    """CAN-01 and BAT-03: there is no empty array."""
    async with talking(app, BATCHING) as talk:
        talk.send([call(1, "hold", {"name": "a"}), call(2, "hold", {"name": "b"}), cancel(1), cancel(2)])
        talk.send(alive("after", BATCHING))
        _, before = await talk.receive_until("after")
        assert all("method" in message for message in before)


async def test_a_batch_after_a_byte_order_mark_is_served(app: App) -> None:
    """PITFALLS, stdio row 3, for arrays."""
    async with talking(app, BATCHING) as talk:
        talk.send(b"\xef\xbb\xbf" + json.dumps([request(1, "ping")]).encode() + b"\n")
        assert [reply["id"] for reply in await talk.receive()] == [1]
