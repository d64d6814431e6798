"""The decorators, for `App` and `Blueprint` alike. Each returns the function untouched."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

from mcpkit.context import Context, SyncContext
from mcpkit.hints import without_none
from mcpkit.principal import Principal
from mcpkit.protocol.types import Annotations, Icon
from mcpkit.registry import Cache, Prompt, Registry, Resource, Tool

F = TypeVar("F", bound=Callable[..., Any])
JsonObject = dict[str, Any]


class PromptOptions(TypedDict, total=False):
    """Options that every decorator takes."""

    name: str | None
    """The function's name unless given."""
    title: str | None
    """A name for people."""
    description: str | None
    """The docstring up to its parameters unless given."""
    icons: Sequence[Icon]
    scopes: Sequence[str]
    """What a caller's token needs over HTTP: without them it is not listed, and using it is refused (403). They are
    not looked at on stdio, nor in an app without auth: nobody is asked there who they are.
    """
    timeout: float | None
    """Seconds after which the call fails; None for no limit."""
    meta: JsonObject | None
    """Goes into `_meta` of the listing; keys of the protocol are refused."""
    inline: bool
    """Run a plain def at once on the engine's thread instead of a worker thread: only for what returns within
    microseconds.
    """
    loop: Literal["asyncio"] | None
    """Run an async def on an asyncio loop in a thread of its own, for libraries that need one."""


class ToolOptions(PromptOptions, total=False):
    """Options of a tool."""

    read_only: bool | None
    """It changes nothing."""
    destructive: bool | None
    """It may destroy something."""
    idempotent: bool | None
    """Calling it again with the same arguments changes nothing more."""
    open_world: bool | None
    """It reaches beyond the server's own world: the web, other people."""
    input_schema: JsonObject | None
    """A JSON Schema instead of the one derived; the function then takes `**arguments` or one dict. Needs
    `mcpkit[jsonschema]`.
    """
    output_schema: JsonObject | None
    """A JSON Schema for structured results, instead of the one derived. Needs `mcpkit[jsonschema]`."""


class ResourceOptions(PromptOptions, total=False):
    """Options of a resource."""

    mime_type: str | None
    """What the return annotation says unless given: text/plain for str, application/octet-stream for bytes,
    else application/json.
    """
    annotations: Annotations | None
    size: int | None
    """In bytes, where it is known."""
    cache: Cache | None
    """How long clients may keep it; the app's setting unless given."""
    list: Callable[[], Any] | None
    """For a template: a function of no arguments, def or async def, whose dicts of variable values become
    listed resources.
    """


class Scaffold:
    """What can be decorated: tools, resources, prompts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.registry = Registry()

    # -- Decorators ----------------------------------------------------------------------

    @overload
    def tool(self, fn: F, /) -> F: ...
    @overload
    def tool(self, tool_name: str | None = None, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, target: Any = None, /, **options: Any) -> Any:
        """Register a function as a tool: `@app.tool`, or `@app.tool("name", read_only=True)` with
        `ToolOptions`.

        The parameters become the input schema, the return annotation the output schema. Raises TypeError when
        the function cannot be a tool, ValueError when its name is taken or malformed.
        """
        return _decorate(self.add_tool, target, options)

    @overload
    def prompt(self, fn: F, /) -> F: ...
    @overload
    def prompt(
        self, prompt_name: str | None = None, /, **options: Unpack[PromptOptions]
    ) -> Callable[[F], F]: ...
    def prompt(self, target: Any = None, /, **options: Any) -> Any:
        """Register a function as a prompt: it returns a string, a `Message`, a list of them, or a
        `PromptResult`. Raises like `tool`.
        """
        return _decorate(self.add_prompt, target, options)

    @overload
    def resource(self, fn: F, /) -> F: ...
    @overload
    def resource(self, uri: str | None = None, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]: ...
    def resource(self, target: Any = None, /, **options: Any) -> Any:
        """Register a function as a resource: `@app.resource("docs://{slug}")`.

        A URI with `{…}` is an RFC 6570 template whose variables are the function's parameters. Bare, the URI
        is `resource://NAME`, with a segment for each parameter. The function returns `str` (text), `bytes` (a
        blob) or any other value (JSON), and raises `NotFound`.
        Raises like `tool`.
        """
        if callable(target):
            self.add_resource(target, _derived_uri(target), **options)
            return target

        def decorate(fn: F) -> F:
            self.add_resource(fn, target if target is not None else _derived_uri(fn), **options)
            return fn

        return decorate

    # -- Without a decorator -------------------------------------------------------------

    def add_tool(self, fn: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        """Register a function, method, partial or callable object as a tool; see `tool`."""
        _check_known("tool", fn, options, ToolOptions)
        self.registry.add(Tool(fn, **options))

    def add_prompt(self, fn: Callable[..., Any], **options: Unpack[PromptOptions]) -> None:
        """Register a function as a prompt; see `prompt`."""
        _check_known("prompt", fn, options, PromptOptions)
        self.registry.add(Prompt(fn, **options))

    def add_resource(self, fn: Callable[..., Any], uri: str, **options: Unpack[ResourceOptions]) -> None:
        """Register a function as a resource; see `resource`."""
        _check_known("resource", fn, options, ResourceOptions)
        self.registry.add(Resource(fn, uri, **options))

    def remove_tool(self, name: str) -> None:
        """Take a tool away. Raises KeyError when there is none of that name."""
        self.registry.remove("tool", name)

    def remove_prompt(self, name: str) -> None:
        """Take a prompt away. Raises KeyError when there is none of that name."""
        self.registry.remove("prompt", name)

    def remove_resource(self, uri: str) -> None:
        """Take a resource or a template away, by the URI that it was registered with. Raises KeyError when
        there is none.
        """
        self.registry.remove("resource", uri)


def _check_known(kind: str, fn: Any, options: Mapping[str, Any], known: type) -> None:
    unknown = [name for name in options if name not in known.__annotations__]
    if unknown:
        label = getattr(fn, "__name__", "?")
        raise TypeError(
            f"{kind} '{label}': there is no option '{unknown[0]}'. There are {', '.join(known.__annotations__)}."
        )


def _decorate(add: Callable[..., None], target: Any, options: dict[str, Any]) -> Any:
    if callable(target):
        add(target, **options)
        return target
    if target is not None:
        options["name"] = target

    def decorate(fn: F) -> F:
        add(fn, **options)
        return fn

    return decorate


def _derived_uri(fn: Callable[..., Any]) -> str:
    names = [
        parameter.name
        for parameter in inspect.signature(fn).parameters.values()
        if not _is_injected(parameter.annotation)
    ]
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return "/".join([f"resource://{name}", *(f"{{{variable}}}" for variable in names)])


def _is_injected(annotation: Any) -> bool:
    if isinstance(annotation, str):  # not resolved yet
        return not {kind.__name__ for kind in _INJECTED}.isdisjoint(re.findall(r"\w+", annotation))
    return without_none(annotation) in _INJECTED


_INJECTED = (Context, SyncContext, Principal)
