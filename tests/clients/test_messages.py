"""The validator of messages refuses what it should: a check that lets everything pass checks nothing."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest
from clients.messages import LAST_HANDSHAKE, STATELESS, Watch, parse, validate
from support import initialize, request

OLDEST = "2024-11-05"
TOOL = {"name": "t", "inputSchema": {"type": "object"}}
INFO = {"name": "s", "version": "1"}


def answer(result: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": result, **more}


def error(**more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "error": {"code": -32600, "message": "no"}, **more}


def listed(tool: dict[str, Any]) -> dict[str, Any]:
    return answer({"tools": [TOOL | tool]})


def text(block: dict[str, Any]) -> dict[str, Any]:
    return answer({"content": [{"type": "text", "text": "x"} | block]})


def notification(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


PROGRESS = {"progressToken": 1, "progress": 1.0}
OFFER = {"protocolVersion": OLDEST, "capabilities": {}, "serverInfo": INFO}
COMPLETE = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": INFO}}
CACHED = COMPLETE | {"ttlMs": 0, "cacheScope": "private"}

RIGHT: list[tuple[Any, str, str | None]] = [
    (answer({}), LAST_HANDSHAKE, "ping"),
    (listed({"title": "T", "outputSchema": {"type": "object"}}), LAST_HANDSHAKE, "tools/list"),
    (answer(CACHED | {"tools": [TOOL | {"outputSchema": {"type": "array"}}]}), STATELESS, "tools/list"),
    (text({"annotations": {"lastModified": "2026-07-28T00:00:00Z"}}), "2025-06-18", "tools/call"),
    (answer({"content": [], "structuredContent": {"title": 1, "icons": 2}}), "2025-06-18", "tools/call"),
    (answer(COMPLETE | {"content": [], "structuredContent": None}), STATELESS, "tools/call"),
    (error(id=1), OLDEST, None),
    (error(id=None), OLDEST, None),
    (error(), LAST_HANDSHAKE, None),
    (notification("notifications/progress", PROGRESS), OLDEST, None),
    (notification("notifications/progress", PROGRESS | {"message": "m"}), "2025-03-26", None),
    ([answer({}), error(id=2)], "2025-03-26", "ping"),
]


@pytest.mark.parametrize(("message", "revision", "method"), RIGHT)
def test_what_the_revision_knows_passes(message: Any, revision: str, method: str | None) -> None:
    """schema.ts of each revision."""
    assert validate(message, revision, method) is None


WRONG: list[tuple[Any, str, str | None]] = [
    ("text", STATELESS, "ping"),
    (answer({}), LAST_HANDSHAKE, None),
    (answer({}), STATELESS, "ping"),
    (answer({}, extra=1), LAST_HANDSHAKE, "ping"),
    ({"jsonrpc": "2.0", "id": None, "result": {}}, LAST_HANDSHAKE, "ping"),
    ({"id": 1, "result": {}}, LAST_HANDSHAKE, "ping"),
    (answer({"tools": [TOOL], "ttlMs": 0, "cacheScope": "private"}), LAST_HANDSHAKE, "tools/list"),
    (answer({"tools": [TOOL]}), STATELESS, "tools/list"),
    (listed({"unknown": 1}), LAST_HANDSHAKE, "tools/list"),
    (listed({"inputSchema": {}}), LAST_HANDSHAKE, "tools/list"),
    (listed({"inputSchema": {"type": "object", "properties": 3}}), LAST_HANDSHAKE, "tools/list"),
    (listed({"outputSchema": {"type": "array"}}), LAST_HANDSHAKE, "tools/list"),
    (listed({"title": "T"}), "2025-03-26", "tools/list"),
    (listed({"icons": [{"src": "https://example.com/i.png"}]}), "2025-06-18", "tools/list"),
    (listed({"annotations": {"readOnlyHint": True}}), OLDEST, "tools/list"),
    (text({"text": 5}), LAST_HANDSHAKE, "tools/call"),
    (text({"_meta": {}}), "2025-03-26", "tools/call"),
    (text({"annotations": {"lastModified": "2026-07-28T00:00:00Z"}}), "2025-03-26", "tools/call"),
    (answer({"content": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]}), OLDEST, "tools/call"),
    (answer({"content": [{"type": "resource_link", "uri": "a:b", "name": "b"}]}), "2025-03-26", "tools/call"),
    (answer({"content": [], "structuredContent": {}}), "2025-03-26", "tools/call"),
    (answer({"content": [], "structuredContent": [1]}), LAST_HANDSHAKE, "tools/call"),
    (answer({"completion": {"values": ["x"] * 101}}), LAST_HANDSHAKE, "completion/complete"),
    (answer(OFFER | {"capabilities": {"completions": {}}}), OLDEST, "initialize"),
    (error(), OLDEST, None),
    (error(id=None), LAST_HANDSHAKE, None),
    (error(id=1, extra=1), LAST_HANDSHAKE, None),
    (error(id=1) | {"error": {"code": "x", "message": "no"}}, LAST_HANDSHAKE, None),
    (notification("notifications/unknown", {}), LAST_HANDSHAKE, None),
    (notification("notifications/progress", PROGRESS | {"message": "m"}), OLDEST, None),
    (notification("notifications/progress", {"progress": 1}), LAST_HANDSHAKE, None),
    ([answer({})], LAST_HANDSHAKE, "ping"),
    ([], "2025-03-26", None),
]  # fmt: skip


@pytest.mark.parametrize(("message", "revision", "method"), WRONG)
def test_what_it_does_not_know_is_refused(message: Any, revision: str, method: str | None) -> None:
    """schema.ts of each revision; NAR of what came later."""
    with pytest.raises((AssertionError, pydantic.ValidationError)):
        validate(message, revision, method)


def test_a_watch_knows_the_revision_and_the_method_of_each_answer() -> None:
    """Handshake and stateless requests on one connection; ids 1 and "1" are not the same."""
    watch = Watch()
    watch.sent(initialize("2025-03-26", id=1))
    watch.received(answer(OFFER | {"protocolVersion": "2025-03-26"}))
    watch.sent(request("1", "tools/list", revision=STATELESS))
    watch.sent(request(2, "tools/list"))
    watch.received({"jsonrpc": "2.0", "id": "1", "result": CACHED | {"tools": [TOOL]}})
    watch.received(answer({"tools": [TOOL]}) | {"id": 2})
    watch.received([answer({"tools": []}) | {"id": 2}])
    assert watch.validated == 4
    with pytest.raises(AssertionError):
        watch.received(answer({"tools": [TOOL | {"title": "T"}]}) | {"id": 2})
    with pytest.raises(AssertionError):
        watch.received(answer({}) | {"id": 3})


@pytest.mark.parametrize("line", [b'{"a": NaN}', b'{"a": 1, "a": 2}', b'{"a": -Infinity}'])
def test_json_is_read_strictly(line: bytes) -> None:
    """RFC 8259: no NaN; names of an object are unique."""
    with pytest.raises(AssertionError):
        parse(line)
