"""Requests on one connection whose heads differ: what was found out about the one before says nothing of the next."""

from __future__ import annotations

import pytest
from auth.authkit import GUARDED, bearer
from inmemory import hosting
from kit import call, discover, serving

from mcpkit import App

VARIANTS: dict[str, tuple[list[tuple[str, str]], int]] = {
    "another name of the server": ([("Host", "evil.example")], 403),
    "a page of somebody else's": ([("Origin", "http://evil.example")], 403),
    "no JSON": ([("Content-Type", "text/plain")], 415),
    "an answer that cannot be": ([("Accept", "text/html")], 406),
    "another method": ([("Mcp-Method", "tools/list")], 400),
    "another tool": ([("Mcp-Name", "other")], 400),
    "another revision": ([("MCP-Protocol-Version", "2025-11-25")], 400),
    "another revision as well": ([("MCP-Protocol-Version", "2026-07-28")] * 2, 400),
    "a value for no parameter": ([("Mcp-Param-Region", "us")], 400),
}
"""What differs from a good request, and the status."""


def test_each_head_is_judged_by_itself() -> None:
    """REQUIREMENTS 4.1, whatever came before on the connection."""
    good = [("Mcp-Param-Region", "eu")]
    message = call(1, "route", {"region": "eu"})
    with serving() as server, server.connect() as connection:
        for wrong, status in VARIANTS.values():
            assert connection.post(message, good).status == 200
            assert connection.post(message, [*good, *wrong]).status == status, wrong
        assert connection.post(message, good).status == 200


def test_the_body_is_judged_by_itself() -> None:
    """HM-16 to HM-18, XH-03: the headers are those of the request before, and only the body is another."""
    with serving() as server, server.connect() as connection:
        headers = {"Mcp-Name": "route", "Mcp-Param-Region": "eu"}
        for tool, region, status in (("route", "eu", 200), ("echo", "eu", 400), ("route", "us", 400)) * 2:
            assert connection.post(call(1, tool, {"region": region}), headers).status == status


def test_each_token_is_looked_at() -> None:
    """AUTH-09: of callers who share a connection of a proxy's, none is another."""
    with serving(GUARDED) as server, server.connect() as connection:
        for token in ("ann", "bob", "ann"):
            assert connection.post(call(1, "who_inline"), bearer(token)).text == token
            assert connection.post(call(1, "who_inline"), bearer("wrong")).status == 401
            assert connection.post(call(1, "who_inline")).status == 401


@pytest.mark.parametrize("path", ["/api/mcp", "/mcp"])
async def test_a_proxy_in_front_of_a_host_application_has_a_prefix_of_its_own(path: str) -> None:
    """PITFALLS, Auth: the host strips its own prefix from no path, the proxy its own from each; and hosts differ."""
    async with hosting(App("mounted"), trusted_proxies=["127.0.0.1"]) as host:
        headers = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Prefix": "/notes"}
        assert (await host.post(discover(), headers, path=path, root="/api")).status == 200
