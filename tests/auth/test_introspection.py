"""Tokens that only their issuer can read."""

from __future__ import annotations

import base64
import functools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from auth.authkit import bearer, on_own_clock
from auth.issuing import Issuer, guarded_by, issuing, resource
from kit import Response, Server, call, discover, eventually
from trio.testing import MockClock

from mcpkit.auth import IntrospectionAuth, Site, Unavailable
from mcpkit.auth import introspection as module
from mcpkit.stores.memory import MemoryStore

SITE = Site("http://127.0.0.1", "", "/mcp", "http://127.0.0.1/mcp")


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    with issuing(tmp_path) as issuer:
        yield issuer


@pytest.fixture
def server(issuer: Issuer) -> Iterator[Server]:
    url = issuer.url("introspect")
    with guarded_by("IntrospectionAuth", url, client_id="mcp:server", client_secret="s%crët +") as server:
        yield server


def active(**more: Any) -> dict[str, Any]:
    return {"active": True, "sub": "ann", "scope": "read", **more}


def who(server: Server, token: str) -> Response:
    return server.post(call(1, "who"), bearer(token))


def test_the_issuer_is_asked_as_the_rfc_says(server: Server, issuer: Issuer) -> None:
    """RFC 7662 section 2.1; RFC 6749 section 2.3.1: the credentials are form-encoded, then Basic."""
    issuer.introspects({"good~token": active(scope="read write", username="Ann")})
    assert who(server, "good~token").text == "ann: read write"
    (question,) = issuer.questions
    assert question["form"] == {"token": ["good~token"], "token_type_hint": ["access_token"]}
    scheme, _, credentials = question["authorization"].partition(" ")
    assert (scheme, base64.b64decode(credentials)) == ("Basic", b"mcp%3Aserver:s%25cr%C3%ABt+%2B")


@pytest.mark.parametrize(
    "answer",
    [
        {"active": False},
        {},
        {"active": "true", "sub": "ann"},
        {"active": 1, "sub": "ann"},
        {"active": True},
        {"active": True, "sub": 7},
        active(exp=1_700_000_000),
        active(exp="never"),
        active(nbf=9_000_000_000),
        active(aud="https://other.example.com/mcp"),
        active(aud=["https://other.example.com/mcp", 1]),
        active(aud=[]),
        active(aud=None),
    ],
)
def test_what_is_not_active_or_for_others_is_refused(server: Server, issuer: Issuer, answer: Any) -> None:
    """AUTH-07. Asked once, also for a bad one."""
    issuer.introspects({"token": answer})
    for _ in range(3):
        response = who(server, "token")
        assert response.status == 401
        assert 'error="invalid_token"' in (response.get("www-authenticate") or "")
    assert len(issuer.questions) == 1


def test_an_audience_that_is_there_must_be_this_server(server: Server, issuer: Issuer) -> None:
    """In its canonical form, one of several."""
    issuer.introspects({"token": active(aud=["x", resource(server).upper().replace("/MCP", "/mcp/")])})
    assert who(server, "token").text == "ann: read"
    assert server.post(discover(), {**bearer("token"), "Host": f"localhost:{server.port}"}).status == 401
    assert len(issuer.questions) == 1, "the answer is kept, and looked at for each request"


def test_many_who_wait_cause_one_question(server: Server, issuer: Issuer) -> None:
    """And what was answered is kept."""
    issuer.introspects({"token": active()})
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(who(server, "token").status)) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 20
    assert len(issuer.questions) == 1


def test_an_issuer_that_is_away_is_no_reason_to_log_in_again(server: Server, issuer: Issuer) -> None:
    """503 with Retry-After, and not 401; what is kept goes on being good; and it is found again."""
    issuer.introspects({"known": active(), "new": active(sub="bob")})
    assert who(server, "known").status == 200
    issuer.kill()
    assert who(server, "known").status == 200
    for _ in range(2):
        away = who(server, "new")
        assert away.status == 503
        assert int(away.get("retry-after") or "") >= 1
        assert away.get("www-authenticate") is None
    issuer.start()
    assert who(server, "new").text == "bob: read"
    assert "secret" not in server.errors


