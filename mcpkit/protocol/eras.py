"""The two eras of the protocol, and everything that differs between them.

Handshake era (2024-11-05 to 2025-11-25): `initialize` settles revision, capabilities and identity for the
whole connection. Stateless era (2026-07-28 on): each request carries them in `params._meta`, and nothing is
remembered.

Rule 1. The era is decided per request, from `_meta` alone; never from headers or from what came before. One
        connection may carry both.
Rule 2. No other module asks which era a request belongs to. What differs is a method here.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType, structs

from mcpkit.protocol import errors, jsonrpc, revisions, types
from mcpkit.protocol.errors import (
    InsufficientScope,
    InvalidMeta,
    InvalidRequest,
    McpError,
    MethodNotFound,
    UnsupportedVersion,
)
from mcpkit.protocol.events import Envelope, Identity
from mcpkit.protocol.headers import Metadata
from mcpkit.protocol.methods import METHODS

_PREFIX = "io.modelcontextprotocol/"
_SERVER_INFO = _PREFIX + "serverInfo"
_SUBSCRIPTION_ID = _PREFIX + "subscriptionId"
_OWN_KEYS = (_PREFIX + "protocolVersion", _PREFIX + "clientCapabilities")

_NEWEST_FIRST: list[str] = list(reversed(revisions.REVISIONS))
_STATELESS_ONLY: list[str] = list(reversed(revisions.STATELESS))


def identify(
    method: str,
    params: types.Params | McpError,
    data: bytes,
    session: Envelope | None,
    metadata: Metadata | None = None,
) -> Envelope:
    """The envelope of a request: its own in the stateless era, the `session`'s in the handshake era.

    `params` is what could be made of the params in `data`, the whole request. `metadata` are the headers of a
    request over HTTP that `is_stateless` has found to be stateless. Raises an `McpError` for the first thing that
    is wrong, in the order of the stateless era's rules: version, shape of `_meta`, method, each with its header;
    the parameters come last, so a bad `params` is not raised here.
    """
    if not isinstance(params, McpError):
        meta = params.meta
        if meta is None or (meta.protocol_version is UNSET and meta.client_capabilities is UNSET):
            if metadata is None:
                return _handshake(method, session)
        elif meta.protocol_version in revisions.STATELESS and meta.client_capabilities is not UNSET:
            return _stateless(method, meta, params, data, metadata)
    loose = _loose_meta(_params(data))
    if metadata is None and not _has_own_keys(loose):
        return _handshake(method, session)
    return _stateless(method, _check_meta(loose, metadata), params, data, metadata)


def _has_own_keys(meta: Any) -> bool:
    return isinstance(meta, dict) and any(key in meta for key in _OWN_KEYS)


def is_stateless(message: jsonrpc.Message, version: str | None) -> bool:
    """Whether a message that came over HTTP belongs to the stateless era. `version` is its header
    MCP-Protocol-Version, which decides only where the body says nothing (ERA-08).
    """
    if message.method == "initialize":
        return _has_own_keys(_loose_meta(message.params))
    if names_stateless(version):
        return True
    if isinstance(message.method, UnsetType):
        return False
    row = METHODS.get(message.method)
    only_here = row is not None and not row.exists_in(revisions.LAST_HANDSHAKE)
    return only_here or _has_own_keys(_loose_meta(message.params))


def version_of(params: dict[str, Any]) -> str | None:
    """The revision that the params of a stateless request name; None for those of the handshake era."""
    meta = params.get("_meta")
    version = meta.get(_OWN_KEYS[0]) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def names_stateless(version: str | None) -> bool:
    """Whether a version is one of the stateless era."""
    return version in revisions.STATELESS


def check_session_version(version: str | None, session: Envelope) -> None:
    """Raise unless the header MCP-Protocol-Version, if there is one, is the session's (HL-10, ERA-08)."""
    if version is None or version == session.revision:
        return
    if version not in revisions.HANDSHAKE:
        raise UnsupportedVersion(version, _NEWEST_FIRST)
    raise InvalidRequest(f"This session speaks {session.revision}, not {version}")


