"""Whether what a server sends is a message of its revision, as the official types have it."""

from __future__ import annotations

import json
from typing import Any

import mcp_types.jsonrpc as official_jsonrpc
import mcp_types.methods as official_methods

NULL_ID = ("2024-11-05", "2025-03-26", "2025-06-18")
"""Revisions in which the error for an unreadable message has a null id (RPC-06)."""
STATELESS = "2026-07-28"
_VERSION = "io.modelcontextprotocol/protocolVersion"


class Audit:
    """Follows one connection. `received` fails for what the revision does not allow."""

    def __init__(self) -> None:
        self._asked: dict[tuple[type, Any], list[tuple[str, str | None]]] = {}
        self.session: str | None = None

    def sent(self, message: Any) -> None:
        """Remember what the client asks; what is not a request is left to the server."""
        if isinstance(message, bytes):
            try:
                message = json.loads(message)
            except (ValueError, RecursionError):
                return
        for item in message if isinstance(message, list) else [message]:
            if (
                isinstance(item, dict)
                and isinstance(item.get("method"), str)
                and type(item.get("id")) in (int, str)
            ):
                asked = self._asked.setdefault((type(item["id"]), item["id"]), [])
                asked.append((item["method"], _own_revision(item)))

    def received(self, message: Any) -> None:
        """Check a message of the server."""
        if isinstance(message, list):
            assert self.session == "2025-03-26", f"a batch in {self.session}"
            assert message
            for item in message:
                assert "method" not in item
                self.received(item)
            return
        assert isinstance(message, dict)
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            self._notified(message)
        elif "error" in message:
            self._failed(message)
        else:
            self._answered(message)

    def _notified(self, message: dict[str, Any]) -> None:
        assert message.keys() <= {"jsonrpc", "method", "params"}, f"not a notification: {message}"
        official_methods.parse_server_notification(
            message["method"], self.session or STATELESS, message.get("params")
        )
        if message["method"] == "notifications/progress":
            params = message["params"]
            assert type(params["progressToken"]) in (int, str)
            assert type(params["progress"]) in (int, float)
            assert type(params.get("total", 0)) in (int, float)
            assert type(params.get("message", "")) is str

    def _failed(self, message: dict[str, Any]) -> None:
        assert message.keys() <= {"jsonrpc", "id", "error"}
        official_jsonrpc.JSONRPCError.model_validate({"id": None, **message}, strict=True)
        if message.get("id") is None:
            assert ("id" in message) == (self.session in NULL_ID), message

    def _answered(self, message: dict[str, Any]) -> None:
        assert message.keys() == {"jsonrpc", "id", "result"}
        official_jsonrpc.JSONRPCResponse.model_validate(message, strict=True)
        asked = self._asked[type(message["id"]), message["id"]]
        if ("initialize", None) in asked and "protocolVersion" in message["result"]:
            self.session = message["result"]["protocolVersion"]
        problems = [self._problem(method, own, message["result"]) for method, own in asked]
        if None not in problems:
            raise AssertionError(f"not a result of {asked}: {message}") from problems[-1]

    def _problem(self, method: str, own: str | None, result: dict[str, Any]) -> Exception | None:
        """Why it cannot be the result of this method; None if it can. Ids may have been used twice."""
        revision = own or self.session or "2025-11-25"
        try:
            official_methods.validate_server_result(method, revision, result)
            stateless = {"resultType", "ttlMs", "cacheScope"} & result.keys()
            assert bool(stateless) == (revision == STATELESS)
        except (KeyError, ValueError, AssertionError) as problem:
            return problem
        return None


def _own_revision(request: dict[str, Any]) -> str | None:
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(_VERSION) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None
