"""What crosses standard input and output of a real process, and what never does.

The rows are those of PITFALLS, "stdio and framing". Most tests run on both ways to reach the descriptors: waiting
for them, and threads (where a platform has no `trio.lowlevel.FdStream`).
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import socket
import subprocess
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import wirekit
from support import STATELESS, initialize, request
from wirekit import Process, call, command, eventually, lines, run, serving, text

from mcpkit.transports import stdio, threads
from mcpkit.transports.lines import LineChannel

CURRENT = "2025-11-25"
PING = request("ping", "ping")
GREETING = initialize(CURRENT)
MIB = 1024 * 1024

both_transports = pytest.mark.parametrize("transport", list(wirekit.TRANSPORTS))

STEADY: dict[str, dict[str, Any]] = {
    "waiting": {},
    "threads": {"transport": "threads"},
    "unbuffered": {"env": {"PYTHONUNBUFFERED": "1"}},
    "cp1252": {"env": {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}},
    "c-locale": {"env": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}},
}


@pytest.fixture(scope="module", params=list(STEADY))
def steady(request: pytest.FixtureRequest) -> Iterator[Process]:
    """One server for all tests that leave it as they found it; each way to run it in turn."""
    with serving("noisy.py", "--max-body", str(MIB), **STEADY[request.param]) as server:
        server.start(CURRENT)
        yield server
        server.close_input()
        assert server.wait() == 0
        assert server.receive() is None


# -- Nothing else on standard output ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", ["print", "flushed", "buffer", "descriptor", "original", "subprocess", "c", "logging"]
)
def test_what_a_tool_writes_to_standard_output_appears_on_standard_error(steady: Process, how: str) -> None:
    """PITFALLS, stdio row 1; STD-01: print(), os.write(1, …), children, C libraries, logging."""
    mark = f"written by {how} ✓" if how in ("print", "flushed", "logging") else f"written by {how}"
    steady.send(call(f"stray {how}", "stray", {"how": how, "text": mark}))
    reply, before = steady.receive_until(f"stray {how}")
    assert (text(reply), before) == ("written", [])
    eventually(lambda: mark in steady.errors, "the text on standard error")


@pytest.mark.parametrize(
    "how", ["print", "flushed", "buffer", "descriptor", "original", "subprocess", "c", "logging"]
)
def test_what_a_script_writes_while_it_is_imported_appears_on_standard_error(
    steady: Process, how: str
) -> None:
    """PITFALLS, stdio row 1: print() at import time, also with PYTHONUNBUFFERED=1."""
    eventually(lambda: f"at import, by {how}" in steady.errors, "the text on standard error")
    assert all(line.startswith(b'{"jsonrpc":"2.0"') for line in steady.raw_output)


def test_a_child_process_that_reads_its_input_sees_the_end_of_file(steady: Process) -> None:
    """PITFALLS, stdio row 2: it never steals protocol messages."""
    steady.send(call("child", "child_reads_input"), PING)
    assert text(steady.receive_until("child")[0]) == "''\n"


def test_a_tool_that_reads_standard_input_sees_the_end_of_file(steady: Process) -> None:
    """PITFALLS, stdio row 2, for the process itself: input() and os.read(0, …)."""
    steady.send(call("reads", "read_input"), PING)
    assert text(steady.receive_until("reads")[0]) == "('', b'')"


def test_an_app_on_stdio_loads_nothing_that_it_does_not_need(steady: Process) -> None:
    """DESIGN section 2, rules of the house: only trio and msgspec; FACTS section 8."""
    steady.send(call("modules", "modules"))
    loaded = {name.partition(".")[0] for name in json.loads(text(steady.receive_until("modules")[0]))}
    heavy = (
        "hypercorn httptools joserfc authlib httpx cryptography coredis pydantic jsonschema asyncio rich mcp"
    )
    assert not loaded & set(heavy.split())
    assert {"trio", "msgspec"} <= loaded


# -- Lines -----------------------------------------------------------------------------------------------------


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


MALFORMED: list[tuple[str, bytes, int, Any]] = [
    ("words", b"hello, server", -32700, None),
    ("cut", b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700, None),
    (
        "two messages",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}',
        -32700,
        None,
    ),
    ("single quotes", b"{'jsonrpc':'2.0','id':1,'method':'ping'}", -32700, None),
    ("not a number", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', -32700, None),
    ("invalid UTF-8", b'{"jsonrpc":"2.0","id":1,"method":"ping\xff"}', -32700, None),
    (
        "invalid UTF-8 in params",
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"ignored":"\xed\xa0\x80"}}',
        -32700,
        None,
    ),
    ("UTF-16", '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16-le"), -32700, None),
    ("zero bytes", b"\x00\x00\x00", -32700, None),
    ("control character", b'{"jsonrpc":"2.0","id":1,"method":"pi\x01ng"}', -32700, None),
    ("string", b'"ping"', -32600, None),
    ("number", b"42", -32600, None),
    ("null", b"null", -32600, None),
    ("empty object", b"{}", -32600, None),
    ("empty array", b"[]", -32600, None),
    (
        "array of pings",
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
        -32600,
        None,
    ),
    ("no jsonrpc", b'{"id":1,"method":"ping"}', -32600, 1),
    ("old jsonrpc", b'{"jsonrpc":"1.0","id":"a","method":"ping"}', -32600, "a"),
    ("jsonrpc as a number", b'{"jsonrpc":2.0,"id":1,"method":"ping"}', -32600, 1),
    ("no method", b'{"jsonrpc":"2.0","id":7}', -32600, 7),
    ("method as a number", b'{"jsonrpc":"2.0","id":7,"method":1}', -32600, 7),
    ("method as null", b'{"jsonrpc":"2.0","id":7,"method":null}', -32600, 7),
    ("params as an array", b'{"jsonrpc":"2.0","id":8,"method":"ping","params":[1]}', -32602, 8),
    ("params as a string", b'{"jsonrpc":"2.0","id":8,"method":"ping","params":"x"}', -32600, 8),
    ("params as a number", b'{"jsonrpc":"2.0","id":8,"method":"ping","params":0}', -32600, 8),
    ("params as false", b'{"jsonrpc":"2.0","id":8,"method":"ping","params":false}', -32600, 8),
    (
        "deep, id first",
        b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"a":%s}}' % deep(20_000).encode(),
        -32700,
        9,
    ),
    (
        "deep, id last",
        b'{"jsonrpc":"2.0","method":"ping","params":{"a":%s},"id":"z"}' % deep(20_000).encode(),
        -32700,
        "z",
    ),
    (
        "deep objects",
        b'{"jsonrpc":"2.0","id":3,"method":"ping","params":%s1%s}' % (b'{"id":' * 20_000, b"}" * 20_000),
        -32700,
        3,
    ),
    ("deep and not closed", b'{"jsonrpc":"2.0","id":9,"method":"ping","params":' + b"[" * 20_000, -32700, 9),
    ("deep array", deep(20_000).encode(), -32600, None),
]


@pytest.mark.parametrize(
    ("line", "code", "id"), [case[1:] for case in MALFORMED], ids=[case[0] for case in MALFORMED]
)
def test_a_malformed_line_gets_one_error_and_the_next_message_is_answered(
    steady: Process, line: bytes, code: int, id: Any
) -> None:
    """PITFALLS, stdio row 3; RPC-05, RPC-07, RPC-08, STD-09."""
    steady.send(line + b"\n", PING)
    error = steady.receive()
    assert (error["error"]["code"], error.get("id")) == (code, id)
    assert type(error.get("id")) is type(id)
    assert steady.receive()["id"] == "ping"


@pytest.mark.parametrize(
    "line",
    [
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":5,"method":"ping"}\n',
        b'{"jsonrpc":"2.0","id":5,"method":"ping"}\r\n',
        b' \t {"jsonrpc":"2.0","id":5,"method":"ping"} \t\n',
        b'{ "method" : "ping" , "id" : 5 , "jsonrpc" : "2.0" }\n',
        b'{"jsonrpc":"2.0","id":5,"method":"ping","params":null}\n',
        b'{"jsonrpc":"2.0","id":5,"method":"\\u0070ing"}\n',
        b'\n\r\n   \n\t\r\n{"jsonrpc":"2.0","id":5,"method":"ping"}\n',
    ],
    ids=[
        "byte order mark",
        "crlf",
        "white space",
        "members in any order",
        "params null",
        "escapes",
        "blank lines",
    ],
)
def test_unusual_lines_are_served(steady: Process, line: bytes) -> None:
    """PITFALLS, stdio row 3: BOM and CRLF accepted, blank lines ignored; STD-01."""
    steady.send(line)
    assert steady.receive() == {"jsonrpc": "2.0", "id": 5, "result": {}}


@pytest.mark.skipif(not hasattr(fcntl, "F_GETPIPE_SZ"), reason="only Linux says how much a pipe holds")
def test_pipes_hold_a_large_message() -> None:
    """A client writes it at once, instead of taking turns with the server sixteen times for each megabyte."""
    with serving("noisy.py") as server:
        server.start(CURRENT)
        for pipe in (server.process.stdin, server.process.stdout):
            assert pipe is not None
            assert fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) >= MIB


def test_a_message_in_pieces_is_served(steady: Process) -> None:
    """STD-01: a message ends at the line feed, however it is cut into writes."""
    for byte in json.dumps(PING).encode():
        steady.send(bytes([byte]))
    steady.send(b"\n")
    assert steady.receive()["id"] == "ping"


@pytest.mark.parametrize("id", [77, "seventy-seven"])
def test_a_line_above_the_limit_gets_one_error_and_is_not_kept(steady: Process, id: Any) -> None:
    """PITFALLS, stdio row 4; SEC-02: 64 MiB against a limit of 1 MiB."""
    start = json.dumps({**call(id, "echo"), "params": 0})[:-2]
    before = resident(steady, "VmRSS")
    steady.send(start.encode() + b'{"text":"')
    for _ in range(64):
        steady.send(b"x" * MIB)
    steady.send(b'"}}\n', PING)
    error = steady.receive()
    assert (error["error"]["code"], error["id"]) == (-32600, id)
    assert steady.receive()["id"] == "ping"
    assert resident(steady, "VmHWM") - before < 16 * MIB


def test_a_line_above_the_limit_without_a_readable_id_gets_an_error_without_one(steady: Process) -> None:
    """PITFALLS, stdio row 4; RPC-05. Escaped quotes inside the string that is cut off are not taken for its end."""
    steady.send(b'{"params":{"text":"' + b'\\"id\\":5,' * (MIB // 8) + b'"},"id":5}\n', PING)
    error = steady.receive()
    assert (error["error"]["code"], "id" in error) == (-32600, False)
    assert steady.receive()["id"] == "ping"


def resident(server: Process, field: str) -> int:
    """Bytes of memory: VmRSS now, VmHWM at most."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


