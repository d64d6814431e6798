"""examples/manual.py: the tools stand in a database, and change with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from clients.peer import watched
from support import REVISIONS, STATELESS, request

EXAMPLE = Path(__file__).parents[2] / "examples" / "manual.py"


def names(server: Any, revision: str) -> list[str]:
    """The tools as listed."""
    reply = server.ask("list", "tools/list", {}, revision=revision)
    return [tool["name"] for tool in reply["result"]["tools"]]


def call(server: Any, revision: str, tool: str, **arguments: Any) -> Any:
    """The result of a tool."""
    params = {"name": tool, "arguments": arguments}
    return server.ask("call", "tools/call", params, revision=revision)["result"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_saved_report_becomes_a_tool_and_clients_are_told(revision: str) -> None:
    """DESIGN 4.1, `Provider`: with the notifications that decorated tools have."""
    with watched(EXAMPLE) as server:
        server.start(revision)
        assert names(server, revision) == ["save_report", "sales"]
        if revision == STATELESS:
            filter = {"notifications": {"toolsListChanged": True}}
            server.send(request("listen", "subscriptions/listen", filter, revision=revision))
            assert server.receive()["method"] == "notifications/subscriptions/acknowledged"
        query = "SELECT count(*) AS n FROM sale WHERE amount > CAST(:above AS REAL)"
        params = {"name": "save_report", "arguments": {"name": "big", "about": "Big ones.", "query": query}}
        server.send(request("save", "tools/call", params, revision=revision))
        got = [server.receive(), server.receive()]
        assert {message.get("method", message.get("id")) for message in got} == {
            "notifications/tools/list_changed",
            "save",
        }
        assert names(server, revision) == ["save_report", "big", "sales"]
        assert '"n":1' in call(server, revision, "big", above="5")["content"][0]["text"]


def test_what_is_no_query_or_changes_something_is_refused() -> None:
    """The model is told why; nothing is changed."""
    with watched(EXAMPLE) as server:
        server.start(STATELESS)
        for query, said in (("SELEC", "no query"), ("SELECT 1; DROP TABLE sale", "one statement")):
            refused = call(server, STATELESS, "save_report", name="bad", about="", query=query)
            assert refused["isError"] and said in refused["content"][0]["text"]
        call(server, STATELESS, "save_report", name="wipe", about="", query="DELETE FROM sale")
        assert call(server, STATELESS, "wipe")["isError"]
        assert call(server, STATELESS, "sales")["content"][0]["text"] == "The report needs region."
        assert len(call(server, STATELESS, "sales", region="north")["structuredContent"]) == 2
