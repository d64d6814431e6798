"""The stateless era over HTTP: statuses and codes, verbs, answers and streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import BOTH, Json, Server, call, discover, encoded, headers_for, serving
from support import NO_SUCH_METHOD, PREFIX, STATELESS, meta, request


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def ask(method: str, params: Json = None, id: Json = 1) -> Json:
    return request(id, method, params, revision=STATELESS)


# -- Statuses and codes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code", "id"),
    [
        (b"{", -32700, None),
        (b"", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[" * 20_000, -32700, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + b"[" * 20_000, -32700, 7),
        (b"5", -32600, None),
        (b'"ping"', -32600, None),
        (b"null", -32600, None),
        (b"[]", -32600, None),
        (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
        (b'{"id":7,"method":"ping"}', -32600, 7),
        (b'{"jsonrpc":"1.0","id":"7","method":"ping"}', -32600, "7"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":5}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":[]}', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"result":{}}', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}', -32600, None),
    ],
)
@pytest.mark.parametrize("version", [STATELESS, None])
def test_what_is_no_request_is_refused(
    server: Server, body: bytes, code: int, id: Json, version: str | None
) -> None:
    """RPC-02, RPC-05, RPC-07, RPC-08, RPC-15, HM-05: status 400, with the id where one can be read."""
    response = server.post(body, {"MCP-Protocol-Version": version})
    assert (response.status, response.code) == (400, code), response
    assert response.message.get("id") == id
    assert ("id" in response.message) == (id is not None)
    assert response.get("mcp-session-id") is None


@pytest.mark.parametrize(
    "method",
    [
        "no/such",
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
        "",
    ],
)
def test_a_method_that_does_not_exist_is_not_found(server: Server, method: str) -> None:
    """ERA-03, HM-23, HM-24: 404 with a body that names the request."""
    response = server.post(ask(method, {"level": "info", "uri": "memo://x"}, id="a"))
    assert (response.status, response.code) == (404, -32601), response
    assert response.message["id"] == "a"
    assert response.get("mcp-session-id") is None


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/call", {"name": "nobody", "arguments": {}}, -32602),
        ("tools/call", {"name": "echo", "arguments": [1]}, -32602),
        ("tools/list", {"cursor": "made up"}, -32602),
        ("prompts/get", {"name": "nobody"}, -32602),
        ("prompts/get", {"name": "greet"}, -32602),
        ("prompts/get", {"name": "greet", "arguments": {"name": 1}}, -32602),
        ("resources/read", {"uri": "nothing://x"}, -32602),
    ],
)
def test_what_the_application_refuses_is_answered_with_200(
    server: Server, method: str, params: Json, code: int
) -> None:
    """ERR-07, TOOL-06, PAG-02, RES-03: a client that probes for eras takes 400 for something else."""
    response = server.post(ask(method, params))
    assert (response.status, response.code) == (200, code), response


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (-32602, 200, -32602),
        (-32603, 200, -32603),
        (-32002, 200, -32602),
        (-32021, 400, -32021),
        (-32042, 200, -32603),
        (-32050, 200, -32603),
        (-32099, 200, -32603),
        (1, 200, 1),
    ],
)
def test_codes_of_handlers_are_those_of_the_era(server: Server, raised: int, status: int, code: int) -> None:
    """ERR-01, ERR-02, META-04: reserved codes are not let out, and a missing capability has a status."""
    response = server.post(call(1, "fail", {"code": raised}))
    assert (response.status, response.code) == (status, code), response


@pytest.mark.parametrize(
    ("change", "code", "word"),
    [
        ({PREFIX + "protocolVersion": None}, -32602, "protocolVersion"),
        ({PREFIX + "protocolVersion": 5}, -32602, "protocolVersion"),
        ({PREFIX + "protocolVersion": "2025-11-25"}, -32022, "2025-11-25"),
        ({PREFIX + "protocolVersion": "2030-01-01"}, -32022, "2030-01-01"),
        ({PREFIX + "protocolVersion": "draft"}, -32022, "draft"),
        ({PREFIX + "clientCapabilities": None}, -32602, "clientCapabilities"),
        ({PREFIX + "clientCapabilities": []}, -32602, "clientCapabilities"),
        ({PREFIX + "clientInfo": "me"}, -32602, "clientInfo"),
        ({PREFIX + "clientInfo": {"name": "me"}}, -32602, "clientInfo"),
        ({PREFIX + "logLevel": "loud"}, -32602, "logLevel"),
        ({"progressToken": 1.5}, -32602, "progressToken"),
        ({"progressToken": True}, -32602, "progressToken"),
    ],
)
def test_a_bad_envelope_is_a_bad_request(server: Server, change: Json, code: int, word: str) -> None:
    """META-01, META-02, META-08, META-09, ERA-05."""
    message = ask("tools/list")
    message["params"]["_meta"] = {**meta(), **change}
    message["params"]["_meta"] = {k: v for k, v in message["params"]["_meta"].items() if v is not None}
    response = server.post(
        message,
        {
            "MCP-Protocol-Version": str(change.get(PREFIX + "protocolVersion") or STATELESS),
            "Mcp-Method": "tools/list",
        },
    )
    assert (response.status, response.code) == (400, code), response
    assert response.message["id"] == 1
    assert word in response.message["error"]["message"]


def test_an_unsupported_version_names_those_that_are(server: Server) -> None:
    """ERA-05, ERA-06, ERR-05."""
    known = server.post(discover()).result["supportedVersions"]
    for requested, supported in (("2030-01-01", known), ("2025-06-18", [STATELESS])):
        message = ask("tools/list")
        message["params"]["_meta"][PREFIX + "protocolVersion"] = requested
        data = server.post(message).message["error"]["data"]
        assert data == {"requested": requested, "supported": supported}


def test_client_info_is_optional(server: Server) -> None:
    """META-02."""
    assert server.post(ask("tools/list")).status == 200


@pytest.mark.parametrize("method", ["tools/list", "server/discover", "subscriptions/listen"])
def test_meta_is_required_for_every_request(server: Server, method: str) -> None:
    """META-01, and ERA-08: the header alone says which era is meant."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
    response = server.post(message, {"MCP-Protocol-Version": STATELESS, "Mcp-Method": method})
    assert (response.status, response.code) == (400, -32602), response


