"""Tools, prompts and resources to try a server with."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated

import trio

from mcpkit import App, Context, Header, McpError, SyncContext

app = App("things")


@app.tool
async def echo(text: str) -> str:
    """The text."""
    return text


@app.tool
async def big(size: int) -> str:
    """A text of that size."""
    return "x" * size


@app.tool
async def count(to: int, ctx: Context) -> str:
    """Count, reporting and logging each number."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
        await ctx.info(number)
    return "counted"


@app.tool
def count_in_thread(to: int, ctx: SyncContext) -> str:
    """Count from a thread."""
    for number in range(1, to + 1):
        ctx.report_progress(number, to)
    return "counted"


@app.tool(loop="asyncio")
async def count_on_asyncio(to: int, path: str, ctx: Context) -> str:
    """Count on asyncio, and then wait for a file."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
    while not Path(path).exists():
        await asyncio.sleep(0.005)
    return "counted"


@app.tool
async def hang(path: str, ctx: Context, progress: bool = False) -> str:
    """Wait for ever; says in files that it has begun and that it has cleaned up."""
    if progress:
        await ctx.report_progress(1)
    Path(path + ".begun").touch()
    try:
        await trio.sleep_forever()
    finally:
        Path(path + ".cleaned").touch()
    return "never"


@app.tool
async def wait(path: str, ctx: Context) -> str:
    """Wait for a file; says in files that it has begun and that it is done."""
    Path(path + ".begun").touch()
    await ctx.report_progress(1)
    while not Path(path).exists():
        await trio.sleep(0.005)
    await ctx.report_progress(2)
    Path(path + ".done").touch()
    return "done"


@app.tool
async def pour(megabytes: int, ctx: Context) -> str:
    """Log a lot."""
    for _ in range(megabytes * 16):
        await ctx.info("x" * 65536)
    return "poured"


@app.tool
async def spill(megabytes: int, ctx: Context) -> str:
    """Log a lot from several tasks at once."""

    async def log() -> None:
        for _ in range(megabytes * 2):
            await ctx.info("x" * 65536)

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(log)
    return "spilled"


@app.tool(timeout=0.5)
async def pour_for_a_while(ctx: Context) -> str:
    """Log for longer than it may take."""
    while True:
        await ctx.info("x" * 65536)


@app.tool
def block(seconds: float) -> str:
    """Hold a thread."""
    time.sleep(seconds)
    return "blocked"


@app.tool
async def route(
    region: Annotated[str | None, Header("Region")] = None,
    shard: Annotated[int | None, Header("Shard")] = None,
    dry: Annotated[bool | None, Header("Dry-Run")] = None,
    note: str = "",
) -> str:
    """What a proxy could route on."""
    return f"{region} {shard} {dry}"


@app.tool
async def fail(code: int) -> str:
    """An error of the handler's own."""
    raise McpError(code, "as asked")


@app.prompt
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}."


@app.resource("memo://{name}")
def memo(name: str) -> str:
    """A memo."""
    return f"about {name}"
