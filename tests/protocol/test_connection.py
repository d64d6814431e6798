"""The connection: messages in, events out; events in, messages out."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import HANDSHAKE, PREFIX, REVISIONS, STATELESS, initialize, request

from mcpkit.protocol import events, types
from mcpkit.protocol.connection import Connection
from mcpkit.protocol.errors import McpError

IDENTITY = events.Identity(types.Implementation("n", "1"), {"ttl_ms": 0, "cache_scope": "private"})
CURRENT, BATCHING = "2025-11-25", "2025-03-26"
both_eras = pytest.mark.parametrize("revision", [CURRENT, STATELESS])


class Line:
    """A connection with the client's side of it."""

    def __init__(self, revision: str = STATELESS) -> None:
        self.connection = Connection(IDENTITY)
        self.revision = revision
        if revision != STATELESS:
            self.answer(*self.receive(initialize(revision)))

    def receive(self, message: Any) -> list[Any]:
        """The events of a message."""
        return self.connection.receive(json.dumps(message).encode())

    def call(self, id: Any, **meta: Any) -> Any:
        """The event of a call."""
        params = {"name": "t", **({"_meta": meta} if meta else {})}
        (call,) = self.receive(request(id, "tools/call", params, revision=self.revision))
        return call

    def cancel(self, id: Any) -> list[Any]:
        """The events of a cancellation."""
        return self.receive(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
        )

    def answer(self, call: Any) -> Any:
        """What is sent for the empty answer."""
        return self.send(events.Answer(call, types.Result()))

    def send(self, event: Any) -> Any:
        """What is sent for an event, decoded; None for nothing."""
        line = self.connection.send(event)
        return None if line is None else json.loads(line)


# -- Rule 1: exactly one answer --------------------------------------------------------------------------------


@both_eras
def test_a_call_is_answered_once(revision: str) -> None:
    """Rule 1: whatever else is sent about it afterwards vanishes."""
    line = Line(revision)
    call = line.call(1, progressToken="t", **{PREFIX + "logLevel": "debug"})
    assert line.answer(call)["id"] == 1
    for event in everything_about(call):
        assert line.send(event) is None


@both_eras
def test_a_cancelled_call_is_not_answered(revision: str) -> None:
    """Rule 1; STD-04, PROG-03."""
    line = Line(revision)
    call = line.call(1, progressToken="t", **{PREFIX + "logLevel": "debug"})
    (cancel,) = line.cancel(1)
    assert cancel.call is call
    for event in everything_about(call):
        assert line.send(event) is None


@both_eras
def test_a_dropped_call_is_not_answered(revision: str) -> None:
    """Rule 1."""
    line = Line(revision)
    call = line.call(1)
    for event in (events.Dropped(call), *everything_about(call)):
        assert line.send(event) is None


def everything_about(call: Any) -> list[Any]:
    """One of each event."""
    return [
        events.Answer(call, types.Result()),
        events.Failure(call, McpError(1, "m")),
        events.Progress(call, 5),
        events.Log(call, "emergency", "d"),
        events.Dropped(call),
    ]


@both_eras
def test_an_answer_that_has_no_json_form_leaves_the_call_to_be_answered(revision: str) -> None:
    """`send`: it raises, and the engine answers with an error instead."""
    line = Line(revision)
    call = line.call(1)
    with pytest.raises(TypeError):
        line.send(events.Answer(call, types.Result(meta={"a": object()})))
    assert line.send(events.Failure(call, McpError(5, "m")))["error"]["code"] == 5


@both_eras
def test_it_is_idle_when_every_call_is_answered_or_given_up(revision: str) -> None:
    """`idle`, for the end of file."""
    line = Line(revision)
    assert line.connection.idle
    first, second, _ = line.call(1), line.call(2), line.call(3)
    line.answer(first)
    line.send(events.Dropped(second))
    assert not line.connection.idle
    line.cancel(3)
    assert line.connection.idle


# -- Rule 2: ids -----------------------------------------------------------------------------------------------


@both_eras
def test_ids_of_different_types_are_different_calls(revision: str) -> None:
    """Rule 2; RPC-02: 1 and "1"; in Python 1 == True == 1.0, which are no ids."""
    line = Line(revision)
    first, second = line.call(1), line.call("1")
    assert [line.answer(second)["id"], line.answer(first)["id"]] == ["1", 1]


