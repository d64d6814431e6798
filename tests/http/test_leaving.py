"""Clients that leave before they are answered: in the stateless era that is how a call is cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import BOTH, Closed, Connection, Server, call, discover, encoded, eventually, headers_for, serving
from support import PREFIX, STATELESS, request


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


WAYS = {
    "close": Connection.close,
    "reset": Connection.abort,
    "half": Connection.end,
}
"""How a client leaves. One that ends its half is taken to have left: nothing tells it from one that closed."""


def begin(connection: Connection, path: Path, *, progress: bool, accept: str = BOTH) -> None:
    """Begin a call that never ends, and wait until it runs."""
    message = call(1, "hang", {"path": str(path), "progress": progress}, progressToken="t")
    connection.begin("POST", {**headers_for(message), "Accept": accept}, encoded(message))
    eventually(Path(f"{path}.begun").exists, "the call")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("progress", [True, False])
def test_leaving_cancels_the_call(server: Server, tmp_path: Path, way: str, progress: bool) -> None:
    """HM-15, PITFALLS: answered as a stream and as JSON; the clean-up of the handler runs."""
    path = tmp_path / "call"
    connection = server.connect()
    begin(connection, path, progress=progress)
    if progress:
        connection.stream()
        assert connection.event() is not None
    WAYS[way](connection)
    eventually(Path(f"{path}.cleaned").exists, "the clean-up")
    connection.close()
    assert server.is_alive()


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_it_does_not_matter_what_the_client_takes(server: Server, tmp_path: Path, accept: str) -> None:
    """HM-15."""
    path = tmp_path / "call"
    connection = server.connect()
    begin(connection, path, progress=False, accept=accept)
    connection.close()
    eventually(Path(f"{path}.cleaned").exists, "the clean-up")


def test_leaving_one_call_leaves_the_others_alone(server: Server, tmp_path: Path) -> None:
    """HM-15, HM-25, RPC-10: whatever their ids."""
    leaving, staying = server.connect(), server.connect()
    begin(leaving, tmp_path / "a", progress=True)
    begin(staying, tmp_path / "b", progress=True)
    leaving.close()
    eventually((tmp_path / "a.cleaned").exists, "the clean-up")
    assert server.is_alive()
    assert not (tmp_path / "b.cleaned").exists()
    staying.close()
    eventually((tmp_path / "b.cleaned").exists, "the clean-up")


def test_leaving_an_earlier_connection_cancels_nothing(server: Server, tmp_path: Path) -> None:
    """HM-15: what was answered is over."""
    first, second = server.connect(), server.connect()
    assert first.post(discover()).status == 200
    begin(second, tmp_path / "call", progress=False)
    first.close()
    assert server.is_alive()
    assert not (tmp_path / "call.cleaned").exists()
    second.close()
    eventually((tmp_path / "call.cleaned").exists, "the clean-up")


def test_a_subscription_ends_with_its_client(server: Server) -> None:
    """SUB-07: a thousand of them leave nothing behind."""
    message = request(
        1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, revision=STATELESS
    )
    for _ in range(20):
        with server.connect() as connection:
            connection.begin("POST", headers_for(message), encoded(message))
            connection.stream()
            assert connection.event() is not None
    assert server.is_alive()


@pytest.mark.parametrize("sent", [0, 1, 16, 40, 71, 140])
@pytest.mark.parametrize("way", WAYS)
def test_leaving_in_the_middle_of_a_request_is_no_trouble(server: Server, sent: int, way: str) -> None:
    """PITFALLS: half-closed sockets; the server closes as well."""
    with server.connect() as connection:
        connection.send(
            (b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" * 2)[:sent]
        )
        WAYS[way](connection)
        if way == "half":
            connection.rest()
    assert server.is_alive()


def test_a_body_that_ends_too_soon_is_no_request(server: Server) -> None:
    """PITFALLS: half-closed sockets."""
    message = discover()
    with server.connect() as connection:
        body = encoded(message)
        connection.begin("POST", {**headers_for(message), "Content-Length": str(len(body) + 1)}, body)
        connection.end()
        try:
            assert connection.response().status == 400
        except Closed:
            pass
    assert server.is_alive()


def test_a_client_that_ends_its_half_gets_what_is_ready(server: Server) -> None:
    """PITFALLS: half-closed sockets; a clear answer or a closed connection."""
    message = discover()
    with server.connect() as connection:
        connection.begin("POST", headers_for(message), encoded(message))
        connection.end()
        rest = connection.rest()
    assert rest == b"" or rest.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("tool", ["pour", "spill"])
def test_leaving_while_much_is_said_ends_it(server: Server, tool: str) -> None:
    """HM-15, SEC-02: nothing is kept for a client that has left."""
    before = server.memory()
    meta = {"io.modelcontextprotocol/logLevel": "info"}
    message = call(1, tool, {"megabytes": 200}, **meta)
    for way in WAYS.values():
        with server.connect() as connection:
            connection.begin("POST", headers_for(message), encoded(message))
            connection.stream()
            way(connection)
    assert server.is_alive()
    assert server.memory() - before < 100_000_000


LAST_WORDS = """
import asyncio
import sys

from mcpkit import App, Context

app = App("last words")


@app.tool(loop="asyncio")
async def wait(ctx: Context) -> str:
    print("begun", file=sys.stderr, flush=True)
    try:
        await asyncio.sleep(600)
    finally:
        await ctx.info("late")
        print("said", file=sys.stderr, flush=True)
    return "done"
"""


def test_what_a_call_says_when_its_client_has_left_goes_nowhere(tmp_path: Path) -> None:
    """HM-15: a handler on asyncio learns of it a little later, and may have something to say."""
    script = tmp_path / "last_words.py"
    script.write_text(LAST_WORDS, encoding="utf-8")
    with serving(str(script)) as server:
        message = call(1, "wait", **{PREFIX + "logLevel": "info"})
        with server.connect() as connection:
            connection.begin("POST", headers_for(message), encoded(message))
            eventually(lambda: "begun" in server.errors, "the handler")
        eventually(lambda: "said" in server.errors, "the end of the handler")
        for _ in range(3):
            assert server.is_alive()
        assert "failed" not in server.errors
