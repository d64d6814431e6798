"""Random input over HTTP: always a clear answer or a closed connection, and never a 5xx."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit import (
    BOTH,
    Closed,
    Json,
    Response,
    Server,
    Session,
    call,
    discover,
    encoded,
    head,
    headers_for,
    over,
    serving,
)
from support import HANDSHAKE, PREFIX, STATELESS, initialize, meta

CLEAR = {200, 202, 204, 400, 403, 404, 405, 406, 408, 413, 415, 431, 501}
"""Statuses that say what is wrong; 501 is h11's for a transfer coding that it does not know."""

random = settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("things.py", "--body-timeout", "2") as server:
        yield server
        assert server.is_alive()


@pytest.fixture(scope="module")
def session(server: Server) -> Session:
    return server.session("2025-03-26")


def is_clear(response: Response) -> bool:
    """Whether an answer says something, as the protocol has it."""
    assert response.status in CLEAR, response
    if response.get("content-type") == "application/json" and response.body:
        answers = json.loads(response.body)
        for answer in answers if isinstance(answers, list) else [answers]:
            assert answer["jsonrpc"] == "2.0"
            assert ("result" in answer) != ("error" in answer)
            assert answer.get("id", "") is not None or isinstance(answers, list)
    return True


def statuses(data: bytes) -> list[int]:
    """The statuses of all responses in what came back."""
    return [int(part.split(b" ", 1)[0]) for part in data.split(b"HTTP/1.1 ")[1:] if part[:3].isdigit()]


def answered(server: Server, data: bytes) -> bool:
    """Send bytes and the end; whether what comes back is clear."""
    with server.connect() as connection:
        with contextlib.suppress(OSError):
            connection.send(data)
            connection.end()
        rest = connection.rest()
    assert set(statuses(rest)) <= CLEAR | {100, 101}, rest
    return server.is_alive()


VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
METHOD = st.sampled_from(
    [
        "tools/call",
        "tools/list",
        "prompts/get",
        "resources/read",
        "initialize",
        "ping",
        "server/discover",
        "logging/setLevel",
        "completion/complete",
        "notifications/cancelled",
        "notifications/initialized",
        "resources/subscribe",
        "",
        "x",
    ]
)
ID = st.integers(-5, 2**64) | st.text(max_size=4) | VALUE
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["echo", "route", "greet", "count", "nobody"]) | VALUE,
        "arguments": st.fixed_dictionaries(
            {}, optional={"text": VALUE, "region": VALUE, "to": st.integers(-1, 3)}
        )
        | VALUE,
        "uri": st.sampled_from(["memo://x", "nothing://x"]) | VALUE,
        "cursor": VALUE,
        "level": VALUE,
        "requestId": VALUE,
        "_meta": st.fixed_dictionaries(
            {},
            optional={
                PREFIX + "protocolVersion": st.sampled_from([*HANDSHAKE, STATELESS]) | VALUE,
                PREFIX + "clientCapabilities": st.just({}) | VALUE,
                PREFIX + "clientInfo": VALUE,
                PREFIX + "logLevel": st.sampled_from(["debug", "error"]) | VALUE,
                "progressToken": VALUE,
            },
        )
        | VALUE,
    },
)
MESSAGE = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={"id": ID, "method": METHOD, "params": PARAMS | VALUE, "result": VALUE, "error": VALUE},
)
TEXT = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=20)
HEADER = st.sampled_from(
    [
        "Accept",
        "Content-Type",
        "MCP-Protocol-Version",
        "Mcp-Method",
        "Mcp-Name",
        "Mcp-Param-Region",
        "Mcp-Session-Id",
        "Last-Event-ID",
        "Origin",
        "Host",
        "Access-Control-Request-Headers",
        "Authorization",
        "Cookie",
        "Expect",
        "X",
    ]
)


@random
@given(data=st.binary(max_size=300))
def test_random_bytes(server: Server, data: bytes) -> None:
    """PITFALLS."""
    assert answered(server, data)


@random
@given(
    edits=st.lists(
        st.tuples(
            st.integers(0, 600),
            st.integers(0, 3),
            st.binary(max_size=3) | st.sampled_from([b"\r\n", b": ", b"\0", b"0"]),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_requests_with_random_faults(server: Server, edits: list[tuple[int, int, bytes]]) -> None:
    """PITFALLS: bytes lost, changed and added anywhere."""
    message = call(1, "count", {"to": 2}, progressToken=1)
    data = head(server, "POST", headers_for(message), len(encoded(message))) + encoded(message)
    for at, lost, added in edits:
        data = data[:at] + added + data[at + lost :]
    assert answered(server, data)


@random
@given(message=MESSAGE | VALUE, version=st.sampled_from([None, STATELESS, *HANDSHAKE]) | TEXT)
def test_random_messages(server: Server, message: Json, version: str | None) -> None:
    """PITFALLS."""
    method = message.get("method") if isinstance(message, dict) else None
    named = {"Content-Type": "application/json", "Accept": BOTH, "MCP-Protocol-Version": version}
    if isinstance(method, str) and method:
        named["Mcp-Method"] = method
    assert is_clear(server.ask("POST", named, json.dumps(message).encode()))


@random
@given(message=MESSAGE)
def test_random_requests_of_the_stateless_era(server: Server, message: Json) -> None:
    """PITFALLS: with what that era needs, so that the parameters are what is tried."""
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    own = params.get("_meta") if isinstance(params.get("_meta"), dict) else {}
    message = {**message, "id": 1, "params": {**params, "_meta": {**own, **meta()}}}
    message.setdefault("method", "tools/call")
    if message["method"] == "tools/call":
        message["params"]["name"] = "route"
    named = {name: value for name, value in headers_for(message).items() if str(value).isascii()}
    assert is_clear(server.ask("POST", named, json.dumps(message).encode()))


@random
@given(messages=st.lists(MESSAGE, min_size=1, max_size=4), batch=st.booleans())
def test_random_messages_in_a_session(session: Session, messages: list[Json], batch: bool) -> None:
    """PITFALLS: alone and in batches."""
    messages = [message for message in messages if message.get("method") != "tools/call" or "id" in message]
    for body in [messages] if batch else messages:
        assert is_clear(session.post(json.dumps(body).encode(), {"MCP-Protocol-Version": None}))
    assert session.post({"jsonrpc": "2.0", "id": "alive", "method": "ping"}).result == {}


@random
@given(
    verb=st.sampled_from(["POST", "POST", "GET", "DELETE", "OPTIONS", "HEAD", "PUT"]),
    values=st.dictionaries(HEADER, TEXT, max_size=4),
    opening=st.booleans(),
)
def test_random_headers(server: Server, verb: str, values: dict[str, str], opening: bool) -> None:
    """PITFALLS."""
    message = initialize("2025-11-25") if opening else discover()
    body = encoded(message) if verb == "POST" else None
    usual = headers_for(message) if verb == "POST" else {}
    with server.connect() as connection:
        connection.begin(verb, over(usual, values), body)
        try:
            assert is_clear(connection.response(verb))
        except Closed:
            pass
    assert server.is_alive()


@random
@given(last=TEXT | st.from_regex(r"[0-9]{1,3}\.[0-9]{1,3}", fullmatch=True))
def test_random_event_ids(session: Session, last: str) -> None:
    """HL-14."""
    session.call(1, "count", {"to": 2}, progressToken=1)
    with session.server.connect() as connection:
        connection.begin(
            "GET", {**session.headers, "Accept": "text/event-stream", "Last-Event-ID": last}, None
        )
        assert connection.head().status in (200, 400)
