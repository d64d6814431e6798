"""The handshake era over HTTP: sessions, version header, streams, resuming, and what ends them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import BOTH, Json, Server, call, encoded, eventually, headers_for, serving
from support import HANDSHAKE, STATELESS, initialize, meta, request

STREAMABLE = ("2025-03-26", "2025-06-18", "2025-11-25")
WITH_HEADER = ("2025-06-18", "2025-11-25")
PRIMED = "2025-11-25"
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
JSON, STREAM = "application/json", "text/event-stream"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def ask(method: str, params: Json = None, id: Json = 1) -> Json:
    return request(id, method, params)


def cancelled(id: Json) -> Json:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


# -- Opening ---------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_initialize_opens_a_session(server: Server, revision: str) -> None:
    """HL-06, ERA-02, ERA-07: an id of visible characters that nobody guesses."""
    response = server.post(initialize(revision))
    assert response.result["protocolVersion"] == revision
    session_id = response.get("mcp-session-id") or ""
    assert len(session_id) >= 22
    assert all(0x21 <= ord(character) <= 0x7E for character in session_id)
    assert server.post(initialize(revision)).get("mcp-session-id") != session_id


@pytest.mark.parametrize("asked", ["2024-01-01", STATELESS, "2099-01-01", "", "draft"])
def test_an_unknown_revision_gets_the_newest_with_a_handshake(server: Server, asked: str) -> None:
    """ERA-07, PITFALLS: a normal result."""
    assert server.post(initialize(asked)).result["protocolVersion"] == HANDSHAKE[-1]


@pytest.mark.parametrize("version", [None, "2025-11-25", "2024-11-05", STATELESS, "1999-01-01", "nonsense"])
def test_initialize_may_say_any_version_in_its_header(server: Server, version: str | None) -> None:
    """ERA-02, HL-10."""
    response = server.post(initialize("2025-11-25"), {"MCP-Protocol-Version": version})
    assert response.status == 200
    assert response.get("mcp-session-id")


@pytest.mark.parametrize("missing", ["protocolVersion", "capabilities", "clientInfo"])
def test_a_bad_initialize_opens_nothing(server: Server, missing: str) -> None:
    """INIT-09, PITFALLS: no session id on a refusal."""
    message = initialize("2025-11-25")
    del message["params"][missing]
    response = server.post(message)
    assert (response.status, response.code) == (200, -32602)
    assert response.get("mcp-session-id") is None


def test_initialize_needs_an_id(server: Server) -> None:
    """A notification of that name opens nothing."""
    message = initialize("2025-11-25")
    del message["id"]
    response = server.post(message)
    assert response.status in (202, 400)
    assert response.get("mcp-session-id") is None


@pytest.mark.parametrize(
    ("verb", "headers", "status"),
    [
        ("POST", {"Accept": "text/html"}, 406),
        ("POST", {"Content-Type": "text/plain"}, 415),
        ("POST", {"Content-Type": None}, 415),
        ("POST", {"Origin": "http://evil.example"}, 403),
        ("POST", {"Host": "evil.example"}, 403),
        ("HEAD", {}, 405),
        ("PUT", {}, 405),
    ],
)
def test_refused_requests_open_nothing(server: Server, verb: str, headers: Json, status: int) -> None:
    """PITFALLS: create no session and carry no session id."""
    message = initialize("2025-11-25")
    response = server.ask(verb, headers_for(message) | headers, encoded(message))
    assert response.status == status
    assert response.get("mcp-session-id") is None


@pytest.mark.parametrize("accept", [BOTH, None, "*/*", "text/event-stream", "application/json"])
def test_initialize_is_answered_as_the_client_takes_it(server: Server, accept: str | None) -> None:
    """HL-05."""
    response = server.post(initialize("2025-11-25"), {"Accept": accept})
    assert response.result["protocolVersion"] == "2025-11-25"
    assert response.get("content-type") == (STREAM if accept == STREAM else JSON)
    assert response.get("mcp-session-id")


def test_a_session_is_initialized_once(server: Server) -> None:
    """INIT-08: a second handshake inside the session is an error, and the session goes on."""
    session = server.session()
    response = session.post(initialize("2025-06-18"))
    assert (response.status, response.code) == (400, -32600)
    assert session.call(1, "echo", {"text": "x"}).text == "x"


# -- Naming ----------------------------------------------------------------------------------


def test_requests_are_served_before_initialized(server: Server) -> None:
    """PITFALLS: a request straight after the reply to initialize."""
    session_id = server.post(initialize("2025-11-25")).get("mcp-session-id")
    headers = {"Mcp-Session-Id": session_id}
    assert server.post(ask("ping"), headers).result == {}
    assert server.post(ask("tools/list"), headers).status == 200


def test_header_names_have_no_case(server: Server) -> None:
    """REQUIREMENTS 33, 20; RFC 9110 section 5.1."""
    session = server.session()
    for name in ("mcp-session-id", "MCP-SESSION-ID", "MCP-Session-Id"):
        assert server.post(ask("ping"), {name: f"  {session.id}\t"}).result == {}


@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
def test_the_session_must_be_named(server: Server, verb: str) -> None:
    """HL-07, HL-09."""
    body = encoded(ask("tools/list")) if verb == "POST" else None
    response = server.ask(verb, {"Content-Type": JSON, "Accept": BOTH}, body)
    assert response.status == 400
    assert "Mcp-Session-Id" in response.message["error"]["message"]


@pytest.mark.parametrize("message", [ask("tools/list"), INITIALIZED, [ask("ping")], initialize("2025-11-25")])
@pytest.mark.parametrize("session_id", ["made-up", "", "x" * 5000, "session:x", "../../x", "a b", "\xff"])
def test_an_unknown_session_is_not_found(server: Server, message: Json, session_id: str) -> None:
    """HL-08, PITFALLS: never 500."""
    response = server.post(message, {"Mcp-Session-Id": session_id})
    assert response.status == 404, response
    assert response.get("mcp-session-id") is None
    for verb in ("GET", "DELETE"):
        assert server.ask(verb, {"Mcp-Session-Id": session_id, "Accept": BOTH}, None).status == 404


def test_a_session_named_twice_is_none(server: Server) -> None:
    """HL-08: two different ones cannot both be meant."""
    one, two = server.session(), server.session()
    response = server.post(ask("ping"), [("Mcp-Session-Id", one.id), ("Mcp-Session-Id", two.id)])
    assert response.status in (400, 404)


@pytest.mark.parametrize("revision", STREAMABLE)
def test_a_deleted_session_is_gone(server: Server, revision: str) -> None:
    """HL-08, HL-09."""
    session = server.session(revision)
    response = session.ask("DELETE")
    assert (response.status, response.body) == (204, b"")
    assert session.post(ask("ping")).status == 404
    assert session.post(INITIALIZED).status == 404
    assert session.ask("DELETE").status == 404
    assert session.ask("GET", {"Accept": STREAM}).status == 404


def test_other_sessions_outlive_one(server: Server) -> None:
    """HL-08."""
    one, two = server.session(), server.session()
    one.ask("DELETE")
    assert two.post(ask("ping")).result == {}


# -- The version header ----------------------------------------------------------------------


@pytest.mark.parametrize("revision", STREAMABLE)
def test_the_version_header_may_be_left_out(server: Server, revision: str) -> None:
    """ERA-09: the session knows."""
    session = server.session(revision)
    assert session.post(ask("ping"), {"MCP-Protocol-Version": None}).result == {}


@pytest.mark.parametrize("revision", STREAMABLE)
@pytest.mark.parametrize("version", ["1999-01-01", "nonsense", "", "2025-11-25, 2025-11-25"])
def test_a_version_that_is_not_served_is_refused(server: Server, revision: str, version: str) -> None:
    """HL-10, ERA-08: whatever the request."""
    session = server.session(revision)
    wrong = {"MCP-Protocol-Version": version, "Accept": BOTH}
    for response in (
        session.post(ask("ping"), wrong),
        session.post(INITIALIZED, wrong),
        session.ask("GET", wrong),
        session.ask("DELETE", wrong),
    ):
        assert (response.status, response.code) == (400, -32022)
        assert STATELESS in response.message["error"]["data"]["supported"]
    assert session.post(ask("ping")).result == {}


@pytest.mark.parametrize("message", [ask("tools/list"), ask("ping"), INITIALIZED])
@pytest.mark.parametrize("version", ["1999-01-01", "nonsense"])
def test_a_version_that_is_not_served_is_refused_without_a_session(
    server: Server, message: Json, version: str
) -> None:
    """ERA-08: a body that names the versions, which clients of either era understand."""
    response = server.post(message, {"MCP-Protocol-Version": version})
    assert (response.status, response.code) == (400, -32022)
    data = response.message["error"]["data"]
    assert data["requested"] == version
    assert {STATELESS, *HANDSHAKE} == set(data["supported"])


def test_another_version_than_the_sessions_is_refused(server: Server) -> None:
    """HL-10."""
    session = server.session("2025-06-18")
    response = session.post(ask("ping"), {"MCP-Protocol-Version": "2025-11-25"})
    assert (response.status, response.code) == (400, -32600)
    assert "2025-06-18" in response.message["error"]["message"]


# -- Answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", STREAMABLE)
@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (ask("no/such"), 200, -32601),
        (ask("server/discover"), 200, -32601),
        (ask("tools/call", {"name": "nobody"}), 200, -32602),
        (ask("tools/call", {}), 200, -32602),
        (ask("tools/list", {"cursor": "made up"}), 200, -32602),
        (ask("resources/read", {"uri": "nothing://x"}), 200, -32002),
        (ask("logging/setLevel", {"level": "loud"}), 200, -32602),
        (call(1, "fail", {"code": -32603}, "2025-11-25"), 200, -32603),
        (call(1, "fail", {"code": -32601}, "2025-11-25"), 200, -32601),
        (call(1, "fail", {"code": -32020}, "2025-11-25"), 200, -32603),
        (call(1, "fail", {"code": -32022}, "2025-11-25"), 200, -32603),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"', 400, -32700),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1}', 400, -32600),
        (b"5", 400, -32600),
    ],
)
def test_errors_have_the_status_of_the_era(
    server: Server, revision: str, message: Json, status: int, code: int
) -> None:
    """Section 3, HL-21: never 404, which would say that the session has ended."""
    response = server.session(revision).post(message)
    assert (response.status, response.code) == (status, code)


@pytest.mark.parametrize("revision", STREAMABLE)
@pytest.mark.parametrize(
    "message",
    [
        INITIALIZED,
        {"jsonrpc": "2.0", "method": "notifications/no/such"},
        cancelled(99),
        cancelled(None),
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": "unknown", "error": {"code": 1, "message": "no"}},
    ],
)
def test_what_needs_no_answer_is_accepted(server: Server, revision: str, message: Json) -> None:
    """HL-03, HL-19, CAN-02: 202 and no body."""
    response = server.session(revision).post(message)
    assert (response.status, response.body) == (202, b"")


def test_nothing_of_the_other_era_is_in_the_answers(server: Server) -> None:
    """RPC-12."""
    session = server.session()
    assert session.post(ask("ping")).result == {}
    assert session.post(ask("logging/setLevel", {"level": "info"})).result == {}
    assert set(session.post(ask("tools/list")).result) == {"tools"}


def test_a_stateless_request_is_served_beside_a_session(server: Server) -> None:
    """ERA-04, META-03, HM-14: each request is judged by itself."""
    session = server.session("2025-06-18")
    with server.connect() as connection:
        for _ in range(2):
            stateless = connection.post(call(1, "echo", {"text": "a"}), {"Mcp-Session-Id": session.id})
            assert stateless.result["resultType"] == "complete"
            assert connection.post(ask("ping"), session.headers).result == {}


@pytest.mark.parametrize("revision", STREAMABLE)
def test_ids_in_flight_are_the_sessions_own(server: Server, revision: str, tmp_path: Path) -> None:
    """RPC-09, RPC-10: the same id in use twice is refused in a session, and free in another."""
    path = tmp_path / "go"
    session, other = server.session(revision), server.session(revision)
    with server.connect() as connection:
        session.begin(connection, call(1, "wait", {"path": str(path)}, revision))
        eventually(lambda: path.with_suffix(".begun").exists(), "the call")
        again = session.call(1, "echo", {"text": "x"})
        assert (again.status, again.code) == (400, -32600)
        assert session.call("1", "echo", {"text": "x"}).text == "x"
        assert other.call(1, "echo", {"text": "x"}).text == "x"
        path.touch()
        assert connection.response().text == "done"
    assert session.call(1, "echo", {"text": "again"}).text == "again"


@pytest.mark.parametrize("revision", STREAMABLE)
@pytest.mark.parametrize("tool", ["count", "count_in_thread"])
def test_progress_comes_on_the_response(server: Server, revision: str, tool: str) -> None:
    """HL-04, HL-12, HL-17, PROG-01: in order, before the response, and the stream ends with it."""
    response = server.session(revision).call(1, tool, {"to": 3}, progressToken="t")
    assert response.get("content-type") == STREAM
    assert response.get("cache-control") == "no-cache"
    assert response.get("x-accel-buffering") == "no"
    progress = [
        m["params"]["progress"] for m in response.messages if m.get("method", "").endswith("progress")
    ]
    assert progress == [1, 2, 3]
    assert response.messages[-1]["id"] == 1


def test_all_of_a_long_stream_comes(server: Server) -> None:
    """HL-12: a client that reads misses nothing, however much is said at once."""
    response = server.session().call(1, "count", {"to": 1500})
    said = [m["params"]["data"] for m in response.messages if m.get("method", "").endswith("message")]
    assert said == list(range(1, 1501))


@pytest.mark.parametrize("revision", STREAMABLE)
def test_a_client_that_takes_json_alone_gets_json(server: Server, revision: str) -> None:
    """HL-05: what it does not take is left out, and the answer comes when the call ends."""
    message = call(1, "count", {"to": 3}, revision, progressToken="t")
    response = server.session(revision).post(message, {"Accept": JSON})
    assert (response.get("content-type"), response.text) == (JSON, "counted")


def test_a_client_that_takes_streams_alone_gets_a_stream(server: Server) -> None:
    """HL-05."""
    response = server.session().post(call(1, "echo", {"text": "x"}, "2025-11-25"), {"Accept": STREAM})
    assert (response.get("content-type"), response.text) == (STREAM, "x")


def test_levels_belong_to_the_session(server: Server) -> None:
    """LOG-02: per session, from the level on."""
    loud, quiet = server.session(), server.session()
    assert quiet.post(ask("logging/setLevel", {"level": "error"})).result == {}
    heard = [m["params"]["data"] for m in loud.call(1, "count", {"to": 2}).messages if "method" in m]
    assert heard == [1, 2]
    assert quiet.call(1, "count", {"to": 2}).get("content-type") == JSON


# -- Cancelling ------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", STREAMABLE)
@pytest.mark.parametrize("progress", [True, False])
@pytest.mark.parametrize("accept", [BOTH, JSON])
def test_a_cancellation_ends_the_call_and_its_response(
    server: Server, tmp_path: Path, revision: str, progress: bool, accept: str
) -> None:
    """Section 22, CAN-01: clean-up runs, nothing is answered, the response ends, and other sessions cannot do it."""
    path = str(tmp_path / "call")
    session = server.session(revision)
    with server.connect() as connection:
        arguments = {"path": path, "progress": progress}
        session.begin(connection, call(1, "hang", arguments, revision, progressToken="t"), {"Accept": accept})
        eventually(Path(path + ".begun").exists, "the call")
        assert server.session(revision).post(cancelled(1)).status == 202
        assert session.post(cancelled("1")).status == 202
        assert not Path(path + ".cleaned").exists()
        assert session.post(cancelled(1)).status == 202
        eventually(Path(path + ".cleaned").exists, "the clean-up")
        response = connection.response()
        assert response.status in (200, 202)
        assert not any("id" in message for message in response.messages)
    assert session.call(1, "echo", {"text": "x"}).text == "x"


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize("progress", [True, False])
def test_leaving_cancels_nothing(server: Server, tmp_path: Path, reset: bool, progress: bool) -> None:
    """HL-18, PITFALLS: under 2025-11-25 the handler runs on."""
    path = str(tmp_path / "call")
    session = server.session()
    connection = server.connect()
    meta = {"progressToken": "t"} if progress else {}
    session.begin(connection, call(1, "wait", {"path": path}, "2025-11-25", **meta))
    eventually(Path(path + ".begun").exists, "the call")
    if progress:
        connection.stream()
    connection.abort() if reset else connection.close()
    assert session.post(ask("ping", id=2)).result == {}
    Path(path).touch()
    eventually(Path(path + ".done").exists, "the end of the call")


def test_the_end_of_a_session_ends_its_calls(server: Server, tmp_path: Path) -> None:
    """HL-23: calls are cancelled, and their responses end."""
    for accept in (BOTH, JSON):
        path = str(tmp_path / accept.replace("/", "-"))
        session = server.session()
        with server.connect() as connection:
            session.begin(connection, call(1, "hang", {"path": path}, "2025-11-25"), {"Accept": accept})
            eventually(Path(path + ".begun").exists, "the call")
            assert session.ask("DELETE").status == 204
            eventually(Path(path + ".cleaned").exists, "the clean-up")
            assert connection.response().status in (200, 202, 404)


# -- The session's own stream ----------------------------------------------------------------


@pytest.mark.parametrize("revision", STREAMABLE)
def test_a_second_stream_replaces_the_first(server: Server, revision: str) -> None:
    """HL-11, PITFALLS: clients reconnect before the server notices."""
    session = server.session(revision)
    with server.connect() as one, server.connect() as two:
        head = session.listen(one)
        assert head.get("x-accel-buffering") == "no"
        session.listen(two)
        assert [event.data for event in one.events() if event.data] == []
        assert session.ask("DELETE").status == 204
        assert [event.data for event in two.events() if event.data] == []


@pytest.mark.parametrize(
    ("accept", "status"), [(JSON, 406), ("text/html", 406), ("text/event-stream;q=0", 406)]
)
def test_the_stream_must_be_acceptable(server: Server, accept: str, status: int) -> None:
    """HL-05."""
    assert server.session().ask("GET", {"Accept": accept}).status == status


@pytest.mark.parametrize("accept", [None, "*/*", "text/*", "Text/Event-Stream"])
def test_the_stream_is_given_where_it_is_not_refused(server: Server, accept: str | None) -> None:
    """HL-05."""
    session = server.session()
    with server.connect() as connection:
        connection.begin("GET", {**session.headers, "Accept": accept}, None)
        connection.stream()


# -- Resuming --------------------------------------------------------------------------------


def test_a_stream_begins_with_something_to_resume_from(server: Server) -> None:
    """HL-13, HL-15, HL-16: from 2025-11-25 on; ids are unique in the session."""
    session = server.session(PRIMED)
    seen = [event for id in (1, 2) for event in session.call(id, "count", {"to": 2}, progressToken=1).events]
    first = seen[0]
    assert (first.data, bool(first.id), int(first.retry or 0) > 0) == ("", True, True)
    ids = [event.id for event in seen]
    assert None not in ids
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
def test_older_clients_get_no_empty_event(server: Server, revision: str) -> None:
    """HL-15: they stumble over it."""
    events = server.session(revision).call(1, "count", {"to": 2}, progressToken=1).events
    assert all(event.data for event in events)


@pytest.mark.parametrize("revision", STREAMABLE)
def test_a_client_gets_what_came_after_the_last_event_that_it_saw(server: Server, revision: str) -> None:
    """HL-14: of that stream alone, until its response."""
    session = server.session(revision)
    events = session.call(1, "count", {"to": 3}, progressToken=1).events
    session.call(2, "count", {"to": 3}, progressToken=2)
    for position, event in enumerate(events):
        with server.connect() as connection:
            session.listen(connection, event.id)
            again = [e for e in connection.events() if e.data]
        assert again == [e for e in events[position + 1 :] if e.data]


def test_a_client_comes_back_to_a_call_that_goes_on(server: Server, tmp_path: Path) -> None:
    """HL-14, HL-18: replayed, then live."""
    path = str(tmp_path / "call")
    session = server.session(PRIMED)
    with server.connect() as connection:
        session.begin(connection, call(1, "wait", {"path": path}, PRIMED, progressToken="t"))
        connection.stream()
        priming = next(connection.events())
    with server.connect() as connection:
        session.listen(connection, priming.id)
        events = (event for event in connection.events() if event.data)
        assert json.loads(next(events).data)["params"]["progress"] == 1
        Path(path).touch()
        assert json.loads(next(events).data)["params"]["progress"] == 2
        assert json.loads(next(events).data)["result"]["content"][0]["text"] == "done"
        assert next(events, None) is None


@pytest.mark.parametrize(
    "last",
    [
        "",
        ".",
        "1",
        "x",
        "1.x",
        "x.1",
        "-1.1",
        "1.-1",
        "99.1",
        "1.1.1",
        "0x1.1",
        "1" * 5000 + ".1",
        "1." + "9" * 5000,
        "1 .1",
    ],
)
def test_an_unknown_event_is_refused(server: Server, last: str) -> None:
    """HL-14: 400, or a stream with nothing in it; never 500, never another stream's messages."""
    session = server.session()
    session.call(1, "count", {"to": 3}, progressToken=1)
    with server.connect() as connection:
        connection.begin("GET", {**session.headers, "Accept": STREAM, "Last-Event-ID": last}, None)
        head = connection.head()
        if head.status == 200:
            assert [event for event in connection.events() if event.data] == []
        else:
            assert head.status == 400


