"""HTTP+SSE on the wire: a stream that is the connection, and messages that are posted."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit import Server, eventually, serving
from stream import DESK, JSON, Stream, serving_sse, started, text, waiting_post
from support import HANDSHAKE, STATELESS, request

ASKED = {"elicitation": {}, "sampling": {}, "roots": {}}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_sse() as server:
        yield server


# -- The stream ------------------------------------------------------------------------------


def test_the_first_event_says_where_to_post(server: Server) -> None:
    """SSE-02: relative to the stream's own URL, with an id that cannot be guessed."""
    with Stream(server) as one, Stream(server) as other:
        assert re.fullmatch(r"message\?sessionId=[\w-]{32}", one.endpoint)
        assert one.endpoint != other.endpoint
        assert one.path.startswith("/message?")
        for name, value in (("cache-control", "no-cache"), ("x-accel-buffering", "no")):
            assert one.head.get(name) == value


def test_a_slash_at_the_end_of_the_url_is_no_other_url(server: Server) -> None:
    """PITFALLS, HTTP: the same answer for both, never a redirect; what is posted finds its way from there."""
    for path in ("/sse/", "/sse//"):
        with Stream(server, path) as stream:
            assert stream.path.startswith("/message?")
            stream.path = stream.path.replace("?", "/?")
            assert stream.ask(1, "ping")["result"] == {}


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_every_revision_with_a_handshake_is_spoken(server: Server, revision: str) -> None:
    """SSE-03, SSE-08: 202 for what is posted, and each answer as an event `message`."""
    with started(server, revision) as stream:
        assert stream.call(1, "echo", {"text": "hello\u2028\nthere"}) == "hello\u2028\nthere"
        assert stream.ask(2, "nothing")["error"]["code"] == -32601


