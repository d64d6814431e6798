"""What ends by itself, and what happens at the same moment; on a clock that the test owns."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from oauth.browser import CALLBACK, challenge

from mcpkit import Principal
from mcpkit.auth.clients import Clients
from mcpkit.auth.documents import Documents
from mcpkit.auth.fetch import Fetcher
from mcpkit.auth.forms import OAuthError
from mcpkit.auth.grants import CODE_SECONDS, REUSE_SECONDS, Code, Grant, Grants
from mcpkit.auth.limits import MAX_KEYS, Limit
from mcpkit.stores.memory import MemoryStore

pytestmark = pytest.mark.once

HOUR = 3600.0
VERIFIER = "v" * 43
RESOURCE = "https://mcp.example/mcp"
EDITOR = Principal("editor", ("notes:read",), {"team": "red"}, {"any": ["thing"]})
ACCESS, REFRESH = HOUR, 30 * 24 * HOUR


def owned_time(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Run an async test on a clock that jumps to the next thing that happens."""

    @functools.wraps(test)
    def run() -> None:
        trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0), strict_exception_groups=True)

    return run


class FarStore(MemoryStore):
    """A store that is somewhere else: others get their turn during each operation."""

    async def get(self, name: str) -> bytes | None:
        await trio.lowlevel.checkpoint()
        found = await super().get(name)
        await trio.lowlevel.checkpoint()
        return found

    async def put(self, name: str, value: bytes, ttl: float) -> None:
        await trio.lowlevel.checkpoint()
        await super().put(name, value, ttl)
        await trio.lowlevel.checkpoint()

    async def delete(self, name: str) -> bool:
        await trio.lowlevel.checkpoint()
        found = await super().delete(name)
        await trio.lowlevel.checkpoint()
        return found


class Desk:
    """A client with its grants, which may be several processes over one store."""

    def __init__(self, store: MemoryStore | None = None, *, refreshes: bool = True) -> None:
        self.store = store or MemoryStore()
        self.grants = Grants(self.store, ACCESS, REFRESH)
        self.refreshes = refreshes

    async def code(self) -> str:
        grant = Grant("client", EDITOR, RESOURCE, self.refreshes)
        return await self.grants.offer(Code(grant, CALLBACK, challenge(VERIFIER)))

    async def redeem(self, code: str) -> dict[str, str]:
        return await self.grants.redeem(code, "client", CALLBACK, VERIFIER, RESOURCE)

    async def refresh(self, token: str) -> dict[str, str]:
        return await self.grants.refresh(token, "client", None, None)

    async def is_good(self, tokens: dict[str, str]) -> bool:
        return await self.grants.find(tokens["access_token"], RESOURCE) is not None


async def refused(call: object) -> str:
    with pytest.raises(OAuthError) as error:
        await call  # type: ignore[misc]
    return error.value.code


@owned_time
async def test_a_code_is_good_for_a_minute() -> None:
    """RFC 6749 section 4.1.2: short; ten minutes at most."""
    desk = Desk()
    one, other = await desk.code(), await desk.code()
    await trio.sleep(CODE_SECONDS - 1)
    assert await desk.redeem(one)
    await trio.sleep(1)
    assert await refused(desk.redeem(other)) == "invalid_grant"


@owned_time
async def test_an_access_token_is_good_for_an_hour_and_the_grant_for_a_month() -> None:
    """Whoever goes on refreshing has the user sign in again all the same."""
    desk = Desk()
    tokens = await desk.redeem(await desk.code())
    await trio.sleep(ACCESS - 1)
    assert await desk.is_good(tokens)
    await trio.sleep(1)
    assert not await desk.is_good(tokens)
    for _ in range(29):
        tokens = await desk.refresh(tokens["refresh_token"])
        await trio.sleep(24 * HOUR)
    tokens = await desk.refresh(tokens["refresh_token"])
    await trio.sleep(24 * HOUR)
    assert await refused(desk.refresh(tokens["refresh_token"])) == "invalid_grant"


