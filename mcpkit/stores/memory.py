"""A store in this process's memory."""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import trio

from mcpkit.stores.base import StoreError

MAX_ENTRIES = 100_000


class MemoryStore:
    """A `Store` and a `Bus` for one process. It holds at most `max_entries`; what has expired makes room first."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._values: dict[str, tuple[bytes, float]] = {}
        self._expiries: list[tuple[float, str]] = []
        self._listeners: list[Callable[[bytes], None]] = []

    async def get(self, name: str) -> bytes | None:
        """See `Store`."""
        self._expire()
        found = self._values.get(name)
        return None if found is None else found[0]

    async def put(self, name: str, value: bytes, ttl: float) -> None:
        """See `Store`."""
        self._expire()
        if name not in self._values and len(self._values) >= self._max_entries:
            raise StoreError(f"The store is full: it holds {self._max_entries:,} entries")
        expiry = trio.current_time() + ttl
        self._values[name] = (value, expiry)
        heapq.heappush(self._expiries, (expiry, name))
        if len(self._expiries) > 2 * len(self._values) + 64:  # names that were written again and again
            self._expiries = [(expiry, name) for name, (_, expiry) in self._values.items()]
            heapq.heapify(self._expiries)

    async def delete(self, name: str) -> bool:
        """See `Store`."""
        self._expire()
        return self._values.pop(name, None) is not None

    def publish(self, message: bytes) -> None:
        """See `Bus`."""
        for receive in tuple(self._listeners):
            receive(message)

    @asynccontextmanager
    async def listen(self, receive: Callable[[bytes], None]) -> AsyncGenerator[None]:
        """See `Bus`."""
        self._listeners.append(receive)
        try:
            yield
        finally:
            self._listeners.remove(receive)

    def _expire(self) -> None:
        now = trio.current_time()
        while self._expiries and self._expiries[0][0] <= now:
            expiry, name = heapq.heappop(self._expiries)
            if name in self._values and self._values[name][1] == expiry:
                del self._values[name]
