"""The tasks that run the calls of sessions over Streamable HTTP."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context

import trio

from mcpkit.engine.bell import Bell

Job = Callable[[Context, trio.CancelScope, Callable[[], None]], Awaitable[bool]]
"""Runs a call in a context, and in the task that is there, which is in a scope; whether it has waited. Before it waits
for the first time it calls the function.
"""


class Crew:
    """The tasks of `nursery` that run calls beside their requests. The first in line takes the calls that come. When
    one waits, the task is its own, with its cancel scope, and another is the first; so a call that waits for nothing
    costs no task.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._queue: deque[tuple[Job, Context]] = deque()
        self._some = Bell()
        self._follow()

    def start(self, job: Job) -> None:
        """Run a call, soon, in the context that is now."""
        self._queue.append((job, copy_context()))
        self._some.ring()

    def _follow(self) -> None:
        self._nursery.start_soon(self._lead)

    async def _lead(self) -> None:
        with trio.CancelScope() as scope:
            while not await self._run_next(scope):
                pass

    async def _run_next(self, scope: trio.CancelScope) -> bool:
        """Run the next call; whether it has waited."""
        while not self._queue:
            await self._some.wait()
        job, context = self._queue.popleft()
        return await job(context, scope, self._follow)
