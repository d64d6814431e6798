"""A server under load, which tells what it holds."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import trio

from mcpkit import Accepted, App, Context, SyncContext, ToolError
from mcpkit.engine.runtime import Runtime

app = App("busy")

WATCHED = {
    "mcpkit.engine.serve.Session",
    "mcpkit.engine.asking.Desk",
    "mcpkit.engine.subscriptions.Listener",
    "mcpkit.engine.subscriptions.Hub",
    "mcpkit.protocol.connection.Connection",
    "mcpkit.transports.asgi.AsgiExchange",
    "mcpkit.transports.hypercorn_tcp.Connection",
    "mcpkit.transports.listener.Connection",
    "mcpkit.transports.sessions.Session",
    "mcpkit.transports.table.Table",
    "mcpkit.transports.sessions._Group",
    "mcpkit.transports.streams.Stream",
    "mcpkit.transports.streams.Writer",
    "mcpkit.transports.turn.Turn",
}
"""The classes whose objects are counted, and what they contain."""


class Confirm(msgspec.Struct):
    proceed: bool


@app.tool
async def echo(text: str) -> str:
    return text


@app.tool
def echo_in_thread(text: str) -> str:
    return text


@app.tool
async def big(size: int) -> str:
    return "x" * size


@app.tool
async def fail(text: str) -> str:
    raise ToolError(text)


@app.tool
async def count(to: int, ctx: Context) -> int:
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
    return to


@app.tool
async def confirm(ctx: Context) -> str:
    answer = await ctx.elicit(Confirm, "Go on?")
    return f"proceed: {answer.value.proceed}" if isinstance(answer, Accepted) else type(answer).__name__


# -- Calls that never end by themselves ------------------------------------------------------


@app.tool
async def hang() -> str:
    await trio.sleep_forever()
    return "never"


@app.tool(loop="asyncio")
async def hang_on_asyncio() -> str:
    await asyncio.sleep(3600)
    return "never"


@app.tool
def spin(ctx: SyncContext) -> str:
    while True:
        ctx.check_cancelled()
        time.sleep(0.01)


@app.tool
async def ask(ctx: Context) -> str:
    await ctx.elicit(Confirm, "Go on?", timeout=3600)
    return "never, as long as the client does not answer"


@app.tool
def ask_in_thread(ctx: SyncContext) -> str:
    ctx.elicit(Confirm, "Go on?", timeout=3600)
    return "never, as long as the client does not answer"


@app.tool
async def pour(ctx: Context) -> str:
    while True:
        await ctx.info("x" * 65536)


# -- Changes ---------------------------------------------------------------------------------


LISTS = {
    "notifications/tools/list_changed": app.notifier.tools_changed,
    "notifications/prompts/list_changed": app.notifier.prompts_changed,
    "notifications/resources/list_changed": app.notifier.resources_changed,
}


@app.resource("load://{name}")
def load(name: str) -> str:
    return name


@app.prompt
def prompt() -> str:
    return "prompt"


def _storm(uris: list[str], changes: int, bursts: int, seed: int, told: dict[str, float]) -> Iterator[None]:
    """Publish random changes in bursts; `told` tells when each was published last."""
    chance = random.Random(seed)
    for number in range(changes):
        name = chance.choice([*uris, *LISTS])
        told[name] = time.monotonic()
        if name in LISTS:
            LISTS[name]()
        else:
            app.notifier.resource_updated(name)
        if number % (changes // bursts) == 0:
            yield


@app.tool
async def storm(uris: list[str], changes: int, bursts: int, seed: int) -> dict[str, float]:
    told: dict[str, float] = {}
    for _ in _storm(uris, changes, bursts, seed, told):
        await trio.lowlevel.checkpoint()
    return told


@app.tool
def storm_in_thread(uris: list[str], changes: int, bursts: int, seed: int) -> dict[str, float]:
    told: dict[str, float] = {}
    for _ in _storm(uris, changes, bursts, seed, told):
        time.sleep(0.001)
    return told


# -- What is there ---------------------------------------------------------------------------


def _tasks() -> int:
    root = trio.lowlevel.current_root_task()
    assert root is not None
    waiting, found = [root], 0
    while waiting:
        task = waiting.pop()
        found += 1
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


def _watched() -> tuple[dict[str, int], dict[str, int]]:
    """How many objects of each class there are, and how many things their containers hold."""
    objects: Counter[str] = Counter()
    held: Counter[str] = Counter()
    for thing in gc.get_objects():
        kind = type(thing)
        if f"{kind.__module__}.{kind.__qualname__}" in WATCHED:
            name = f"{kind.__module__.rpartition('.')[2]}.{kind.__qualname__}"
            objects[name] += 1
            for field, value in vars(thing).items():
                if isinstance(value, dict | set | list | deque | bytearray):
                    held[f"{name}.{field}"] += len(value)
    return dict(objects), {name: count for name, count in held.items() if count}


@app.tool
async def inside() -> dict[str, Any]:
    """What the server holds."""
    gc.collect()
    objects, held = _watched()
    (runtime,) = (thing for thing in gc.get_objects() if isinstance(thing, Runtime))
    limiter, threads = trio.to_thread.current_default_thread_limiter(), runtime.threads
    asyncio_thread = runtime._asyncio_thread
    loop = None if asyncio_thread is None else asyncio_thread._loop
    return {
        "tasks": _tasks() - threads.ready,  # these stay
        "asyncio": 0 if loop is None else len(asyncio.all_tasks(loop)),
        "borrowed": {"trio": limiter.borrowed_tokens, "handlers": threads.busy},
        "waiting": {"trio": limiter.statistics().tasks_waiting, "handlers": threads.waiting},
        "objects": objects,
        "held": held,
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


@app.tool
async def memory() -> int:
    """Bytes that are resident."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


SEND_SECONDS = 1.0
"""What clients of `bare` may take, and of other servers that are started for that."""

bare = app.asgi(send_timeout=SEND_SECONDS)