def test_a_stateless_request_is_served_as_on_stdio(server: Server) -> None:
    """ERA-01: the era is decided for each request, so a client that tries the newest first is answered."""
    with Stream(server) as stream:
        assert (
            STATELESS in stream.ask(1, "server/discover", revision=STATELESS)["result"]["supportedVersions"]
        )
        called = stream.ask(2, "tools/call", {"name": "echo", "arguments": {"text": "a"}}, revision=STATELESS)
        assert (text(called), called["result"]["resultType"]) == ("a", "complete")
        wanted = {"notifications": {"toolsListChanged": True}}
        stream.send(request(3, "subscriptions/listen", wanted, revision=STATELESS))
        assert stream.receive()["method"] == "notifications/subscriptions/acknowledged"
        stream.send(request(4, "tools/call", {"name": "announce"}, revision=STATELESS))
        _, before = stream.receive_until(4)
        changed = before or [stream.receive()]
        assert changed[0]["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 3}


def test_nothing_but_ping_is_served_before_the_handshake(server: Server) -> None:
    """As on every connection of the handshake era."""
    with Stream(server) as stream:
        assert stream.ask(1, "ping")["result"] == {}
        assert stream.ask(2, "tools/list")["error"]["code"] == -32600


def test_batches_are_as_the_revision_says(server: Server) -> None:
    """BAT-01, BAT-02: one array of answers in 2025-03-26, an error without an id (RPC-06) in the others."""
    batch = [request(1, "ping"), request(2, "tools/call", {"name": "echo", "arguments": {"text": "b"}})]
    with started(server, "2025-03-26") as stream:
        stream.send(batch)
        assert {reply["id"] for reply in stream.receive()} == {1, 2}
        stream.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
        assert stream.ask(3, "ping")["result"] == {}
    with started(server, "2025-06-18") as stream:
        stream.send(batch)
        refused = stream.receive()
        assert (refused["error"]["code"], "id" in refused) == (-32600, False)


def test_progress_and_logs_come_before_their_answer(server: Server) -> None:
    """PROG-01, LOG-01."""
    with started(server) as stream:
        stream.begin(1, "count", {"to": 3}, progressToken="p")
        answer, before = stream.receive_until(1)
        assert text(answer) == "counted"
        progress = [m["params"] for m in before if m["method"] == "notifications/progress"]
        logs = [m["params"]["data"] for m in before if m["method"] == "notifications/message"]
        assert [(p["progressToken"], p["progress"]) for p in progress] == [("p", 1), ("p", 2), ("p", 3)]
        assert logs == [1, 2, 3]


@pytest.mark.parametrize(
    ("tool", "method", "answer", "said"),
    [
        ("greet", "elicitation/create", {"action": "accept", "content": {"name": "Ada"}}, "Hello Ada"),
        (
            "compose",
            "sampling/createMessage",
            {"role": "assistant", "model": "m", "content": {"type": "text", "text": "word"}},
            "word",
        ),
        ("roots", "roots/list", {"roots": [{"uri": "file:///a"}]}, "file:///a"),
    ],
)
def test_the_client_is_asked_on_the_stream(
    server: Server, tool: str, method: str, answer: Any, said: str
) -> None:
    """S2C-02: its answer is posted like everything else, and is answered with 202."""
    with started(server, "2025-11-25", ASKED) as stream:
        stream.begin(1, tool)
        question = stream.receive()
        assert question["method"] == method
        stream.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert text(stream.receive_until(1)[0]) == said


def test_changes_are_told_to_those_who_asked(server: Server) -> None:
    """RES-08: lists to everyone who has shaken hands, a resource to whoever subscribed to it."""
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    with started(server) as one, started(server) as other:
        one.ask(1, "resources/subscribe", {"uri": "memo://a"})
        other.begin(1, "announce", {"uri": "memo://a"})
        assert other.receive_until(1)[1] == []
        assert one.receive()["params"] == {"uri": "memo://a"}
        other.begin(2, "announce")
        before = other.receive_until(2)[1]
        assert (before or [other.receive()]) == [changed]
        assert one.receive() == changed


def test_a_call_is_cancelled_by_a_notification(server: Server, tmp_path: Path) -> None:
    """CAN-01: its clean-up runs, and it is not answered."""
    path = tmp_path / "call"
    with started(server) as stream:
        stream.begin(1, "hang", {"path": str(path)})
        eventually(path.with_suffix(".begun").exists, "the call")
        stream.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        eventually(path.with_suffix(".cleaned").exists, "the clean-up")
        stream.send(request(2, "ping"))
        assert stream.receive()["id"] == 2


def test_handlers_see_the_headers_of_the_stream(server: Server) -> None:
    """DESIGN 4.4, `ctx.headers`: those of the request that is the connection."""
    with Stream(server, headers={"Accept": "text/event-stream", "X-Team": "blue"}) as stream:
        stream.start()
        assert stream.call(1, "header", {"name": "x-team"}) == "blue"


# -- Its end ---------------------------------------------------------------------------------


def test_leaving_the_stream_ends_all_that_goes_on(server: Server, tmp_path: Path) -> None:
    """SSE-06: running calls are cancelled and clean up, questions end, and what is posted then is 404."""
    path, asked = tmp_path / "call", tmp_path / "asked"
    stream = Stream(server)
    stream.start("2025-11-25", ASKED)
    stream.begin(1, "hang", {"path": str(path)})
    stream.begin(2, "greet", {"path": str(asked)})
    assert stream.receive()["method"] == "elicitation/create"
    eventually(path.with_suffix(".begun").exists, "the call")
    stream.connection.close()
    for left in (path, asked):
        eventually(left.with_suffix(".cleaned").exists, "the clean-up")
    eventually(lambda: stream.post(request(3, "ping")).status == 404, "the end of the session")
    stream.close()


def test_a_second_stream_is_another_connection(server: Server) -> None:
    """No stream can be resumed: a client that comes back begins anew, with another id."""
    with started(server) as one, Stream(server, headers={"Last-Event-ID": "1"}) as other:
        assert other.ask(1, "tools/list")["error"]["code"] == -32600
        assert one.call(1, "echo", {"text": "still here"}) == "still here"


def test_a_server_that_ends_lets_calls_answer_and_ends_its_streams(tmp_path: Path) -> None:
    """PITFALLS, HTTP: shut-down with open streams, gracefully and within the grace period."""
    path = tmp_path / "go"
    with serving_sse("--grace", "20") as server, started(server) as busy, started(server) as idle:
        busy.begin(1, "wait", {"path": str(path)})
        eventually(path.with_suffix(".begun").exists, "the call")
        server.process.send_signal(signal.SIGTERM)
        assert idle.is_ended()
        path.touch()
        assert text(busy.receive()) == "done"
        assert busy.is_ended()
        assert server.process.wait(10) == 0


def test_a_call_that_outlasts_the_grace_is_cancelled(tmp_path: Path) -> None:
    """`--grace`: its clean-up runs, and the server ends well."""
    path = tmp_path / "call"
    with serving_sse("--grace", "0.2") as server, started(server) as stream:
        stream.begin(1, "hang", {"path": str(path)})
        eventually(path.with_suffix(".begun").exists, "the call")
        assert server.terminate() < 5
        assert path.with_suffix(".cleaned").exists()


def test_a_client_that_does_not_read_holds_up_no_end() -> None:
    """The grace is for calls; what nobody takes is not waited for."""
    with serving_sse("--grace", "0.5") as server, started(server) as stream, waiting_post(stream):
        assert server.terminate() < 5


# -- Where it is -----------------------------------------------------------------------------


def test_both_transports_are_one_server(tmp_path: Path) -> None:
    """SSE-07, DESIGN 4.7: one process and port, a lifespan that begins once, a ready line each."""
    with serving(str(DESK), "--with-sse") as server:
        address = f"http://127.0.0.1:{server.port}"
        with started(server) as stream:
            assert stream.call(1, "note", {"text": "a"}) == "1"
            session = server.session("2025-03-26")
            assert session.call(2, "note", {"text": "b"}).text == "2"
            assert stream.call(3, "note", {"text": "c"}) == "3"
        assert server.errors == (f"mcpkit: desk serving {address}/mcp\nmcpkit: desk serving {address}/sse\n")


def test_alone_it_is_at_its_own_path_only(server: Server) -> None:
    """`--transport sse` serves no Streamable HTTP; what asks for it first falls back on a 4xx (SSE-07)."""
    assert server.ask("POST", JSON, b"{}", path="/mcp").status == 404
    tried = server.ask("POST", JSON, json.dumps(request(1, "ping")).encode(), path="/sse")
    assert (tried.status, tried.get("allow")) == (405, "GET, OPTIONS")


def test_without_it_there_is_no_stream() -> None:
    """SSE-07: off by default."""
    with serving(str(DESK)) as server:
        assert server.ask("GET", path="/sse").status == 404
        assert server.ask("POST", JSON, b"{}", path="/message?sessionId=a").status == 404


@pytest.mark.parametrize(
    ("options", "stream", "message"),
    [
        (("--transport", "sse", "--path", "/notes/events"), "/notes/events", "/notes/message"),
        (("--transport", "sse", "--path", "/"), "/", "/message"),
        (("--with-sse", "--path", "/notes/mcp"), "/notes/sse", "/notes/message"),
        (("--with-sse", "--path", "/"), "/sse/", "/message"),
    ],
)
def test_the_path_moves_both(options: tuple[str, ...], stream: str, message: str) -> None:
    """`--path`: messages are taken beside the stream, and the stream is beside the other endpoint."""
    with serving(str(DESK), *options) as server, Stream(server, stream) as opened:
        assert opened.path.startswith(f"{message}?sessionId=")
        assert opened.ask(1, "ping")["result"] == {}