def suspends(envelope: Envelope) -> bool:
    """Whether a handler that asks the client ends its round, instead of waiting for the answer."""
    return envelope.revision >= revisions.FIRST_STATELESS


def primes_streams(session: Envelope) -> bool:
    """Whether a stream begins with an event that it can be resumed from; older clients stumble over it
    (HL-15).
    """
    return session.revision >= revisions.LAST_HANDSHAKE


def _handshake(method: str, session: Envelope | None) -> Envelope:
    row = METHODS.get(method)
    if session is None:
        if row is not None and not row.exists_in(revisions.LAST_HANDSHAKE):
            raise InvalidMeta(f'{method} needs params._meta with "{_OWN_KEYS[0]}" and "{_OWN_KEYS[1]}"')
        if method not in ("initialize", "ping"):
            raise InvalidRequest(
                f"{method} before initialize: send initialize first, or put the protocol version ({revisions.LAST}) "
                f'and the client\'s capabilities into params._meta, as "{_OWN_KEYS[0]}" and "{_OWN_KEYS[1]}"'
            )
        session = _NOBODY
    elif method == "initialize":
        raise InvalidRequest("This connection is initialized already")
    if row is None or not row.exists_in(session.revision):
        raise _unknown(method, session.revision)
    return session


_NOBODY = Envelope(revisions.LAST_HANDSHAKE, None, {}, None)
"""For what may come before `initialize`."""


def negotiate(params: types.InitializeParams) -> Envelope:
    """The session that `initialize` opens: the proposed revision if it has a handshake and is served, else
    the newest that has.
    """
    proposed = params.protocol_version
    revision = proposed if proposed in revisions.HANDSHAKE else revisions.LAST_HANDSHAKE
    return Envelope(revision, params.client_info, params.capabilities, "info")


def _stateless(
    method: str,
    meta: types.RequestMeta,
    params: types.Params | McpError,
    data: bytes,
    metadata: Metadata | None,
) -> Envelope:
    revision = meta.protocol_version
    assert revision is not UNSET and meta.client_capabilities is not UNSET
    row = METHODS.get(method)
    if metadata is not None:
        metadata.check_version(revision)
        metadata.check_method(method)
    if row is None or not row.exists_in(revision):
        raise _unknown(method, revision)
    if metadata is not None and row.named_by:
        metadata.check_name(_named(row.named_by, params, data))
    client = None if meta.client_info is UNSET else meta.client_info
    level = None if meta.log_level is UNSET else meta.log_level
    return Envelope(revision, client, meta.client_capabilities, level)


def _named(member: str, params: types.Params | McpError, data: bytes) -> str:
    """What the body calls, also when its params do not fit: their turn comes after that of the header. A name that
    is none is like no header.
    """
    if not isinstance(params, McpError):
        return str(getattr(params, member))
    raw = _params(data)
    try:
        name = msgspec.json.decode(b"{}" if raw is UNSET else raw).get(member)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, AttributeError):
        name = None
    return name if isinstance(name, str) else ""


def _unknown(method: str, revision: str) -> MethodNotFound:
    return MethodNotFound(f"Method not found: {method} is not part of revision {revision}")


def _params(data: bytes) -> Raw | UnsetType:
    """The params of a request that was read before. What is nested so deeply that it can only just be read cannot
    always be read again: then there are none.
    """
    try:
        return jsonrpc.decode(data).params
    except jsonrpc.Malformed:
        return UNSET


class _LooseParams(msgspec.Struct):
    meta: Any = msgspec.field(default=None, name="_meta")


def _loose_meta(raw: Raw | UnsetType) -> Any:
    try:
        return msgspec.json.decode(b"{}" if raw is UNSET else raw, type=_LooseParams).meta
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


