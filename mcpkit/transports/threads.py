"""Descriptors where they cannot be waited for (Windows): a daemon thread reads, another writes.

Daemons, because a thread that is blocked in a read cannot be stopped and must not keep the process alive.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Awaitable, Callable

import trio

_READ_SIZE = 65536


def streams(
    read_fd: int, write_fd: int
) -> tuple[Callable[[], Awaitable[bytes]], Callable[[bytearray], Awaitable[None]]]:
    """The `read` and `write` of a `LineChannel` over two descriptors. Call it inside a trio loop."""
    if sys.platform != "win32":
        os.set_blocking(read_fd, True)  # they come from `descriptors.take` ready to be waited for
        os.set_blocking(write_fd, True)
    incoming, received = trio.open_memory_channel[bytes](1)
    writer = _Writer(write_fd)
    token = trio.lowlevel.current_trio_token()
    threading.Thread(
        target=_read_all, args=(read_fd, incoming, token), name="mcpkit reader", daemon=True
    ).start()
    threading.Thread(target=writer.run, name="mcpkit writer", daemon=True).start()
    return received.receive, writer.write


def _read_all(fd: int, incoming: trio.MemorySendChannel[bytes], token: trio.lowlevel.TrioToken) -> None:
    data = b"."
    while data:
        try:
            data = os.read(fd, _READ_SIZE)
        except OSError:
            data = b""
        try:
            trio.from_thread.run(incoming.send, data, trio_token=token)
        except (trio.RunFinishedError, trio.Cancelled):
            return


class _Writer:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._token = trio.lowlevel.current_trio_token()
        self._queue: queue.SimpleQueue[tuple[bytes, trio.Event]] = queue.SimpleQueue()
        self._broken = False
        self._waiting: tuple[int, trio.Event] | None = None
        """How much the thread is writing. After a cancellation the next `write` begins with these bytes, and
        waits for them instead of writing them again.
        """

    async def write(self, data: bytearray) -> None:
        while data:
            if self._waiting is None:
                self._waiting = len(data), trio.Event()
                self._queue.put((bytes(data), self._waiting[1]))
            size, written = self._waiting
            await written.wait()
            self._waiting = None
            del data[:size]
            if self._broken:
                raise trio.BrokenResourceError("the client has closed its end")

    def run(self) -> None:
        while True:
            data, written = self._queue.get()
            try:
                self._write_all(memoryview(data))
            except OSError:
                self._broken = True
            try:
                self._token.run_sync_soon(written.set)
            except trio.RunFinishedError:
                return

    def _write_all(self, data: memoryview) -> None:
        while data and not self._broken:
            data = data[os.write(self._fd, data) :]
