"""What a caller's scopes let it see and use, in both eras."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from auth.authkit import GUARDED, Client, bearer
from kit import Server, encoded, headers_for, over, serving
from support import HANDSHAKE, STATELESS, request

from mcpkit import App
from mcpkit.testing import Client as MemoryClient

ERAS = ("2025-06-18", HANDSHAKE[-1], STATELESS)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(GUARDED) as server:
        yield server


LISTS = {
    "tools/list": ("tools", "name", {"wipe", "audit"}),
    "resources/list": ("resources", "uri", {"memo://secret", "vault://gold"}),
    "resources/templates/list": ("resourceTemplates", "uriTemplate", {"vault://{name}"}),
    "prompts/list": ("prompts", "name", {"plan"}),
}


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("revision", ERAS)
def test_lists_show_what_the_caller_may_use(server: Server, revision: str, method: str) -> None:
    """AUTH-12: and a list that depends on the caller is nobody else's."""
    key, name, guarded = LISTS[method]
    client = Client(server, "ann", revision)

    def listed(token: str) -> set[str]:
        result = client.ask(method, token).result
        assert result.get("cacheScope") == ("private" if revision == STATELESS else None)
        return {entry[name] for entry in result[key]}

    few, all_ = listed("ann"), listed("ann-all")
    assert all_ - few == guarded
    assert listed("ann-write") == all_ - ({"audit"} if key == "tools" else set())


GUARDED_USES: dict[str, tuple[str, dict[str, Any], str]] = {
    "tool": ("tools/call", {"name": "wipe", "arguments": {"what": 1}}, "write"),
    "tool that needs two": ("tools/call", {"name": "audit", "arguments": {}}, "write audit"),
    "tool with bad arguments": ("tools/call", {"name": "wipe", "arguments": {"no": 1}}, "write"),
    "resource": ("resources/read", {"uri": "memo://secret"}, "write"),
    "template": ("resources/read", {"uri": "vault://gold"}, "write"),
    "prompt": ("prompts/get", {"name": "plan", "arguments": {"target": "x"}}, "write"),
    "completion of a prompt": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "target", "value": ""}},
        "write",
    ),
    "completion of a template": (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "vault://{name}"}, "argument": {"name": "name", "value": ""}},
        "write",
    ),
    "subscription": ("resources/subscribe", {"uri": "memo://secret"}, "write"),
}


@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "text/event-stream"])
@pytest.mark.parametrize(
    ("revision", "case"),
    [
        (revision, case)
        for revision in ERAS
        for case in GUARDED_USES
        if (revision, case) != (STATELESS, "subscription")
    ],
)
def test_using_what_needs_a_scope_is_forbidden(server: Server, revision: str, case: str, accept: str) -> None:
    """AUTH-04, AUTH-14: 403 before a stream begins, in both eras, with all scopes that the operation needs."""
    method, params, scopes = GUARDED_USES[case]
    client = Client(server, "ann", revision)
    message = client.request(method, **params)
    response = server.post(message, {**client.headers(), "Accept": accept})
    assert response.status == 403
    url = f"http://127.0.0.1:{server.port}/.well-known/oauth-protected-resource/mcp"
    assert (response.get("www-authenticate") or "").endswith(
        f'error="insufficient_scope", error_description="The token lacks a scope", scope="{scopes}", '
        f'resource_metadata="{url}"'
    )
    assert response.message["id"] == message["id"]
    assert scopes in response.message["error"]["message"]
    assert client.post(message, "ann-all").status == 200, "the id is free again, and another token may"


@pytest.mark.parametrize("revision", ERAS)
def test_who_has_the_scopes_may(server: Server, revision: str) -> None:
    """And what needs none is everybody's."""
    client = Client(server, "ann-all", revision)
    assert client.call("wipe", what=3).text == "wiped 3"
    assert client.ask("resources/read", uri="vault://gold").result["contents"][0]["text"] == "gold"
    assert client.ask("prompts/get", name="plan", arguments={"target": "x"}).status == 200
    assert client.ask("resources/read", "bob", uri="memo://open").status == (
        200 if revision == STATELESS else 404
    )


def test_what_needs_scopes_is_not_cached_for_all(server: Server) -> None:
    """SEC-10: not even in an app that says so of everything."""
    client = Client(server, "ann-all")
    for uri, scope in (("memo://secret", "private"), ("vault://gold", "private"), ("memo://open", "public")):
        result = client.ask("resources/read", uri=uri).result
        assert (result["cacheScope"], result["ttlMs"]) == (scope, 60_000)


def test_a_batch_is_forbidden_as_a_whole(server: Server) -> None:
    """One answer has one status. None of its calls runs, and their ids are free again."""
    client = Client(server, "ann", "2025-03-26")
    batch = [client.request("ping"), client.request("tools/call", name="wipe", arguments={"what": 1})]
    response = client.post(batch)
    assert response.status == 403
    assert response.message["id"] == batch[1]["id"]
    again = client.post(batch, "ann-write")
    assert again.status == 200
    assert {message["id"] for message in again.message} == {message["id"] for message in batch}


def test_a_forbidden_subscription_is_none(server: Server) -> None:
    """SUB-11: neither the subscription nor a change is there for who may not read."""
    client = Client(server, "ann", HANDSHAKE[-1])
    assert client.ask("resources/subscribe", uri="memo://secret").status == 403
    assert client.ask("resources/subscribe", uri="memo://open").status == 200
    with server.connect() as stream:
        stream.begin("GET", {**client.headers(), "Accept": "text/event-stream"}, None)
        stream.stream()
        client.call("touch")
        assert _next(stream)["params"]["uri"] == "memo://open"