TEXTS = [
    "plain",
    "süß",
    "日本語",
    "😀",
    "\u2028\u2029\x85\x0b\x0c",
    "line\nfeed\r\nreturn\r",
    '"\\/\x00\x1f',
    "\ufeff",
    "a" * 100_000,
]


@pytest.mark.parametrize("tool", ["echo", "echo_later"])
@pytest.mark.parametrize("ascii", [True, False], ids=["escaped", "utf-8"])
def test_text_comes_back_as_utf_8_in_one_line(steady: Process, tool: str, ascii: bool) -> None:
    """PITFALLS, stdio row 5; STD-01, RPC-01: UTF-8 whatever the locale says, always \\n, never \\r\\n."""
    for number, value in enumerate(TEXTS):
        message = call(number, tool, {"text": value})
        steady.send(json.dumps(message, ensure_ascii=ascii).encode() + b"\n")
        assert text(steady.receive_until(number)[0]) == value
        raw = steady.raw_output[-1]
        assert raw.endswith(b"}\n")
        assert not set(raw[:-1]) & set(range(32))
        assert raw.decode("utf-8")


def test_half_a_surrogate_pair_becomes_the_replacement_character(steady: Process) -> None:
    """RPC-01: JSON can say what UTF-8 cannot; a JavaScript client that cuts a string sends it."""
    steady.send(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a\\ud83d"}}}\n'
    )
    assert text(steady.receive_until(1)[0]) == "a\ufffd"


