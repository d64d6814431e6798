"""A server as a real process, known by what it prints."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support import SECONDS, SERVING

TESTS = Path(__file__).parents[1]
APPS = TESTS / "hosts" / "apps.py"
MCPKIT = (*SERVING, "--transport", "http", "--port", "0")
UVICORN = (sys.executable, "-m", "uvicorn", "--host", "127.0.0.1", "--port", "0", "--loop")
HYPERCORN = (sys.executable, "-m", "hypercorn", "--bind", "127.0.0.1:0", "--graceful-timeout", "1", "-k")


class Process:
    """Both of its output streams are read together, line by line."""

    def __init__(self, command: Sequence[str], **env: str) -> None:
        path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
        environ = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **env}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
        )
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._add(line.decode(errors="replace"))
        self._add(None)

    def _add(self, line: str | None) -> None:
        with self._changed:
            if line is None:
                self._ended = True
            else:
                self._lines.append(line)
            self._changed.notify_all()

    @property
    def output(self) -> str:
        """What it has printed so far."""
        with self._changed:
            return "".join(self._lines)

    def count(self, pattern: str) -> int:
        """In how many of the lines so far the pattern is found."""
        with self._changed:
            return len(self._found(pattern))

    def expect(self, pattern: str, *, times: int = 1) -> re.Match[str]:
        """Wait until it has printed `times` lines in which the pattern is found; the match in the last of them."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or len(self._found(pattern)) >= times, SECONDS)
            found = self._found(pattern)
            assert len(found) >= times, f"{pattern!r} was not printed {times} times:\n{''.join(self._lines)}"
            return found[times - 1]

    def _found(self, pattern: str) -> list[re.Match[str]]:
        return [match for line in self._lines if (match := re.search(pattern, line))]

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Ask it to end."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit code, once it has ended and all its output has been read."""
        code = self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        return code

    def end(self) -> None:
        """Make sure that it has ended."""
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def started(command: Sequence[str], **env: str) -> Iterator[Process]:
    """The process inside the block."""
    process = Process(command, **env)
    try:
        yield process
    finally:
        process.end()


@contextmanager
def serving_http(target: str | Path, *options: str) -> Iterator[tuple[Process, str]]:
    """`mcpkit run TARGET` over HTTP on a free port: the process and the URL of its endpoint."""
    with started([*MCPKIT, str(target), *options]) as process:
        yield process, process.expect(r"serving (http\S+)")[1]
