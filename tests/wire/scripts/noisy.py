"""A server that writes to standard output in every way there is, beginning with its import."""

import ctypes
import logging
import os
import subprocess
import sys
from pathlib import Path

import trio

from mcpkit import App, Context, SyncContext

libc = ctypes.CDLL(None)


def by_subprocess(text: str) -> None:
    subprocess.run([sys.executable, "-S", "-c", "import sys; print(sys.argv[1])", text], check=True)


def by_c(text: str) -> None:
    libc.puts(text.encode())
    libc.fflush(None)


def by_writer(text: str) -> None:
    sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.buffer.flush()


WAYS = {
    "print": print,
    "flushed": lambda text: print(text, flush=True),
    "buffer": by_writer,
    "descriptor": lambda text: os.write(1, text.encode() + b"\n"),
    "original": lambda text: print(text, file=sys.__stdout__, flush=True),
    "subprocess": by_subprocess,
    "c": by_c,
    "logging": lambda text: logging.getLogger("noisy").warning(text),
}

logging.basicConfig(stream=sys.stdout, level=logging.WARNING)
for name, way in WAYS.items():
    way(f"at import, by {name}")

app = App("noisy")


@app.tool
def stray(how: str, text: str) -> str:
    WAYS[how](text)
    return "written"


@app.tool
def echo(text: str) -> str:
    return text


@app.tool
async def echo_later(text: str) -> str:
    await trio.lowlevel.checkpoint()
    return text


@app.tool
def read_input() -> str:
    return repr((sys.stdin.read(), os.read(0, 100)))


@app.tool
def child_reads_input() -> str:
    program = "import sys; print(repr(sys.stdin.read()))"
    return subprocess.run(
        [sys.executable, "-S", "-c", program], stdout=subprocess.PIPE, text=True, check=True
    ).stdout


@app.tool
def print_much(size: int) -> str:
    for _ in range(size // 1000):
        print("x" * 999)
    return "printed"


@app.tool
def fail(size: int) -> str:
    raise RuntimeError("y" * size)


@app.tool
async def wait(path: str, ctx: Context) -> str:
    """Wait for ever, and write a file when it is over."""
    try:
        await ctx.info("waiting")  # inside: the client can act on it before this returns
        await trio.sleep(3600)
    finally:
        Path(path).write_text("cleaned up")
    return "woken"


@app.tool
def block(ctx: SyncContext) -> str:
    """Block a thread for ever."""
    ctx.info("blocking")
    os.read(os.pipe()[0], 1)
    return "woken"


@app.tool
def big(size: int) -> str:
    return "z" * size


@app.tool
def modules() -> list[str]:
    return sorted(sys.modules)
