"""Tools, resources and prompts whose lists come from elsewhere: a database, another API."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from mcpkit import checks
from mcpkit.context import Context, SyncContext
from mcpkit.errors import NotFound
from mcpkit.handler import Handler
from mcpkit.output import BadResult
from mcpkit.protocol import types

_T = TypeVar("_T", types.Tool, types.Prompt, types.Resource, types.ResourceTemplate)


class Provider:
    """Override what there is to offer, and give an instance to `app.add_provider`.

    Methods may be `async def`, with a `Context`; or plain `def`, with a `SyncContext`, in a worker thread. Lists may
    be generators. An entry of a list is an object of `mcpkit.protocol.types`, or a dict as the protocol writes it
    (`{"name": …, "inputSchema": …}`). What the others return is what decorated functions return. The arguments are
    JSON, as the client sent them: nothing here knows their types.

    The app's own tools, resources and prompts come first, then each provider in the order in which it was added. One
    that does not know a name raises `NotFound`, and the next is asked. When a list changes, say so:
    `app.notifier.tools_changed()` and the like.
    """

    loop: ClassVar[Literal["asyncio"] | None] = None
    """"asyncio" for `async def` methods that use a library which needs it."""

    def list_tools(self, ctx: Any) -> Any:
        """The tools: `Tool`s, each with a name and an input schema."""
        return ()

    def call_tool(self, ctx: Any, name: str, arguments: dict[str, Any]) -> Any:
        """The result of a tool. Raises `NotFound` for a name that is none of its own."""
        raise NotFound

    def list_resources(self, ctx: Any) -> Any:
        """The resources: `Resource`s, each with a URI and a name."""
        return ()

    def list_resource_templates(self, ctx: Any) -> Any:
        """The families of resources: `ResourceTemplate`s, each with a URI template and a name."""
        return ()

    def read_resource(self, ctx: Any, uri: str) -> Any:
        """The contents of a resource: text, bytes, an `EmbeddedResource` with a MIME type of its own, or a list of
        these; anything else is JSON. Raises `NotFound`.
        """
        raise NotFound

    def list_prompts(self, ctx: Any) -> Any:
        """The prompts: `Prompt`s, each with a name."""
        return ()

    def get_prompt(self, ctx: Any, name: str, arguments: dict[str, str]) -> Any:
        """The messages of a prompt. Raises `NotFound`."""
        raise NotFound

    def complete(self, ctx: Any, ref: Any, argument: str, value: str, arguments: dict[str, str]) -> Any:
        """How `value`, typed so far, may go on: strings. `ref` is a `PromptReference` with a `name`, or a
        `ResourceReference` with the `uri` of a template; `arguments` are those that have a value already. Raises
        `NotFound`.
        """
        raise NotFound


_LISTS: dict[str, tuple[type[msgspec.Struct], str]] = {
    "list_tools": (types.Tool, "name"),
    "list_prompts": (types.Prompt, "name"),
    "list_resources": (types.Resource, "uri"),
    "list_resource_templates": (types.ResourceTemplate, "uri_template"),
}
"""What each list holds, and what its entries are told apart by."""

OFFERS: dict[str, tuple[str, ...]] = {
    "tool": ("list_tools", "call_tool"),
    "prompt": ("list_prompts", "get_prompt"),
    "resource": ("list_resources", "list_resource_templates", "read_resource"),
}
"""By kind: the methods that make a provider offer something of it."""

_METHODS = (*_LISTS, "call_tool", "read_resource", "get_prompt", "complete")


class Source:
    """A provider as it is served: a handler for each method that it overrides. Raises TypeError for what is none."""

    def __init__(self, provider: Provider) -> None:
        if not isinstance(provider, Provider):
            raise TypeError(f"a provider is an instance of a subclass of mcpkit.Provider, not {provider!r}.")
        kind = type(provider)
        _check_names(kind)
        self.handlers = {
            name: _handler(getattr(provider, name), kind.loop, lists=name in _LISTS)
            for name in _METHODS
            if getattr(kind, name) is not getattr(Provider, name)
        }

    def offers(self, kind: str) -> bool:
        """Whether there may be something of a kind: "tool", "prompt" or "resource"."""
        return any(method in self.handlers for method in OFFERS[kind])


def _check_names(kind: type[Provider]) -> None:
    """Raise TypeError for a method that was meant to be one of a provider's, and cannot be called like it."""
    import difflib  # which an app without providers need not wait for

    own = {name for base in kind.__mro__ if base not in Provider.__mro__ for name in vars(base)}
    for name in sorted(own):
        meant = difflib.get_close_matches(name, _METHODS, n=1, cutoff=0.85)
        if meant and name not in _METHODS and callable(getattr(kind, name)):
            raise TypeError(
                f"{kind.__name__}.{name}: a provider has no such method. Is it meant to be {meant[0]}?"
            )
        if name in _METHODS:
            _check_parameters(kind, name)


def _check_parameters(kind: type[Provider], name: str) -> None:
    wanted = list(inspect.signature(getattr(Provider, name)).parameters)
    try:
        inspect.signature(getattr(kind, name)).bind(*wanted)
    except TypeError:
        raise TypeError(f"{kind.__name__}.{name} takes ({', '.join(wanted)}).") from None


def _handler(method: Callable[..., Any], loop: str | None, *, lists: bool) -> Handler:
    async def wait(ctx: Context, **values: Any) -> Any:
        return await method(ctx, *values.values())

    async def collect(ctx: Context, **values: Any) -> Any:
        return [item async for item in method(ctx, *values.values())]

    def block(ctx: SyncContext, **values: Any) -> Any:
        returned = method(ctx, *values.values())
        # What is lazy, as the query of a database may be, is read in this thread and not in the engine's.
        lazy = inspect.isgenerator(returned) or (lists and _is_list(returned))
        return list(returned) if lazy else returned

    if inspect.iscoroutinefunction(method):
        handler = Handler(wait, loop=loop, raw=True)
    elif inspect.isasyncgenfunction(method):
        handler = Handler(collect, loop=loop, raw=True)
    else:
        handler = Handler(block, raw=True)
    handler.resolve()
    return handler


def entries(method: str, returned: Any) -> list[Any]:
    """The entries of a list that a provider returned. Raises `BadResult` for what no client could read."""
    kind, _ = _LISTS[method]
    if not _is_list(returned):
        raise BadResult(f"{method} returns a list of {kind.__name__}s, not {type(returned).__name__}")
    return [_entry(method, kind, item) for item in returned]


def _is_list(returned: Any) -> bool:
    return isinstance(returned, Iterable) and not isinstance(returned, str | bytes | Mapping)


def _entry(method: str, kind: type[Any], item: Any) -> Any:
    try:
        entry = checks.check_wire(item) if isinstance(item, kind) else msgspec.convert(item, kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise BadResult(f"{method} returned what is no {kind.__name__}: {error}") from None
    if isinstance(entry, types.Tool) and not checks.is_tool_name(entry.name):
        raise BadResult(
            f"{method} returned a tool with the name {entry.name[:128]!r}, which no client can call"
        )
    if isinstance(entry, types.Tool) and entry.input_schema.get("type") != "object":
        raise BadResult(f'{method}: the input schema of {entry.name!r} needs "type": "object" at its root')
    return entry


def unique(method: str, found: Iterable[_T]) -> list[_T]:
    """Each name or URI once: the first that has it is the one that is served."""
    _, key = _LISTS[method]
    first: dict[str, _T] = {}
    for entry in found:
        first.setdefault(getattr(entry, key), entry)
    return list(first.values())
