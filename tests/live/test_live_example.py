"""examples/live.py as a real process, with real files: what clients of both eras hear on stdio and over HTTP."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from hosts.process import MCPKIT, started
from live_kit import LIST, change
from support import OVER_HTTP, REVISIONS, STATELESS, STDIO_AND_HTTP

from mcpkit.testing import Client

EXAMPLE = Path(__file__).parents[2] / "examples" / "live.py"
STDIO = [sys.executable, "-m", "mcpkit", "run", str(EXAMPLE)]
both_transports = pytest.mark.parametrize("transport", STDIO_AND_HTTP)
both_eras = pytest.mark.parametrize("revision", [REVISIONS[-2], STATELESS])


class Listener(Client):
    """A client that keeps what it is told."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._in, self._out = trio.open_memory_channel[Any](math.inf)

    def _notified(self, method: str, params: Any) -> None:
        super()._notified(method, params)
        self._in.send_nowait({"method": method, "params": json.loads(bytes(params or b"{}"))})

    async def listen(self, *uris: str) -> None:
        """Ask to hear of resources and their list, as the era has it; returns when nothing is missed any more."""
        if self.revision != STATELESS:
            for uri in uris:
                await self.request("resources/subscribe", {"uri": uri})
            return
        wanted = {"resourcesListChanged": True, "resourceSubscriptions": list(uris)}
        self._nursery.start_soon(self.request, "subscriptions/listen", {"notifications": wanted})
        said = await self._out.receive()
        assert said["method"] == "notifications/subscriptions/acknowledged"
        assert said["params"]["notifications"] == wanted

    async def hears(self, *expected: str) -> None:
        """Wait for these changes, and for no others."""
        missing = set(expected)
        while missing:
            told = change(await self._out.receive())
            assert told in expected
            missing.discard(told)


@pytest.fixture(params=["watchfiles", "polling"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Of a server that watches in this way, with the notes in a folder that is not there yet."""
    places = [os.environ.get("PYTHONPATH", "")]
    if request.param == "watchfiles":
        pytest.importorskip("watchfiles")
    else:
        (tmp_path / "without").mkdir()
        (tmp_path / "without" / "watchfiles.py").write_text("raise ImportError\n", encoding="utf-8")
        places.insert(0, str(tmp_path / "without"))
    return {"NOTES": str(tmp_path / "notes"), "PYTHONPATH": os.pathsep.join(places)}


@asynccontextmanager
async def clients(
    transport: str, revision: str, count: int, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[list[Listener]]:
    """Clients of the example: of one process over HTTP, of one each on stdio."""
    async with AsyncExitStack() as stack:
        target: Any = STDIO
        if transport == "http":
            server = stack.enter_context(started([*MCPKIT, str(EXAMPLE)], **environment))
            target = server.expect(r"serving (http\S+)")[1]
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield [await stack.enter_async_context(Listener(target, revision=revision)) for _ in range(count)]


@both_transports
@both_eras
async def test_notes_that_appear_change_and_vanish_are_told(
    transport: str,
    revision: str,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SUB-10: written with any program, told to every client, whoever it is and however it is connected."""
    notes, uri = tmp_path / "notes", "note://two%20words"
    async with clients(transport, revision, 2, environment, monkeypatch) as listeners:
        first = listeners[0]
        for client in listeners:
            await client.listen(uri)
        notes.mkdir()
        (notes / "two words.md").write_text("one", encoding="utf-8")
        for client in listeners:
            await client.hears(LIST, uri)
        assert [resource.uri for resource in await first.list_resources()] == [uri]
        assert [contents.text for contents in await first.read_resource(uri)] == ["one"]
        (notes / "new").write_text("two", encoding="utf-8")
        (notes / "new").replace(notes / "two words.md")
        for client in listeners:
            await client.hears(uri)
        assert [contents.text for contents in await first.read_resource(uri)] == ["two"]
        (notes / "two words.md").unlink()
        for client in listeners:
            await client.hears(LIST, uri)
        assert await first.list_resources() == []


@both_transports
@both_eras
async def test_a_note_that_the_tool_writes_is_told(
    transport: str, revision: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but the watcher tells of it."""
    async with clients(transport, revision, 1, environment, monkeypatch) as (client,):
        await client.listen("note://milk")
        written = await client.call_tool("write", {"name": "milk", "text": "Buy some"})
        assert written.text == "milk is written."
        await client.hears(LIST, "note://milk")
        assert [contents.text for contents in await client.read_resource("note://milk")] == ["Buy some"]
        refused = await client.call_tool("write", {"name": "../milk", "text": "x"})
        assert refused.is_error


@OVER_HTTP
def test_the_server_ends_at_once(environment: dict[str, str]) -> None:
    """No signal waits for the watcher, and nothing is said at the end."""
    with started([*MCPKIT, str(EXAMPLE)], **environment) as server:
        server.expect("serving http")
        began = time.monotonic()
        server.signal()
        assert server.wait() == 0
        assert time.monotonic() - began < 2
        assert server.output.count("\n") == 1
