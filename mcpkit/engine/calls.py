"""One call, from its request to the line that answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import trio

from mcpkit.context import Port
from mcpkit.engine import dispatch
from mcpkit.engine.runtime import Runtime
from mcpkit.protocol import events
from mcpkit.protocol.connection import Connection

T = TypeVar("T")


class TaskPort:
    """What the ports of all transports have in common: they are used on the engine's own thread, by tasks.
    For handlers on other threads `invoke` puts a port of their own in front.
    """

    @property
    def headers(self) -> Mapping[str, str]:
        """See `context.Port`."""
        return {}

    async def in_engine(self, function: Callable[[], Awaitable[T]]) -> T:
        """See `context.Port`."""
        return await function()

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        """See `context.Port`."""
        return await trio.to_thread.run_sync(function, *args)

    def wait_for(self, function: Callable[[], Awaitable[T]]) -> T:
        """A task must not block."""
        raise AssertionError("a port of another thread is needed")

    def send(self, event: events.Said) -> None:
        """A task must not block."""
        raise AssertionError("a port of another thread is needed")

    def check_cancelled(self) -> None:
        """A task learns of its cancellation by itself."""

    def close_stream(self) -> None:
        """There is no stream that could be resumed."""


async def serve_call(
    runtime: Runtime, call: events.Call, port: Port, scope: trio.CancelScope
) -> events.Answer | events.Failure | events.Dropped:
    """Run a call that `dispatch.answer` has left; `Dropped` when `scope` was cancelled before its answer."""
    with scope:
        return await dispatch.perform(runtime, call, port)
    return events.Dropped(call)


def to_line(runtime: Runtime, connection: Connection, event: events.Sent) -> bytes | None:
    """The message for an event; an answer that has no JSON form becomes the failure of its call."""
    try:
        return connection.send(event)
    except Exception as error:  # what a handler put into it can fail in any way when it is encoded
        assert isinstance(event, events.Answer | events.Failure)
        return connection.send(dispatch.failure(runtime, event.call, error))
