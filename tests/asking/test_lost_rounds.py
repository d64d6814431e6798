"""Rounds that are lost, repeated and reordered, between two servers that share only their keys.

A client is a list of moves. It goes on from any response that it has, on either server; a response may be lost on its
way, so that the client has to repeat the round. Whatever it does: a handler sees the answers of its own rounds alone,
and takes each step at least once; exactly once when each round arrives and is sent once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio
from asking.asking_kit import Raw, accept, talking, text
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import Accepted, App, Context, StateKey, SyncContext

KEYS = [StateKey("shared", b"k" * 32)]
ROUNDS = 3


class Pick(msgspec.Struct):
    word: str


class Trail:
    """Two servers, and the steps that were taken on either."""

    def __init__(self) -> None:
        self.steps: Counter[str] = Counter()

    def step(self, path: str) -> str:
        """Take a step, which is named by all answers before it."""
        self.steps[path] += 1
        return path

    def app(self) -> App:
        """A server of the same handlers."""
        app = App("trail", state_keys=KEYS)

        @app.tool
        async def walk(ctx: Context, start: str) -> str:
            path = await ctx.step(self.step, start)
            for _ in range(ROUNDS):
                answer = await ctx.elicit(Pick, f"From {path}?")
                assert isinstance(answer, Accepted)
                path = await ctx.step(self.step, path + answer.value.word)
            return path

        @app.tool
        def walk_sync(ctx: SyncContext, start: str) -> str:
            path = ctx.step(self.step, start)
            for _ in range(ROUNDS):
                answer = ctx.elicit(Pick, f"From {path}?")
                assert isinstance(answer, Accepted)
                path = ctx.step(self.step, path + answer.value.word)
            return path

        return app


class Walker:
    """A client with the responses that it has had. `paths` tells what each of them knows."""

    def __init__(self, servers: list[Raw], tool: str) -> None:
        self.servers = servers
        self.tool = tool
        self.had: list[tuple[str, Any]] = []

    async def begin(self, server: int, start: str) -> tuple[str, Any]:
        """Begin a call."""
        return start, await self.servers[server].call(self.tool, {"start": start})

    async def go_on(self, server: int, known: tuple[str, Any], word: str) -> tuple[str, Any]:
        """The next round after a response that was had."""
        path, response = known
        ((key, question),) = response["result"]["inputRequests"].items()
        assert question["params"]["message"] == f"From {path}?"
        answers = {key: accept(word=word), "stale": accept(word="z")}
        more = await self.servers[server].retry(self.tool, response, {"start": path[0]}, **answers)
        return path + word, more


@asynccontextmanager
async def two_servers(trail: Trail) -> AsyncGenerator[list[Raw]]:
    async with talking(trail.app()) as one, talking(trail.app()) as two:
        yield [one, two]


def is_over(response: Any) -> bool:
    return response["result"]["resultType"] == "complete"


MOVE = st.tuples(
    st.integers(0, 1),  # the server
    st.integers(0, 30),  # which of the responses to go on from
    st.sampled_from("ab"),  # the answer
    st.booleans(),  # whether the response is lost on its way
)


@given(moves=st.lists(MOVE, max_size=14), starts=st.lists(st.sampled_from("xy"), min_size=1, max_size=2))
@settings(max_examples=60, deadline=None)
def test_steps_are_taken_at_least_once_and_answers_never_mixed(
    moves: list[tuple[int, int, str, bool]], starts: list[str]
) -> None:
    """MRTR-05, MRTR-12, MRTR-14."""
    trail = Trail()
    arrived: Counter[str] = Counter()

    async def main() -> None:
        async with two_servers(trail) as servers:
            walker = Walker(servers, "walk")
            for start in starts:
                walker.had.append(await walker.begin(0, start))
                arrived[start] += 1
            for server, which, word, lost in moves:
                known = walker.had[which % len(walker.had)]
                if is_over(known[1]):
                    assert text(known[1]) == known[0]
                    continue
                path, response = await walker.go_on(server, known, word)
                arrived[path] += 1
                assert is_over(response) == (len(path) == ROUNDS + 1)
                if not lost:
                    walker.had.append((path, response))

    trio.run(main)
    # Each round that a server has had took the one step after its answer, and none of those before it.
    assert trail.steps == arrived


@given(
    words=st.lists(st.sampled_from("ab"), min_size=ROUNDS, max_size=ROUNDS),
    servers=st.lists(st.integers(0, 1), min_size=ROUNDS + 1, max_size=ROUNDS + 1),
    tool=st.sampled_from(["walk", "walk_sync"]),
)
@settings(max_examples=25, deadline=None)
def test_steps_are_taken_exactly_once_when_no_round_is_lost(
    words: list[str], servers: list[int], tool: str
) -> None:
    """MRTR-14, on whichever server each round arrives."""
    trail = Trail()

    async def main() -> None:
        async with two_servers(trail) as clients:
            walker = Walker(clients, tool)
            known = await walker.begin(servers[0], "x")
            for server, word in zip(servers[1:], words, strict=True):
                known = await walker.go_on(server, known, word)
            assert text(known[1]) == "x" + "".join(words)

    trio.run(main)
    path = "x" + "".join(words)
    assert trail.steps == Counter(path[:size] for size in range(1, ROUNDS + 2))


@given(lost=st.lists(st.integers(0, 2), min_size=ROUNDS + 1, max_size=ROUNDS + 1))
@settings(max_examples=25, deadline=None)
def test_a_round_that_is_lost_repeats_only_its_own_step(lost: list[int]) -> None:
    """MRTR-05: as often as its response is lost."""
    trail = Trail()

    async def main() -> None:
        async with two_servers(trail) as clients:
            walker = Walker(clients, "walk")
            for _ in range(lost[0]):
                await walker.begin(1, "x")
            known = await walker.begin(0, "x")
            for times in lost[1:]:
                for _ in range(times):
                    await walker.go_on(1, known, "a")
                known = await walker.go_on(0, known, "a")
            assert is_over(known[1])

    trio.run(main)
    assert trail.steps == Counter({"x" + "a" * size: times + 1 for size, times in enumerate(lost)})


@given(order=st.permutations(range(4)))
@settings(max_examples=12, deadline=None)
def test_rounds_that_run_at_the_same_time_do_not_meet(order: list[int]) -> None:
    """MRTR-12: a server holds nothing between rounds, so that nothing of one call can reach another."""
    trail = Trail()

    async def main() -> None:
        async with two_servers(trail) as clients:
            walkers = [Walker([clients[number % 2]], "walk") for number in range(4)]
            known = [await walker.begin(0, "xy"[number // 2]) for number, walker in enumerate(walkers)]
            for word in "abc":
                for number in order:
                    known[number] = await walkers[number].go_on(0, known[number], word)
            assert [text(response) for _, response in known] == ["xabc", "xabc", "yabc", "yabc"]

    trio.run(main)
    assert set(trail.steps.values()) == {2}
