"""Arrays of messages over HTTP, which one revision has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import BOTH, Json, Server, Session, call, eventually, serving
from support import STATELESS, initialize, request

BATCHES = "2025-03-26"
NOTE = {"jsonrpc": "2.0", "method": "notifications/no/such"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def session(server: Server) -> Session:
    return server.session(BATCHES)


def ping(id: Json) -> Json:
    return request(id, "ping")


def echo(id: Json, text: str = "x") -> Json:
    return call(id, "echo", {"text": text}, BATCHES)


def answers(session: Session, batch: Json, accept: str = BOTH) -> dict[Json, Json]:
    """The answers to a batch by their ids, each there once."""
    response = session.post(batch, {"Accept": accept})
    assert response.status == 200, response
    found: list[Json] = []
    if response.get("content-type") == "application/json":
        found = json.loads(response.body)
    else:
        for message in response.messages:
            found += message if isinstance(message, list) else [message] if "method" not in message else []
    assert len(found) == len({(type(answer.get("id")), answer.get("id")) for answer in found})
    return {answer.get("id"): answer for answer in found}


@pytest.mark.parametrize("accept", [BOTH, "application/json", "text/event-stream"])
def test_each_request_is_answered(session: Session, accept: str) -> None:
    """BAT-01, BAT-03: one answer for each request, none for a notification."""
    found = answers(session, [ping(1), echo(2), NOTE, ping("1"), request(3, "no/such")], accept)
    assert set(found) == {1, 2, "1", 3}
    assert found[1]["result"] == {}
    assert found[2]["result"]["content"][0]["text"] == "x"
    assert found[3]["error"]["code"] == -32601


@pytest.mark.parametrize("accept", [BOTH, "application/json", "text/event-stream"])
def test_handlers_that_take_their_time(session: Session, tmp_path: Path, accept: str) -> None:
    """BAT-03: quick answers wait for slow ones, and progress does not."""
    path = tmp_path / "go"
    with session.server.connect() as connection:
        slow = call(1, "wait", {"path": str(path)}, BATCHES, progressToken="t")
        session.begin(connection, [slow, ping(2), echo(3)], {"Accept": accept})
        eventually(Path(f"{path}.begun").exists, "the call")
        path.touch()
        response = connection.response()
    if response.get("content-type") == "application/json":
        found = json.loads(response.body)
    else:
        found = [
            m for message in response.messages for m in (message if isinstance(message, list) else [message])
        ]
        assert [m["params"]["progress"] for m in found if "method" in m] == [1, 2]
    assert {m["id"] for m in found if "method" not in m} == {1, 2, 3}


@pytest.mark.parametrize(
    "batch",
    [
        [NOTE],
        [NOTE, NOTE],
        [{"jsonrpc": "2.0", "id": 9, "result": {}}],
        [NOTE, {"jsonrpc": "2.0", "id": 9, "result": {}}],
    ],
)
def test_a_batch_without_requests_is_accepted(session: Session, batch: Json) -> None:
    """BAT-02."""
    response = session.post(batch)
    assert (response.status, response.body) == (202, b"")


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        ([], -32600),
        (b"[", -32700),
        (b"[{]", -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"},]', -32700),
        ([ping(number) for number in range(1001)], -32600),
    ],
)
def test_a_bad_batch_is_refused(session: Session, batch: Json, code: int) -> None:
    """BAT-01, BAT-06."""
    response = session.post(batch)
    assert (response.status, response.code) == (400, code)


def test_bad_elements_are_refused_one_by_one(session: Session) -> None:
    """BAT-03; JSON-RPC 2.0 section 6."""
    found = answers(
        session, [5, ping(1), {"jsonrpc": "1.0", "id": 2, "method": "ping"}, {"jsonrpc": "2.0", "id": 3}]
    )
    assert found[1]["result"] == {}
    assert {id: found[id]["error"]["code"] for id in (None, 2, 3)} == {None: -32600, 2: -32600, 3: -32600}


def test_a_batch_may_not_initialize(session: Session) -> None:
    """BAT-04, INIT-07."""
    found = answers(session, [initialize(BATCHES), ping(1)])
    assert found["init"]["error"]["code"] == -32600
    response = session.server.post([initialize(BATCHES)])
    assert (response.status, response.code) == (400, -32600)
    assert response.get("mcp-session-id") is None


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_other_revisions_have_no_batches(server: Server, revision: str) -> None:
    """BAT-01."""
    session = server.session(revision)
    response = session.post([ping(1)])
    assert (response.status, response.code) == (400, -32600)
    assert session.post(ping(1)).result == {}


@pytest.mark.parametrize("version", [STATELESS, None])
def test_the_stateless_era_has_no_batches(server: Server, version: str | None) -> None:
    """HM-05, BAT-01: with a body of that era as well."""
    for body in ([ping(1)], [call(1, "echo", {"text": "x"})], []):
        response = server.post(body, {"MCP-Protocol-Version": version})
        assert (response.status, response.code) == (400, -32600)


def test_an_id_twice_in_a_batch_is_refused_once(session: Session, tmp_path: Path) -> None:
    """RPC-09: the first goes on."""
    path = tmp_path / "go"
    path.touch()
    response = session.post([call(1, "wait", {"path": str(path)}, BATCHES), echo(1)])
    found = response.message if response.get("content-type") == "application/json" else response.messages[-1]
    assert sorted("error" in answer for answer in found) == [False, True]


def test_a_call_cancelled_in_its_own_batch_does_not_run_on(session: Session, tmp_path: Path) -> None:
    """CAN-01, BAT-03: no answer for it, and its clean-up runs."""
    path = str(tmp_path / "call")
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    found = answers(session, [call(1, "hang", {"path": path}, BATCHES), cancel, ping(2)])
    assert set(found) == {2}
    assert not Path(path + ".begun").exists() or Path(path + ".cleaned").exists()


def test_a_batch_that_is_cancelled_as_a_whole_ends(session: Session, tmp_path: Path) -> None:
    """Section 22: the response ends without an answer."""
    path = str(tmp_path / "call")
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    for accept in (BOTH, "application/json"):
        response = session.post([call(1, "hang", {"path": path}, BATCHES), cancel], {"Accept": accept})
        assert response.status in (200, 202)
        assert b'"id"' not in response.body
