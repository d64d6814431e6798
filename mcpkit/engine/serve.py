"""Drive one connection over one channel: read, decide, answer.

Rule 1. What can be answered without user code is answered while reading, and the answers to one read leave in
        one write.
Rule 2. The task that reads calls the handler itself. When the handler waits for the first time, another task reads
        on, and the first has this call alone, with its cancel scope. So pings and cancellations get through
        whatever handlers do, and a handler that waits for nothing costs no task.
Rule 3. Nothing that a client sends and nothing that a handler raises ends the connection; only its end of
        file, a broken channel, or the caller's cancellation does.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import trio

from mcpkit.engine import access, dispatch, scopes, steps
from mcpkit.engine.asking import Desk
from mcpkit.engine.calls import to_line
from mcpkit.engine.channel import Channel
from mcpkit.engine.ports import TaskPort
from mcpkit.engine.runtime import Runtime
from mcpkit.engine.subscriptions import Listener
from mcpkit.protocol import events
from mcpkit.protocol.connection import Connection
from mcpkit.protocol.errors import InvalidRequest
from mcpkit.protocol.lines import Oversized
from mcpkit.protocol.questions import Question

GRACE = 0.5
"""Seconds that calls may go on after the client has stopped sending."""

_FLUSH_SECONDS = 1.0


class Session(TaskPort):
    """One client, served from its first message to its last. It is the `context.Port` of its calls.

    `most_calls` is how many calls it may have at the same time. `null_ids`: see `Connection`.
    """

    def __init__(
        self,
        runtime: Runtime,
        channel: Channel,
        *,
        most_calls: float = math.inf,
        null_ids: bool = True,
    ) -> None:
        self._runtime = runtime
        self._channel = access.LoggedChannel(channel) if access.enabled() else channel
        self._most_calls = most_calls
        self._connection = Connection(runtime.identity, null_ids=null_ids)
        self._ended = trio.Event()
        self._queue: deque[events.Call] = deque()
        """The calls that have not begun."""
        self._scopes: dict[events.Call, trio.CancelScope] = {}
        """The calls that wait."""
        self._idle = trio.Event()
        self._listener: Listener | None = None
        self._desk = Desk()
        self._left_behind = trio.Event()

    async def run(self, grace: float = GRACE) -> None:
        """Serve until the client stops sending, then let calls finish for `grace` seconds, and cancel what is
        left.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._flush_what_is_left)
                nursery.start_soon(self._lead, nursery)
                await self._ended.wait()
                self._runtime.hub.end(self)  # what goes on for ever ends at once
                with trio.move_on_after(grace):
                    await self._until_idle()
                nursery.cancel_scope.cancel()
            with trio.move_on_after(_FLUSH_SECONDS):
                await self._channel.flush()
        except* trio.BrokenResourceError:
            pass  # the client has gone: there is nobody to tell

    async def _lead(self, nursery: trio.Nursery) -> None:
        """Read and serve until a call waits (rule 2), or the client stops sending."""
        scope = trio.CancelScope()
        call: events.Call | None = None
        reply: events.Answer | events.Failure | None = None

        def hand_over() -> None:
            assert call is not None
            self._scopes[call] = scope
            nursery.start_soon(self._lead, nursery)

        try:
            with scope:
                while self._queue or await self._read(nursery):
                    call = self._queue.popleft()
                    reply = await steps.here(dispatch.perform(self._runtime, call, self), hand_over)
                    if call in self._scopes:
                        break
                    self._finish(call, reply)
        finally:
            waited = call is not None and self._scopes.pop(call, None) is not None
            if waited and not self._scopes:
                self._idle.set()
        if waited:
            assert call is not None
            self._finish(call, events.Dropped(call) if scope.cancelled_caught or reply is None else reply)
            await self._channel.flush()

    async def _read(self, nursery: trio.Nursery) -> bool:
        """Read until there are calls that take user code; False at the end, and when another task has taken over. They
        begin when all of a read has been looked at: with them may have come that they are cancelled.
        """
        while not self._queue:
            if not self._channel.flush_now() and not await self._flushed(nursery):
                return False
            messages = await self._channel.receive()
            if messages is None:
                self._ended.set()
                return False
            for message in messages:
                self._take(message, nursery)
        return True

    async def _flushed(self, nursery: trio.Nursery) -> bool:
        """Let the answers go out. Where that takes time, because the client writes before it reads, another task
        reads on meanwhile, and this is False in the end.
        """
        waited = False

        def hand_over() -> None:
            nonlocal waited
            waited = True
            nursery.start_soon(self._lead, nursery)

        await steps.here(self._channel.flush(at_once=True), hand_over)
        if not waited:
            await self._channel.drain()
        return not waited

    def _take(self, message: bytes | Oversized, nursery: trio.Nursery) -> None:
        if isinstance(message, Oversized):
            self._send(self._connection.refuse_oversized(*message))
            return
        for event in self._connection.receive(message):
            if isinstance(event, events.Call):
                self._begin(event)
            elif isinstance(event, events.Cancel):
                self._cancel(event.call)
            elif isinstance(event, events.Initialized):
                self._listen(nursery)
            elif isinstance(event, events.Reply):
                self._desk.answered(event)
            else:
                self._send(event)

    def _begin(self, call: events.Call) -> None:
        call.principal = self.principal
        reply = dispatch.answer(self._runtime, call)
        if reply is not None:
            self._send(reply)
            return
        running = len(self._scopes) + len(self._queue)
        if running < self._most_calls:
            self._queue.append(call)
            return
        problem = f"{running:,} requests of this session are still being served: wait for one of them"
        self._send(events.Failure(call, InvalidRequest(problem)))

    def _finish(self, call: events.Call, reply: events.Answer | events.Failure | events.Dropped) -> None:
        if call.method.streams and isinstance(reply, events.Answer):
            self._channel.write(
                self._connection.cancelled(call)
            )  # on stdio this comes before the end (SUB-08)
        self._send(reply)

    def _listen(self, nursery: trio.Nursery) -> None:
        """From `notifications/initialized` on the session hears of changes."""
        if self._listener is None:
            self._listener = self._runtime.hub.listen(self._wants, self)
            nursery.start_soon(self._tell, self._listener)

    def _wants(self, change: events.Change) -> bool:
        return scopes.may_hear(self._runtime.app, self.principal, self._connection, change)

    async def _tell(self, listener: Listener) -> None:
        try:
            while (changes := await listener.next()) is not None:
                await self._entitled()
                for change in changes:
                    self._send(events.Notify(change))
                await self.drain()
        finally:
            listener.close()

    async def _entitled(self) -> None:
        """Wait until the client may hear of changes: where the connection is the caller, it always may."""

    async def _flush_what_is_left(self) -> None:
        """Flush for handlers that do not: one that runs on asyncio, or whose own time limit cut it short."""
        while True:
            await self._left_behind.wait()
            self._left_behind = trio.Event()
            await self._channel.flush()

    def _cancel(self, call: events.Call) -> None:
        scope = self._scopes.get(call)
        if scope is not None:
            scope.cancel()
        elif call in self._queue:
            self._queue.remove(call)
            self._send(events.Dropped(call))

    async def _until_idle(self) -> None:
        while self._scopes:
            self._idle = trio.Event()
            await self._idle.wait()

    def _send(self, event: events.Sent) -> None:
        line = to_line(self._runtime, self._connection, event)
        if line is not None:
            self._channel.write(line)

    # -- The port of contexts ------------------------------------------------------------

    def emit(self, event: events.Said) -> None:
        """Put a message about a running call into the outgoing buffer. Raises TypeError or ValueError when it
        has no JSON form.
        """
        line = self._connection.send(event)
        if line is not None:
            self._channel.write(line)
            self._left_behind.set()

    async def drain(self) -> None:
        """Let what was written go out."""
        try:
            await self._channel.flush()
            await self._channel.drain()
        except trio.Cancelled:
            self._left_behind.set()
            raise

    async def ask(self, question: Question, seconds: float) -> Any:
        """The result of a question to the client, or `Unavailable`."""
        return await self._desk.ask(question, self._write, seconds)

    async def _write(self, line: bytes) -> None:
        self._channel.write(line)
        await self.drain()
