"""`app.asgi()` in the servers and frameworks that people have, and our own server, each as a real process.

On asyncio hosts the app runs on trio as a guest of the host's loop, which the host knows nothing of: what is checked
here is that it behaves as on trio, and leaves nothing behind.
"""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest
from hosts.apps import GRACE
from hosts.process import APPS, HYPERCORN, MCPKIT, UVICORN, Process, started
from hosts.web import ERAS, Web, old_stream
from support import HANDSHAKE, STATELESS, initialize, request


class Host(NamedTuple):
    """How to start a host, where the endpoint is, how to end it, and whether it waits until its clients have left."""

    command: tuple[str, ...]
    path: str = "/mcp"
    stop: int = signal.SIGTERM
    waits: bool = False


# uvicorn ends its own process with the signal that it got: with SIGTERM at once, so only hosts that forward the
# end of the lifespan tell the app. hypercorn on asyncio waits for ever from Python 3.12 on, whatever the app, and cuts
# clients off with tracebacks of its own before.
HOSTS = {
    "mcpkit": Host((*MCPKIT, "--grace", str(GRACE), "--with-sse", str(APPS))),
    "uvicorn": Host((*UVICORN, "asyncio", "hosts.apps:bare")),
    "uvicorn, uvloop": Host((*UVICORN, "uvloop", "hosts.apps:bare"), stop=signal.SIGINT),
    "uvicorn, starlette": Host(
        (*UVICORN, "asyncio", "hosts.in_starlette:silent"), "/api/mcp", stop=signal.SIGINT
    ),
    "uvicorn, starlette, lifespan": Host((*UVICORN, "asyncio", "hosts.in_starlette:lively"), "/api/mcp"),
    "uvicorn, fastapi": Host(
        (*UVICORN, "uvloop", "hosts.in_fastapi:fastapi"), "/api/mcp", stop=signal.SIGINT
    ),
    "hypercorn, trio": Host((*HYPERCORN, "trio", "hosts.apps:bare")),
    "hypercorn, trio, starlette": Host((*HYPERCORN, "trio", "hosts.in_starlette:silent"), "/api/mcp"),
    "hypercorn, asyncio": Host((*HYPERCORN, "asyncio", "hosts.apps:bare"), waits=True),
}

pytestmark = [pytest.mark.parametrize("name", HOSTS, scope="module")]


class Running(NamedTuple):
    process: Process
    url: str


@contextmanager
def running(name: str) -> Iterator[Running]:
    if "uvloop" in name and importlib.util.find_spec("uvloop") is None:
        pytest.skip("uvloop is not installed")
    host = HOSTS[name]
    with started(host.command, PYTHONWARNINGS="default::RuntimeWarning") as process:
        address = process.expect(r"(?:unning on|serving) (http://[\d.:]+)")[1]
        yield Running(process, address + host.path)


@pytest.fixture(scope="module")
def server(name: str) -> Iterator[Running]:
    """One server for all tests that leave it as it was."""
    with running(name) as server:
        yield server


def test_the_older_transport_stands_beside(server: Running) -> None:
    """SSE-02, SSE-06: the stream says where to post, below whatever the host has in front; leaving it cancels."""
    cancelled = server.process.count("hold is cancelled")
    with old_stream(server.url.replace("/mcp", "/sse")) as (post, messages):
        post(initialize("2024-11-05", 1))
        assert next(messages)["result"]["protocolVersion"] == "2024-11-05"
        post(request(2, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}))
        assert next(messages)["result"]["content"][0]["text"] == "3"
        post(request(3, "tools/call", {"name": "hold", "_meta": {"progressToken": 1}}))
        assert next(messages)["method"] == "notifications/progress"
    server.process.expect("hold is cancelled", times=cancelled + 1)


@pytest.mark.parametrize("revision", ERAS)
def test_every_kind_of_handler_answers_in_both_eras(server: Running, revision: str) -> None:
    """DESIGN 4: one endpoint for both eras; a `def`, an `async def`, and one that needs asyncio itself."""
    with Web(server.url, revision) as web:
        assert [tool["name"] for tool in web.ask("tools/list")["tools"]][:2] == ["add", "add_on_asyncio"]
        assert web.text("add", a=1, b=2) == "3"
        assert web.text("add_on_asyncio", a=2, b=2) == "4"
        assert web.text("repeat", text="süß", times=2) == "süßsüß"


def test_the_path_may_end_with_a_slash(server: Running) -> None:
    """PITFALLS, HTTP: `/mcp` and `/mcp/`, also mounted under a prefix: the same answer, never a redirect."""
    with Web(server.url + "/", STATELESS) as web:
        assert web.text("add", a=1, b=2) == "3"
        assert web.http.post(server.url + "/elsewhere").status_code == 404


