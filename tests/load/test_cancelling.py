"""Thousands of calls that are started and cancelled: none is answered, nothing stays, and their ids are free again.

The calls never end by themselves, so that any answer is one too many; only those of `QUICK` race against their
cancellation, and may be answered once.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from hosts.process import serving_http
from load.loadkit import (
    BUSY,
    Http,
    Json,
    Stdio,
    alone,
    cancel,
    port_of,
    run,
    together,
    tool,
    until_as,
)
from support import HANDSHAKE, STATELESS, request

CALLS = 2500
"""In each era over each transport."""
GROWTH = 1.1
"""Of the server's memory, from the end of the first round on."""
QUICK = ("echo", "echo_in_thread")
SILENT = ("hang", "hang_on_asyncio", "spin")
ENDLESS = {
    STATELESS: SILENT,
    **dict.fromkeys(HANDSHAKE, (*SILENT, "ask", "ask_in_thread")),
    "2025-03-26": SILENT,  # which has no elicitation
}
ELICITS = {"elicitation": {}}


def call(id: Any, name: str, revision: str, text: str = "") -> Json:
    return request(id, "tools/call", tool(name, {"text": text} if name in QUICK else {}), revision=revision)


def texts(replies: list[Json]) -> list[tuple[Any, str]]:
    """The ids that were answered, and how."""
    return sorted((reply["id"], str(reply["result"]["content"][0]["text"])) for reply in replies)


# -- Over stdio ------------------------------------------------------------------------------


class Round:
    """Some hundred calls over stdio, all with the ids of the round before."""

    def __init__(self, peer: Stdio, size: int, chance: random.Random) -> None:
        self._peer = peer
        self._chance = chance
        self._size = size
        self._raced: set[tuple[int, str]] = set()

    async def play(self) -> None:
        """Start and cancel them, and use their ids again at once."""
        peer, chance = self._peer, self._chance
        running: list[int] = []
        writing: list[Json] = []
        for id in range(self._size):
            writing.append(self._begin(id))
            if chance.random() < 0.3:
                writing += self._end(id)  # it has not begun
            else:
                running.append(id)
            if chance.random() < 0.05:
                await peer.write(writing)
                writing = []
            if chance.random() < 0.02:
                await peer.ask("ping" if peer.revision != STATELESS else "server/discover")
            while running and chance.random() < 0.4:
                writing += self._end(running.pop(chance.randrange(len(running))))
        for id in running:
            writing += self._end(id)
        await peer.write(writing)
        await peer.until(
            lambda: len(peer.replies) >= self._size and self._again() <= set(texts(peer.replies))
        )
        counts = Counter(texts(peer.replies))
        assert set(counts) <= self._again() | self._raced
        assert max(counts.values()) == 1
        peer.replies.clear()

    def _begin(self, id: int) -> Json:
        if self._chance.random() < 0.2:
            self._raced.add((id, "race"))
            return call(id, self._chance.choice(QUICK), self._peer.revision, "race")
        return call(id, self._chance.choice(ENDLESS[self._peer.revision]), self._peer.revision)

    def _end(self, id: int) -> list[Json]:
        return [cancel(id), call(id, "echo", self._peer.revision, "again")]

    def _again(self) -> set[tuple[int, str]]:
        return {(id, "again") for id in range(self._size)}


