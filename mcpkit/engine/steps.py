"""Run a coroutine in the task that is there, and learn when it waits for the first time."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeVar

import trio

T = TypeVar("T")


@types.coroutine
def here(
    coroutine: Coroutine[Any, Any, T], on_wait: Callable[[], None], context: Context | None = None
) -> Generator[Any, Any, T]:
    """What `coroutine` returns, run in this task but in a context of its own, as if it had a task: in `context`, or a
    copy of the one that is there.

    `on_wait` is called before it waits for the first time, or never when it does not. After that this task is as good
    as the coroutine's own: its context is that of the coroutine.
    """
    if context is None:  # an empty one is false
        context = copy_context()
    try:
        trap = context.run(coroutine.send, None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    on_wait()
    trio.lowlevel.current_task().context = context  # from the next step on
    while True:
        try:
            sent = yield trap
        except BaseException as error:
            resume = partial(coroutine.throw, error)
        else:
            resume = partial(coroutine.send, sent)
        try:
            trap = resume()
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
