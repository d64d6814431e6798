"""Worker threads for handlers that are plain functions. They stay, so that a call starts none.

Rule 1. At most `most` functions run at the same time. Further ones wait in order, and one whose call is cancelled
        meanwhile never runs.
Rule 2. A function whose call is cancelled while it runs is left behind; its thread is busy until it has really ended.
Rule 3. Everything but `_Worker.run` happens on the engine's own thread, so nothing needs a lock.
Rule 4. Most functions end within microseconds, and waking trio's loop from a thread costs more than they do. So the
        engine itself waits for a function that was quick the last time, `PATIENCE` seconds at most, and only while no
        other one runs, which would have to share the interpreter with all three.
Rule 5. The threads are trio's: `trio.from_thread` works in handlers, and one that blocks for ever does not hold up the
        end of the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from threading import Lock
from time import perf_counter
from typing import Any

import outcome
import trio

from mcpkit.handler import Handler

QUICK = 100e-6
"""Seconds that a function may take to count as quick the next time."""

PATIENCE = 500e-6
"""Seconds that the engine stands still for a quick function, most of them for the system to wake the thread up. A
function that turns slow costs them once.
"""


class Job:
    """A call of a handler's function, for which the current task waits; it gets the task's context."""

    def __init__(self, handler: Handler, function: Callable[[], Any]) -> None:
        self.handler = handler
        self.function = function
        self.context = copy_context()
        self.result: outcome.Outcome[Any] | None = None
        self.ended = Lock()
        """Locked until there is a result."""
        self.ended.acquire()
        self.left = False
        """Whether the engine has gone on, and has to be told of the end."""
        self.noticed = False
        """Whether it has seen the end by itself."""
        self.task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        """Who waits; None once it has given up."""
        self.raise_cancel: Callable[[], Any] | None = None

    def check_cancelled(self) -> None:
        """Raise trio.Cancelled when the task has given up; for the function itself."""
        if self.raise_cancel is not None:
            self.raise_cancel()

    def ends_soon(self) -> bool:
        """Wait a moment for the end (rule 4)."""
        if self.ended.acquire(timeout=PATIENCE):
            return True
        self.left = True  # from here on the thread tells, unless it has ended in between
        return self.ended.acquire(blocking=False)


class Threads:
    """The threads of one serving; they are tasks of `nursery` until `close`."""

    def __init__(self, nursery: trio.Nursery, most: int) -> None:
        self._nursery = nursery
        self._most = most
        self._limiter = trio.CapacityLimiter(most)
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._waiting: deque[Job] = deque()

    @property
    def busy(self) -> int:
        """How many functions run, those that were left behind included."""
        return len(self._workers) - len(self._idle)

    @property
    def ready(self) -> int:
        """How many threads wait for a function."""
        return len(self._idle)

    @property
    def waiting(self) -> int:
        """How many functions have no thread yet."""
        return len(self._waiting)

    async def run(self, job: Job) -> Any:
        """What the function returns. Raises what it raises, even a SystemExit."""
        await trio.lowlevel.checkpoint_if_cancelled()

        def abort(raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
            job.raise_cancel, job.task = raise_cancel, None
            if job in self._waiting:
                self._waiting.remove(job)
            return trio.lowlevel.Abort.SUCCEEDED

        job.left = self.busy > 0 or not self._idle or not job.handler.quick
        worker = self._begin(job)
        if not job.left and job.ends_soon():
            assert worker is not None and job.result is not None
            job.noticed = True
            self._free(worker)
            return job.result.unwrap()
        return await trio.lowlevel.wait_task_rescheduled(abort)

    def close(self) -> None:
        """Let all threads end, those that are busy when they are no longer."""
        for worker in self._workers:
            worker.jobs.put(None)
            worker.scope.cancel()

    def _begin(self, job: Job) -> _Worker | None:
        """The thread that has the job, if it stood ready."""
        if self._idle:
            worker = self._idle.pop()  # the last that was busy: its memory is warm
            worker.jobs.put(job)
            return worker
        if len(self._workers) < self._most:
            worker = _Worker(self._done)
            self._workers.add(worker)
            worker.jobs.put(job)
            self._nursery.start_soon(self._employ, worker)
        else:
            self._waiting.append(job)
        return None

    async def _employ(self, worker: _Worker) -> None:
        try:
            with worker.scope:
                await trio.to_thread.run_sync(worker.run, abandon_on_cancel=True, limiter=self._limiter)
        except RuntimeError as error:  # the system has no thread left
            self._workers.remove(worker)
            job = None if worker.jobs.empty() else worker.jobs.get()  # which it was to begin with
            if job is not None and job.task is not None:
                trio.lowlevel.reschedule(job.task, outcome.Error(error))

    def _done(self, worker: _Worker, job: Job) -> None:
        """A thread says that a job has ended; what `ends_soon` has noticed already is told in vain."""
        if job.noticed:
            return
        self._free(worker)
        if job.task is not None:
            assert job.result is not None
            trio.lowlevel.reschedule(job.task, job.result)

    def _free(self, worker: _Worker) -> None:
        if self._waiting:
            worker.jobs.put(self._waiting.popleft())
        else:
            self._idle.append(worker)


class _Worker:
    """One thread: it runs what it is given, until that is None."""

    def __init__(self, done: Callable[[_Worker, Job], None]) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.scope = trio.CancelScope()
        self._done = done
        self._token = trio.lowlevel.current_trio_token()

    def run(self) -> None:
        """The thread's life."""
        while (job := self.jobs.get()) is not None:
            began = perf_counter()
            job.result = outcome.capture(job.context.run, job.function)
            job.handler.quick = perf_counter() - began < QUICK
            job.ended.release()
            if job.left:
                try:
                    self._token.run_sync_soon(self._done, self, job)
                except trio.RunFinishedError:
                    return
            del job  # whatever it holds must not stay until the next call
