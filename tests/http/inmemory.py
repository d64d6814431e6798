"""An ASGI host in memory, for tests that own the time."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing
from kit import Headers, Json, Response, encoded, headers_for, over
from support import initialize

from mcpkit import App
from mcpkit.stores.base import Store
from mcpkit.transports.asgi import Application
from mcpkit.transports.options import HttpOptions


class Exchange:
    """One request to the application, and what it answers. `room` is how many messages the application can send
    before the client reads.
    """

    def __init__(self, scope: Json, body: bytes, room: float = math.inf) -> None:
        self.scope = scope
        self._to_app, self._in_app = trio.open_memory_channel[Json](math.inf)
        self._from_app, self._sent = trio.open_memory_channel[Json](room)
        self._to_app.send_nowait({"type": "http.request", "body": body, "more_body": False})
        self.done = trio.Event()

    async def run(self, application: Application) -> None:
        """Serve it."""
        await application(self.scope, self._in_app.receive, self._from_app.send)
        self._from_app.close()
        self.done.set()

    def leave(self) -> None:
        """Tell the application that the client has gone."""
        self._to_app.send_nowait({"type": "http.disconnect"})

    async def head(self) -> Response:
        """The head of the answer."""
        start = await self._sent.receive()
        assert start["type"] == "http.response.start"
        return Response(start["status"], [(n.decode(), v.decode()) for n, v in start["headers"]], b"")

    async def part(self) -> bytes:
        """The next part of the body; none at the end."""
        message = await self._sent.receive()
        assert message["type"] == "http.response.body"
        assert message.get("body") or not message.get("more_body")
        return bytes(message.get("body", b""))

    async def response(self) -> Response:
        """All of it."""
        head = await self.head()
        body = b""
        async for message in self._sent:
            body += message.get("body", b"")
        return head._replace(body=body)


class Host:
    """Requests to an application."""

    def __init__(self, app: App, application: Application, nursery: trio.Nursery) -> None:
        self.app = app
        self.application = application
        self._nursery = nursery

    def begin(
        self,
        method: str,
        headers: Headers = (),
        body: bytes = b"",
        *,
        path: str = "/mcp",
        root: str = "",
        room: float = math.inf,
    ) -> Exchange:
        """Send a request."""
        given = over({"Host": "localhost", "Content-Length": str(len(body))}, headers)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": root,
            "query_string": b"",
            "headers": [(n.lower().encode(), v.encode("latin-1")) for n, v in given if v is not None],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
        }
        exchange = Exchange(scope, body, room)
        self._nursery.start_soon(exchange.run, self.application)
        return exchange

    async def ask(self, method: str, headers: Headers = (), body: bytes = b"", **more: str) -> Response:
        """Send a request and wait for its answer."""
        return await self.begin(method, headers, body, **more).response()

    async def post(self, message: Json, headers: Headers = (), **more: str) -> Response:
        """Post a message as a client would."""
        return await self.ask("POST", over(headers_for(message), headers), encoded(message), **more)

    async def open(self, revision: str = "2025-11-25") -> str:
        """The id of a new session."""
        response = await self.post(initialize(revision))
        assert response.status == 200, response
        return response.get("mcp-session-id") or ""

    async def ping(self, session: str) -> int:
        """The status of a request of a session."""
        message = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}
        return (await self.post(message, {"Mcp-Session-Id": session})).status

    def listen(self, session: str, room: float = math.inf) -> Exchange:
        """A session's own stream; see `Exchange` for `room`."""
        return self.begin("GET", {"Accept": "text/event-stream", "Mcp-Session-Id": session}, room=room)


@asynccontextmanager
async def hosting(app: App, store: Store | None = None, **options: Any) -> AsyncIterator[Host]:
    """The app in a host that forwards lifespan events."""
    app.store = app.store if store is None else store
    application = Application.of(app, HttpOptions(**options))
    async with application.lifespan(), trio.open_nursery() as nursery:
        yield Host(app, application, nursery)
        nursery.cancel_scope.cancel()