@pytest.mark.parametrize("id", [0, -1, 2**53, 10**30, "", "1", "é", "x" * 1000])
def test_ids_come_back_as_they_are(server: Server, id: Json) -> None:
    """RPC-02, HM-24."""
    for message in (call(id, "echo", {"text": "x"}), ask("no/such", id=id)):
        answered = server.post(message).message["id"]
        assert answered == id and type(answered) is type(id)


# -- Verbs and headers -----------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["GET", "DELETE"])
def test_the_era_has_post_alone(server: Server, verb: str) -> None:
    """HM-09: the version header says that no session is meant."""
    response = server.ask(verb, {"MCP-Protocol-Version": STATELESS, "Accept": BOTH}, None)
    assert response.status == 405
    assert "POST" in (response.get("allow") or "")


@pytest.mark.parametrize(
    "verb", ["HEAD", "PUT", "PATCH", "TRACE", pytest.param("NONSENSE", marks=NO_SUCH_METHOD)]
)
def test_other_verbs_are_not_allowed(server: Server, verb: str) -> None:
    """HM-09, PITFALLS: nothing is opened, and the server says what it has."""
    response = server.ask(verb, {"Accept": BOTH}, None)
    assert response.status == 405
    assert {"POST", "GET", "DELETE", "OPTIONS"} == set((response.get("allow") or "").split(", "))
    assert response.get("mcp-session-id") is None


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("APPLICATION/JSON; charset=utf-8", 200),
        ("application/json;charset=utf-8", 200),
        (" application/json ; a=b; c=d", 200),
        ("text/plain", 415),
        ("application/json-rpc", 415),
        ("application/jsonx", 415),
        ("text/plain; application/json", 415),
        ("", 415),
        (None, 415),
    ],
)
def test_a_body_is_json(server: Server, content_type: str | None, status: int) -> None:
    """HM-08, PITFALLS: parameters do not matter."""
    response = server.post(discover(), {"Content-Type": content_type})
    assert response.status == status
    assert response.get("mcp-session-id") is None


