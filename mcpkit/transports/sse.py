"""HTTP+SSE, the transport of revision 2024-11-05, for clients that know no newer one.

    GET  /sse                     the stream: first where to post, then every message of the server
    POST /message?sessionId=...   a message of the client: 202, and what it brings comes on the stream

Rule 1. The stream is the connection: a `serve.Session` runs as long as it is open, as on the pipes of a process. With
        it end running calls, questions and subscriptions (SSE-06).
Rule 2. Any revision may be negotiated (SSE-08), and requests of the stateless era are served as on stdio: the era is
        decided for each request, from its `_meta`. So a client that tries it first gets its answer. Headers that
        mirror the body are Streamable HTTP's own, and nobody looks at them here.
Rule 3. Where to post is told relative to the URL of the stream, "message?sessionId=...": clients resolve it as a
        browser would, and it stays right where a proxy or a host application has put the server under a prefix.

Source: MCP 2024-11-05, "Transports"; 2025-03-26, "Backwards compatibility".
"""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import parse_qs

import trio
from msgspec import UNSET

from mcpkit.engine import scopes
from mcpkit.engine.bell import Bell
from mcpkit.engine.runtime import Runtime
from mcpkit.engine.serve import Session
from mcpkit.protocol import eras, jsonrpc, methods, sse, types
from mcpkit.protocol.errors import InsufficientScope
from mcpkit.transports.entrance import Refused, accepts, decoded, json_body, refused
from mcpkit.transports.http import Exchange, HeaderList, Request
from mcpkit.transports.options import HttpOptions
from mcpkit.transports.port import RequestPort
from mcpkit.transports.streams import Writer
from mcpkit.transports.table import TooManySessions

MAX_MESSAGE = 1024 * 1024
"""Bytes of one message, unless the options say otherwise."""

MAX_CALLS = 256
"""Calls of one client at the same time; more are refused."""

_MAX_WAITING = 8
"""Messages of one client that wait to be taken. Further ones wait in their requests."""


