"""Changes on their way to clients: from any thread, between servers that share a bus, faster than a client reads."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from asking.asking_kit import Raw, greeted, served, talking
from support import HANDSHAKE, REVISIONS, STATELESS

from mcpkit import App
from mcpkit.engine.runtime import running
from mcpkit.engine.subscriptions import MOST
from mcpkit.stores.memory import MemoryStore
from mcpkit.transports.memory import attach

every_revision = pytest.mark.parametrize("revision", REVISIONS)
both_eras = pytest.mark.parametrize("revision", [HANDSHAKE[-1], STATELESS])
TAG = "io.modelcontextprotocol/subscriptionId"
URIS = ["notes://a", "notes://b"]


def make(store: MemoryStore | None = None) -> App:
    """An app with something of everything that can change."""
    app = App("changes", store=store)

    @app.tool
    async def greet() -> str:
        return "hello"

    @app.prompt
    async def ask() -> str:
        return "why?"

    @app.resource("notes://{name}")
    async def note(name: str) -> str:
        return name

    return app


async def listens(client: Raw, uris: list[str], **lists: bool) -> int:
    """Have the client hear of these resources and of every list that is not False; the subscription's id."""
    if client.revision != STATELESS:
        for uri in uris:
            assert "result" in await client.ask("resources/subscribe", {"uri": uri})
        await client.ping()
        return 0
    kinds = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")
    wanted: dict[str, Any] = {kind: True for kind in kinds if lists.get(kind, True)}
    request_id = client.request(
        "subscriptions/listen", {"notifications": {**wanted, "resourceSubscriptions": uris}}
    )
    first = await client.receive()
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["_meta"][TAG] == request_id
    return request_id


async def change(client: Raw) -> str:
    """The next change that the client hears of."""
    message = await client.receive()
    name = message["method"].removeprefix("notifications/").removesuffix("/list_changed")
    return str(message["params"]["uri"] if name == "resources/updated" else name)


EACH: dict[str, Callable[[App], None]] = {
    "tools": lambda app: app.notifier.tools_changed(),
    "prompts": lambda app: app.notifier.prompts_changed(),
    "resources": lambda app: app.notifier.resources_changed(),
    "notes://a": lambda app: app.notifier.resource_updated("notes://a"),
}


def in_this_task(tell: Callable[[], None]) -> None:
    tell()


def in_a_thread(tell: Callable[[], None]) -> None:
    thread = threading.Thread(target=tell)
    thread.start()
    thread.join()


def in_another_trio(tell: Callable[[], None]) -> None:
    async def main() -> None:
        tell()

    in_a_thread(lambda: trio.run(main))


@pytest.mark.parametrize("place", [in_this_task, in_a_thread, in_another_trio])
@every_revision
async def test_a_change_reaches_the_client_from_wherever_it_is_told(
    revision: str, place: Callable[[Callable[[], None]], None]
) -> None:
    """DESIGN 4.1: the notifier is callable from any task or thread."""
    app = make()
    async with talking(app, revision) as client:
        await listens(client, URIS)
        for name, tell in EACH.items():
            place(lambda tell=tell: tell(app))  # type: ignore[misc]
            assert await change(client) == name


@every_revision
async def test_what_is_added_and_removed_while_serving_is_told(revision: str) -> None:
    """DESIGN 4.1: listening clients are told; SUB-12."""
    app = make()
    async with talking(app, revision) as client:
        await listens(client, [])
        app.add_tool(lambda: "x", name="more")
        assert await change(client) == "tools"
        app.remove_tool("more")
        assert await change(client) == "tools"
        app.add_prompt(lambda: "x", name="more")
        assert await change(client) == "prompts"
        app.add_resource(lambda: "x", "more://x")
        assert await change(client) == "resources"
        app.remove_resource("more://x")
        assert await change(client) == "resources"


@both_eras
async def test_equal_changes_that_wait_are_told_once(revision: str) -> None:
    """What a thousand changes have in common is that something has changed."""
    app = make()
    async with talking(app, revision) as client:
        await listens(client, URIS)
        for _ in range(1_000):
            for tell in EACH.values():
                tell(app)
        assert sorted([await change(client) for _ in EACH]) == sorted(EACH)
        await client.ping()  # which fails when anything comes before its answer


MANY = [f"notes://{number}" for number in range(MOST + 200)]


