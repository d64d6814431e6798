"""Handlers that run in the task that reads (`serve`, rule 2): nothing of one call is seen by another."""

from __future__ import annotations

import contextvars
import os
import subprocess
import threading
from pathlib import Path

import pytest
import trio
from support import STATELESS, initialize, request
from trio.testing import wait_all_tasks_blocked
from wirekit import call, cancel, command, lines, talking, text

from mcpkit import App

both_eras = pytest.mark.parametrize("revision", ["2025-11-25", STATELESS])

mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")


def make(gate: trio.Event) -> App:
    app = App("turns")

    async def marked(name: str, waits: int = 0, gated: bool = False) -> str:
        before = mark.get()
        mark.set(name)
        for _ in range(waits):
            await trio.lowlevel.checkpoint()
        if gated:
            await gate.wait()
        return f"{before} {mark.get()}"

    app.add_tool(marked)

    @app.tool
    def marked_in_thread(name: str) -> str:
        before = mark.get()
        mark.set(name)
        return f"{before} {mark.get()}"

    @app.tool
    async def scoped(seconds: float) -> str:
        with trio.move_on_after(seconds):
            await gate.wait()
        return "on time" if gate.is_set() else "late"

    return app


@both_eras
@pytest.mark.parametrize("tool", ["marked", "marked_in_thread"])
async def test_what_a_handler_sets_in_its_context_no_other_call_sees(revision: str, tool: str) -> None:
    """asyncio and trio give each task its own context; a handler has always been in one."""
    gate = trio.Event()
    async with talking(make(gate), revision) as talk:
        waits = {"marked": (0, 1, 3, 0), "marked_in_thread": (0, 0, 0)}[tool]
        for number, count in enumerate(waits):
            arguments = {"name": f"call {number}", **({"waits": count} if tool == "marked" else {})}
            talk.send(call(number, tool, arguments, revision=revision))
        answers = {}
        while len(answers) < len(waits):
            reply = await talk.receive()
            answers[reply["id"]] = text(reply)
        assert answers == {number: f"none call {number}" for number in range(len(waits))}


@both_eras
async def test_a_handler_that_waits_keeps_its_context_while_others_run(revision: str) -> None:
    """The step after a wait is in the same context as the one before it."""
    gate = trio.Event()
    async with talking(make(gate), revision) as talk:
        talk.send(call("held", "marked", {"name": "held", "gated": True}, revision=revision))
        await wait_all_tasks_blocked()
        talk.send(call("other", "marked", {"name": "other"}, revision=revision))
        assert text(await talk.receive()) == "none other"
        gate.set()
        assert text(await talk.receive()) == "none held"


@both_eras
async def test_thousands_of_calls_in_one_write_are_each_answered(revision: str) -> None:
    """STD-06: whether they wait or not, in any mixture."""
    async with talking(make(trio.Event()), revision) as talk:
        count = 2000
        talk.send(
            *(
                call(number, "marked", {"name": str(number), "waits": number % 3}, revision=revision)
                for number in range(count)
            )
        )
        answers = [await talk.receive() for _ in range(count)]
        assert sorted(reply["id"] for reply in answers) == list(range(count))
        assert all(text(reply) == f"none {reply['id']}" for reply in answers)


@both_eras
async def test_a_cancelled_call_takes_no_other_with_it(revision: str) -> None:
    """CAN-01: the task of a call that waits is its own, and so is the scope."""
    gate = trio.Event()
    async with talking(make(gate), revision) as talk:
        for number in range(6):
            talk.send(call(number, "marked", {"name": str(number), "gated": True}, revision=revision))
        await wait_all_tasks_blocked()
        talk.send(*(cancel(number) for number in (0, 2, 5)))
        await wait_all_tasks_blocked()
        gate.set()
        answers = [await talk.receive() for _ in range(3)]
        assert sorted(reply["id"] for reply in answers) == [1, 3, 4]
        assert await talk.silence(revision) == []


@both_eras
async def test_a_deadline_of_a_handler_is_over_with_it(revision: str) -> None:
    """A scope that a handler opened does not outlive it, in the task that goes on reading."""
    gate = trio.Event()
    gate.set()
    async with talking(make(gate), revision) as talk:
        for number in range(3):
            talk.send(call(number, "scoped", {"seconds": 0.001}, revision=revision))
            assert text(await talk.receive()) == "on time"
        await trio.testing.wait_all_tasks_blocked(0.01)
        talk.send(call("after", "marked", {"name": "after", "waits": 1}, revision=revision))
        assert text(await talk.receive()) == "none after"


@pytest.mark.parametrize("tool", ["echo", "waiting", "in_thread"])
def test_a_client_may_write_everything_before_it_reads(tmp_path: Path, tool: str) -> None:
    """STD-06: as a script does that pipes its requests in; neither end waits for the other for ever."""
    script = tmp_path / "server.py"
    script.write_text(
        """
import trio
from mcpkit import App

app = App("talkative")


@app.tool
async def echo(text: str) -> str:
    return text


@app.tool
async def waiting(text: str) -> str:
    await trio.lowlevel.checkpoint()
    return text


@app.tool
def in_thread(text: str) -> str:
    return text
"""
    )
    count = 3000  # more than fits into the pipes, and less than what a server keeps for a client
    calls = (call(number, tool, {"text": "x" * 150}) for number in range(count))
    words = command(str(script), "--grace", "60")  # what is left when all is written may take a while
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        writer = threading.Thread(
            target=process.stdin.write, args=(lines(initialize("2025-11-25"), *calls),), daemon=True
        )
        writer.start()
        writer.join(30)
        blocked = writer.is_alive()
        if blocked:
            process.kill()
        else:
            process.stdin.close()
        assert not blocked
        assert process.stdout.read().count(b'"result"') == count + 1


@pytest.mark.parametrize("kind", ["file", "null"])
def test_input_that_cannot_be_waited_for_is_read(tmp_path: Path, kind: str) -> None:
    """STD-01: epoll takes neither a file nor /dev/null."""
    script = tmp_path / "server.py"
    script.write_text(
        "from mcpkit import App\napp = App('files')\n\n@app.tool\nasync def hello() -> str:\n    return 'hi'\n"
    )
    messages = lines(initialize("2025-11-25"), request(1, "tools/call", {"name": "hello", "arguments": {}}))
    source = tmp_path / "input"
    source.write_bytes(messages)
    with open(source if kind == "file" else os.devnull, "rb") as stdin:
        done = subprocess.run(command(str(script)), stdin=stdin, capture_output=True, timeout=30, check=True)
    assert done.stdout.count(b"\n") == (2 if kind == "file" else 0)
