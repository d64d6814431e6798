"""How `app.asgi()` begins and ends: in loops of all kinds, when starting fails, and when the host ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hosts.process import APPS, UVICORN, Process, serving_http, started
from hosts.web import ERAS, Web
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from support import STATELESS, request

from mcpkit import App

ASKED = request(1, "server/discover", revision=STATELESS)
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": STATELESS,
    "Mcp-Method": "server/discover",
}


class Counted:
    """An app that counts how often it lives."""

    def __init__(self, name: str = "counted") -> None:
        self.begun = self.ended = 0
        self.app = App(name, lifespan=self.lifespan)
        self.asgi = self.app.asgi()

    @asynccontextmanager
    async def lifespan(self, app: App) -> AsyncGenerator[None]:
        self.begun += 1
        yield
        self.ended += 1


async def asked(asgi: Any, path: str = "/mcp") -> None:
    """Ask what is served, with a real client on this loop."""
    transport = httpx.ASGITransport(asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.post(path, json=ASKED, headers=HEADERS)
    assert response.json()["result"]["supportedVersions"]


def test_one_loop_after_the_other(recwarn: pytest.WarningsRecorder) -> None:
    """A test suite runs each of its tests in a loop of its own: the app begins and ends with each."""
    counted = Counted()
    for number in (1, 2):
        asyncio.run(asked(counted.asgi))
        assert (counted.begun, counted.ended) == (number, number)
    assert not recwarn.list


def test_two_loops_at_the_same_time() -> None:
    """Two threads, each with a loop, share an application: each loop has a serving of its own."""
    counted = Counted()
    together = threading.Barrier(2, timeout=20)

    async def main() -> None:
        await asked(counted.asgi)
        await asyncio.to_thread(together.wait)
        await asked(counted.asgi)

    threads = [threading.Thread(target=asyncio.run, args=[main()]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (counted.begun, counted.ended) == (2, 2)


def test_two_apps_on_one_loop() -> None:
    """A thread has room for one trio run: apps that are mounted side by side share it."""
    first, second = Counted("first"), Counted("second")
    host = Starlette(routes=[Mount("/1", first.asgi), Mount("/2", second.asgi)])

    async def main() -> None:
        await asyncio.gather(asked(host, "/1/mcp"), asked(host, "/2/mcp"))

    asyncio.run(main())
    assert [(c.begun, c.ended) for c in (first, second)] == [(1, 1), (1, 1)]


def test_the_end_of_one_app_leaves_the_other() -> None:
    """The shared trio run ends with the last lifespan that holds it."""
    first, second = Counted("first"), Counted("second")

    async def main() -> None:
        async with first.asgi.lifespan():
            async with second.asgi.lifespan():
                await asked(second.asgi)
            assert second.ended == 1
            await asked(first.asgi)
        async with second.asgi.lifespan():  # and a new one begins after the end of the last
            await asked(second.asgi)

    asyncio.run(main())
    assert [(c.begun, c.ended) for c in (first, second)] == [(1, 1), (2, 2)]


@pytest.mark.parametrize("forwarded", [True, False])
def test_the_test_client_of_starlette(forwarded: bool) -> None:
    """It runs the host in a thread with a loop of its own: one for all requests, or a new one for each."""
    counted = Counted()
    host = Starlette(
        routes=[Mount("/api", counted.asgi)], lifespan=counted.asgi.lifespan if forwarded else None
    )
    client = TestClient(host, base_url="http://localhost")
    with ExitStack() as stack:
        if forwarded:
            stack.enter_context(client)
        for _ in range(3):
            response = client.post("/api/mcp", json=ASKED, headers=HEADERS)
            assert response.json()["result"]["supportedVersions"]
    assert counted.begun == counted.ended == (1 if forwarded else 3)


async def test_a_host_that_says_that_the_client_has_gone() -> None:
    """ASGI 2.4: `send` raises an OSError then. It is no failure of the app, and reaches nobody."""
    sent: list[Any] = []
    await _exchange(App("test").asgi(), sent, fails=True)
    assert [message["type"] for message in sent] == ["http.response.start"]


def test_the_same_on_asyncio() -> None:
    """As above, with the error on its way through two loops."""
    sent: list[Any] = []
    asyncio.run(_exchange(App("test").asgi(), sent, fails=True))
    assert [message["type"] for message in sent] == ["http.response.start"]


async def _exchange(
    asgi: Callable[..., Awaitable[None]], sent: list[Any], *, fails: bool, path: str = "/nowhere"
) -> None:
    """One request, to a host whose client leaves after the head of the answer."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        if fails:
            raise ConnectionResetError("the client has gone")

    await asgi({"type": "http", "method": "GET", "path": path, "headers": []}, receive, send)


@pytest.mark.parametrize("options", [("--lifespan", "on"), ("--lifespan", "off")])
def test_a_lifespan_that_fails_is_told_to_the_host(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The host gets the message and ends; without lifespan events each request is answered with 503. The reason is
    on standard error both times, and not in any answer.
    """
    (tmp_path / "failing.py").write_text(FAILING, encoding="utf-8")
    with started((*UVICORN, "asyncio", "--app-dir", str(tmp_path), "failing:asgi", *options)) as process:
        if "on" in options:
            assert process.wait() == 3
        else:
            url = process.expect(r"running on (http://[\d.:]+)")[1]
            response = httpx.post(url + "/mcp", json=ASKED, headers=HEADERS)
            assert response.status_code == 503
            assert "database" not in response.text
        process.expect("ConnectionError: the database is away")
        assert "never" not in process.output


FAILING = """\
from contextlib import asynccontextmanager
from mcpkit import App

@asynccontextmanager
async def lifespan(app):
    raise ConnectionError("the database is away")
    yield

asgi = App("failing", lifespan=lifespan).asgi()
"""


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("server", ["mcpkit", "uvicorn"])
def test_calls_get_time_when_the_server_ends(tmp_path: Path, server: str, revision: str) -> None:
    """PITFALLS, "shutdown with open streams"; DESIGN 4.7, `--grace`: streams that wait for nothing end at once, so that
    clients leave, and a call that is running may come to its end.
    """
    found = tmp_path / "found"
    with ExitStack() as stack:
        process, url = _patient(stack, server)
        listener = stack.enter_context(Web(url, ERAS[0]))
        web = stack.enter_context(Web(url, revision))
        quiet = stack.enter_context(listener.listening())
        messages = stack.enter_context(web.streaming("look_for", path=str(found)))
        assert next(messages)["params"]["message"] == "looking"
        process.signal()
        assert list(quiet) == []
        found.touch()
        (answer,) = messages
        assert answer["result"]["content"][0]["text"] == "found"
        assert process.wait() in (0, -15)
        assert "Traceback" not in process.output


def _patient(stack: ExitStack, server: str) -> tuple[Process, str]:
    if server == "mcpkit":
        return stack.enter_context(serving_http(APPS, "--grace", "60"))
    process = stack.enter_context(started((*UVICORN, "asyncio", "hosts.apps:patient")))
    return process, process.expect(r"running on (http://[\d.:]+)")[1] + "/mcp"