@owned_time
async def test_what_a_principal_is_survives_the_store() -> None:
    """Claims and value come back with each token, and its end with them; the resource decides whether it is good."""
    desk = Desk()
    before = int(time.time())
    tokens = await desk.redeem(await desk.code())
    found = await desk.grants.find(tokens["access_token"], RESOURCE)
    assert found is not None and before <= found.claims.pop("exp") - ACCESS <= time.time()
    assert found == EDITOR
    assert await desk.grants.find(tokens["access_token"], "https://other.example/mcp") is None


@owned_time
async def test_the_store_never_sees_a_secret() -> None:
    """Whoever reads it can use none of the tokens."""
    written: list[str] = []

    class Watched(MemoryStore):
        async def put(self, name: str, value: bytes, ttl: float) -> None:
            written.append(name + value.decode())
            await super().put(name, value, ttl)

    desk = Desk(Watched())
    code = await desk.code()
    tokens = await desk.redeem(code)
    more = await desk.refresh(tokens["refresh_token"])
    clients = Clients(desk.store, Documents(Fetcher()))
    client = await clients.register(b'{"redirect_uris":["https://app.example/"]}', None)
    secrets = [
        code,
        client["client_secret"],
        *(t[k] for t in (tokens, more) for k in ("access_token", "refresh_token")),
    ]
    assert len(written) == 8
    assert not [secret for secret in secrets for line in written if secret in line]


@owned_time
async def test_a_refresh_token_that_comes_again_late_ends_the_family() -> None:
    """RFC 9700 section 4.14.2: after the moment of tolerance it is stolen, whoever of the two comes second."""
    desk = Desk()
    first = await desk.redeem(await desk.code())
    second = await desk.refresh(first["refresh_token"])
    await trio.sleep(REUSE_SECONDS)
    assert await desk.is_good(second)
    assert await refused(desk.refresh(first["refresh_token"])) == "invalid_grant"
    assert not await desk.is_good(second)
    assert await refused(desk.refresh(second["refresh_token"])) == "invalid_grant"


@owned_time
async def test_a_month_old_refresh_token_still_ends_the_family() -> None:
    """Nothing has to be remembered for that: the token names its family."""
    desk = Desk()
    first = await desk.redeem(await desk.code())
    latest = await desk.refresh(first["refresh_token"])
    for _ in range(25):
        await trio.sleep(24 * HOUR)
        latest = await desk.refresh(latest["refresh_token"])
    assert await refused(desk.refresh(first["refresh_token"])) == "invalid_grant"
    assert not await desk.is_good(latest)


@owned_time
async def test_what_is_kept_of_a_session_does_not_grow() -> None:
    """A client that refreshes for a month leaves nothing behind."""
    desk = Desk()
    tokens = await desk.redeem(await desk.code())
    for _ in range(25 * 24):
        await trio.sleep(HOUR)
        tokens = await desk.refresh(tokens["refresh_token"])
    assert (
        len(desk.store._values) <= 4
    )  # family, refresh token, access token, the one that was spent just now


@owned_time
async def test_of_many_who_redeem_a_code_at_once_at_most_one_has_tokens() -> None:
    """RFC 6749 section 10.5, also over a store where two requests overlap."""
    desk = Desk(FarStore())
    for _ in range(20):
        code = await desk.code()
        given: list[dict[str, str]] = []

        async def redeem(code: str = code, given: list[dict[str, str]] = given) -> None:
            with contextlib.suppress(OAuthError):
                given.append(await desk.redeem(code))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(redeem)
        assert len(given) <= 1


