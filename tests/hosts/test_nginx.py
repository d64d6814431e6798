"""A real nginx in front of `mcpkit run`, as it is set up to give a server TLS and a place below a prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hosts.nginx import NAME, behind_nginx, needs_nginx
from hosts.process import APPS, Process, serving_http
from hosts.web import ERAS, Web, old_stream
from support import HANDSHAKE, OVER_HTTP, STATELESS, initialize, request

pytestmark = [needs_nginx, OVER_HTTP]

ADDRESS = "https://127.0.0.1"
Connect = Callable[..., Web]
Beyond = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Process, str]]:
    with serving_http(APPS, "--allow-host", NAME, "--with-sse") as (process, url):
        yield process, url
        assert "Traceback" not in process.output


@pytest.fixture(scope="module")
def beyond(server: tuple[Process, str]) -> Iterator[Beyond]:
    """What `httpx.Client` needs to be on the other side of nginx, and to call the server by a name."""
    with behind_nginx(server[1].removesuffix("/mcp")) as transport:
        yield lambda name=NAME: {"transport": transport(), "headers": {"Host": name}}


@pytest.fixture(scope="module")
def connect(beyond: Beyond) -> Connect:
    """Makes a client on the other side of nginx."""

    def make(revision: str, path: str = "/prefix/mcp", name: str = NAME) -> Web:
        return Web(ADDRESS + path, revision, **beyond(name))

    return make


@pytest.mark.parametrize("path", ["/prefix/mcp", "/prefix/mcp/"])
@pytest.mark.parametrize("revision", ERAS)
def test_both_eras_are_served_behind_a_prefix(connect: Connect, revision: str, path: str) -> None:
    """PITFALLS, HTTP: `/mcp` and `/mcp/` behind a TLS proxy: the same answer, never a redirect. The headers of both
    eras pass.
    """
    with connect(revision, path) as web:
        assert web.text("add", a=1, b=2) == "3"
        assert len(web.text("repeat", text="x" * 2_000_000, times=2)) == 4_000_000


@pytest.mark.parametrize("revision", ERAS)
def test_events_arrive_while_the_handler_runs(connect: Connect, revision: str) -> None:
    """HM-12: `X-Accel-Buffering: no`. The handler ends only when a second request lets it."""
    with connect(revision) as web, connect(revision) as other:
        with web.streaming("hold") as messages:
            assert next(messages)["params"]["message"] == "holding"
            other.call("release")
            (answer,) = messages
        assert answer["result"]["content"][0]["text"] == "released"


def test_a_client_that_leaves_cancels_the_call(connect: Connect, server: tuple[Process, str]) -> None:
    """HM-15: nginx closes its own connection then."""
    with connect(STATELESS) as web:
        with web.streaming("hold") as messages:
            next(messages)
        server[0].expect("hold is cancelled")
        assert web.text("add", a=1, b=2) == "3"


def test_a_session_has_its_own_stream_and_its_end(connect: Connect) -> None:
    """HL-08, HL-09, HL-11: GET and DELETE pass, with their headers, and the statuses come back."""
    with connect(HANDSHAKE[-1]) as web:
        with web.listening():
            assert web.text("add", a=1, b=2) == "3"
        assert web.http.delete(web.url, headers=web.session).status_code == 204
        assert web.http.delete(web.url, headers=web.session).status_code == 404


@pytest.mark.parametrize("path", ["/prefix/sse", "/prefix/sse/"])
def test_a_stream_says_where_to_post_behind_the_prefix(
    beyond: Beyond, server: tuple[Process, str], path: str
) -> None:
    """SSE-02: nginx says nothing of the prefix that it takes away, nor of TLS; a relative URL needs neither."""
    cancelled = server[0].count("hold is cancelled")
    with old_stream(ADDRESS + path, **beyond()) as (post, messages):
        post(initialize("2024-11-05", 1))
        assert next(messages)["result"]["serverInfo"]["name"] == "hosted"
        post(request(2, "tools/call", {"name": "hold", "_meta": {"progressToken": 1}}))
        assert next(messages)["method"] == "notifications/progress"
    server[0].expect("hold is cancelled", times=cancelled + 1)


def test_a_name_that_nobody_allowed_is_refused(connect: Connect) -> None:
    """HM-03: nginx hands the name on, and the server listens on a loopback address."""
    web = connect(STATELESS, name="evil.example.com")
    assert web.post(web.request("server/discover")).status_code == 403
    web.http.close()
