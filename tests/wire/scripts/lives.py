"""A server with a lifespan; the environment says which."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from mcpkit import App, Context

TRACE = Path(os.environ.get("LIFE_TRACE", os.devnull))


@asynccontextmanager
async def plain(app: App) -> AsyncIterator[str]:
    try:
        yield "state"
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.01)
        TRACE.write_text("cleaned up")


@asynccontextmanager
async def with_tasks(app: App) -> AsyncIterator[str]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        yield "state"
        await trio.sleep(0.01)  # clean-up may wait, whatever else is cancelled
        nursery.cancel_scope.cancel()
    TRACE.write_text("cleaned up")


@asynccontextmanager
async def failing_start(app: App) -> AsyncIterator[str]:
    raise RuntimeError("the database is away")
    yield "never"


@asynccontextmanager
async def failing_end(app: App) -> AsyncIterator[str]:
    yield "state"
    raise RuntimeError("the database hung up")


@asynccontextmanager
async def failing_task(app: App) -> AsyncIterator[Any]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail_when_told)
        yield "state"


TOLD = trio.Event()


async def fail_when_told() -> None:
    await TOLD.wait()
    raise RuntimeError("the database went away")


@asynccontextmanager
async def endless_start(app: App) -> AsyncIterator[str]:
    try:
        await trio.sleep_forever()
    finally:
        TRACE.write_text("cleaned up")
    yield "never"


app = App("lives", lifespan=globals()[os.environ["LIFE"]])


@app.tool
async def state(ctx: Context) -> str:
    return str(ctx.state)


@app.tool
async def tell() -> str:
    TOLD.set()
    await trio.sleep_forever()
    return "never"
