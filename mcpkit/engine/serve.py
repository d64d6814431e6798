"""Drive one connection over one channel: read, decide, answer.

Rule 1. What can be answered without user code is answered while reading, and the answers to one read leave in
        one write.
Rule 2. Each other call has a task and a cancel scope of its own, so that pings and cancellations get through
        whatever handlers do.
Rule 3. Nothing that a client sends and nothing that a handler raises ends the connection; only its end of
        file, a broken channel, or the caller's cancellation does.
"""

from __future__ import annotations

import math
from typing import Any

import trio

from mcpkit.engine import access, dispatch, scopes
from mcpkit.engine.asking import Desk
from mcpkit.engine.calls import serve_call, to_line
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
        self._scopes: dict[events.Call, trio.CancelScope] = {}
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
                await self._read(nursery)
                self._runtime.hub.close()  # what goes on for ever ends at once
                with trio.move_on_after(grace):
                    await self._until_idle()
                nursery.cancel_scope.cancel()
            with trio.move_on_after(_FLUSH_SECONDS):
                await self._channel.flush()
        except* trio.BrokenResourceError:
            pass  # the client has gone: there is nobody to tell

    async def _read(self, nursery: trio.Nursery) -> None:
        while (messages := await self._channel.receive()) is not None:
            for message in messages:
                self._take(message, nursery)
            await self._channel.flush()
            await self._channel.drain()

    def _take(self, message: bytes | Oversized, nursery: trio.Nursery) -> None:
        if isinstance(message, Oversized):
            self._send(self._connection.refuse_oversized(*message))
            return
        for event in self._connection.receive(message):
            if isinstance(event, events.Call):
                self._begin(event, nursery)
            elif isinstance(event, events.Cancel):
                self._cancel(event.call)
            elif isinstance(event, events.Initialized):
                self._listen(nursery)
            elif isinstance(event, events.Reply):
                self._desk.answered(event)
            else:
                self._send(event)

    def _begin(self, call: events.Call, nursery: trio.Nursery) -> None:
        call.principal = self.principal
        reply = dispatch.answer(self._runtime, call)
        if reply is not None:
            self._send(reply)
            return
        if len(self._scopes) >= self._most_calls:
            problem = (
                f"{len(self._scopes):,} requests of this session are still being served: wait for one of them"
            )
            self._send(events.Failure(call, InvalidRequest(problem)))
            return
        self._scopes[call] = trio.CancelScope()
        nursery.start_soon(self._perform, call)

    async def _perform(self, call: events.Call) -> None:
        try:
            reply = await serve_call(self._runtime, call, self, self._scopes[call])
        finally:
            del self._scopes[call]
            if not self._scopes:
                self._idle.set()
        if call.method.streams and isinstance(reply, events.Answer):
            self._channel.write(
                self._connection.cancelled(call)
            )  # on stdio this comes before the end (SUB-08)
        self._send(reply)
        await self._channel.flush()

    def _listen(self, nursery: trio.Nursery) -> None:
        """From `notifications/initialized` on the session hears of changes."""
        if self._listener is None:
            self._listener = self._runtime.hub.listen(self._wants)
            nursery.start_soon(self._tell, self._listener)

    def _wants(self, change: events.Change) -> bool:
        return self._connection.wants(change) and scopes.may_read(
            self._runtime.app, self.principal, change.uri
        )

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
