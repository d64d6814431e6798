"""Servers to speak to in raw lines, as processes and in memory. Everything that they send is checked."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import support
from audit import Audit

from mcpkit import App
from mcpkit.errors import innermost
from mcpkit.transports import memory
from mcpkit.transports.wire import Wire

SCRIPTS = Path(__file__).parent / "scripts"

_WITHOUT_FD_STREAM = """\
import sys
import trio.lowlevel
del trio.lowlevel.FdStream
from mcpkit.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
TRANSPORTS = {
    "waiting": [sys.executable, "-m", "mcpkit"],
    "threads": [sys.executable, "-c", _WITHOUT_FD_STREAM],
}
"""How the command starts where descriptors can be waited for, and where they cannot."""

Json = dict[str, Any]


def command(script: str, *options: str, transport: str = "waiting") -> list[str]:
    """The command that serves one of `SCRIPTS`."""
    return [*TRANSPORTS[transport], "run", str(SCRIPTS / script), *options]


def call(
    id: Any, tool: str, arguments: Json | None = None, *, revision: str = "2025-11-25", **meta: Any
) -> Json:
    """A `tools/call` request; `meta` goes into its `_meta`."""
    params: Json = {"name": tool, "arguments": arguments or {}}
    if meta:
        params["_meta"] = meta
    return support.request(id, "tools/call", params, revision=revision)


def heard(id: Any, tool: str, arguments: Json | None = None, *, revision: str = "2025-11-25") -> Json:
    """A `tools/call` request whose log messages the client wants to hear, whatever the era."""
    meta = {support.PREFIX + "logLevel": "debug"} if revision == support.STATELESS else {}
    return call(id, tool, arguments, revision=revision, **meta)


def alive(id: Any, revision: str) -> Json:
    """A request that every server answers at once."""
    return support.request(
        id, "server/discover" if revision == support.STATELESS else "ping", revision=revision
    )


def cancel(id: Any, **more: Any) -> Json:
    """The notification that the client no longer wants an answer."""
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, **more}}


def text(response: Json) -> str:
    """The text of a tool's result."""
    return "\n".join(block["text"] for block in response["result"]["content"] if block["type"] == "text")


def eventually(condition: Callable[[], bool], what: str = "it") -> None:
    """Wait for something outside this process, such as a file."""
    deadline = time.monotonic() + support.SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.005)


class Process(support.Server):
    """A server in a process of its own."""

    def __init__(self, arguments: list[str], **options: Any) -> None:
        self.audit = Audit()
        super().__init__(arguments, **options)

    def send(self, *messages: Any) -> None:
        """Send messages; bytes as they are, anything else as a line of JSON."""
        for message in messages:
            self.audit.sent(message)
        super().send(*messages)

    def receive(self, seconds: float = support.SECONDS) -> Any:
        """The next message; None at the end."""
        message = super().receive(seconds)
        if message is not None:
            self.audit.received(message)
        return message

    def rest(self) -> list[Any]:
        """Everything that comes until the end."""
        return list(iter(self.receive, None))

    def wait_for_log(self, data: Any) -> None:
        """Wait for a log message of a handler."""
        while True:
            message = self.receive()
            assert message is not None, f"the server has gone: {self.errors[-2000:]}"
            if message.get("method") == "notifications/message" and message["params"]["data"] == data:
                return


@contextlib.contextmanager
def serving(script: str, *options: str, transport: str = "waiting", **process: Any) -> Iterator[Process]:
    """One of `SCRIPTS`, served by a process."""
    server = Process(command(script, *options, transport=transport), **process)
    try:
        yield server
    finally:
        server.end()


def run(
    script: str, data: bytes, transport: str = "waiting", **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Serve one of `SCRIPTS` to a client that sends `data` and then the end of file."""
    return subprocess.run(
        command(script, transport=transport),
        input=data,
        capture_output=True,
        timeout=support.SECONDS,
        **options,
    )


def lines(*messages: Any) -> bytes:
    """Messages as lines."""
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


class Talk:
    """A client of an app in memory."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.audit = Audit()

    def send(self, *messages: Any) -> None:
        """Send messages; bytes as they are, anything else as a line of JSON."""
        for message in messages:
            self.audit.sent(message)
        self.wire.send(
            b"".join(m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages)
        )

    async def receive(self) -> Any:
        """The next message; None at the end."""
        line = await self.wire.receive()
        if line is None:
            return None
        message = json.loads(line)
        self.audit.received(message)
        return message

    async def receive_until(self, id: Any) -> tuple[Any, list[Any]]:
        """The response with this id, and everything that came before it."""
        before: list[Any] = []
        while True:
            message = await self.receive()
            assert message is not None, "the server has gone"
            if isinstance(message, dict) and "method" not in message and message.get("id", ...) == id:
                return message, before
            before.append(message)

    async def ask(
        self, id: Any, method: str, params: Json | None = None, *, revision: str = "2025-11-25"
    ) -> Any:
        """Send a request and return its response."""
        self.send(support.request(id, method, params, revision=revision))
        return (await self.receive_until(id))[0]

    async def start(self, revision: str) -> Any:
        """Do what a client of this revision does first; the result of `initialize` or `server/discover`."""
        if revision == support.STATELESS:
            return (await self.ask("discover", "server/discover", revision=revision))["result"]
        self.send(support.initialize(revision))
        reply, _ = await self.receive_until("init")
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return reply["result"]

    async def silence(self, revision: str) -> list[Any]:
        """What came without being asked for: everything before the answer to a request that is sent now."""
        self.send(alive("is there anything", revision))
        return (await self.receive_until("is there anything"))[1]


@contextlib.asynccontextmanager
async def talking(app: App, revision: str | None = None, **options: Any) -> AsyncIterator[Talk]:
    """A client of the app, after the greeting of its revision."""
    try:
        async with memory.connect(app, **options) as wire:
            talk = Talk(wire)
            if revision is not None:
                await talk.start(revision)
            yield talk
    except BaseExceptionGroup as group:
        raise innermost(group) from None  # so that a failed assertion is shown as what it is
