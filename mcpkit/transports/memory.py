"""A client in the same process: bytes through memory, framed like stdio."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from mcpkit.app import App
from mcpkit.engine.runtime import Runtime, running
from mcpkit.engine.serve import GRACE, Session
from mcpkit.transports.lines import MAX_MESSAGE, LineChannel
from mcpkit.transports.wire import Wire


@asynccontextmanager
async def connect(app: App, *, max_body: int = MAX_MESSAGE, grace: float = GRACE) -> AsyncGenerator[Wire]:
    """Serve `app` to one client inside the block. Raises TypeError when something that was registered cannot
    be served.
    """
    async with running(app) as runtime, attach(runtime, max_body=max_body, grace=grace) as wire:
        yield wire


@asynccontextmanager
async def attach(
    runtime: Runtime, *, max_body: int = MAX_MESSAGE, grace: float = GRACE
) -> AsyncGenerator[Wire]:
    """Serve an app that already runs to one more client inside the block."""
    to_server, from_client = trio.open_memory_channel[bytes](math.inf)
    to_client, from_server = trio.open_memory_channel[bytes](math.inf)

    async def read() -> bytes:
        try:
            return await from_client.receive()
        except trio.EndOfChannel:
            return b""

    async def write(data: bytearray) -> None:
        await to_client.send(bytes(data))
        data.clear()

    async def serve() -> None:
        with to_client:
            await Session(runtime, LineChannel(read, write, max_message=max_body)).run(grace)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with to_server, from_server:
            yield Wire(to_server, from_server)
