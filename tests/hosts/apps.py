"""An app as an ASGI application: what hosts serve in the tests, each as a real process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from mcpkit import App, Context, ToolError


def say(text: str) -> None:
    """Tell the test what happens: a line on standard error, in one write so that it stays whole."""
    os.write(2, f"app: {text}\n".encode())


class Gate:
    """What `hold` waits for and `release` opens, to all who wait."""

    def __init__(self) -> None:
        self.opened = trio.Event()

    def open(self) -> None:
        self.opened.set()
        self.opened = trio.Event()


@asynccontextmanager
async def lifespan(app: App) -> AsyncGenerator[Gate]:
    """Says when it begins and ends, and gives way in between as one does that opens a connection."""
    say("lifespan begins")
    await trio.lowlevel.checkpoint()
    yield Gate()
    await trio.lowlevel.checkpoint()
    say("lifespan ends")


app = App("hosted", lifespan=lifespan)


@app.tool
def add(a: int, b: int) -> int:
    """Runs in a thread."""
    return a + b


@app.tool(loop="asyncio")
async def add_on_asyncio(a: int, b: int) -> int:
    """Runs on an asyncio loop of its own."""
    await asyncio.sleep(0)
    return a + b


@app.tool
async def repeat(text: str, times: int) -> str:
    """Takes and gives large bodies."""
    return text * times


@app.tool
async def wave(ctx: Context) -> None:
    """Says something, and ends."""
    await ctx.report_progress(1, message="hello")


@app.tool
async def hold(ctx: Context, quiet: bool = False) -> str:
    """Says that it runs, then waits for `release`."""
    opened = ctx.state.opened
    try:
        if not quiet:
            await ctx.report_progress(1, 2, "holding")
        say("hold begins")
        await opened.wait()
    except trio.Cancelled:
        say("hold is cancelled")
        raise
    say("hold ends")
    return "released"


@app.tool
async def release(ctx: Context) -> None:
    """Lets `hold` go on."""
    ctx.state.open()


@app.tool
async def look_for(ctx: Context, path: str) -> str:
    """Says that it runs, then waits for a file: what a test can still make when the server takes no more requests."""
    await ctx.report_progress(1, 2, "looking")
    while not await trio.Path(path).exists():
        await trio.sleep(0.01)
    return "found"


@app.tool
async def fail(kind: str) -> None:
    """Raises what handlers may raise, and what they should not."""
    raise {
        "tool": ToolError("the tool says no"),
        "value": ValueError("a secret"),
        "group": ExceptionGroup("a secret", [ValueError("a secret"), KeyError("a secret")]),
        "exit": SystemExit(3),
        "asyncio": asyncio.CancelledError("a secret"),
    }[kind]


GRACE = 0.3
"""Seconds that calls get when their host ends: long enough to see that they get them."""

bare = app.asgi(grace=GRACE, with_sse=True)
patient = app.asgi(grace=60)
