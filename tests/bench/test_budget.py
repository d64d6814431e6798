"""What a request costs, in a unit that no busy machine can change: calls of our own Python functions.

Each budget is what was counted, and a little more. Whoever exceeds one has put something into the way of every request,
and finds with `counted` what it is.
"""

from __future__ import annotations

import json
import socket
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from support import STATELESS, initialize, request

import mcpkit
from mcpkit import App
from mcpkit.engine.runtime import running
from mcpkit.engine.serve import Session
from mcpkit.transports.lines import LineChannel
from mcpkit.transports.listener import listen
from mcpkit.transports.options import HttpOptions
from mcpkit.transports.service import Service

OURS = str(Path(mcpkit.__file__).parent)
HANDSHAKE = "2025-11-25"


class Item(msgspec.Struct):
    name: str
    size: int


class Order(msgspec.Struct):
    items: list[Item]
    note: str = ""


def make(tools: int = 1) -> App:
    """An app with a simple tool, a typed one, and others that nobody calls."""
    app = App("budget")

    @app.tool
    async def echo(text: str) -> str:
        return text

    @app.tool
    async def order(order: Order) -> Order:
        return order

    for number in range(tools - 1):
        app.add_tool(echo, name=f"other_{number}")
    return app


class Count:
    """The calls of our functions between two marks."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()

    def begin(self) -> None:
        """From here on."""
        sys.setprofile(self._see)

    def end(self) -> None:
        """Up to here."""
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS):
            self.of[f"{Path(code.co_filename).name} {code.co_qualname}"] += 1


def counted(exchange: Callable[[int, Count], Coroutine[Any, Any, None]]) -> Counter[str]:
    """What one more request costs: the difference between 30 of them and 20, since whatever is done once counts in
    both. Fails unless each costs the same.
    """
    counts = []
    for requests in (20, 30):
        count = Count()
        try:
            trio.run(
                exchange, requests, count, clock=trio.testing.MockClock()
            )  # nothing is done now and then
        finally:
            count.end()
        counts.append(count.of)
    more = counts[1] - counts[0]
    assert all(calls % 10 == 0 for calls in more.values()), more
    return Counter({name: calls // 10 for name, calls in more.items()})


def over_lines(app: App, message: Callable[[int], Any], greeting: Any) -> Counter[str]:
    """The cost of a message in a session over lines, each in a read and a write of its own."""

    async def exchange(requests: int, count: Count) -> None:
        sent = [greeting, *(message(number) for number in range(requests))]
        data = [json.dumps(message).encode() + b"\n" for message in sent]
        written = bytearray()

        async def read() -> bytes:
            await trio.lowlevel.checkpoint()
            if len(data) == requests:
                count.begin()
            if not data:
                count.end()
            return data.pop(0) if data else b""

        def write_now(out: bytearray) -> None:
            written.extend(out)
            out.clear()

        async def write(out: bytearray) -> None:
            write_now(out)

        async with running(app) as runtime:
            await Session(runtime, LineChannel(read, write, write_now)).run()
        answers = [json.loads(line) for line in written.splitlines()]
        assert len(answers) == requests + 1
        assert all("result" in answer and not answer["result"].get("isError") for answer in answers)

    return counted(exchange)


ECHO = {"name": "echo", "arguments": {"text": "hello"}}
ORDER = {"name": "order", "arguments": {"order": {"items": [{"name": "a", "size": 1}] * 3}}}

BUDGETS = {
    "call": ("tools/call", ECHO, 40),
    "typed call": ("tools/call", ORDER, 47),
    "list": ("tools/list", {}, 36),
}


@pytest.mark.parametrize("revision", [HANDSHAKE, STATELESS])
@pytest.mark.parametrize("case", BUDGETS)
def test_a_request_over_stdio_stays_within_its_budget(case: str, revision: str) -> None:
    """In both eras: what is counted once here is paid by everybody, each time."""
    method, params, budget = BUDGETS[case]
    greeting = (
        initialize(revision) if revision == HANDSHAKE else request("g", "server/discover", revision=revision)
    )
    cost = over_lines(make(), lambda number: request(number, method, params, revision=revision), greeting)
    assert cost.total() <= budget, "\n".join(f"{calls} {name}" for name, calls in cost.most_common())


def over_http(app: App, message: Callable[[int], Any], headers: dict[str, str]) -> Counter[str]:
    """The cost of a message by POST to the app as ASGI, in a session where the headers name no version."""

    async def post(asgi: Any, body: bytes, headers: dict[str, str]) -> tuple[dict[str, Any], bytes]:
        received = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if not received:
                await trio.sleep_forever()
            return received.pop()

        async def send(event: dict[str, Any]) -> None:
            sent.append(event)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        await asgi(scope, receive, send)
        assert sent[0]["status"] == 200
        return dict(sent[0]["headers"]), b"".join(event.get("body", b"") for event in sent[1:])

    async def exchange(requests: int, count: Count) -> None:
        asgi = app.asgi()
        named = dict(headers)
        async with asgi.lifespan(None):
            if "mcp-protocol-version" not in named:
                found, _ = await post(asgi, json.dumps(initialize(HANDSHAKE)).encode(), named)
                named["mcp-session-id"] = found[b"mcp-session-id"].decode()
            for number in range(requests):
                if number == 5:
                    count.begin()
                _, body = await post(asgi, json.dumps(message(number)).encode(), named)
                assert json.loads(body)["result"]["content"][0]["text"] == "hello"
            count.end()

    return counted(exchange)


def over_listener(app: App, message: Callable[[int], Any], headers: dict[str, str]) -> Counter[str]:
    """The cost of a message by POST to the app's own server, on one connection."""

    async def exchange(requests: int, count: Count) -> None:
        service = Service(app, HttpOptions(grace=0))
        done = trio.Event()
        bound = socket.create_server(("127.0.0.1", 0))
        async with service.living(), trio.open_nursery() as nursery:
            await nursery.start(listen, service, bound, done.wait)
            async with await trio.open_tcp_stream(*bound.getsockname()) as client:
                for number in range(requests):
                    if number == 5:
                        count.begin()
                    body = json.dumps(message(number)).encode()
                    lines = [f"{name}: {value}" for name, value in headers.items()]
                    head = ["POST /mcp HTTP/1.1", *lines, f"content-length: {len(body)}", "", ""]
                    await client.send_all("\r\n".join(head).encode() + body)
                    answer = await client.receive_some()
                    assert answer.startswith(b"HTTP/1.1 200 "), answer
                    assert (
                        json.loads(answer.partition(b"\r\n\r\n")[2])["result"]["content"][0]["text"]
                        == "hello"
                    )
                count.end()
            done.set()

    return counted(exchange)