JSON, STREAM = "application/json", "text/event-stream"


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        (BOTH, JSON),
        (None, JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("Application/JSON", JSON),
        ("application/json;q=0.1, text/html", JSON),
        ("application/json; q=0, */*", STREAM),
        ("text/event-stream", STREAM),
        ("text/*", STREAM),
        ("text/event-stream;q=0.5, application/json;q=0", STREAM),
        ("text/html", None),
        ("text/html, application/xml;q=0.9", None),
        ("*/*;q=0", None),
        ("application/json;q=0, text/event-stream;q=0", None),
        ("application/json;q=0.0", None),
    ],
)
def test_the_answer_is_what_the_client_takes(server: Server, accept: str | None, answer: str | None) -> None:
    """HM-06, HM-07; RFC 9110 section 12.5.1."""
    for message in (discover(), call(1, "echo", {"text": "x"})):
        response = server.post(message, {"Accept": accept})
        assert response.status == (200 if answer else 406), response
        assert response.get("content-type") == (answer or JSON)
        if answer:
            assert "result" in response.message


def test_a_repeated_accept_is_one_list(server: Server) -> None:
    """RFC 9110 section 5.3."""
    headers = [("Accept", "text/html"), ("Accept", "application/json")]
    assert server.post(discover(), headers).status == 200


@pytest.mark.parametrize("accept", ["application/json", "*/*;q=0.1, text/event-stream;q=0"])
def test_a_stream_that_is_unavoidable_must_be_acceptable(server: Server, accept: str) -> None:
    """HM-07."""
    message = ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    response = server.post(message, {"Accept": accept})
    assert response.status == 406
    assert response.message["id"] == 1  # HM-24


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer x"}])
def test_a_slash_at_the_end_makes_no_difference(server: Server, path: str, headers: Json) -> None:
    """PITFALLS: never a redirect, which would lose the body or the token."""
    response = server.post(discover(), headers, path=path)
    assert (response.status, response.get("location")) == (200, None)


def test_what_belongs_to_sessions_is_ignored(server: Server) -> None:
    """HM-14: neither minted nor echoed nor asked for."""
    headers = {"Mcp-Session-Id": "made-up", "Last-Event-ID": "1.1"}
    response = server.post(call(1, "count", {"to": 2}, progressToken=1), headers)
    assert response.text == "counted"
    assert response.get("mcp-session-id") is None
    assert [event.id for event in response.events] == [None] * 3


# -- Notifications ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("notifications/cancelled", {"requestId": 1}),
        ("notifications/cancelled", None),
        ("notifications/initialized", None),
        ("notifications/no/such", {}),
        ("no/such", {"_meta": {}}),
        ("tools/call", {"name": "echo"}),
    ],
)
@pytest.mark.parametrize("with_meta", [True, False])
def test_notifications_are_accepted(server: Server, method: str, params: Json, with_meta: bool) -> None:
    """HM-10, RPC-04: 202 without a body, whatever they are."""
    message: Json = {"jsonrpc": "2.0", "method": method}
    if params is not None or with_meta:
        message["params"] = {**(params or {}), **({"_meta": meta()} if with_meta else {})}
    response = server.post(message, {"MCP-Protocol-Version": STATELESS, "Mcp-Method": None, "Mcp-Name": None})
    assert (response.status, response.body) == (202, b""), response
    assert response.get("content-length") == "0"


def test_a_cancellation_cancels_nothing(server: Server, tmp_path: Path) -> None:
    """HM-10: over HTTP a request is cancelled by leaving it; ids of different requests have nothing to do with
    each other (RPC-10).
    """
    path = tmp_path / "go"
    with server.connect() as connection:
        message = call(5, "wait", {"path": str(path)}, progressToken="t")
        connection.begin("POST", headers_for(message), encoded(message))
        connection.stream()
        assert connection.event() is not None
        notification = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 5, "_meta": meta()},
        }
        assert server.post(notification).status == 202
        path.touch()
        assert "progress" in next(connection.events()).data
        assert json.loads(next(connection.events()).data)["result"]["content"][0]["text"] == "done"


# -- Answers and streams ---------------------------------------------------------------------


