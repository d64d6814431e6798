"""Keys that an issuer publishes: fetched, rotated, and good for as long as they may be when it is away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from auth.authkit import bearer, on_own_clock
from auth.issuing import EC, RSA, Issuer, claims, guarded_by, issuing, resource, signed
from hosts.process import UVICORN, started
from joserfc.jwk import OctKey, RSAKey
from kit import Response, Server, call, discover, eventually
from trio.testing import MockClock

from mcpkit.auth import Unavailable, keys

NEW: RSAKey = RSAKey.generate_key(2048, {"kid": "new"})


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    with issuing(tmp_path) as issuer:
        issuer.publish(RSA, EC)
        yield issuer


@pytest.fixture
def server(issuer: Issuer) -> Iterator[Server]:
    with guarded_by("JWTAuth", jwks_url=issuer.url("keys")) as server:
        yield server


def ask(server: Server, key: Any, algorithm: str = "RS256", kid: str | None = "") -> Response:
    header = {"kid": key.kid if kid == "" else kid}
    return server.post(discover(), bearer(signed(key, algorithm, header, claims(resource(server)))))


def test_keys_are_fetched_once_for_all_who_wait(server: Server, issuer: Issuer) -> None:
    """FACTS 5.3: and not before the first token comes."""
    assert issuer.questions == []
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(ask(server, RSA).status)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 20, server.errors
    assert ask(server, EC, "ES256").status == 200
    assert len(issuer.questions) == 1


def test_a_new_key_is_found_when_a_token_names_it(server: Server, issuer: Issuer) -> None:
    """Rotation. Afterwards unknown keys cause no fetch for a while, whatever tokens come."""
    assert ask(server, RSA).status == 200
    issuer.publish(NEW, EC)
    assert ask(server, NEW).status == 200
    assert ask(server, RSA).status == 401, "it is withdrawn"
    for number in range(30):
        assert ask(server, NEW, kid=f"unknown-{number}").status == 401
    assert len(issuer.questions) == 2


def test_keys_that_are_known_are_good_while_the_issuer_is_away(server: Server, issuer: Issuer) -> None:
    """An unknown one is nobody's to decide: 503 with Retry-After, not 401, which would make clients log in again."""
    assert ask(server, RSA).status == 200
    issuer.kill()
    assert ask(server, RSA).status == 200
    away = ask(server, NEW)
    assert away.status == 503
    assert int(away.get("retry-after") or "") >= 1
    assert away.get("www-authenticate") is None
    issuer.publish(NEW)
    issuer.start()
    until(lambda: ask(server, NEW).status, 200, while_=503)


def test_an_issuer_that_is_away_from_the_start_is_found_later(server: Server, issuer: Issuer) -> None:
    """The server starts without it."""
    issuer.kill()
    assert ask(server, RSA).status == 503
    assert server.post(discover(), bearer("no.jwt.at-all")).status == 401, "what is no token needs no issuer"
    issuer.start()
    until(lambda: ask(server, RSA).status, 200, while_=503)


@pytest.mark.once
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_keys_are_fetched_in_a_host_on_asyncio(issuer: Issuer, loop: str) -> None:
    """The app is a guest there, and speaks HTTP on trio."""
    command = [*UVICORN, loop, "auth.scripts.mounted:asks_issuer"]
    with started(command, JWKS_URL=issuer.url("keys")) as process:
        url = process.expect(r"http://127\.0\.0\.1:\d+")[0] + "/mcp"
        token = signed(RSA, "RS256", {"kid": "rsa"}, claims(url))
        assert httpx.post(url, headers=bearer(token), trust_env=False).status_code == 415
        assert httpx.post(url, headers=bearer(token + "x"), trust_env=False).status_code == 401
        issuer.kill()
        unknown = signed(NEW, "RS256", {"kid": "new"}, claims(url))
        assert httpx.post(url, headers=bearer(unknown), trust_env=False).status_code == 503


def until(ask: Any, wanted: int, while_: int) -> None:
    """Ask, for as long as the answer says that it must be asked again."""
    while (status := ask()) == while_:
        pass
    assert status == wanted


@pytest.mark.parametrize("answer", [{"keys": []}, {"keys": 7}, {}, {"keys": [1, {}, {"kty": "RSA"}]}])
def test_documents_without_a_key_let_nobody_in(server: Server, issuer: Issuer, answer: Any) -> None:
    """RFC 7517 section 5: what cannot be read is left out."""
    issuer.publish(**answer)
    for _ in range(5):
        assert ask(server, RSA).status == 401
    assert len(issuer.questions) == 2, "the first, and one for the sake of the key"
    assert server.post(discover()).status == 401


@pytest.mark.parametrize("status", [302, 404, 500])
def test_an_issuer_that_fails_is_one_that_is_away(server: Server, issuer: Issuer, status: int) -> None:
    """It is followed nowhere."""
    issuer.fails(status)
    assert ask(server, RSA).status == 503
    eventually(lambda: f"status {status}" in server.errors, "a line in the log")


def test_published_secrets_and_keys_for_encryption_sign_nothing(server: Server, issuer: Issuer) -> None:
    """A secret that is published is none; `use` is `enc` for other things."""
    secret = OctKey.import_key("a secret that everybody can read, and use", {"kid": "oct"})
    document = [secret.as_dict(private=True), {**RSA.as_dict(private=False), "use": "enc"}]
    issuer.publish(keys=document)
    assert ask(server, secret, "HS256").status == 401
    assert ask(server, RSA).status == 401


def test_a_token_without_a_key_id_needs_an_only_key(server: Server, issuer: Issuer) -> None:
    """RFC 7515 section 4.1.4: it is optional; with several keys nobody tries them all."""
    assert ask(server, RSA, kid=None).status == 401
    issuer.publish(RSA)
    with guarded_by("JWTAuth", jwks_url=issuer.url("keys")) as server:
        assert ask(server, RSA, kid=None).status == 200
        assert server.post(call(1, "who"), bearer("x")).status == 401


@on_own_clock
async def test_keys_are_fetched_again_in_time(clock: MockClock, issuer: Issuer) -> None:
    """A withdrawn key is forgotten after an hour; when the issuer is away then, what is known goes on being good."""
    published = keys.PublishedKeys(issuer.url("keys"))
    assert await published.find("rsa") is not None
    issuer.publish(EC)
    clock.jump(keys.MAX_AGE_SECONDS - 1)
    assert await published.find("rsa") is not None
    clock.jump(2)
    assert await published.find("rsa") is None
    assert len(issuer.questions) == 2
    issuer.kill()
    clock.jump(keys.MAX_AGE_SECONDS + 1)
    assert await published.find("ec") is not None
    with pytest.raises(Unavailable):
        await published.find("rsa")


@on_own_clock
async def test_unknown_keys_cause_a_fetch_now_and_then(clock: MockClock, issuer: Issuer) -> None:
    """Anybody can make tokens that name keys."""
    published = keys.PublishedKeys(issuer.url("keys"))
    for fetches in (2, 3, 4):  # the first finds the keys themselves as well
        for number in range(100):
            assert await published.find(f"unknown-{number}") is None
        assert len(issuer.questions) == fetches
        clock.jump(keys.COOL_DOWN_SECONDS + 1)