# -- The end ---------------------------------------------------------------------------------------------------


@both_transports
@pytest.mark.parametrize(("tool", "revision"), [("echo", CURRENT), ("echo_later", STATELESS)])
def test_a_call_that_the_end_of_file_follows_at_once_is_answered(
    transport: str, tool: str, revision: str
) -> None:
    """PITFALLS, stdio row 6: `printf … | mcpkit run server.py`; with a last line that has no line feed."""
    greeting = [] if revision == STATELESS else [GREETING]
    data = lines(*greeting, call(1, tool, {"text": "hi"}, revision=revision)).removesuffix(b"\n")
    done = run("noisy.py", data, transport)
    assert json.loads(done.stdout.splitlines()[-1])["result"]["content"][0]["text"] == "hi"
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


@both_transports
def test_a_long_answer_is_flushed_before_the_process_ends(transport: str) -> None:
    """PITFALLS, stdio row 6: more than a pipe holds."""
    done = run("noisy.py", lines(GREETING, call(1, "big", {"size": 3 * MIB})), transport)
    assert len(json.loads(done.stdout.splitlines()[-1])["result"]["content"][0]["text"]) == 3 * MIB
    assert done.returncode == 0


@both_transports
def test_an_empty_input_is_a_clean_end(transport: str) -> None:
    """STD-05: a client that only tries whether the program starts."""
    done = run("noisy.py", b"", transport)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"Traceback" not in done.stderr


