"""A server in a process of its own, and a client that says exactly what it is told to."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from support import SECONDS, SERVING, STATELESS, initialize, request

SCRIPTS = Path(__file__).parent / "scripts"
BOTH = "application/json, text/event-stream"
Json = Any
Headers = Mapping[str, str | None] | Sequence[tuple[str, str]]


class Response(NamedTuple):
    """A whole response. Header names are lower case."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        """The values of a header."""
        return [value for key, value in self.headers if key == name.lower()]

    def get(self, name: str) -> str | None:
        """The value of a header that is there at most once."""
        values = self.all(name)
        assert len(values) < 2, f"{name} is there {len(values)} times"
        return values[0] if values else None

    @property
    def message(self) -> Json:
        """The one message that it holds, as JSON or as the last event of a stream."""
        if self.get("content-type") == "text/event-stream":
            return self.messages[-1]
        assert self.get("content-type") == "application/json", (self.status, self.headers, self.body[:300])
        return json.loads(self.body)

    @property
    def messages(self) -> list[Json]:
        """The messages in a stream."""
        return [json.loads(event.data) for event in self.events if event.data]

    @property
    def events(self) -> list[Event]:
        """The events in a stream, comments left out."""
        found = [Event.parse(block) for block in self.body.split(b"\n\n") if block]
        return [event for event in found if event is not None]

    @property
    def code(self) -> int:
        """The code of the error that it holds."""
        return int(self.message["error"]["code"])

    @property
    def result(self) -> Json:
        """The result that it holds."""
        assert "result" in self.message, self.message
        return self.message["result"]

    @property
    def text(self) -> str:
        """The text of the tool result that it holds."""
        return "".join(block["text"] for block in self.result["content"])


class Event(NamedTuple):
    """A server-sent event."""

    id: str | None
    data: str
    retry: str | None
    type: str | None = None

    @classmethod
    def parse(cls, block: bytes) -> Event | None:
        """The event in a block of lines; None when there are only comments."""
        fields: dict[str, str] = {}
        for line in block.decode().split("\n"):
            name, _, value = line.partition(":")
            if name:
                assert name in ("id", "data", "retry", "event"), line
                assert name not in fields, f"{name} twice in one event: a test suite reads line by line"
                fields[name] = value.removeprefix(" ")
        if not fields:
            return None
        return cls(fields.get("id"), fields.get("data", ""), fields.get("retry"), fields.get("event"))


class Closed(Exception):
    """The server has closed the connection."""


class Connection:
    """One connection to a server, for bytes and for requests; by way of a unix socket, where one is named."""

    def __init__(self, server: Server, path: Path | None = None) -> None:
        self.server = server
        if path is None:
            self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(SECONDS)
            self.socket.connect(str(path))
        self._read = bytearray()
        self._events: deque[Event] = deque()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Leave."""
        self.socket.close()

    def abort(self) -> None:
        """Leave with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def end(self) -> None:
        """Send no more, and go on reading."""
        self.socket.shutdown(socket.SHUT_WR)

    # -- out -----------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.socket.sendall(data)

    def begin(
        self,
        method: str = "POST",
        headers: Headers = (),
        body: bytes | None = b"",
        *,
        path: str | None = None,
    ) -> None:
        """Send a request. Host and Content-Length are added unless they are given; None leaves one out, and a body
        that is None has no length.
        """
        self.send(
            head(self.server, method, headers, None if body is None else len(body), path) + (body or b"")
        )

    def post(self, message: Json, headers: Headers = (), **more: Any) -> Response:
        """Post a message as a client would, with `headers` over those that it needs."""
        self.begin("POST", over(headers_for(message), headers), encoded(message), **more)
        return self.response()

    def ask(
        self, method: str, headers: Headers = (), body: bytes | None = b"", *, path: str | None = None
    ) -> Response:
        """Send a request and read its response."""
        self.begin(method, headers, body, path=path)
        return self.response(method)

    # -- in ------------------------------------------------------------------------------

    def _more(self) -> None:
        try:
            data = self.socket.recv(65536)
        except (ConnectionError, BrokenPipeError):
            data = b""
        if not data:
            raise Closed(bytes(self._read[:200]))
        self._read += data

    def _until(self, end: bytes) -> bytes:
        while (at := self._read.find(end)) < 0:
            self._more()
        taken = bytes(self._read[:at])
        del self._read[: at + len(end)]
        return taken

    def _exactly(self, count: int) -> bytes:
        while len(self._read) < count:
            self._more()
        taken = bytes(self._read[:count])
        del self._read[:count]
        return taken

    def head(self) -> Response:
        """The head of a response, which is no interim one."""
        status = 100
        while status < 200:
            lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
            status = int(lines[0].split(" ")[1])
        pairs = [line.split(":", 1) for line in lines[1:]]
        return Response(status, [(name.lower(), value.strip()) for name, value in pairs], b"")

    def chunk(self) -> bytes:
        """A chunk of a response; none is the last."""
        size = int(self._until(b"\r\n"), 16)
        data = self._exactly(size)
        assert self._until(b"\r\n") == b""
        return data

    def response(self, method: str = "POST") -> Response:
        """The next response, whole."""
        head = self.head()
        if method == "HEAD" or head.status == 204:
            return head
        if head.get("transfer-encoding") == "chunked":
            return head._replace(body=b"".join(iter(self.chunk, b"")))
        length = head.get("content-length")
        return head._replace(body=self.rest() if length is None else self._exactly(int(length)))

    def stream(self) -> Response:
        """The head of a response that is a stream."""
        head = self.head()
        assert head.status == 200, (head, bytes(self._read))
        assert head.get("content-type") == "text/event-stream"
        return head

    def event(self) -> Event | None:
        """The next event of a stream; None at its end. A chunk of the server holds whole events."""
        while not self._events and (data := self.chunk()):
            self._events.extend(Response(200, [], data).events)
        return self._events.popleft() if self._events else None

    def events(self) -> Iterator[Event]:
        """The events of a stream, until it ends."""
        while (event := self.event()) is not None:
            yield event

    def rest(self) -> bytes:
        """All that comes until the server closes the connection."""
        with contextlib.suppress(Closed):
            while True:
                self._more()
        taken = bytes(self._read)
        self._read.clear()
        return taken

    def is_ended(self) -> bool:
        """Whether the server closes the connection, with nothing more to say."""
        return self.rest() == b""


class Server:
    """`mcpkit run SCRIPT --transport http` (or another one, in the options), with what it says on standard error."""

    def __init__(self, script: str | Path, *options: str, **env: str) -> None:
        self.process = subprocess.Popen(
            [*SERVING, "--transport", "http", "--port", "0", str(SCRIPTS / script), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **env},
        )
        self._errors: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()
        self.port = int(self._wait_for(r"serving http://\S+?:(\d+)/")[1])

    def _collect(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self._errors.append(line.decode(errors="replace"))
                self._changed.notify_all()

    def _wait_for(self, pattern: str) -> re.Match[str]:
        with self._changed:
            found = self._changed.wait_for(
                lambda: re.search(pattern, self.errors) or self.process.poll() is not None, SECONDS
            )
        assert isinstance(found, re.Match), self.errors
        return found

    @property
    def errors(self) -> str:
        """What it has said on standard error."""
        return "".join(self._errors)

    def connect(self) -> Connection:
        """A new connection."""
        return Connection(self)

    def post(self, message: Json, headers: Headers = (), **more: Any) -> Response:
        """Post a message on a connection of its own."""
        with self.connect() as connection:
            return connection.post(message, headers, **more)

    def ask(self, method: str, headers: Headers = (), body: bytes | None = b"", **more: Any) -> Response:
        """Send a request on a connection of its own."""
        with self.connect() as connection:
            return connection.ask(method, headers, body, **more)

    def session(self, revision: str = "2025-11-25", headers: Headers = ()) -> Session:
        """A client that has shaken hands."""
        response = self.post(initialize(revision), headers)
        assert response.status == 200, response
        session = Session(self, revision, response.get("mcp-session-id") or "")
        assert session.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
        return session

    def is_alive(self) -> bool:
        """Whether it answers a good request."""
        return self.post(discover()).status == 200

    def memory(self) -> int:
        """Bytes that it holds in memory."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def descriptors(self) -> int:
        """How many descriptors it has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def terminate(self, sign: signal.Signals = signal.SIGTERM) -> float:
        """Ask it to end; the seconds that it takes. Fails unless it ends well."""
        began = time.monotonic()
        self.process.send_signal(sign)
        code = self.process.wait(SECONDS)
        took = time.monotonic() - began
        self._reader.join(SECONDS)
        assert code == 0, self.errors
        return took

    def close(self) -> None:
        """End it, if it has not."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(SECONDS)
        assert self.process.stderr is not None
        self.process.stderr.close()


