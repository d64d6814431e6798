"""The access log over HTTP: an exchange that remembers what passes through it; see `engine.access`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from mcpkit.engine import access
from mcpkit.transports.http import Answering, HeaderList


class LoggedExchange:
    """An exchange for one line of the access log, which `log` writes when it is over."""

    def __init__(self, exchange: Answering) -> None:
        self.request = exchange.request
        self._exchange = exchange
        self._began = time.perf_counter()
        self._what = access.clean(f"{self.request.method} {self.request.path}")
        self._asks = False
        self.status: int | None = None
        """The status of the answer, once there is one."""
        self._last = b""
        """What was sent last: the answer is the end of a stream."""

    @property
    def started(self) -> bool:
        """See `http.Answering`."""
        return self._exchange.started

    def log(self) -> None:
        """Write the line: what was asked, the status, and what else is to be said of the answer."""
        outcome = next(
            (seen.outcome for seen in reversed(access.each(_data(self._last))) if seen.outcome), ""
        )
        if not outcome and (self._asks or self.status is None):
            outcome = "unanswered"  # the client left, or cancelled, or reads the answer from another stream
        words = ["" if self.status is None else str(self.status), outcome if outcome != "ok" else ""]
        access.write(self._what, " ".join(filter(None, words)), self._began)

    async def body(self, limit: int, seconds: float) -> bytes:
        """See `http.Exchange`."""
        data = await self._exchange.body(limit, seconds)
        seen = access.each(data)
        self._what = str(seen[0]) if len(seen) == 1 else f"batch of {len(seen)}"
        self._asks = len(seen) == 1 and seen[0].method is not None and seen[0].id is not None
        return data

    async def respond(self, status: int, headers: HeaderList, body: bytes = b"") -> None:
        """See `http.Exchange`."""
        await self._exchange.respond(status, headers, body)
        self.status, self._last = status, body

    async def start(self, status: int, headers: HeaderList, first: bytes) -> None:
        """See `http.Exchange`."""
        self.status = status
        self._keep(first)
        await self._exchange.start(status, headers, first)

    async def write(self, data: bytes) -> None:
        """See `http.Exchange`."""
        self._keep(data)
        await self._exchange.write(data)

    def _keep(self, streamed: bytes) -> None:
        """The end of a stream tells of its request only where it is one request's own."""
        if self.request.method == "POST":
            self._last = streamed

    def start_soon(self, task: Callable[[], Awaitable[object]]) -> None:
        """See `http.Exchange`."""
        self._exchange.start_soon(task)

    def on_disconnect(self, call: Callable[[], object]) -> None:
        """See `http.Exchange`."""
        self._exchange.on_disconnect(call)

    def end_with_client(self) -> None:
        """See `http.Exchange`."""
        self._exchange.end_with_client()


def _data(sent: bytes) -> bytes:
    """The last message in what was sent: the body, or the data of its last event."""
    event = sent.rstrip(b"\n").rpartition(b"\n")[2]
    return event.removeprefix(b"data: ")
