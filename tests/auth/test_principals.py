"""Who calls, as handlers, sessions and sealed state know it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from auth.authkit import GUARDED, Client
from clients.peer import watched
from kit import Server, serving
from support import HANDSHAKE, STATELESS, meta, request

from mcpkit import App, Principal

ERAS = (HANDSHAKE[-1], STATELESS)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(GUARDED) as server:
        yield server


@pytest.mark.parametrize("revision", ERAS)
def test_handlers_are_given_the_principal_and_the_token(server: Server, revision: str) -> None:
    """DESIGN 4.2, 4.4: by annotation or from the context, wherever the handler runs."""
    client = Client(server, "ann-write", revision)
    assert client.call("who").text == "ann read write ann-write {'team': 'blue'} None"
    assert client.call("who_inline").text == "ann"
    assert client.call("who_on_asyncio").text == "ann"
    assert client.call("anyone").text == "ann ann ann ann-write"
    assert client.call("anyone", "ann").text == "ann ann ann ann", "each request has its own token"


def test_it_is_no_argument(server: Server) -> None:
    """A client can neither see it nor send it."""
    client = Client(server, "ann")
    tools = {tool["name"]: tool for tool in client.ask("tools/list").result["tools"]}
    for name in ("who", "anyone"):
        assert tools[name]["inputSchema"].get("properties", {}) == {}
    assert "unknown argument" in client.call("who", caller={"id": "bob"}).text


@pytest.mark.parametrize("revision", ERAS)
def test_on_stdio_there_is_no_principal(revision: str) -> None:
    """`Principal | None` is None; a handler that must know gets nowhere, and says why."""
    with watched(GUARDED) as stdio:
        stdio.start(revision)

        def call(id: int, name: str) -> Any:
            return stdio.ask(id, "tools/call", {"name": name, "arguments": {}}, revision=revision)["result"]

        assert call(1, "anyone")["content"][0]["text"] == "None None None None"
        refused = call(2, "who")
        assert refused["isError"] is True
        assert "who calls" in refused["content"][0]["text"]
        assert call(3, "audit")["content"][0]["text"] == "audited"


@pytest.mark.parametrize("wrong", [{"id": 7}, {"id": "ann", "scopes": "read write"}, {"id": None}])
def test_what_is_no_principal_is_said_where_it_is_made(wrong: Any) -> None:
    """A part of a string is in the string: `scopes="read write"` would hold the scope "rea"."""
    with pytest.raises(TypeError, match="Principal"):
        Principal(**wrong)


def test_what_is_no_auth_is_said_when_the_app_is_made() -> None:
    """STYLE 10: the function alone is what people try first."""
    with pytest.raises(TypeError, match="BearerAuth"):
        App("wrong", auth=lambda token: "ann")  # type: ignore[arg-type]


def test_auth_costs_nothing_where_it_is_not_used() -> None:
    """DESIGN section 2: what only a mode needs is loaded with that mode."""
    code = (
        "import sys, mcpkit, mcpkit.auth\n"
        "from mcpkit.auth import BearerAuth\n"
        "mcpkit.App('a', auth=BearerAuth(lambda token: None))\n"
        "print(*sorted({'joserfc', 'httpx', 'cryptography', 'authlib', 'hypercorn'} & set(sys.modules)))\n"
        "from mcpkit.auth import *\n"
        "print(JWTAuth.__name__, 'joserfc' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "\nJWTAuth True\n"


# -- Sessions --------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("other", ["bob", "robot"])
def test_a_session_of_another_principal_is_not_there(server: Server, verb: str, other: str) -> None:
    """HL-20, PITFALLS: 404; and its owner goes on, also with a new token."""
    client = Client(server, "ann", HANDSHAKE[-1])

    def status(token: str) -> int:
        if verb == "POST":
            return client.ask("ping", token).status
        headers = {**client.headers(token), "Accept": "text/event-stream"}
        if verb == "DELETE":
            return server.ask(verb, headers, None).status
        with server.connect() as connection:
            connection.begin(verb, headers, None)
            return connection.head().status

    assert status(other) == 404
    assert client.ask("ping", other).status == 404
    assert client.ask("ping", "ann-again").status == 200
    assert status("ann-write") == (204 if verb == "DELETE" else 200)


def test_a_session_of_another_principal_cannot_be_answered_or_cancelled(server: Server) -> None:
    """A question of ann's session waits for ann."""
    client = Client(server, "ann", HANDSHAKE[-1])
    with server.connect() as connection:
        client.begin(connection, "tools/call", name="ask", arguments={})
        connection.stream()
        question = next(event for event in connection.events() if "elicitation/create" in event.data)
        id = json.loads(question.data)["id"]
        answer = {"action": "accept", "content": {"colour": "blue"}}
        assert client.post({"jsonrpc": "2.0", "id": id, "result": answer}, "bob").status == 404
        answer["content"] = {"colour": "red"}
        assert client.post({"jsonrpc": "2.0", "id": id, "result": answer}).status == 202
        result = json.loads([event.data for event in connection.events() if event.data][-1])
        assert result["result"]["content"][0]["text"] == "red"


# -- Sealed state ----------------------------------------------------------------------------


def test_sealed_state_of_another_principal_is_refused(server: Server) -> None:
    """SEC-03, MRTR: it is bound to who was asked, whichever token they come with."""
    client = Client(server, "ann")
    about: Any = meta(**{"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}})
    params: Any = {"name": "ask", "arguments": {}, "_meta": about}
    asked = client.post(request(1, "tools/call", params, revision=STATELESS)).result
    (key,) = asked["inputRequests"]
    params |= {
        "requestState": asked["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {"colour": "red"}}},
    }
    message = request(2, "tools/call", params, revision=STATELESS)
    refused = client.post(message, "bob")
    assert refused.code == -32602
    assert "requestState" in refused.message["error"]["message"]
    assert client.post(message, "ann-again").text == "red"