JSON_OR_STREAM = {
    "host": "localhost",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


@pytest.mark.parametrize(("over", "budget"), [(over_http, 128), (over_listener, 84)])
def test_a_request_over_http_stays_within_its_budget(over: Callable[..., Counter[str]], budget: int) -> None:
    """The same for what HTTP adds: the door, the headers, the answer. A listener's client says the same each time."""
    headers = {
        **JSON_OR_STREAM,
        "mcp-protocol-version": STATELESS,
        "mcp-method": "tools/call",
        "mcp-name": "echo",
    }
    # Numbers of one length, so that the heads are the same.
    cost = over(make(), lambda number: request(100 + number, "tools/call", ECHO, revision=STATELESS), headers)
    assert cost.total() <= budget, "\n".join(f"{calls} {name}" for name, calls in cost.most_common())


def test_a_request_in_a_session_over_http_stays_within_its_budget() -> None:
    """And for what a session adds, which outlives its requests."""
    cost = over_http(
        make(), lambda number: request(number, "tools/call", ECHO, revision=HANDSHAKE), JSON_OR_STREAM
    )
    assert cost.total() <= 170, "\n".join(f"{calls} {name}" for name, calls in cost.most_common())


def test_a_list_costs_the_same_however_long_it_is() -> None:
    """It is kept encoded."""
    costs = [
        over_lines(
            make(tools),
            lambda number: request(number, "tools/list", revision=HANDSHAKE),
            initialize(HANDSHAKE),
        )
        for tools in (1, 500)
    ]
    assert costs[0] == costs[1]
