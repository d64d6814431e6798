"""Sessions of the handshake era over Streamable HTTP.

A session is a `Connection` that outlives its requests. Its calls run beside them: a client that loses a
response does not cancel the call (HL-18), and fetches the rest with `Last-Event-ID`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import Context
from typing import Any

import trio

from mcpkit.engine import dispatch, scopes, steps
from mcpkit.engine.asking import Desk
from mcpkit.engine.calls import to_line
from mcpkit.engine.runtime import Runtime
from mcpkit.engine.subscriptions import Listener
from mcpkit.principal import Principal
from mcpkit.protocol import eras, events, types
from mcpkit.protocol.connection import Connection
from mcpkit.protocol.questions import Question
from mcpkit.questions import Unavailable
from mcpkit.transports.crew import Crew
from mcpkit.transports.http import Request
from mcpkit.transports.port import RequestPort
from mcpkit.transports.streams import MAX_KEPT_BYTES, Stream

MAX_STREAMS = 100
"""Streams of one session that are kept after their last message, for a client that comes back."""


class Session:
    """One client's session."""

    def __init__(self, session_id: str, connection: Connection, owner: str, runtime: Runtime) -> None:
        self.id = session_id
        self.connection = connection
        self.owner = owner
        """The id of the principal that it belongs to; "" in an app without auth."""
        self.principal: Principal | None = None
        """Who has sent the last request: with what scopes changes when the token does."""
        self.used = trio.current_time()
        self.saved = -math.inf
        """When it was written to the store, as `record`."""
        self.record = b""
        self.runtime = runtime
        self.standalone = _Standalone(self)
        self.desk = Desk()
        self._streams: dict[int, Stream] = {0: self.standalone}
        self._count = 0
        self._readers = 0
        self.calls: dict[events.Call, trio.CancelScope | None] = {}
        """Those that are not answered, with the scope once one waits."""

    @property
    def envelope(self) -> events.Envelope:
        """What the handshake settled."""
        assert self.connection.session is not None
        return self.connection.session

    @property
    def busy(self) -> bool:
        """Whether calls are running, or the client is reading a stream."""
        return bool(self.calls or self._readers)

    @contextmanager
    def attached(self) -> Generator[None]:
        """While the client reads a stream."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1
            self.used = trio.current_time()

    def receive(
        self,
        received: Iterable[events.Received],
        crew: Crew,
        request: Request,
        *,
        streams: bool = True,
    ) -> Stream:
        """Serve what a request brought; the stream on which the answers come, and nothing else unless the
        client takes `streams`.
        """
        self._count += 1
        stream = Stream(self._count)
        calls: list[events.Call] = []
        for event in received:
            if isinstance(event, events.Call):
                self.calls[event] = None  # what follows in a batch may cancel it
                calls.append(event)
            elif isinstance(event, events.Cancel):
                self.cancel(event.call)
            elif isinstance(event, events.Initialized):
                self.standalone.listen()
            elif isinstance(event, events.Reply):
                self.desk.answered(event)
            else:
                _put(stream, self.connection.send(event))
        running = [call for call in calls if not self._answer(call, stream)]
        group = _Group(self, stream, len(running), request, streams=streams)
        for call in running:
            crew.start(functools.partial(group.run, call))
        if not running:
            stream.end()
        return stream

    def stream(self, number: int) -> Stream | None:
        """A stream that is still kept."""
        return self._streams.get(number)

    def keep(self, stream: Stream) -> None:
        """Keep a stream for a client that is about to get events of it, with which it may come back."""
        self._streams[stream.number] = stream
        complete = [kept for kept in self._streams.values() if kept.complete]
        size = sum(kept.size for kept in complete)
        while len(complete) > MAX_STREAMS or (size > MAX_KEPT_BYTES and len(complete) > 1):
            oldest = complete.pop(0)
            size -= oldest.size
            del self._streams[oldest.number]

    def cancel(self, call: events.Call) -> None:
        """Cancel a call."""
        scope = self.calls.get(call)
        if scope is not None:
            scope.cancel()
        else:
            self.calls.pop(call, None)  # it has not begun, and never will

    def end(self) -> None:
        """Cancel all calls and end all streams."""
        for call in tuple(self.calls):
            self.cancel(call)
        for stream in self._streams.values():
            stream.end()

    def _answer(self, call: events.Call, stream: Stream) -> bool:
        reply = dispatch.answer(self.runtime, call)
        if reply is None:
            return False
        self.calls.pop(call, None)
        if isinstance(call.params, types.SetLevelParams | types.SubscribeParams):
            self.saved = -math.inf  # it has changed
        _put(stream, to_line(self.runtime, self.connection, reply))
        return True


def _put(stream: Stream, line: bytes | None) -> None:
    if line is not None:
        stream.put(line)


class _Standalone(Stream):
    """A session's own stream, on which its client hears of changes. They wait for its reader in the listener, where
    a change is kept once: a stream drops what is old.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(0)
        self._session = session
        self._listener: Listener | None = None
        self._told: dict[events.Change, int] = {}
        """The newest event about each change."""

    def listen(self) -> Listener:
        """From now on the session hears of changes: from `notifications/initialized` on, or when it asks for them."""
        if self._listener is None:
            self._listener = self._session.runtime.hub.listen(self._wants, bell=self.changed)
        return self._listener

    def fill(self) -> None:
        """See `Stream`."""
        listener = self.listen()
        for change in listener.take():
            if self.lagging:
                listener.offer(change)
            else:
                _put(self, self._session.connection.send(events.Notify(change)))
                self._told[change] = self.newest
        connection = self._session.connection
        if len(self._told) > 2 * len(connection.subscribed) + 64:  # it has unsubscribed from many
            self._told = {told: at for told, at in self._told.items() if connection.wants(told)}

    def tell_again(self, after: int) -> None:
        """Tell a client that comes back, having seen the events up to `after`, what the stream keeps no more."""
        for change, number in self._told.items():
            if after < number < self.oldest:
                self.listen().offer(change)

    def end(self) -> None:
        """See `Stream`."""
        super().end()
        if self._listener is not None:
            self._listener.close()

    def _wants(self, change: events.Change) -> bool:
        session = self._session
        return scopes.may_hear(session.runtime.app, session.principal, session.connection, change)


