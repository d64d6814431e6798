"""In front of everything that an app with auth serves over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import Server, call, discover, encoded, eventually, headers_for, over, serving
from support import HANDSHAKE, NO_SUCH_METHOD, STATELESS, initialize, request

GUARDED = Path(__file__).parent / "scripts" / "guarded.py"
VERBS = ("POST", "GET", "DELETE", "PUT", "PATCH", "HEAD", pytest.param("BREW", marks=NO_SUCH_METHOD))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(GUARDED) as server:
        yield server


def challenge(server: Server, **more: str) -> str:
    """The whole challenge, with these parameters between realm and metadata."""
    url = f"http://127.0.0.1:{server.port}/.well-known/oauth-protected-resource/mcp"
    parameters = {"realm": "the 'realm' '", **more, "resource_metadata": url}
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parameters.items())


# -- Without a good token --------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_is_served_without_a_token(server: Server, verb: str) -> None:
    """AUTH-09; RFC 6750 section 3.1: no error where there was no token."""
    response = server.ask(verb, {"Accept": "*/*", "Content-Type": "application/json"})
    assert response.status == 401
    assert response.get("www-authenticate") == challenge(server)
    assert response.get("mcp-session-id") is None


@pytest.mark.parametrize("verb", VERBS)
def test_a_session_is_no_token(server: Server, verb: str) -> None:
    """AUTH-09, HL-20: a session is never authentication."""
    session = _session(server, "ann")
    assert session_status(server, verb, session, {}) == 401
    assert session_status(server, "DELETE", session, bearer("ann")) == 204


def _session(server: Server, token: str, revision: str = "2025-11-25") -> dict[str, str]:
    """The headers of a new session."""
    response = server.post(initialize(revision), bearer(token))
    headers = {"Mcp-Session-Id": response.get("mcp-session-id") or "", "MCP-Protocol-Version": revision}
    done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert server.post(done, {**headers, **bearer(token)}).status == 202
    return headers


def session_status(server: Server, verb: str, session: dict[str, str], more: dict[str, str]) -> int:
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    return server.ask(verb, {**headers, **session, **more}, encoded(request(1, "ping"))).status


NOT_ACCEPTED = {
    "wrong": (["Bearer nobody-knows-it"], 401, "invalid_token"),
    "empty": (["Bearer "], 401, "invalid_token"),
    "no token": (["Bearer"], 401, "invalid_token"),
    "oversized": (["Bearer " + "a" * 9000], 401, "invalid_token"),
    "two words": (["Bearer ann bob"], 401, "invalid_token"),
    "not ASCII": (["Bearer \xe4nn"], 401, "invalid_token"),
    "two in one": (["Bearer ann, Bearer bob"], 401, "invalid_token"),
    "no id": (["Bearer nobody"], 401, "invalid_token"),
    "false": (["Bearer no"], 401, "invalid_token"),
    "two headers": (["Bearer ann", "Bearer ann"], 400, "invalid_request"),
    "Basic": (["Basic YW5uOmFubg=="], 401, None),
    "bare": (["ann"], 401, None),
    "quoted": (['Bearer "ann"'], 401, "invalid_token"),
}


@pytest.mark.parametrize("case", NOT_ACCEPTED)
@pytest.mark.parametrize("revision", [HANDSHAKE[-1], STATELESS])
def test_only_one_good_token_in_one_header_is_accepted(server: Server, case: str, revision: str) -> None:
    """AUTH-03, AUTH-06: 401, or 400 for what is malformed; another scheme counts as no token."""
    values, status, error = NOT_ACCEPTED[case]
    message = discover() if revision == STATELESS else initialize(revision)
    headers = [*over(headers_for(message), {}), *(("Authorization", value) for value in values)]
    response = server.ask("POST", headers, encoded(message))
    assert response.status == status
    header = response.get("www-authenticate") or ""
    assert (f'error="{error}"' in header) if error else ("error" not in header)
    assert "result" not in response.message


@pytest.mark.parametrize("query", ["access_token=ann", "token=ann", "Authorization=Bearer%20ann"])
def test_a_token_in_the_query_is_none(server: Server, query: str) -> None:
    """AUTH-08."""
    message = discover()
    response = server.ask("POST", headers_for(message), encoded(message), path=f"/mcp?{query}")
    assert response.status == 401
    assert response.get("www-authenticate") == challenge(server)


def test_a_token_in_the_body_is_none(server: Server) -> None:
    """RFC 6750 section 2.2 is not served."""
    response = server.ask("POST", {"Content-Type": "application/x-www-form-urlencoded"}, b"access_token=ann")
    assert response.status == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR   "])
def test_the_scheme_is_read_whatever_its_case(server: Server, scheme: str) -> None:
    """RFC 9110 section 11.1."""
    assert server.post(discover(), {"authorization": f"{scheme} ann"}).status == 200


def test_a_preflight_needs_no_token(server: Server) -> None:
    """PITFALLS, HTTP and Auth: browsers send none with it."""
    origin = {"Origin": "http://localhost:6274", "Access-Control-Request-Method": "POST"}
    response = server.ask("OPTIONS", origin, None)
    assert response.status == 204
    assert "Authorization" in (response.get("access-control-allow-headers") or "")
    refused = server.post(discover(), {"Origin": "http://localhost:6274"})
    assert refused.status == 401
    assert refused.get("access-control-allow-origin") == "http://localhost:6274"
    assert "WWW-Authenticate" in (refused.get("access-control-expose-headers") or "")


def test_evil_names_are_refused_before_the_token_is_looked_at(server: Server) -> None:
    """REQUIREMENTS 4.1: step 2 comes before step 3."""
    assert server.post(discover(), {"Host": "evil.example.com"}).status == 403
    assert server.post(discover(), {"Origin": "https://evil.example.com"}).status == 403


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', b"\xff" * 99]
)
def test_nothing_in_the_body_changes_the_refusal(server: Server, body: bytes) -> None:
    """AUTH-13."""
    responses = [
        server.ask("POST", {**bearer("wrong"), "Content-Type": kind}, data)
        for kind, data in (
            ("application/json", encoded(discover())),
            ("application/json", body),
            ("x/y", body),
        )
    ]
    assert {response.status for response in responses} == {401}
    assert len({response.body for response in responses}) == 1


def test_a_bad_token_is_refused_before_its_body_arrives(server: Server) -> None:
    """Also with a body that is larger than the limit, and one that never comes."""
    for size in (100, 5_000_000, 50_000_000):
        with server.connect() as connection:
            connection.begin("POST", {**bearer("wrong"), "Content-Length": str(size)}, b"{")
            assert connection.head().status == 401
    with server.connect() as connection:
        message = b'{"text": "' + b"x" * 3_000_000 + b'"}'
        assert connection.ask("POST", bearer("wrong"), message).status == 401
    assert server.post(discover(), bearer("ann")).status == 200


@pytest.mark.parametrize("host", ['127.0.0.1"x', "127.0.0.1:99999", "a b", "", "[::1", "127.0.0.1:80:90"])
def test_no_strange_host_gets_into_a_challenge(server: Server, host: str) -> None:
    """The URLs in it are made from the name that the client used."""
    response = server.post(discover(), {"Host": host})
    assert response.status in (400, 403)
    assert response.get("www-authenticate") is None


def test_strange_paths_stay_out_of_the_answers(server: Server) -> None:
    """A prefix is read from the paths of well-known documents: only what can be one."""
    for path in ("/%0d%0aX:1/mcp", "/" + "a" * 200 + "/mcp", '/"/mcp', "/../../mcp", "//evil.example/mcp"):
        response = server.ask("GET", {}, None, path="/.well-known/oauth-protected-resource" + path)
        assert response.get("x") is None
        if response.status == 200:
            assert response.message["resource"].startswith(f"http://127.0.0.1:{server.port}/")


# -- Many wrong tokens -----------------------------------------------------------------------


@pytest.mark.once
def test_ten_thousand_wrong_tokens_are_cheap_and_then_told_to_wait() -> None:
    """After a burst 429 with Retry-After; a good token still passes, and memory does not grow."""
    with serving(GUARDED) as server, server.connect() as connection:
        statuses: dict[int, int] = {}
        body = encoded(discover())

        def wrong(count: int) -> None:
            for number in range(count):
                connection.begin("POST", {**headers_for(discover()), **bearer(f"wrong-{number}")}, body)
                response = connection.response()
                statuses[response.status] = statuses.get(response.status, 0) + 1
                if response.status == 429:
                    assert int(response.get("retry-after") or "") >= 1
                    assert response.get("www-authenticate") is None

        began = time.monotonic()
        wrong(500)
        before = server.memory()
        wrong(9_500)
        took = time.monotonic() - began
        assert set(statuses) == {401, 429}
        assert 100 <= statuses[401] <= 100 + took * 1.1 + 5
        assert server.memory() - before < 8 * 1024 * 1024
        assert connection.post(discover(), bearer("ann")).status == 200
        assert connection.post(discover()).status == 401, "who has no token yet is told how to get one"


# -- Good tokens -----------------------------------------------------------------------------


def test_a_function_says_who_a_token_stands_for(server: Server) -> None:
    """DESIGN 4.6: a Principal, a string, or any other JSON value, whose id is always the same."""

    def who(token: str) -> str:
        return server.post(call(1, "who"), bearer(token)).text

    assert who("ann-write") == "ann read write ann-write {'team': 'blue'} None"
    assert who("bob") == "bob  bob {} None"
    robot = who("robot")
    assert robot == who("robot")
    assert robot.startswith("value:")
    assert robot.endswith("robot {} {'kind': 'robot', 'number': 7}")
    assert who("list").endswith("[]")
    assert who("s3cret:with!signs$").startswith("eve ")


def test_a_function_can_say_that_it_cannot_know_now(server: Server) -> None:
    """503 with Retry-After, in whole seconds (RFC 9110 section 10.2.3)."""
    response = server.post(discover(), bearer("away"))
    assert (response.status, response.get("retry-after")) == (503, "3")
    assert response.get("www-authenticate") is None


def test_a_function_that_fails_lets_nobody_in() -> None:
    """Rule 3: what cannot be decided is not let in. The client learns nothing of why; the log does."""
    server = Server(GUARDED)
    try:
        for token in ("boom", "unwritable", "exit"):
            response = server.post(discover(), bearer(token))
            assert response.status == 500
            assert b"secret" not in response.body
        assert server.post(discover(), bearer("ann")).status == 200
        eventually(lambda: "a secret of the database" in server.errors, "a line in the log")
        assert "boom" not in server.errors, "no token gets into the log"
    finally:
        server.close()


FAILING = """\
from mcpkit import App, Principal
from mcpkit.auth import BearerAuth
from mcpkit.stores.memory import MemoryStore

