"""What travels between the rounds: bound to its request, refused before the handler runs, kept in the store when it is
large.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import pytest
from asking.asking_kit import ALL, STATELESS, accept, greeted, served, talking, text

from mcpkit import App, Context, Param, StateKey
from mcpkit.engine.rounds import MAX_INLINE
from mcpkit.engine.runtime import Runtime
from mcpkit.protocol.errors import INVALID_PARAMS
from mcpkit.seal import Sealer
from mcpkit.stores.base import StoreError
from mcpkit.stores.memory import MemoryStore

KEYS = (StateKey("a", bytes(32)), StateKey("b", b"b" * 32))
YES = {"question_1": accept(proceed=True)}


class Confirm(msgspec.Struct):
    proceed: bool


class Note(msgspec.Struct):
    text: str


def booking(**options: Any) -> tuple[App, list[str]]:
    """An app that asks in tools, prompts and resources, and the runs of its handlers."""
    app = App("booking", **options)
    runs: list[str] = []

    async def asked(ctx: Context, what: str) -> str:
        runs.append(what)
        return f"{what} {await ctx.elicit(Confirm, 'Go on?')}"

    @app.tool
    async def book(ctx: Context, day: str = "", guests: Annotated[int, Param(ge=0)] = 0) -> str:
        return await asked(ctx, f"book {day} {guests}")

    @app.tool
    async def cancel(ctx: Context, day: str = "", guests: int = 0) -> str:
        return await asked(ctx, "cancel")

    @app.tool(input_schema={"type": "object"})
    async def anything(ctx: Context, **arguments: Any) -> str:
        return await asked(ctx, "anything")

    @app.tool
    def plain(day: str = "") -> str:
        runs.append("plain")
        return "plain"

    @app.prompt(name="book")
    async def letter(ctx: Context, day: str = "") -> str:
        return await asked(ctx, "letter")

    @app.resource("menu://{day}")
    async def menu(ctx: Context, day: str) -> str:
        return await asked(ctx, "menu")

    @app.tool
    async def remember(ctx: Context, size: int) -> str:
        runs.append("remember")
        kept = await ctx.step(long_text, size)
        return f"{len(kept)} {await ctx.elicit(Confirm, 'Go on?')}"

    return app, runs


def long_text(size: int) -> str:
    return "x" * size


CALL = ("tools/call", {"name": "book", "arguments": {"day": "monday", "guests": 2}})


async def state_of(client: Any, request: tuple[str, Any] = CALL) -> str:
    """The state of a request that asks."""
    response = await client.ask(*request)
    return str(response["result"]["requestState"])


def with_state(params: Any, state: Any, responses: Any = YES) -> Any:
    return {**params, "requestState": state, "inputResponses": responses}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "cancel", "arguments": {"day": "monday", "guests": 2}}),
        ("tools/call", {"name": "plain", "arguments": {"day": "monday"}}),
        ("tools/call", {"name": "book", "arguments": {"day": "friday", "guests": 2}}),
        ("tools/call", {"name": "book", "arguments": {"day": "monday"}}),
        ("tools/call", {"name": "book", "arguments": {"day": "monday", "guests": "2"}}),
        ("tools/call", {"name": "book"}),
        ("prompts/get", {"name": "book", "arguments": {"day": "monday"}}),
        ("resources/read", {"uri": "menu://monday"}),
    ],
)
async def test_a_state_is_for_one_request(method: str, params: Any) -> None:
    """MRTR-06, MRTR-07: another tool, other arguments, another method: -32602 before a handler runs."""
    app, runs = booking()
    async with talking(app) as client:
        state = await state_of(client)
        runs.clear()
        response = await client.ask(method, with_state(params, state))
        assert response["error"]["code"] == INVALID_PARAMS
        assert "start again without it" in response["error"]["message"]
    assert runs == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"day":"monday","guests":2}', '{ "guests" : 2 , "day" : "m\\u006fnday" }'),
        ("{}", "null"),
        ('{"a":{"x":1,"y":[{"p":1,"q":2}]}}', '{"a":{"y":[{"q":2,"p":1}],"x":1}}'),
    ],
)
async def test_the_same_arguments_may_be_written_differently(first: str, second: str) -> None:
    """MRTR-05: the order of keys and the spelling of strings are no part of JSON values."""
    app, _ = booking()
    tool = "anything" if "{}" in first or '"a"' in first else "book"
    async with talking(app) as client:
        state = await state_of(client, ("tools/call", {"name": tool, "arguments": json.loads(first)}))
        later = with_state({"name": tool, "arguments": ...}, state)
        client._last_id += 1
        meta = {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientCapabilities": ALL,
        }
        params = json.dumps({**later, "arguments": "HERE", "_meta": meta}).replace('"HERE"', second)
        message = f'{{"jsonrpc":"2.0","id":"own","method":"tools/call","params":{params}}}'
        client.watch.sent(json.loads(message))
        client.wire.send(message.encode() + b"\n")
        response = await client.receive()
        assert "proceed=True" in text(response), response


@pytest.mark.parametrize("arguments", [{"n": 2**70}, {"n": 10**400}, {"deep": None}])
async def test_arguments_of_any_size_are_bound(arguments: Any) -> None:
    """What has no place in memory as a value still has its text."""
    if "deep" in arguments:
        arguments = {"deep": json.loads("[" * 900 + "]" * 900)}
    app, _ = booking()
    async with talking(app) as client:
        request = {"name": "anything", "arguments": arguments}
        state = await state_of(client, ("tools/call", request))
        assert "proceed=True" in text(await client.ask("tools/call", with_state(request, state)))
        other = {"name": "anything", "arguments": {"n": 2**70 + 1}}
        assert (await client.ask("tools/call", with_state(other, state)))["error"]["code"] == INVALID_PARAMS


@pytest.mark.parametrize("state", [None, 3, [], {}, True])
async def test_a_state_is_text(state: Any) -> None:
    """Schema, InputResponseRequestParams: anything else is -32602."""
    app, runs = booking()
    async with talking(app) as client:
        response = await client.ask(CALL[0], with_state(CALL[1], state))
        assert response["error"]["code"] == INVALID_PARAMS
    assert runs == []


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state + "-TAMPERED",
        lambda state: state[:-1],
        lambda state: state[1:],
        lambda state: state.swapcase(),
        lambda state: "",
        lambda state: "step-2",
        lambda state: "é",
    ],
)
async def test_a_state_that_was_touched_is_refused(change: Callable[[str], str]) -> None:
    """MRTR-06: an error, and never a new question."""
    app, runs = booking()
    async with talking(app) as client:
        state = await state_of(client)
        runs.clear()
        for responses in (YES, {}):
            response = await client.ask(CALL[0], with_state(CALL[1], change(state), responses))
            assert response["error"]["code"] == INVALID_PARAMS
    assert runs == []


async def test_a_state_of_this_request_is_taken_again_and_again() -> None:
    """MRTR-05: a retry may be repeated; MRTR-07: single use would need memory."""
    app, _ = booking()
    async with talking(app) as client:
        state = await state_of(client)
        for _ in range(3):
            assert "proceed=True" in text(await client.ask(CALL[0], with_state(CALL[1], state)))


async def test_a_plain_handler_looks_at_no_state_of_its_own() -> None:
    """Whoever sends one to a tool that asks nothing gets it checked all the same."""
    app, runs = booking()
    async with talking(app) as client:
        request = {"name": "plain", "arguments": {}}
        assert (await client.ask("tools/call", with_state(request, "x")))["error"]["code"] == INVALID_PARAMS
        assert text(await client.call("plain", inputResponses=YES)) == "plain"
    assert runs == ["plain"]


async def test_in_the_handshake_era_a_state_means_nothing() -> None:
    """Section 1.4: the fields came with the stateless era."""
    app, _ = booking()
    async with talking(app, "2025-11-25", {}) as client:
        response = await client.ask(CALL[0], with_state(CALL[1], "x"))
        assert "Unavailable" in text(response)


# -- Expiry --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ttl", "passed", "good"), [(3600, 3599, True), (3600, 3600, False), (5, 6, False)])
async def test_a_state_expires(ttl: float, passed: float, good: bool) -> None:
    """MRTR-07: `state_ttl` seconds."""
    app, runs = booking(state_keys=KEYS, state_ttl=ttl)
    now = 1e9

    def own_the_clock(runtime: Runtime) -> None:
        runtime.sealer = Sealer(KEYS, app.state_ttl, "request state", lambda: now)

    async with talking(app, prepare=own_the_clock) as client:
        state = await state_of(client)
        now += passed
        response = await client.ask(CALL[0], with_state(CALL[1], state))
        assert ("result" in response) == good
        assert good or response["error"]["code"] == INVALID_PARAMS
    assert len(runs) == 1 + good


async def test_keys_are_rotated_between_servers() -> None:
    """SEC-04: the new server seals with its first key and opens with all."""
    async with talking(booking(state_keys=KEYS[:1])[0]) as client:
        state = await state_of(client)
    async with talking(booking(state_keys=KEYS[::-1])[0]) as client:
        assert "proceed=True" in text(await client.ask(CALL[0], with_state(CALL[1], state)))
        state = await state_of(client)
    async with talking(booking(state_keys=KEYS[:1])[0]) as client:
        response = await client.ask(CALL[0], with_state(CALL[1], state))
        assert response["error"]["code"] == INVALID_PARAMS


async def test_a_state_of_another_process_is_refused() -> None:
    """DESIGN 4.5: without keys each process has its own."""
    async with talking(booking()[0]) as client:
        state = await state_of(client)
    async with talking(booking()[0]) as client:
        response = await client.ask(CALL[0], with_state(CALL[1], state))
        assert response["error"]["code"] == INVALID_PARAMS


# -- Large journals ------------------------------------------------------------------------------------------


class Shelf(MemoryStore):
    """A store that can be looked into."""

    @property
    def kept(self) -> dict[str, bytes]:
        return {name: value for name, (value, _) in self._values.items()}


@pytest.mark.parametrize("size", [100, MAX_INLINE, 200_000])
async def test_a_large_journal_goes_to_the_store(size: int) -> None:
    """A state stays small however much a handler has to remember; what is in the store is sealed, too."""
    store = Shelf()
    app, runs = booking(store=store)
    request = {"name": "remember", "arguments": {"size": size}}
    async with talking(app) as client:
        state = await state_of(client, ("tools/call", request))
        assert len(state) <= MAX_INLINE
        assert len(store.kept) == (size >= MAX_INLINE)
        for name, value in store.kept.items():
            assert name.startswith("journal:")
            assert b"xxxx" not in value
            assert len(state) < 300
        told = text(await client.ask("tools/call", with_state(request, state)))
        assert told == f"{size} Accepted(value=Confirm(proceed=True))"
        other = {"name": "remember", "arguments": {"size": size + 1}}
        assert (await client.ask("tools/call", with_state(other, state)))["error"]["code"] == INVALID_PARAMS
    assert runs == ["remember"] * 2


async def test_answers_that_are_large_go_to_the_store() -> None:
    """What a person enters counts as well."""
    store = Shelf()
    app = App("notes", store=store)

    @app.tool
    async def t(ctx: Context) -> str:
        answers = [await ctx.elicit(Note, "Say something") for _ in range(3)]
        return str(sum(len(answer.value.text) for answer in answers))  # type: ignore[union-attr]

    async with talking(app) as client:
        response = await client.call("t")
        for number in range(1, 4):
            response = await client.retry("t", response, **{f"question_{number}": accept(text="y" * 20_000)})
        assert text(response) == "60000"
    assert len(store.kept) == 2


async def test_a_journal_that_is_lost_is_an_expired_state() -> None:
    """The store is another's, and may forget."""
    store = Shelf()
    app, runs = booking(store=store)
    request = {"name": "remember", "arguments": {"size": 50_000}}
    async with talking(app) as client:
        state = await state_of(client, ("tools/call", request))
        for name in store.kept:
            await store.delete(name)
        runs.clear()
        response = await client.ask("tools/call", with_state(request, state))
        assert response["error"]["code"] == INVALID_PARAMS
    assert runs == []