@both_eras
def test_an_id_in_flight_is_refused(revision: str) -> None:
    """Rule 2; RPC-09."""
    line = Line(revision)
    first = line.call(1)
    refusal = line.call(1)
    assert line.send(refusal)["error"]["code"] == -32600
    assert line.answer(first)["id"] == 1
    assert isinstance(line.call(1), events.Call)


@both_eras
def test_the_first_owner_of_an_id_cannot_answer_for_the_second(revision: str) -> None:
    """Rule 2; RPC-10, CAN-06: the id is free after the cancellation, though the first handler may still run."""
    line = Line(revision)
    first = line.call(1, progressToken="old")
    line.cancel(1)
    second = line.call(1, progressToken="new")
    for event in everything_about(first):
        assert line.send(event) is None
    assert line.send(events.Progress(second, 1))["params"]["progressToken"] == "new"
    assert line.answer(second)["id"] == 1


@both_eras
@pytest.mark.parametrize("id", [2, "1", "x", None, 1.5, True, {}, []], ids=repr)
def test_a_cancellation_of_nothing_is_no_event(revision: str, id: Any) -> None:
    """CAN-02."""
    line = Line(revision)
    call = line.call(1)
    assert line.cancel(id) == []
    assert line.answer(call)["id"] == 1
    assert line.cancel(1) == []


# -- Rule 3: whatever comes ------------------------------------------------------------------------------------


@both_eras
@pytest.mark.parametrize(
    "meta", ["{}", "[]", '{"progressToken":1.5}', '{"io.modelcontextprotocol/protocolVersion":"x"}']
)
def test_what_can_only_just_be_read_is_answered(revision: str, meta: str) -> None:
    """SEC-02: how deep JSON can be depends on how deep its reader is in calls of its own, and it may read twice."""
    line = Line(revision)
    text = '{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"_meta":%s,"deep":%s}}'
    read = 0
    for levels in range(800, 1000):
        (event,) = line.connection.receive((text % (levels, meta, "[" * levels + "]" * levels)).encode())
        assert event.id == levels
        read += isinstance(event, events.Call) or "nested too deeply" not in event.error.message
    assert 0 < read < 200


@pytest.mark.parametrize("revision", REVISIONS)
@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_any_bytes_are_nothing_or_refused(revision: str, data: bytes) -> None:
    """Rule 3: what cannot be served comes out with its own reply."""
    line = Line(revision)
    for event in line.connection.receive(data):
        assert isinstance(event, events.Refuse)
        assert line.send(event)["error"]["code"] in (-32700, -32600)


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_oversized_message_is_refused_with_its_id(revision: str) -> None:
    """PITFALLS, stdio row 4; RPC-06."""
    line = Line(revision)
    beginning = b'{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{"x":"yyyy'
    named = line.send(line.connection.refuse_oversized(beginning, 1024))
    assert (named["id"], named["error"]["code"]) == ("big", -32600)
    assert "1,024 bytes" in named["error"]["message"]
    nameless = line.send(line.connection.refuse_oversized(b'{"params":"', 1024))
    assert nameless.get("id", "none") == (None if revision in HANDSHAKE[:3] else "none")


# -- The state -------------------------------------------------------------------------------------------------


def test_the_session_begins_with_initialize() -> None:
    """The table of the module: fresh, then session."""
    line = Line()
    (refusal,) = line.receive(request(1, "tools/list"))
    assert line.send(refusal)["error"]["code"] == -32600
    assert isinstance(line.receive(request(2, "ping"))[0], events.Call)
    (call,) = line.receive(initialize(CURRENT))
    assert call.envelope.revision == CURRENT
    (listing,) = line.receive(request(3, "tools/list"))
    assert listing.envelope.client == types.Implementation("test", "1")
    (refusal,) = line.receive(initialize(CURRENT, id="again"))
    assert line.send(refusal)["error"]["code"] == -32600


def test_a_refused_initialize_leaves_the_connection_fresh() -> None:
    """INIT-09."""
    line = Line()
    (refusal,) = line.receive({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})
    assert line.send(refusal)["error"]["code"] == -32602
    assert isinstance(line.receive(initialize(CURRENT))[0], events.Call)


