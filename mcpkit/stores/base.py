"""What a store can do. Everything in it is bytes under a name, and everything expires."""

from __future__ import annotations

from typing import Protocol


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


class StoreError(Exception):
    """The store is full or cannot be reached; the message says which."""
