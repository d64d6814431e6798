"""Signed tokens: the attacks that are known, and what is to be accepted."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from auth.authkit import bearer
from auth.issuing import (
    EC,
    ED,
    ISSUER,
    OCT,
    RSA,
    SECRET,
    by_rsa_key,
    claims,
    forged,
    guarded_by,
    pem,
    resource,
    signed,
)
from joserfc.jwk import ECKey, OctKey, RSAKey
from kit import Server, call, discover

from mcpkit.auth import JWTAuth


@pytest.fixture(scope="module")
def rsa() -> Iterator[Server]:
    """Knows a public key, and an issuer."""
    with guarded_by("JWTAuth", public_key=pem(RSA), algorithms=["RS256"], issuer=ISSUER, leeway=5) as server:
        yield server


@pytest.fixture(scope="module")
def secret() -> Iterator[Server]:
    """Shares a secret with the issuer."""
    with guarded_by("JWTAuth", secret=SECRET) as server:
        yield server


Forge = Callable[[str], str]
LATER, AGES_AGO = 9_000_000_000, 1_700_000_000


def by_rsa(header: dict[str, Any] | None = None, **more: Any) -> Forge:
    return lambda url: signed(RSA, "RS256", header or {}, claims(url, **more))


ATTACKS: dict[str, Forge] = {
    "alg none": lambda url: forged({"alg": "none", "typ": "JWT"}, claims(url)),
    "alg None": lambda url: forged({"alg": "None"}, claims(url)),
    "alg nOnE with a signature": lambda url: forged({"alg": "nOnE"}, claims(url), by_rsa_key),
    "no alg": lambda url: forged({"typ": "JWT"}, claims(url), by_rsa_key),
    "alg is no string": lambda url: forged({"alg": ["RS256"]}, claims(url), by_rsa_key),
    "the public key as an HMAC secret": lambda url: forged(
        {"alg": "HS256"}, claims(url), lambda data: hmac.digest(pem(RSA).encode(), data, "sha256")
    ),
    "an algorithm that is not listed": lambda url: signed(RSA, "RS512", {}, claims(url)),
    "another key": lambda url: signed(RSAKey.generate_key(2048), "RS256", {}, claims(url)),
    "its own key in the header": lambda url: signed(
        other := RSAKey.generate_key(2048), "RS256", {"jwk": other.as_dict(private=False)}, claims(url)
    ),
    "a URL for the key": lambda url: signed(
        RSAKey.generate_key(2048), "RS256", {"jku": "http://127.0.0.1:9/keys"}, claims(url)
    ),
    "an unknown critical header": lambda url: forged(
        {"alg": "RS256", "crit": ["x"], "x": 1}, claims(url), by_rsa_key
    ),
    "unencoded payload": lambda url: forged(
        {"alg": "RS256", "crit": ["b64"], "b64": True}, claims(url), by_rsa_key
    ),
    "expired": by_rsa(exp=AGES_AGO),
    "expires at no time": by_rsa(exp=None),
    "expires at a string": by_rsa(exp=str(LATER)),
    "expires never": by_rsa(exp=float("inf")),
    "expires at NaN": by_rsa(exp=float("nan")),
    "expires at true": by_rsa(exp=True),
    "expires too late to count": by_rsa(exp=10**400),
    "valid since before time": by_rsa(nbf=-(10**400)),
    "not yet valid": by_rsa(nbf=LATER),
    "valid from a string": by_rsa(nbf="0"),
    "wrong audience": lambda url: signed(RSA, "RS256", {}, claims("https://other.example.com/mcp")),
    "no audience": by_rsa(aud=None),
    "audience is the origin": lambda url: signed(RSA, "RS256", {}, claims(url.removesuffix("/mcp"))),
    "audience begins alike": lambda url: signed(RSA, "RS256", {}, claims(url + "/other")),
    "audience with a user": lambda url: signed(
        RSA, "RS256", {}, claims(url.replace("//", "//me@evil.example:1@"))
    ),
    "empty audiences": by_rsa(aud=[]),
    "audience of numbers": by_rsa(aud=[1, None, {}]),
    "wrong issuer": by_rsa(iss="https://evil.example.com"),
    "issuer with a slash": by_rsa(iss=ISSUER + "/"),
    "no issuer": by_rsa(iss=None),
    "a list of issuers": by_rsa(iss=[ISSUER]),
    "an ID token": by_rsa({"typ": "id+jwt"}),
    "a logout token": by_rsa({"typ": "logout+jwt"}),
    "a DPoP proof": by_rsa({"typ": "dpop+jwt"}),
    "typ is no string": lambda url: forged({"alg": "RS256", "typ": 1}, claims(url), by_rsa_key),
    "nobody": by_rsa(sub=None),
    "an empty subject": by_rsa(sub=""),
    "a subject that is a number": by_rsa(sub=7),
    "claims that are a list": lambda url: signed(RSA, "RS256", {}, [claims(url)]),
    "claims that are no JSON": lambda url: signed(RSA, "RS256", {}, b"\xff{"),
    "claims nested deeply": lambda url: signed(RSA, "RS256", {}, b"[" * 4000),
    "two parts": lambda url: ".".join(by_rsa()(url).split(".")[:2]),
    "four parts": lambda url: by_rsa()(url) + ".AAAA",
    "no signature": lambda url: by_rsa()(url).rpartition(".")[0] + ".",
    "garbage": lambda url: "....",
    "base64 of nothing": lambda url: "e30.e30.e30",
    "a header that is a list": lambda url: forged([], claims(url), by_rsa_key),
    "an encrypted token": lambda url: forged({"alg": "dir", "enc": "A128GCM"}, {}) + ".AAAA.AAAA",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_forged_and_misdirected_tokens_are_refused(rsa: Server, attack: str) -> None:
    """AUTH-07; RFC 8725. Always the same 401, which says nothing of what is wrong."""
    response = rsa.post(discover(), bearer(ATTACKS[attack](resource(rsa))))
    assert response.status == 401
    assert 'error="invalid_token"' in (response.get("www-authenticate") or "")
    assert rsa.post(discover(), bearer(by_rsa()(resource(rsa)))).status == 200


@pytest.mark.parametrize(
    ("header", "more", "expected"),
    [
        ({}, {}, "ann: read"),
        ({"typ": None}, {}, "ann: read"),
        ({"typ": "at+jwt"}, {}, "ann: read"),
        ({"typ": "application/AT+JWT"}, {}, "ann: read"),
        ({"kid": "whatever", "x5t": "a", "more": {"a": [1] * 200}}, {}, "ann: read"),
        ({}, {"exp": LATER + 0.5, "nbf": 0}, "ann: read"),
        ({}, {"scope": None, "scp": "read write"}, "ann: read write"),
        ({}, {"scope": None, "scp": ["read", "write", 1]}, "ann: read write"),
        ({}, {"scope": "read  read", "scp": ["write"]}, "ann: read write"),
        ({}, {"scope": ["read"]}, "ann: read"),
        ({}, {"scope": None}, "ann: "),
        ({}, {"sub": None, "client_id": "robot"}, "robot: read"),
    ],
)
def test_good_tokens_are_accepted(rsa: Server, header: Any, more: Any, expected: str) -> None:
    """Whatever issuers put into them besides."""
    token = signed(RSA, "RS256", header, claims(resource(rsa), **more))
    assert rsa.post(call(1, "who"), bearer(token)).text == expected


@pytest.mark.parametrize(("name", "seconds", "status"), [("exp", -2, 200), ("nbf", 3, 200), ("nbf", 60, 401)])
def test_clocks_may_differ_by_the_leeway(rsa: Server, name: str, seconds: int, status: int) -> None:
    """RFC 7519 section 4.1.4."""
    token = signed(RSA, "RS256", {}, claims(resource(rsa), **{name: int(time.time()) + seconds}))
    assert rsa.post(discover(), bearer(token)).status == status


@pytest.mark.parametrize(
    "change", [str, str.upper, lambda url: url + "/", lambda url: url + "#x", lambda url: [1, url]]
)
def test_audiences_are_compared_as_urls(rsa: Server, change: Callable[[str], Any]) -> None:
    """AUTH-11: scheme and host in any case, with and without a slash; the path has a case."""
    url = resource(rsa)
    audience = change(url)
    if audience == url.upper():
        audience = url.replace("http", "HTTP")
    assert rsa.post(discover(), bearer(signed(RSA, "RS256", {}, claims(audience)))).status == 200


def test_the_audience_is_the_url_that_the_client_uses(rsa: Server) -> None:
    """DESIGN 4.6: of this very request. A token for one name is none for another."""
    url = f"http://localhost:{rsa.port}/mcp"
    token = bearer(signed(RSA, "RS256", {}, claims(url)))
    assert rsa.post(discover(), token).status == 401
    assert rsa.post(discover(), {**token, "Host": f"LOCALHOST:{rsa.port}"}).status == 200


def test_a_token_for_another_server_is_no_good_under_its_name(rsa: Server) -> None:
    """The audience is read from Host: a server that was given a token could pass it on under its own name."""
    token = bearer(signed(RSA, "RS256", {}, claims("http://evil.example.com/mcp")))
    assert rsa.post(discover(), {**token, "Host": "evil.example.com"}).status == 403
    with guarded_by("JWTAuth", secret=SECRET, options=("--host", "0.0.0.0")) as server:
        token = bearer(signed(OCT, "HS256", {}, claims("http://evil.example.com/mcp")))
        refused = server.post(discover(), {**token, "Host": "evil.example.com"})
        assert refused.status == 403
        assert "--allow-host" in refused.message["error"]["message"]


@pytest.mark.parametrize(
    "given", [{"audience": ["notes", "https://b.example"]}, {"resource": "https://B.example/"}]
)
def test_what_the_operator_says_wins(given: dict[str, Any]) -> None:
    """DESIGN 4.6: `audience=` and `resource=`; then the name that was used is of no matter."""
    with guarded_by("JWTAuth", secret=SECRET, **given) as server:
        good = bearer(signed(OCT, "HS256", {}, claims(["x", "https://b.example"])))
        assert server.post(discover(), good).status == 200
        assert server.post(discover(), {**good, "Host": f"localhost:{server.port}"}).status == 200
        own = bearer(signed(OCT, "HS256", {}, claims(resource(server))))
        assert server.post(discover(), own).status == 401


def test_a_shared_secret(secret: Server) -> None:
    """HS256, and nothing else unless listed."""
    url = resource(secret)
    assert secret.post(call(1, "who"), bearer(signed(OCT, "HS256", {}, claims(url)))).text == "ann: read"
    for key, algorithm in ((OCT, "HS512"), (OctKey.import_key("y" * 40), "HS256"), (RSA, "RS256")):
        assert secret.post(discover(), bearer(signed(key, algorithm, {}, claims(url)))).status == 401


@pytest.mark.parametrize(
    ("key", "algorithm"), [(EC, "ES256"), (ED, "EdDSA"), (ED, "Ed25519"), (RSA, "PS256")], ids=str
)
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")  # of the test, which signs with EdDSA
def test_keys_of_all_kinds(key: Any, algorithm: str, tmp_path: Path) -> None:
    """From a file; EdDSA under its old and its new name (RFC 9864), without a warning."""
    path = tmp_path / "key.pem"
    path.write_text(pem(key))
    listed = {"algorithms": ["EdDSA"]} if key is ED else {}
    with guarded_by("JWTAuth", public_key=str(path), **listed) as server:
        url = resource(server)
        assert (
            server.post(call(1, "who"), bearer(signed(key, algorithm, {}, claims(url)))).text == "ann: read"
        )
        other = ECKey.generate_key("P-256")
        assert server.post(discover(), bearer(signed(other, "ES256", {}, claims(url)))).status == 401
        assert "arning" not in server.errors


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no key": ({}, "one of secret="),
    "two keys": ({"secret": SECRET, "public_key": pem(RSA)}, "one of secret="),
    "a public key as a secret": ({"secret": pem(RSA)}, "public_key="),
    "a public key as bytes": ({"secret": pem(EC).encode()}, "public_key="),
    "a certificate's beginning": ({"secret": "\n-----BEGIN CERTIFICATE-----"}, "public_key="),
    "an SSH key": ({"secret": "ssh-rsa AAAA"}, "public_key="),
    "an empty secret": ({"secret": ""}, "empty"),
    "a private key": ({"public_key": RSA.as_pem(private=True).decode()}, "private key"),
    "no PEM": ({"public_key": "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"}, "no RSA, EC"),
    "none": ({"public_key": pem(RSA), "algorithms": ["none"]}, "'none'"),
    "none with a secret": ({"secret": SECRET, "algorithms": ["HS256", "none"]}, "'none'"),
    "HMAC with a public key": ({"public_key": pem(RSA), "algorithms": ["RS256", "HS256"]}, "'HS256'"),
    "RSA with a secret": ({"secret": SECRET, "algorithms": ["RS256"]}, "'RS256'"),
    "another kind of key": ({"public_key": pem(EC), "algorithms": ["RS256"]}, "'RS256'"),
    "HMAC with published keys": ({"jwks_url": "https://x.example/keys", "algorithms": ["HS256"]}, "'HS256'"),
    "one string": ({"secret": SECRET, "algorithms": "HS256"}, "list"),
    "no URL": ({"jwks_url": "keys.json"}, "http"),
    "no resource": ({"secret": SECRET, "resource": "/mcp"}, "absolute"),
    "scopes in one string": ({"secret": SECRET, "required_scopes": "read"}, "list"),
    "a realm with a line end": ({"secret": SECRET, "realm": "a\r\nX: b"}, "realm"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_said_when_the_app_is_made(case: str) -> None:
    """STYLE 10: what happened, why, what to do."""
    options, said = WRONG[case]
    with pytest.raises((TypeError, ValueError), match=said):
        JWTAuth(**options)
    with pytest.raises(OSError, match="nothing-here"):
        JWTAuth(public_key="/nothing-here.pem")
