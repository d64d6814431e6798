"""Middleware: code of the user around every use of a tool, resource or prompt.

    request -> arguments are bound -> first middleware -> … -> last middleware -> handler
                                            result <- … <- result <-

Rule 1. A middleware sees what a handler sees: typed arguments, the value that comes back, the exception that is
        raised. What it returns or raises stands for the handler's.
Rule 2. What never reaches a handler (an unknown name, arguments that do not fit) reaches no middleware.
Rule 3. A handler that asks the client runs in rounds in the stateless era, and its middleware with it. A round that
        ends with questions raises a `BaseException` that `except Exception` lets through.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal

from mcpkit.context import Context
from mcpkit.principal import Principal

Kind = Literal["tool", "resource", "prompt"]


class Call:
    """One use of a tool, resource or prompt, on its way to the handler.

    `kind` is "tool", "resource" or "prompt". `name` is the name of the tool or prompt, or the URI of the resource as
    the client wrote it. `arguments` are what the handler gets, by parameter; they may be changed. `ctx` is the
    request: who asks, in which revision, its `_meta`; through it a middleware can also log to the client, and ask.
    """

    def __init__(
        self,
        kind: Kind,
        name: str,
        arguments: dict[str, Any],
        ctx: Context,
        caller: str,
        serve: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> None:
        self.kind: Kind = kind
        self.name = name
        self.arguments = arguments
        self.ctx = ctx
        self.caller = caller
        """What tells callers apart: the principal, or where nobody is asked who they are the session, the client's
        address over HTTP in the stateless era, the connection elsewhere.
        """
        self._serve = serve

    @property
    def principal(self) -> Principal | None:
        """Who calls; None where nobody is asked: on stdio, and in an app without auth."""
        return self.ctx.principal

    def __repr__(self) -> str:
        return f"<Call {self.kind} {self.name!r}>"


CallNext = Callable[[Call], Awaitable[Any]]
"""The rest of the way: what comes back is what the handler returns, before it becomes a result of the protocol."""

Middleware = Callable[[Call, CallNext], Awaitable[Any]]


def stack(middleware: Iterable[Middleware]) -> CallNext:
    """The whole way through these, the first outermost, to the handler."""
    way: CallNext = _handle
    for layer in reversed(tuple(middleware)):
        way = _layered(layer, way)
    return way


def _layered(layer: Middleware, inner: CallNext) -> CallNext:
    async def through(call: Call) -> Any:
        came = False

        async def call_next(call: Call) -> Any:
            nonlocal came
            result = await inner(call)
            came = came or result is not None
            return result

        result = await layer(call, call_next)
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError(f"middleware '{_name(layer)}' returned a coroutine: await call_next(call).")
        if result is None and came:
            raise TypeError(
                f"middleware '{_name(layer)}' lost the result: end it with return await call_next(call)."
            )
        return result

    return through


def _name(layer: Any) -> str:
    return getattr(layer, "__name__", None) or type(layer).__name__


async def _handle(call: Call) -> Any:
    if not isinstance(call, Call):
        raise TypeError(f"call_next takes the call that the middleware was given, not {call!r}")
    return await call._serve(dict(call.arguments))


def check(fn: Any) -> None:
    """Raise TypeError for what cannot be a middleware."""
    name = _name(fn)
    if inspect.isclass(fn):
        raise TypeError(f"middleware '{name}' is a class: register an instance, app.middleware({name}()).")
    if not (inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))):  # noqa: B004
        raise TypeError(f"middleware '{name}' is no async function: write async def {name}(call, call_next).")
    try:
        inspect.signature(fn).bind("call", "call_next")
    except TypeError:
        raise TypeError(f"middleware '{name}' takes two arguments: the call, and call_next.") from None
