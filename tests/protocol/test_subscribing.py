"""What a session may subscribe to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpkit.protocol import events
from mcpkit.protocol.connection import MAX_SUBSCRIPTIONS, MAX_URI, Connection
from mcpkit.protocol.types import Implementation, Result


def connected() -> Connection:
    connection = Connection(events.Identity(Implementation("test", "1"), {}))
    said = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answer(connection, "initialize", said)
    return connection


def answer(connection: Connection, method: str, params: dict[str, Any]) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    (event,) = connection.receive(json.dumps(message).encode())
    sent = events.Answer(event, Result()) if isinstance(event, events.Call) else event
    return json.loads(connection.send(sent) or b"null")


@pytest.mark.parametrize(("length", "accepted"), [(MAX_URI, True), (MAX_URI + 1, False)])
def test_a_uri_that_is_kept_is_bounded(length: int, accepted: bool) -> None:
    """SEC-02: what a session holds is bounded, in number and in size."""
    connection = connected()
    reply = answer(connection, "resources/subscribe", {"uri": "x:" + "a" * (length - 2)})
    assert ("result" in reply) is accepted
    assert len(connection.subscribed) == accepted


def test_the_number_of_subscriptions_is_bounded() -> None:
    """SEC-02: the next one is refused, a repeated one is not, and there is room again after an unsubscription."""
    connection = connected()
    connection.subscribed = {f"x:{number}" for number in range(MAX_SUBSCRIPTIONS)}
    assert answer(connection, "resources/subscribe", {"uri": "x:more"})["error"]["code"] == -32600
    assert "result" in answer(connection, "resources/subscribe", {"uri": "x:1"})
    assert "result" in answer(connection, "resources/unsubscribe", {"uri": "x:1"})
    assert "result" in answer(connection, "resources/subscribe", {"uri": "x:more"})
