"""A client in the same process: bytes through memory, framed like stdio."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from mcpkit.app import App
from mcpkit.engine.runtime import running
from mcpkit.engine.serve import GRACE, Session
from mcpkit.protocol.lines import LineSplitter, Oversized
from mcpkit.transports.lines import MAX_MESSAGE, LineChannel


class Wire:
    """The client's end: bytes in, lines out."""

    def __init__(self, send: trio.MemorySendChannel[bytes], receive: trio.MemoryReceiveChannel[bytes]) -> None:
        self._send = send
        self._receive = receive
        self._splitter = LineSplitter(2**62)
        self._lines: list[bytes | Oversized] = []

    def send(self, data: bytes) -> None:
        """Send bytes: lines, or parts of lines."""
        self._send.send_nowait(data)

    def close(self) -> None:
        """Send the end of file."""
        self._send.close()

    async def receive(self) -> bytes | None:
        """The next line, without its end; None when the server has gone."""
        while not self._lines:
            try:
                self._lines = self._splitter.feed(await self._receive.receive())
            except trio.EndOfChannel:
                return None
        line = self._lines.pop(0)
        assert isinstance(line, bytes)
        return line


@asynccontextmanager
async def connect(app: App, *, max_body: int = MAX_MESSAGE, grace: float = GRACE) -> AsyncIterator[Wire]:
    """Serve `app` to one client inside the block. Raises TypeError when something that was registered cannot be served."""
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
            await Session(runtime, LineChannel(read, write, max_body)).run(grace)

    async with running(app) as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with to_server, from_server:
            yield Wire(to_server, from_server)
