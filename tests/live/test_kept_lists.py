"""Lists are kept encoded (`engine.pages`): nobody ever gets one of the past."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from clients.peer import Peer
from support import HANDSHAKE, STATELESS, initialize, request

from mcpkit import App
from mcpkit.engine import pages
from mcpkit.engine.runtime import Runtime, running
from mcpkit.protocol.types import Tool
from mcpkit.provider import Provider
from mcpkit.transports.memory import attach

ERAS = ("2024-11-05", "2025-06-18", HANDSHAKE[-1], STATELESS)


async def listed(runtime: Runtime, revision: str, method: str = "tools/list") -> list[dict[str, Any]]:
    """All pages of a list, as a client sees them that has just come."""
    async with attach(runtime) as wire:
        peer = Peer(wire, revision)
        if revision != STATELESS:
            peer.send(initialize(revision))
            await peer.receive()
            peer.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        results: list[dict[str, Any]] = []
        cursor: str | None = None
        while cursor or not results:
            results.append(await peer.ask(method, {"cursor": cursor} if cursor else {}))
            cursor = results[-1].get("nextCursor")
        return results


def named(results: list[dict[str, Any]]) -> list[str]:
    """The tools of all pages."""
    return [tool["name"] for result in results for tool in result["tools"]]


def add(app: App, name: str) -> None:
    """Register a tool that does nothing."""

    async def tool(x: int) -> list[int]:
        return [x]

    app.add_tool(tool, name=name)


@pytest.mark.parametrize("seed", range(3))
async def test_a_list_is_always_what_is_registered(seed: int) -> None:
    """TOOL-01: whatever came and went before, for clients of all revisions."""
    chance = random.Random(seed)
    app = App("kept")
    add(app, "first")
    names = ["first"]
    async with running(app) as runtime:
        for step in range(40):
            if chance.random() < 0.5 or len(names) < 2:
                names.append(f"tool_{step}")
                add(app, names[-1])
            elif chance.random() < 0.5:
                app.remove_tool(names.pop(chance.randrange(len(names))))
            assert named(await listed(runtime, chance.choice(ERAS))) == names


async def test_what_a_thread_registers_is_in_the_next_list() -> None:
    """A handler in a thread may register while lists are made."""
    app = App("kept")
    add(app, "first")
    async with running(app) as runtime:
        for number in range(30):
            assert len(named(await listed(runtime, STATELESS))) == number + 1
            await trio.to_thread.run_sync(add, app, f"tool_{number}")


async def test_each_revision_gets_its_own() -> None:
    """INIT-04: what is kept for one revision is not given to another, whichever asked first."""
    app = App("kept")

    @app.tool(title="A tool")
    async def tool(x: int) -> list[int]:
        return [x]

    async with running(app) as runtime:
        for revision in (*ERAS, *reversed(ERAS)):
            (result,) = await listed(runtime, revision)
            (entry,) = result["tools"]
            assert ("outputSchema" in entry) == (revision >= "2025-06-18")
            assert ("title" in entry) == (revision >= "2025-06-18")
            assert ("ttlMs" in result) == (revision == STATELESS)
            if "outputSchema" in entry:
                assert (entry["outputSchema"]["type"] == "object") == (revision != STATELESS)


async def test_all_pages_follow_a_change() -> None:
    """A cursor names a place in the list, and the page at it is another one afterwards."""
    app = App("kept")
    for number in range(1500):
        add(app, f"tool_{number}")
    async with running(app) as runtime:
        for _ in range(2):
            results = await listed(runtime, HANDSHAKE[-1])
            assert [len(result["tools"]) for result in results] == [1000, 500]
        app.remove_tool("tool_0")
        add(app, "last")
        found = named(await listed(runtime, HANDSHAKE[-1]))
        assert found == [*(f"tool_{number}" for number in range(1, 1500)), "last"]


async def test_a_provider_that_comes_is_asked_from_then_on() -> None:
    """`App.add_provider` while serving: the list that was kept is good no more."""

    class More(Provider):
        async def list_tools(self, ctx: Any) -> list[Tool]:
            return [Tool("more", {"type": "object"})]

    app = App("kept")
    add(app, "first")
    async with running(app) as runtime:
        assert named(await listed(runtime, STATELESS)) == ["first"]
        app.add_provider(More())
        for _ in range(2):
            assert named(await listed(runtime, STATELESS)) == ["first", "more"]


@pytest.mark.parametrize("most", [0, 300, 1000, 10**9])
async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """SEC-02: however many pages and revisions there are; the answers are the same."""
    monkeypatch.setattr(pages, "MAX_BYTES", most)
    app = App("kept")
    add(app, "first")
    async with running(app) as runtime:
        for revision in (*ERAS, *ERAS):
            assert named(await listed(runtime, revision)) == ["first"]
        assert runtime.pages is not None
        assert runtime.pages.size <= max(most, 400)


def test_the_collector_leaves_alone_what_stays_while_serving(tmp_path: Path) -> None:
    """`App.run` takes what there is out of its sight, so that it stops no call, and gives it back at the end."""
    script = tmp_path / "server.py"
    script.write_text(
        """
import gc
from mcpkit import App

app = App("settled")


@app.tool
async def frozen() -> int:
    return gc.get_freeze_count()


app.run()
print("left:", gc.get_freeze_count(), file=__import__("sys").stderr)
"""
    )
    call = request(1, "tools/call", {"name": "frozen", "arguments": {}}, revision=STATELESS)
    done = subprocess.run(
        [sys.executable, str(script)],
        input=json.dumps(call).encode() + b"\n",
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["structuredContent"] > 1000
    assert done.stderr == b"left: 0\n"