def test_a_level_is_the_sessions_and_holds_for_calls_in_flight() -> None:
    """LOG-02; a stateless request in between has its own (META-03)."""
    line = Line(CURRENT)
    old = line.call(1)
    (stateless,) = line.receive(
        request(2, "tools/call", {"name": "t", "_meta": {PREFIX + "logLevel": "info"}}, revision=STATELESS)
    )
    line.answer(*line.receive(request(3, "logging/setLevel", {"level": "error"})))
    new = line.call(4)
    heard = [line.send(events.Log(call, "warning", "d")) is not None for call in (old, stateless, new)]
    assert heard == [False, True, False]


@pytest.mark.parametrize("token", [0, "", "t", -1])
def test_progress_carries_the_token_of_its_call(token: Any) -> None:
    """PROG-01: 0 and "" are tokens."""
    line = Line()
    first, second = line.call(1, progressToken=token), line.call(2)
    assert line.send(events.Progress(first, 1))["params"] == {"progressToken": token, "progress": 1}
    assert line.send(events.Progress(second, 1)) is None


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-1000, 1000)))
def test_progress_increases(values: list[float]) -> None:
    """PROG-02: what does not is dropped."""
    line = Line()
    call = line.call(1, progressToken=1)
    sent = [
        message["params"]["progress"]
        for value in values
        if (message := line.send(events.Progress(call, value)))
    ]
    assert all(a < b for a, b in pairwise(sent))
    assert not values or (sent[0], sent[-1]) == (values[0], max(values))


# -- Batches ---------------------------------------------------------------------------------------------------


def test_the_replies_of_a_batch_leave_together() -> None:
    """BAT-03: when the last is known, whatever kinds they are."""
    line = Line(BATCHING)
    batch = [request(1, "ping"), {"jsonrpc": "2.0", "method": "x"}, 5, request(2, "ping"), request(3, "ping")]
    first, refusal, second, third = line.receive(batch)
    assert line.answer(third) is None
    assert line.send(refusal) is None
    assert line.send(events.Failure(first, McpError(5, "m"))) is None
    replies = line.answer(second)
    assert [(reply["id"], "error" in reply) for reply in replies] == [
        (3, False),
        (None, True),
        (1, True),
        (2, False),
    ]


@pytest.mark.parametrize("outcome", [0, 1, -1])
def test_a_cancelled_call_leaves_its_batch(outcome: int) -> None:
    """Rule 1 inside a batch: answered, failed or dropped by its handler afterwards, the others do not wait."""
    line = Line(BATCHING)
    first, second = line.receive([request(1, "tools/list"), request(2, "tools/list")])
    line.cancel(1)
    assert line.answer(second) is None
    assert [reply["id"] for reply in line.send(everything_about(first)[outcome])] == [2]


def test_progress_and_logs_of_a_batch_do_not_wait_for_it() -> None:
    """BAT-03: they are no responses."""
    line = Line(BATCHING)
    params = {"name": "t", "_meta": {"progressToken": "t"}}
    (call, _) = line.receive([request(1, "tools/call", params), request(2, "ping")])
    assert line.send(events.Progress(call, 1))["method"] == "notifications/progress"
    assert line.send(events.Log(call, "error", "d"))["method"] == "notifications/message"


def test_a_batch_that_is_cancelled_whole_is_silent() -> None:
    """BAT-03: there is no empty array."""
    line = Line(BATCHING)
    calls = line.receive([request(1, "ping"), request(2, "ping")])
    line.cancel(1)
    line.cancel(2)
    assert [line.send(events.Dropped(call)) for call in calls] == [None, None]


def test_a_cancellation_inside_a_batch_ends_a_call_of_the_same_batch() -> None:
    """BAT-03, CAN-06."""
    line = Line(BATCHING)
    cancellation = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    first, cancel, second = line.receive([request(1, "ping"), cancellation, request(2, "ping")])
    assert cancel.call is first
    assert line.send(events.Dropped(first)) is None
    assert [reply["id"] for reply in line.answer(second)] == [2]


@pytest.mark.parametrize("data", [b"[", b"[1,", b'[{"jsonrpc":"2.0"} x]', b"[" * 100_000])
def test_a_batch_that_is_no_json_gets_one_error(data: bytes) -> None:
    """JSON-RPC 2.0 section 6, "rpc call Batch, invalid JSON"."""
    line = Line(BATCHING)
    (refusal,) = line.connection.receive(data)
    assert (line.send(refusal)["error"]["code"], line.send(refusal)["id"]) == (-32700, None)
