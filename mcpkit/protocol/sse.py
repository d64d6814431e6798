"""Server-sent events: how a message becomes an event.

Source: WHATWG HTML, "Server-sent events"; MCP 2025-11-25, Streamable HTTP.
"""

from __future__ import annotations

KEEP_ALIVE = b":\n\n"
"""A comment, which clients ignore."""


def event(message: bytes, *, id: str | None = None) -> bytes:  # noqa: A002 - the field's name
    """One event with one JSON message, which holds no line end."""
    head = f"id: {id}\n" if id is not None else ""
    return head.encode() + b"data: " + message + b"\n\n"


def named(name: str, data: bytes) -> bytes:
    """An event of the transport HTTP+SSE, where each says what it is."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


def priming(id: str, retry_ms: int) -> bytes:  # noqa: A002 - the field's name
    """The event that a resumable stream begins with: an id to resume from, no data, and how long to wait
    before reconnecting.
    """
    return f"id: {id}\nretry: {retry_ms}\ndata: \n\n".encode()
