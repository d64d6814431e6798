"""The line that answers a call."""

from __future__ import annotations

from mcpkit.engine import dispatch
from mcpkit.engine.runtime import Runtime
from mcpkit.protocol import events
from mcpkit.protocol.connection import Connection


def to_line(runtime: Runtime, connection: Connection, event: events.Sent) -> bytes | None:
    """The message for an event; an answer that has no JSON form becomes the failure of its call."""
    try:
        return connection.send(event)
    except Exception as error:  # what a handler put into it can fail in any way when it is encoded
        assert isinstance(event, events.Answer | events.Failure)
        return connection.send(dispatch.failure(runtime, event.call, error))