@pytest.mark.parametrize("revision", [HANDSHAKE[-1], STATELESS])
def test_cancelled_calls_leave_nothing_over_stdio(revision: str) -> None:
    """CAN-01 to CAN-04, RPC-09: while they wait to begin, in tasks, in threads, for a thread, for an answer."""

    async def main() -> None:
        async with Stdio.open(revision, capabilities=ELICITS) as peer:
            rounds = [Round(peer, CALLS // 5, random.Random(seed)) for seed in range(5)]
            await Round(peer, 100, random.Random(5)).play()  # whatever starts with its first use
            before = await alone(peer)
            await rounds[0].play()
            await until_as(peer, before)
            memory = await peer.call("memory")
            for round in rounds[1:]:
                await round.play()
            await until_as(peer, before)
            now = await peer.call("memory")
            print(f"memory: {memory / 1e6:.1f} MB, then {now / 1e6:.1f} MB; {peer.questions} questions")
            assert now < memory * GROWTH
            # CAN-04: each question was taken back.
            await peer.until(lambda: peer.taken_back == peer.questions)
            assert (peer.questions > 0) == (revision != STATELESS)
            assert peer.replies == []

    run(main)


# -- Over HTTP -------------------------------------------------------------------------------


async def leaves(port: int, chance: random.Random) -> None:
    """The stateless era: to leave is to cancel (HM-15)."""
    client = await Http.open(port, STATELESS)
    await client.send(call(chance.choice([1, "1"]), chance.choice(ENDLESS[STATELESS]), STATELESS))
    if chance.random() < 0.5:
        await trio.sleep(chance.random() * 0.02)  # it has begun, or is about to
    way = chance.choice(["close", "reset", "half"])
    if way == "half":
        await client.line.stream.send_eof()
        rest = b""
        while data := await client.line.stream.receive_some():
            rest += data
        assert b"data: {" not in rest and b'"jsonrpc"' not in rest, rest
    await (client.line.reset if way == "reset" else client.line.close)()


class Worker:
    """A session that starts calls on one connection and cancels them on another."""

    def __init__(self, client: Http, canceller: Http, chance: random.Random) -> None:
        self._client = client
        self._canceller = canceller
        self._chance = chance

    async def play(self, count: int) -> None:
        """Start and cancel `count` calls, in batches where there are any, and use their ids again."""
        revision = self._client.revision
        size = 20 if revision == "2025-03-26" else 1
        for _ in range(count // size):
            calls = [call(id, self._chance.choice(ENDLESS[revision]), revision) for id in range(size)]
            at_once = [cancel(id) for id in range(size) if size > 1 and self._chance.random() < 0.5]
            if len(at_once) == size:
                at_once.pop()
            assert await self._replies([*calls, *at_once]) == []
            again = [call(id, "echo", revision, "again") for id in range(size)]
            replies = await self._client.post(again if size > 1 else again[0])
            assert texts(replies[0] if size > 1 else replies) == [(id, "again") for id in range(size)]

    async def _replies(self, messages: list[Json]) -> list[Json]:
        """What comes back for calls that are cancelled."""
        replies: list[Json] = []

        async def read(nursery: trio.Nursery) -> None:
            replies.extend(await self._client.post(messages if len(messages) > 1 else messages[0]))
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, nursery)
            cancels = [cancel(message["id"]) for message in messages if "id" in message]
            while True:  # which of two connections is read first, nobody knows
                with trio.CancelScope(shield=True):
                    await self._canceller.post(cancels if len(cancels) > 1 else cancels[0])
                await trio.sleep(0.005)
        return [reply for reply in replies if "method" not in reply]


async def stateless(port: int, calls: int, seed: int) -> None:
    chance = random.Random(seed)
    await together([functools.partial(leaves, port, chance)] * calls, 60)


async def sessions(port: int, calls: int, seed: int) -> None:
    async def one(revision: str, calls: int, seed: int) -> None:
        async with await Http.open(port, revision, capabilities=ELICITS) as client:
            async with await client.another() as canceller:
                await Worker(client, canceller, random.Random(seed)).play(calls)
            await client.delete()

    shares = [("2025-03-26", calls * 3 // 4 // 10)] * 10 + [(HANDSHAKE[-1], calls // 4 // 10)] * 10
    await together([functools.partial(one, *share, seed + n) for n, share in enumerate(shares)], 20)


Calling = Callable[[int, int, int], Awaitable[None]]


@pytest.mark.parametrize("calling", [stateless, sessions])
def test_cancelled_calls_leave_nothing_over_http(calling: Calling) -> None:
    """HM-15, CAN-01 to CAN-03, RPC-09: by leaving in the stateless era, by a notification in the other."""

    async def main(port: int) -> None:
        async with await Http.open(port, STATELESS) as control:
            await calling(port, 200, 0)
            before = await alone(control)
            for seed in (1, 2):  # until all threads that there will be have their memory
                await calling(port, CALLS // 5, seed)
            await until_as(control, before)
            memory = await control.call("memory")
            for seed in range(3, 6):
                await calling(port, CALLS // 5, seed)
            await until_as(control, before)
            now = await control.call("memory")
            print(f"memory: {memory / 1e6:.1f} MB, then {now / 1e6:.1f} MB")
            assert now < memory * GROWTH

    with serving_http(BUSY) as (process, url):
        run(functools.partial(main, port_of(url)))
        assert "Traceback" not in process.output, process.output