@pytest.mark.parametrize("answer", ["status 401", "status 500", "status 307"])
def test_an_issuer_that_refuses_is_one_that_is_away(server: Server, issuer: Issuer, answer: str) -> None:
    """Wrong credentials are for the operator to see, and not the client's fault."""
    issuer.introspects({"token": answer})
    assert who(server, "token").status == 503
    eventually(lambda: answer in server.errors, "a line in the log")


def test_a_token_with_too_little_scope(server: Server, issuer: Issuer) -> None:
    """AUTH-04."""
    issuer.introspects({"token": active(), "more": active(scope="read write")})
    assert server.post(call(1, "wipe"), bearer("token")).status == 403
    assert server.post(call(1, "wipe"), bearer("more")).text == "wiped"


# -- How long, and how much, is kept ---------------------------------------------------------


async def auth_for(issuer: Issuer, **options: Any) -> IntrospectionAuth:
    auth = IntrospectionAuth(issuer.url("introspect"), client_id="me", client_secret="secret", **options)
    await auth.run(MemoryStore())
    return auth


@on_own_clock
async def test_answers_are_kept_for_their_time(clock: MockClock, issuer: Issuer) -> None:
    """`cache_ttl` bounds good answers, their own `exp` too; bad ones are kept briefly."""
    auth = await auth_for(issuer)
    issuer.introspects({"long": active(), "short": active(exp=time.time() + 30)})

    async def asked(seconds: float) -> list[str]:
        """Which tokens are asked about again, `seconds` later."""
        clock.jump(seconds)
        before = len(issuer.questions)
        assert str(await auth.verify("long", SITE)) == "ann"
        assert await auth.verify("bad", SITE) is None
        await auth.verify("short", SITE)
        return [question["form"]["token"][0] for question in issuer.questions[before:]]

    assert await asked(0) == ["long", "bad", "short"]
    assert await asked(9) == []
    assert await asked(2) == ["bad"]
    assert await asked(9) == []
    assert await asked(11) == ["bad", "short"]
    assert await asked(31) == ["long", "bad", "short"]


@on_own_clock
async def test_what_is_kept_is_bounded_and_holds_no_token(clock: MockClock, issuer: Issuer) -> None:
    """The oldest make room; under their hashes."""
    auth = await auth_for(issuer)
    cache = auth._cache
    for number in range(module.MAX_CACHED + 100):
        cache.put(str(number).encode(), None, 60)
    assert len(cache._answers) == module.MAX_CACHED
    assert cache.get(b"0") is None
    issuer.introspects({"a-very-secret-token": active()})
    assert await auth.verify("a-very-secret-token", SITE) is not None
    assert not [key for key in cache._answers if b"very-secret" in key]


@on_own_clock
async def test_an_issuer_that_hangs_is_not_waited_for(clock: MockClock, issuer: Issuer) -> None:
    """All who wait for the same answer are told at once, instead of asking one after the other."""
    failed: list[int] = []
    began = trio.Event()

    async def hang(stream: trio.SocketStream) -> None:
        began.set()
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(functools.partial(trio.serve_tcp, hang, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        auth = IntrospectionAuth(f"http://127.0.0.1:{port}", client_id="me", client_secret="secret")
        await auth.run(MemoryStore())

        async def verify() -> None:
            with pytest.raises(Unavailable):
                await auth.verify("token", SITE)
            failed.append(1)

        async with trio.open_nursery() as asking:
            for _ in range(5):
                asking.start_soon(verify)
            await began.wait()
            clock.jump(11)
        assert len(failed) == 5
        nursery.cancel_scope.cancel()


@on_own_clock
async def test_nothing_is_kept_when_it_must_not(clock: MockClock, issuer: Issuer) -> None:
    """`cache_ttl=0` asks each time."""
    auth = await auth_for(issuer, cache_ttl=0)
    issuer.introspects({"token": active()})
    assert await auth.verify("token", SITE) is not None
    issuer.introspects({})
    assert await auth.verify("token", SITE) is None
    assert len(issuer.questions) == 2


@pytest.mark.parametrize("options", [{"cache_ttl": -1}, {"cache_ttl": float("nan")}])
def test_options_that_cannot_be(options: Any) -> None:
    """Said when the app is made."""
    with pytest.raises(ValueError, match="cache_ttl"):
        IntrospectionAuth("https://id.example.com/x", client_id="a", client_secret="b", **options)
    with pytest.raises(ValueError, match="http"):
        IntrospectionAuth("id.example.com", client_id="a", client_secret="b")