class _Group(RequestPort):
    """The calls of one request, and the port of each."""

    def __init__(
        self, session: Session, stream: Stream, calls: int, request: Request, *, streams: bool
    ) -> None:
        super().__init__(request)
        self._session = session
        self._stream = stream
        self._streams = streams
        self._left = calls

    async def run(
        self, call: events.Call, context: Context, scope: trio.CancelScope, on_wait: Callable[[], None]
    ) -> bool:
        """Run a call in this task, which is in `scope`; whether it has waited."""
        session = self._session
        reply: events.Answer | events.Failure | events.Dropped = events.Dropped(call)

        def waits() -> None:
            session.calls[call] = scope
            on_wait()

        try:
            if call in session.calls:
                performed = dispatch.perform(session.runtime, call, self)
                reply = await steps.here(performed, waits, context)
        finally:
            waited = session.calls.pop(call, None) is not None
            self._left -= 1
            try:
                line = to_line(session.runtime, session.connection, reply)
                if line is not None:
                    self._stream.put(line)
            finally:
                if not self._left:
                    self._stream.end()
        return waited

    # -- The port of contexts ----------------------------------------------------------------

    @property
    def caller(self) -> str:
        """See `context.Port`."""
        return f"session {self._session.id}"

    def emit(self, event: events.Said) -> None:
        """Put a message about a call on its stream, if the client takes one."""
        line = self._session.connection.send(event)
        if line is not None and self._streams:
            self._stream.put(line)

    async def drain(self) -> None:
        """Wait for a client that reads slowly. One that is away must not stop a call: what it misses is bounded by
        the stream.
        """
        await self._stream.room()

    def close_stream(self) -> None:
        """Let go of the response. Only a client that was given an event to resume from comes back (HL-16)."""
        if self._streams and eras.primes_streams(self._session.envelope):
            self._stream.detach()

    async def ask(self, question: Question, seconds: float) -> Any:
        """The result of a question to the client, which goes out on the call's own stream (S2C-02)."""
        if not self._streams:
            return Unavailable("the client accepts no stream, on which it could be asked")
        return await self._session.desk.ask(question, self._write, seconds)

    async def _write(self, line: bytes) -> None:
        self._stream.put(line)