class _Channel:
    """One client's connection, an `engine.channel.Channel`: messages come by POST, and leave on the stream."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._posting, self._posted = trio.open_memory_channel[bytes](_MAX_WAITING)

    async def post(self, message: bytes) -> None:
        """Hand over a message of the client. Raises trio.BrokenResourceError or trio.ClosedResourceError when the
        connection has ended.
        """
        await self._posting.send(message)

    def end(self) -> None:
        """Take no more messages."""
        self._posting.close()

    async def close(self) -> None:
        """End the connection, with what is still to be written."""
        self._posted.close()
        await self._writer.close()

    async def receive(self) -> list[bytes] | None:
        """See `Channel`."""
        try:
            return [await self._posted.receive()]
        except trio.EndOfChannel:
            return None

    def write(self, message: bytes) -> None:
        """See `Channel`."""
        self._writer.put(sse.named("message", message))

    def flush_now(self) -> bool:
        """See `Channel`. The writer decides."""
        return False

    async def flush(self, *, at_once: bool = False) -> None:
        """See `Channel`. The writer sends by itself."""
        if self._writer.gone:
            raise trio.BrokenResourceError("the client has left its stream")

    async def drain(self) -> None:
        """See `Channel`."""
        await self._writer.room()


class _Session(RequestPort, Session):
    """One client's session. Its request is the one for the stream, with the token of the last message: tokens are
    renewed while a stream is open.
    """

    def __init__(self, runtime: Runtime, channel: _Channel, request: Request) -> None:
        Session.__init__(self, runtime, channel, most_calls=MAX_CALLS, null_ids=False)
        self.channel = channel
        self.request = request
        self._renewed = Bell()

    async def post(self, request: Request, message: bytes) -> None:
        """See `_Channel.post`."""
        self.request.caller = request.caller
        self._renewed.ring()
        await self.channel.post(message)

    async def _entitled(self) -> None:
        """Changes wait while the token that was shown last has expired: to end the stream would end the session of a
        client that renews it with its next message.
        """
        while not scopes.seconds_left(self.principal):
            await self._renewed.wait()


class SseEndpoint:
    """The stream at one path and the messages at another, of one running app."""

    def __init__(self, runtime: Runtime, options: HttpOptions) -> None:
        self._runtime = runtime
        self._options = options
        self._at_root = ("", "stream") in options.endpoints
        self._sessions: dict[str, _Session] = {}

    def end(self) -> None:
        """Let all streams end, as soon as their calls have."""
        for session in self._sessions.values():
            session.channel.end()

    async def stream(self, exchange: Exchange, cors: HeaderList) -> None:
        """Answer a request for a stream, which was let in."""
        request = exchange.request
        if not accepts(request, "text/event-stream")[0]:
            raise refused(406, "Accept must include text/event-stream")
        if self._runtime.hub.closed:
            raise refused(503, "The server is ending", [(b"retry-after", b"60")])
        writer = Writer(exchange, cors, self._options.keep_alive)
        session = _Session(self._runtime, _Channel(writer), request)
        with self._registered(session) as session_id:
            try:
                writer.put(sse.named("endpoint", self._endpoint(request, session_id)))
                with trio.CancelScope() as scope:
                    exchange.on_disconnect(scope.cancel)
                    await session.run(self._options.grace)
            finally:
                await session.channel.close()

    @contextmanager
    def _registered(self, session: _Session) -> Generator[str]:
        """While messages can be posted to a session: under this id. Raises `TooManySessions`."""
        if len(self._sessions) >= self._options.max_sessions:
            raise TooManySessions(f"There are {self._options.max_sessions:,} sessions; try again later")
        session_id = secrets.token_urlsafe(24)
        self._sessions[session_id] = session
        try:
            yield session_id
        finally:
            del self._sessions[session_id]

    def _endpoint(self, request: Request, session_id: str) -> bytes:
        """Where to post, seen from the URL of the stream (rule 3): each slash at its end is a step further down."""
        slashes = len(request.path) - len(request.path.rstrip("/"))
        above = "../" * (slashes - self._at_root)
        return f"{above}message?sessionId={session_id}".encode()

    async def message(self, exchange: Exchange, cors: HeaderList) -> None:
        """Answer a request that brings a message, which was let in."""
        session = self._find(exchange.request)
        data = await json_body(exchange, MAX_MESSAGE, self._options)
        message = decoded(data)
        if message is not None:
            self._check_scopes(exchange.request, session, message)
        try:
            await session.post(exchange.request, data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise _unknown() from None
        await exchange.respond(202, cors)

    def _check_scopes(self, request: Request, session: _Session, message: jsonrpc.Message) -> None:
        """Refuse what the token does not cover here, where there is a status for it (AUTH-14), and on the stream as
        well: some clients wait there, whatever the status says. Whatever else may be wrong about a message, and a
        batch, is for the session to say.
        """
        params = None if message.method is UNSET else methods.decode_params(message.method, message.params)
        try:
            if isinstance(params, types.Params):
                scopes.check_params(self._runtime.app, request.principal, params)
        except InsufficientScope as error:
            if message.id is not UNSET:
                session.channel.write(jsonrpc.error(message.id, eras.error_object(error, None)))
            raise Refused(403, error, message.id, request.forbidden(error.scopes)) from None

    def _find(self, request: Request) -> _Session:
        """The session that a request names, if it belongs to whoever sends it."""
        ids = parse_qs(request.query.decode("latin-1")).get("sessionId", [])
        if len(ids) != 1:
            raise refused(400, "The URL needs one sessionId: post to where the event `endpoint` says")
        session = self._sessions.get(ids[0])
        if session is None or session.request.owner != request.owner:
            raise _unknown()
        return session


def _unknown() -> Exception:
    return refused(404, "There is no such session: its stream has ended. Open a new one")
