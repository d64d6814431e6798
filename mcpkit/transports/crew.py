"""The calls of sessions over Streamable HTTP, and the tasks that run them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

import trio

from mcpkit.engine import dispatch, steps
from mcpkit.engine.bell import Bell
from mcpkit.engine.calls import to_line
from mcpkit.protocol import eras, events
from mcpkit.protocol.questions import Question
from mcpkit.questions import Unavailable
from mcpkit.transports.http import Request
from mcpkit.transports.port import RequestPort
from mcpkit.transports.streams import Stream

if TYPE_CHECKING:
    from mcpkit.transports.sessions import Session


class Crew:
    """The tasks of `nursery` that run calls beside their requests. The first in line takes the calls that come. When
    one waits, the task is its own, with its cancel scope, and another is the first; so a call that waits for nothing
    costs no task.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._queue: deque[tuple[Group, events.Call, Context]] = deque()
        self._some = Bell()
        self._follow()

    def start(self, group: Group, call: events.Call) -> None:
        """Run a call, soon, in the context that is now."""
        self._queue.append((group, call, copy_context()))
        self._some.ring()

    def _follow(self) -> None:
        self._nursery.start_soon(self._lead)

    async def _lead(self) -> None:
        with trio.CancelScope() as scope:
            while not await self._run_next(scope):
                pass

    async def _run_next(self, scope: trio.CancelScope) -> bool:
        """Run the next call; whether it has waited."""
        while not self._queue:
            await self._some.wait()
        group, call, context = self._queue.popleft()
        return await group.run(call, context, scope, self._follow)


class Group(RequestPort):
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
