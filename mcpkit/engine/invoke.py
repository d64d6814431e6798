"""Call the user's function: in a task, in a thread, at once, or on asyncio."""

from __future__ import annotations

import functools
import inspect
from types import CoroutineType
from typing import Any

import trio
from msgspec import UNSET

from mcpkit.context import Dialogue, Port
from mcpkit.engine.pacing import Paced
from mcpkit.engine.ports import FromThread, reached_from
from mcpkit.engine.runtime import Runtime
from mcpkit.errors import TimedOut, ToolError
from mcpkit.handler import Handler
from mcpkit.principal import Principal
from mcpkit.protocol import events
from mcpkit.signature import Values


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
    if timeout is None and handler.is_plain:
        result = handler.fn(**values)
        return await result if type(result) is CoroutineType or inspect.isawaitable(result) else result
    meta = call.params.meta
    if meta is None or meta.progress_token is UNSET:
        if timeout is None:
            return await _run(runtime, handler, values, call, port, dialogue)
        return await _limited(runtime, handler, values, call, port, timeout, dialogue)
    pace = Paced(port, runtime.background)
    try:
        return await _limited(runtime, handler, values, call, pace, timeout, dialogue)
    finally:
        pace.close()


async def _limited(
    runtime: Runtime,
    handler: Handler,
    values: Values,
    call: events.Call,
    port: Port,
    timeout: float | None,
    dialogue: Dialogue | None,
) -> Any:
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
    reached = port if handler.mode == "task" else reached_from(handler.mode, port)
    for name, kind in signature.injected.items():
        if kind is Principal:
            values[name] = _principal(port, optional=name in signature.optional)
        else:
            values[name] = kind(call, reached, runtime.app, runtime.state, dialogue)
    positional, named = signature.call_arguments(values)
    if handler.mode == "asyncio":
        return await runtime.asyncio_thread().run(functools.partial(handler.fn, *positional, **named))
    if isinstance(reached, FromThread):
        function = functools.partial(handler.fn, *positional, **named)
        result = await reached.run(handler, function, runtime.threads)
    else:
        result = handler.fn(*positional, **named)
    # A decorator that hides an async def behind a plain def still returns a coroutine.
    return await result if type(result) is CoroutineType or inspect.isawaitable(result) else result


def _principal(port: Port, *, optional: bool) -> Principal | None:
    """Who calls. Raises `ToolError` where a handler must know, and nobody is asked."""
    if port.principal is None and not optional:
        raise ToolError(
            "This needs to know who calls, and nobody is asked here: it works over HTTP, in an app with auth. (Its "
            "author can annotate the parameter with Principal | None.)"
        )
    return port.principal
