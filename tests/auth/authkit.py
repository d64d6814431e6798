"""What the auth tests share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio.testing
from kit import Response, Server, encoded, headers_for, over
from support import STATELESS, initialize, request

SCRIPTS = Path(__file__).parent / "scripts"
GUARDED = SCRIPTS / "guarded.py"


def bearer(token: str) -> dict[str, str]:
    """The header that shows a token."""
    return {"Authorization": f"Bearer {token}"}


def on_own_clock(test: Callable[[trio.testing.MockClock, Any], Awaitable[None]]) -> Callable[[Any], None]:
    """Run an async test of an issuer on a clock that moves only when the test says so: real sockets take their time."""

    def run(issuer: Any) -> None:
        clock = trio.testing.MockClock()
        trio.run(test, clock, issuer, clock=clock, strict_exception_groups=True)

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    return run


class Client:
    """A client of one revision that shows a token, unless another is given with a request."""

    def __init__(self, server: Server, token: str, revision: str = STATELESS) -> None:
        self.server = server
        self.token = token
        self.revision = revision
        self.session: dict[str, str] = {}
        self._id = 0
        if revision == STATELESS:
            return
        opened = server.post(initialize(revision, capabilities={"elicitation": {}}), bearer(token))
        assert opened.status == 200, opened
        self.session["Mcp-Session-Id"] = opened.get("mcp-session-id") or ""
        if revision >= "2025-06-18":
            self.session["MCP-Protocol-Version"] = revision
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202

    def headers(self, token: str | None = None) -> dict[str, str]:
        """What goes with every request."""
        return {**self.session, **bearer(token or self.token)}

    def post(self, message: Any, token: str | None = None) -> Response:
        """Post a message."""
        return self.server.post(message, self.headers(token))

    def request(self, method: str, **params: Any) -> Any:
        """A request with an id of its own."""
        self._id += 1
        return request(self._id, method, params, revision=self.revision)

    def ask(self, method: str, token: str | None = None, **params: Any) -> Response:
        """Send a request."""
        return self.post(self.request(method, **params), token)

    def call(self, tool: str, token: str | None = None, **arguments: Any) -> Response:
        """Call a tool."""
        return self.ask("tools/call", token, name=tool, arguments=arguments)

    def begin(self, connection: Any, method: str, **params: Any) -> None:
        """Send a request on a connection, and leave the response to the caller."""
        message = self.request(method, **params)
        connection.begin("POST", over(headers_for(message), self.headers()), encoded(message))
