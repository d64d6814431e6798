"""Call the user's function: in a task, in a thread, at once, or on asyncio."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import trio

from mcpkit.context import Dialogue, Port
from mcpkit.engine.runtime import Runtime
from mcpkit.handler import Handler
from mcpkit.protocol import events, jsonrpc
from mcpkit.signature import Values

T = TypeVar("T")


class TimedOut(Exception):
    """A handler took longer than its `timeout=`."""


async def invoke(
    runtime: Runtime,
    handler: Handler,
    values: Values,
    call: events.Call,
    port: Port,
    timeout: float | None = None,
    dialogue: Dialogue | None = None,
) -> Any:
    """What the handler returns for these values; `dialogue` is for those that may ask. Raises whatever it
    raises; `TimedOut` after `timeout` seconds.
    """
    if not runtime.ready.is_set():
        await runtime.ready.wait()
    if timeout is None:
        return await _run(runtime, handler, values, call, port, dialogue)
    with trio.move_on_after(timeout):
        return await _run(runtime, handler, values, call, port, dialogue)
    raise TimedOut(f"it did not finish within {timeout:g} s")


async def _run(
    runtime: Runtime,
    handler: Handler,
    values: Values,
    call: events.Call,
    port: Port,
    dialogue: Dialogue | None,
) -> Any:
    signature = handler.signature
    reached = _PORTS[handler.mode](port)
    for name, kind in signature.injected.items():
        values[name] = kind(call, reached, runtime.app, runtime.state, dialogue)
    positional, named = signature.call_arguments(values)
    function = functools.partial(handler.fn, *positional, **named)
    if handler.mode == "asyncio":
        return await runtime.asyncio_thread().run(function)
    if isinstance(reached, _FromThread):
        result = await reached.run(function, runtime.threads)
    else:
        result = function()
    # A decorator that hides an async def behind a plain def still returns a coroutine.
    return await result if inspect.isawaitable(result) else result


class _Relayed:
    """A port as another thread, or the engine's own thread without waiting, can use it."""

    def __init__(self, port: Port) -> None:
        self._port = port

    @property
    def headers(self) -> Mapping[str, str]:
        return self._port.headers

    def emit(self, event: events.Said) -> None:
        self._port.emit(event)

    async def drain(self) -> None:
        await self._port.drain()

    def send(self, event: events.Said) -> None:
        self._port.emit(event)

    def close_stream(self) -> None:
        self._port.close_stream()

    def check_cancelled(self) -> None:
        """Nothing can cancel a handler that holds the engine's thread."""

    async def in_engine(self, function: Callable[[], Awaitable[T]]) -> T:
        return await self._port.in_engine(function)

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        return await self._port.in_thread(function, *args)

    def wait_for(self, function: Callable[[], Awaitable[T]]) -> T:
        raise RuntimeError("an inline handler holds the engine's thread, so it cannot wait: drop inline=True")


class _FromThread(_Relayed):
    """A call that is cancelled leaves its thread behind. What the thread waits for is cancelled, too; trio would
    not do that, because it waits elsewhere.
    """

    def __init__(self, port: Port) -> None:
        super().__init__(port)
        self._waits: set[trio.CancelScope] = set()
        self._left = False

    async def run(self, function: Callable[[], T], limiter: trio.CapacityLimiter) -> T:
        """What the handler returns, from a thread."""
        try:
            return await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=limiter)
        except trio.Cancelled:
            self._left = True
            for scope in self._waits:
                scope.cancel()
            raise

    def send(self, event: events.Said) -> None:
        trio.from_thread.run(self._send, event)

    async def _send(self, event: events.Said) -> None:
        self._port.emit(event)
        await self._port.drain()

    def close_stream(self) -> None:
        trio.from_thread.run_sync(self._port.close_stream)

    def check_cancelled(self) -> None:
        trio.from_thread.check_cancelled()

    def wait_for(self, function: Callable[[], Awaitable[T]]) -> T:
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


class _FromAsyncio(_Relayed):
    """asyncio cannot wait for trio here, so its messages go without back-pressure."""

    def __init__(self, port: Port) -> None:
        super().__init__(port)
        self._token = trio.lowlevel.current_trio_token()

    def emit(self, event: events.Said) -> None:
        assert isinstance(event, events.Log | events.Progress)
        said: list[Any] = (
            [event.data, event.logger]
            if isinstance(event, events.Log)
            else [event.progress, event.total, event.message]
        )
        jsonrpc.encode(said)  # what cannot be sent must fail here, in the handler
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


_PORTS: dict[str, Callable[[Port], Port]] = {
    "task": lambda port: port,
    "thread": _FromThread,
    "inline": _Relayed,
    "asyncio": _FromAsyncio,
}
