"""Random input: the server always answers or ignores by the rules, goes on, and sends nothing but protocol.

Every message that comes back is checked against the official types of its revision.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripts import anything
from support import STATELESS, meta, request
from wirekit import Process, alive, call, serving, talking, text

CURRENT, BATCHING = "2025-11-25", "2025-03-26"
both_eras = pytest.mark.parametrize("revision", [CURRENT, STATELESS])


def examples(number: int) -> Any:
    """The same examples in each run, so that a failure is one for everybody."""
    unfit = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(
        max_examples=number, derandomize=True, database=None, deadline=None, suppress_health_check=unfit
    )


_WORDS = """\
0 -1 42 4.5 1e999 nan NaN Infinity true null a red circle [] [1,2] {} {"x":1} "a" PT5S AAECAw== 15:00:58 \
2025-01-12 2025-01-12T15:00:58Z 12345678-1234-5678-1234-567812345678 \x00 """
WORDS = st.sampled_from(_WORDS.split(" "))
NUMBERS = st.sampled_from([0, -0.0, 1, 7, 8, 1.5, 2**31, 2**53, 2**63, 2**64, 10**30, 10**400, 1e308, 5e-324])
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | WORDS | NUMBERS | st.text(max_size=5) | st.integers() | FLOATS
_NAMES = "x y name children type radius side items note depth colour width first"
NAMES = st.sampled_from(_NAMES.split())
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)

POEM = {"type": "ref/prompt", "name": "poem"}
ANY = {"type": "ref/resource", "uri": "anything://{number}/{colour}"}
VALID: list[tuple[str, dict[str, Any]]] = [
    ("ping", {}),
    (
        "initialize",
        {"protocolVersion": CURRENT, "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}},
    ),
    ("server/discover", {}),
    ("logging/setLevel", {"level": "info"}),
    ("tools/list", {"cursor": "c"}),
    ("tools/call", {"name": "struct", "arguments": {"value": {"x": 1, "y": 2.5}}}),
    ("tools/call", {"name": "many", "arguments": {"a": 1, "b": [{"x": 1}], "c": "green", "d": True}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "anything://fixed"}),
    ("resources/read", {"uri": "anything://5/red"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "poem", "arguments": {"lines": "2"}}),
    ("completion/complete", {"ref": POEM, "argument": {"name": "colour", "value": "r"}}),
    (
        "completion/complete",
        {"ref": ANY, "argument": {"name": "colour", "value": ""}, "context": {"arguments": {}}},
    ),
    ("notifications/cancelled", {"requestId": 1, "reason": "r"}),
]


# -- What to send ----------------------------------------------------------------------------------------------


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A valid message with up to three changes."""
    method, params = draw(st.sampled_from(VALID))
    id = draw(st.integers(0, 3) | st.text(max_size=2))
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params}}
    if draw(st.booleans()):
        message["params"]["_meta"] = meta(progressToken=1)
    message = json.loads(json.dumps(message))
    for _ in range(draw(st.integers(0, 3))):
        message = draw(changed(message))
    return message


