"""A client that says exactly what it is told to, and has every message of the server validated."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from clients.messages import STATELESS, Watch, parse
from support import HANDSHAKE, PREFIX, REVISIONS, SECONDS, initialize

from mcpkit import App
from mcpkit.engine.runtime import Runtime, running
from mcpkit.testing import Client
from mcpkit.transports.memory import attach
from mcpkit.transports.wire import Wire

ASKABLE = ("2025-06-18", "2025-11-25", STATELESS)
"""Revisions that can ask a person."""
ALL: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}

__all__ = [
    "ALL",
    "ASKABLE",
    "HANDSHAKE",
    "REVISIONS",
    "STATELESS",
    "Raw",
    "accept",
    "served",
    "talking",
    "validated",
]


def accept(**content: Any) -> dict[str, Any]:
    """The result of a form that was filled in."""
    return {"action": "accept", "content": content}


class Raw:
    """The client's end of a connection that has been opened."""

    def __init__(self, wire: Wire, revision: str, capabilities: dict[str, Any]) -> None:
        self.wire = wire
        self.revision = revision
        self.watch = Watch()
        self._capabilities = capabilities
        self._last_id = 0

    def send(self, message: dict[str, Any]) -> None:
        """Send a message as it is."""
        message = {"jsonrpc": "2.0", **message}
        self.watch.sent(message)
        self.wire.send(json.dumps(message).encode() + b"\n")

    def request(self, method: str, params: dict[str, Any]) -> int:
        """Send a request; its id."""
        self._last_id += 1
        if self.revision == STATELESS:
            meta = {PREFIX + "protocolVersion": STATELESS, PREFIX + "clientCapabilities": self._capabilities}
            params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
        self.send({"id": self._last_id, "method": method, "params": params})
        return self._last_id

    def begin(self, tool: str, arguments: dict[str, Any] | None = None) -> int:
        """Send a call; its id."""
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}})

    def answer(self, question: dict[str, Any], result: Any) -> None:
        """Answer a request of the server."""
        self.send({"id": question["id"], "result": result})

    async def receive(self) -> Any:
        """The next message, validated."""
        with trio.fail_after(SECONDS):
            line = await self.wire.receive()
        assert line is not None, "the server has gone"
        message = parse(line)
        self.watch.received(message)
        return message

    async def question(self, method: str = "elicitation/create") -> Any:
        """The next message, which must be a question."""
        message = await self.receive()
        assert message.get("method") == method, message
        return message

    async def reply(self, request_id: int) -> Any:
        """The next message, which must answer this request."""
        message = await self.receive()
        assert message.get("id") == request_id and "method" not in message, message
        return message

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """The response to a request."""
        return await self.reply(self.request(method, params))

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> Any:
        """The response to a call; `more` are further params."""
        return await self.ask("tools/call", {"name": tool, "arguments": arguments or {}, **more})

    async def retry(self, tool: str, last: Any, arguments: Any = None, **responses: Any) -> Any:
        """The response to the next round of a call, after the response to the last."""
        state = last["result"].get("requestState")
        more = {} if state is None else {"requestState": state}
        return await self.call(tool, arguments, inputResponses=responses, **more)

    async def ping(self) -> None:
        """Wait until everything sent so far has been dealt with."""
        if self.revision == STATELESS:
            assert "result" in await self.ask("server/discover", {})
        else:
            assert "result" in await self.ask("ping", {})


def text(response: Any) -> str:
    """The text of a tool's result."""
    return "".join(block["text"] for block in response["result"]["content"])


async def greeted(wire: Wire, revision: str, capabilities: dict[str, Any] | None = None) -> Raw:
    """A client that has done what a client of this revision does first."""
    client = Raw(wire, revision, ALL if capabilities is None else capabilities)
    if revision != STATELESS:
        client.send(initialize(revision, capabilities=client._capabilities))
        await client.receive()
        client.send({"method": "notifications/initialized"})
    return client


@asynccontextmanager
async def served(app: App, prepare: Callable[[Runtime], None] | None = None) -> AsyncGenerator[Wire]:
    """An app in memory. `prepare` may change how it is served."""
    async with running(app) as runtime:
        if prepare is not None:
            prepare(runtime)
        async with attach(runtime) as wire:
            yield wire


@asynccontextmanager
async def talking(
    app: App,
    revision: str = STATELESS,
    capabilities: dict[str, Any] | None = None,
    prepare: Callable[[Runtime], None] | None = None,
) -> AsyncGenerator[Raw]:
    """A client of an app in memory."""
    async with served(app, prepare) as wire:
        yield await greeted(wire, revision, capabilities)


def validated(client: Client) -> None:
    """Check everything that a testing client has received with the official types."""
    watch = Watch()
    for sender, message in client.transcript:
        if sender == "client":
            watch.sent(json.loads(message))
        else:
            watch.received(parse(message))
    assert watch.validated
