"""What must not work at /token."""

from __future__ import annotations

import httpx
import pytest
from oauth.browser import CALLBACK, call, post, program
from support import SECONDS


def refusal(answer: httpx.Response) -> str:
    """The error, of an answer that is well formed (RFC 6749 section 5.2)."""
    assert answer.status_code in (400, 401), answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert set(body) == {"error", "error_description"}
    assert all(32 <= ord(c) < 127 and c not in '"\\' for c in body["error_description"])
    return body["error"]


def test_a_code_that_comes_twice_ends_the_tokens_that_it_gave(origin: str) -> None:
    """RFC 6749 section 4.1.2: somebody else has it."""
    flow = program(origin)
    code = flow.code()
    tokens = flow.redeem(code).json()
    assert call(f"{origin}/mcp", tokens["access_token"]).status_code == 200
    assert refusal(flow.redeem(code)) == "invalid_grant"
    assert call(f"{origin}/mcp", tokens["access_token"]).status_code == 401
    assert refusal(flow.refresh(tokens["refresh_token"])) == "invalid_grant"


def test_a_code_needs_its_own_verifier(origin: str) -> None:
    """RFC 7636 section 4.6; and there is one guess, not many."""
    flow = program(origin)
    code = flow.code()
    assert refusal(flow.redeem(code, code_verifier="another-verifier-" + "x" * 43)) == "invalid_grant"
    assert refusal(flow.redeem(code)) == "invalid_grant"


@pytest.mark.parametrize("verifier", ["", "short", "x" * 129, "ü" * 43, "x" * 42 + " "])
def test_a_verifier_has_the_form_of_one(origin: str, verifier: str) -> None:
    """RFC 7636 section 4.1."""
    flow = program(origin)
    expected = "invalid_grant" if verifier else "invalid_request"
    assert refusal(flow.redeem(flow.code(), code_verifier=verifier)) == expected


def test_the_challenge_is_no_verifier(origin: str) -> None:
    """What "plain" would allow to whoever saw the request."""
    flow = program(origin)
    assert refusal(flow.redeem(flow.code(), code_verifier=flow.request["code_challenge"])) == "invalid_grant"


def test_a_code_is_for_its_own_client(origin: str) -> None:
    """RFC 6749 section 4.1.3."""
    flow, other = program(origin), program(origin)
    assert refusal(flow.redeem(flow.code(), client_id=other.client_id)) == "invalid_grant"


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1/callback", CALLBACK + "/", "https://evil.example/"])
def test_a_code_is_for_its_own_redirect(origin: str, uri: str) -> None:
    """RFC 6749 section 4.1.3: the very same, port included."""
    flow = program(origin)
    assert refusal(flow.redeem(flow.code(), redirect_uri=uri)) == "invalid_grant"


def test_a_code_is_for_its_own_resource(origin: str) -> None:
    """RFC 8707 section 2.2."""
    flow = program(origin)
    assert refusal(flow.redeem(flow.code(), resource="https://elsewhere.example/mcp")) == "invalid_target"


def test_a_refresh_token_is_for_its_own_client_and_resource(origin: str) -> None:
    """RFC 6749 section 6. Another client cannot end the family either."""
    flow, other = program(origin), program(origin)
    token = flow.tokens()["refresh_token"]
    assert refusal(other.refresh(token)) == "invalid_grant"
    assert refusal(flow.refresh(token, resource="https://elsewhere.example/mcp")) == "invalid_target"
    assert flow.refresh(token).status_code == 200


def test_a_refresh_token_that_comes_again_is_forgiven_once(origin: str) -> None:
    """PITFALLS: an answer gets lost, two processes refresh at once. The third time is a theft."""
    flow = program(origin)
    first = flow.tokens()
    second, sibling = flow.refresh(first["refresh_token"]), flow.refresh(first["refresh_token"])
    assert second.status_code == sibling.status_code == 200
    assert second.json()["refresh_token"] != sibling.json()["refresh_token"]
    for answer in (second, sibling):
        assert call(f"{origin}/mcp", answer.json()["access_token"]).status_code == 200
        assert flow.refresh(answer.json()["refresh_token"]).status_code == 200
    assert refusal(flow.refresh(first["refresh_token"])) == "invalid_grant"
    assert call(f"{origin}/mcp", second.json()["access_token"]).status_code == 401
    assert refusal(flow.refresh(sibling.json()["refresh_token"])) == "invalid_grant"


