"""What wakes those who wait for something to change."""

from __future__ import annotations

import trio


class Bell:
    """Whoever waits until it rings looks again then. It costs nearly nothing while nobody waits."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: trio.Event | None = None

    def ring(self) -> None:
        """Wake all who wait now."""
        event, self._event = self._event, None
        if event is not None:
            event.set()

    async def wait(self) -> None:
        """Wait until it rings the next time."""
        if self._event is None:
            self._event = trio.Event()
        await self._event.wait()
