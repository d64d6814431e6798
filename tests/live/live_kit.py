"""A client that hears of changes, over memory, and a mark by which it knows that it has heard of all."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from clients.peer import Peer
from support import initialize

from mcpkit import App, NotFound
from mcpkit.engine.runtime import Runtime, running
from mcpkit.transports.memory import attach

LIST = "the list"
"""How a change of the list of resources is written here; other changes are written as the URI."""

MARK = "zzz:mark"
"""Looked at first and told last: whoever hears of it has heard of all that happened before it was made."""


def change(message: Any) -> str:
    """What a notification tells of."""
    if message["method"] == "notifications/resources/list_changed":
        return LIST
    assert message["method"] == "notifications/resources/updated", message
    return str(message["params"]["uri"])


class Ear:
    """A session that listens to what happens in `folder`."""

    def __init__(self, peer: Peer, folder: Path) -> None:
        self.peer = peer
        self.folder = folder
        self._numbers = itertools.count()

    async def subscribe(self, *uris: str) -> None:
        """Subscribe to resources, whether they exist or not."""
        for uri in uris:
            assert "error" not in await self.peer.ask("resources/subscribe", {"uri": uri})

    async def messages(self) -> list[str]:
        """Each change told since the last time, in order."""
        (self.folder / "mark").write_text(str(next(self._numbers)), encoding="utf-8")
        return await self.until_mark()

    async def until_mark(self) -> list[str]:
        """Each change that is told until the mark is, which somebody else makes."""
        told = [change(message) for message in self.peer.notifications]
        self.peer.notifications.clear()
        while not told or told[-1] != MARK:
            told.append(change(await self.peer.receive()))
        return told[:-1]

    async def heard(self) -> set[str]:
        """What has changed since the last time."""
        return set(await self.messages())

    async def read(self, uri: str) -> str:
        """The text of a resource."""
        result = await self.peer.ask("resources/read", {"uri": uri})
        return str(result["contents"][0]["text"])


def watched_app(folder: Path) -> App:
    """An app whose resources are the files of `folder`. Only the mark is watched yet."""
    app = App("files")

    def text(*path: str) -> str:
        try:
            return folder.joinpath(*path).read_text(encoding="utf-8")
        except OSError:
            raise NotFound("It is not there.") from None

    app.add_resource(lambda: text("mark"), MARK)
    app.add_resource(lambda: text("plain.txt"), "doc:plain")
    app.add_resource(lambda name: text("notes", f"{name}.md"), "note://{name}")
    app.add_resource(lambda path: text("tree", path), "tree:{+path}")
    app.add_resource(lambda path: text("deep", *path), "deep:{/path*}")
    app.add_resource(lambda: "all", "all:below")
    (folder / "mark").touch()
    app.watch(MARK, folder / "mark")
    return app


@asynccontextmanager
async def listening(app: App, folder: Path, subscriptions: Iterable[str] = ()) -> AsyncGenerator[Ear]:
    """A session of the app, subscribed to the mark and more."""
    async with running(app) as runtime, joining(runtime, folder, subscriptions) as ear:
        yield ear


@asynccontextmanager
async def joining(runtime: Runtime, folder: Path, subscriptions: Iterable[str] = ()) -> AsyncGenerator[Ear]:
    """One more session of an app that runs."""
    async with attach(runtime) as wire:
        peer = Peer(wire, "2025-11-25")
        peer.send(initialize(peer.revision))
        await peer.receive()
        peer.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        ear = Ear(peer, folder)
        await ear.subscribe(MARK, *subscriptions)
        yield ear
