"""Validates what a server sends, with the official types of the revision that is spoken.

`validate` looks at one message; a `Watch` follows a connection and knows which request each answer belongs to.

Three things are checked that the official types leave open. They ignore members that they do not know, so a message
must come back from them whole; they have one shape for all of the handshake era, so `_SINCE` says what came later
than the first revision; and the schemas of tools must be valid JSON Schemas.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import mcp_types.methods as official
import pydantic
from mcp_types import jsonrpc

STATELESS = "2026-07-28"
LAST_HANDSHAKE = "2025-11-25"
BATCHES = "2025-03-26"
NO_ID_SINCE = "2025-11-25"
"""An error whose request could not be read has no id from here on, and the id null before."""

_TITLED = {"title": "2025-06-18", "icons": "2025-11-25", "_meta": "2025-06-18"}
_TOOL = {"annotations": "2025-03-26", "outputSchema": "2025-06-18", "execution": "2025-11-25"}
_SINCE: dict[str, dict[str, str]] = {
    "serverInfo": {
        "title": "2025-06-18",
        "description": "2025-11-25",
        "websiteUrl": "2025-11-25",
        "icons": "2025-11-25",
    },
    "capabilities": {"completions": "2025-03-26", "tasks": "2025-11-25"},
    "tools": _TITLED | _TOOL,
    "resources": _TITLED,
    "resourceTemplates": _TITLED,
    "prompts": _TITLED,
    "arguments": {"title": "2025-06-18"},
    "result": {"structuredContent": "2025-06-18"},
    "content": {"_meta": "2025-06-18", "icons": "2025-11-25"},
    "contents": {"_meta": "2025-06-18"},
    "resource": {"_meta": "2025-06-18"},
    "annotations": {"lastModified": "2025-06-18"},
    "notifications/progress": {"message": "2025-03-26"},
}
"""By the member that holds the object: its members that the first revision lacks."""

_BLOCKS_SINCE = {"audio": "2025-03-26", "resource_link": "2025-06-18"}

_OPAQUE = ("inputSchema", "outputSchema", "structuredContent", "_meta", "data", "experimental")
"""Members whose insides are not the protocol's."""


def validate(message: Any, revision: str, request_method: str | None = None) -> None:
    """Check a message of the server, JSON decoded. `request_method` is the method of the request that it answers.

    Raises AssertionError, or a pydantic ValidationError.
    """
    if isinstance(message, list):
        assert revision == BATCHES, "a batch"
        assert message, "an empty batch"
    for part in message if isinstance(message, list) else [message]:
        assert isinstance(part, dict), part
        if "method" in part:
            _check_asked(part, revision)
        elif "error" in part:
            _check_error(part, revision)
        else:
            assert request_method is not None, f"an answer to no request: {part}"
            _check_result(part, revision, request_method)


def _check_asked(message: dict[str, Any], revision: str) -> None:
    method, params = message["method"], message.get("params")
    kind = jsonrpc.JSONRPCRequest if "id" in message else jsonrpc.JSONRPCNotification
    surfaces = official.SERVER_REQUESTS if "id" in message else official.SERVER_NOTIFICATIONS
    kind.model_validate(message)
    assert (method, revision) in surfaces, f"{method} is not part of {revision}"
    _check_whole(surfaces[method, revision], message, revision)
    _check_age(params, method, revision)


def _check_error(message: dict[str, Any], revision: str) -> None:
    jsonrpc.JSONRPCError.model_validate({"id": None} | message)
    assert message.keys() <= {"jsonrpc", "id", "error"}, message
    assert message["error"].keys() <= {"code", "message", "data"}, message
    assert ("id" in message) or revision >= NO_ID_SINCE, "an error without id"
    assert message.get("id", 0) is not None or revision < NO_ID_SINCE, "an error with the id null"


