"""Clients that do not read: they cost little, hold nobody up, and are given up."""

from __future__ import annotations

import functools
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import trio
from hosts.process import MCPKIT, UVICORN, serving_http, started
from load.busy import SEND_SECONDS
from load.loadkit import BUSY, Http, Json, alone, change_of, exchanges, port_of, run, tool, until_as
from support import HANDSHAKE, STATELESS, initialize, request

ERAS = (HANDSHAKE[-1], STATELESS)
SHORT = [f"load://{number}" for number in range(10)]
LONG = [f"load://{number}.".ljust(4000, "x") for number in range(40)]
SMALL = 4096
"""Bytes that the kernel keeps for a client that does not read; as many again as it likes wait on the server's side."""
MEMORY = 32_000_000
"""Bytes that the server may need for the deaf; the kernel's buffers are not among them."""


# -- Kinds of deaf clients -------------------------------------------------------------------


async def listens(client: Http) -> None:
    """To changes."""
    await client.listen(LONG)


async def is_told(client: Http) -> None:
    """What a call has to say."""
    await client.begin("pour")


async def asked_for_much(client: Http) -> None:
    """A result that is larger than what the kernel keeps."""
    await client.begin("big", size=10_000_000)


HOSTS = {
    "mcpkit": (*MCPKIT, str(BUSY), "--send-timeout", str(SEND_SECONDS)),
    "uvicorn": (*UVICORN, "asyncio", "load.busy:bare"),
}

DEAF = (listens, is_told, asked_for_much)
Deaf = Callable[[Http], Awaitable[None]]


async def storms(control: Http, uris: list[str], count: int = 1) -> dict[str, float]:
    """Changes of all kinds; when each was told last."""
    told: dict[str, float] = {}
    for seed in range(count):
        told |= await control.call("storm", uris=uris, changes=400, bursts=4, seed=seed)
    return told


async def served(control: Http) -> int:
    """How many answers are on their way to other clients."""
    return exchanges((await control.call("inside"))["objects"]) - 1


@pytest.mark.parametrize("deaf", DEAF)
@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("host", HOSTS)
def test_a_deaf_client_is_given_up(host: str, revision: str, deaf: Deaf) -> None:
    """FACTS 1.4, SEC-02: after the time that it has to take an answer, under any server; nothing of it stays."""

    async def main(port: int) -> None:
        async with await Http.open(port, STATELESS) as control:
            await storms(control, LONG)
            before, memory = await alone(control), await control.call("memory")
            client = await Http.open(port, revision, receive_buffer=SMALL)
            await deaf(client)
            while not await served(control):  # its request may still be on the way
                await trio.sleep(0.01)
            most, began = 0, time.monotonic()
            while await served(control):
                await storms(control, LONG, 4)
                most = max(most, await control.call("memory"))
            print(f"given up after {time.monotonic() - began:.1f} s, with {(most - memory) / 1e6:.1f} MB")
            assert most - memory < MEMORY
            if revision != STATELESS:
                await client.delete()
            if host == "mcpkit":
                await until_as(control, before)  # other servers close its socket once it has read
            await client.line.close()
            await until_as(control, before)

    with started(HOSTS[host]) as process:
        url = process.expect(r"(?:serving|running on) (http\S+)")[1]
        run(functools.partial(main, port_of(url)))
        assert "Traceback" not in process.output, process.output


# -- The others ------------------------------------------------------------------------------


class Others:
    """Clients that read, and how long they wait."""

    def __init__(self, port: int, control: Http) -> None:
        self._port = port
        self._control = control
        self._heard: list[dict[str, float]] = []
        self._woken = trio.Event()

    async def listen(self, nursery: trio.Nursery) -> None:
        for revision in ERAS:
            client = await Http.open(self._port, revision)
            nursery.start_soon(self._read, client, await client.listen(SHORT))

    async def _read(self, client: Http, head: Any) -> None:
        heard: dict[str, float] = {}
        self._heard.append(heard)
        async with client:
            async for message in client.line.messages(head):
                heard[change_of(message)] = time.monotonic()
                self._woken.set()

    async def waits(self, count: int = 60) -> tuple[float, float]:
        """Seconds: the median of a call, and of a notification."""
        calls, changes = [], []
        for number in range(count):
            began = time.monotonic()
            assert await self._control.call("echo", text=f'"{number}"') == str(number)
            calls.append(time.monotonic() - began)
            told = await self._control.call("storm", uris=SHORT, changes=1, bursts=1, seed=number)
            changes.append(await self._hears(*next(iter(told.items()))))
        return statistics.median(calls), statistics.median(changes)

    async def _hears(self, change: str, told: float) -> float:
        """How long it took until the last has heard of it."""
        while not all(heard.get(change, 0.0) >= told for heard in self._heard):
            self._woken = trio.Event()
            await self._woken.wait()
        return max(heard[change] for heard in self._heard) - told