def test_a_session_hears_only_of_what_its_token_covers_now(server: Server) -> None:
    """SUB-11: authorization is looked at again when a change is sent."""
    client = Client(server, "ann-write", HANDSHAKE[-1])
    for uri in ("memo://secret", "memo://open"):
        assert client.ask("resources/subscribe", uri=uri).status == 200
    with server.connect() as stream:
        stream.begin("GET", {**client.headers(), "Accept": "text/event-stream"}, None)
        stream.stream()
        client.call("touch")
        assert [_next(stream)["params"]["uri"] for _ in range(2)] == ["memo://secret", "memo://open"]
        client.call("touch", "ann")
        assert _next(stream)["params"]["uri"] == "memo://open"


def _next(stream: Any) -> Any:
    """The next message of a stream; events without one are only there to come back to."""
    while not (event := stream.event()).data:
        pass
    return json.loads(event.data)


def test_a_listen_stream_honours_what_the_token_covers(server: Server) -> None:
    """SUB-11: the rest is left out of the acknowledgement, and never sent."""
    wanted = {"resourceSubscriptions": ["memo://secret", "memo://open", "vault://gold"]}
    for token, honoured in (("ann", ["memo://open"]), ("ann-write", wanted["resourceSubscriptions"])):
        client = Client(server, token)
        with server.connect() as stream:
            client.begin(stream, "subscriptions/listen", notifications=wanted)
            stream.stream()
            assert _next(stream)["params"]["notifications"]["resourceSubscriptions"] == honoured
            client.call("touch")
            heard = [_next(stream)["params"]["uri"] for _ in set(honoured) - {"vault://gold"}]
            assert heard == [uri for uri in ("memo://secret", "memo://open") if uri in honoured]


@pytest.mark.parametrize("revision", [HANDSHAKE[-1], STATELESS])
def test_streams_end_when_their_token_expires(server: Server, revision: str) -> None:
    """Gracefully: a listen stream with its response. A stream is no way to stay for longer than a token allows."""
    client = Client(server, "brief", revision)
    with server.connect() as stream:
        if revision == STATELESS:
            client.begin(stream, "subscriptions/listen", notifications={"toolsListChanged": True})
        else:
            stream.begin("GET", {**client.headers(), "Accept": "text/event-stream"}, None)
        stream.stream()
        events = [event for event in stream.events() if event.data]
    if revision == STATELESS:
        assert '"resultType":"complete"' in events[-1].data


async def test_without_auth_and_in_memory_scopes_are_not_looked_at() -> None:
    """Whoever started the process is the caller."""
    app = App("open")

    @app.tool(scopes=["write"])
    def wipe() -> str:
        """Needs a scope."""
        return "wiped"

    for revision in (HANDSHAKE[-1], STATELESS):
        async with MemoryClient(app, revision=revision) as client:
            assert [tool.name for tool in await client.list_tools()] == ["wipe"]
            assert (await client.call_tool("wipe", {})).text == "wiped"


@pytest.mark.parametrize(
    ("scopes", "kind"), [("write", TypeError), ([1], TypeError), (["a b"], ValueError), ([""], ValueError)]
)
def test_scopes_that_are_none_are_refused_at_registration(scopes: Any, kind: type[Exception]) -> None:
    """RFC 6749 section 3.3; `scopes="write"` would be five scopes."""
    app = App("wrong")
    with pytest.raises(kind, match="scope"):
        app.add_tool(lambda: None, name="tool", scopes=scopes)


def test_broader_scopes_can_stand_for_narrower_ones() -> None:
    """AUTH-05."""
    from mcpkit.auth import BearerAuth, Principal

    class Ranked(BearerAuth):
        def allows(self, principal: Principal, scope: str) -> bool:
            return scope in principal.scopes or "admin" in principal.scopes

    ranked = Ranked(lambda token: None)
    assert ranked.allows(Principal("ann", ("admin",)), "write")
    assert not ranked.allows(Principal("ann", ("read",)), "write")


def test_a_guarded_stateless_call_is_told_before_its_mirrored_headers_are_checked(server: Server) -> None:
    """AUTH-13: what a tool takes is nothing to who may not call it."""
    message = request(1, "tools/call", {"name": "wipe", "arguments": "nonsense"}, revision=STATELESS)
    headers = over(headers_for(message), bearer("ann"))
    assert server.ask("POST", headers, encoded(message)).status == 403


@pytest.mark.parametrize("kind", ["tool", "resource", "prompt"])
def test_scopes_that_would_guard_nothing_are_told_before_serving(kind: str) -> None:
    """Over HTTP in an app without auth= everybody could use what they were meant to guard."""
    app = App("open")
    if kind == "resource":
        app.resource("memo://secret", scopes=["write"])(lambda: "secret")
    else:
        getattr(app, kind)("secret", scopes=["write"])(lambda: "secret")
    with pytest.raises(TypeError, match=r"guard nothing over HTTP in an app without auth="):
        app.asgi()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"allow_host": ["x"]}, "there is no option 'allow_host'; there are: path, transport"),
        ({"allowed_hosts": ["http://x"]}, "is no name of a host"),
        ({"allowed_hosts": ["*"]}, "is no name of a host"),
        ({"allowed_origins": ["example.com"]}, "is no origin of web pages"),
        ({"trusted_proxies": ["example.com"]}, "a trusted proxy is an address"),
    ],
)
def test_options_that_could_never_match_are_told_at_once(options: Any, said: str) -> None:
    """A name that no Host header can be would only show in a refusal, later."""
    with pytest.raises((TypeError, ValueError), match=said):
        App("x").asgi(**options)
    for good in (
        {"allowed_hosts": ["mcp.example.com", "vm:8000", "[::1]"]},
        {"allowed_origins": ["*", "https://x.y:1/"]},
    ):
        App("x").asgi(**good)  # type: ignore[arg-type]