class Session:
    """A client in the handshake era."""

    def __init__(self, server: Server, revision: str, session_id: str) -> None:
        self.server = server
        self.revision = revision
        self.id = session_id

    @property
    def headers(self) -> dict[str, str | None]:
        """What its requests say."""
        version = {} if self.revision < "2025-06-18" else {"MCP-Protocol-Version": self.revision}
        return {"Mcp-Session-Id": self.id, **version}

    def post(self, message: Json, headers: Headers = ()) -> Response:
        """Post a message."""
        return self.server.post(message, over(self.headers, headers))

    def call(self, id: Any, tool: str, arguments: Json = None, **meta: Any) -> Response:
        """Call a tool."""
        return self.post(call(id, tool, arguments, self.revision, **meta))

    def begin(self, connection: Connection, message: Json, headers: Headers = ()) -> None:
        """Post a message, and leave the response to the caller."""
        headers = over(over(headers_for(message), self.headers), headers)
        connection.begin("POST", headers, encoded(message))

    def listen(self, connection: Connection, last: str | None = None) -> Response:
        """Open the session's stream, or one to resume; its head."""
        connection.begin("GET", {**self.headers, "Accept": "text/event-stream", "Last-Event-ID": last}, None)
        return connection.stream()

    def ask(self, method: str, headers: Headers = ()) -> Response:
        """Send a request without a body."""
        return self.server.ask(method, over(self.headers, headers), None)


