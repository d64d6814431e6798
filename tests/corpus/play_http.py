"""Plays conversations of the corpus over Streamable HTTP: each line is the body of a POST.

A client of the handshake era keeps a session and reads its own stream; one of the stateless era mirrors the body into
headers, and cancels a request by leaving its response (`fixtures/README.md`, "Over HTTP").
"""

from __future__ import annotations

import functools
import json
import math
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import trio
import uvicorn
from pairs import Case, Conversation, End, Line, Wait, cases, parsed
from play import PATIENCE, Answer, app_of, remembered
from support import IN_PROCESS, SERVER

from mcpkit.transports import serving as http_serving
from mcpkit.transports.address import Address, listening

PATHS = {"http": "/mcp", "sse": "/sse"}
STATELESS = "2026-07-28"
VERSION_HEADER_SINCE = "2025-06-18"
_META = "io.modelcontextprotocol/"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_POSTED = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
_FENCE = {
    "jsonrpc": "2.0",
    "id": "fence",
    "method": "server/discover",
    "params": {"_meta": {_META + "protocolVersion": STATELESS, _META + "clientCapabilities": {}}},
}


async def play(conversation: Conversation) -> dict[str, Answer]:
    """What came back for each case. What comes too late counts for the case that is played then, or for the
    last one.
    """
    answers: dict[str, Answer] = {}
    captured: dict[str, Any] = {}
    async with serving(conversation.server) as (url, stop), _Client.open(url, stop) as client:
        for name in conversation.names:
            case = cases()[name]
            answers[name] = await client.play(case, captured)
            captured |= remembered(case, answers[name].lines)
        await client.close()
        client.collect(answers[conversation.names[-1]].lines)
    return answers


@asynccontextmanager
async def serving(variant: str, transport: str = "http") -> AsyncIterator[tuple[str, trio.Event]]:
    """The variant on a port of its own, until the event is set; at the end it must stop by itself."""
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        serve = _serve_mounted if SERVER == "uvicorn" else _serve_here
        yield await nursery.start(functools.partial(serve, variant, transport, stop.wait)), stop
        stop.set()
        nursery.cancel_scope.deadline = trio.current_time() + PATIENCE


