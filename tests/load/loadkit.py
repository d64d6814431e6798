"""Clients that are light enough for hundreds of them in one process, over real sockets."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any, NamedTuple, Self

import trio
from support import PREFIX, STATELESS, initialize, request

BUSY = Path(__file__).parent / "busy.py"
SECONDS = 60.0
"""How long anything may take before a test fails."""

_ACCEPT = "application/json, text/event-stream"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}

Json = dict[str, Any]


def port_of(url: str) -> int:
    """The port in the URL of a server."""
    return int(url.rpartition(":")[2].partition("/")[0])


def tool(name: str, arguments: Json | None = None) -> Json:
    """The parameters of a call."""
    return {"name": name, "arguments": arguments or {}}


def cancel(id: Any) -> Json:
    """The notification that the client no longer wants an answer."""
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


class Head(NamedTuple):
    """The head of a response; header names are lower case."""

    status: int
    headers: dict[str, str]

    @property
    def streams(self) -> bool:
        """Whether an event stream follows."""
        return self.headers.get("content-type") == "text/event-stream"


class Line:
    """One connection over HTTP/1.1."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._buffer = bytearray()

    @classmethod
    async def open(cls, port: int, receive_buffer: int | None = None) -> Self:
        """Connect. The kernel keeps about `receive_buffer` bytes for a client that does not read."""
        socket = trio.socket.socket()
        if receive_buffer is not None:
            socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, receive_buffer)
        await socket.connect(("127.0.0.1", port))
        return cls(trio.SocketStream(socket))

    async def send(self, verb: str, headers: dict[str, str], body: bytes = b"") -> None:
        """Send a request."""
        given = {"Host": "localhost", **headers, "Content-Length": str(len(body))}
        lines = [f"{verb} /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        await self.stream.send_all("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def head(self) -> Head:
        """The head of the next response."""
        lines = (await self._until(b"\r\n\r\n")).decode().split("\r\n")
        pairs = [line.partition(":") for line in lines[1:]]
        return Head(int(lines[0].split()[1]), {name.lower(): value.strip() for name, _, value in pairs})

    async def messages(self, head: Head) -> AsyncGenerator[Json]:
        """The messages in a response, as they come."""
        if not head.streams:
            body = await self._exactly(int(head.headers.get("content-length", 0)))
            if body:
                yield json.loads(body)
            return
        text = bytearray()
        while size := int(await self._until(b"\r\n"), 16):
            text += (await self._exactly(size + 2))[:-2]
            *lines, rest = text.split(b"\n")
            text = bytearray(rest)
            for line in lines:
                if line.startswith((b"data: {", b"data: [")):
                    yield json.loads(line[6:])
        await self._until(b"\r\n")

    async def close(self) -> None:
        """Leave."""
        await self.stream.aclose()

    async def reset(self) -> None:
        """Leave with a reset."""
        self.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await self.stream.aclose()

    async def _more(self) -> None:
        data = await self.stream.receive_some(65536)
        if not data:
            raise EOFError(bytes(self._buffer[:200]))
        self._buffer += data

    async def _until(self, end: bytes) -> bytes:
        while (at := self._buffer.find(end)) < 0:
            await self._more()
        taken = bytes(self._buffer[:at])
        del self._buffer[: at + len(end)]
        return taken

    async def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            await self._more()
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


class Http:
    """A client over HTTP, with one connection on which its requests come one after the other."""

    def __init__(self, port: int, revision: str, line: Line) -> None:
        self.port = port
        self.revision = revision
        self.line = line
        self.session: dict[str, str] = {}
        self.answer: Json | None = None
        """The result of each question; None for a client that does not answer."""
        self._last_id = 0

    @classmethod
    async def open(
        cls,
        port: int,
        revision: str,
        *,
        capabilities: Json | None = None,
        receive_buffer: int | None = None,
    ) -> Self:
        """A client that has done what one of its revision does first."""
        client = cls(port, revision, await Line.open(port, receive_buffer))
        if revision != STATELESS:
            await client.send(initialize(revision, capabilities=capabilities))
            head = await client.line.head()
            assert [message async for message in client.line.messages(head)], head
            client.session["Mcp-Session-Id"] = head.headers["mcp-session-id"]
            if revision >= "2025-06-18":
                client.session["MCP-Protocol-Version"] = revision
            await client.post(_INITIALIZED)
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.line.close()

    async def renew(self) -> None:
        """Take a new connection: the server closes one that has been idle for long."""
        await self.line.close()
        self.line = await Line.open(self.port)

    async def another(self) -> Http:
        """The same client with a further connection."""
        client = Http(self.port, self.revision, await Line.open(self.port))
        client.session = self.session
        return client

    def request(self, method: str, params: Json | None = None, id: Any = None) -> Json:
        """A request; with an id of its own unless one is given."""
        self._last_id += 1
        return request(self._last_id if id is None else id, method, params, revision=self.revision)

    def headers(self, message: Json | Sequence[Json]) -> dict[str, str]:
        """What goes with a message."""
        headers = {"Content-Type": "application/json", "Accept": _ACCEPT, **self.session}
        if self.revision == STATELESS and isinstance(message, dict):
            headers |= {"MCP-Protocol-Version": STATELESS, "Mcp-Method": message["method"]}
            field = _NAMED_BY.get(message["method"])
            headers |= {"Mcp-Name": message["params"][field]} if field else {}
        return headers

    async def begin(self, name: str, **arguments: Any) -> None:
        """Call a tool whose log messages are wanted, and leave the response to the caller."""
        wanted = {PREFIX + "logLevel": "debug"} if self.revision == STATELESS else {}
        await self.send(self.request("tools/call", {**tool(name, arguments), "_meta": wanted}))

    async def send(self, message: Json | Sequence[Json]) -> None:
        """Send a message, or a batch, and leave the response to the caller."""
        await self.line.send("POST", self.headers(message), json.dumps(message).encode())

    async def post(self, message: Json | Sequence[Json]) -> list[Any]:
        """Send a message, or a batch; all messages that come back, without the questions, which are answered."""
        await self.send(message)
        head = await self.line.head()
        messages = []
        async for said in self.line.messages(head):
            if self.answer is not None and "method" in said and "id" in said:
                async with await self.another() as other:
                    await other.post({"jsonrpc": "2.0", "id": said["id"], "result": self.answer})
            else:
                messages.append(said)
        return messages

    async def ask(self, method: str, params: Json | None = None) -> Any:
        """The result of a request."""
        messages = await self.post(self.request(method, params))
        assert "result" in messages[-1], messages
        return messages[-1]["result"]

    async def call(self, name: str, **arguments: Any) -> Any:
        """What a tool returns, as JSON."""
        return value(await self.ask("tools/call", tool(name, arguments)))

    async def subscribe(self, uris: Sequence[str]) -> None:
        """Subscribe to resources; at once where there are batches."""
        requests = [self.request("resources/subscribe", {"uri": uri}) for uri in uris]
        if self.revision == "2025-03-26":
            for start in range(0, len(requests), 1000):
                (replies,) = await self.post(requests[start : start + 1000])
                assert all("result" in reply for reply in replies)
        else:
            for message in requests:
                assert "result" in (await self.post(message))[-1]

    async def listen(self, uris: Sequence[str] = (), lists: bool = True, last: str | None = None) -> Head:
        """Make the connection a stream of the changes of `uris`, and of the lists; in the handshake era of what came
        after the event `last`.
        """
        if self.revision == STATELESS:
            wanted: Json = {"resourceSubscriptions": list(uris)}
            wanted |= {f"{kind}ListChanged": lists for kind in ("tools", "prompts", "resources")}
            await self.send(self.request("subscriptions/listen", {"notifications": wanted}))
        else:
            await self.subscribe(uris)
            last = {} if last is None else {"Last-Event-ID": last}
            await self.line.send("GET", {"Accept": "text/event-stream", **self.session, **last})
        head = await self.line.head()
        assert head.status == 200 and head.streams, head
        return head

    async def delete(self) -> None:
        """End the session, on a connection of its own."""
        line = await Line.open(self.port)
        await line.send("DELETE", self.session)
        head = await line.head()
        assert head.status == 204, head
        await line.close()


class Stdio:
    """A client over stdio, which collects what comes. Its own requests have ids that are strings."""

    def __init__(self, process: trio.Process, revision: str) -> None:
        self.process = process
        self.revision = revision
        self.replies: list[Json] = []
        """Replies to requests that somebody else has made with `write`."""
        self.notifications: list[Json] = []
        """Progress; changes are only counted."""
        self.changes = 0
        self.questions = 0
        self.taken_back = 0
        """Questions of the server, and those of them that it has cancelled."""
        self.answer: Json | None = None
        """The result of each question; None for a client that does not answer."""
        self._own: dict[str, Json] = {}
        self._ids = itertools.count(1)
        self._changed = trio.Event()
        self._writing = trio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, revision: str, *, capabilities: Json | None = None) -> AsyncGenerator[Self]:
        """A process, with a client that has done what one of its revision does first."""
        command = [sys.executable, "-m", "mcpkit", "run", str(BUSY)]
        process = await trio.lowlevel.open_process(command, stdin=PIPE, stdout=PIPE)
        client = cls(process, revision)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client._read)
                if revision != STATELESS:
                    await client._result(initialize(revision, "own-0", capabilities))
                    await client.write([_INITIALIZED])
                yield client
                await client._stdin.aclose()
                assert await process.wait() == 0
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                for stream in (process.stdin, process.stdout):
                    assert stream is not None
                    await stream.aclose()

    @property
    def _stdin(self) -> trio.abc.SendStream:
        assert self.process.stdin is not None
        return self.process.stdin

    async def _read(self) -> None:
        assert self.process.stdout is not None
        buffer = bytearray()
        async for data in self.process.stdout:
            buffer += data
            *lines, rest = buffer.split(b"\n")
            buffer = bytearray(rest)
            for line in lines:
                await self._take(json.loads(line))
            self._changed.set()
            self._changed = trio.Event()

    async def _take(self, message: Json) -> None:
        if "method" not in message:
            own = isinstance(message["id"], str) and message["id"].startswith("own-")
            self._own |= {message["id"]: message} if own else {}
            self.replies += [] if own else [message]
        elif "id" in message:
            self.questions += 1
            if self.answer is not None:
                await self.write([{"jsonrpc": "2.0", "id": message["id"], "result": self.answer}])
        elif message["method"] == "notifications/cancelled":
            self.taken_back += 1
        elif message["method"] == "notifications/progress":
            self.notifications.append(message)
        else:
            self.changes += 1

    def has(self, id: str) -> bool:
        """Whether there is a reply that nobody has taken."""
        return id in self._own

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds for what has come."""
        while not condition():
            await self._changed.wait()

    async def write(self, messages: Sequence[Json]) -> None:
        """Send messages, in one write."""
        async with self._writing:
            await self._stdin.send_all(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def request(self, method: str, params: Json | None = None) -> Json:
        """A request with an id of its own."""
        return request(f"own-{next(self._ids)}", method, params, revision=self.revision)

    async def post(self, message: Json) -> list[Json]:
        """Send a request of `request`; its progress, and the reply."""
        token = message.get("params", {}).get("_meta", {}).get("progressToken")
        await self.write([message])
        await self.until(lambda: message["id"] in self._own)
        mine = [said for said in self.notifications if said["params"].get("progressToken") == token]
        self.notifications = [said for said in self.notifications if said not in mine]
        return [*mine, self._own.pop(message["id"])]

    async def ask(self, method: str, params: Json | None = None) -> Any:
        """The result of a request."""
        return await self._result(self.request(method, params))

    async def _result(self, message: Json) -> Any:
        reply = (await self.post(message))[-1]
        assert "result" in reply, reply
        return reply["result"]

    async def call(self, name: str, **arguments: Any) -> Any:
        """What a tool returns, as JSON."""
        return value(await self.ask("tools/call", tool(name, arguments)))


def value(result: Json) -> Any:
    """What a tool has returned, as JSON."""
    assert not result.get("isError"), result
    return json.loads("".join(block["text"] for block in result["content"]))


def change_of(message: Json) -> str:
    """What a notification is about: a URI, or the method for a list."""
    return str(message.get("params", {}).get("uri") or message["method"])


async def together(tasks: Sequence[Callable[[], Awaitable[object]]], most: int) -> None:
    """Run functions, some at a time."""
    limiter = trio.CapacityLimiter(most)

    async def one(task: Callable[[], Awaitable[object]]) -> None:
        async with limiter:
            await task()

    async with trio.open_nursery() as nursery:
        for task in tasks:
            nursery.start_soon(one, task)


async def inside(client: Http | Stdio) -> Json:
    """What the server holds."""
    report: Json = await client.call("inside")
    return report


def connections(found: Json) -> int:
    """The connections that a server of ours holds; of others, the one that asks."""
    return found.get("listener.Connection", 0) + found.get("hypercorn_tcp.Connection", 0) or 1


def exchanges(found: Json) -> int:
    """How many requests are being answered."""
    return int(found.get("turn.Turn", 0) + found.get("asgi.AsgiExchange", 0))


async def alone(client: Http | Stdio) -> Json:
    """What the server holds once there is no other client and no other call."""
    with trio.fail_after(SECONDS / 3):
        while True:
            report = await inside(client)
            found = {**report["objects"], **report["held"]}
            calls = max(exchanges(found), found.get("serve.Session._scopes", 0))
            others = (found.get("sessions.Session"), report["asyncio"], *report["borrowed"].values())
            if connections(found) == 1 and calls <= 1 and not any(others):
                return report
            await trio.sleep(0.02)


async def until_as(client: Http | Stdio, before: Json, seconds: float = SECONDS / 3) -> None:
    """Wait until the server holds what it held before; sessions and threads end in their own time."""
    now: Json = {}
    with trio.move_on_after(seconds):
        while (now := await inside(client)) != before:
            await trio.sleep(0.1)
        return
    changed = {
        f"{name}.{key}" if key else name: (before_value, now_value)
        for name in before
        for key, before_value, now_value in _compared(before[name], now.get(name))
        if before_value != now_value
    }
    raise AssertionError(f"left behind (before, now): {changed}")


def _compared(before: Any, now: Any) -> list[tuple[str, Any, Any]]:
    if not isinstance(before, dict):
        return [("", before, now)]
    return [(key, before.get(key), now.get(key)) for key in sorted({*before, *now})]


def run(main: Callable[[], Awaitable[None]], seconds: float = SECONDS) -> None:
    """Run an async test that may take longer than the others."""

    async def limited() -> None:
        with trio.fail_after(seconds):
            await main()

    trio.run(limited)
