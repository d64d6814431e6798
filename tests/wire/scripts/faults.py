"""A server whose tools fail in every way there is. What a client must not see says "secret"."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from mcpkit import App, Context, McpError, ToolError, ToolResult

app = App("faults")


class WithoutText(RuntimeError):
    def __str__(self) -> str:
        raise OSError("secret")


class ToolErrorWithoutText(ToolError):
    def __str__(self) -> str:
        raise OSError("secret")


class HalfMade(McpError):
    def __init__(self) -> None:
        """Forget the base class."""


def deep_group() -> BaseException:
    error: Exception = ValueError("secret")
    for _ in range(5000):
        error = ExceptionGroup("secret", [error, ValueError("secret")])
    return error


def caused_by_itself() -> BaseException:
    first, second = ValueError("secret"), KeyError("secret")
    first.__cause__, second.__cause__ = second, first
    return first


def kept() -> BaseException:
    """How somebody else was cancelled, as a cache may keep it."""
    found: list[BaseException] = []

    async def cancelled() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.sleep_forever()
            except trio.Cancelled as error:
                found.append(error)

    thread = threading.Thread(target=trio.run, args=(cancelled,))
    thread.start()
    thread.join()
    return found[0]


def unending() -> Any:
    return unending()


FAULTS: dict[str, Callable[[], BaseException]] = {
    "Exception": lambda: Exception("secret"),
    "BaseException": lambda: BaseException("secret"),
    "SystemExit": lambda: SystemExit(3),
    "SystemExit with text": lambda: SystemExit("secret"),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "StopIteration": lambda: StopIteration("secret"),
    "StopAsyncIteration": StopAsyncIteration,
    "MemoryError": MemoryError,
    "endless recursion": unending,
    "asyncio.CancelledError": asyncio.CancelledError,
    "trio.Cancelled of another": kept,
    "trio.BrokenResourceError": lambda: trio.BrokenResourceError("secret"),
    "trio.ClosedResourceError": lambda: trio.ClosedResourceError("secret"),
    "trio.EndOfChannel": trio.EndOfChannel,
    "trio.RunFinishedError": trio.RunFinishedError,
    "BrokenPipeError": BrokenPipeError,
    "group": lambda: ExceptionGroup("secret", [ValueError("secret"), KeyError("secret")]),
    "group of one": lambda: ExceptionGroup("secret", [ValueError("secret")]),
    "group of KeyboardInterrupt": lambda: BaseExceptionGroup("secret", [KeyboardInterrupt(), SystemExit(1)]),
    "deep group": deep_group,
    "caused by itself": caused_by_itself,
    "error without text": WithoutText,
    "ToolError without text": ToolErrorWithoutText,
    "ToolError of nothing": lambda: ToolError(None),
    "ToolError with half a pair": lambda: ToolError("\ud800"),
    "half an McpError": HalfMade,
    "McpError with a wrong code": lambda: McpError("secret", "text"),  # type: ignore[arg-type]
    "McpError with a wrong message": lambda: McpError(5, b"secret"),  # type: ignore[arg-type]
    "McpError with data that is not JSON": lambda: McpError(5, "text", object()),
    "McpError with endless data": lambda: McpError(5, "text", endless()),
    "long text": lambda: Exception("secret" * 1_000_000),
}


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@app.tool
async def in_task(what: str) -> str:
    raise FAULTS[what]()


@app.tool
async def in_nursery(what: str) -> str:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(in_task, what)
        await trio.sleep_forever()
    return "never"


@app.tool
def in_thread(what: str) -> str:
    raise FAULTS[what]()


@app.tool(inline=True)
def inline(what: str) -> str:
    raise FAULTS[what]()


@app.tool(loop="asyncio")
async def on_asyncio(what: str) -> str:
    await asyncio.sleep(0)
    raise FAULTS[what]()


@app.resource("faults://{what}")
async def in_resource(what: str) -> str:
    raise FAULTS[what]()


@app.prompt
async def in_prompt(what: str) -> str:
    raise FAULTS[what]()


@app.tool(loop="asyncio")
async def fine_on_asyncio() -> str:
    await asyncio.sleep(0)
    return "fine"


class Opaque:
    """Has no JSON form, and says so loudly."""

    def __getattr__(self, name: str) -> Any:
        raise OSError("secret")


RESULTS: dict[str, Callable[[], Any]] = {
    "meta with an object": lambda: ToolResult("text", meta={"a": object()}),
    "meta with an opaque object": lambda: ToolResult("text", meta={"a": Opaque()}),
    "meta with an endless list": lambda: ToolResult("text", meta={"a": endless()}),
    "structure with an object": lambda: ToolResult("text", structured=object()),
    "structure with an endless list": endless,
    "content of numbers": lambda: ToolResult([1, 2]),  # type: ignore[list-item]
    "an object": object,
    "an opaque object": Opaque,
    "a coroutine that is refused": lambda: (_ for _ in ()),
}


@app.tool
async def returns(what: str):
    return RESULTS[what]()


@app.tool
async def fails_in_cleanup() -> str:
    """Wait for ever; a child task raises while it is cancelled."""

    async def child() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("left behind")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(child)
        await trio.sleep_forever()
    return "never"


def close_descriptors() -> None:
    for fd in range(3):
        os.close(fd)


def close_streams() -> None:
    sys.stdout.close()
    sys.stderr.close()


def lose_streams() -> None:
    sys.stdout = sys.stderr = sys.stdin = None  # type: ignore[assignment]


MISCHIEF: dict[str, Callable[[], Any]] = {
    "close descriptors": close_descriptors,
    "close streams": close_streams,
    "lose streams": lose_streams,
    "go elsewhere": lambda: os.chdir("/"),
    "clear the environment": os.environ.clear,
    "SIGTERM": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "SIGINT": lambda: signal.raise_signal(signal.SIGINT),
}


@app.tool(inline=True)
def mischief(what: str) -> str:
    MISCHIEF[what]()
    return "managed"


@app.tool
async def fine() -> str:
    return "fine"


# -- A client that does not read -----------------------------------------------------------------------------


@app.tool
async def flood(count: int, size: int, ctx: Context) -> str:
    for _ in range(count):
        await ctx.info("f" * size)
    return "flooded"


@app.tool
async def impatient(size: int, path: str, ctx: Context) -> str:
    """Give up on a log message that does not go out, and wait for ever."""
    with trio.move_on_after(0.05):
        await ctx.info("i" * size)
    Path(path).touch()
    await trio.sleep_forever()
    return "never"


@app.tool(loop="asyncio")
async def wait_on_asyncio(path: str, ctx: Context) -> str:
    try:
        await ctx.info("waiting")  # inside: the client can act on it before this returns
        await asyncio.sleep(3600)
    finally:
        Path(path).write_text("cleaned up")
    return "never"