def test_the_others_do_not_wait_for_the_deaf() -> None:
    """A server of many clients: the calls and the notifications of the others take as long as before."""

    async def main(port: int) -> None:
        async with await Http.open(port, STATELESS) as control, await Http.open(port, STATELESS) as stormer:
            others = Others(port, control)
            async with trio.open_nursery() as nursery:
                await others.listen(nursery)
                await storms(stormer, LONG)
                without = await others.waits()
                deaf = [await Http.open(port, ERAS[n % 2], receive_buffer=SMALL) for n in range(20)]
                for number, client in enumerate(deaf):
                    await DEAF[number // 2 % 2](client)
                await storms(stormer, LONG, 20)  # so that their buffers are full
                beside = await others.waits()
                assert await served(control) == len(ERAS) + len(deaf)
                nursery.cancel_scope.cancel()
            for client in deaf:
                await client.line.close()
        for what, alone_, together in zip(("a call", "a notification"), without, beside, strict=True):
            print(f"{what}: {alone_ * 1000:.2f} ms alone, {together * 1000:.2f} ms beside deaf clients")
            assert together < max(0.05, 5 * alone_)

    with serving_http(BUSY) as (process, url):
        run(functools.partial(main, port_of(url)))
        assert "Traceback" not in process.output, process.output


# -- What they miss --------------------------------------------------------------------------


async def hear(messages: AsyncIterator[Json], missing: set[str]) -> int:
    """Read a stream until nothing is missing; how many notifications that took."""
    count = 0
    while missing:
        missing.discard(change_of(await anext(messages)))
        count += 1
    return count


@pytest.mark.parametrize("revision", ["2025-03-26", STATELESS])
def test_a_client_that_reads_late_misses_nothing(revision: str) -> None:
    """SUB-07, HL-12: what it has not taken waits, each change once, though its stream keeps no more than a thousand."""
    uris = [f"load://{number}.".ljust(400, "x") for number in range(900)]  # more would become a list

    async def main(port: int) -> None:
        async with await Http.open(port, STATELESS) as control:
            told: dict[str, float] = {}
            async with await Http.open(port, revision, receive_buffer=SMALL) as client:
                head = await client.listen(uris)
                for seed in range(4):
                    told |= await control.call("storm", uris=uris, changes=20_000, bursts=4, seed=seed)
                async with aclosing(client.line.messages(head)) as messages:
                    count = await hear(messages, set(told))  # nothing was read while it was told
            print(f"{count:,} notifications for {len(told):,} changed things")
            assert count < 6 * len(uris)

    with serving_http(BUSY) as (process, url):
        run(functools.partial(main, port_of(url)))
        assert "Traceback" not in process.output, process.output


def test_a_client_that_comes_back_has_missed_nothing() -> None:
    """HL-12, HL-16: it names the last event that it has seen; what its stream keeps no more is told again."""
    uris = [f"load://{number}.".ljust(100, "x") for number in range(900)]

    async def main(port: int) -> None:
        async with await Http.open(port, "2025-03-26") as client, await Http.open(port, STATELESS) as control:
            head = await client.listen(uris)
            async with aclosing(client.line.messages(head)) as messages:
                for seed in range(3):
                    told = await control.call("storm", uris=uris, changes=20_000, bursts=1, seed=seed)
                    await hear(messages, set(told))
            async with await client.another() as later:
                head = await later.listen(last="0.0")
                async with aclosing(later.line.messages(head)) as messages:
                    await hear(messages, set(told))

    with serving_http(BUSY) as (process, url):
        run(functools.partial(main, port_of(url)), 15.0)
        assert "Traceback" not in process.output, process.output


# -- Over stdio ------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ERAS)
def test_nothing_piles_up_for_a_deaf_peer_over_stdio(revision: str) -> None:
    """SEC-02: the server stops reading what a peer sends that does not read, and goes on when it does."""
    calls = [
        request(number, "tools/call", tool("big", {"size": 20_000}), revision=revision)
        if number % 4
        else request(
            number,
            "tools/call",
            tool("storm", {"uris": LONG, "changes": 50, "bursts": 1, "seed": number}),
            revision=revision,
        )
        for number in range(1500)
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "mcpkit", "run", str(BUSY)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        peer = Peer(process)
        writer = threading.Thread(
            target=lambda: [peer.write(message) for message in (*greeting(revision), *calls)]
        )
        writer.start()
        while peer.read().get("id") != "greeting":
            pass
        memory = peer.memory()
        stopped = peer.written_until_it_stops()
        most = peer.memory()
        print(f"stopped after {stopped:,} calls, with {(most - memory) / 1e6:.1f} MB")
        assert stopped < len(calls)
        assert most - memory < MEMORY
        waiting = set(range(len(calls)))
        while waiting:
            waiting.discard(peer.read().get("id"))
        writer.join()
        peer.end()


def greeting(revision: str) -> list[Json]:
    """What a client sends first, subscribed to everything."""
    if revision == STATELESS:
        wanted = {"resourceSubscriptions": LONG, "toolsListChanged": True}
        listen = request("listen", "subscriptions/listen", {"notifications": wanted}, revision=revision)
        return [listen, request("greeting", "server/discover", revision=revision)]
    return [
        initialize(revision, "greeting"),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *(request(uri[:20], "resources/subscribe", {"uri": uri}, revision=revision) for uri in LONG),
    ]


class Peer:
    """A process that is spoken to from two threads, one that writes and one that reads."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._written = 0
        self._changed = threading.Condition()

    def write(self, message: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        with self._changed:
            self._written += 1
            self._changed.notify()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def written_until_it_stops(self) -> int:
        """How many messages the server takes until it has taken none for a second."""
        with self._changed:
            while self._changed.wait(1.0):
                pass
            return self._written

    def read(self) -> Json:
        assert self._process.stdout is not None
        message: Json = json.loads(self._process.stdout.readline())
        return message

    def memory(self) -> int:
        """Bytes that are resident."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024
