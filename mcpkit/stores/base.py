"""What processes that serve the same app can share: records (`Store`) and news (`Bus`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable


class Store(Protocol):
    """Short-lived records: sessions, sealed journals, tokens. Names are text, values bytes, times to live
    seconds.

    A store that is full, or cannot be reached, raises `StoreError`.
    """

    async def get(self, name: str) -> bytes | None:
        """The value; None when there is none, or it has expired."""
        ...

    async def put(self, name: str, value: bytes, ttl: float) -> None:
        """Write a value, over an older one. It expires after `ttl` seconds."""

    async def delete(self, name: str) -> bool:
        """Remove a value; whether there was one."""
        ...


@runtime_checkable
class Bus(Protocol):
    """Carries messages to all who listen, in every process that uses it. A store may be a bus as well: then clients
    of each process hear what changes in any of them.
    """

    def publish(self, message: bytes) -> None:
        """Send a message, soon. It never waits and never raises: a message that cannot be carried is lost."""

    def listen(self, receive: Callable[[bytes], None]) -> AbstractAsyncContextManager[None]:
        """Inside the block, call `receive` with each message, one's own included; from any thread."""
        ...


class StoreError(Exception):
    """The store is full or cannot be reached; the message says which."""
