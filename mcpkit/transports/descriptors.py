"""Descriptors 0, 1 and 2 of a process that speaks the protocol on its standard streams.

`take` moves the protocol to private descriptors before the user's script is imported. What the script, its
libraries and its child processes then print goes to standard error, and what they read is empty, so that
nothing but the protocol reaches the client (STD-01).

Rule 1. The parent's terminal must never be left non-blocking, which happens when O_NONBLOCK is set on a
        description that is shared with it. So a pipe or terminal is opened anew. A socket cannot be opened
        anew, and a regular file must not be (its offset would start again).
Rule 2. A client that does not read standard error must not stop the server: Python's own output gives up on a
        full pipe after a second. What C code and child processes write there blocks them, as it would
        anywhere.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import stat
import sys
from typing import NamedTuple

_PATIENCE_SECONDS = 1.0


class Descriptors(NamedTuple):
    """Private descriptors: the client's messages come from `read`, its answers go to `write`."""

    read: int
    write: int


_taken = False


def take() -> Descriptors:
    """Move the protocol away from descriptors 0 and 1. Raises RuntimeError when that was done already."""
    global _taken  # the descriptors are the process's, too
    if _taken:
        raise RuntimeError(
            "Standard input and output are being served already. Put app.run() under `if __name__ == '__main__':` "
            "in a script that `mcpkit run` serves."
        )
    _taken = True
    _fill_standard()
    taken = Descriptors(_private(0, os.O_RDONLY), _private(1, os.O_WRONLY))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")  # drops what was buffered
    _speak_on_stderr()
    return taken


def _fill_standard() -> None:
    """With one of 0 to 2 closed, the next file opened would take its number."""
    while (null := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(null, True)
    os.close(null)


def _private(fd: int, flags: int) -> int:
    if sys.platform == "win32":
        import msvcrt

        private = os.dup(fd)
        msvcrt.setmode(private, os.O_BINARY)
        return private
    mode = os.fstat(fd).st_mode
    paths = [f"/proc/self/fd/{fd}"] if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) else []
    if os.isatty(fd):
        paths.append(os.ttyname(fd))  # where there is no /proc
    for path in paths:
        with contextlib.suppress(OSError):
            return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    return os.dup(fd)


def _speak_on_stderr() -> None:
    """Standard error for print(), logging and tracebacks: UTF-8, line by line, never blocking for long."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # None, where it was closed at the start
        sys.stdout.flush()  # what was printed before belongs there as well
    raw = _Patient(2) if hasattr(select, "poll") else io.FileIO(2, "w", closefd=False)
    sys.stdout = sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )


class _Patient(io.RawIOBase):
    """Writes to a descriptor; text that a full pipe does not take within a second is dropped, and after that
    at once, until it is read again.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._patience = _PATIENCE_SECONDS

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]
        size = len(view)
        while view and self._has_room():
            try:
                view = view[os.write(self._fd, view[: select.PIPE_BUF]) :]
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EINTR):
                    break
        return size

    def _has_room(self) -> bool:
        """Whether a write of at most PIPE_BUF bytes will not block (POSIX: a pipe that is ready for writing
        has that much room).
        """
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        ready = bool(poll.poll(self._patience * 1000))
        self._patience = _PATIENCE_SECONDS if ready else 0.0
        return ready