class Roles(BearerAuth):
    def allows(self, principal, scope):
        return principal.claims["a secret"] == scope

class Away(MemoryStore):
    async def put(self, name, value, ttl):
        raise ConnectionError("the store is away")

class Text(str):
    pass

app = App("failing", auth=Roles(Text), store=Away())

@app.tool(scopes=["write"])
def wipe(caller: Principal) -> str:
    return caller.id

@app.tool
def who(caller: Principal) -> str:
    assert type(caller.id) is str
    return caller.id
"""


def test_what_fails_before_the_handler_is_an_error_that_the_log_explains(tmp_path: Path) -> None:
    """STYLE: errors are for people. hypercorn alone would answer 500 without a word anywhere."""
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    server = Server(script)
    try:
        for message, cause in (
            (call(1, "wipe"), "KeyError: 'a secret'"),
            (initialize(HANDSHAKE[-1]), "ConnectionError: the store is away"),
        ):
            response = server.post(message, bearer("ann"))
            assert (response.status, response.body) == (500, b"Internal Server Error\n")
            eventually(lambda cause=cause: cause in server.errors, "a traceback in the log")  # type: ignore[misc]
        assert "POST /mcp failed" in server.errors and "ann" not in server.errors
        assert server.post(call(2, "who"), bearer("ann")).text == "ann"
    finally:
        server.close()


def test_required_scopes_are_needed_for_everything() -> None:
    """AUTH-04: 403 with all of them; the 401 says them as well."""
    with serving(GUARDED, REQUIRED="read write") as server:
        refused = server.post(discover(), bearer("ann"))
        assert refused.status == 403
        assert refused.get("www-authenticate") == challenge(
            server,
            error="insufficient_scope",
            error_description="The token lacks a scope",
            scope="read write",
        )
        for verb in ("GET", "DELETE"):
            assert server.ask(verb, bearer("ann"), None).status == 403
        assert 'scope="read write"' in (server.post(discover()).get("www-authenticate") or "")
        assert server.post(discover(), bearer("ann-write")).status == 200
        assert server.post(call(1, "audit"), bearer("ann-write")).get("www-authenticate") == challenge(
            server,
            error="insufficient_scope",
            error_description="The token lacks a scope",
            scope="read write audit",
        )