def _check_result(message: dict[str, Any], revision: str, method: str) -> None:
    jsonrpc.JSONRPCResponse.model_validate(message)
    assert message.keys() == {"jsonrpc", "id", "result"}, message
    assert (method, revision) in official.SERVER_RESULTS, f"{method} is not part of {revision}"
    result = message["result"]
    official.validate_server_result(method, revision, result)
    _check_whole(official.SERVER_RESULTS[method, revision], result, revision)
    _check_age(result, "result", revision)
    for tool in result.get("tools", ()) if method == "tools/list" else ():
        for name in ("inputSchema", "outputSchema"):
            _check_schema(json.dumps(tool.get(name, {})))
        assert tool["inputSchema"].get("type") == "object", tool
        assert revision >= STATELESS or tool.get("outputSchema", {}).get("type", "object") == "object", tool
    assert len(result.get("completion", {}).get("values", ())) <= 100, "more than 100 values"


@functools.cache
def _check_schema(schema: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schema))


@functools.cache
def _adapter(surface: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(surface)


def _check_whole(surface: Any, value: dict[str, Any], revision: str) -> None:
    """Raise AssertionError when the official type ignores something in the value."""
    adapter = _adapter(surface)
    parsed = adapter.validate_python(value, by_name=False)
    known = set(_places(adapter.dump_python(parsed, by_alias=True, mode="json", exclude_unset=True)))
    lost = [place for place in _places(value) if place not in known]
    assert not lost, f"{revision} does not know {', '.join(lost)}"


def _places(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield f"{path}.{name}"
            if name not in _OPAQUE:
                yield from _places(member, f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, f"{path}[{index}]")


def _check_age(value: Any, holder: str, revision: str) -> None:
    """Raise AssertionError for a member, or a kind of content, that came after the revision."""
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, dict):
            continue
        for name, since in _SINCE.get(holder, {}).items():
            assert name not in item or revision >= since, f"{holder}.{name} came with {since}"
        kind = str(item.get("type"))
        assert holder != "content" or revision >= _BLOCKS_SINCE.get(kind, ""), f"{kind} is too new"
        for name, member in item.items():
            if name not in _OPAQUE:
                _check_age(member, name, revision)


class Watch:
    """Follows one connection: tell it what the client sends and what comes back, decoded.

    A request says its revision in its own `_meta`, or it has that of the handshake, which is learned from the answer to
    `initialize`.
    """

    def __init__(self) -> None:
        self.revision = LAST_HANDSHAKE
        self.validated = 0
        """How many messages have been validated."""
        self._asked: dict[tuple[type, str], tuple[str, str | None]] = {}
        self._own_revisions: set[str] = set()

    def sent(self, message: Any) -> None:
        """Take note of a message of the client."""
        for part in message if isinstance(message, list) else [message]:
            if isinstance(part, dict) and isinstance(part.get("method"), str):
                own = _own_revision(part)
                self._asked[_key(part)] = (part["method"], own)
                self._own_revisions |= {own} if own is not None else set()

    def received(self, message: Any) -> None:
        """Validate a message of the server. Raises like `validate`."""
        if isinstance(message, list):
            assert self.revision == BATCHES, "a batch"
            assert message, "an empty batch"
        for part in message if isinstance(message, list) else [message]:
            method, own = self._asked.get(_key(part), (None, None))
            if method == "initialize" and "result" in part:
                self.revision = part["result"]["protocolVersion"]
            if "method" in part:  # it does not say which request it belongs to
                self._validate_any(part)
            else:
                validate(part, own or self.revision, method)
            self.validated += 1

    def _validate_any(self, notification: dict[str, Any]) -> None:
        revisions = [self.revision, *self._own_revisions]
        for revision in revisions[:-1]:
            with contextlib.suppress(AssertionError, pydantic.ValidationError):
                return validate(notification, revision)
        return validate(notification, revisions[-1])


def _key(message: dict[str, Any]) -> tuple[type, str]:
    return type(message.get("id")), str(message.get("id"))


def _own_revision(request: Mapping[str, Any]) -> str | None:
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    found = meta.get("io.modelcontextprotocol/protocolVersion") if isinstance(meta, dict) else None
    return found if found == STATELESS else None


def parse(line: bytes | str) -> Any:
    """A line as strict JSON: no NaN, no name twice in an object."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        assert len(set(names)) == len(names), f"a name twice in {names}"
        return dict(pairs)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(line, object_pairs_hook=members, parse_constant=refuse)
