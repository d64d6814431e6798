"""Hundreds of clients that listen while much changes: each hears of everything, and nothing stays when they leave."""

from __future__ import annotations

import functools
import random
import time
from typing import Any

import trio
from hosts.process import serving_http
from load.loadkit import BUSY, SECONDS, Http, alone, change_of, inside, port_of, run, together, until_as
from support import HANDSHAKE, STATELESS

CLIENTS = 500
CHANGES = 2000
BURSTS = 10
"""Of each storm: the changes of one mostly reach a client as one notification for each thing that changed."""
URIS = [f"load://{number}" for number in range(40)]
LISTS = [f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")]
BYTES_PER_STREAM = 80_000
"""Of the server's memory, for a client that just listens; about 25,000 are measured."""
TASKS_PER_STREAM = 2.5
"""Two in a session, of which one looks whether the client leaves, and three for a call that listens: most of what a
client costs that just listens.
"""


class Ear:
    """A client that listens to some resources, and perhaps to the lists."""

    def __init__(self, port: int, number: int) -> None:
        chance = self._chance = random.Random(number)
        self.port = port
        self.revision = STATELESS if number % 2 else chance.choice(HANDSHAKE)
        self.uris = chance.sample(URIS, 20 if self.revision in (STATELESS, "2025-03-26") else 3)
        # In the handshake era nobody chooses among the lists.
        self.lists = LISTS if self.revision != STATELESS or chance.random() < 0.5 else []
        self.client: Http
        self.heard: dict[str, float] = {}
        """When it last heard of what."""
        self.count = 0
        self._due: dict[str, float] = {}
        self._satisfied = trio.Event()

    async def open(self, nursery: trio.Nursery) -> None:
        self.client = await Http.open(self.port, self.revision)
        head = await self.client.listen(self.uris, bool(self.lists))
        nursery.start_soon(self._read, head)

    async def _read(self, head: Any) -> None:
        async for message in self.client.line.messages(head):
            if message["method"] != "notifications/subscriptions/acknowledged":
                change = change_of(message)
                assert change in self.uris or change in self.lists, f"{change} was not asked for"
                self.heard[change] = time.monotonic()
                self.count += 1
                self._look()

    async def hears(self, told: dict[str, float]) -> None:
        """Wait until it has heard of each change since it was last published."""
        self._due = {change: at for change, at in told.items() if change in (*self.uris, *self.lists)}
        self._satisfied = trio.Event()
        self._look()
        with trio.move_on_after(SECONDS / 3):
            await self._satisfied.wait()
        missing = self._missing()
        assert not missing, f"a client of {self.revision} has not heard of {missing}"

    def _missing(self) -> list[str]:
        return [change for change, at in self._due.items() if self.heard.get(change, 0.0) < at]

    def _look(self) -> None:
        if not self._missing():
            self._satisfied.set()

    async def leave(self, well: float = 0.8) -> None:
        """Leave in one of the ways that clients do: some say so, the sessions of the others end after a while."""
        await self._chance.choice([self.client.line.close, self.client.line.reset])()
        if self.revision != STATELESS and self._chance.random() < well:
            await self.client.delete()


def tell(what: str, number: float) -> None:
    print(f"{what}: {number:,.1f}")


async def scene(port: int) -> None:
    async with await Http.open(port, STATELESS) as control:
        await listen(port, control)


async def listen(port: int, control: Http) -> None:
    for number in range(20):  # so that everything is there that comes with the first use
        async with trio.open_nursery() as nursery:
            ear = Ear(port, number)
            await ear.open(nursery)
            await ear.hears(await storm(control, "storm", 100, number))
            nursery.cancel_scope.cancel()
        await ear.leave(well=1.0)
    before, memory = await alone(control), await control.call("memory")
    ears = [Ear(port, number) for number in range(CLIENTS)]
    async with trio.open_nursery() as nursery:
        began = time.monotonic()
        await together([functools.partial(ear.open, nursery) for ear in ears], 20)
        tell("seconds until all listen", time.monotonic() - began)
        per_stream = (await control.call("memory") - memory) / CLIENTS
        tell("bytes of memory for each idle stream", per_stream)
        tasks = ((await inside(control))["tasks"] - before["tasks"]) / CLIENTS
        tell("tasks for each", tasks)
        assert tasks <= TASKS_PER_STREAM
        for seed, name in enumerate(("storm", "storm_in_thread")):
            began = time.monotonic()
            told = await storm(control, name, CHANGES // 2, seed)
            for ear in ears:
                await ear.hears(told)
            tell(f"seconds of the {name}", time.monotonic() - began)
        nursery.cancel_scope.cancel()
    tell("notifications", sum(ear.count for ear in ears))
    assert per_stream < BYTES_PER_STREAM
    await together([ear.leave for ear in ears], 20)
    await until_as(control, before)
    tell("bytes of memory that stay for each", (await control.call("memory") - memory) / CLIENTS)


async def storm(control: Http, name: str, changes: int, seed: int) -> dict[str, float]:
    told: dict[str, float] = await control.call(name, uris=URIS, changes=changes, bursts=BURSTS, seed=seed)
    return told


def test_every_client_hears_the_last_of_every_change() -> None:
    """SUB-07, HL-12: changes may be told together, but a client that reads is never left with an old state; and who
    leaves leaves nothing behind.
    """
    with serving_http(BUSY, "--session-idle", "1") as (process, url):
        run(functools.partial(scene, port_of(url)))
        assert "Traceback" not in process.output, process.output
