"""The methods that a server answers: one row each.

A new RPC is a row here and an action in `engine.dispatch`. `since` and `until` are the first and last
revision that know the method.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Union

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from mcpkit.protocol import types
from mcpkit.protocol.errors import InvalidParams, McpError
from mcpkit.protocol.revisions import FIRST, FIRST_STATELESS, LAST, LAST_HANDSHAKE


class Method(Struct, frozen=True):
    """One RPC: its parameters and result, the revisions that have it, and the server capability that it
    needs.
    """

    name: str
    params: type[types.Params]
    result: type[types.Result]
    capability: str | None = None
    since: str = FIRST
    until: str = LAST
    named_by: str | None = None
    """The parameter that the header Mcp-Name repeats."""
    streams: bool = False
    """Whether its answer is a stream that goes on."""

    def exists_in(self, revision: str) -> bool:
        """Whether `revision` has this method."""
        return self.since <= revision <= self.until


_ROWS = (
    Method("initialize", types.InitializeParams, types.InitializeResult, until=LAST_HANDSHAKE),
    Method("ping", types.Params, types.Result, until=LAST_HANDSHAKE),
    Method("server/discover", types.Params, types.DiscoverResult, since=FIRST_STATELESS),
    Method("logging/setLevel", types.SetLevelParams, types.Result, "logging", until=LAST_HANDSHAKE),
    Method("tools/list", types.ListParams, types.ListToolsResult, "tools"),
    Method("tools/call", types.CallToolParams, types.CallToolResult, "tools", named_by="name"),
    Method("resources/list", types.ListParams, types.ListResourcesResult, "resources"),
    Method("resources/templates/list", types.ListParams, types.ListResourceTemplatesResult, "resources"),
    Method("resources/read", types.ReadResourceParams, types.ReadResourceResult, "resources", named_by="uri"),
    Method("resources/subscribe", types.SubscribeParams, types.Result, "resources", until=LAST_HANDSHAKE),
    Method("resources/unsubscribe", types.SubscribeParams, types.Result, "resources", until=LAST_HANDSHAKE),
    Method("subscriptions/listen", types.ListenParams, types.Result, since=FIRST_STATELESS, streams=True),
    Method("prompts/list", types.ListParams, types.ListPromptsResult, "prompts"),
    Method("prompts/get", types.GetPromptParams, types.GetPromptResult, "prompts", named_by="name"),
    Method("completion/complete", types.CompleteParams, types.CompleteResult, "completions"),
)

METHODS = {row.name: row for row in _ROWS}


class Request(Struct, tag_field="method"):
    """A request as it should be, of a method that names what it is for: those may have large parameters. Each has a
    subclass, with its `row` and its `params`.
    """

    row: ClassVar[Method]

    jsonrpc: Literal["2.0"]
    id: types.RequestId
    params: types.Params


def _request(row: Method) -> Any:
    members = [("params", row.params)]
    return msgspec.defstruct("Request", members, bases=(Request,), tag=row.name, namespace={"row": row})


_Usual: Any = Union[tuple(_request(row) for row in _ROWS if row.named_by)]  # noqa: UP007 - built at run time
_decode_usual = msgspec.json.Decoder(_Usual).decode


def read(text: bytes) -> Request | None:
    """The request in a JSON text, in one pass; None when it is anything else, which takes more of them."""
    try:
        request: Request = _decode_usual(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    return request


_DECODERS = {row.name: msgspec.json.Decoder(row.params).decode for row in _ROWS}
_decode_plain = msgspec.json.Decoder(types.Params).decode


def decode_params(method: str, params: Raw | UnsetType) -> types.Params | McpError:
    """The typed parameters of a request; for an unknown method only what every request has. An error is
    returned, not raised: whether it is the first thing to complain about depends on the era.
    """
    decode = _DECODERS.get(method, _decode_plain)
    try:
        return decode(b"{}" if params is UNSET else params)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        return InvalidParams(f"Invalid params for {method}: {_reason(error)}")


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text = str(error)
    if text.startswith("Invalid enum value"):  # would echo what the client sent
        return "Invalid value" + text[text.find(" - at") :] if " - at" in text else "Invalid value"
    return text
