"""Mixed traffic for as long as one likes: `make soak`, or `python -m load.soak SECONDS` in the folder of the tests.

Clients of every revision come and go over HTTP, two stay over stdio. What they are told must be right; the servers must
not grow, and nothing of the clients may stay.
"""

from __future__ import annotations

import functools
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import trio
from hosts.process import serving_http
from load.loadkit import BUSY, Http, Json, Stdio, alone, cancel, port_of, tool, until_as
from load.test_listening import URIS, Ear, storm
from support import HANDSHAKE, PREFIX, REVISIONS, STATELESS

GROWTH = 1.1
"""Of a server's memory, from the end of the warm-up on. A run of a few seconds is all warm-up."""
WARM_UP = 0.2
"""Of the time."""
VISITORS = 8
MOST_WRONG = 20
ELICITS = {"elicitation": {}}
ANSWER = {"action": "accept", "content": {"proceed": True}}

Client = Http | Stdio


class Wrong(Exception):
    """An answer that is not the right one."""


def check(right: object, *seen: object) -> None:
    if not right:
        raise Wrong(*(repr(thing)[:500] for thing in seen))


# -- What clients do -------------------------------------------------------------------------


async def called(client: Client, name: str, arguments: Json, **meta: Any) -> list[Json]:
    """What comes back for a call; questions are answered, in either era."""
    if client.revision == STATELESS:
        meta[PREFIX + "clientCapabilities"] = ELICITS
    params = {**tool(name, arguments), "_meta": meta}
    while True:
        messages = await client.post(client.request("tools/call", params))
        asked = messages[-1].get("result", {}).get("inputRequests")
        if not asked:
            return messages
        params["inputResponses"] = dict.fromkeys(asked, ANSWER)
        params["requestState"] = messages[-1]["result"].get("requestState")


def text(messages: list[Json], *, failed: bool = False) -> str:
    check(messages and "result" in messages[-1], messages)
    result = messages[-1]["result"]
    check(bool(result.get("isError")) == failed, result)
    return "".join(block["text"] for block in result["content"])


async def echoes(client: Client, chance: random.Random) -> None:
    said = str(chance.random())
    for name in ("echo", "echo_in_thread"):
        answer = text(await called(client, name, {"text": said}))
        check(answer == said, answer)


async def gets_much(client: Client, chance: random.Random) -> None:
    size = int(2 ** (chance.random() * 20))
    check(len(text(await called(client, "big", {"size": size}))) == size, size)


async def fails(client: Client, chance: random.Random) -> None:
    check(text(await called(client, "fail", {"text": "as asked"}), failed=True) == "as asked")
    reply = (await client.post(client.request("tools/call", tool("unknown"))))[-1]
    check(reply.get("error", {}).get("code") == -32602, reply)


async def follows(client: Client, chance: random.Random) -> None:
    to, token = chance.randrange(1, 30), f"token-{chance.random()}"
    *said, reply = await called(client, "count", {"to": to}, progressToken=token)
    progress = [message["params"]["progress"] for message in said]
    check(text([reply]) == str(to), reply)
    check(progress == sorted(set(progress)) and (not progress or progress[-1] <= to), progress)


async def is_asked(client: Client, chance: random.Random) -> None:
    answer = text(await called(client, "confirm", {}))
    check(answer == ("proceed: True" if client.revision >= "2025-06-18" else "Unavailable"), answer)


async def reads(client: Client, chance: random.Random) -> None:
    name = str(chance.randrange(10**9))
    reply = (await client.post(client.request("resources/read", {"uri": f"load://{name}"})))[-1]
    check(reply.get("result", {}).get("contents", [{}])[0].get("text") == name, reply)


async def cancels(client: Client, chance: random.Random) -> None:
    endless = client.request("tools/call", tool(chance.choice(["hang", "hang_on_asyncio", "spin"])))
    if isinstance(client, Stdio):
        await client.write([endless])
        await echoes(client, chance)
        await client.write([cancel(endless["id"])])
        await echoes(client, chance)
        check(not client.has(endless["id"]), endless)
    elif client.revision == STATELESS:
        async with await client.another() as leaving:
            await leaving.send(endless)
            await echoes(client, chance)
    else:
        await client.send(endless)
        with trio.move_on_after(chance.random() * 0.02):
            await client.line.head()
            raise Wrong("an answer before the cancellation")
        async with await client.another() as other, trio.open_nursery() as nursery:
            nursery.start_soon(repeat_cancel, other, endless["id"])
            head = await client.line.head()
            replies = [message async for message in client.line.messages(head)]
            check(not replies, replies)
            nursery.cancel_scope.cancel()


async def repeat_cancel(other: Http, id: Any) -> None:
    """Which of two connections is read first, nobody knows."""
    while True:
        with trio.CancelScope(shield=True):
            await other.post(cancel(id))
        await trio.sleep(0.01)


ACTS = (echoes, gets_much, fails, follows, is_asked, reads, cancels)
Act = Callable[[Client, random.Random], Awaitable[None]]


# -- The traffic -----------------------------------------------------------------------------


