"""What a server offers: its capabilities, and its lists, page by page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec import Raw

from mcpkit.context import Port
from mcpkit.engine import scopes
from mcpkit.engine.invoke import invoke
from mcpkit.engine.pages import Pages
from mcpkit.engine.runtime import Runtime
from mcpkit.protocol import eras, events, jsonrpc, types
from mcpkit.protocol.errors import InvalidParams
from mcpkit.provider import entries, unique
from mcpkit.registry import Registry

PAGE = 1000
"""Entries of a list in one page: some clients read only the first."""

_T = TypeVar("_T")

# -- Capabilities ------------------------------------------------------------------------


_LISTED: dict[str, tuple[str, dict[str, bool]]] = {
    "tools": ("tool", {"listChanged": True}),
    "resources": ("resource", {"subscribe": True, "listChanged": True}),
    "prompts": ("prompt", {"listChanged": True}),
}
"""Changes can be told on every transport and in both eras: on stdio, on the session's own stream, on the stream of a
subscription. So they are always advertised.
"""


def offers(runtime: Runtime, capability: str | None) -> bool:
    """Whether there is something of it, or may be: a session learns only once what there is. What was registered at
    any time counts, and anything may come while the lifespan starts, which clients do not wait for.
    """
    if capability is None or capability == "logging":
        return True
    if capability == "completions":
        return runtime.registry.completes or runtime.provides("complete")
    kind, _ = _LISTED[capability]
    return (
        kind in runtime.registry.kinds
        or runtime.app.lifespan is not None
        or any(source.offers(kind) for source in runtime.app.sources)
    )


def offered(runtime: Runtime) -> dict[str, Any]:
    """The capabilities to declare."""
    names = ("logging", *_LISTED, "completions")
    return {name: _LISTED.get(name, ("", {}))[1] for name in names if offers(runtime, name)}


# -- Lists -------------------------------------------------------------------------------


class _List(NamedTuple):
    shelf: Callable[[Registry], Mapping[str, Any]]
    entry: Callable[[Any], Any]
    provided_by: str
    result: Callable[[list[Any], str | None], types.Result]


LISTS: dict[str, _List] = {
    "tools/list": _List(
        lambda registry: registry.tools,
        lambda tool: tool.definition,
        "list_tools",
        lambda found, cursor: types.ListToolsResult(tools=found, next_cursor=cursor),
    ),
    "prompts/list": _List(
        lambda registry: registry.prompts,
        lambda prompt: prompt.definition,
        "list_prompts",
        lambda found, cursor: types.ListPromptsResult(prompts=found, next_cursor=cursor),
    ),
    "resources/list": _List(
        lambda registry: registry.resources,
        lambda resource: resource.entry(),
        "list_resources",
        lambda found, cursor: types.ListResourcesResult(resources=found, next_cursor=cursor),
    ),
    "resources/templates/list": _List(
        lambda registry: registry.templates,
        lambda template: template.template_entry(),
        "list_resource_templates",
        lambda found, cursor: types.ListResourceTemplatesResult(resource_templates=found, next_cursor=cursor),
    ),
}


def at_once(runtime: Runtime, call: events.Call) -> Raw | None:
    """The list that a call asks for; None when it takes user code to know."""
    row = LISTS[call.method.name]
    if runtime.provides(row.provided_by):
        return None
    if call.method.name == "resources/list" and runtime.registry.listers:
        return None
    assert isinstance(call.params, types.ListParams)
    pages = _pages(runtime)
    caller = scopes.granted(runtime.app, call.principal, pages.needed)
    key = (call.method.name, call.envelope.revision, call.params.cursor, caller)
    return pages.get(key) or pages.keep(key, _encoded(runtime, row, call))


def _pages(runtime: Runtime) -> Pages:
    """What is kept. Whatever changes while a page is made, also by a thread, makes it one of the past: it is looked
    at first.
    """
    app = runtime.app
    basis = (app.registry.version, app.sources, app.cache, app.auth)
    if runtime.pages is None or runtime.pages.basis != basis:
        runtime.pages = Pages(basis, scopes.needed(app.registry))
    return runtime.pages


def _encoded(runtime: Runtime, row: _List, call: events.Call) -> bytes:
    result = _paged(runtime, row, _registered(runtime, row, call), call)
    return jsonrpc.encode(eras.seal(result, call.envelope, runtime.identity))


async def gathered(runtime: Runtime, call: events.Call, params: types.Params, port: Port) -> events.Answer:
    """The list that a call asks for, with what templates and providers enumerate."""
    row = LISTS[call.method.name]
    found = _registered(runtime, row, call)
    if call.method.name == "resources/list":
        for template in scopes.visible(runtime.app, call, runtime.registry.templates):
            if template.lister is None:
                continue
            members = await invoke(runtime, template.lister, {}, call, port, template.timeout)
            found += [template.entry(member) for member in members]
    for handler in runtime.providing(row.provided_by):
        found += entries(row.provided_by, await invoke(runtime, handler, {}, call, port))
    return events.Answer(call, _paged(runtime, row, unique(row.provided_by, found), call))


def _registered(runtime: Runtime, row: _List, call: events.Call) -> list[Any]:
    return [row.entry(record) for record in scopes.visible(runtime.app, call, row.shelf(runtime.registry))]


def _paged(runtime: Runtime, row: _List, found: list[Any], call: events.Call) -> types.Result:
    assert isinstance(call.params, types.ListParams)
    return scopes.private(runtime.app, call, row.result(*_page(found, call.params.cursor)))


def _page(found: Sequence[_T], cursor: str | None) -> tuple[list[_T], str | None]:
    """A page and the cursor of the next; None at the end. Raises `InvalidParams` for a cursor that was not
    given out.
    """
    start = 0 if cursor is None else _position(cursor, len(found))
    end = start + PAGE
    return list(found[start:end]), _cursor(end) if end < len(found) else None


def _cursor(position: int) -> str:
    return base64.urlsafe_b64encode(b"from:%d" % position).decode()


def _position(cursor: str, size: int) -> int:
    for position in range(PAGE, size, PAGE):
        if cursor == _cursor(position):
            return position
    raise InvalidParams("The cursor is unknown or has expired: start again without one")
