"""Streamable HTTP: one endpoint for both eras, decided for each request.

    verb      stateless era                          handshake era
    POST      one message, one answer or a stream    initialize opens a session; later messages name it
    GET       405                                    the session's own stream, or one to resume
    DELETE    405                                    ends the session

Rule 1. The order of the checks is the order of the specification: what is wrong with HTTP, with JSON, with
        `_meta`, with the headers that mirror the body, with the parameters. The first failure answers.
Rule 2. Whatever has a status of its own is found before the first byte of an answer leaves.
Rule 3. A client that leaves cancels its call in the stateless era (HM-15), and does not in the handshake era
        (HL-18).

Source: MCP 2025-11-25 and 2026-07-28, "Streamable HTTP".
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import msgspec
import trio

from mcpkit.engine import dispatch, scopes
from mcpkit.engine.calls import to_line
from mcpkit.engine.runtime import Runtime
from mcpkit.protocol import eras, events, jsonrpc, sse, types
from mcpkit.protocol.connection import Connection
from mcpkit.protocol.errors import (
    HeaderMismatch,
    InsufficientScope,
    InvalidRequest,
    McpError,
    UnsupportedVersion,
)
from mcpkit.protocol.headers import Metadata
from mcpkit.stores.base import StoreError
from mcpkit.transports import http
from mcpkit.transports.crew import Crew
from mcpkit.transports.entrance import Accepted, Refused, accepts, decoded, json_body, refused, unavailable
from mcpkit.transports.http import Exchange, HeaderList, Request
from mcpkit.transports.options import HttpOptions
from mcpkit.transports.port import RequestPort
from mcpkit.transports.sessions import Session
from mcpkit.transports.streams import Patience, Stream, Writer
from mcpkit.transports.table import Table, TooManySessions

_SESSION = b"mcp-session-id"
_EVENT_ID = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})")
MAX_BODY = 4 * 1024 * 1024
"""Bytes of one request body, unless the options say otherwise."""


class Endpoint:
    """The endpoint of one running app. Calls that outlive their requests run in `nursery`."""

    def __init__(self, runtime: Runtime, nursery: trio.Nursery, options: HttpOptions) -> None:
        self._runtime = runtime
        self._options = options
        self._sessions = Table(runtime, most=options.max_sessions, idle=options.session_idle)
        self._crew = Crew(nursery)
        self._patience = Patience()
        nursery.start_soon(self._sessions.sweep_forever)
        nursery.start_soon(self._patience.run)

    def end(self) -> None:
        """End all streams, so that the server can stop."""
        self._runtime.hub.close()
        self._sessions.end()

    async def answer(self, exchange: Exchange, cors: HeaderList) -> None:
        """Answer a request that was let in."""
        request = exchange.request
        said = request.once(_Said)
        if request.method == "POST":
            await self._post(exchange, cors, said)
        elif said.session_id is None and eras.names_stateless(said.version):
            raise refused(405, f"This revision has no {request.method}", [(b"allow", b"POST, OPTIONS")])
        elif request.method == "GET":
            await self._get(exchange, cors)
        else:
            session = await self._session(request)
            await self._sessions.close(session)
            await exchange.respond(204, cors)

    # -- POST --------------------------------------------------------------------------------

    async def _post(self, exchange: Exchange, cors: HeaderList, said: _Said) -> None:
        data = await json_body(exchange, MAX_BODY, self._options)
        if not any(said.accepted):
            raise refused(406, "Accept must include application/json and text/event-stream")
        message = decoded(data)
        if message is not None and _is_stateless(said, message):
            await self._stateless(exchange, cors, said, data, message)
        else:
            await self._handshake_post(exchange, cors, said, data, message)

    # -- The stateless era -------------------------------------------------------------------

    async def _stateless(
        self, exchange: Exchange, cors: HeaderList, said: _Said, data: bytes, message: jsonrpc.Message
    ) -> None:
        if not isinstance(message.method, str):
            raise refused(400, "Nothing was asked that this could answer")
        if isinstance(message.id, msgspec.UnsetType):
            await exchange.respond(202, cors)  # HM-10: no notification has an effect here
            return
        connection = Connection(self._runtime.identity)
        call = connection.receive_message(message, data, said.metadata)
        if isinstance(call, events.Refuse):
            raise Refused(eras.http_status(call.error), call.error, call.id)
        assert isinstance(call, events.Call)
        if exchange.request.caller is not None:
            self._check_scopes(exchange.request, call)
        reply = dispatch.answer(self._runtime, call)
        if reply is not None:
            line = to_line(self._runtime, connection, reply)
            await self._answer(exchange, cors, said.accepted, reply, line)
            return
        if isinstance(call.params, types.CallToolParams):
            self._check_arguments(call, call.params, said.metadata)
        await self._call(exchange, cors, said.accepted, connection, call)

    def _check_arguments(self, call: events.Call, params: types.CallToolParams, metadata: Metadata) -> None:
        tool = self._runtime.registry.tools.get(params.name)
        if tool is None or not tool.mirrored:
            return
        try:
            metadata.check_arguments(tool.definition.input_schema, _plain(params.arguments))
        except HeaderMismatch as mismatch:
            raise Refused(400, mismatch, call.id) from None

    async def _call(
        self,
        exchange: Exchange,
        cors: HeaderList,
        accepted: Accepted,
        connection: Connection,
        call: events.Call,
    ) -> None:
        """Run the call in this task: the client's leaving cancels it, with the answer."""
        if call.method.streams and not accepted[1]:
            problem = InvalidRequest(
                f"{call.method.name} is answered with a stream: accept text/event-stream"
            )
            raise Refused(406, problem, call.id)
        port = _Port(connection, exchange.request)
        if accepted[1]:
            port.begin = functools.partial(self._writer, exchange, cors)
        exchange.end_with_client()
        try:
            reply = await dispatch.perform(self._runtime, call, port)
            line = to_line(self._runtime, connection, reply)
            if port.writer is None:
                await self._answer(exchange, cors, accepted, reply, line)
            elif line is not None:
                port.writer.put(sse.event(line))
        except BaseException:
            connection.send(events.Dropped(call))  # what a handler on asyncio still says goes nowhere
            raise
        finally:
            if port.writer is not None:
                await port.writer.close()

    def _writer(self, exchange: Exchange, headers: HeaderList) -> Writer:
        return Writer(exchange, headers, self._options.keep_alive)

    async def _answer(
        self,
        exchange: Exchange,
        cors: HeaderList,
        accepted: Accepted,
        reply: events.Answer | events.Failure,
        line: bytes | None,
    ) -> None:
        assert line is not None
        status = eras.http_status(reply.error) if isinstance(reply, events.Failure) else 200
        if accepted[0] or status != 200:
            await exchange.respond(status, http.json_headers(cors), line)
        else:
            writer = self._writer(exchange, cors)
            writer.put(sse.event(line))
            await writer.close()

    # -- The handshake era -------------------------------------------------------------------

    async def _handshake_post(
        self,
        exchange: Exchange,
        cors: HeaderList,
        said: _Said,
        data: bytes,
        message: jsonrpc.Message | None,
    ) -> None:
        request, accepted = exchange.request, said.accepted
        if message is not None and message.method == "initialize" and said.session_id is None:
            await self._initialize(exchange, cors, accepted, data)
            return
        try:
            session = await self._session(request)
        except Refused as refusal:
            if message is not None and isinstance(message.method, str):  # a response has no id of ours
                refusal.request_id = message.id
            raise
        received = session.connection.receive(data) if message is None else _one(session, message, data)
        if len(received) == 1 and isinstance(received[0], events.Refuse) and received[0].batch is None:
            error, request_id = received[0].error, received[0].id
            status = eras.http_status(error, handshake=True)
            raise Refused(status, error, msgspec.UNSET if request_id is None else request_id)  # RPC-06
        self._admit(request, session, received)
        stream = session.receive(received, self._crew, request, streams=accepted[1])
        await self._sessions.keep(session)
        if not any(isinstance(event, events.Call | events.Refuse) for event in received):
            await exchange.respond(202, cors)
            return
        await self._deliver(exchange, cors, accepted, session, stream)

    def _check_scopes(self, request: Request, call: events.Call) -> None:
        """Before anything else is said about the call (AUTH-13), and before a stream begins (AUTH-14)."""
        call.principal = request.principal
        try:
            scopes.check(self._runtime.app, call)
        except InsufficientScope as error:
            raise Refused(403, error, call.id, request.forbidden(error.scopes)) from None

    def _admit(self, request: Request, session: Session, received: list[events.Received]) -> None:
        """Refuse the message when the token lacks a scope, a batch as a whole."""
        calls = [event for event in received if isinstance(event, events.Call)]
        try:
            for call in calls:
                self._check_scopes(request, call)
        except Refused as refusal:
            for call in calls:
                session.connection.send(events.Failure(call, refusal.error))  # they are not being served
            raise

    async def _initialize(
        self, exchange: Exchange, cors: HeaderList, accepted: Accepted, data: bytes
    ) -> None:
        connection = Connection(self._runtime.identity, null_ids=False)
        received = connection.receive(data)
        if not received:
            raise refused(400, "initialize is a request: it needs an id")
        (event,) = received
        if isinstance(event, events.Refuse):
            raise Refused(eras.http_status(event.error, handshake=True), event.error, event.id)
        assert isinstance(event, events.Call)
        reply = dispatch.answer(self._runtime, event)
        assert reply is not None
        try:
            session = await self._sessions.open(connection, exchange.request.owner)
        except (TooManySessions, StoreError) as error:
            raise unavailable(error, event.id) from None
        named: HeaderList = (*cors, (_SESSION, session.id.encode()))
        await self._answer(exchange, named, accepted, reply, to_line(self._runtime, connection, reply))

    async def _session(self, request: Request) -> Session:
        """The session that a request names, with the version that it speaks."""
        said, served = request.once(_Said), eras.supported_versions()
        if said.version is not None and said.version not in served:
            raise Refused(400, UnsupportedVersion(said.version, served))
        if said.session_id is None:
            raise refused(400, "The header Mcp-Session-Id is missing: send initialize first")
        session = await self._sessions.find(said.session_id, request.owner)
        if session is None:
            raise refused(404, "There is no such session: send initialize again")
        session.principal = request.principal
        try:
            eras.check_session_version(said.version, session.envelope)
        except McpError as error:
            raise Refused(400, error) from None
        return session

    async def _deliver(
        self,
        exchange: Exchange,
        cors: HeaderList,
        accepted: Accepted,
        session: Session,
        stream: Stream,
    ) -> None:
        """One JSON answer where there is nothing else to say soon, a stream otherwise."""
        await (self._patience.wait(stream) if accepted[1] else stream.wait())
        single = stream.single() if accepted[0] else None
        if single is not None:
            await exchange.respond(200, http.json_headers(cors), single)
        else:
            await self._stream(exchange, cors, session, stream, after=0)

    async def _stream(
        self, exchange: Exchange, cors: HeaderList, session: Session, stream: Stream, *, after: int
    ) -> None:
        session.keep(stream)
        left = scopes.seconds_left(session.principal) if stream is session.standalone else math.inf
        with session.attached():
            await stream.copy(
                exchange,
                cors,
                self._options.keep_alive,
                after=after,
                prime=eras.primes_streams(session.envelope),
                until=trio.current_time() + left,
            )

    async def _get(self, exchange: Exchange, cors: HeaderList) -> None:
        request = exchange.request
        if not accepts(request, "text/event-stream")[0]:
            raise refused(406, "Accept must include text/event-stream")
        session = await self._session(request)
        last = request.get("last-event-id")
        if last is None:
            # From now on: what an earlier stream has sent is not sent again (HL-12).
            standalone = session.standalone
            await self._stream(exchange, cors, session, standalone, after=standalone.newest)
            return
        match = _EVENT_ID.fullmatch(last)
        stream = None if match is None else session.stream(int(match[1]))
        if match is None or stream is None:
            raise refused(400, "Last-Event-ID names no event of this session, or one that is no longer kept")
        if stream is session.standalone:
            session.standalone.tell_again(int(match[2]))
        await self._stream(exchange, cors, session, stream, after=int(match[2]))