def test_another_sessions_events_are_not_given(server: Server) -> None:
    """HL-14: an id means something in its own session alone."""
    one, two = server.session(), server.session()
    event = one.call(1, "count", {"to": 3}, progressToken=1).events[0]
    with server.connect() as connection:
        connection.begin("GET", {**two.headers, "Accept": STREAM, "Last-Event-ID": event.id}, None)
        assert connection.head().status == 400


def test_what_is_kept_for_resuming_is_bounded(server: Server) -> None:
    """SEC-02: a client cannot make the server keep all that it was ever told."""
    session = server.session()
    session.call(0, "big", {"size": 2_000_000})
    before = server.memory()
    for id in range(1, 30):
        assert len(session.call(id, "big", {"size": 2_000_000}, progressToken=id).text) == 2_000_000
    for id in range(30, 40):
        assert session.call(id, "pour", {"megabytes": 3}).text == "poured"
    assert server.memory() - before < 40_000_000


def test_a_body_of_the_other_era_needs_its_header(server: Server) -> None:
    """ERA-09: what a session says in its place does not count."""
    session = server.session()
    message = call(1, "echo", {"text": "x"})
    response = session.post(message, {"MCP-Protocol-Version": None})
    assert (response.status, response.code) == (400, -32020)
    assert meta() == message["params"]["_meta"]
