"""What the scopes of a caller's token let it see and use.

Rule 1. Where nobody is asked who they are (stdio, memory, an app without auth) there is no principal, and every scope
        is taken as given.
Rule 2. What a caller may not use is not listed to it; whoever calls it all the same is told all the scopes that this
        needs (AUTH-04), so that one new token is enough.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from mcpkit.app import App
from mcpkit.principal import Principal
from mcpkit.protocol import events, types
from mcpkit.protocol.connection import Connection
from mcpkit.protocol.errors import InsufficientScope
from mcpkit.registry import Record, Registry

_R = TypeVar("_R", bound=Record)
_Result = TypeVar("_Result", bound=types.Result)


def check(app: App, call: events.Call) -> None:
    """Raise `InsufficientScope` when the caller lacks a scope that the call needs."""
    check_params(app, call.principal, call.params)


def check_params(app: App, principal: Principal | None, params: types.Params) -> None:
    """The same for a request that is no call yet."""
    record = None if principal is None else _used(app.registry, params)
    if record is not None and not _may_use(app, principal, record):
        always = () if app.auth is None else app.auth.required_scopes
        raise InsufficientScope(tuple(dict.fromkeys((*always, *record.scopes))))


def _used(registry: Registry, params: types.Params) -> Record | None:
    match params:
        case types.CallToolParams():
            return registry.tools.get(params.name)
        case types.GetPromptParams():
            return registry.prompts.get(params.name)
        case types.ReadResourceParams() | types.SubscribeParams():
            found = registry.find_resource(params.uri)
            return found[0] if found is not None else None
        case types.CompleteParams(ref=types.PromptReference(name=name)):
            return registry.prompts.get(name)
        case types.CompleteParams(ref=types.ResourceReference(uri=uri)):
            return registry.find_template(uri)
        case _:
            return None


def _may_use(app: App, principal: Principal | None, record: Record) -> bool:
    if principal is None or app.auth is None or not record.scopes:
        return True
    return all(app.auth.allows(principal, scope) for scope in record.scopes)


def may_read(app: App, principal: Principal | None, uri: str | None) -> bool:
    """Whether the caller may hear of changes of a resource (SUB-11)."""
    found = None if principal is None or uri is None else app.registry.find_resource(uri)
    return found is None or _may_use(app, principal, found[0])


def may_hear(app: App, principal: Principal | None, connection: Connection, change: events.Change) -> bool:
    """Whether a session is to hear of a change: it wants to, and its caller may read what has changed."""
    return connection.wants(change) and may_read(app, principal, change.uri)


def visible(app: App, call: events.Call, shelf: Mapping[str, _R]) -> list[_R]:
    """What of a shelf the caller may use (AUTH-12)."""
    return [record for record in tuple(shelf.values()) if _may_use(app, call.principal, record)]


def private(app: App, call: events.Call, result: _Result) -> _Result:
    """`result`, which nobody else may be given when it depends on scopes."""
    if call.principal is not None and isinstance(result, types.CacheableResult) and _guards(app):
        result.ttl_ms, result.cache_scope = app.cache.wire["ttl_ms"], "private"
    return result


def check_unguarded(app: App) -> None:
    """Raise TypeError when something needs scopes in an app that asks nobody who they are: over HTTP it would be open
    to all.
    """
    for record in _records(app.registry):
        if record.scopes:
            raise TypeError(
                f"{record.kind} '{record.label}': its scopes={list(record.scopes)} guard nothing over HTTP in an app "
                "without auth=. Give the App one (see mcpkit.auth), or leave the scopes out."
            )


def _records(registry: Registry) -> Iterator[Record]:
    for shelf in (registry.tools, registry.prompts, registry.resources, registry.templates):
        yield from tuple(shelf.values())


def _guards(app: App) -> bool:
    """Whether lists depend on who asks; a provider may do as it likes."""
    return bool(app.sources or needed(app.registry))


def needed(registry: Registry) -> frozenset[str]:
    """The scopes that anything needs."""
    return frozenset(scope for record in _records(registry) for scope in record.scopes)


def granted(app: App, principal: Principal | None, scopes: Iterable[str]) -> frozenset[str] | None:
    """Which of the scopes a caller has; None where nobody is asked (rule 1)."""
    if principal is None or app.auth is None:
        return None
    return frozenset(scope for scope in scopes if app.auth.allows(principal, scope))


def seconds_left(principal: Principal | None) -> float:
    """Until the token expires; for ever where that is not known."""
    expiry = None if principal is None else principal.claims.get("exp")
    if isinstance(expiry, bool) or not isinstance(expiry, int | float) or not expiry < 1e12:
        return math.inf
    return max(0.0, expiry - time.time())
