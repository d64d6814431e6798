"""What a handler can know about the request that it serves, and say while it runs.

A handler asks for it by annotating a parameter: `ctx: Context` in an `async def`, `ctx: SyncContext` in a
`def`. Both are safe to use unconditionally: what the client did not ask for is not sent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from mcpkit.protocol import events
from mcpkit.protocol.types import LOG_LEVELS, Implementation, LogLevel, RequestId


class Port(Protocol):
    """How a context reaches the engine that serves its call."""

    def emit(self, event: events.Progress | events.Log) -> None:
        """Put a message for the client into the outgoing buffer. Raises TypeError or ValueError for data
        without a JSON form.
        """

    async def drain(self) -> None:
        """Wait until the outgoing buffer has room."""

    def send(self, event: events.Progress | events.Log) -> None:
        """`emit` and `drain`, from a `def` handler."""

    def check_cancelled(self) -> None:
        """Raise the engine's cancellation in a `def` handler whose call was cancelled."""


class _Context:
    def __init__(self, call: events.Call, port: Port, app: Any, state: Any) -> None:
        self._call = call
        self._port = port
        self._meta: dict[str, Any] | None = None
        self.app: Any = app
        """The `App`."""
        self.state: Any = state
        """What the lifespan yielded; None without one."""

    @property
    def request_id(self) -> RequestId:
        """The id of the request, a string or an integer."""
        return self._call.id

    @property
    def method(self) -> str:
        """The method of the request, such as "tools/call"."""
        return self._call.method.name

    @property
    def revision(self) -> str:
        """The protocol revision of the request, such as "2025-11-25"."""
        return self._call.envelope.revision

    @property
    def client(self) -> Implementation | None:
        """Who asks (`.name`, `.version`, `.title`), if it said so. A client can claim anything: never decide
        on it.
        """
        return self._call.envelope.client

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client declared that it can do."""
        return self._call.envelope.capabilities

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`, applications' own keys included."""
        if self._meta is None:
            raw = self._call.raw_params
            params: dict[str, Any] = {} if isinstance(raw, msgspec.UnsetType) else msgspec.json.decode(raw)
            self._meta = params.get("_meta") or {}
        return self._meta or {}

    def _progress(self, progress: float, total: float | None, message: str | None) -> events.Progress:
        if not math.isfinite(progress) or not (total is None or math.isfinite(total)):
            raise ValueError(f"progress must be a finite number, not {progress} of {total}")
        return events.Progress(self._call, progress, total, message)

    def _log(self, level: LogLevel, data: Any, logger: str | None) -> events.Log:
        if level not in LOG_LEVELS:
            raise ValueError(f"unknown log level {level!r}: use one of {', '.join(LOG_LEVELS)}")
        return events.Log(self._call, level, data, logger)


class Context(_Context):
    """The request that an `async def` handler serves."""

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far the call is. Values that do not increase are not sent. Raises ValueError
        unless the numbers are finite.
        """
        self._port.emit(self._progress(progress, total, message))
        await self._port.drain()

    async def log(self, level: LogLevel, data: Any, logger: str | None = None) -> None:
        """Send a log message; `data` is any JSON-encodable value. Raises ValueError for an unknown level,
        TypeError for other data.
        """
        self._port.emit(self._log(level, data, logger))
        await self._port.drain()

    async def debug(self, data: Any, logger: str | None = None) -> None:
        """Log at level debug."""
        await self.log("debug", data, logger)

    async def info(self, data: Any, logger: str | None = None) -> None:
        """Log at level info."""
        await self.log("info", data, logger)

    async def warning(self, data: Any, logger: str | None = None) -> None:
        """Log at level warning."""
        await self.log("warning", data, logger)

    async def error(self, data: Any, logger: str | None = None) -> None:
        """Log at level error."""
        await self.log("error", data, logger)


class SyncContext(_Context):
    """The request that a `def` handler serves: the same methods, blocking."""

    def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far the call is. Values that do not increase are not sent. Raises ValueError
        unless the numbers are finite.
        """
        self._port.send(self._progress(progress, total, message))

    def log(self, level: LogLevel, data: Any, logger: str | None = None) -> None:
        """Send a log message; `data` is any JSON-encodable value. Raises ValueError for an unknown level,
        TypeError for other data.
        """
        self._port.send(self._log(level, data, logger))

    def debug(self, data: Any, logger: str | None = None) -> None:
        """Log at level debug."""
        self.log("debug", data, logger)

    def info(self, data: Any, logger: str | None = None) -> None:
        """Log at level info."""
        self.log("info", data, logger)

    def warning(self, data: Any, logger: str | None = None) -> None:
        """Log at level warning."""
        self.log("warning", data, logger)

    def error(self, data: Any, logger: str | None = None) -> None:
        """Log at level error."""
        self.log("error", data, logger)

    def check_cancelled(self) -> None:
        """Return if the call is still wanted; otherwise raise, so that the handler ends."""
        self._port.check_cancelled()
