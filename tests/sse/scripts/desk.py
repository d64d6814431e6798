"""Everything that a server says by itself, to try a connection with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from mcpkit import Accepted, App, Context


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[list[str]]:
    """Keeps what was noted."""
    yield []


app = App("desk", lifespan=lifespan)


class Name(msgspec.Struct):
    name: str


@app.tool
async def echo(text: str) -> str:
    """The text."""
    return text


@app.tool
async def note(text: str, ctx: Context) -> int:
    """Note a text; how many there are."""
    ctx.state.append(text)
    return len(ctx.state)


@app.tool
async def header(name: str, ctx: Context) -> str:
    """A header of the client's."""
    return ctx.headers.get(name, "none")


@app.tool
async def greet(ctx: Context, path: str = "") -> str:
    """Ask for a name; says in a file that it has cleaned up."""
    try:
        answer = await ctx.elicit(Name, "Who are you?")
    finally:
        if path:
            Path(path + ".cleaned").touch()
    return f"Hello {answer.value.name}" if isinstance(answer, Accepted) else repr(answer)


@app.tool
async def compose(ctx: Context) -> str:
    """Ask the client's model."""
    answer = await ctx.sample("A word, please.", max_tokens=5)
    return answer.value.text if isinstance(answer, Accepted) else repr(answer)


@app.tool
async def roots(ctx: Context) -> str:
    """The client's folders."""
    answer = await ctx.list_roots()
    return " ".join(root.uri for root in answer.value) if isinstance(answer, Accepted) else repr(answer)


@app.tool
async def count(to: int, ctx: Context) -> str:
    """Count, reporting and logging each number."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
        await ctx.info(number)
    return "counted"


@app.tool
async def announce(uri: str = "") -> str:
    """Say that the tools have changed, or a resource."""
    if uri:
        app.notifier.resource_updated(uri)
    else:
        app.notifier.tools_changed()
    return "announced"


@app.tool
async def hang(path: str) -> str:
    """Wait for ever; says in files that it has begun and that it has cleaned up."""
    Path(path + ".begun").touch()
    try:
        await trio.sleep_forever()
    finally:
        Path(path + ".cleaned").touch()
    return "never"


@app.tool
async def wait(path: str) -> str:
    """Wait for a file; says in one that it has begun."""
    Path(path + ".begun").touch()
    while not await trio.Path(path).exists():
        await trio.sleep(0.005)
    return "done"


@app.tool
async def pour(megabytes: int, ctx: Context) -> str:
    """Log a lot."""
    for _ in range(megabytes * 16):
        await ctx.info("x" * 65536)
    return "poured"


@app.resource("memo://{name}")
def memo(name: str) -> str:
    """A memo."""
    return f"about {name}"
