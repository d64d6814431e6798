"""The user's function: how it wants to be called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal

from mcpkit.context import Context, SyncContext
from mcpkit.hints import Namespace, enclosing_frames, innermost
from mcpkit.principal import Principal
from mcpkit.signature import Signature

Mode = Literal["task", "thread", "inline", "asyncio"]
"""Where it runs: in a task, in a worker thread, at once on the engine's own thread, or on an asyncio loop in
a thread of its own.
"""

_INJECTABLE = (Context, SyncContext, Principal)


class Handler:
    """A function with its signature, which is read by `resolve`. `raw`: it takes its arguments as one object,
    undescribed. `yields`: it may be a generator, def or async def, whose values are its result, as a list.

    Raises TypeError for what cannot be called so.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        inline: bool = False,
        loop: str | None = None,
        raw: bool = False,
        yields: bool = False,
    ) -> None:
        if not callable(fn):
            raise TypeError(f"a handler is a function, a method or a callable object, not {fn!r}.")
        if inspect.isclass(fn):
            raise TypeError(
                f"it is a class: register an instance that can be called, {fn.__name__}(), or a method."
            )
        self.mode: Mode = _mode(fn, inline, loop, yields)
        self.fn = _collecting(fn) if yields else fn
        self._raw = raw
        self._frames = enclosing_frames(fn)
        self.signature: Signature
        """The signature, once it is resolved."""
        self.talks = False
        """Whether it has a context, through which it can ask and say something."""
        self.is_plain = False
        """Whether it takes the arguments and nothing else, by their names, on the engine's own thread."""
        self.resolved = False
        self.quick = True
        """Whether it took but a moment the last time; see `engine.threads`."""

    @property
    def name(self) -> str:
        """The function's own name; that of the class for a callable object."""
        fn = self.fn
        while isinstance(fn, functools.partial):
            fn = fn.func
        return getattr(fn, "__name__", None) or type(fn).__name__

    def resolve(self) -> None:
        """Read the signature. Raises NameError while its hints name what does not exist yet, TypeError for
        what cannot be served.
        """
        if self.resolved:
            return
        names: Namespace = {}
        for frame in reversed(self._frames):  # the innermost function's names win
            names.update(frame.f_locals)
        signature = Signature(self.fn, injectable=_INJECTABLE, namespace=names, raw=self._raw)
        wanted = Context if self.mode in ("task", "asyncio") else SyncContext
        for name, kind in signature.injected.items():
            if kind not in (wanted, Principal):
                how = "an async def" if wanted is Context else "a plain def"
                raise TypeError(
                    f"parameter '{name}' is a {kind.__name__}, but {how} takes a {wanted.__name__}."
                )
        self.signature = signature
        self.talks = wanted in signature.injected.values()
        self.is_plain = self.mode in ("task", "inline") and not (signature.injected or signature.positional)
        self.resolved = True
        self._frames = []  # they keep every local of the script alive


def _mode(fn: Callable[..., Any], inline: bool, loop: str | None, yields: bool) -> Mode:
    written = innermost(fn)
    streams = inspect.isasyncgenfunction(written)
    if (streams or inspect.isgeneratorfunction(written)) and not yields:
        raise TypeError("it is a generator, which would send nothing: return a list of what it yields.")
    is_async = streams or inspect.iscoroutinefunction(written)
    if loop not in (None, "asyncio") or (loop == "asyncio" and not is_async):
        raise TypeError('loop= takes only "asyncio", and only for an async def.')
    if is_async and inline:
        raise TypeError("inline=True is for a plain def; an async def runs in a task.")
    if is_async:
        return "asyncio" if loop else "task"
    return "inline" if inline else "thread"


def _collecting(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, with a list in place of a generator, so that its body runs where the handler runs."""
    written = innermost(fn)
    if inspect.isasyncgenfunction(written):

        @functools.wraps(fn)
        async def collect(*args: Any, **kwargs: Any) -> list[Any]:
            return [item async for item in fn(*args, **kwargs)]

        return collect
    if inspect.isgeneratorfunction(written):
        return functools.wraps(fn)(lambda *args, **kwargs: list(fn(*args, **kwargs)))
    return fn
