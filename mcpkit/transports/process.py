"""The client's side of stdio: a server in a process of its own."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE

import trio

from mcpkit.transports.wire import Wire

_PATIENCE_SECONDS = 3.0


@asynccontextmanager
async def connect(
    command: Sequence[str], *, cwd: str | Path | None = None, env: Mapping[str, str] | None = None
) -> AsyncGenerator[Wire]:
    """Start `command` and speak with it inside the block; its standard error stays this process's.

    At the end its input is closed; a server that goes on for 3 seconds is terminated. Raises OSError when it
    cannot be started.
    """
    process = await trio.lowlevel.open_process(command, stdin=PIPE, stdout=PIPE, cwd=cwd, env=env)
    assert process.stdin is not None and process.stdout is not None
    outgoing, to_send = trio.open_memory_channel[bytes](math.inf)
    received, incoming = trio.open_memory_channel[bytes](math.inf)

    async def write(stream: trio.abc.SendStream) -> None:
        async with stream, to_send:
            async for data in to_send:
                try:
                    await stream.send_all(data)
                except trio.BrokenResourceError:
                    return  # it has gone, which its output will say

    async def read(stream: trio.abc.ReceiveStream) -> None:
        async with stream, received:
            async for data in stream:
                received.send_nowait(bytes(data))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, process.stdin)
        nursery.start_soon(read, process.stdout)
        wire = Wire(outgoing, incoming)
        try:
            yield wire
        finally:
            outgoing.close()
            with trio.CancelScope(shield=True):
                wire.exit_code = await _end(process)


async def _end(process: trio.Process) -> int | None:
    for stop in (None, process.terminate, process.kill):
        if stop is not None:
            stop()
        with trio.move_on_after(_PATIENCE_SECONDS):
            return await process.wait()
    return None
