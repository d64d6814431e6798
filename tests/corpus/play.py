"""Plays conversations of the corpus over a connection that carries lines, and keeps what came back."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import trio
from pairs import Case, Conversation, at, cases

from mcpkit.transports.memory import connect
from mcpkit.transports.wire import Wire

HERE = Path(__file__).parent
PATIENCE = 10.0
"""Seconds to wait for a line; only a server that fails lets us wait that long."""

_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
_FENCES: dict[str, dict[str, Any]] = {
    "handshake": {"method": "ping"},
    "stateless": {"method": "server/discover", "params": {"_meta": _META}},
}


class Link(Protocol):
    """One connection to a server."""

    async def send(self, line: bytes) -> None:
        """Send a line, its end included."""

    async def receive(self) -> bytes:
        """The next line; nothing at the end."""
        ...

    async def close(self) -> None:
        """Send the end of file; what was being answered still comes."""


Opener = Callable[[str], AbstractAsyncContextManager[Link]]


async def play(conversation: Conversation, connect: Opener) -> dict[str, list[Any]]:
    """The lines that came back for each case, decoded; a line that is no JSON stays bytes.

    What comes too late counts for the case that is played then, or for the last one.
    """
    answers: dict[str, list[Any]] = {}
    captured: dict[str, Any] = {}
    async with connect(conversation.server) as link:
        for name in conversation.names:
            case = cases()[name]
            answers[name] = await _play_case(case, link, captured)
            if answers[name]:
                captured |= {key: at(answers[name][-1], pointer) for key, pointer in case.capture.items()}
        await link.close()
        await _collect(link, answers[conversation.names[-1]], lambda: False)
    return answers


async def _play_case(case: Case, link: Link, captured: dict[str, Any]) -> list[Any]:
    for line in case.lines(captured):
        await link.send(line)
    lines: list[Any] = []
    await _collect(link, lines, lambda: len(lines) >= len(case.replies))
    fence = {"jsonrpc": "2.0", "id": f"fence of {case.name}", **_FENCES[case.era]}
    await link.send(json.dumps(fence).encode() + b"\n")
    await _collect(link, lines, lambda: bool(lines) and _answers(lines[-1], fence["id"]))
    if not (lines and _answers(lines[-1], fence["id"])):
        raise RuntimeError(f"the server stopped answering at {case.name}, after {lines}")
    return [line for line in lines if not _answers(line, fence["id"])]


async def _collect(link: Link, lines: list[Any], enough: Callable[[], bool]) -> None:
    with trio.move_on_after(PATIENCE):
        while not enough():
            line = await link.receive()
            if not line:
                return
            lines.append(_decoded(line))


def _decoded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line


def _answers(line: Any, request_id: object) -> bool:
    return isinstance(line, dict) and line.get("id") == request_id


def script_of(variant: str) -> str:
    """The module that holds a variant of the reference server."""
    return {"full": "reference", "many": "many", "verbatim": "verbatim"}.get(variant, "small")


# -- Memory -----------------------------------------------------------------------------------------------


class _Memory:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def send(self, line: bytes) -> None:
        self._wire.send(line)

    async def receive(self) -> bytes:
        return await self._wire.receive() or b""

    async def close(self) -> None:
        self._wire.close()


@asynccontextmanager
async def memory(variant: str) -> AsyncIterator[Link]:
    """The variant's app in this process."""
    app = getattr(importlib.import_module(script_of(variant)), variant.replace("-", "_"))
    async with connect(app) as wire:
        yield _Memory(wire)


# -- stdio ---------------------------------------------------------------------------------------------------


class _Pipes:
    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._buffer = b""

    async def send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send_all(line)

    async def receive(self) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._buffer:
            data = await self._process.stdout.receive_some()
            if not data:
                return b""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line + b"\n"

    async def close(self) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.aclose()


@asynccontextmanager
async def stdio(variant: str) -> AsyncIterator[Link]:
    """A process, spoken to through its standard streams; at the end of its input it must leave, with 0."""
    command = [
        sys.executable,
        "-m",
        "mcpkit",
        "run",
        f"{HERE / script_of(variant)}.py:{variant.replace('-', '_')}",
    ]
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield _Pipes(process)
        with trio.fail_after(PATIENCE):
            assert await process.wait() == 0
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdin.aclose()
            await process.stdout.aclose()