@pytest.mark.parametrize("revision", ERAS)
def test_events_arrive_while_the_handler_runs(server: Running, revision: str) -> None:
    """HM-06, HL-04: a stream is no use when the host keeps it until it is complete.

    The handler ends only when a second request, sent after its first event has arrived, lets it; so this is two
    requests in parallel as well (HM-25).
    """
    with Web(server.url, revision) as web, Web(server.url, revision) as other:
        with web.streaming("hold") as messages:
            assert next(messages)["params"]["message"] == "holding"
            other.call("release")
            (answer,) = messages
        assert answer["result"]["content"][0]["text"] == "released"


def test_a_client_that_leaves_a_stream_cancels_the_call(server: Running) -> None:
    """HM-15."""
    cancelled = server.process.count("hold is cancelled")
    with Web(server.url, STATELESS) as web:
        with web.streaming("hold") as messages:
            next(messages)
        server.process.expect("hold is cancelled", times=cancelled + 1)
        assert web.text("add", a=1, b=2) == "3"


def test_a_client_that_leaves_before_the_answer_cancels_the_call(server: Running) -> None:
    """PITFALLS, "the client's socket closes during a call": answered as plain JSON just the same."""
    begun, cancelled = server.process.count("hold begins"), server.process.count("hold is cancelled")
    with Web(server.url, STATELESS) as web:
        with web.asking("hold", quiet=True):
            server.process.expect("hold begins", times=begun + 1)
        server.process.expect("hold is cancelled", times=cancelled + 1)
        assert web.text("add", a=1, b=2) == "3"


def test_a_call_of_a_session_outlives_its_connection(server: Running) -> None:
    """HL-18: in the handshake era it runs to its end, and the session goes on."""
    begun, ended = server.process.count("hold begins"), server.process.count("hold ends")
    with Web(server.url, HANDSHAKE[-1]) as web:
        with web.streaming("hold") as messages:
            next(messages)
        server.process.expect("hold begins", times=begun + 1)
        web.call("release")
        server.process.expect("hold ends", times=ended + 1)
        assert web.text("add", a=1, b=2) == "3"


@pytest.mark.parametrize("kind", ["tool", "value", "group", "exit", "asyncio"])
def test_what_a_handler_raises_stays_in_its_answer(server: Running, kind: str) -> None:
    """TOOL-09: nothing crosses the border between the loops, and the server goes on."""
    with Web(server.url, STATELESS) as web:
        result = web.call("fail", kind=kind)
        assert result["isError"]
        text = result["content"][0]["text"]
        assert text == "the tool says no" if kind == "tool" else "secret" not in text
        assert web.text("add", a=1, b=2) == "3"


@pytest.mark.parametrize("revision", ERAS)
def test_large_bodies_pass_in_both_directions(server: Running, revision: str) -> None:
    """The limit is 4 MiB by default (DESIGN 4.7): hosts hand over a body in pieces."""
    with Web(server.url, revision) as web:
        assert len(web.text("repeat", text="x" * 3_000_000, times=3)) == 9_000_000


def test_a_body_above_the_limit_is_refused(server: Running) -> None:
    """PITFALLS, HTTP: 413 without a dead-lock, also for a body that is still being sent."""
    with Web(server.url, STATELESS) as web:
        message = web.request("tools/call", {"name": "repeat", "arguments": {"text": "x", "times": 1}})
        headers = web.headers(message)
        sized = web.http.post(web.url, content=b" " * 20_000_000, headers=headers)
        assert sized.status_code == 413
        chunked = web.http.post(web.url, content=(b" " * 60_000 for _ in range(300)), headers=headers)
        assert chunked.status_code == 413
        assert web.text("add", a=1, b=2) == "3"


def test_the_host_ends_cleanly_with_requests_in_flight(name: str) -> None:
    """PITFALLS, HTTP: the lifespan runs exactly once for three sessions; open streams end without a traceback.

    A plain call, a streamed one and a session's own stream are open when the host is asked to end.
    """
    with running(name) as (process, url), ExitStack() as clients:
        webs = [clients.enter_context(Web(url, HANDSHAKE[-1])) for _ in range(3)]
        for web in webs:
            assert web.text("add", a=1, b=2) == "3"
        stateless = clients.enter_context(Web(url, STATELESS))
        clients.enter_context(stateless.asking("hold", quiet=True))
        next(clients.enter_context(webs[0].streaming("hold")))
        clients.enter_context(webs[1].listening())
        process.expect("hold begins", times=2)
        process.signal(HOSTS[name].stop)
        if HOSTS[name].waits:
            clients.close()
        assert process.wait() in (0, -HOSTS[name].stop), process.output
        output = process.output
        assert process.count("lifespan begins") == process.count("lifespan ends") == 1, output
        assert process.count("hold is cancelled") == 2, output
        for word in ("Traceback", "Warning", "never awaited", "never retrieved", "destroyed"):
            assert word not in output, output