def test_half_a_message_at_the_end_of_file_is_an_error_and_a_clean_end() -> None:
    """STD-05, STD-09: what cannot become a message any more is answered like any malformed line."""
    done = run("noisy.py", lines(GREETING) + b'{"jsonrpc":"2.0","id":1,"meth')
    assert json.loads(done.stdout.splitlines()[-1])["error"]["code"] == -32700
    assert done.returncode == 0


@both_transports
def test_the_end_of_file_cancels_an_async_tool_and_its_clean_up_runs(transport: str, tmp_path: Path) -> None:
    """PITFALLS, stdio row 7; STD-05: `finally` blocks run, the process ends within about a second."""
    with serving("noisy.py", transport=transport) as server:
        server.start(CURRENT)
        server.send(call(1, "wait", {"path": str(tmp_path / "trace")}))
        server.wait_for_log("waiting")
        server.close_input()
        assert server.wait(5) == 0
    assert (tmp_path / "trace").read_text() == "cleaned up"
    assert "Traceback" not in server.errors


@both_transports
def test_the_end_of_file_does_not_wait_for_a_sync_tool(transport: str) -> None:
    """PITFALLS, stdio row 7: no hang on the thread that it blocks."""
    with serving("noisy.py", transport=transport) as server:
        server.start(CURRENT)
        server.send(call(1, "block"))
        server.wait_for_log("blocking")
        server.close_input()
        assert server.wait(5) == 0
    assert "Traceback" not in server.errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_server_cleanly(number: signal.Signals) -> None:
    """PITFALLS, stdio row 8."""
    with serving("noisy.py") as server:
        server.start(CURRENT)
        server.process.send_signal(number)
        assert server.wait(5) == 0
    assert "Traceback" not in server.errors


@both_transports
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_running_calls_cleanly(transport: str, number: signal.Signals, tmp_path: Path) -> None:
    """PITFALLS, stdio row 8: async tools clean up, sync tools are left behind, nothing is said about it."""
    with serving("noisy.py", transport=transport) as server:
        server.start(CURRENT)
        server.send(call(1, "block"))
        server.wait_for_log("blocking")
        server.send(call(2, "wait", {"path": str(tmp_path / "trace")}))
        server.wait_for_log("waiting")
        server.process.send_signal(number)
        assert server.wait(5) == 0
    assert (tmp_path / "trace").read_text() == "cleaned up"
    assert "Traceback" not in server.errors


@both_transports
def test_a_signal_ends_a_server_whose_client_does_not_read(transport: str) -> None:
    """PITFALLS, stdio row 8: also while it waits to write, with input waiting to be read."""
    client, other = socket.socketpair()
    with client, other:
        process = start(other, other, transport=transport)
        client.sendall(lines(GREETING, *[call(n, "big", {"size": MIB}) for n in range(8)]))
        readable(client)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=5)
    assert process.returncode == 0
    assert b"Traceback" not in errors