async def test_a_journal_that_was_exchanged_is_refused() -> None:
    """Whoever can write to the store still has no key."""
    store = Shelf()
    app, _ = booking(store=store)
    request = {"name": "remember", "arguments": {"size": 50_000}}
    other = {"name": "remember", "arguments": {"size": 60_000}}
    async with talking(app) as client:
        state = await state_of(client, ("tools/call", request))
        (name,) = store.kept
        await state_of(client, ("tools/call", other))
        (foreign,) = [value for key, value in store.kept.items() if key != name]
        for value in (foreign, b"", b"x", store.kept[name][:-1] + b"A", b"\xff"):
            await store.put(name, value, 60)
            response = await client.ask("tools/call", with_state(request, state))
            assert response["error"]["code"] == INVALID_PARAMS


async def test_a_store_that_is_full_fails_the_call_alone(caplog: pytest.LogCaptureFixture) -> None:
    """An internal error, with the reason in the log."""
    app, _ = booking(store=MemoryStore(max_entries=0))
    request = {"name": "remember", "arguments": {"size": 50_000}}
    async with served(app) as wire:
        client = await greeted(wire, STATELESS)
        response = await client.ask("tools/call", request)
        assert response["result"]["isError"]
        assert "store" not in text(response)
        assert isinstance(caplog.records[-1].exc_info and caplog.records[-1].exc_info[1], StoreError)
        reading = await client.ask("resources/read", {"uri": "menu://x"})
        assert reading["result"]["resultType"] == "input_required"
