"""What clients read before they have a token, under every name and path by which they may reach it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from auth.authkit import GUARDED, bearer
from auth.issuing import SECRET, guarded_by
from hosts.process import UVICORN, started
from kit import Response, Server, discover, serving

WELL_KNOWN = "/.well-known/oauth-protected-resource"


def metadata(server: Server, path: str = WELL_KNOWN, headers: Any = ()) -> Response:
    response = server.ask("GET", headers, None, path=path)
    assert response.status == 200, response
    return response


def pointer(response: Response) -> str:
    """The URL in a challenge."""
    assert response.status == 401
    return (response.get("www-authenticate") or "").partition('resource_metadata="')[2].rstrip('"')


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(GUARDED) as server:
        yield server


@pytest.fixture(scope="module")
def behind() -> Iterator[Server]:
    """Behind a proxy that it trusts, as mcp.example.com."""
    options = ("--trusted-proxy", "127.0.0.0/8", "--allow-host", "mcp.example.com")
    with serving(GUARDED, *options) as server:
        yield server


@pytest.mark.parametrize("path", [WELL_KNOWN, WELL_KNOWN + "/mcp", WELL_KNOWN + "/mcp/"])
def test_it_is_served_at_the_root_and_at_the_path_of_the_endpoint(server: Server, path: str) -> None:
    """AUTH-01, AUTH-02; RFC 9728 section 3.1. Without a token, and whatever version is spoken."""
    response = metadata(server, path, {"MCP-Protocol-Version": "1999-01-01", "Mcp-Session-Id": "x"})
    assert response.get("content-type") == "application/json"
    assert response.message == {
        "resource": f"http://127.0.0.1:{server.port}/mcp",
        "bearer_methods_supported": ["header"],
    }
    assert server.ask("HEAD", {}, None, path=path).status == 200
    assert server.ask("POST", {}, b"", path=path).status == 405
    assert server.ask("OPTIONS", {"Origin": "https://any.example"}, None, path=path).status == 204
    assert server.ask("GET", bearer("wrong"), None, path=path).status == 200


def test_other_paths_are_none(server: Server) -> None:
    """What is not ours is not found."""
    for path in (WELL_KNOWN + "/other", WELL_KNOWN + "x", "/mcp" + WELL_KNOWN, "/.well-known/x", "/x"):
        assert server.ask("GET", {}, None, path=path).status == 404


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "localhost:{}", "LocalHost:{}", "[::1]:{}", "localhost"])
def test_the_resource_is_the_url_that_was_typed(server: Server, host: str) -> None:
    """PITFALLS, Auth; AUTH-11: absolute, in lower case, no slash at the end. The challenge's URL serves it."""
    host = host.format(server.port)
    for path in ("/mcp", "/mcp/"):
        challenged = server.post(discover(), {"Host": host}, path=path)
        assert pointer(challenged) == f"http://{host.lower()}{WELL_KNOWN}/mcp"
    assert metadata(server, headers={"Host": host}).message["resource"] == f"http://{host.lower()}/mcp"


def test_what_the_operator_says_wins() -> None:
    """DESIGN 4.6: `resource=`, `authorization_servers=`; AUTH-10: never offline_access."""
    given: dict[str, Any] = {
        "resource": "HTTPS://MCP.Example.com:443/notes/mcp/",
        "authorization_servers": ["https://id.example.com/"],
        "required_scopes": ["read", "offline_access"],
    }
    with guarded_by("JWTAuth", secret=SECRET, options=("--path", "/notes/mcp"), **given) as server:
        assert metadata(server, WELL_KNOWN + "/notes/mcp").message == {
            "resource": "https://mcp.example.com/notes/mcp",
            "bearer_methods_supported": ["header"],
            "authorization_servers": ["https://id.example.com/"],
            "scopes_supported": ["read"],
        }
        refused = server.post(discover(), path="/notes/mcp")
        assert 'scope="read"' in (refused.get("www-authenticate") or "")