def test_the_answer_is_json_where_nothing_else_is_said(server: Server) -> None:
    """HM-26: a client that did not ask for progress or logs gets one object."""
    for asked in ({}, {"progressToken": "t"}):
        response = server.post(call(1, "echo", {"text": "x"}, **asked))
        assert response.get("content-type") == JSON
    assert server.post(call(1, "count", {"to": 3})).get("content-type") == JSON


@pytest.mark.parametrize("token", ["t", "", 0, 7, -1, 2**60])
@pytest.mark.parametrize("tool", ["count", "count_in_thread"])
def test_progress_comes_on_the_response(server: Server, tool: str, token: Json) -> None:
    """HM-11, HM-12, PROG-01, PROG-05: the token as it is, progress before the response, and then the end."""
    response = server.post(call(1, tool, {"to": 3}, progressToken=token))
    assert response.get("content-type") == STREAM
    assert response.get("cache-control") == "no-cache"
    assert response.get("x-accel-buffering") == "no"
    *progress, last = response.messages
    assert [message["params"] for message in progress] == [
        {"progressToken": token, "progress": number, "total": 3} for number in (1, 2, 3)
    ]
    assert last["id"] == 1


@pytest.mark.parametrize(("level", "heard"), [("debug", 2), ("info", 2), ("warning", 0), (None, 0)])
def test_logs_come_where_they_are_asked_for(server: Server, level: str | None, heard: int) -> None:
    """LOG-03, LOG-04: only with a level, and only from it on."""
    asked = {} if level is None else {PREFIX + "logLevel": level}
    response = server.post(call(1, "count", {"to": 2}, **asked))
    logs = response.messages[:-1] if response.get("content-type") == STREAM else []
    assert [log["params"]["data"] for log in logs] == [1, 2][:heard]


def test_a_client_that_takes_no_stream_gets_no_progress(server: Server) -> None:
    """HM-07: the answer alone."""
    response = server.post(call(1, "count", {"to": 3}, progressToken="t"), {"Accept": JSON})
    assert (response.get("content-type"), response.text) == (JSON, "counted")


def test_an_asyncio_handler_is_heard_while_it_runs(server: Server, tmp_path: Path) -> None:
    """HM-11: not only once it has ended."""
    path = tmp_path / "go"
    with server.connect() as connection:
        message = call(1, "count_on_asyncio", {"to": 2, "path": str(path)}, progressToken="t")
        connection.begin("POST", headers_for(message), encoded(message))
        connection.stream()
        events = connection.events()
        assert [json.loads(next(events).data)["params"]["progress"] for _ in range(2)] == [1, 2]
        path.touch()
        assert json.loads(next(events).data)["id"] == 1
        assert next(events, None) is None


def test_a_connection_goes_on_after_a_stream(server: Server) -> None:
    """HM-11: the stream ends, the connection need not."""
    with server.connect() as connection:
        for number in range(3):
            assert connection.post(call(number, "count", {"to": 2}, progressToken=1)).text == "counted"


def test_many_requests_are_served_at_once(server: Server, tmp_path: Path) -> None:
    """HM-25, RPC-10: the same id on all of them."""
    path = tmp_path / "go"
    connections = [server.connect() for _ in range(20)]
    message = call(1, "wait", {"path": str(path)}, progressToken="t")
    for connection in connections:
        connection.begin("POST", headers_for(message), encoded(message))
    for connection in connections:
        connection.stream()
        assert connection.event() is not None
    assert server.is_alive()
    path.touch()
    for connection in connections:
        *_, last = connection.events()
        assert json.loads(last.data)["result"]["content"][0]["text"] == "done"
        connection.close()


def test_a_subscription_is_acknowledged_first(server: Server) -> None:
    """SUB-02, SUB-04, SUB-14: at once, with the id of the request in its own type."""
    for id in (7, "seven"):
        with server.connect() as connection:
            message = ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=id)
            connection.begin("POST", headers_for(message), encoded(message))
            connection.stream()
            event = connection.event()
            assert event is not None and event.id is None
            first = json.loads(event.data)
            assert first["method"] == "notifications/subscriptions/acknowledged"
            assert first["params"]["notifications"] == {"toolsListChanged": True}
            assert first["params"]["_meta"][PREFIX + "subscriptionId"] == id
