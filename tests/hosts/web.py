"""A client of plain HTTP requests, in either era, whose every received message is validated."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import urljoin

import httpx
from clients.messages import STATELESS, Watch, parse
from support import HANDSHAKE, SECONDS, initialize, request

Post = Callable[[dict[str, Any]], None]
ERAS = (HANDSHAKE[-1], STATELESS)
ACCEPT = "application/json, text/event-stream"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Web:
    """One client of the endpoint at `url`, which has done what such a client does first. The options are those of
    `httpx.Client`.
    """

    def __init__(self, url: str, revision: str, **options: Any) -> None:
        self.url = url
        self.revision = revision
        self.watch = Watch()
        self.http = httpx.Client(**{"timeout": SECONDS, "verify": False, "trust_env": False, **options})
        self.session: dict[str, str] = {}
        self._last_id = 0

    def __enter__(self) -> Self:
        if self.revision == STATELESS:
            self.ask("server/discover")
            return self
        response = self.post(initialize(self.revision))
        self._messages(response)
        self.session["Mcp-Session-Id"] = response.headers["mcp-session-id"]
        if self.revision >= "2025-06-18":
            self.session["MCP-Protocol-Version"] = self.revision
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()

    def headers(self, message: dict[str, Any]) -> dict[str, str]:
        """What goes with a message."""
        headers = {"Content-Type": "application/json", "Accept": ACCEPT, **self.session}
        if self.revision == STATELESS:
            headers |= {"MCP-Protocol-Version": STATELESS, "Mcp-Method": message["method"]}
            field = _NAMED_BY.get(message["method"])
            headers |= {"Mcp-Name": message["params"][field]} if field else {}
        return headers

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """A request with an id of its own."""
        self._last_id += 1
        return request(self._last_id, method, params, revision=self.revision)

    def post(self, message: dict[str, Any]) -> httpx.Response:
        """Post a message; the whole answer."""
        self.watch.sent(message)
        return self.http.post(self.url, content=json.dumps(message), headers=self.headers(message))

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The answer to a request: its result, or the whole message when it is an error."""
        (message,) = self._messages(self.post(self.request(method, params)))
        return message.get("result", message)

    def call(self, name: str, **arguments: Any) -> Any:
        """The result of a tool."""
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def text(self, name: str, **arguments: Any) -> str:
        """The text that a tool answers."""
        return str(self.call(name, **arguments)["content"][0]["text"])

    def _messages(self, response: httpx.Response) -> list[Any]:
        if response.headers["content-type"] == "text/event-stream":
            return list(self._events(response.text.splitlines()))
        message = parse(response.text)
        self.watch.received(message)
        return [message]

    def _events(self, lines: Iterable[str]) -> Iterator[Any]:
        for line in lines:
            if line.startswith("data: ") and line != "data: ":  # an empty one primes the stream (HL-15)
                message = parse(line[6:])
                self.watch.received(message)
                yield message

    @contextmanager
    def streaming(self, name: str, **arguments: Any) -> Iterator[Iterator[Any]]:
        """Call a tool and ask for its progress: the messages, each as soon as it arrives. Leaving early closes
        the connection.
        """
        message = self.request(
            "tools/call", {"name": name, "arguments": arguments, "_meta": {"progressToken": "t"}}
        )
        self.watch.sent(message)
        content, headers = json.dumps(message), self.headers(message)
        with self.http.stream("POST", self.url, content=content, headers=headers) as response:
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"] == "text/event-stream"
            yield self._events(response.iter_lines())

    @contextmanager
    def asking(self, name: str, **arguments: Any) -> Iterator[socket.socket]:
        """Send a call, in clear text, and do not wait for the answer; the connection closes at the end of the block."""
        message = self.request("tools/call", {"name": name, "arguments": arguments})
        url, content = httpx.URL(self.url), json.dumps(message).encode()
        headers = {"Host": url.netloc.decode(), **self.headers(message), "Content-Length": str(len(content))}
        head = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
        assert url.port is not None
        with socket.create_connection((url.host, url.port), SECONDS) as connection:
            connection.sendall(f"POST {url.path} HTTP/1.1\r\n{head}\r\n".encode() + content)
            yield connection

    @contextmanager
    def listening(self) -> Iterator[Iterator[Any]]:
        """The session's own stream."""
        headers = {"Accept": "text/event-stream", **self.session}
        with self.http.stream("GET", self.url, headers=headers) as response:
            assert response.status_code == 200, response.read()
            yield self._events(response.iter_lines())


@contextmanager
def old_stream(url: str, **options: Any) -> Iterator[tuple[Post, Iterator[Any]]]:
    """A client of HTTP+SSE: what posts a message, and the messages that come. The options are those of
    `httpx.Client`.
    """
    http = httpx.Client(**{"timeout": SECONDS, "verify": False, "trust_env": False, **options})
    with http, http.stream("GET", url, headers={"Accept": "text/event-stream"}) as response:
        assert response.status_code == 200, response.read()
        data = (line[6:] for line in response.iter_lines() if line.startswith("data: "))
        endpoint = urljoin(url, next(data))

        def post(message: dict[str, Any]) -> None:
            assert http.post(endpoint, json=message).status_code == 202

        yield post, (parse(message) for message in data)
