"""Call the user's function: in a task, in a thread, at once, or on asyncio."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import trio

from mcpkit.context import Port
from mcpkit.engine.runtime import Runtime
from mcpkit.handler import Handler
from mcpkit.protocol import events, jsonrpc
from mcpkit.signature import Values


class TimedOut(Exception):
    """A handler took longer than its `timeout=`."""


async def invoke(
    runtime: Runtime,
    handler: Handler,
    values: Values,
    call: events.Call,
    port: Port,
    timeout: float | None = None,
) -> Any:
    """What the handler returns for these values. Raises whatever it raises; `TimedOut` after `timeout`
    seconds.
    """
    if not runtime.ready.is_set():
        await runtime.ready.wait()
    if timeout is None:
        return await _run(runtime, handler, values, call, port)
    with trio.move_on_after(timeout) as scope:
        return await _run(runtime, handler, values, call, port)
    if scope.cancelled_caught:
        raise TimedOut(f"it did not finish within {timeout:g} s")
    raise AssertionError("unreachable")


async def _run(runtime: Runtime, handler: Handler, values: Values, call: events.Call, port: Port) -> Any:
    signature = handler.signature
    for name, kind in signature.injected.items():
        values[name] = kind(call, _PORTS[handler.mode](port), runtime.app, runtime.state)
    positional, named = signature.call_arguments(values)
    function = functools.partial(handler.fn, *positional, **named)
    if handler.mode == "asyncio":
        return await runtime.asyncio_thread().run(function())
    if handler.mode == "thread":
        result = await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=runtime.threads)
    else:
        result = function()
    # A decorator that hides an async def behind a plain def still returns a coroutine.
    return await result if inspect.isawaitable(result) else result


class _Relayed:
    """A port as another thread, or the engine's own thread without waiting, can use it."""

    def __init__(self, port: Port) -> None:
        self._port = port

    def emit(self, event: events.Progress | events.Log) -> None:
        self._port.emit(event)

    async def drain(self) -> None:
        await self._port.drain()

    def send(self, event: events.Progress | events.Log) -> None:
        self._port.emit(event)

    def check_cancelled(self) -> None:
        """Nothing can cancel a handler that holds the engine's thread."""


class _FromThread(_Relayed):
    def send(self, event: events.Progress | events.Log) -> None:
        trio.from_thread.run(self._send, event)

    async def _send(self, event: events.Progress | events.Log) -> None:
        self._port.emit(event)
        await self._port.drain()

    def check_cancelled(self) -> None:
        trio.from_thread.check_cancelled()


class _FromAsyncio(_Relayed):
    """asyncio cannot wait for trio here, so its messages go without back-pressure."""

    def __init__(self, port: Port) -> None:
        super().__init__(port)
        self._token = trio.lowlevel.current_trio_token()

    def emit(self, event: events.Progress | events.Log) -> None:
        if isinstance(event, events.Log):
            jsonrpc.encode(event.data)  # what cannot be sent must fail here, in the handler
        self._token.run_sync_soon(self._port.emit, event)

    async def drain(self) -> None:
        """Nothing to wait for."""


_PORTS: dict[str, Callable[[Port], Port]] = {
    "task": lambda port: port,
    "thread": _FromThread,
    "inline": _Relayed,
    "asyncio": _FromAsyncio,
}