def readable(end: socket.socket) -> None:
    """Wait until something can be read, without reading it."""
    end.settimeout(20)
    assert end.recv(1, socket.MSG_PEEK)


@both_transports
def test_a_client_that_closes_its_reading_end_is_a_clean_end(transport: str) -> None:
    """STD-05: nobody is left to answer, which is no error."""
    process = start(subprocess.PIPE, subprocess.PIPE, transport=transport)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdin.write(lines(GREETING))
    process.stdin.flush()
    assert process.stdout.readline()
    process.stdout.close()
    process.stdin.write(lines(PING))
    process.stdin.flush()
    errors = process.stderr.read()
    assert process.wait(5) == 0
    assert b"Traceback" not in errors
    process.stdin.close()
    process.stderr.close()


@pytest.mark.parametrize("streams", [stdio._waiting_streams, threads.streams], ids=["waiting", "threads"])
async def test_a_write_that_is_cut_short_is_neither_lost_nor_repeated(streams: Any) -> None:
    """STD-01, STD-06: what a cancelled handler was sending goes out with the next flush; more than a pipe holds."""
    message = bytes(range(32, 127)) * 10_000
    (read_fd, theirs), (ours, write_fd) = os.pipe(), os.pipe()
    read, *writing = streams(read_fd, write_fd)
    channel = LineChannel(read, *writing)
    channel.write(message)
    with trio.move_on_after(0.01):
        await channel.flush()
    channel.write(b"the next")
    assert not channel.flush_now()
    received = bytearray()

    def receive() -> None:
        while not received.endswith(b"the next\n"):
            received.extend(os.read(ours, 65536))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, receive)
        await channel.flush()
    assert received == message + b"\nthe next\n"
    os.close(theirs)
    assert await read() == b""
    for fd in (read_fd, ours, write_fd):
        os.close(fd)


# -- Standard error that nobody reads --------------------------------------------------------------------------


@both_transports
def test_printing_to_an_unread_standard_error_does_not_stop_the_server(transport: str) -> None:
    """PITFALLS, stdio row 9: 1 MB from a tool."""
    with serving("noisy.py", transport=transport, stderr=subprocess.PIPE) as server:
        server.start(CURRENT)
        assert text(call_result(server, "print_much", {"size": 1_000_000})) == "printed"
        assert server.ask(2, "ping")["result"] == {}


def test_tracebacks_on_an_unread_standard_error_do_not_stop_the_server() -> None:
    """PITFALLS, stdio row 9: failing tools with long tracebacks."""
    with serving("noisy.py", stderr=subprocess.PIPE) as server:
        server.start(CURRENT)
        for _ in range(30):
            assert call_result(server, "fail", {"size": 10_000})["result"]["isError"]
        assert server.ask(2, "ping")["result"] == {}


def test_a_standard_error_that_is_an_unread_socket_does_not_stop_the_server() -> None:
    """PITFALLS, stdio row 9: Node.js gives its children sockets instead of pipes."""
    mine, other = socket.socketpair()
    with mine, other, serving("noisy.py", stderr=other) as server:
        server.start(CURRENT)
        assert text(call_result(server, "print_much", {"size": 1_000_000})) == "printed"
        assert server.ask(2, "ping")["result"] == {}


def call_result(server: Process, tool: str, arguments: dict[str, Any]) -> Any:
    server.send(call(tool, tool, arguments))
    return server.receive_until(tool)[0]


# -- All kinds of descriptors ----------------------------------------------------------------------------------


def start(
    stdin: Any, stdout: Any, stderr: Any = subprocess.PIPE, *, transport: str = "waiting"
) -> subprocess.Popen[bytes]:
    """A server on these descriptors."""
    return subprocess.Popen(
        command("noisy.py", transport=transport), stdin=stdin, stdout=stdout, stderr=stderr
    )


