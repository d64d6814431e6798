"""How fast mcpkit is beside the official SDK, and how far from a loop that does nothing: `make bench`.

The three servers of a workload run at the same time and are measured in turns, so that whatever else the machine does
meets them alike. Each figure is a median over the rounds; ratios are those of each round. CPU time is what the server's
threads spent, in user code and in the kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
from support import STATELESS, initialize, request

SERVERS = {name: Path(__file__).parent / "servers" / f"on_{name}.py" for name in ("mcpkit", "sdk", "nothing")}
HANDSHAKE = "2025-11-25"

ORDER = {
    "customer": "Ada",
    "items": [{"name": f"item {number}", "price": 1.25, "count": number} for number in range(10)],
}


class Workload(NamedTuple):
    """What is asked again and again, and how."""

    name: str
    method: str = "tools/call"
    params: dict[str, Any] = {"name": "echo", "arguments": {"text": "hello, world"}}
    revision: str = HANDSHAKE
    in_flight: int = 1
    fillers: int = 0
    http: bool = False


WORKLOADS = (
    Workload("stdio, one call after the other"),
    Workload("stdio, 64 calls in flight", in_flight=64),
    Workload("stdio, revision 2026-07-28", revision=STATELESS),
    Workload("stdio, typed arguments and result", params={"name": "bill", "arguments": {"order": ORDER}}),
    Workload("stdio, plain `def`", params={"name": "plain", "arguments": {"text": "hello, world"}}),
    Workload("stdio, list of 500 tools", "tools/list", {}, fillers=497),
    Workload("HTTP, one call after the other", revision=STATELESS, http=True),
)


class Measured(NamedTuple):
    """Calls per second, and microseconds of CPU per call."""

    speed: float
    cpu: float


# -- Servers in processes of their own -------------------------------------------------------


class Stdio:
    """A server on pipes, and its client."""

    def __init__(self, process: subprocess.Popen[bytes], workload: Workload) -> None:
        self.process = process
        self._workload = workload
        if workload.revision == HANDSHAKE:
            assert process.stdin is not None
            self._exchange([initialize(HANDSHAKE, id=0)])
            process.stdin.write(_line({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def begin(self) -> None:
        """Nothing has to be done before a measurement."""

    def exchange(self, first: int) -> None:
        """As many calls as are in flight, answered."""
        self._exchange([_message(self._workload, first + at) for at in range(self._workload.in_flight)])

    def _exchange(self, messages: list[Any]) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"".join(map(_line, messages)))
        self.process.stdin.flush()
        waiting = {message["id"] for message in messages}
        while waiting:
            waiting.remove(_checked(self.process.stdout.readline()))


class Http:
    """A server on a port, and its client, with one connection in each measurement."""

    def __init__(self, process: subprocess.Popen[bytes], workload: Workload, port: int) -> None:
        self.process = process
        self._workload = workload
        self._port = port

    def begin(self) -> None:
        """Connect: servers close what is idle for a while, as when it is another's turn."""
        self._socket = _connected(self._port)
        self._received = self._socket.makefile("rb")

    def exchange(self, first: int) -> None:
        """One call, answered."""
        message = _message(self._workload, first)
        body = json.dumps(message).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: localhost:{self._port}\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\n"
            f"MCP-Protocol-Version: {STATELESS}\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)
        status = self._received.readline()
        if b" 200 " not in status:
            raise SystemExit(f"the server answered {status!r}: {self._received.read(1000)!r}")
        size = 0
        while (line := self._received.readline().lower()) != b"\r\n":
            size = int(line.partition(b":")[2]) if line.startswith(b"content-length:") else size
        assert _checked(self._received.read(size)) == first


def _line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _message(workload: Workload, number: int) -> Any:
    return request(number, workload.method, workload.params, revision=workload.revision)


class _Answer(msgspec.Struct):
    id: int
    result: msgspec.Raw


_decode = msgspec.json.Decoder(_Answer).decode


def _checked(answer: bytes) -> int:
    """The id of an answer, which must be a good one: what is wrong is not fast."""
    try:
        if b'"isError":true' not in answer:
            return _decode(answer).id
    except msgspec.MsgspecError:
        pass
    raise SystemExit(f"a wrong answer: {answer[:1000]!r}")


def _connected(port: int) -> socket.socket:
    until = time.monotonic() + 30
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)  # until it listens
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def running(server: str, workload: Workload) -> Iterator[Stdio | Http]:
    """A server with a client that is connected to it."""
    port = _free_port()
    process = subprocess.Popen(
        [sys.executable, str(SERVERS[server]), *([str(port)] if workload.http else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "FILLERS": str(workload.fillers)},
    )
    try:
        yield Http(process, workload, port) if workload.http else Stdio(process, workload)
    finally:
        process.kill()
        process.communicate()


# -- Measuring -------------------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    """What all threads of a process have spent; 0 where the system does not tell (Linux does)."""
    spent = 0
    for schedule in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        spent += int(schedule.read_text().split()[0])
    return spent / 1e9


def measure(client: Stdio | Http, in_flight: int, seconds: float) -> Measured:
    """Ask for so many seconds."""
    calls = 0
    client.begin()
    cpu, began = cpu_seconds(client.process.pid), time.perf_counter()
    while time.perf_counter() < began + seconds or not calls:
        client.exchange(calls + 1)
        calls += in_flight
    took = time.perf_counter() - began
    return Measured(calls / took, (cpu_seconds(client.process.pid) - cpu) / calls * 1e6)


def compare(workload: Workload, rounds: int, seconds: float) -> dict[str, list[Measured]]:
    """Measure the servers in turns. The list of tools is nothing that a loop without any could send."""
    names = [name for name in SERVERS if name != "nothing" or workload.method == "tools/call"]
    with ExitStack() as stack:
        clients = {name: stack.enter_context(running(name, workload)) for name in names}
        for client in clients.values():
            measure(client, workload.in_flight, seconds / 2)  # caches, adaptive code, memory
        made: dict[str, list[Measured]] = {name: [] for name in names}
        for turn in range(rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                made[name].append(measure(clients[name], workload.in_flight, seconds))
    return made


def row(workload: Workload, made: dict[str, list[Measured]]) -> str:
    """A line of the table."""

    def ratio(other: str, what: Callable[[Measured], float], digits: int) -> str:
        if other not in made or not all(what(one) for one in made[other]):
            return ""
        ratios = [what(one) / what(two) for one, two in zip(made["mcpkit"], made[other], strict=True)]
        return f"{median(ratios):.{digits}f}"

    own = made["mcpkit"]
    cells = (
        workload.name,
        f"{median(one.speed for one in own):,.0f}",
        ratio("sdk", lambda one: one.speed, 1),
        f"{median(one.cpu for one in own):,.0f}",
        ratio("sdk", lambda one: one.cpu, 2),
        ratio("nothing", lambda one: one.cpu, 2),
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each measurement")
    options = parser.parse_args()
    versions = ", ".join(f"{name} {version(name)}" for name in ("mcpkit", "mcp", "trio", "msgspec"))
    print(f"{versions}; Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs")
    print()
    print("| | calls/s | × SDK | CPU µs/call | × SDK | × bare loop |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for workload in WORKLOADS:
        print(row(workload, compare(workload, options.rounds, options.seconds)), flush=True)


if __name__ == "__main__":
    main()
