"""What connections leave behind, and how a server ends while clients are connected."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from kit import Connection, Server, call, discover, encoded, eventually, headers_for, serving
from support import IN_PROCESS, SECONDS, SERVER, initialize, request

from mcpkit import App, Context
from mcpkit.auth import Auth, Principal, Site
from mcpkit.transports import hypercorn, limits
from mcpkit.transports.http import Disconnected
from mcpkit.transports.peer import Peer

LISTEN = request(
    1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, revision="2026-07-28"
)


# -- Tasks -----------------------------------------------------------------------------------


def make_app() -> App:
    app = App("counted")

    @app.tool
    async def echo(text: str) -> str:
        return text

    @app.tool
    async def hang(ctx: Context) -> str:
        await ctx.report_progress(1)
        await trio.sleep_forever()
        return "never"

    @app.tool
    async def pour(ctx: Context) -> str:
        while True:
            await ctx.info("x" * 65536)

    return app


class InProcess:
    """A server in this process, whose tasks can be counted."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.quiet = self.tasks()

    def tasks(self) -> int:
        """All tasks of this run."""
        root = trio.lowlevel.current_root_task()
        assert root is not None
        waiting, count = [root], 0
        while waiting:
            task = waiting.pop()
            count += 1
            waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
        return count

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    def data(self, message: object, **headers: str) -> bytes:
        """A request as bytes."""
        body = encoded(message)
        named = {**headers_for(message), "Host": "localhost", "Content-Length": str(len(body)), **headers}
        lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    async def calm(self) -> None:
        """Wait until the tasks of all connections have ended."""
        with trio.move_on_after(10):
            while self.tasks() > self.quiet:
                await trio.sleep(0.005)  # the kernel tells the server of its clients
        assert self.tasks() == self.quiet


@contextlib.asynccontextmanager
async def in_process(app: App, **options: Any) -> AsyncIterator[InProcess]:
    if SERVER == "uvicorn":
        pytest.skip("in this process there are servers of ours only")

    async def serve(task_status: trio.TaskStatus[str]) -> None:
        await app.serve("http", **{"server": IN_PROCESS, **options}, port=0, task_status=task_status)

    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve)
        yield InProcess(int(url.rpartition(":")[2].partition("/")[0]))
        nursery.cancel_scope.cancel()


async def answered(server: InProcess, stream: trio.SocketStream) -> None:
    await stream.send_all(server.data(discover()))
    assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")


class FailsBeside(Auth):
    """An open route, beside whose answer something fails."""

    async def verify(self, token: str, site: Site) -> Principal | None:
        return None

    def routes(self) -> dict[str, Any]:
        return {"/fails": self._fails}

    async def _fails(self, exchange: Any, site: Site) -> None:
        left = trio.Event()
        exchange.on_disconnect(left.set)
        exchange.start_soon(self._fail)
        await left.wait()

    async def _fail(self) -> None:
        raise RuntimeError("beside the answer")


