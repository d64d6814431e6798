"""One call, from its request to the line that answers it."""

from __future__ import annotations

import trio

from mcpkit.context import Port
from mcpkit.engine import dispatch
from mcpkit.engine.runtime import Runtime
from mcpkit.protocol import events
from mcpkit.protocol.connection import Connection


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
