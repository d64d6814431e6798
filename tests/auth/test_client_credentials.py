"""Tokens that the server itself hands out to programs."""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_plus, urlencode

import httpx2
import pytest
import trio
from auth.authkit import bearer
from auth.issuing import guarded_by, resource
from kit import Response, Server, call, discover, serving
from oauthlib.oauth2 import BackendApplicationClient
from requests_oauthlib import OAuth2Session
from trio.testing import MockClock

from mcpkit.auth import ClientCredentialsAuth, Site
from mcpkit.auth.secret import digest, is_secret
from mcpkit.stores.memory import MemoryStore

CLIENTS = {"my-client": "secret", "admin:1": "s%cr+t ü:"}
SCOPES = {"admin:1": ["read", "write"], "my-client": ["read"]}
GRANT = {"grant_type": "client_credentials"}
MINE = {"client_id": "my-client", "client_secret": "secret"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with guarded_by("ClientCredentialsAuth", CLIENTS, token_ttl=600, scopes=SCOPES) as server:
        yield server


def post(server: Server, form: Any, headers: Any = (), **more: Any) -> Response:
    body = form if isinstance(form, bytes) else urlencode(form).encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded", **dict(headers)}
    return server.ask("POST", kind, body, path=more.pop("path", "/token"), **more)


def basic(client: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()}


def token(server: Server, **more: str) -> str:
    return str(post(server, {**GRANT, **MINE, **more}).message["access_token"])


# -- What is granted -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "headers", "scope"),
    [
        (MINE, {}, "read"),
        ({}, basic("my-client", "secret"), "read"),
        ({"client_id": "my-client"}, basic("my-client", "secret"), "read"),
        ({}, basic(quote_plus("admin:1"), quote_plus(CLIENTS["admin:1"])), "read write"),
        ({"client_id": "admin:1", "client_secret": CLIENTS["admin:1"], "scope": "write"}, {}, "write"),
        ({**MINE, "scope": "", "unknown": "ignored"}, {}, "read"),
        (MINE, {"Content-Type": "Application/X-WWW-Form-Urlencoded; charset=UTF-8"}, "read"),
    ],
)
def test_a_client_that_knows_its_secret_gets_a_token(
    server: Server, form: Any, headers: Any, scope: str
) -> None:
    """RFC 6749 sections 4.4 and 5.1; section 2.3.1: in the form, or Basic with both parts form-encoded."""
    response = post(server, {**GRANT, **form}, headers)
    assert response.status == 200
    assert response.get("cache-control") == "no-store"
    assert response.get("pragma") == "no-cache"
    granted = response.message
    access = granted.pop("access_token")
    assert granted == {"token_type": "Bearer", "expires_in": 600, "scope": scope}
    who = server.post(call(1, "who"), bearer(access)).text
    assert who == f"{'admin:1' if 'write' in scope else 'my-client'}: {scope}"


def test_its_scopes_decide(server: Server) -> None:
    """A token holds what was asked for, within what the client may have."""
    assert server.post(call(1, "wipe"), bearer(token(server))).status == 403
    assert server.post(call(1, "wipe"), bearer("no" + token(server))).status == 401


def test_clients_in_the_wild_get_a_token(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """requests-oauthlib, with Basic credentials and with the secret in the form."""
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    url = resource(server)
    for include in (True, False):
        with OAuth2Session(client=BackendApplicationClient("my-client", scope=["read"])) as session:
            session.trust_env = False
            session.fetch_token(
                url.replace("/mcp", "/token"),
                client_id="my-client",
                client_secret="secret",
                include_client_id=include,
            )
            headers = {"Accept": "application/json, text/event-stream"}
            answer = session.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers)
            assert answer.status_code == 400, "let in, and told to initialize first"