async def test_what_fails_beside_an_answer_ends_its_own_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A client ends at most its own connection, and the log says why."""
    async with in_process(App("fails", auth=FailsBeside())) as server:
        other = await server.connect()
        failing = await server.connect()
        await failing.send_all(b"GET /fails HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with trio.fail_after(SECONDS):
            assert not (await failing.receive_some()).startswith(b"HTTP/1.1 2")
        await other.send_all(server.data(discover()))
        assert (await other.receive_some()).startswith(b"HTTP/1.1 401")
        await failing.aclose()
        await other.aclose()
        await server.calm()
    assert "beside the answer" in caplog.text or IN_PROCESS == "hypercorn"  # which logs in its own way


async def test_whoever_looks_for_a_client_too_late_finds_that_it_has_left() -> None:
    """A task that watches a client may begin when the connection has been closed; others come to that, too."""
    for _ in range(2):
        ours, theirs = socket.socketpair()
        with theirs:
            peer = Peer(ours, 1)
            peer.close()
            assert await peer.receive() == b""
            with pytest.raises(Disconnected):
                await peer.send(b"x")


async def half_a_head(server: InProcess, stream: trio.SocketStream) -> None:
    await stream.send_all(b"POST /mcp HTTP/1.1\r\nHost: local")


async def half_a_body(server: InProcess, stream: trio.SocketStream) -> None:
    await stream.send_all(server.data(discover())[:-1])


async def nonsense(server: InProcess, stream: trio.SocketStream) -> None:
    await stream.send_all(b"\0\1\2\r\n\r\n")


async def hanging(server: InProcess, stream: trio.SocketStream) -> None:
    await stream.send_all(server.data(call(1, "hang")))


async def streaming(server: InProcess, stream: trio.SocketStream) -> None:
    await stream.send_all(server.data(call(1, "hang", progressToken=1)))
    assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")


async def listening(server: InProcess, stream: trio.SocketStream) -> None:
    await stream.send_all(server.data(LISTEN))
    assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")


async def pipelining(server: InProcess, stream: trio.SocketStream) -> None:
    await stream.send_all(server.data(call(1, "hang")) + server.data(discover()) * 20)


async def pushing(server: InProcess, stream: trio.SocketStream) -> None:
    await stream.send_all(server.data(discover(), **{"Content-Length": "50000000"}))
    with contextlib.suppress(trio.BrokenResourceError):
        for _ in range(40):
            await stream.send_all(b"x" * 50_000)


async def deaf(server: InProcess, stream: trio.SocketStream) -> None:
    meta = {"io.modelcontextprotocol/logLevel": "info"}
    await stream.send_all(server.data(call(1, "pour", **meta)))
    assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")


async def opening(server: InProcess, stream: trio.SocketStream) -> None:
    await stream.send_all(server.data(initialize("2025-11-25")))
    assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")


CLIENTS = (
    answered,
    half_a_head,
    half_a_body,
    nonsense,
    hanging,
    streaming,
    listening,
    pipelining,
    pushing,
    deaf,
    opening,
)


async def leave(stream: trio.SocketStream) -> None:
    await stream.aclose()


async def reset(stream: trio.SocketStream) -> None:
    stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    await stream.aclose()


@pytest.mark.parametrize("way", [leave, reset])
@pytest.mark.parametrize("client", CLIENTS)
async def test_no_task_outlives_its_client(
    client: Callable[[InProcess, trio.SocketStream], Awaitable[None]],
    way: Callable[[trio.SocketStream], Awaitable[None]],
) -> None:
    """PITFALLS: whatever the client was about when it left."""
    async with in_process(make_app()) as server:
        streams = [await server.connect() for _ in range(5)]
        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(client, server, stream)
        for stream in streams:
            await way(stream)
        await server.calm()
        async with await server.connect() as stream:
            await answered(server, stream)
        await server.calm()


async def test_a_connection_costs_two_tasks_at_most_and_a_request_none() -> None:
    """FACTS 1.8: nothing is started and ended for the idle time of each request."""
    async with in_process(make_app()) as server:
        before = server.tasks()
        async with await server.connect() as stream:
            for _ in range(3):
                await answered(server, stream)
                await trio.testing.wait_all_tasks_blocked()
                assert before < server.tasks() <= before + 2


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_a_client_that_never_reads_is_given_up(revision: str) -> None:
    """FACTS 1.4: sending ends; the call is cancelled in the stateless era, and its client is away in the other."""
    async with in_process(make_app(), send_timeout=0.3) as server, await server.connect() as stream:
        if revision == "2026-07-28":
            await deaf(server, stream)
            await server.calm()
        else:
            await stream.send_all(server.data(initialize(revision)))
            head = await stream.receive_some()
            session = head.partition(b"mcp-session-id: ")[2].partition(b"\r")[0].decode()
            await stream.send_all(server.data(call(1, "pour", None, revision), **{"Mcp-Session-Id": session}))
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")
            with trio.fail_after(10):
                while server.tasks() > server.quiet + 1:  # the call goes on, and the connection does not
                    await trio.sleep(0.005)


async def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 9112 section 9.5: after a while, counted from the last answer."""
    monkeypatch.setattr(limits, "IDLE_SECONDS", 0.3)
    async with in_process(make_app()) as server, await server.connect() as stream:
        await answered(server, stream)
        await answered(server, stream)
        with trio.fail_after(10):
            assert await stream.receive_some() == b""
        await server.calm()


async def test_an_idle_connection_is_kept_for_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 9112 section 9.3: the time for a head does not run between two requests, nor while one is answered."""
    monkeypatch.setattr(limits, "HEAD_SECONDS", 0.2)
    async with (
        in_process(make_app()) as server,
        await server.connect() as stream,
        await server.connect() as other,
    ):
        await answered(server, stream)
        await streaming(server, other)
        await trio.sleep(0.5)  # time itself is what is tried
        await answered(server, stream)
        with trio.move_on_after(0.1) as silence:
            await other.receive_some()
        assert silence.cancelled_caught


async def test_an_error_of_a_connection_ends_that_one_alone(caplog: pytest.LogCaptureFixture) -> None:
    """FACTS 1: what hypercorn's protocols raise for bad input."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
    bad_path = bytes.fromhex("000013010500000001") + b"\x83\x86\x44\x05/m\xffcp\x41\x09localhost"
    async with (
        in_process(make_app(), server="hypercorn") as server,
        await server.connect() as good,
        await server.connect() as bad,
    ):
        await answered(server, good)
        bad_path = bytes([0, 0, len(bad_path) - 9]) + bad_path[3:]
        await bad.send_all(preface + bad_path)
        with trio.fail_after(10), contextlib.suppress(trio.BrokenResourceError):
            while await bad.receive_some():
                pass
        await answered(server, good)
    assert "since its protocol failed" in caplog.text


