"""Plays conversations of the corpus over HTTP+SSE, which carries lines as stdio does: each is posted, and what comes
back are the events of the stream, and the bodies of what is refused at once (`fixtures/README.md`, "Over HTTP+SSE").
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urljoin

import httpx
import trio
from play import Link
from play_http import lines, serving


class _Stream:
    def __init__(self, http: httpx.AsyncClient, stop: trio.Event) -> None:
        self._http = http
        self._stop = stop
        self._arrive, self._arrived = trio.open_memory_channel[bytes](math.inf)
        self._endpoint = ""

    async def open(self, url: str, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read the stream to its end; started once it has said where to post."""
        async with self._http.stream("GET", url, headers={"accept": "text/event-stream"}) as response:
            assert response.status_code == 200
            async for line in lines(response):
                data = line.removeprefix(b"data: ")
                if data != line and not self._endpoint:
                    self._endpoint = urljoin(url, data.decode())
                    task_status.started()
                elif data != line:
                    self._arrive.send_nowait(data + b"\n")
        self._arrive.close()

    async def send(self, line: bytes) -> None:
        if not line.strip():
            return  # between lines, blank ones are nothing; a body is a message
        headers = {"content-type": "application/json"}
        response = await self._http.post(self._endpoint, content=line, headers=headers)
        if response.status_code == 400:
            self._arrive.send_nowait(response.content + b"\n")
        else:
            assert (response.status_code, response.content) == (202, b"")

    async def receive(self) -> bytes:
        try:
            return await self._arrived.receive()
        except trio.EndOfChannel:
            return b""

    async def close(self) -> None:
        self._stop.set()


@asynccontextmanager
async def connect(variant: str) -> AsyncIterator[Link]:
    """The variant on a port of its own, and one client."""
    http = httpx.AsyncClient(timeout=None, trust_env=False, verify=False)
    async with (
        serving(variant, "sse") as (url, stop),
        http,
        trio.open_nursery() as nursery,
    ):
        link = _Stream(http, stop)
        await nursery.start(link.open, url)
        yield link
