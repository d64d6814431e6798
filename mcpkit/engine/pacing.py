"""Progress as fast as a client can use it.

Rule 1. `BURST` values go out at once, then `PER_SECOND`; below that nothing is held back.
Rule 2. What comes faster waits, and only the newest value does.
Rule 3. The last value goes out before the answer, and nothing after it.

Source: MCP, "Progress": "Both parties SHOULD implement rate limiting" (PROG-04).
"""

from __future__ import annotations

import trio

from mcpkit.context import Port
from mcpkit.engine.ports import Relayed
from mcpkit.protocol import events

BURST = 50
PER_SECOND = 20.0


class Paced(Relayed):
    """The port of a call whose client wants progress: a bucket of tokens that fills again."""

    def __init__(self, port: Port, background: trio.Nursery) -> None:
        super().__init__(port)
        self._background = background
        self._tokens = float(BURST)
        self._counted = trio.current_time()
        self._held: events.Progress | None = None
        self._over = False

    def emit(self, event: events.Said) -> None:
        """See `context.Port`; progress may wait."""
        if not isinstance(event, events.Progress):
            self._port.emit(event)
        elif self._over:
            pass  # a handler that was left behind goes on
        elif self._held is not None:
            if event.progress > self._held.progress:
                self._held = event
        elif self._wait() <= 0:
            self._spend(event)
        else:
            self._held = event
            self._background.start_soon(self._release_later)

    def close(self) -> None:
        """Let what is held go out, and nothing more."""
        self._over = True
        self._release()

    def _release(self) -> None:
        event, self._held = self._held, None
        if event is not None:
            self._spend(event)

    async def _release_later(self) -> None:
        await trio.sleep(max(0.0, self._wait()))  # a handler may have held the engine
        self._release()

    def _wait(self) -> float:
        """Seconds until there is a token."""
        now = trio.current_time()
        self._tokens = min(float(BURST), self._tokens + (now - self._counted) * PER_SECOND)
        self._counted = now
        return (1 - self._tokens) / PER_SECOND

    def _spend(self, event: events.Progress) -> None:
        self._tokens -= 1
        self._port.emit(event)
