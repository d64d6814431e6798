"""A server as a real process, spoken to in raw lines."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec

import pytest
import trio
import trio.testing

P = ParamSpec("P")
HOUR = 3600.0
SECONDS = 20.0
"""How long a test waits for what must come."""

STATELESS = "2026-07-28"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
REVISIONS = (*HANDSHAKE, STATELESS)
PREFIX = "io.modelcontextprotocol/"

SERVER = os.environ.get("MCPKIT_TEST_SERVER", "auto")
"""What serves over HTTP in the tests: "auto", "hypercorn", or "uvicorn" with the app mounted in it."""
IN_PROCESS = "hypercorn" if SERVER == "hypercorn" else "auto"
"""The same for `app.serve`: uvicorn is a process of its own."""
_SERVING = {
    "auto": (sys.executable, "-m", "mcpkit", "run"),
    "hypercorn": (sys.executable, "-m", "mcpkit", "run", "--server", "hypercorn"),
    "uvicorn": (sys.executable, str(Path(__file__).parent / "hosts" / "in_uvicorn.py"), "run"),
}
SERVING = _SERVING[SERVER]
"""How to start a server in a process of its own: target and options follow."""


def otherwise(server: str, reason: str) -> pytest.MarkDecorator:
    """For what a server does in another way that is its own business, and not that of our code in it."""
    return pytest.mark.skipif(server == SERVER, reason=f"{server} {reason}")


NO_SUCH_METHOD = otherwise("uvicorn", "refuses methods that it does not know before anybody else sees them")
OVER_HTTP = pytest.mark.over_http
STDIO_AND_HTTP = ["stdio", pytest.param("http", marks=OVER_HTTP)]


def meta(revision: str = STATELESS, **more: Any) -> dict[str, Any]:
    """The `_meta` of a stateless request."""
    return {PREFIX + "protocolVersion": revision, PREFIX + "clientCapabilities": {}, **more}


def request(
    id: Any, method: str, params: dict[str, Any] | None = None, *, revision: str = "2025-11-25"
) -> dict[str, Any]:
    """A request as the revision wants it."""
    params = dict(params or {})
    if revision == STATELESS:
        params["_meta"] = {**meta(), **params.get("_meta", {})}
    return {"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params else {})}


def initialize(revision: str, id: Any = "init", capabilities: dict[str, Any] | None = None) -> dict[str, Any]:
    """An `initialize` request."""
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": revision, "capabilities": capabilities or {}, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}


def owned_time(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an async test on a clock that jumps to the next thing that happens."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def limited() -> None:
            with trio.fail_after(1000 * HOUR):
                await test(*args, **kwargs)

        trio.run(limited, clock=trio.testing.MockClock(autojump_threshold=0), strict_exception_groups=True)

    return run


class Server:
    """A process that speaks the protocol on its standard streams. Standard error is collected, unless `stderr`
    says otherwise.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        stderr: Any = None,
    ) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if stderr is None else stderr,
            cwd=cwd,
            env={**os.environ, **(env or {})},
        )
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self.raw_output: list[bytes] = []
        self._errors: list[bytes] = []
        self._threads = [threading.Thread(target=self._read, daemon=True)]
        if stderr is None:
            self._threads.append(threading.Thread(target=self._read_errors, daemon=True))
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.raw_output.append(line)
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._errors.append(line)

    def send(self, *messages: Any) -> None:
        """Send messages; bytes as they are, anything else as a line of JSON. All leave in one write."""
        assert self.process.stdin is not None
        data = b"".join(m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages)
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self, seconds: float = SECONDS) -> Any:
        """The next message; None at the end of the stream. Raises TimeoutError, with what the server said on
        standard error.
        """
        try:
            line = self._lines.get(timeout=seconds)
        except Empty:
            raise TimeoutError(f"nothing came; standard error: {self.errors[-2000:]}") from None
        return None if line is None else json.loads(line)

    def receive_until(self, id: Any) -> tuple[Any, list[Any]]:
        """The response with this id, and everything that came before it."""
        before: list[Any] = []
        while True:
            message = self.receive()
            assert message is not None, f"the server has gone; standard error: {self.errors[-2000:]}"
            if (
                isinstance(message, dict)
                and "method" not in message
                and message.get("id") == id
                and type(message["id"]) is type(id)
            ):
                return message, before
            before.append(message)

    def ask(
        self, id: Any, method: str, params: dict[str, Any] | None = None, *, revision: str = "2025-11-25"
    ) -> Any:
        """Send a request and return its response."""
        self.send(request(id, method, params, revision=revision))
        return self.receive_until(id)[0]

    def start(self, revision: str) -> Any:
        """Do what a client of this revision does first; the result of `initialize` or `server/discover`."""
        if revision == STATELESS:
            return self.ask("discover", "server/discover", revision=STATELESS)["result"]
        self.send(initialize(revision))
        reply = self.receive_until("init")[0]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return reply["result"]

    def close_input(self) -> None:
        """Send the end of file."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self, seconds: float = SECONDS) -> int:
        """The exit code."""
        code = self.process.wait(seconds)
        for thread in self._threads:
            thread.join(seconds)
        return code

    @property
    def errors(self) -> str:
        """What came on standard error so far."""
        return b"".join(self._errors).decode(errors="replace")

    def end(self) -> None:
        """Stop the process, if it has not ended."""
        with contextlib.suppress(OSError):
            self.close_input()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for thread in self._threads:
            thread.join(5)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@contextlib.contextmanager
def serving(target: str | Path, *options: str, **process: Any) -> Iterator[Server]:
    """`mcpkit run TARGET`, as a client would start it."""
    server = Server([sys.executable, "-m", "mcpkit", "run", str(target), *options], **process)
    try:
        yield server
    finally:
        server.end()
