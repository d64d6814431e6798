"""What is served must come through the entrance."""

from __future__ import annotations

import json
import random
from typing import Any

import trio
from auth.authkit import GUARDED, bearer
from kit import discover, encoded, eventually, headers_for, serving

from mcpkit import App
from mcpkit.auth import BearerAuth
from mcpkit.engine.runtime import running
from mcpkit.transports.http import Request
from mcpkit.transports.options import HttpOptions
from mcpkit.transports.service import Endpoints


class Asked:
    """A request that has not come through it."""

    def __init__(self, method: str) -> None:
        self.request = Request(method, "/mcp", [(b"host", b"x"), (b"authorization", b"Bearer good")])
        self.status = 0

    async def respond(self, status: int, headers: Any, body: bytes = b"") -> None:
        self.status, self.body = status, body


async def test_an_endpoint_that_is_served_without_it_serves_nobody() -> None:
    """Rule 3 of the gate: a server that forgets it lets nobody in, instead of everybody."""
    app = App("guarded", auth=BearerAuth(lambda token: "ann"))
    async with running(app) as runtime, trio.open_nursery() as nursery:
        for path, handler in Endpoints(runtime, nursery, HttpOptions(with_sse=True)).handlers.items():
            for method in {"/sse": ["GET"], "/message": ["POST"]}.get(path, ["POST", "GET", "DELETE"]):
                exchange: Any = Asked(method)
                await handler(exchange)
                assert exchange.status == 401
                assert "token" in json.loads(exchange.body)["error"]["message"]
        nursery.cancel_scope.cancel()


def test_random_headers_get_nobody_in() -> None:
    """Whatever bytes come: an answer of ours, never a 5xx, and the server goes on."""
    chance = random.Random(7)
    with serving(GUARDED, "--trusted-proxy", "127.0.0.1") as server:
        names = (
            "Authorization",
            "Host",
            "Forwarded",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Forwarded-Prefix",
        )
        parts = [
            "Bearer",
            "ann",
            " ",
            ",",
            ";",
            "=",
            '"',
            "\\",
            "for",
            "host",
            "/",
            "..",
            "[",
            "]",
            ":",
            "%",
            "\xff",
            "1",
        ]
        for _ in range(400):
            headers = {
                chance.choice(names): "".join(chance.choices(parts, k=chance.randrange(12))) for _ in range(3)
            }
            path = chance.choice(
                ["/mcp", "/.well-known/oauth-protected-resource/" + "".join(chance.choices(parts[2:], k=4))]
            )
            path = path.replace(" ", "+").replace("\xff", "%ff")
            response = server.ask(
                "POST", [*headers_for(discover()).items(), *headers.items()], encoded(discover()), path=path
            )
            assert (
                response.status in (400, 401, 403, 404, 405, 429)
                or headers.get("Authorization") == "Bearer ann"
            )
        assert server.post(discover(), bearer("ann")).status == 200


def test_the_access_log_has_refusals_and_no_tokens() -> None:
    """What an operator looks for first; a token in a log is lost."""
    with serving(GUARDED, "-v") as server:
        server.post(discover(), bearer("some-wrong-token"))
        server.ask("GET", {}, None, path="/.well-known/oauth-protected-resource/mcp?access_token=another")
        server.post(discover(), bearer("ann-write"))
        eventually(lambda: "server/discover id=discover 200" in server.errors, "the last line")
        assert "mcpkit: POST /mcp 401\n" in server.errors
        assert "mcpkit: GET /.well-known/oauth-protected-resource/mcp 200\n" in server.errors
        assert not [token for token in ("wrong-token", "another", "ann-write") if token in server.errors]