@pytest.mark.parametrize("path", ["/mcp", "/"])
def test_each_endpoint_has_its_own(path: str) -> None:
    """RFC 9728 section 3.1: where one is at the root, the path of the other is no prefix."""
    options = ("--path", path, "--with-sse")
    with guarded_by("ClientCredentialsAuth", {"desk": "secret"}, options=options) as server:
        origin = f"http://127.0.0.1:{server.port}"
        for endpoint in (path.rstrip("/"), "/sse"):
            told = metadata(server, WELL_KNOWN + endpoint).message
            assert told["resource"] == origin + endpoint
            assert told["authorization_servers"] == [origin]
            refused = server.ask("GET", {}, None, path=endpoint or "/")
            assert pointer(refused) == origin + WELL_KNOWN + endpoint


# -- Behind a proxy --------------------------------------------------------------------------

SEEN: dict[str, tuple[dict[str, str], str]] = {
    "scheme": ({"X-Forwarded-Proto": "https"}, "https://127.0.0.1:{}"),
    "scheme and host": (
        {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "mcp.example.com"},
        "https://mcp.example.com",
    ),
    "default port": (
        {"X-Forwarded-Proto": "HTTPS", "X-Forwarded-Host": "MCP.Example.com:443"},
        "https://mcp.example.com",
    ),
    "prefix": (
        {
            "X-Forwarded-Proto": "https",
            "X-Forwarded-Host": "mcp.example.com",
            "X-Forwarded-Prefix": "/notes/",
        },
        "https://mcp.example.com/notes",
    ),
    "the last proxy's word": (
        {"X-Forwarded-Proto": "http, https", "X-Forwarded-Host": "evil.example.com, mcp.example.com"},
        "https://mcp.example.com",
    ),
    "RFC 7239": (
        {"Forwarded": 'for="[2001:db8::1]:8080";Proto=https;host="mcp.example.com"'},
        "https://mcp.example.com",
    ),
    "RFC 7239, what a client wrote before it": (
        {"Forwarded": "host=evil.example.com;proto=ftp, for=192.0.2.1;host=mcp.example.com;proto=https"},
        "https://mcp.example.com",
    ),
    "RFC 7239 from a client, which the proxy has handed on": (
        {
            "Forwarded": "for=192.0.2.1;host=evil.example.com;proto=http",
            "X-Forwarded-Proto": "https",
            "X-Forwarded-Host": "mcp.example.com",
        },
        "https://mcp.example.com",
    ),
    "RFC 7239 through two proxies": (
        {
            "Forwarded": "for=192.0.2.1;host=mcp.example.com;proto=https, for=127.0.0.2;host=localhost;proto=http"
        },
        "https://mcp.example.com",
    ),
    "RFC 7239, a proxy that does not say for whom": (
        {"Forwarded": "for=192.0.2.1;host=evil.example.com;proto=http, host=mcp.example.com;proto=https"},
        "https://mcp.example.com",
    ),
    "garbage": (
        {"Forwarded": ";;,=,", "X-Forwarded-Proto": "gopher", "X-Forwarded-Prefix": '/a"b'},
        "http://127.0.0.1:{}",
    ),
    "a prefix that is another host": ({"X-Forwarded-Prefix": "//evil.example.com"}, "http://127.0.0.1:{}"),
    "a prefix that climbs": ({"X-Forwarded-Prefix": "/a/../../b"}, "http://127.0.0.1:{}"),
}


@pytest.mark.parametrize("case", SEEN)
def test_a_trusted_proxy_says_what_the_client_typed(behind: Server, case: str) -> None:
    """PITFALLS: absolute URLs behind a proxy prefix, that serve."""
    headers, origin = SEEN[case]
    origin = origin.format(behind.port)
    assert metadata(behind, headers=headers).message["resource"] == origin + "/mcp"
    assert pointer(behind.post(discover(), headers)) == f"{origin}{WELL_KNOWN}/mcp"


def test_the_prefix_may_come_first_or_in_the_well_known_path(behind: Server) -> None:
    """RFC 9728 section 3.1: a proxy may hand on the path-specific URL as it is."""
    proxied = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "mcp.example.com"}
    resource = "https://mcp.example.com/notes/mcp"
    assert metadata(behind, WELL_KNOWN + "/notes/mcp", proxied).message["resource"] == resource
    both = {**proxied, "X-Forwarded-Prefix": "/notes"}
    assert metadata(behind, WELL_KNOWN + "/notes/mcp", both).message["resource"] == resource