async def _serve_here(
    variant: str,
    transport: str,
    until: Callable[[], Awaitable[object]],
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    options = {"port": 0, "server": IN_PROCESS, "transport": transport, "path": PATHS[transport]}
    await http_serving.serve(app_of(variant), until=until, task_status=task_status, **options)


async def _serve_mounted(
    variant: str,
    transport: str,
    until: Callable[[], Awaitable[object]],
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """In uvicorn, on an event loop in a thread of its own."""
    asgi = app_of(variant).asgi(PATHS[transport], transport=transport)
    server, address = uvicorn.Server(uvicorn.Config(asgi, log_level="critical")), Address("127.0.0.1", 0)
    before = signal.signal(signal.SIGTERM, server.handle_exit)  # which it does itself in the main thread
    try:
        with listening(address) as bound:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, server.run, [bound])
                task_status.started(address.url(bound, PATHS[transport], tls=False))
                await until()
                server.should_exit = True
    finally:
        signal.signal(signal.SIGTERM, before)


class _Post:
    """A line on its way, and what came of it."""

    def __init__(self, text: str) -> None:
        self.message = parsed(text)
        self.status: int | None = None
        self.scope = trio.CancelScope()
        self.ended = trio.Event()

    def member(self, *path: str) -> Any:
        """What stands at a path in the message; None for nothing."""
        value = self.message
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    @property
    def method(self) -> Any:
        return self.member("method")


class _Client:
    """One client, with at most one session."""

    def __init__(self, http: httpx.AsyncClient, url: str, stop: trio.Event, nursery: trio.Nursery) -> None:
        self._http = http
        self._url = url
        self._stop = stop
        self._nursery = nursery
        self._session: dict[str, str] = {}
        self._reading: trio.Event | None = None
        self._open: list[_Post] = []
        self._arrive, self._arrived = trio.open_memory_channel[Any](math.inf)

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, stop: trio.Event) -> AsyncIterator[_Client]:
        """A client of the server at `url`."""
        http = httpx.AsyncClient(timeout=None, trust_env=False, verify=False)
        async with http, trio.open_nursery() as nursery:
            yield cls(http, url, stop, nursery)
            nursery.cancel_scope.cancel()

    # -- One case --------------------------------------------------------------------------------------------

    async def play(self, case: Case, captured: dict[str, Any]) -> Answer:
        """Send what the case sends, and collect what comes."""
        lines: list[Any] = []
        posts: list[_Post] = []
        for step in case.steps(captured):
            if isinstance(step, Line):
                posts.append(await self._send(step.text, case.era))
            elif isinstance(step, Wait):
                await self._collect_some(lines, step.lines)
            elif isinstance(step, End):
                self._stop.set()
        await self._collect_some(lines, len(case.replies))
        await self._until_ended(posts, case)
        self.collect(lines)
        return Answer(lines, [post.status for post in posts])

    async def _collect_some(self, lines: list[Any], count: int) -> None:
        with trio.move_on_after(PATIENCE):
            while len(lines) < count:
                lines.append(await self._arrived.receive())

    def collect(self, lines: list[Any]) -> None:
        """Add what has come meanwhile."""
        while self._arrived.statistics().current_buffer_used:
            lines.append(self._arrived.receive_nowait())

    async def _until_ended(self, posts: list[_Post], case: Case) -> None:
        for post in posts:
            if post.method != "subscriptions/listen" or case.ends:
                with trio.fail_after(PATIENCE):
                    await post.ended.wait()

    async def close(self) -> None:
        """End the session, and with it its stream."""
        if self._session and not self._stop.is_set():
            response = await self._http.delete(self._url, headers=self._session)
            assert response.status_code == 204, response.status_code
        if self._reading is not None:
            with trio.fail_after(PATIENCE):
                await self._reading.wait()

    # -- One line --------------------------------------------------------------------------------------------

    async def _send(self, text: str, era: str) -> _Post:
        """Post a line, and wait until the server has taken it."""
        post = _Post(text)
        left = self._named(post) if era == "stateless" and post.method == "notifications/cancelled" else None
        if left is not None:  # in this era, leaving is how a client cancels
            left.scope.cancel()
            await left.ended.wait()
            post.ended.set()
            return post
        self._open.append(post)
        self._nursery.start_soon(self._post, post, text, self._headers(post, era))
        await self._until_taken(post)
        if post.method == "notifications/initialized" and self._session and self._reading is None:
            self._reading = trio.Event()
            self._nursery.start_soon(self._read_own_stream, self._reading)
        return post

    def _named(self, cancellation: _Post) -> _Post | None:
        """The request that a cancellation names, if it is open."""
        wanted = cancellation.member("params", "requestId")
        return next((post for post in self._open if _is(post.member("id"), wanted)), None)

    def _headers(self, post: _Post, era: str) -> dict[str, str]:
        headers = {**_POSTED, **self._session}
        if era == "handshake":
            return headers
        version = post.member("params", "_meta", _META + "protocolVersion")
        name = post.member("params", _NAMED_BY.get(post.method, "") if isinstance(post.method, str) else "")
        mirrored = {
            "mcp-protocol-version": version if isinstance(version, str) else STATELESS,
            "mcp-method": post.method,
            "mcp-name": name,
        }
        return headers | {key: value for key, value in mirrored.items() if isinstance(value, str)}

    async def _until_taken(self, post: _Post) -> None:
        """A request has been taken when it is answered, or when the server has answered two that came later:
        the first of them may have overtaken it.
        """
        if post.method != "subscriptions/listen" and post.member("params", "name") != "hang":
            await post.ended.wait()
            return
        headers = _POSTED | {"mcp-protocol-version": STATELESS, "mcp-method": "server/discover"}
        for _ in range(2):
            response = await self._http.post(self._url, content=json.dumps(_FENCE), headers=headers)
            assert response.status_code == 200, response.status_code

    async def _post(self, post: _Post, text: str, headers: dict[str, str]) -> None:
        with post.scope:
            stream = self._http.stream("POST", self._url, content=text.encode(), headers=headers)
            async with stream as response:
                post.status = response.status_code
                if "mcp-session-id" in response.headers:
                    self._session["mcp-session-id"] = response.headers["mcp-session-id"]
                await self._read(response, post)
        self._open.remove(post)
        post.ended.set()

    async def _read_own_stream(self, ended: trio.Event) -> None:
        headers = {"accept": "text/event-stream", **self._session}
        async with self._http.stream("GET", self._url, headers=headers) as response:
            assert response.status_code == 200, response.status_code
            await self._read(response, None)
        ended.set()

    # -- What comes ------------------------------------------------------------------------------------------

    async def _read(self, response: httpx.Response, source: _Post | None) -> None:
        kind = response.headers.get("content-type")
        if kind == "text/event-stream":
            async for line in lines(response):
                if line.startswith(b"data: ") and line != b"data: ":
                    self._take(line.removeprefix(b"data: ").decode(), source)
        elif kind == "application/json":
            self._take((await response.aread()).decode(), source)
        else:
            assert not await response.aread(), "a body without a type"

    def _take(self, text: str, source: _Post | None) -> None:
        message = json.loads(text)
        if misplaced(message, source):
            raise AssertionError(f"on the wrong stream: {text}")
        version = message.get("result", {}).get("protocolVersion") if isinstance(message, dict) else None
        if version is not None and version >= VERSION_HEADER_SINCE:
            self._session["mcp-protocol-version"] = version
        self._arrive.send_nowait(message)


async def lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """The lines of an event stream: they end in line feeds, and in nothing else that Unicode calls a line end."""
    rest = b""
    async for data in response.aiter_bytes():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line


def _is(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def misplaced(message: Any, source: _Post | None) -> bool:
    """Whether a message came on a stream that is not its own: changes of the handshake era belong on the session's
    stream, everything else on the response to the request that it is about (HL-11, HL-12, HM-11, SUB-04).
    """
    if isinstance(message, list):
        return source is None or not isinstance(source.message, list)
    if "method" not in message:
        return source is None or not ("id" not in message or _is(source.member("id"), message["id"]))
    params = message.get("params", {})
    if message["method"] == "notifications/progress":
        token = source.member("params", "_meta", "progressToken") if source is not None else None
        return not _is(token, params["progressToken"])
    if message["method"] == "notifications/message":
        return source is None
    subscription = params.get("_meta", {}).get(_META + "subscriptionId")
    return not _is(source.member("id") if source is not None else None, subscription)