@both_eras
async def test_more_changed_resources_than_may_wait_become_a_changed_list(revision: str) -> None:
    """What overflows turns into list-changed rather than silence."""
    app = make()
    async with talking(app, revision) as client:
        await listens(client, MANY)
        for uri in MANY:
            app.notifier.resource_updated(uri)
        app.notifier.tools_changed()
        told: list[str] = []
        while told[-1:] != ["tools"]:
            told.append(await change(client))
        assert told == ["resources", *MANY[MOST + 1 :], "tools"]


async def test_a_client_that_wants_no_list_hears_of_every_resource() -> None:
    """SUB-03: what was not asked for is not sent; so there is nothing that the overflow could turn into."""
    app = make()
    async with talking(app) as client:
        await listens(client, MANY, resourcesListChanged=False)
        for uri in MANY:
            app.notifier.resource_updated(uri)
        assert [await change(client) for _ in MANY] == MANY


@asynccontextmanager
async def pair(revision: str) -> AsyncGenerator[tuple[App, App, Raw]]:
    """Two apps that share a store, and a client of the second."""
    store = MemoryStore()
    first, second = make(store), make(store)
    async with running(first), served(second) as wire:
        yield first, second, await greeted(wire, revision)


@every_revision
async def test_clients_of_one_server_hear_what_changes_in_another(revision: str) -> None:
    """A store that is a `Bus` carries changes between servers, once each."""
    async with pair(revision) as (first, second, client):
        await listens(client, URIS)
        for app in (first, second):
            for name, tell in EACH.items():
                tell(app)
                assert await change(client) == name
        await client.ping()


async def test_a_server_that_has_ended_hears_nothing_and_harms_nobody() -> None:
    """Its place on the bus is given back."""
    store = MemoryStore()
    first, second = make(store), make(store)
    async with running(first):
        async with running(second):
            pass
        first.notifier.tools_changed()
    second.notifier.tools_changed()
    assert store._listeners == []


async def test_what_is_no_message_on_the_bus_is_ignored() -> None:
    """A bus is shared with other versions, and with whoever can reach it."""
    async with pair(STATELESS) as (first, second, client):
        await listens(client, URIS)
        assert second.store is not None
        for message in (b"", b"\xff" * 100, b"[]", b"\x92\xa1x\xa1y"):
            second.store.publish(message)  # type: ignore[attr-defined]
        first.notifier.prompts_changed()
        assert await change(client) == "prompts"


class Unreachable(MemoryStore):
    """A bus whose author has forgotten that publishing never raises."""

    def publish(self, message: bytes) -> None:
        raise ConnectionError("the bus cannot be reached")


@pytest.mark.parametrize("place", [in_this_task, in_a_thread, in_another_trio])
async def test_a_bus_that_raises_ends_no_server_and_is_logged(
    place: Callable[[Callable[[], None]], None], caplog: Any
) -> None:
    """DESIGN 4.1: telling of a change never raises; clients of this process hear of it all the same."""
    app = make(Unreachable())
    async with talking(app) as client:
        await listens(client, [])
        place(app.notifier.tools_changed)
        assert await change(client) == "tools"
        await client.ping()
    assert "ConnectionError: the bus cannot be reached" in caplog.text


def test_servers_in_different_loops_share_a_bus() -> None:
    """Each in a thread of its own, as in a process that serves several apps."""
    store = MemoryStore()
    first, second = make(store), make(store)
    ready, heard = threading.Event(), threading.Event()

    async def listen() -> None:
        async with running(second) as runtime, attach(runtime) as wire:
            client = await greeted(wire, STATELESS)
            await listens(client, [])
            ready.set()
            assert await change(client) == "tools"
            heard.set()

    async def tell() -> None:
        async with running(first):
            assert await trio.to_thread.run_sync(ready.wait, 10)
            first.notifier.tools_changed()
            assert await trio.to_thread.run_sync(heard.wait, 10)

    threads = [threading.Thread(target=trio.run, args=(main,)) for main in (listen, tell)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard.is_set()


@both_eras
async def test_a_client_that_leaves_takes_only_its_own_subscriptions_along(revision: str) -> None:
    """SUB-07: the others hear on."""
    app = make()
    async with running(app) as runtime, attach(runtime) as staying:
        client = await greeted(staying, revision)
        await listens(client, URIS)
        async with attach(runtime) as leaving:
            await listens(await greeted(leaving, revision), URIS)
        app.notifier.resource_updated("notes://a")
        assert await change(client) == "notes://a"