async def test_another_release_of_hypercorn_serves_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our connections are written for one release: another one is served with its own."""
    monkeypatch.setattr(hypercorn, "version", lambda name: "0.19.0")
    async with in_process(make_app(), server="hypercorn") as server:
        for client in (answered, streaming, listening, opening):
            async with await server.connect() as stream:
                await client(server, stream)


# -- The end of the server -------------------------------------------------------------------


GRACE = 1.0


UNDERMINED = """
import trio
from mcpkit import App

app = App("undermined")


async def ticks():
    with trio.move_on_after(5):  # trio allows no yield in it: the scope stays open in whoever reads the first tick
        yield 1


@app.tool
async def first_tick() -> int:
    async for tick in ticks():
        return tick
    return 0
"""


@pytest.mark.skipif(SERVER == "uvicorn", reason="a host ends when it likes")
def test_a_server_that_a_handler_has_undermined_ends_for_another_to_be_started(tmp_path: Path) -> None:
    """It could only say that it has ended, to everybody and for ever."""
    (tmp_path / "undermined.py").write_text(UNDERMINED, encoding="utf-8")
    server = Server(tmp_path / "undermined.py")
    with server.process:
        server.session().post(call(1, "first_tick", None, "2025-11-25"))
        assert server.process.wait(SECONDS) == 1
        assert "Cancel scope stack corrupted" in server.errors


def began(connection: Connection, message: object, path: Path | None = None) -> None:
    connection.begin("POST", headers_for(message), encoded(message))
    if path is not None:
        eventually(Path(f"{path}.begun").exists, "the call")


def test_streams_end_in_order_when_the_server_ends(tmp_path: Path) -> None:
    """PITFALLS, SUB-08, HL-23: those that only listen at once and whole, with the answer that says so."""
    with (
        serving("things.py", "--grace", "20") as server,
        server.connect() as own,
        server.connect() as listen,
        server.connect() as idle,
    ):
        session = server.session()
        session.listen(own)
        assert idle.post(discover()).status == 200
        began(listen, LISTEN)
        listen.stream()
        assert listen.event() is not None
        took = server.terminate()
        assert [event for event in own.events() if event.data] == []
        last = [json.loads(event.data) for event in listen.events()][-1]
        assert last["id"] == 1
        assert last["result"]["resultType"] == "complete"
        assert idle.is_ended()
        assert took < 5


def is_refused(server: Server) -> bool:
    try:
        server.connect().close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it was just being closed
        return False
    return False


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_calls_may_finish_when_the_server_ends(tmp_path: Path, revision: str) -> None:
    """PITFALLS: the grace period is theirs, in both eras."""
    path = tmp_path / "call"
    with serving("things.py", "--grace", "20") as server, server.connect() as connection:
        message = call(1, "wait", {"path": str(path)}, revision, progressToken=1)
        if revision == "2026-07-28":
            began(connection, message, path)
        else:
            server.session(revision).begin(connection, message)
            eventually(Path(f"{path}.begun").exists, "the call")
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: is_refused(server), "the end of the listening socket")
        path.touch()
        assert connection.response().text == "done"
        assert server.process.wait(SECONDS) == 0


def hold(server: Server, path: Path) -> list[Connection]:
    """Clients with calls that never end, and some that do not read."""
    connections = [server.connect() for _ in range(6)]
    meta = {"io.modelcontextprotocol/logLevel": "info"}
    began(connections[0], call(1, "hang", {"path": f"{path}0"}), Path(f"{path}0"))
    began(
        connections[1],
        call(1, "hang", {"path": f"{path}1", "progress": True}, progressToken=1),
        Path(f"{path}1"),
    )
    began(connections[2], call(1, "pour", {"megabytes": 1000}, **meta))
    server.session().begin(connections[3], call(1, "hang", {"path": f"{path}3"}, "2025-11-25"))
    server.session().begin(connections[4], call(1, "pour", {"megabytes": 1000}, "2025-11-25"))
    connections[5].send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
    eventually(Path(f"{path}3.begun").exists, "the call")
    for connection in (connections[2], connections[4]):
        connection.stream()
    return connections


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_no_client_holds_up_the_end(tmp_path: Path, sign: signal.Signals) -> None:
    """PITFALLS: within the grace period and two seconds, clean-up included, without a traceback."""
    with serving("things.py", "--grace", str(GRACE)) as server:
        connections = hold(server, tmp_path / "call")
        assert server.terminate(sign) < GRACE + 2
        for number in (0, 1, 3):
            assert (tmp_path / f"call{number}.cleaned").exists()
        for connection in connections:
            connection.close()


def test_a_handler_that_blocks_its_thread_does_not_hold_up_the_end() -> None:
    """PITFALLS: a thread cannot be cancelled; the process ends without it."""
    with serving("things.py", "--grace", "0.2") as server, server.connect() as connection:
        began(connection, call(1, "block", {"seconds": 60}))
        assert server.is_alive()
        assert server.terminate() < 0.2 + 2
