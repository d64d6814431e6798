"""A client of HTTP+SSE that says exactly what it is told to: a stream, and a connection to post on."""

from __future__ import annotations

import json
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

from kit import Closed, Connection, Event, Headers, Response, Server, encoded, over, serving
from support import initialize, request

DESK = Path(__file__).with_name("scripts") / "desk.py"
JSON = {"Content-Type": "application/json"}


def serving_sse(*options: str, script: str | Path = DESK) -> Any:
    """A server of HTTP+SSE alone, for as long as the block lasts."""
    return serving(str(script), "--transport", "sse", *options)


class Stream:
    """One client: its stream is open as long as the block lasts."""

    def __init__(self, server: Server, path: str = "/sse", headers: Headers = ()) -> None:
        self.server = server
        self.connection = Connection(server)
        self._posting = Connection(server)
        try:
            self._open(path, headers)
        except BaseException:
            self.close()
            raise

    def _open(self, path: str, headers: Headers) -> None:
        self.connection.begin("GET", over({"Accept": "text/event-stream"}, headers), None, path=path)
        self.head = self.connection.stream()
        first = self._event()
        assert first.type == "endpoint", first
        self.endpoint = first.data
        url = urlsplit(urljoin(f"http://127.0.0.1:{self.server.port}{path}", first.data))
        self.path = f"{url.path}?{url.query}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave."""
        self.connection.close()
        self._posting.close()

    def _event(self) -> Event:
        event = self.connection.event()
        if event is None:
            raise Closed("the stream has ended")
        return event

    # -- out -----------------------------------------------------------------------------

    def post(self, message: Any, headers: Headers = ()) -> Response:
        """Post a message; its answer comes on the stream."""
        self._posting.begin("POST", over(JSON, headers), encoded(message), path=self.path)
        response = self._posting.response()
        if response.get("connection") == "close":
            self._posting.close()
            self._posting = Connection(self.server)
        return response

    def send(self, message: Any) -> None:
        """Post a message that is accepted."""
        response = self.post(message)
        assert (response.status, response.body) == (202, b""), response

    # -- in ------------------------------------------------------------------------------

    def receive(self) -> Any:
        """The next message. Raises `Closed` at the end."""
        event = self._event()
        assert event.type == "message"
        assert event.id is None
        return json.loads(event.data)

    def receive_until(self, id: Any) -> tuple[Any, list[Any]]:
        """The response with this id, and what came before it."""
        before: list[Any] = []
        while True:
            message = self.receive()
            if isinstance(message, dict) and "method" not in message and message.get("id") == id:
                return message, before
            before.append(message)

    def is_ended(self) -> bool:
        """Whether the server ends the stream, in order and with nothing more to say."""
        return self.connection.event() is None

    # -- both ----------------------------------------------------------------------------

    def ask(self, id: Any, method: str, params: Any = None, **more: Any) -> Any:
        """Post a request; its response."""
        self.send(request(id, method, params, **more))
        return self.receive_until(id)[0]

    def start(self, revision: str = "2024-11-05", capabilities: Any = None) -> Any:
        """Shake hands; the result of `initialize`."""
        self.send(initialize(revision, "init", capabilities))
        result = self.receive_until("init")[0]["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def begin(self, id: Any, tool: str, arguments: Any = None, **meta: Any) -> None:
        """Call a tool, and leave what comes to the caller."""
        params = {"name": tool, "arguments": arguments or {}, **({"_meta": meta} if meta else {})}
        self.send(request(id, "tools/call", params))

    def call(self, id: Any, tool: str, arguments: Any = None) -> str:
        """The text that a tool answers."""
        self.begin(id, tool, arguments)
        return text(self.receive_until(id)[0])


def text(response: Any) -> str:
    """The text of a tool's result."""
    return "".join(block["text"] for block in response["result"]["content"])


@contextmanager
def started(server: Server, revision: str = "2024-11-05", capabilities: Any = None) -> Iterator[Stream]:
    """A client that has shaken hands."""
    with Stream(server) as stream:
        stream.start(revision, capabilities)
        yield stream


@contextmanager
def waiting_post(stream: Stream) -> Iterator[Connection]:
    """A message that is not taken, since nobody reads the stream and its answers are large."""
    echo = {"name": "echo", "arguments": {"text": "x" * 900_000}}
    for number in range(200):
        with Connection(stream.server) as connection:
            connection.begin("POST", JSON, encoded(request(number, "tools/call", echo)), path=stream.path)
            if not select.select([connection.socket], [], [], 2.0)[0]:
                yield connection
                return
            assert connection.response().status == 202
    raise AssertionError("all messages were taken")