class _Said:
    """What the head of a request says of its message."""

    def __init__(self, request: Request) -> None:
        self.accepted = accepts(request, "application/json", "text/event-stream")
        self.metadata = Metadata(request.values)
        self.version = request.get("mcp-protocol-version")
        self.session_id = request.get("mcp-session-id")


class _Port(RequestPort):
    """The port of a stateless call: what it says while it runs goes out on the call's own response."""

    def __init__(self, connection: Connection, request: Request) -> None:
        super().__init__(request)
        self._connection = connection
        self.begin: Callable[[], Writer] | None = None
        """Makes a stream of the response, if the client takes one."""
        self.writer: Writer | None = None
        """The stream, once there is something for it."""

    @property
    def caller(self) -> str:
        """See `context.Port`."""
        return f"address {self.request.client}"

    def emit(self, event: events.Said) -> None:
        """Put a message about the call on its response."""
        line = self._connection.send(event)
        if line is None or self.begin is None:
            return
        if self.writer is None:
            self.writer = self.begin()
        self.writer.put(sse.event(line))

    async def drain(self) -> None:
        """Wait while the client reads slowly."""
        await (trio.lowlevel.checkpoint() if self.writer is None else self.writer.room())


def _one(session: Session, message: jsonrpc.Message, data: bytes) -> list[events.Received]:
    event = session.connection.receive_message(message, data)
    return [] if event is None else [event]


def _is_stateless(said: _Said, message: jsonrpc.Message) -> bool:
    """Whether a message belongs to the stateless era. One that names no version belongs to the session that it comes
    in, whatever its method (ERA-08, ERA-09).
    """
    if not eras.is_stateless(message, said.version):
        return False
    if said.session_id is None or eras.names_stateless(said.version):
        return True
    try:
        params = {} if isinstance(message.params, msgspec.UnsetType) else msgspec.json.decode(message.params)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):  # refused for that, in either era
        return False
    return isinstance(params, dict) and eras.version_of(params) is not None


def _plain(arguments: msgspec.Raw | msgspec.UnsetType) -> Any:
    """Arguments, those that were sent as text included. Nothing for what cannot be read: the call itself says so."""
    if isinstance(arguments, msgspec.UnsetType):
        return None
    try:
        value = msgspec.json.decode(arguments)
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