async def test_the_official_client_gets_a_token_by_itself(server: Server) -> None:
    """The Python SDK finds the token endpoint from the 401 alone."""
    from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

    class Storage:
        def __init__(self) -> None:
            self.kept: dict[str, Any] = {}

        async def get_tokens(self) -> Any:
            return self.kept.get("tokens")

        async def set_tokens(self, tokens: Any) -> None:
            self.kept["tokens"] = tokens

        async def get_client_info(self) -> Any:
            return self.kept.get("client")

        async def set_client_info(self, client: Any) -> None:
            self.kept["client"] = client

    url = resource(server)
    provider = ClientCredentialsOAuthProvider(
        url, Storage(), client_id="my-client", client_secret="secret", issuer=url.removesuffix("/mcp")
    )
    async with httpx2.AsyncClient(auth=provider, trust_env=False) as client:
        headers = {"Accept": "application/json, text/event-stream"}
        answer = await client.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers)
    assert answer.status_code == 400, answer.text
    assert "initialize" in answer.text


# -- What is refused -------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, Any, int, str]] = {
    "no grant": (MINE, {}, 400, "invalid_request"),
    "an empty grant": ({**MINE, "grant_type": ""}, {}, 400, "invalid_request"),
    "another grant": ({**MINE, "grant_type": "password"}, {}, 400, "unsupported_grant_type"),
    "a code": ({**MINE, "grant_type": "authorization_code", "code": "x"}, {}, 400, "unsupported_grant_type"),
    "nobody": (GRANT, {}, 401, "invalid_client"),
    "no secret": ({**GRANT, "client_id": "my-client"}, {}, 401, "invalid_client"),
    "wrong secret": ({**GRANT, **MINE, "client_secret": "Secret"}, {}, 401, "invalid_client"),
    "another's secret": ({**GRANT, **MINE, "client_id": "admin:1"}, {}, 401, "invalid_client"),
    "unknown client": ({**GRANT, **MINE, "client_id": "x"}, {}, 401, "invalid_client"),
    "wrong Basic": (GRANT, basic("my-client", "x"), 401, "invalid_client"),
    "Basic without a colon": (GRANT, {"Authorization": "Basic bXk="}, 401, "invalid_client"),
    "Basic that is none": (GRANT, {"Authorization": "Basic \xff%%"}, 401, "invalid_client"),
    "Basic of no text": (GRANT, {"Authorization": "Basic //79Og=="}, 401, "invalid_client"),
    "another scheme": (GRANT, {"Authorization": "Bearer secret"}, 401, "invalid_client"),
    "two ways": ({**GRANT, **MINE}, basic("my-client", "secret"), 400, "invalid_request"),
    "too much": ({**GRANT, **MINE, "scope": "read write"}, {}, 400, "invalid_scope"),
    "unknown scope": ({**GRANT, **MINE, "scope": "x"}, {}, 400, "invalid_scope"),
    "malformed scope": ({**GRANT, **MINE, "scope": 'read"\x00'}, {}, 400, "invalid_scope"),
    "a field twice": (
        [*GRANT.items(), *MINE.items(), ("scope", "read"), ("scope", "read")],
        {},
        400,
        "invalid_request",
    ),
    "the client twice": ([*GRANT.items(), *MINE.items(), ("client_id", "x")], {}, 400, "invalid_request"),
    "JSON": (
        json.dumps({**GRANT, **MINE}).encode(),
        {"Content-Type": "application/json"},
        400,
        "invalid_request",
    ),
    "no kind": (urlencode({**GRANT, **MINE}).encode(), {"Content-Type": ""}, 400, "invalid_request"),
    "nothing": (b"", {}, 400, "invalid_request"),
    "garbage": (b"\xff\xfe&&==%%%", {}, 400, "invalid_request"),
    "broken text": (b"grant_type=client_credentials&client_id=%ff%fe", {}, 400, "invalid_request"),
    "many fields": (b"&".join(b"a%d=1" % n for n in range(1000)), {}, 400, "invalid_request"),
    "a large form": (b"a=" + b"x" * 20_000, {}, 413, "invalid_request"),
    "a huge form": (b"a=" + b"x" * 3_000_000, {}, 413, "invalid_request"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said_as_the_rfc_has_it(server: Server, case: str) -> None:
    """RFC 6749 section 5.2; RFC 9110 section 15.5.2: a 401 names a scheme."""
    form, headers, status, error = REFUSED[case]
    response = post(server, form, headers)
    assert response.status == status
    assert response.message["error"] == error
    assert response.message["error_description"].isprintable()
    assert response.get("cache-control") == "no-store"
    assert (response.get("www-authenticate") or "").startswith("Basic ") is (status == 401)
    assert "access_token" not in response.message


def test_secrets_in_the_query_are_none(server: Server) -> None:
    """RFC 6749 section 2.3.1: never in the URI."""
    path = "/token?" + urlencode({**GRANT, **MINE})
    assert post(server, b"", path=path).status == 400
    assert post(server, GRANT, path=path).status == 401
    assert server.ask("GET", {}, None, path=path).status == 405


def test_wrong_secrets_are_told_to_wait() -> None:
    """And the right one still gets a token."""
    with guarded_by("ClientCredentialsAuth", CLIENTS) as server, server.connect() as connection:
        answers: list[Response] = []
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        for number in range(300):
            form = urlencode({**GRANT, **MINE, "client_secret": str(number)}).encode()
            answers.append(connection.ask("POST", kind, form, path="/token"))
        waits = [answer for answer in answers if answer.status == 429]  # a slow machine may try again in time
        assert answers[0].status == 401
        assert waits
        assert int(waits[-1].get("retry-after") or "") >= 1
        assert post(server, {**GRANT, **MINE}).status == 200


def test_a_form_that_does_not_come_is_not_waited_for(server: Server) -> None:
    """Bounded like every body."""
    with server.connect() as connection:
        kind = "application/x-www-form-urlencoded"
        connection.begin("POST", {"Content-Type": kind, "Content-Length": "99999999"}, b"a=", path="/token")
        assert connection.head().status == 413


def test_the_secret_is_compared_in_constant_time_and_kept_as_a_hash() -> None:
    """By construction: every way through goes by `hmac.compare_digest` over hashes, for unknown clients too."""
    source = inspect.getsource(ClientCredentialsAuth._knows)
    assert "is_secret(secret, expected) and" in source
    assert "compare_digest(digest(secret), kept)" in inspect.getsource(is_secret)
    assert "any(" not in inspect.getsource(ClientCredentialsAuth._client), "nothing stops at the first"
    auth = ClientCredentialsAuth(CLIENTS)
    assert not any(secret in repr(vars(auth)) for secret in CLIENTS.values() if secret != "secret")
    assert auth._secrets["my-client"] == digest("secret")


# -- What is kept ----------------------------------------------------------------------------

SITE = Site("http://127.0.0.1", "", "/mcp", "http://127.0.0.1/mcp")


class Asked:
    """An exchange with a form, for what no client can see."""

    def __init__(self, form: dict[str, str]) -> None:
        from mcpkit.transports.http import Request

        kind = (b"content-type", b"application/x-www-form-urlencoded")
        self.request = Request("POST", "/token", [kind])
        self._body = urlencode(form).encode()
        self.status = 0
        self.answer: Any = None

    async def body(self, limit: int, seconds: float) -> bytes:
        return self._body

    async def respond(self, status: int, headers: Any, body: bytes = b"") -> None:
        self.status, self.headers, self.answer = status, dict(headers), json.loads(body)


async def ask(auth: ClientCredentialsAuth) -> Asked:
    exchange: Any = Asked({**GRANT, **MINE})
    await auth.routes()["/token"](exchange, SITE)
    return exchange  # type: ignore[no-any-return]


def test_tokens_end_and_are_kept_as_hashes() -> None:
    """`token_ttl`; who reads the store finds no token."""
    clock = MockClock()

    async def main() -> None:
        store = MemoryStore()
        auth = ClientCredentialsAuth({"my-client": "secret"}, token_ttl=60)
        await auth.run(store)
        access = (await ask(auth)).answer["access_token"]
        assert access not in repr(vars(store))
        assert str(await auth.verify(access, SITE)) == "my-client"
        clock.jump(59)
        assert await auth.verify(access, SITE) is not None
        other = ClientCredentialsAuth({"another": "secret"})
        await other.run(store)
        assert await other.verify(access, SITE) is None, "the client is gone"
        clock.jump(2)
        assert await auth.verify(access, SITE) is None

    trio.run(main, clock=clock)


async def test_a_full_store_is_told() -> None:
    """503 with Retry-After; the tokens that there are go on being good."""
    auth = ClientCredentialsAuth({"my-client": "secret"})
    await auth.run(MemoryStore(max_entries=2))
    first = await ask(auth)
    assert [first.status, (await ask(auth)).status] == [200, 200]
    full = await ask(auth)
    assert full.status == 503
    assert int(full.headers[b"retry-after"]) >= 1
    assert full.headers[b"cache-control"] == b"no-store"
    assert await auth.verify(first.answer["access_token"], SITE) is not None


@pytest.mark.parametrize(
    ("clients", "options"),
    [
        ({}, {}),
        ({"a": ""}, {}),
        ({"": "a"}, {}),
        ({"a": "b"}, {"token_ttl": 0}),
        ({"a": "b"}, {"scopes": {"c": ["d"]}}),
    ],
)
def test_options_that_cannot_be(clients: Any, options: Any) -> None:
    """Said when the app is made."""
    with pytest.raises(ValueError):
        ClientCredentialsAuth(clients, **options)


# -- Metadata and web pages ------------------------------------------------------------------


def test_clients_find_the_token_endpoint(server: Server) -> None:
    """RFC 9728, then RFC 8414."""
    origin = f"http://127.0.0.1:{server.port}"
    described = server.ask("GET", {}, None, path="/.well-known/oauth-protected-resource/mcp").message
    assert described["authorization_servers"] == [origin]
    for name in ("oauth-authorization-server", "openid-configuration", "oauth-authorization-server/mcp"):
        metadata = server.ask("GET", {}, None, path=f"/.well-known/{name}").message
        assert metadata["issuer"] == origin
        assert metadata["token_endpoint"] == origin + "/token"
        assert metadata["grant_types_supported"] == ["client_credentials"]
        assert "scopes_supported" not in metadata, "clients ask for all of them, and some may not have all"
    assert server.ask("POST", {}, b"", path="/.well-known/openid-configuration").status == 405
    nothing = server.ask("GET", {}, None, path=metadata["authorization_endpoint"].removeprefix(origin))
    assert nothing.message["error"] == "unsupported_response_type"


def test_web_pages_may_ask(server: Server) -> None:
    """CORS: for the metadata and for a token; a page that knows a secret may as well be a program."""
    origin = {"Origin": "https://app.example.com"}
    for path in (
        "/token",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
    ):
        asked = {**origin, "Access-Control-Request-Method": "POST"}
        preflight = server.ask("OPTIONS", asked, None, path=path)
        assert preflight.status == 204
        assert preflight.get("access-control-allow-origin") == "https://app.example.com"
        assert "Authorization" in (preflight.get("access-control-allow-headers") or "")
    granted = post(server, {**GRANT, **MINE}, origin)
    assert granted.get("access-control-allow-origin") == "https://app.example.com"
    assert server.post(discover(), {**origin, **bearer(granted.message["access_token"])}).status == 403


def test_without_auth_there_is_nothing_of_it() -> None:
    """404, as before."""
    with serving() as server:
        for path in ("/token", "/.well-known/oauth-protected-resource", "/.well-known/openid-configuration"):
            assert server.ask("GET", {}, None, path=path).status == 404