def test_nobody_else_is_believed(server: Server) -> None:
    """DESIGN 4.6: only --trusted-proxy peers."""
    for headers, _ in SEEN.values():
        assert metadata(server, headers=headers).message["resource"] == f"http://127.0.0.1:{server.port}/mcp"
    with serving(GUARDED, "--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "unix") as other:
        forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/notes"}
        assert metadata(other, headers=forwarded).message["resource"] == f"http://127.0.0.1:{other.port}/mcp"


def test_a_forwarded_name_must_be_allowed(behind: Server) -> None:
    """HM-03: a proxy hands on what a client says."""
    for headers in ({"X-Forwarded-Host": "evil.example.com"}, {"Forwarded": "host=evil.example.com"}):
        assert behind.post(discover(), {**headers, **bearer("ann")}).status == 403
        assert behind.ask("GET", headers, None, path=WELL_KNOWN).status == 403
    page = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "mcp.example.com", **bearer("ann")}
    assert behind.post(discover(), {**page, "Origin": "https://mcp.example.com"}).status == 200
    assert behind.post(discover(), {**page, "Origin": "http://mcp.example.com"}).status == 403


def test_wrong_tokens_count_for_the_client_and_not_for_the_proxy(behind: Server) -> None:
    """The last address before the proxies that are trusted; what a client wrote before that is its own affair."""
    with behind.connect() as connection:

        def wrong(number: int, forwarded: str) -> int:
            headers = {"X-Forwarded-For": forwarded, **bearer(f"wrong-{number}")}
            return connection.post(discover(), headers).status

        statuses = [wrong(number, f"10.0.0.{number % 9}, 192.0.2.1, 127.0.0.1") for number in range(150)]
        assert statuses[0] == 401
        assert statuses[-1] == 429
        assert wrong(0, "192.0.2.2") == 401
        assert wrong(0, "192.0.2.1") == 429
        forged = {"X-Forwarded-For": "192.0.2.1", "Forwarded": "for=192.0.2.9", **bearer("wrong")}
        assert connection.post(discover(), forged).status == 429, "of a client, handed on by the proxy"
        assert [wrong(number, f"2001:db8::{number}") for number in range(150)][-1] == 429, "one network"


def test_a_proxy_that_is_none_is_said_at_the_start() -> None:
    """A typo must not make all proxies untrusted."""
    from mcpkit import App

    for trusted in (["10.0.0.0/99"], ["nginx"], [""]):
        with pytest.raises(ValueError, match="trusted proxy"):
            App("x").asgi(trusted_proxies=trusted)
    with pytest.raises(TypeError, match="list"):
        App("x").asgi(trusted_proxies="10.0.0.0/8")


# -- Mounted ---------------------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.parametrize("host", ["starlette_app", "fastapi_app"])
def test_mounted_under_a_prefix_the_challenge_leads_to_what_serves(host: str) -> None:
    """The host application has the origin's root; the URL in the challenge is below the prefix."""
    with ExitStack() as stack:
        process = stack.enter_context(started([*UVICORN, "asyncio", f"auth.scripts.mounted:{host}"]))
        origin = process.expect(r"http://127\.0\.0\.1:\d+")[0]
        client = stack.enter_context(httpx.Client(trust_env=False))
        for path in ("/notes/mcp", "/notes/mcp/"):
            refused = client.post(origin + path, content=json.dumps(discover()))
            assert refused.status_code == 401
            url = refused.headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
            assert url == f"{origin}/notes{WELL_KNOWN}/mcp"
        described = client.get(url).json()
        assert described["resource"] == f"{origin}/notes/mcp"
        (issuer,) = described["authorization_servers"]
        assert issuer == f"{origin}/notes"
        server = client.get(issuer + "/.well-known/openid-configuration").json()
        assert server["issuer"] == issuer
        form = {"grant_type": "client_credentials"}
        granted = client.post(server["token_endpoint"], data=form, auth=("my-client", "secret")).json()
        headers = {"Accept": "application/json, text/event-stream", **bearer(granted["access_token"])}
        assert client.post(url, headers=headers, json={}).status_code == 405
        assert client.post(origin + "/notes/mcp", headers=headers, json={}).status_code == 400
