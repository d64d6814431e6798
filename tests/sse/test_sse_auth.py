"""Who may use HTTP+SSE: the same gate, the same scopes, and a stream that belongs to whoever opened it."""

from __future__ import annotations

import select
from collections.abc import Iterator
from typing import Any

import pytest
from auth.authkit import GUARDED, bearer
from kit import Server
from stream import JSON, Stream, serving_sse
from support import HANDSHAKE, STATELESS, request

WRITE = {"uri": "memo://secret"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """An app with auth, over HTTP+SSE alone."""
    with serving_sse(script=GUARDED) as server:
        yield server


class Caller(Stream):
    """A client that shows a token with its stream and, unless another is given, with its messages."""

    def __init__(self, server: Server, token: str) -> None:
        self.token = token
        super().__init__(server, headers=bearer(token))

    def post(self, message: Any, headers: Any = ()) -> Any:
        return super().post(message, {**bearer(self.token), **dict(headers)})

    def told(self) -> list[str]:
        """Of what the client hears beside an answer."""
        got = [self.receive(), self.receive()]
        return [message["params"]["uri"] for message in got if "method" in message]

    def touch(self, id: int) -> list[str]:
        """Change all memos; of what the client hears."""
        self.send(request(id, "tools/call", {"name": "touch"}))
        return self.told()


@pytest.mark.parametrize("token", [None, "wrong"])
def test_neither_the_stream_nor_a_message_is_served_without_a_token(
    server: Server, token: str | None
) -> None:
    """AUTH-03, AUTH-09: every verb of both routes; the metadata is that of the stream."""
    headers = {} if token is None else bearer(token)
    for method, path in (("GET", "/sse"), ("POST", "/message?sessionId=x"), ("POST", "/message")):
        refused = server.ask(method, {**JSON, **headers}, b"{}", path=path)
        assert refused.status == 401
        challenge = refused.get("www-authenticate") or ""
        address = f"http://127.0.0.1:{server.port}"
        assert f'resource_metadata="{address}/.well-known/oauth-protected-resource/sse"' in challenge
        assert ("invalid_token" in challenge) is (token is not None)
    metadata = server.ask("GET", path="/.well-known/oauth-protected-resource/sse").message
    assert metadata["resource"] == f"{address}/sse"


def test_a_preflight_needs_no_token(server: Server) -> None:
    """PITFALLS, HTTP: browsers send none with it."""
    origin = {"Origin": f"http://127.0.0.1:{server.port}", "Access-Control-Request-Method": "POST"}
    for path in ("/sse", "/message?sessionId=x"):
        assert server.ask("OPTIONS", origin, path=path).status == 204


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_handlers_know_who_calls(server: Server, revision: str) -> None:
    """`Principal` by annotation, `ctx.principal`, `ctx.token`."""
    with Caller(server, "ann-write") as ann:
        ann.start(revision)
        for tool, said in (
            ("who", "ann read write ann-write"),
            ("who_inline", "ann"),
            ("who_on_asyncio", "ann"),
        ):
            reply = ann.ask(1, "tools/call", {"name": tool})
            assert reply["result"]["content"][0]["text"].startswith(said)


def test_a_stream_belongs_to_whoever_opened_it(server: Server) -> None:
    """PITFALLS, HTTP: another principal's session is not there; a new token of the same one is good."""
    with Caller(server, "ann") as ann:
        ann.start()
        message = request(1, "tools/call", {"name": "who"})
        assert ann.post(message, bearer("bob")).status == 404
        assert ann.post(message, bearer("ann-write")).status == 202
        reply, _ = ann.receive_until(1)
        assert "ann-write" in reply["result"]["content"][0]["text"]


@pytest.mark.parametrize("revision", [*HANDSHAKE, STATELESS])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "wipe", "arguments": {"what": 1}}),
        ("resources/read", WRITE),
        ("prompts/get", {"name": "plan", "arguments": {"target": "x"}}),
    ],
)
def test_what_needs_a_scope_is_forbidden_before_it_is_accepted(
    server: Server, revision: str, method: str, params: Any
) -> None:
    """AUTH-04, AUTH-14: 403 with the scopes, on the POST; the stream goes on."""
    with Caller(server, "ann") as ann:
        if revision != STATELESS:
            ann.start(revision)
        refused = ann.post(request(7, method, params, revision=revision))
        assert refused.status == 403 and refused.message["id"] == 7
        challenge = refused.get("www-authenticate") or ""
        assert 'error="insufficient_scope"' in challenge and 'scope="write"' in challenge
        told, _ = ann.receive_until(7)
        assert "write" in told["error"]["message"], "on the stream as well, where some clients wait"
        ann.token = "ann-write"
        assert "result" in ann.ask(8, method, params, revision=revision)


def test_a_batch_gets_no_further(server: Server) -> None:
    """AUTH-04: what cannot be told with a status is told by the error of the call."""
    with Caller(server, "ann") as ann:
        ann.start("2025-03-26")
        messages = [
            request(1, "tools/call", {"name": "wipe", "arguments": {"what": 1}}, revision="2025-03-26"),
            request(2, "ping", revision="2025-03-26"),
        ]
        assert ann.post(messages).status == 202
        (answers,) = [ann.receive()]
        by_id = {answer["id"]: answer for answer in answers}
        assert "error" in by_id[1] and "write" in by_id[1]["error"]["message"]
        assert "result" in by_id[2]


def test_lists_and_changes_are_those_that_the_token_covers(server: Server) -> None:
    """AUTH-12, SUB-11: what may not be used is neither listed nor told of."""
    with Caller(server, "ann-write") as ann:
        ann.start("2025-11-25")
        listed = ann.ask(1, "tools/list")["result"]["tools"]
        assert {"wipe", "who"} <= {tool["name"] for tool in listed}
        for id, uri in ((2, "memo://secret"), (3, "memo://open")):
            assert "result" in ann.ask(id, "resources/subscribe", {"uri": uri})
        ann.token = "ann"
        listed = ann.ask(4, "tools/list")["result"]["tools"]
        assert "wipe" not in {tool["name"] for tool in listed}
        assert ann.touch(5) == ["memo://open"]


def test_nothing_is_told_to_a_token_that_has_expired_until_it_is_renewed(server: Server) -> None:
    """A stream is no way to stay for longer than a token allows; a client that renews its token misses nothing."""
    with Caller(server, "brief") as ann, Caller(server, "brief") as later, Caller(server, "bob") as bob:
        for caller in (ann, bob):
            caller.start()
            assert "result" in caller.ask(1, "resources/subscribe", {"uri": "memo://open"})
        wanted = {"notifications": {"toolsListChanged": True}}
        assert "result" in later.ask(1, "subscriptions/listen", wanted, revision=STATELESS)  # it has expired
        assert bob.touch(2) == ["memo://open"]
        bob.ask(3, "ping")
        assert not select.select([ann.connection.socket], [], [], 0)[0]
        ann.token = "ann"
        ann.send(request(2, "ping"))
        assert ann.told() == ["memo://open"]