@st.composite
def changed(draw: st.DrawFn, value: Any) -> Any:
    """The value with one thing in it replaced, taken away or put in."""
    if isinstance(value, dict) and value and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(sorted(value)))
        match draw(st.sampled_from(["into", "into", "into", "drop", "add", "rename"])):
            case "into":
                return {**value, key: draw(changed(value[key]))}
            case "drop":
                return {name: item for name, item in value.items() if name != key}
            case "add":
                return {**value, draw(st.text(max_size=5)): draw(JSON)}
            case _:
                return {key + "x" if name == key else name: item for name, item in value.items()}
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], draw(changed(value[index])), *value[index + 1 :]]
    return draw(JSON)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A valid message with some of its bytes changed, taken away or put in."""
    data = bytearray(json.dumps(draw(mutated())).encode())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


def is_id(value: Any) -> bool:
    """Whether a value is a request's id."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def replies(message: Any) -> int:
    """How many responses the rules demand (RPC-02, RPC-04, RPC-07, RPC-15)."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return 1
    if "method" not in message:
        is_response = "result" in message or "error" in message
        return 0 if is_response and (message.get("id") is None or is_id(message["id"])) else 1
    return 0 if isinstance(message["method"], str) and "id" not in message else 1


# -- What comes back -------------------------------------------------------------------------------------------


def exchanged(revision: str, *sent: Any) -> list[Any]:
    """Everything that comes back on a connection of its own, from which the client then goes away."""

    async def exchange() -> list[Any]:
        async with talking(anything.app, revision, grace=10) as talk:
            talk.send(*sent, b"\n", alive("the next", revision))
            reply, received = await talk.receive_until("the next")
            assert "result" in reply
            talk.wire.close()
            while (message := await talk.receive()) is not None:
                received.append(message)
            return received

    return trio.run(exchange)


def responses(received: list[Any]) -> list[Any]:
    """Without the notifications."""
    return [message for message in received if "method" not in message]


def line(value: Any) -> bytes:
    """A value as a line."""
    return json.dumps(value).encode() + b"\n"


@both_eras
@examples(60)
@given(JSON)
def test_any_json_gets_what_the_rules_say(revision: str, value: Any) -> None:
    """RPC-04, RPC-07, STD-09; the following request is answered."""
    assert len(responses(exchanged(revision, line(value)))) == replies(value)


@both_eras
@examples(150)
@given(mutated())
def test_a_changed_request_gets_what_the_rules_say(revision: str, message: Any) -> None:
    """RPC-02 to RPC-08: one response to a request, with its id where it has one; silence for all else."""
    got = responses(exchanged(revision, line(message)))
    assert len(got) == replies(message)
    for reply in got:
        id = message.get("id") if isinstance(message, dict) else None
        assert reply.get("id") == (id if is_id(id) else None)


@both_eras
@examples(40)
@given(st.lists(mutated(), max_size=6))
def test_many_changed_requests_at_once_are_all_answered(revision: str, messages: list[Any]) -> None:
    """STD-06, RPC-09: also when ids are used twice; only a cancellation may save a response."""
    got = responses(exchanged(revision, *map(line, messages)))
    demanded = sum(map(replies, messages))
    cancelled = sum(isinstance(m, dict) and m.get("method") == "notifications/cancelled" for m in messages)
    assert demanded - cancelled <= len(got) <= demanded


@both_eras
@examples(60)
@given(st.lists(damaged() | st.binary(max_size=30), max_size=4))
def test_damaged_bytes_do_not_hinder_the_next_request(revision: str, pieces: list[bytes]) -> None:
    """PITFALLS, stdio row 3; STD-09: whatever the bytes are."""
    exchanged(revision, *pieces)


@examples(50)
@given(st.lists(mutated() | JSON, max_size=5))
def test_a_random_batch_gets_one_array_or_one_error_or_silence(elements: list[Any]) -> None:
    """BAT-01 to BAT-03."""
    received = exchanged(BATCHING, line(elements))
    (answers, *rest) = [m for m in received if isinstance(m, list) or "method" not in m] or [[]]
    assert rest == []
    if elements:
        demanded = sum(map(replies, elements))
        cancelled = sum(
            isinstance(m, dict) and m.get("method") == "notifications/cancelled" for m in elements
        )
        assert demanded - cancelled <= len(answers) <= demanded
    else:
        assert answers["error"]["code"] == -32600


@both_eras
@pytest.mark.parametrize("tool", anything.TYPES)
@examples(12)
@given(st.lists(JSON, max_size=8))
def test_any_argument_is_taken_or_refused(revision: str, tool: str, values: list[Any]) -> None:
    """TOOL-08; PITFALLS, signatures: an error result that names the argument, never an internal error."""
    calls = [call(number, tool, {"value": value}, revision=revision) for number, value in enumerate(values)]
    got = exchanged(revision, *map(line, calls))
    assert sorted(reply["id"] for reply in got) == list(range(len(values)))
    for reply in got:
        if reply["result"].get("isError"):
            assert text(reply).startswith(f"Invalid arguments for tool '{tool}': `value")


@both_eras
@examples(60)
@given(st.dictionaries(st.sampled_from(["a", "b", "c", "d"]) | st.text(max_size=2), JSON, max_size=5))
def test_any_arguments_are_taken_or_refused(revision: str, arguments: dict[str, Any]) -> None:
    """TOOL-08: missing, unknown and ill-typed ones together."""
    (reply,) = exchanged(revision, line(call(1, "many", arguments, revision=revision)))
    if reply["result"].get("isError"):
        assert text(reply).startswith("Invalid arguments for tool 'many': ")


@both_eras
@examples(50)
@given(st.text(max_size=10), st.text(max_size=10) | WORDS)
def test_any_uri_is_read_or_refused(revision: str, number: str, colour: str) -> None:
    """RES-03, RES-04, RES-07: a resource, or an error for a URI that is none; never an internal error."""
    uri = f"anything://{number}/{colour}"
    (reply,) = exchanged(revision, line(request(1, "resources/read", {"uri": uri}, revision=revision)))
    assert "result" in reply or reply["error"]["code"] in (-32002, -32602)


@both_eras
@examples(40)
@given(
    st.dictionaries(
        st.sampled_from(["lines", "colour"]) | st.text(max_size=2), WORDS | st.text(max_size=5), max_size=3
    )
)
def test_any_prompt_arguments_are_taken_or_refused(revision: str, arguments: dict[str, str]) -> None:
    """PRM-01, PRM-02: -32602 for what does not fit."""
    message = request(1, "prompts/get", {"name": "poem", "arguments": arguments}, revision=revision)
    (reply,) = exchanged(revision, line(message))
    assert "result" in reply or reply["error"]["code"] == -32602


# -- A real process --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["waiting", "threads"])
def process(request: pytest.FixtureRequest) -> Iterator[Process]:
    """One server that has to take everything."""
    with serving("anything.py", transport=request.param) as server:
        server.start(CURRENT)
        yield server
        server.close_input()
        assert server.wait() == 0
        assert "Traceback" not in server.errors


@examples(25)
@given(
    pieces=st.lists(
        damaged() | st.binary(max_size=50) | mutated().map(line) | JSON.map(line), min_size=5, max_size=20
    )
)
def test_a_process_takes_everything(process: Process, pieces: list[bytes]) -> None:
    """PITFALLS, stdio: nothing but protocol on standard output, and it never exits."""
    process.send(*pieces, b"\n")
    for revision in (CURRENT, STATELESS):
        assert "result" in process.ask(f"next in {revision}", alive(0, revision)["method"], revision=revision)
    assert process.process.poll() is None
