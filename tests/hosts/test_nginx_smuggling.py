"""A real nginx in front of our server: they never disagree where a request ends.

Each row of the tables in `test_smuggling` is sent with a good request behind it: as it is, and with a whole request for
a body, which whoever reads the length of the row differently would serve. nginx keeps one connection to the server, for
whoever comes next, so an answer too many would be given to the innocent client that follows each row. Both sides write
down what they see: nginx each request and the status that the server gave it, the server (`-v`) each that it answers.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hosts.nginx import needs_nginx, running_nginx
from hosts.process import Process
from kit import Closed, Connection, Server, discover, encoded, eventually, serving
from support import OVER_HTTP, SERVER
from test_smuggling import BODY, READ, REFUSED, post, send

pytestmark = [needs_nginx, OVER_HTTP]

# A client that waits in vain is told so soon. nginx keeps a body until it is whole, or passes on all that it can.
SERVERS = """
    log_format request 'request $status ($upstream_status) $request_uri';
    access_log /dev/stderr request;
    client_header_timeout 300ms;
    client_body_timeout 300ms;
    lingering_close off;
    proxy_set_header Connection "";
    proxy_set_header Host $host;
    upstream ours {{
        server 127.0.0.1:{port};
        keepalive 1;
    }}
    server {{
        listen unix:{folder}/keeping;
        server_name localhost;
        location / {{
            proxy_pass http://ours;
        }}
    }}
    server {{
        listen unix:{folder}/passing-on;
        server_name localhost;
        ignore_invalid_headers off;
        proxy_request_buffering off;
        location / {{
            proxy_pass http://ours;
        }}
    }}
"""
STATUSLESS = ("line: HTTP/0.9", "line: HTTP/0.9 in words")
"""Rows whose answer is in HTTP/0.9, which has no status."""
ROWS = REFUSED | {name: data for name, (_, data) in READ.items()}


def hidden(start: int) -> bytes:
    """A request as long as the body of a row, behind as many bytes as somebody could take for the whole body."""
    head = b"x" * start + b"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: hidden\r\nX: "
    return head.ljust(len(BODY) - 4, b"x") + b"\r\n\r\n"


BODIES = (BODY, hidden(0), hidden(5))


def good(name: str) -> bytes:
    """A request that is known by its target, and its answer by the id."""
    body = encoded(discover(name))
    length = b"Content-Length: %d\r\n" % len(body)
    return post(length, body=body, line=f"POST /mcp?{name} HTTP/1.1\r\n".encode())


class Seen(NamedTuple):
    """A request as nginx saw it."""

    status: str
    upstream: str
    """The status that the server gave it; a dash for what nginx has not sent, or not to its end."""


class Chain(NamedTuple):
    """nginx with the server behind it, and another server that is asked directly."""

    nginx: Process
    folder: Path
    server: Server
    direct: Server

    def seen(self, since: int, until: str) -> list[Seen]:
        """What nginx has answered."""
        eventually(lambda: until in self.nginx.output[since:], "the last request")
        found = re.findall(r"^request (\d+) \((.*?)\)", self.nginx.output[since:], re.MULTILINE)
        return list(itertools.starmap(Seen, found))

    def served(self, since: int, until: str) -> list[str]:
        """The statuses that the server has answered with."""
        eventually(lambda: until in self.server.errors[since:], "the last request")
        return re.findall(r"^mcpkit: .*? (\d{3})(?: |$)", self.server.errors[since:], re.MULTILINE)


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with (
        serving("things.py", "-v") as server,
        serving("things.py") as direct,
        running_nginx(SERVERS, port=str(server.port)) as (nginx, folder),
    ):
        yield Chain(nginx, folder, server, direct)


def answers(connection: Connection, data: bytes) -> list[str]:
    """The statuses of all answers, up to that of the request that stands behind the row."""
    found: list[str] = []
    with connection, contextlib.suppress(Closed):
        send(connection, [data])
        body = b""
        while b'"behind"' not in body:
            response = connection.response()
            body = response.body
            found.append(str(response.status))
    return found


@pytest.mark.parametrize("way", ["keeping", "passing-on"])
@pytest.mark.parametrize("name", ROWS)
def test_nginx_and_the_server_see_the_same_requests(chain: Chain, name: str, way: str) -> None:
    """RFC 9112 section 11.2: each client gets the answers to its own requests, whatever somebody else has sent."""
    for number, body in enumerate(BODIES):
        data = ROWS[name].replace(BODY, body) + good("behind")
        nginx, server = len(chain.nginx.output), len(chain.server.errors)
        given = answers(Connection(chain.server, chain.folder / way), data)
        innocent = f"innocent-{way}-{list(ROWS).index(name)}-{number}"
        with Connection(chain.server, chain.folder / way) as other:
            other.send(good(innocent))
            assert other.response().message["id"] == innocent
        seen = chain.seen(nginx, innocent)
        logged = [one.status for one in seen[:-1]]
        assert given in (logged, [] if name in STATUSLESS else logged)
        sent = [one.upstream for one in seen if one.upstream != "-"]
        served = chain.served(server, innocent)
        if SERVER != "auto":  # a host refuses what it likes, and logs nothing
            assert len(served) <= len(sent)
            continue
        assert served == sent
        directly = answers(chain.direct.connect(), data)
        if len(directly) > 1 and seen[0].upstream != "-":
            assert directly == given
