"""Errors that carry their own reply.

Every error that a peer can see is an `McpError`: a JSON-RPC code, a message for people, and optional data.
What an era cannot receive (a code of the other era, a reserved code) is exchanged in `eras`, so that raising
one never needs to know the era.

Codes: JSON-RPC 2.0 section 5.1; MCP revisions 2024-11-05 to 2026-07-28, "Error codes".
"""

from __future__ import annotations

from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
"""Handshake era only; the stateless era uses `INVALID_PARAMS`."""
URL_ELICITATION_REQUIRED = -32042
"""Revision 2025-11-25 only."""
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022


class McpError(Exception):
    """A JSON-RPC error for the client.

    `code` is an integer; applications use numbers outside -32768 to -32000, which are reserved. `message` is
    one sentence for people. `data` is any JSON value, or None for no data.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        if isinstance(code, bool) or not isinstance(code, int) or not isinstance(message, str):
            raise TypeError("the code of an McpError is an integer, and its message a string")
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ParseError(McpError):
    """The bytes are not JSON (-32700)."""

    def __init__(self, message: str) -> None:
        super().__init__(PARSE_ERROR, message)


class InvalidRequest(McpError):
    """JSON, but no request that can be served now (-32600)."""

    def __init__(self, message: str) -> None:
        super().__init__(INVALID_REQUEST, message)


class MethodNotFound(McpError):
    """The method does not exist in this revision, or the server does not offer it (-32601)."""

    def __init__(self, message: str) -> None:
        super().__init__(METHOD_NOT_FOUND, message)


class InvalidParams(McpError):
    """The parameters do not fit (-32602). Handlers may raise it to refuse a request as a protocol error."""

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(INVALID_PARAMS, message, data)


class InvalidMeta(InvalidParams):
    """`params._meta` is not what the stateless era needs (-32602)."""


class NotFound(McpError):
    """There is no such resource (-32002 in the handshake era, -32602 in the stateless era). Resource handlers
    raise it.
    """

    def __init__(self, message: str = "Not found", data: Any = None) -> None:
        super().__init__(RESOURCE_NOT_FOUND, message, data)


class InternalError(McpError):
    """The server failed (-32603). The message never holds internals of the failure."""

    def __init__(self, message: str = "Internal error") -> None:
        super().__init__(INTERNAL_ERROR, message)


class InsufficientScope(McpError):
    """The caller's token lacks some of the `scopes`, which are all that the operation needs (-32600, and 403 over
    HTTP).
    """

    def __init__(self, scopes: tuple[str, ...]) -> None:
        super().__init__(INVALID_REQUEST, f"This needs a token with the scopes: {' '.join(scopes)}")
        self.scopes = scopes


class HeaderMismatch(McpError):
    """A header that mirrors the body is missing, malformed or different (-32020, stateless era over HTTP)."""

    def __init__(self, message: str) -> None:
        super().__init__(HEADER_MISMATCH, message)


class MissingCapability(McpError):
    """The request cannot be served without client capabilities that it does not declare (-32021)."""

    def __init__(self, needed: dict[str, Any]) -> None:
        names = ", ".join(needed)
        super().__init__(
            MISSING_CLIENT_CAPABILITY,
            f"This request needs the client to support: {names}",
            {"requiredCapabilities": needed},
        )


class UnsupportedVersion(McpError):
    """The request names a revision that is not served per request (-32022, stateless era)."""

    def __init__(self, requested: str, supported: list[str]) -> None:
        message = f"Protocol version {requested!r} is not supported here; use one of: {', '.join(supported)}"
        super().__init__(UNSUPPORTED_VERSION, message, {"supported": supported, "requested": requested})
