"""Dynamic registration (RFC 7591): what clients send, and what nobody should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hosts.process import serving_http
from oauth.browser import CALLBACK, EXAMPLE, Program, Visitor, origin_of, register
from support import SECONDS

from mcpkit.auth.clients import MAX_UNUSED


def post(origin: str, body: bytes, kind: str = "application/json") -> httpx.Response:
    headers = {"content-type": kind}
    return httpx.post(f"{origin}/register", content=body, headers=headers, timeout=SECONDS, trust_env=False)


def refusal(answer: httpx.Response) -> str:
    """The error of a registration (RFC 7591 section 3.2.2)."""
    assert answer.status_code == 400, answer.text
    assert set(answer.json()) == {"error", "error_description"}
    return answer.json()["error"]


def test_a_public_client_gets_an_id_and_no_secret(origin: str) -> None:
    """RFC 7591 section 3.2.1: everything that is kept comes back, `application_type` too."""
    sent = {
        "client_name": "Claude Code",
        "redirect_uris": ["http://localhost:3118/callback"],
        "application_type": "native",
        "client_uri": "https://claude.example",
        "software_id": "x",
        "scope": "notes:read",
    }
    answer = register(origin, **sent)
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    told = answer.json()
    assert sent.items() <= told.items()
    assert told["token_endpoint_auth_method"] == "none"
    assert told["grant_types"] == ["authorization_code", "refresh_token"]
    assert told["response_types"] == ["code"]
    assert told["client_id_issued_at"] > 1_700_000_000
    assert "client_secret" not in told
    assert "client_secret_expires_at" not in told


def test_a_client_that_says_nothing_gets_the_defaults(origin: str) -> None:
    """RFC 7591 section 2: a secret, for Basic, and the code grant."""
    told = post(origin, json.dumps({"redirect_uris": [CALLBACK]}).encode()).json()
    assert told["token_endpoint_auth_method"] == "client_secret_basic"
    assert len(told["client_secret"]) == 43
    assert told["client_secret_expires_at"] == 0
    assert told["grant_types"] == ["authorization_code"]


def test_null_counts_as_not_said_and_the_unknown_is_left_out(origin: str) -> None:
    """SDKs write members that they have no value for as null."""
    told = register(
        origin, logo_uri=None, jwks=None, jwks_uri="http://169.254.169.254/", x_other={"a": 1}
    ).json()
    assert not {"logo_uri", "jwks", "jwks_uri", "x_other"} & set(told)


def test_grants_that_are_not_here_are_replaced(origin: str) -> None:
    """RFC 7591 section 2: the server may, and says so."""
    told = register(
        origin, grant_types=["authorization_code", "implicit", "urn:x"], response_types=["code", "token"]
    )
    assert told.json()["grant_types"] == ["authorization_code"]
    assert told.json()["response_types"] == ["code"]


GARBAGE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "invalid_client_metadata"),
    "not JSON": (b"{", "invalid_client_metadata"),
    "not UTF-8": (b'{"client_name":"\xff"}', "invalid_client_metadata"),
    "a list": (b"[1]", "invalid_client_metadata"),
    "a string": (b'"x"', "invalid_client_metadata"),
    "null": (b"null", "invalid_client_metadata"),
    "deep": (b"[" * 8000, "invalid_client_metadata"),
    "no redirect": (b"{}", "invalid_redirect_uri"),
    "an empty list": (b'{"redirect_uris":[]}', "invalid_redirect_uri"),
    "a number": (b'{"redirect_uris":[1]}', "invalid_redirect_uri"),
    "no list": (b'{"redirect_uris":"https://a.example/"}', "invalid_redirect_uri"),
    "seventeen": (json.dumps({"redirect_uris": [CALLBACK] * 17}).encode(), "invalid_redirect_uri"),
    "large": (
        json.dumps({"redirect_uris": [CALLBACK], "client_name": "x" * 20_000}).encode(),
        "invalid_client_metadata",
    ),
    "a long name of a method": (
        json.dumps({"redirect_uris": [CALLBACK], "token_endpoint_auth_method": 'private"key'}).encode(),
        "invalid_client_metadata",
    ),
    "a name that is none": (
        b'{"redirect_uris":["https://a.example/"],"client_name":{}}',
        "invalid_client_metadata",
    ),
    "no code": (
        b'{"redirect_uris":["https://a.example/"],"response_types":["token"]}',
        "invalid_client_metadata",
    ),
    "another grant": (
        b'{"redirect_uris":["https://a.example/"],"grant_types":["client_credentials"]}',
        "invalid_client_metadata",
    ),
    "another type": (
        b'{"redirect_uris":["https://a.example/"],"application_type":"x"}',
        "invalid_client_metadata",
    ),
}


@pytest.mark.parametrize(("body", "error"), GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_a_clean_error(origin: str, body: bytes, error: str) -> None:
    """RFC 7591 section 3.2.2."""
    assert refusal(post(origin, body)) == error


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "text/json"])
def test_a_registration_says_that_it_is_json(origin: str, kind: str) -> None:
    """A form of another site cannot say so without a preflight."""
    assert (
        refusal(post(origin, b'{"redirect_uris":["https://a.example/"]}', kind)) == "invalid_client_metadata"
    )


GOOD = [
    "https://app.example/callback",
    "https://app.example:8443/callback?a=b&c=d%20e",
    "https://192.0.2.1/callback",
    "https://[2001:db8::1]/callback",
    "http://localhost/callback",
    "http://localhost:3118/callback",
    "http://127.0.0.1:1/",
    "http://[::1]:8080/callback",
    "com.example.app:/callback",
    "com.example.app://callback/path",
    "cursor://anysphere.cursor-mcp/oauth/callback",
]


@pytest.mark.parametrize("uri", GOOD)
def test_a_good_redirect_uri_is_taken_as_it_is(origin: str, uri: str) -> None:
    """RFC 8252 section 7."""
    assert register(origin, redirect_uris=[uri]).json()["redirect_uris"] == [uri]


BAD = [
    "http://app.example/callback",
    "http://evil.example",
    "http://127.0.0.2/callback",
    "http://localhost.evil.example/callback",
    "http://127.0.0.1.evil.example/",
    "http://localhost@evil.example/",
    "http://2130706433/",
    "https://user:pass@app.example/callback",
    "https://user@app.example/callback",
    "https://app.example/callback#fragment",
    "https://app.example/callback#",
    "https://*.example.com/callback",
    "https://app.example/*",
    "https://app.example:99999/",
    "https://app.example:x/",
    "https:///callback",
    "https:callback",
    "https://app.example\\@evil.example/",
    "https://app.example/call back",
    "https://app.example/\r\nX: y",
    "https://\u0430pp.example/callback",
    "//app.example/callback",
    "/callback",
    "callback",
    "",
    "javascript:alert(1)",
    "JavaScript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "vbscript:x",
    "blob:https://app.example/x",
    "view-source:https://app.example/",
    "ftp://app.example/",
    "myapp://callback",
    "urn:ietf:wg:oauth:2.0:oob",
    "https://" + "a" * 2048 + ".example/",
]


@pytest.mark.parametrize("uri", BAD)
def test_a_redirect_uri_that_could_go_elsewhere_is_refused(origin: str, uri: str) -> None:
    """RFC 9700 section 4.1; RFC 8252 sections 7 and 8. And no list is taken for its good part."""
    assert refusal(register(origin, redirect_uris=[uri])) == "invalid_redirect_uri"
    assert refusal(register(origin, redirect_uris=[CALLBACK, uri])) == "invalid_redirect_uri"


@pytest.fixture
def own() -> Iterator[str]:
    """A server that this test may fill."""
    with serving_http(EXAMPLE) as (process, url):
        yield origin_of(url)
        assert "Traceback" not in process.output


def test_registrations_are_limited(own: str) -> None:
    """SEC-02: per network, and all that no user has accepted. Those that a user has accepted do not count."""
    accepted = Program(own, register(own).json()["client_id"])
    accepted.tokens()
    statuses: dict[int, int] = {}
    last: Any = None
    body = json.dumps({"redirect_uris": [CALLBACK]}).encode()
    headers = {"content-type": "application/json"}
    for network in range(2, 2 + MAX_UNUSED // 100 + 1):
        transport = httpx.HTTPTransport(local_address=f"127.0.0.{network}")
        with httpx.Client(transport=transport, timeout=SECONDS) as client:
            for _ in range(101):
                last = client.post(f"{own}/register", content=body, headers=headers)
                statuses[last.status_code] = statuses.get(last.status_code, 0) + 1
                if last.status_code == 503:
                    break
    assert statuses[201] == MAX_UNUSED
    assert statuses[429] == MAX_UNUSED // 100
    assert statuses[503] == 1
    assert last.json()["error"] == "temporarily_unavailable"
    assert int(last.headers["retry-after"]) > 0
    with Visitor() as visitor:  # and all others go on
        assert visitor.allow(accepted.url()).status_code == 303