def _check_meta(meta: Any, metadata: Metadata | None) -> types.RequestMeta:
    """The `_meta` of a stateless request that is not as usual. The version comes first: the rest has the
    shape that it defines.
    """
    version = meta.get(_OWN_KEYS[0]) if isinstance(meta, dict) else None
    if not isinstance(version, str):
        raise InvalidMeta(f'params._meta needs "{_OWN_KEYS[0]}", a string')
    if metadata is not None:
        metadata.check_version(version)
    if version in revisions.HANDSHAKE:
        raise UnsupportedVersion(version, _STATELESS_ONLY)
    if version not in revisions.STATELESS:
        raise UnsupportedVersion(version, _NEWEST_FIRST)
    if not isinstance(meta.get(_OWN_KEYS[1]), dict):
        raise InvalidMeta(f'params._meta needs "{_OWN_KEYS[1]}", an object (it may be empty)')
    try:
        return msgspec.convert(meta, types.RequestMeta)
    except msgspec.ValidationError as error:
        at = str(error).rpartition(" - at ")[2].strip("`")
        raise InvalidMeta(f"params._meta does not fit: see {at}") from None


# -- What is sent ------------------------------------------------------------------------


def seal(
    result: types.Result,
    envelope: Envelope,
    identity: Identity,
    *,
    wrap: bool = False,
    subscription: types.RequestId | None = None,
) -> types.Result:
    """`result` as the request's revision receives it; in the stateless era it is filled in itself."""
    revision = envelope.revision
    is_call = isinstance(result, types.CallToolResult)  # the usual
    if revision < revisions.FIRST_STATELESS:
        return revisions.narrow(result if is_call else _without_cache(result), revision, wrap=wrap)
    own: dict[str, Any] = {_SERVER_INFO: identity.implementation}
    if subscription is not None:
        own[_SUBSCRIPTION_ID] = subscription
    result.result_type = result.result_type or "complete"
    result.meta = {**result.meta, **own} if result.meta else own
    if not is_call and isinstance(result, types.CacheableResult) and result.ttl_ms is None:
        result.ttl_ms, result.cache_scope = identity.cache["ttl_ms"], identity.cache["cache_scope"]
    return result


def subscription_meta(subscription: types.RequestId) -> types.Meta:
    """What tells a client to which of its subscriptions a message belongs (SUB-04)."""
    return {_SUBSCRIPTION_ID: subscription}


def _without_cache(result: types.Result) -> types.Result:
    if isinstance(result, types.CacheableResult) and result.ttl_ms is not None:
        return structs.replace(result, ttl_ms=None, cache_scope=None)
    return result


def error_object(error: McpError, envelope: Envelope | None) -> jsonrpc.ErrorObject:
    """`error` with a code that the era knows. `envelope` is None where no era could be told."""
    code = error.code
    if envelope is not None:
        stateless = envelope.revision >= revisions.FIRST_STATELESS
        code = (_STATELESS_CODES if stateless else _HANDSHAKE_CODES).get(code, code)
        if code in _RESERVED and envelope.revision not in _DEFINED_IN.get(code, ()):
            code = errors.INTERNAL_ERROR
    return jsonrpc.ErrorObject(code, error.message, error.data)


_RESERVED = range(-32099, -32000)
"""Codes that no application may use (JSON-RPC 2.0 section 5.1; MCP 2026-07-28, "Error codes")."""
_DEFINED_IN: dict[int, tuple[str, ...]] = {
    errors.RESOURCE_NOT_FOUND: revisions.HANDSHAKE,
    errors.URL_ELICITATION_REQUIRED: (revisions.LAST_HANDSHAKE,),
    errors.HEADER_MISMATCH: revisions.STATELESS,
    errors.MISSING_CLIENT_CAPABILITY: revisions.STATELESS,
    errors.UNSUPPORTED_VERSION: revisions.STATELESS,
}
_STATELESS_CODES = {errors.RESOURCE_NOT_FOUND: errors.INVALID_PARAMS}
_HANDSHAKE_CODES = {errors.MISSING_CLIENT_CAPABILITY: errors.INVALID_REQUEST}


def http_status(error: McpError, *, handshake: bool = False) -> int:
    """The status that an error has over HTTP: 200 for what an application refused (ERR-07). In the handshake
    era a 404 would say that the session has ended (HL-21).
    """
    if isinstance(error, InvalidMeta):
        return 400
    if isinstance(error, InsufficientScope):
        return 403
    if error.code == errors.METHOD_NOT_FOUND:
        return 200 if handshake else 404
    return 400 if error.code in _BAD_REQUESTS else 200


