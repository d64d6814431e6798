"""What a connection tells the engine, and what the engine tells a connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from mcpkit.protocol.errors import McpError
from mcpkit.protocol.methods import Method
from mcpkit.protocol.types import (
    Implementation,
    LogLevel,
    Params,
    RequestId,
    Result,
    SubscriptionFilter,
)


class Envelope(Struct):
    """Who asks, and in which revision: from the handshake, where all calls of a session share it, or from the
    request's own `_meta`.
    """

    revision: str
    client: Implementation | None
    capabilities: dict[str, Any]
    log_level: LogLevel | None
    """The least severe level that may be sent; None for no log messages."""


class Batch:
    """The replies to one JSON-RPC batch, which leave together when the last is known."""

    def __init__(self, size: int) -> None:
        self.waiting = size
        self.replies: list[bytes] = []


# -- From the client ---------------------------------------------------------------------


class Call(Struct, eq=False):
    """A request to be answered exactly once, or dropped when it is cancelled."""

    id: RequestId
    method: Method
    params: Params
    data: bytes
    """The request as it came, in JSON."""
    envelope: Envelope
    batch: Batch | None = None
    progress: float | None = None
    """The last progress sent: values must increase."""
    principal: Any = None
    """Who asks (a `Principal`), from the transport; None where nobody is asked who they are."""

    @property
    def progress_token(self) -> RequestId | UnsetType:
        """What the client wants progress notifications tagged with; unset when it wants none."""
        meta = self.params.meta
        return UNSET if meta is None else meta.progress_token


class Cancel(Struct):
    """The client no longer wants the answer to `call`."""

    call: Call


class Initialized(Struct):
    """The client is ready for what nobody asked for."""


class Reply(Struct):
    """The client's response to a question."""

    id: RequestId
    result: Raw | UnsetType
    error: Raw | UnsetType


class Refuse(Struct):
    """A message that becomes no call: the error to send back as it is."""

    error: McpError
    id: RequestId | None
    batch: Batch | None = None


Received = Call | Cancel | Initialized | Reply | Refuse


# -- To the client -----------------------------------------------------------------------


class Answer(Struct):
    """The result of a call; one that is `Raw` is sent as it is. `wrap`: see `revisions.narrow`."""

    call: Call
    result: Result | Raw
    wrap: bool = False


class Failure(Struct):
    """The error that answers a call."""

    call: Call
    error: McpError


class Dropped(Struct):
    """A call that ended without an answer, because it was cancelled."""

    call: Call


class Progress(Struct):
    """How far a call is."""

    call: Call
    progress: float
    total: float | None = None
    message: str | None = None


class Log(Struct):
    """A log message that belongs to a call. `data` is any JSON value."""

    call: Call
    level: LogLevel
    data: Any
    logger: str | None = None


class Change(Struct, frozen=True):
    """A list of tools, prompts or resources has changed, or one resource has."""

    kind: Literal["tools", "prompts", "resources", "resource"]
    uri: str | None = None


class Acknowledged(Struct):
    """What of a subscription is honoured."""

    call: Call
    honoured: SubscriptionFilter


class Notify(Struct):
    """A change, for the subscription `call`, or without one for the session."""

    change: Change
    call: Call | None = None


Said = Progress | Log | Acknowledged | Notify
"""What is sent while a call runs."""

Sent = Answer | Failure | Dropped | Refuse | Said


class Identity(Struct, frozen=True):
    """What a server says of itself on each connection. `cache` maps ttl_ms and cache_scope of cacheable
    results.
    """

    implementation: Implementation
    cache: Mapping[str, Any]
