"""Drive one connection over one channel: read, decide, answer.

Rule 1. What can be answered without user code is answered while reading, and the answers to one read leave in
        one write.
Rule 2. Each other call has a task and a cancel scope of its own, so that pings and cancellations get through
        whatever handlers do.
Rule 3. Nothing that a client sends and nothing that a handler raises ends the connection; only its end of
        file, a broken channel, or the caller's cancellation does.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

import trio

from mcpkit.engine import dispatch
from mcpkit.engine.runtime import Runtime
from mcpkit.protocol import events
from mcpkit.protocol.connection import Connection
from mcpkit.protocol.errors import InternalError
from mcpkit.protocol.lines import Oversized

GRACE = 0.5
"""Seconds that calls may go on after the client has stopped sending."""

_FLUSH_SECONDS = 1.0

_log = logging.getLogger("mcpkit")


class Channel(Protocol):
    """What carries the messages of one client, each a JSON text without its line end."""

    async def receive(self) -> Sequence[bytes | Oversized] | None:
        """The messages that have come; None at the end."""

    def write(self, message: bytes) -> None:
        """Put a message into the outgoing buffer."""

    async def flush(self) -> None:
        """Let the buffer go out; what is written while it does goes along. Raises trio.BrokenResourceError
        when the client has gone.
        """

    async def drain(self) -> None:
        """Wait until the buffer is small enough to go on."""


class Session:
    """One client, served from its first message to its last. It is the `context.Port` of its calls."""

    def __init__(self, runtime: Runtime, channel: Channel) -> None:
        self._runtime = runtime
        self._channel = channel
        self._connection = Connection(runtime.identity)
        self._scopes: dict[events.Call, trio.CancelScope] = {}
        self._idle = trio.Event()

    async def run(self, grace: float = GRACE) -> None:
        """Serve until the client stops sending, then let calls finish for `grace` seconds, and cancel what is
        left.
        """
        try:
            async with trio.open_nursery() as nursery:
                await self._read(nursery)
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
            else:
                self._send(event)

    def _begin(self, call: events.Call, nursery: trio.Nursery) -> None:
        reply = dispatch.answer(self._runtime, call)
        if reply is not None:
            self._send(reply)
            return
        self._scopes[call] = trio.CancelScope()
        nursery.start_soon(self._perform, call)

    async def _perform(self, call: events.Call) -> None:
        reply: events.Answer | events.Failure | events.Dropped = events.Dropped(call)
        scope = self._scopes[call]
        try:
            with scope:
                reply = await dispatch.perform(self._runtime, call, self)
        except BaseExceptionGroup as error:
            if error.subgroup(trio.Cancelled) is not None:
                raise
            _log.error("%s failed while it was cancelled", call.method.name, exc_info=error)
        finally:
            del self._scopes[call]
            if not self._scopes:
                self._idle.set()
        self._send(reply)
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
        try:
            line = self._connection.send(event)
        except (TypeError, ValueError, RecursionError) as error:
            assert isinstance(event, events.Answer | events.Failure)
            _log.error("%s: the answer cannot be sent", event.call.method.name, exc_info=error)
            line = self._connection.send(events.Failure(event.call, InternalError()))
        if line is not None:
            self._channel.write(line)

    # -- The port of contexts ------------------------------------------------------------

    def emit(self, event: events.Progress | events.Log) -> None:
        """Put a message about a running call into the outgoing buffer. Raises TypeError or ValueError when it
        has no JSON form.
        """
        line = self._connection.send(event)
        if line is not None:
            self._channel.write(line)

    async def drain(self) -> None:
        """Let what was written go out."""
        await self._channel.flush()
        await self._channel.drain()

    def send(self, event: events.Progress | events.Log) -> None:
        """Only for handlers on another thread: `invoke` gives them a port of their own."""
        raise AssertionError("a port of another thread is needed")

    def check_cancelled(self) -> None:
        """Only for handlers on another thread."""
        raise AssertionError("a port of another thread is needed")