_BAD_REQUESTS = {
    errors.PARSE_ERROR,
    errors.INVALID_REQUEST,
    errors.HEADER_MISMATCH,
    errors.MISSING_CLIENT_CAPABILITY,
    errors.UNSUPPORTED_VERSION,
}


def unreadable_id(session: Envelope | None) -> UnsetType | None:
    """What stands for an id that could not be read: null where the schema demands a member, else none at all."""
    return None if session is not None and session.revision in revisions.NULL_ID else UNSET


def allows_batch(session: Envelope | None) -> bool:
    """Whether an array of messages is allowed on the connection."""
    return session is not None and session.revision in revisions.BATCHES


def capabilities(offered: dict[str, Any], envelope: Envelope) -> dict[str, Any]:
    """The capabilities to declare in the request's revision."""
    if envelope.revision < revisions.COMPLETIONS_CAPABILITY_SINCE:
        return {key: value for key, value in offered.items() if key != "completions"}
    return offered


def supported_versions() -> list[str]:
    """All revisions served, newest first."""
    return list(_NEWEST_FIRST)


# -- The other end: a client -------------------------------------------------------------


class ClientSide:
    """What a client of one revision says of itself, and what it may expect."""

    def __init__(
        self,
        revision: str,
        client: types.Implementation,
        capabilities: dict[str, Any],
        log_level: types.LogLevel | None,
    ) -> None:
        self._revision = revision
        self._client = client
        self._capabilities = capabilities
        self._log_level = log_level
        self._stateless = revision >= revisions.FIRST_STATELESS

    def greeting(self) -> tuple[str, dict[str, Any]]:
        """The request that a client begins with: method and params."""
        if self._stateless:
            return "server/discover", {}
        client = revisions.narrow(self._client, self._revision)
        return "initialize", {
            "protocolVersion": self._revision,
            "capabilities": self._capabilities,
            "clientInfo": client,
        }

    def server_info(self, greeted: dict[str, Any]) -> Any:
        """Where the answer to the greeting says who the server is."""
        return greeted.get("_meta", {}).get(_SERVER_INFO) if self._stateless else greeted.get("serverInfo")

    def request_params(self, params: dict[str, Any], token: types.RequestId | None) -> dict[str, Any]:
        """The params of a request with the `_meta` that it needs; `token` asks for progress."""
        meta: dict[str, Any] = dict(params.get("_meta") or {})
        if self._stateless:
            meta = {
                _OWN_KEYS[0]: self._revision,
                _OWN_KEYS[1]: self._capabilities,
                _PREFIX + "clientInfo": self._client,
                **meta,
            }
            if self._log_level is not None:
                meta.setdefault(_PREFIX + "logLevel", self._log_level)
        if token is not None:
            meta["progressToken"] = token
        return {**params, "_meta": meta} if meta else params

    def set_log_level(self, level: types.LogLevel) -> bool:
        """Whether a request has to say so: the stateless era says it with each request."""
        self._log_level = level
        return not self._stateless

    def asked(self, raw: bytes) -> types.InputRequiredResult | None:
        """The questions that came instead of a result."""
        if not self._stateless or b"input_required" not in raw:
            return None
        result = msgspec.json.decode(raw, type=types.InputRequiredResult)
        return result if result.result_type == "input_required" else None

    def check_result(self, method: str, raw: Raw) -> None:
        """Raise msgspec.ValidationError unless the result is one of the method in this revision."""
        if self.asked(bytes(raw)) is not None:
            return
        result = msgspec.json.decode(raw, type=METHODS[method].result)
        if self._stateless:
            if result.result_type is None:
                raise msgspec.ValidationError(f"{method}: a result needs resultType")
            if isinstance(result, types.CacheableResult) and (
                result.ttl_ms is None or result.cache_scope is None
            ):
                raise msgspec.ValidationError(f"{method}: a result needs ttlMs and cacheScope")
        elif (
            result != revisions.narrow(_without_cache(result), self._revision)
            or result.result_type is not None
        ):
            raise msgspec.ValidationError(f"{method}: the result has what {self._revision} does not know")
