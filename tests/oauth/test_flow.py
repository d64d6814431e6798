"""The whole flow over raw HTTP, against `mcpkit run examples/oauth.py --transport http`."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from hosts.process import serving_http
from oauth.browser import Back, Program, Visitor, ask, call, origin_of, post, program, register
from support import SECONDS


def get(url: str) -> httpx.Response:
    return httpx.get(url, timeout=SECONDS, trust_env=False)


def test_a_client_that_knows_only_the_url_gets_a_token(origin: str) -> None:
    """MCP "Authorization": 401, resource metadata, server metadata, registration, code, token, call."""
    url = f"{origin}/mcp"
    refused = call(url, None)
    assert refused.status_code == 401
    pointer = refused.headers["www-authenticate"].partition('resource_metadata="')[2].partition('"')[0]
    resource = get(pointer).json()
    assert resource["resource"] == url
    assert resource["scopes_supported"] == ["notes:read"]
    (issuer,) = resource["authorization_servers"]
    metadata = get(f"{issuer}/.well-known/oauth-authorization-server").json()
    assert metadata["issuer"] == issuer == origin
    client = httpx.post(
        metadata["registration_endpoint"],
        json={"redirect_uris": ["http://localhost:3118/callback"], "token_endpoint_auth_method": "none"},
        trust_env=False,
    ).json()
    flow = Program(origin, client["client_id"], redirect_uri="http://localhost:3118/callback", resource=url)
    tokens = flow.tokens()
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] == 3600
    assert tokens["scope"] == "notes:read notes:write"
    assert "refresh_token" not in tokens  # which it did not register for
    answer = call(url, tokens["access_token"])
    assert answer.json()["result"]["content"][0]["text"] == "editor: notes:read notes:write"


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/mcp",
    ],
)
def test_the_metadata_is_where_clients_look(origin: str, path: str) -> None:
    """RFC 8414 section 3; CLIENTS: what mcp-remote and older SDKs try."""
    metadata = get(origin + path).json()
    assert metadata["issuer"] == origin
    for name in ("authorization", "token", "registration", "revocation"):
        assert metadata[f"{name}_endpoint"].startswith(f"{origin}/")
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["authorization_response_iss_parameter_supported"] is True
    assert metadata["client_id_metadata_document_supported"] is True
    assert metadata["scopes_supported"] == ["notes:read", "notes:write"]


def test_the_fallback_paths_of_the_first_revision_with_auth_are_the_real_ones(origin: str) -> None:
    """MCP 2025-03-26: without metadata a client uses /authorize, /token and /register at the origin."""
    metadata = get(f"{origin}/.well-known/oauth-authorization-server").json()
    assert metadata["authorization_endpoint"] == f"{origin}/authorize"
    assert metadata["token_endpoint"] == f"{origin}/token"
    assert metadata["registration_endpoint"] == f"{origin}/register"
    flow = program(origin, resource=None)  # such a client knows of no resource
    assert call(f"{origin}/mcp", flow.tokens()["access_token"]).status_code == 200


def test_a_web_page_can_be_a_client(origin: str) -> None:
    """The inspector runs in a browser: metadata, registration and tokens may be read across origins."""
    page = {"origin": "https://inspector.example", "access-control-request-method": "POST"}
    for path in ("/.well-known/oauth-authorization-server", "/register", "/token"):
        preflight = httpx.options(origin + path, headers=page, trust_env=False)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] in ("*", page["origin"])
        answer = httpx.request(
            "GET" if "well" in path else "POST", origin + path, headers=page, trust_env=False
        )
        assert answer.headers["access-control-allow-origin"] in ("*", page["origin"])


def test_a_user_is_granted_what_is_theirs_only(origin: str) -> None:
    """RFC 6749 section 3.3: less than was asked for, and the client is told."""
    tokens = program(origin).tokens("guest")
    assert tokens["scope"] == "notes:read"
    refused = call(f"{origin}/mcp", tokens["access_token"], "write", name="a", text="b")
    assert refused.status_code == 403
    assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
    assert 'scope="notes:read notes:write"' in refused.headers["www-authenticate"]


@pytest.mark.parametrize("scope", [None, "openid email profile"])
def test_a_client_that_knows_no_scope_gets_those_that_everything_needs(
    origin: str, scope: str | None
) -> None:
    """mcp-remote asks for the scopes of OpenID Connect where it knows of none."""
    assert program(origin, scope=scope).tokens()["scope"] == "notes:read"


def test_a_user_who_may_nothing_of_it_is_told_so(origin: str) -> None:
    """A token without a scope would only fail later."""
    with Visitor() as visitor:
        back = Back.of(visitor.allow(program(origin, scope="notes:write").url(), "guest"))
    assert back.parameters["error"] == "access_denied"


def test_a_user_can_say_no(origin: str) -> None:
    """RFC 6749 section 4.1.2.1. Without a password."""
    flow = program(origin)
    with Visitor() as visitor:
        back = Back.of(visitor.send(visitor.open(flow.url()), decision="deny"))
    assert back.uri == flow.request["redirect_uri"]
    assert back.parameters["error"] == "access_denied"
    assert back.parameters["state"] == flow.state
    assert back.parameters["iss"] == origin
    assert "code" not in back.parameters


def test_tokens_are_refreshed_with_fewer_scopes_but_never_with_more(origin: str) -> None:
    """RFC 6749 section 6."""
    flow = program(origin)
    first = flow.tokens()
    less = flow.refresh(first["refresh_token"], scope="notes:read").json()
    assert less["scope"] == "notes:read"
    assert (
        call(f"{origin}/mcp", less["access_token"]).json()["result"]["content"][0]["text"]
        == "editor: notes:read"
    )
    again = flow.refresh(less["refresh_token"]).json()
    assert again["scope"] == "notes:read notes:write"
    guest = program(origin)
    more = guest.refresh(guest.tokens("guest")["refresh_token"], scope="notes:read notes:write")
    assert (more.status_code, more.json()["error"]) == (400, "invalid_scope")


def test_a_revoked_token_is_no_good(origin: str) -> None:
    """RFC 7009: an access token ends alone, a refresh token with all of its family."""
    flow = program(origin)
    first = flow.tokens()
    second = flow.refresh(first["refresh_token"]).json()
    form = {"client_id": flow.client_id}
    assert post(f"{origin}/revoke", {"token": first["access_token"], **form}).status_code == 200
    assert call(f"{origin}/mcp", first["access_token"]).status_code == 401
    assert call(f"{origin}/mcp", second["access_token"]).status_code == 200
    hint = {"token_type_hint": "access_token"}  # a wrong hint changes nothing
    assert post(f"{origin}/revoke", {"token": second["refresh_token"], **form, **hint}).status_code == 200
    assert call(f"{origin}/mcp", second["access_token"]).status_code == 401
    assert flow.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"
    assert post(f"{origin}/revoke", {"token": "never heard of", **form}).status_code == 200


def test_nobody_revokes_the_token_of_another_client(origin: str) -> None:
    """RFC 7009 section 2.1."""
    flow, other = program(origin), program(origin)
    tokens = flow.tokens()
    for token in (tokens["access_token"], tokens["refresh_token"]):
        assert post(f"{origin}/revoke", {"token": token, "client_id": other.client_id}).status_code == 200
    assert call(f"{origin}/mcp", tokens["access_token"]).status_code == 200


@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
def test_a_confidential_client_proves_who_it_is(origin: str, method: str) -> None:
    """RFC 6749 section 2.3.1."""
    client = register(origin, token_endpoint_auth_method=method).json()
    assert client["client_secret_expires_at"] == 0
    flow = Program(origin, client["client_id"])
    code = flow.code()
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": flow.verifier}
    assert flow.token({**form, "client_id": flow.client_id}).status_code == 401
    wrong = flow.token(form, auth=(flow.client_id, "wrong"))
    assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_client")
    assert wrong.headers["www-authenticate"].startswith("Basic ")
    secret = client["client_secret"]
    if method == "client_secret_basic":
        assert flow.token(form, auth=(flow.client_id, secret)).status_code == 200
    else:
        assert flow.token({**form, "client_id": flow.client_id, "client_secret": secret}).status_code == 200


def test_a_client_says_in_one_way_who_it_is(origin: str) -> None:
    """RFC 6749 section 2.3: not more than one method in each request."""
    client = register(origin, token_endpoint_auth_method="client_secret_basic").json()
    form = {"grant_type": "refresh_token", "refresh_token": "x", "client_secret": client["client_secret"]}
    twice = post(f"{origin}/token", form, auth=(client["client_id"], client["client_secret"]))
    assert (twice.status_code, twice.json()["error"]) == (400, "invalid_request")


def test_a_token_is_for_the_name_that_the_client_used(origin: str) -> None:
    """AUTH-07: the audience is the resource, and another name of the same server is another resource."""
    token = program(origin).tokens()["access_token"]
    other = origin.replace("127.0.0.1", "localhost")
    assert call(f"{origin}/mcp", token).status_code == 200
    assert call(f"{other}/mcp", token).status_code == 401


def test_a_listen_stream_ends_with_its_token(tmp_path: Path) -> None:
    """Gracefully: a stream is no way to stay for longer than the token allows."""
    script = tmp_path / "brief.py"
    script.write_text(
        "from mcpkit import App\n"
        "from mcpkit.auth import AuthorizationServer\n"
        "app = App('brief', auth=AuthorizationServer(lambda name, password: name, access_ttl=2))\n"
        "app.add_tool(lambda: None, name='nothing')\n"
    )
    with serving_http(script) as (_, url):
        token = program(origin_of(url), scope=None).tokens()["access_token"]
        stream = ask(url, token, "subscriptions/listen", notifications={"toolsListChanged": True})
        assert '"resultType":"complete"' in stream.text.splitlines()[-2]