@owned_time
async def test_two_processes_may_refresh_at_the_same_moment() -> None:
    """Neither gets an error, and the family lives on."""
    store = FarStore()
    desks = Desk(store), Desk(store)
    for _ in range(20):
        first = await desks[0].redeem(await desks[0].code())
        given: list[dict[str, str]] = []

        async def refresh(
            desk: Desk, token: str = first["refresh_token"], given: list[dict[str, str]] = given
        ) -> None:
            given.append(await desk.refresh(token))

        async with trio.open_nursery() as nursery:
            for desk in desks:
                nursery.start_soon(refresh, desk)
        assert len({tokens["refresh_token"] for tokens in given}) == 2
        for tokens in given:
            assert await desks[0].is_good(tokens)
            assert await desks[1].refresh(tokens["refresh_token"])


@owned_time
async def test_what_was_revoked_does_not_come_back() -> None:
    """Also when it is refreshed at that moment."""
    desk = Desk(FarStore())
    for _ in range(20):
        first = await desk.redeem(await desk.code())
        given: list[dict[str, str]] = []

        async def refresh(token: str = first["refresh_token"], given: list[dict[str, str]] = given) -> None:
            with contextlib.suppress(OAuthError):
                given.append(await desk.refresh(token))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(refresh)
            nursery.start_soon(desk.grants.revoke, first["refresh_token"], "client")
        for tokens in (first, *given):
            assert not await desk.is_good(tokens)
            assert await refused(desk.refresh(tokens["refresh_token"])) == "invalid_grant"


# -- Paces -----------------------------------------------------------------------------------


@owned_time
async def test_a_pace_allows_a_burst_and_then_one_at_a_time() -> None:
    """Five at once, and one more each minute."""
    limit = Limit(5, 300.0)
    for _ in range(5):
        assert limit.wait("a") == 0
        limit.count("a")
    assert limit.wait("a") == 60
    assert limit.wait("b") == 0
    await trio.sleep(59)
    assert limit.wait("a") == 1
    await trio.sleep(1)
    assert limit.wait("a") == 0
    limit.count("a")
    assert limit.wait("a") == 60
    await trio.sleep(300)
    for _ in range(5):
        assert limit.wait("a") == 0
        limit.count("a")
    assert limit.wait("a") == 60


@owned_time
async def test_what_is_forgiven_did_not_count() -> None:
    """And nobody gains by it more than the burst."""
    limit = Limit(2, 100.0)
    for _ in range(50):
        limit.count("a")
        limit.forgive("a")
    for _ in range(2):
        assert limit.wait("a") == 0
        limit.count("a")
    assert limit.wait("a") == 50


def test_a_pace_begins_anew_with_another_clock() -> None:
    """What counts wrong tokens is made with the app, which may be served again in another trio run."""
    limit = Limit(1, 60.0)

    async def waits() -> list[int]:
        before = limit.wait("a")
        limit.count("a")
        return [before, limit.wait("a")]

    for ahead in (1_000_000, 0):
        clock = trio.testing.MockClock()
        clock.jump(ahead)
        assert trio.run(waits, clock=clock) == [0, 60]


@owned_time
async def test_a_pace_remembers_a_bounded_number() -> None:
    """SEC-02: an attacker makes up as many keys as it likes."""
    limit = Limit(1, 1000.0)
    for number in range(12_000):
        limit.count(str(number))
    assert len(limit._full_at) == MAX_KEYS
    assert limit.wait("11999") > 0


@owned_time
async def test_registrations_that_nobody_accepts_make_room_again() -> None:
    """After a week they are forgotten, by the store and by the count."""
    clients = Clients(MemoryStore(), Documents(Fetcher()))
    body = b'{"redirect_uris":["https://app.example/"]}'
    first = await clients.register(body, "192.0.2.1")
    assert (await clients.find(first["client_id"], None)).redirect_uris == ("https://app.example/",)
    await trio.sleep(7 * 24 * HOUR)
    assert await refused(clients.find(first["client_id"], None)) == "invalid_client"
    await clients.register(body, "192.0.2.1")
    assert len(clients._unused) == 1