@pytest.mark.parametrize("token", ["x", ".", "x" * 10000, "a" * 64 + ".x", "../family", "oauth:code:x"])
def test_a_token_that_was_never_given_is_refused(origin: str, token: str) -> None:
    """Whatever it looks like."""
    flow = program(origin)
    assert refusal(flow.refresh(token)) == "invalid_grant"
    assert refusal(flow.redeem(token)) == "invalid_grant"
    assert call(f"{origin}/mcp", token).status_code in (401, 431)


@pytest.mark.parametrize("kind", ["refresh_token", "code"])
def test_only_an_access_token_opens_the_endpoint(origin: str, kind: str) -> None:
    """The three kinds of secrets are not taken for each other."""
    flow = program(origin)
    secret = flow.code() if kind == "code" else flow.tokens()["refresh_token"]
    assert call(f"{origin}/mcp", secret).status_code == 401


def test_an_unknown_client_may_register_again(origin: str) -> None:
    """PITFALLS: 401 invalid_client, at which the SDKs do."""
    flow = program(origin)
    answer = flow.refresh("x", client_id="client_" + "x" * 22)
    assert answer.status_code == 401
    assert refusal(answer) == "invalid_client"


FORMS = {
    "no grant type": ("client_id=x", "invalid_request"),
    "a grant of another kind": ("grant_type=password&client_id=x", "unsupported_grant_type"),
    "client credentials": ("grant_type=client_credentials&client_id=x", "unsupported_grant_type"),
    "no client": ("grant_type=refresh_token&refresh_token=x", "invalid_request"),
    "two clients": ("grant_type=refresh_token&refresh_token=x&client_id=a&client_id=b", "invalid_request"),
    "two grant types": ("grant_type=refresh_token&grant_type=authorization_code", "invalid_request"),
    "not UTF-8": ("grant_type=%ff", "invalid_request"),
    "nothing": ("", "invalid_request"),
    "many fields": ("&".join(f"f{n}=" for n in range(200)), "invalid_request"),
}


@pytest.mark.parametrize(("form", "error"), FORMS.values(), ids=FORMS.keys())
def test_a_form_that_cannot_be_read_is_refused(origin: str, form: str, error: str) -> None:
    """RFC 6749 sections 3.2 and 5.2."""
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = httpx.post(f"{origin}/token", content=form, headers=headers, timeout=SECONDS, trust_env=False)
    assert refusal(answer) == error


@pytest.mark.parametrize("kind", [None, "application/json", "text/plain", "multipart/form-data; boundary=x"])
@pytest.mark.parametrize("path", ["/token", "/revoke", "/authorize"])
def test_a_form_says_that_it_is_one(origin: str, path: str, kind: str | None) -> None:
    """Also against forms of other sites, which can send text/plain."""
    headers = {} if kind is None else {"content-type": kind}
    answer = httpx.post(
        origin + path, content=b"grant_type=x", headers=headers, timeout=SECONDS, trust_env=False
    )
    assert answer.status_code == 400


@pytest.mark.parametrize("path", ["/token", "/revoke", "/authorize"])
def test_a_form_that_is_too_large_is_refused(origin: str, path: str) -> None:
    """SEC-02."""
    answer = post(origin + path, {"grant_type": "x" * 20_000})
    assert answer.status_code == 413


def test_the_parameters_of_a_token_request_are_in_its_body(origin: str) -> None:
    """RFC 6749 section 2.3.1: secrets in URLs end in logs."""
    flow = program(origin)
    query = {"grant_type": "authorization_code", "code": flow.code(), "client_id": flow.client_id}
    answer = httpx.post(f"{origin}/token", params={**query, "code_verifier": flow.verifier}, trust_env=False)
    assert answer.status_code == 400


@pytest.mark.parametrize("credentials", ["x", "!!!", "Og==", "/w==", "OnNlY3JldA==", "eA==", "%00"])
def test_credentials_that_cannot_be_read_are_refused(origin: str, credentials: str) -> None:
    """They never fail inside."""
    headers = {"authorization": f"Basic {credentials}"}
    answer = post(f"{origin}/token", {"grant_type": "refresh_token", "refresh_token": "x"}, headers=headers)
    assert answer.status_code == 401
    assert refusal(answer) == "invalid_client"
