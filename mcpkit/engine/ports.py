"""How a handler reaches the client, from wherever it runs: `context.Port` on the engine's own thread, and the relays
in front of it for handlers on other threads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
import trio

from mcpkit.context import Port
from mcpkit.engine.threads import Job, Threads
from mcpkit.handler import Handler, Mode
from mcpkit.principal import Principal
from mcpkit.protocol import events, jsonrpc

T = TypeVar("T")


class TaskPort:
    """What the ports of all transports have in common: they are used on the engine's own thread, by tasks.
    For handlers on other threads `reached_from` puts a port of their own in front.
    """

    @property
    def headers(self) -> Mapping[str, str]:
        """See `context.Port`."""
        return {}

    @property
    def principal(self) -> Principal | None:
        """See `context.Port`."""
        return None

    @property
    def token(self) -> str | None:
        """See `context.Port`."""
        return None

    @property
    def caller(self) -> str:
        """See `context.Port`."""
        return f"connection {id(self):x}"

    async def in_engine(self, function: Callable[[], Awaitable[T]]) -> T:
        """See `context.Port`."""
        return await function()

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        """See `context.Port`."""
        return await trio.to_thread.run_sync(function, *args)

    def wait_for(self, function: Callable[[], Awaitable[T]]) -> T:
        """A task must not block."""
        raise AssertionError("a port of another thread is needed")

    def send(self, event: events.Said) -> None:
        """A task must not block."""
        raise AssertionError("a port of another thread is needed")

    def check_cancelled(self) -> None:
        """A task learns of its cancellation by itself."""

    def close_stream(self) -> None:
        """There is no stream that could be resumed."""


class Relayed:
    """A port as another thread, or the engine's own thread without waiting, can use it."""

    def __init__(self, port: Port) -> None:
        self._port = port

    @property
    def headers(self) -> Mapping[str, str]:
        """See `context.Port`."""
        return self._port.headers

    @property
    def principal(self) -> Principal | None:
        """See `context.Port`."""
        return self._port.principal

    @property
    def token(self) -> str | None:
        """See `context.Port`."""
        return self._port.token

    @property
    def caller(self) -> str:
        """See `context.Port`."""
        return self._port.caller

    def emit(self, event: events.Said) -> None:
        """See `context.Port`."""
        self._port.emit(event)

    async def drain(self) -> None:
        """See `context.Port`."""
        await self._port.drain()

    def send(self, event: events.Said) -> None:
        """See `context.Port`."""
        self._port.emit(event)

    def close_stream(self) -> None:
        """See `context.Port`."""
        self._port.close_stream()

    def check_cancelled(self) -> None:
        """Nothing can cancel a handler that holds the engine's thread."""

    async def in_engine(self, function: Callable[[], Awaitable[T]]) -> T:
        """See `context.Port`."""
        return await self._port.in_engine(function)

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        """See `context.Port`."""
        return await self._port.in_thread(function, *args)

    def wait_for(self, function: Callable[[], Awaitable[T]]) -> T:
        """See `context.Port`."""
        raise RuntimeError("an inline handler holds the engine's thread, so it cannot wait: drop inline=True")


class FromThread(Relayed):
    """A call that is cancelled leaves its thread behind. What the thread waits for is cancelled, too; trio would
    not do that, because it waits elsewhere.
    """

    def __init__(self, port: Port) -> None:
        super().__init__(port)
        self._waits: set[trio.CancelScope] = set()
        self._left = False
        self._job: Job | None = None

    async def run(self, handler: Handler, function: Callable[[], Any], threads: Threads) -> Any:
        """What the handler's function returns, from a thread."""
        self._job = Job(handler, function)
        try:
            return await threads.run(self._job)
        except trio.Cancelled:
            self._left = True
            for scope in self._waits:
                scope.cancel()
            raise

    def send(self, event: events.Said) -> None:
        """See `context.Port`."""
        trio.from_thread.run(self._send, event)

    async def _send(self, event: events.Said) -> None:
        self._port.emit(event)
        await self._port.drain()

    def close_stream(self) -> None:
        """See `context.Port`."""
        trio.from_thread.run_sync(self._port.close_stream)

    def check_cancelled(self) -> None:
        """See `context.Port`."""
        if self._job is not None:
            self._job.check_cancelled()

    def wait_for(self, function: Callable[[], Awaitable[T]]) -> T:
        """See `context.Port`."""
        try:
            return trio.from_thread.run(self._wait, function)
        finally:
            self.check_cancelled()

    async def _wait(self, function: Callable[[], Awaitable[T]]) -> T:
        with trio.CancelScope() as scope:
            self._waits.add(scope)
            try:
                if self._left:
                    scope.cancel()
                return await function()
            finally:
                self._waits.discard(scope)
        raise AssertionError("cancelled, as `wait_for` will find")


class _FromAsyncio(Relayed):
    """asyncio cannot wait for trio here, so its messages go without back-pressure."""

    def __init__(self, port: Port) -> None:
        super().__init__(port)
        self._token = trio.lowlevel.current_trio_token()

    def emit(self, event: events.Said) -> None:
        if isinstance(event, events.Log):
            # What cannot be sent must fail here, in the handler, which may change its data afterwards.
            data = msgspec.Raw(jsonrpc.encode(event.data))
            event = events.Log(event.call, event.level, data, event.logger)
        self._token.run_sync_soon(self._port.emit, event)

    async def drain(self) -> None:
        """Nothing to wait for."""

    def close_stream(self) -> None:
        self._token.run_sync_soon(self._port.close_stream)

    async def in_engine(self, function: Callable[[], Awaitable[T]]) -> T:
        from mcpkit.engine.aio import from_trio

        return await from_trio(self._token, function)

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        import asyncio

        return await asyncio.to_thread(function, *args)


def reached_from(mode: Mode, port: Port) -> Port:
    """A call's port as a handler of this mode can use it."""
    return _KINDS[mode](port)


_KINDS: dict[Mode, Callable[[Port], Port]] = {
    "task": lambda port: port,
    "thread": FromThread,
    "inline": Relayed,
    "asyncio": _FromAsyncio,
}
