"""What carries the messages of one client."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from mcpkit.protocol.lines import Oversized


class Channel(Protocol):
    """What carries the messages of one client, each a JSON text without its line end."""

    async def receive(self) -> Sequence[bytes | Oversized] | None:
        """The messages that have come; None at the end."""

    def write(self, message: bytes) -> None:
        """Put a message into the outgoing buffer."""

    def flush_now(self) -> bool:
        """Send the buffer where that needs no waiting; whether all of it is out. Raises like `flush`."""
        ...

    def flush(self, *, at_once: bool = False) -> Coroutine[Any, Any, None]:
        """Let the buffer go out, with what is written in this pass of the scheduler unless `at_once`, and while it
        does. Raises trio.BrokenResourceError when the client has gone.
        """
        ...

    async def drain(self) -> None:
        """Wait until the buffer is small enough to go on."""
