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
from mcpkit.protocol.errors import InvalidParams, InvalidRequest, McpError, MethodNotFound, UnsupportedVersion
from mcpkit.protocol.events import Envelope, Identity
from mcpkit.protocol.methods import METHODS, Method

_PREFIX = "io.modelcontextprotocol/"
_SERVER_INFO = _PREFIX + "serverInfo"
_OWN_KEYS = (_PREFIX + "protocolVersion", _PREFIX + "clientCapabilities")

_NEWEST_FIRST: list[str] = list(reversed(revisions.REVISIONS))
_STATELESS_ONLY: list[str] = list(reversed(revisions.STATELESS))


def identify(
    method: str, params: types.Params | McpError, raw: Raw | UnsetType, session: Envelope | None
) -> Envelope:
    """The envelope of a request: its own in the stateless era, the `session`'s in the handshake era.

    `params` is what `methods.decode_params` made of `raw`. Raises an `McpError` for the first thing that is
    wrong, in the order of the stateless era's rules: version, shape of `_meta`, method; the parameters come
    last, so a bad `params` is not raised here.
    """
    if isinstance(params, types.Params):
        meta = params.meta
        if meta is None or (meta.protocol_version is UNSET and meta.client_capabilities is UNSET):
            return _handshake(method, session)
        if meta.protocol_version in revisions.STATELESS and meta.client_capabilities is not UNSET:
            return _stateless(method, meta)
    loose = _loose_meta(raw)
    if not isinstance(loose, dict) or not any(key in loose for key in _OWN_KEYS):
        return _handshake(method, session)
    return _stateless(method, _check_meta(loose))


def _handshake(method: str, session: Envelope | None) -> Envelope:
    row = METHODS.get(method)
    if session is None and row is not None and not row.exists_in(revisions.LAST_HANDSHAKE):
        raise InvalidParams(f'{method} needs params._meta with "{_OWN_KEYS[0]}" and "{_OWN_KEYS[1]}"')
    if session is None and method not in ("initialize", "ping"):
        raise InvalidRequest(
            f"{method} before initialize: send initialize first, or put the protocol version ({revisions.LAST}) and "
            f'the client\'s capabilities into params._meta, as "{_OWN_KEYS[0]}" and "{_OWN_KEYS[1]}"'
        )
    if session is not None and method == "initialize":
        raise InvalidRequest("This connection is initialized already")
    envelope = session or _NOBODY
    _check_method(row, method, envelope.revision)
    return envelope


_NOBODY = Envelope(revisions.LAST_HANDSHAKE, None, {}, None)
"""For what may come before `initialize`."""


def negotiate(params: types.InitializeParams) -> Envelope:
    """The session that `initialize` opens: the proposed revision if it has a handshake and is served, else
    the newest that has.
    """
    proposed = params.protocol_version
    revision = proposed if proposed in revisions.HANDSHAKE else revisions.LAST_HANDSHAKE
    return Envelope(revision, params.client_info, params.capabilities, "info")


def _stateless(method: str, meta: types.RequestMeta) -> Envelope:
    revision = meta.protocol_version
    assert isinstance(revision, str) and not isinstance(meta.client_capabilities, UnsetType)
    _check_method(METHODS.get(method), method, revision)
    client = None if isinstance(meta.client_info, UnsetType) else meta.client_info
    level = None if isinstance(meta.log_level, UnsetType) else meta.log_level
    return Envelope(revision, client, meta.client_capabilities, level)


def _check_method(row: Method | None, method: str, revision: str) -> None:
    if row is None or not row.exists_in(revision):
        raise MethodNotFound(f"Method not found: {method} is not part of revision {revision}")


class _LooseParams(msgspec.Struct):
    meta: Any = msgspec.field(default=None, name="_meta")


def _loose_meta(raw: Raw | UnsetType) -> Any:
    try:
        return msgspec.json.decode(b"{}" if raw is UNSET else raw, type=_LooseParams).meta
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


def _check_meta(meta: dict[str, Any]) -> types.RequestMeta:
    """The `_meta` of a stateless request that is not as usual. The version comes first: the rest has the
    shape that it defines.
    """
    version = meta.get(_OWN_KEYS[0])
    if not isinstance(version, str):
        raise InvalidParams(f'params._meta needs "{_OWN_KEYS[0]}", a string')
    if version in revisions.HANDSHAKE:
        raise UnsupportedVersion(version, _STATELESS_ONLY)
    if version not in revisions.STATELESS:
        raise UnsupportedVersion(version, _NEWEST_FIRST)
    if not isinstance(meta.get(_OWN_KEYS[1]), dict):
        raise InvalidParams(f'params._meta needs "{_OWN_KEYS[1]}", an object (it may be empty)')
    try:
        return msgspec.convert(meta, types.RequestMeta)
    except msgspec.ValidationError as error:
        at = str(error).rpartition(" - at ")[2].strip("`")
        raise InvalidParams(f"params._meta does not fit: see {at}") from None


# -- What is sent ------------------------------------------------------------------------


def seal(result: types.Result, envelope: Envelope, identity: Identity, *, wrap: bool) -> types.Result:
    """`result` as the request's revision receives it."""
    if envelope.revision < revisions.FIRST_STATELESS:
        return revisions.narrow(_without_cache(result), envelope.revision, wrap=wrap)
    own = {_SERVER_INFO: identity.implementation}
    changes: dict[str, Any] = {
        "result_type": "complete",
        "meta": {**result.meta, **own} if result.meta else own,
    }
    if isinstance(result, types.CacheableResult) and result.ttl_ms is None:
        changes.update(identity.cache)
    return structs.replace(result, **changes)


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
        if code in _RESERVED and code not in (_STATELESS_OWN if stateless else _HANDSHAKE_OWN):
            code = errors.INTERNAL_ERROR
    return jsonrpc.ErrorObject(code, error.message, error.data)


_RESERVED = range(-32099, -32000)
"""Codes that no application may use (JSON-RPC 2.0 section 5.1; MCP 2026-07-28, "Error codes")."""
_STATELESS_OWN = {errors.HEADER_MISMATCH, errors.MISSING_CLIENT_CAPABILITY, errors.UNSUPPORTED_VERSION}
_HANDSHAKE_OWN = {errors.RESOURCE_NOT_FOUND, errors.URL_ELICITATION_REQUIRED}
_STATELESS_CODES = {errors.RESOURCE_NOT_FOUND: errors.INVALID_PARAMS}
_HANDSHAKE_CODES = {errors.MISSING_CLIENT_CAPABILITY: errors.INVALID_REQUEST}


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

    def request_params(
        self, method: str, params: dict[str, Any], token: types.RequestId | None
    ) -> dict[str, Any]:
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

    def check_result(self, method: str, raw: Raw) -> None:
        """Raise msgspec.ValidationError unless the result is one of the method in this revision."""
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