class Traffic:
    """What goes on at the same time, until `end`."""

    def __init__(self, port: int, peers: list[Stdio], seed: int) -> None:
        self._port = port
        self._peers = peers
        self._seed = seed
        self.acts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._end = 0.0

    async def flow(self, seconds: float) -> None:
        """All of it for some time; then everybody has left."""
        self._end = time.monotonic() + seconds
        workers = [self._visit] * VISITORS + [self._listen, self._listen, self._be_deaf]
        workers += [functools.partial(self._talk, peer) for peer in self._peers for _ in range(3)]
        async with trio.open_nursery() as nursery:
            for worker in workers:
                self._seed += 1
                nursery.start_soon(self._repeat, worker, random.Random(self._seed))

    async def _repeat(self, work: Callable[..., Awaitable[None]], chance: random.Random) -> None:
        while time.monotonic() < self._end and len(self.wrong) < MOST_WRONG:
            try:
                with trio.fail_after(60):
                    await work(chance)
            except Exception:
                self.wrong.append(traceback.format_exc(limit=-4)[-2000:])

    async def _act(self, client: Client, chance: random.Random) -> None:
        act = chance.choice(ACTS)
        await act(client, chance)
        self.acts[f"{act.__name__} ({client.revision}, {type(client).__name__.lower()})"] += 1

    async def _visit(self, chance: random.Random) -> None:
        async with await Http.open(self._port, chance.choice(REVISIONS), capabilities=ELICITS) as client:
            client.answer = ANSWER
            for _ in range(chance.randrange(1, 20)):
                await self._act(client, chance)
            if chance.random() < 0.3:  # in the middle of a call
                await client.send(client.request("tools/call", tool("count", {"to": 1000})))
                await chance.choice([client.line.close, client.line.reset])()
            if client.session and chance.random() < 0.8:
                await client.delete()

    async def _talk(self, peer: Stdio, chance: random.Random) -> None:
        await self._act(peer, chance)

    async def _listen(self, chance: random.Random) -> None:
        ear = Ear(self._port, chance.randrange(10**6))
        async with await Http.open(self._port, STATELESS) as control, trio.open_nursery() as nursery:
            await ear.open(nursery)
            for _ in range(chance.randrange(1, 5)):
                await ear.hears(await storm(control, "storm", 100, chance.randrange(10**6)))
                self.acts[f"listens ({ear.revision})"] += 1
            nursery.cancel_scope.cancel()
        await ear.leave()

    async def _be_deaf(self, chance: random.Random) -> None:
        revision = chance.choice([HANDSHAKE[-1], STATELESS])
        async with await Http.open(self._port, revision, receive_buffer=4096) as client:
            # In the handshake era a call goes on without its client, and this one would do so for ever.
            await (client.begin("pour") if revision == STATELESS else client.listen(URIS))
            await trio.sleep(min(chance.random() * 3, max(0.0, self._end - time.monotonic())))
        self.acts[f"does not read ({revision})"] += 1


class Server(NamedTuple):
    """A server under test, and how it is looked at."""

    name: str
    client: Client
    start: int
    """Bytes of memory at the beginning."""


async def look(server: Server) -> None:
    """Make ready to ask it again after a while."""
    if isinstance(server.client, Http):
        await server.client.renew()


async def watch(traffic: Traffic, servers: list[Server], seconds: float, growth: float) -> list[str]:
    """Let the traffic flow; what was not in order."""
    await traffic.flow(seconds * WARM_UP)
    for server in servers:
        await look(server)
    before = [await alone(server.client) for server in servers]
    warm = [await server.client.call("memory") for server in servers]
    await traffic.flow(seconds * (1 - WARM_UP))
    problems = traffic.wrong
    for server, held, memory in zip(servers, before, warm, strict=True):
        await look(server)
        try:
            await until_as(server.client, held)
        except AssertionError as error:
            problems.append(f"{server.name}: {error}")
        now = await server.client.call("memory")
        print(f"{server.name}: {server.start / 1e6:.1f} MB, warm {memory / 1e6:.1f} MB, {now / 1e6:.1f} MB")
        if now > memory * growth:
            problems.append(f"{server.name} has grown from {memory:,} to {now:,} bytes")
    return problems


async def soak(port: int, seconds: float, seed: int, growth: float) -> list[str]:
    async with (
        await Http.open(port, STATELESS) as control,
        Stdio.open(HANDSHAKE[-1], capabilities=ELICITS) as old,
        Stdio.open(STATELESS) as new,
    ):
        old.answer = ANSWER
        clients: dict[str, Client] = {"HTTP": control, "stdio, 2025-11-25": old, "stdio, 2026-07-28": new}
        servers = [Server(name, client, await client.call("memory")) for name, client in clients.items()]
        traffic = Traffic(port, [old, new], seed)
        problems = await watch(traffic, servers, seconds, growth)
        for what, count in sorted(traffic.acts.items()):
            print(f"{count:9,} {what}")
        print(f"{traffic.acts.total():9,} in all, {len(traffic.wrong):,} wrong")
        return problems


def main(seconds: float, seed: int, growth: float = GROWTH) -> int:
    """The exit code: 1 when something was wrong."""
    print(f"{seconds:g} seconds, seed {seed}")
    with serving_http(BUSY, "--session-idle", "2", "--send-timeout", "1") as (process, url):
        problems = trio.run(soak, port_of(url), seconds, seed, growth)
        if "Traceback" in process.output:
            problems.append(process.output[-5000:])
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)))
