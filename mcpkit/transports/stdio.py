"""The stdio transport: one process, one client, a message a line.

Source: MCP 2025-11-25 and 2026-07-28, "stdio". Signals end the process like the end of input does, at once
and with exit code 0.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Awaitable, Callable

import trio

from mcpkit.app import App
from mcpkit.engine.runtime import running
from mcpkit.engine.serve import GRACE, Session
from mcpkit.transports import threads
from mcpkit.transports.descriptors import Descriptors, take
from mcpkit.transports.lines import MAX_MESSAGE, LineChannel

_READ_SIZE = 64 * 1024
_LARGE = 1024 * 1024
"""Bytes that a pipe is to hold, and of a read when there is more than usual."""
_CAN_WAIT = hasattr(trio.lowlevel, "FdStream")
"""Whether trio can wait for descriptors; not on Windows."""

Read = Callable[[], Awaitable[bytes]]
Write = Callable[[bytearray], Awaitable[None]]
WriteNow = Callable[[bytearray], None]


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
        if _CAN_WAIT:  # a socket's description may be shared with whoever started this process
            for fd in descriptors:
                os.set_blocking(fd, True)


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
    async with running(app) as runtime:
        if _CAN_WAIT:
            for fd in descriptors:
                _widen(fd)
            channel = LineChannel(*_waiting_streams(*descriptors), max_message=max_body)
        else:
            channel = LineChannel(*threads.streams(*descriptors), max_message=max_body)
        await Session(runtime, channel).run(GRACE if grace is None else grace)


def _widen(fd: int) -> None:
    """Let a pipe hold more than the usual 64 KiB, where the system lets us: a large message takes as many turns, of
    the client and of us, as it fills the pipe.
    """
    import fcntl  # not on Windows

    if hasattr(fcntl, "F_SETPIPE_SZ"):  # Linux
        with contextlib.suppress(OSError):  # it is no pipe, or there are many already
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _LARGE)


def _waiting_streams(read_fd: int, write_fd: int) -> tuple[Read, Write, WriteNow]:
    os.set_blocking(read_fd, False)
    os.set_blocking(write_fd, False)

    size = _READ_SIZE

    async def read() -> bytes:
        nonlocal size
        while True:
            try:
                await trio.lowlevel.wait_readable(read_fd)  # first, since usually there is nothing yet
            except (
                PermissionError
            ):  # a file, or /dev/null: there is always something to read, if only its end
                await trio.lowlevel.checkpoint()
            try:
                data = os.read(read_fd, size)
            except BlockingIOError:
                continue
            except OSError:  # a socket whose peer left without reading everything, or a terminal that is gone
                return b""
            size = _LARGE if len(data) >= _READ_SIZE else _READ_SIZE
            return data

    def write_now(data: bytearray) -> None:
        try:
            del data[: os.write(write_fd, data)]
        except BlockingIOError:
            pass
        except OSError as error:
            raise trio.BrokenResourceError("the client has closed its end") from error

    async def write(data: bytearray) -> None:
        write_now(data)
        while data:
            await trio.lowlevel.wait_writable(write_fd)
            write_now(data)

    return read, write, write_now
