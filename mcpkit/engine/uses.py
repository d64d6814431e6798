"""One use of a tool, resource or prompt: through its rounds, in each round through the middleware, to its handler."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import Any, NamedTuple

from mcpkit import around
from mcpkit.context import Context, Dialogue, Port
from mcpkit.engine import rounds
from mcpkit.engine.invoke import invoke
from mcpkit.engine.runtime import Runtime
from mcpkit.handler import Handler
from mcpkit.protocol import events
from mcpkit.protocol.errors import McpError, NotFound
from mcpkit.questions import InputRequired
from mcpkit.registry import Record
from mcpkit.signature import Values


class Provided(NamedTuple):
    """What is none of the app's own: the providers are asked in order."""

    kind: around.Kind
    handlers: tuple[Handler, ...]
    timeout: float | None = None


Target = Record | Provided


def provided(runtime: Runtime, kind: around.Kind, method: str, unknown: McpError) -> Provided:
    """Whoever may know a name that the app does not. Raises `unknown` when there is nobody."""
    handlers = tuple(runtime.providing(method))
    if not handlers:
        raise unknown
    return Provided(kind, handlers)


async def in_rounds(
    runtime: Runtime, target: Target, name: str, values: Values, call: events.Call, port: Port
) -> Any:
    """What a handler returns that may ask the client: in one run where it can wait, else in rounds."""
    asks = runtime.way is not None or rounds.may_ask(target.handlers, call)
    dialogue = await rounds.begin(runtime, call, port) if asks else None
    while True:
        try:
            returned = await _use(runtime, target, name, values, call, port, dialogue)
        except Exception:
            if dialogue is not None:
                dialogue.check_ended()
            raise
        finally:
            if dialogue is not None:
                await dialogue.close()
        if dialogue is not None:
            dialogue.check_ended()
        if not isinstance(returned, InputRequired):
            return returned
        dialogue = await rounds.ask(call, port, dialogue or await rounds.begin(runtime, call, port), returned)


def _use(
    runtime: Runtime,
    target: Target,
    name: str,
    values: Values,
    call: events.Call,
    port: Port,
    dialogue: Dialogue | None,
) -> Awaitable[Any]:
    """One round."""
    if runtime.way is None and len(target.handlers) == 1:
        return invoke(runtime, target.handlers[0], dict(values), call, port, target.timeout, dialogue)
    return _through_middleware(runtime, target, name, values, call, port, dialogue)


async def _through_middleware(
    runtime: Runtime,
    target: Target,
    name: str,
    values: Values,
    call: events.Call,
    port: Port,
    dialogue: Dialogue | None,
) -> Any:
    async def handle(values: Values) -> Any:
        *others, last = target.handlers
        for handler in others:
            with contextlib.suppress(NotFound):
                return await invoke(runtime, handler, dict(values), call, port, target.timeout, dialogue)
        return await invoke(runtime, last, dict(values), call, port, target.timeout, dialogue)

    if runtime.way is None:
        return await handle(values)
    await runtime.ready.wait()
    ctx = Context(call, port, runtime.app, runtime.state, dialogue)
    caller = port.caller if port.principal is None else f"principal {port.principal}"
    return await runtime.way(around.Call(target.kind, name, dict(values), ctx, caller, handle))