@pytest.mark.parametrize(("transport", "mode"), [("waiting", "wb"), ("threads", "ab")])
def test_regular_files_can_stand_for_input_and_output(transport: str, mode: str, tmp_path: Path) -> None:
    """FACTS 2.2: `mcpkit run … < in > out`; opened anew, a file would begin at its beginning again."""
    (tmp_path / "in").write_bytes(
        b"skipped by the shell\n" + lines(GREETING, PING, call(1, "echo", {"text": "hi"}))
    )
    (tmp_path / "out").write_bytes(b"what was there before\n")
    with (tmp_path / "in").open("rb", buffering=0) as given, (tmp_path / "out").open(mode) as taken:
        os.lseek(given.fileno(), 21, os.SEEK_SET)
        process = start(given, taken, transport=transport)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, b"Traceback" in errors) == (0, False)
    kept, *answers = (tmp_path / "out").read_bytes().splitlines()
    if mode == "wb":
        answers.insert(0, kept)
    else:
        assert kept == b"what was there before"
    assert [json.loads(line)["id"] for line in answers] == ["init", "ping", 1]


@both_transports
def test_one_socket_can_stand_for_input_and_output(transport: str) -> None:
    """FACTS 2.2: a socketpair, the way Node.js starts servers; a half-closed socket is the end of file."""
    client, other = socket.socketpair()
    with client:
        with other:
            process = start(other, other, transport=transport)
        client.sendall(lines(GREETING, PING))
        client.shutdown(socket.SHUT_WR)
        answers = client.makefile("rb").read().splitlines()
        _, errors = process.communicate(timeout=20)
    assert [json.loads(line)["id"] for line in answers] == ["init", "ping"]
    assert (process.returncode, b"Traceback" in errors) == (0, False)


@both_transports
def test_a_socket_whose_peer_leaves_without_reading_is_a_clean_end(transport: str) -> None:
    """STD-05: the kernel reports a reset instead of an end of file."""
    client, other = socket.socketpair()
    with other:
        process = start(other, other, transport=transport)
    client.sendall(lines(GREETING))
    readable(client)
    client.close()
    _, errors = process.communicate(timeout=5)
    assert (process.returncode, b"Traceback" in errors) == (0, False)


@both_transports
def test_a_socket_that_the_parent_keeps_is_blocking_again_after_the_end(transport: str) -> None:
    """FACTS 2.2: the description of a socket is shared, so it is given back as it was."""
    client, other = socket.socketpair()
    with client, other:
        process = start(other, other, transport=transport)
        client.sendall(lines(GREETING))
        readable(client)
        client.shutdown(socket.SHUT_WR)
        process.communicate(timeout=20)
        assert not is_non_blocking(other.fileno())


def is_non_blocking(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK)


@both_transports
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_terminal_is_never_left_non_blocking(transport: str, end: signal.Signals) -> None:
    """FACTS 2.2: not during the run, not after it, not after SIGKILL; the shell would stop working."""
    ours, theirs = pty.openpty()
    try:
        tty.setraw(theirs)
        process = start(theirs, theirs, theirs, transport=transport)
        os.write(ours, lines(GREETING, PING))
        screen = b""
        while b'"id":"ping"' not in screen:
            screen += os.read(ours, 65536)
        assert not is_non_blocking(theirs)
        process.send_signal(end)
        assert process.wait(5) == (0 if end == signal.SIGTERM else -end)
        assert not is_non_blocking(theirs)
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_terminal_that_goes_away_is_a_clean_end() -> None:
    """STD-05: the window is closed."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    process = start(theirs, theirs)
    os.close(theirs)
    os.write(ours, lines(GREETING))
    assert os.read(ours, 65536)
    os.close(ours)
    _, errors = process.communicate(timeout=5)
    assert (process.returncode, b"Traceback" in errors) == (0, False)


@pytest.mark.parametrize(
    ("transport", "closed"),
    [
        ("waiting", "0<&-"),
        ("waiting", "1>&-"),
        ("waiting", "2>&-"),
        ("waiting", "0<&- 1>&- 2>&-"),
        ("threads", "0<&- 1>&- 2>&-"),
    ],
)
def test_standard_descriptors_that_are_closed_at_the_start_are_no_error(transport: str, closed: str) -> None:
    """FACTS 2.2: the next file that is opened would take their numbers."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command("noisy.py", transport=transport)],
        input=lines(GREETING, call(1, "stray", {"how": "descriptor", "text": "stray"})),
        capture_output=True,
        timeout=20,
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    answers = [json.loads(line)["id"] for line in done.stdout.splitlines()]
    assert answers == (["init", 1] if closed == "2>&-" else [])
