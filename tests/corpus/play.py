"""Plays conversations of the corpus over a connection that carries lines, and keeps what came back."""

from __future__ import annotations

import dataclasses
import importlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import trio
from pairs import Case, Conversation, Line, Wait, at, cases

from mcpkit import App
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


@dataclasses.dataclass
class Answer:
    """What came back for one case."""

    lines: list[Any]
    """Decoded; what is no JSON stays bytes."""
    statuses: list[int | None] = dataclasses.field(default_factory=list)
    """Over HTTP, for each line that was sent; None where the client left before there was one."""


async def play(conversation: Conversation, connect: Opener) -> dict[str, Answer]:
    """What came back for each case. What comes too late counts for the case that is played then, or for the
    last one.
    """
    answers: dict[str, Answer] = {}
    captured: dict[str, Any] = {}
    async with connect(conversation.server) as link:
        for name in conversation.names:
            case = cases()[name]
            lines = await _play_case(case, link, captured)
            answers[name] = Answer(lines)
            captured |= remembered(case, lines)
        await link.close()
        await _collect(link, answers[conversation.names[-1]].lines, lambda: False)
    return answers


def remembered(case: Case, lines: list[Any]) -> dict[str, Any]:
    """The values that later cases need."""
    return {key: at(lines[-1], pointer) for key, pointer in case.capture.items()} if lines else {}


async def _play_case(case: Case, link: Link, captured: dict[str, Any]) -> list[Any]:
    lines: list[Any] = []
    for step in case.steps(captured):
        if isinstance(step, Line):
            await link.send(step.text.encode() + b"\n")
        elif isinstance(step, Wait):
            await _collect_some(link, lines, step.lines)
        else:
            await link.close()
    await _collect_some(link, lines, len(case.replies))
    if not case.ends:
        await _fence(case, link, lines)
    return lines


async def _fence(case: Case, link: Link, lines: list[Any]) -> None:
    """Collect what comes before the answer to a request of our own."""
    fence = {"jsonrpc": "2.0", "id": f"fence of {case.name}", **_FENCES[case.era]}
    await link.send(json.dumps(fence).encode() + b"\n")
    await _collect(link, lines, lambda: bool(lines) and _answers(lines[-1], fence["id"]))
    if not (lines and _answers(lines[-1], fence["id"])):
        raise RuntimeError(f"the server stopped answering at {case.name}, after {lines}")
    lines.pop()


async def _collect_some(link: Link, lines: list[Any], count: int) -> None:
    await _collect(link, lines, lambda: len(lines) >= count)


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
    own = {"full": "reference", "live": "live", "many": "many", "verbatim": "verbatim"}
    return own.get(variant, "small")


def app_of(variant: str) -> App:
    """The variant's app in this process."""
    app = getattr(importlib.import_module(script_of(variant)), variant.replace("-", "_"))
    assert isinstance(app, App)
    return app


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
    async with connect(app_of(variant)) as wire:
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
