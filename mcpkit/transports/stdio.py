"""The stdio transport: one process, one client, a message a line.

Source: MCP 2025-11-25 and 2026-07-28, "stdio". Signals end the process like the end of input does, at once
and with exit code 0.
"""

from __future__ import annotations

import functools
import os
import queue
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import NoReturn

import trio

from mcpkit.app import App
from mcpkit.engine.runtime import running
from mcpkit.engine.serve import GRACE, Session
from mcpkit.transports.descriptors import Descriptors, take
from mcpkit.transports.lines import MAX_MESSAGE, LineChannel

_READ_SIZE = 65536
_HAS_FD_STREAM = hasattr(trio.lowlevel, "FdStream")

Read = Callable[[], Awaitable[bytes]]
Write = Callable[[bytearray], Awaitable[None]]


def run(
    app: App,
    *,
    descriptors: Descriptors | None = None,
    max_body: int = MAX_MESSAGE,
    grace: float | None = None,
) -> None:
    """Serve until the client stops sending or a signal comes. `descriptors` are those that `take` gave, when
    it was called before.
    """
    descriptors = descriptors or take()
    try:
        trio.run(functools.partial(_run, app, descriptors, max_body, grace))
    finally:
        if _HAS_FD_STREAM:
            for fd in descriptors:
                os.set_blocking(
                    fd, True
                )  # a socket's description may be shared with whoever started this process


async def serve(app: App, *, max_body: int = MAX_MESSAGE, grace: float | None = None) -> None:
    """Like `run`, inside a trio loop; the caller handles signals."""
    await _serve(app, take(), max_body, grace)


async def _run(app: App, descriptors: Descriptors, max_body: int, grace: float | None) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(_end_on_signal, nursery.cancel_scope)
        await _serve(app, descriptors, max_body, grace)
        nursery.cancel_scope.cancel()


async def _end_on_signal(
    scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """The first signal ends serving; a second one finds the system's own handlers again, for a process that
    does not end.
    """
    if threading.current_thread() is not threading.main_thread():
        task_status.started()  # only the main thread may handle signals
        return
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        await anext(aiter(signals))
    scope.cancel()


async def _serve(app: App, descriptors: Descriptors, max_body: int, grace: float | None) -> None:
    streams = _posix_streams if _HAS_FD_STREAM else _thread_streams
    async with running(app) as runtime:
        channel = LineChannel(*streams(descriptors), max_body)
        await Session(runtime, channel).run(GRACE if grace is None else grace)


# -- Where descriptors can be waited for -------------------------------------------------


def _posix_streams(descriptors: Descriptors) -> tuple[Read, Write]:
    for fd in descriptors:
        os.set_blocking(fd, False)

    async def read() -> bytes:
        await trio.lowlevel.checkpoint()
        while True:
            try:
                return os.read(descriptors.read, _READ_SIZE)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(descriptors.read)

    async def write(data: bytearray) -> None:
        while data:
            try:
                del data[: os.write(descriptors.write, data)]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(descriptors.write)
            except OSError as error:
                raise trio.BrokenResourceError("the client has closed its end") from error

    return read, write


# -- Where they cannot (Windows): two daemon threads -------------------------------------


def _thread_streams(descriptors: Descriptors) -> tuple[Read, Write]:
    token = trio.lowlevel.current_trio_token()
    incoming, received = trio.open_memory_channel[bytes](1)
    outgoing: queue.SimpleQueue[tuple[bytes, trio.Event]] = queue.SimpleQueue()
    broken = threading.Event()

    def read_all() -> None:
        try:
            while True:
                data = _read_or_end(descriptors.read)
                trio.from_thread.run(incoming.send, data, trio_token=token)
                if not data:
                    return
        except trio.RunFinishedError:
            pass

    def write_all() -> NoReturn:
        while True:
            data, done = outgoing.get()
            try:
                while data and not broken.is_set():
                    data = data[os.write(descriptors.write, data) :]
            except OSError:
                broken.set()
            try:
                token.run_sync_soon(done.set)
            except trio.RunFinishedError:
                raise SystemExit from None

    async def write(data: bytearray) -> None:
        done = trio.Event()
        outgoing.put((bytes(data), done))
        data.clear()
        await done.wait()
        if broken.is_set():
            raise trio.BrokenResourceError("the client has closed its end")

    for target in (read_all, write_all):
        threading.Thread(target=target, name=f"mcpkit {target.__name__}", daemon=True).start()
    return received.receive, write


def _read_or_end(fd: int) -> bytes:
    try:
        return os.read(fd, _READ_SIZE)
    except OSError:
        return b""
