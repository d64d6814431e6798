"""Clients in raw messages, over memory and over stdio, whose every received message is validated."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio
from clients.messages import STATELESS, Watch, parse
from support import SECONDS, Server, initialize, request

from mcpkit import App
from mcpkit.transports.memory import connect
from mcpkit.transports.wire import Wire


class Peer:
    """The client's end. `notifications` holds what came besides answers."""

    def __init__(self, wire: Wire, revision: str) -> None:
        self.wire = wire
        self.revision = revision
        self.watch = Watch()
        self.notifications: list[Any] = []
        self._last_id = 0

    def send(self, message: Any) -> None:
        """Send a message as it is."""
        self.watch.sent(message)
        self.wire.send(json.dumps(message).encode() + b"\n")

    async def receive(self) -> Any:
        """The next message, validated."""
        with trio.fail_after(SECONDS):
            line = await self.wire.receive()
        assert line is not None, "the server has gone"
        message = parse(line)
        self.watch.received(message)
        return message

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The answer to a request: its result, or the whole message when it is an error."""
        self._last_id += 1
        self.send(request(self._last_id, method, params, revision=self.revision))
        while (message := await self.receive()).get("id") != self._last_id:
            self.notifications.append(message)
        return message.get("result", message)

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """The result of a tool, without what the stateless era adds to every result."""
        result = await self.ask("tools/call", {"name": name, "arguments": arguments or {}})
        return {key: value for key, value in result.items() if key != "resultType"}


@asynccontextmanager
async def talking(app: App, revision: str = STATELESS) -> AsyncGenerator[Peer]:
    """Serve `app` to a client of this revision, which has done what such a client does first."""
    async with connect(app) as wire:
        peer = Peer(wire, revision)
        if revision != STATELESS:
            peer.send(initialize(revision))
            await peer.receive()
            peer.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield peer


def called(
    fn: Callable[..., Any], arguments: dict[str, Any] | None = None, revision: str = STATELESS, **options: Any
) -> Any:
    """What a client receives that calls `fn` as the only tool of an app: the result without `_meta` of the server."""

    async def main() -> Any:
        app = App("test")
        app.add_tool(fn, name="t", **options)
        async with talking(app, revision) as peer:
            result = await peer.call("t", arguments)
        meta = {
            k: v for k, v in result.pop("_meta", {}).items() if not k.startswith("io.modelcontextprotocol/")
        }
        return result | ({"_meta": meta} if meta else {})

    return trio.run(main)


def described(fn: Callable[..., Any], **options: Any) -> Any:
    """The definition of `fn` as a tool."""
    app = App("test")
    app.add_tool(fn, name="t", **options)
    app.registry.resolve()
    return app.registry.tools["t"].definition


class WatchedServer(Server):
    """A process like `support.Server`, with every message that it sends validated."""

    watch: Watch

    def send(self, *messages: Any) -> None:
        """Send messages; bytes as they are."""
        self.watch = vars(self).setdefault("watch", Watch())
        for message in messages:
            if not isinstance(message, bytes):
                self.watch.sent(message)
        super().send(*messages)

    def receive(self, seconds: float = SECONDS) -> Any:
        """The next message, validated; None at the end of the stream."""
        message = super().receive(seconds)
        if message is not None:
            self.watch.received(message)
        return message


@contextmanager
def watched(target: str | Path, *options: str, **process: Any) -> Iterator[WatchedServer]:
    """`mcpkit run TARGET`, as a client would start it."""
    server = WatchedServer([sys.executable, "-m", "mcpkit", "run", str(target), *options], **process)
    try:
        yield server
    finally:
        server.end()