@contextlib.contextmanager
def serving(script: str = "things.py", *options: str, **env: str) -> Iterator[Server]:
    """A server, for as long as the block lasts. It must not have failed in a way of its own."""
    server = Server(script, *options, **env)
    try:
        yield server
        assert "Traceback" not in server.errors, server.errors
    finally:
        server.close()


# -- Messages --------------------------------------------------------------------------------


def call(id: Any, tool: str, arguments: Json = None, revision: str = STATELESS, **meta: Any) -> Json:
    """A `tools/call` request; `meta` goes into its `_meta`."""
    params: Json = {"name": tool, "arguments": arguments or {}, **({"_meta": meta} if meta else {})}
    return request(id, "tools/call", params, revision=revision)


def discover(id: Any = "discover") -> Json:
    """A request that every server answers."""
    return request(id, "server/discover", revision=STATELESS)


def encoded(message: Json) -> bytes:
    """The body of a request."""
    return message if isinstance(message, bytes) else json.dumps(message).encode()


def headers_for(message: Json) -> dict[str, str | None]:
    """The headers that a client sends with a message."""
    headers: dict[str, str | None] = {"Content-Type": "application/json", "Accept": BOTH}
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    if isinstance(meta, dict) and "io.modelcontextprotocol/protocolVersion" in meta:
        headers["MCP-Protocol-Version"] = str(meta["io.modelcontextprotocol/protocolVersion"])
        headers["Mcp-Method"] = message["method"]
        named = params.get("uri" if message["method"] == "resources/read" else "name")
        if isinstance(named, str):
            headers["Mcp-Name"] = named
    return headers


def over(below: Headers, above: Headers) -> list[tuple[str, str | None]]:
    """Headers with others over them."""
    upper = list(above.items() if isinstance(above, Mapping) else above)
    replaced = {name.lower() for name, _ in upper}
    lower = below.items() if isinstance(below, Mapping) else below
    return [*((name, value) for name, value in lower if name.lower() not in replaced), *upper]


def head(server: Server, method: str, headers: Headers, length: int | None, path: str | None = None) -> bytes:
    """The head of a request."""
    usual: dict[str, str | None] = {"Host": f"127.0.0.1:{server.port}"}
    usual["Content-Length"] = None if length is None else str(length)
    given = over(usual, headers)
    lines = [
        f"{method} {path or '/mcp'} HTTP/1.1",
        *(f"{name}: {value}" for name, value in given if value is not None),
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def eventually(condition: Callable[[], object], what: str) -> None:
    """Wait for something outside this process, such as a file."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.005)
