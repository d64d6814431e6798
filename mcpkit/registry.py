"""What an application offers: tools, resources and prompts, by name.

A record is checked as soon as it is registered. Only a hint that names what does not exist yet (a class
further down in the script) waits: `Registry.resolve` tries again before serving, and then it is an error.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from mcpkit import checks, validation
from mcpkit.around import Kind
from mcpkit.completion import Completer, completers
from mcpkit.content import is_block_type
from mcpkit.errors import ArgumentError
from mcpkit.fields import MISSING
from mcpkit.handler import Handler
from mcpkit.meta import check_meta
from mcpkit.output import Output
from mcpkit.principal import checked_scopes
from mcpkit.protocol import headers, types
from mcpkit.protocol.uritemplate import UriTemplate, is_template
from mcpkit.schema import Schema
from mcpkit.signature import Parameter, Values


class Cache(Struct, frozen=True):
    """How long clients may keep what they read: `ttl` in seconds; `scope` "public" only for what is the same
    for everyone.

    Source: MCP 2026-07-28, "Caching".
    """

    ttl: float = 0.0
    scope: Literal["public", "private"] = "private"

    def __post_init__(self) -> None:
        if not 0 <= self.ttl < 1e9:
            raise ValueError(f"a cache's ttl is a number of seconds from 0 on, not {self.ttl}")

    @property
    def wire(self) -> dict[str, Any]:
        """The fields of a cacheable result, in milliseconds."""
        return {"ttl_ms": round(self.ttl * 1000), "cache_scope": self.scope}


class Record:
    """What tools, resources and prompts have in common."""

    kind: Kind

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[types.Icon] = (),
        scopes: Sequence[str] = (),
        timeout: float | None = None,
        meta: dict[str, Any] | None = None,
        inline: bool = False,
        loop: Literal["asyncio"] | None = None,
        raw: bool = False,
    ) -> None:
        with self._named(str(name or getattr(fn, "__name__", "?"))):
            self.handler = Handler(fn, inline=inline, loop=loop, raw=raw)
            self.handlers = (self.handler,)
            self.name = self.handler.name if name is None else name
            checks.check_options(name, timeout, meta)
            self.meta = check_meta(meta)
            self.scopes = checked_scopes(scopes)
        self.title = title
        self.icons = list(icons) or None
        self.timeout = timeout
        self.completers: dict[str, Completer] = {}
        self._description = description
        self.resolved = False

    def _named(self, label: str | None = None) -> _Named:
        return _Named(f"{self.kind} '{label or self.label}'")

    @property
    def label(self) -> str:
        """What people know it by."""
        return self.name

    @property
    def description(self) -> str | None:
        """As given, else the docstring up to its parameters."""
        return (
            self._description if self._description is not None else self.handler.signature.doc.summary or None
        )

    def resolve(self, *, final: bool) -> None:
        """Read the signature; a name that does not exist (yet) is an error only when this is `final`. Raises
        TypeError.
        """
        if self.resolved:
            return
        with self._named():
            try:
                self.handler.resolve()
                self._resolve()
            except NameError as error:
                if not final:
                    return
                raise TypeError(_undefined(error)) from None
            except (SyntaxError, AttributeError) as error:
                raise TypeError(f"its annotations cannot be read as types: {error}.") from None
        self.resolved = True

    def _resolve(self) -> None:
        """What only this kind has to check."""


class _Named:
    """Says of which record an error speaks."""

    def __init__(self, label: str) -> None:
        self._label = label

    def __enter__(self) -> None:
        """Nothing to set up."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, TypeError | ValueError):
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{self._label}: {error}") from None


def _undefined(error: NameError) -> str:
    return (
        f"its annotations name {error.name!r}, which is not defined. Import it for good: what stands under "
        "`if TYPE_CHECKING:` does not exist when the server runs."
    )


class Tool(Record):
    """A tool: a function that a model may call. The options are those of `Scaffold.tool`."""

    kind = "tool"
    output: Output
    definition: types.Tool

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        input_schema: Schema | None = None,
        output_schema: Schema | None = None,
        **options: Any,
    ) -> None:
        super().__init__(fn, raw=input_schema is not None, **options)
        with self._named():
            checks.check_tool_name(self.name)
            if input_schema is not None:
                checks.check_root(input_schema)
        self._hints = types.ToolAnnotations(None, read_only, destructive, idempotent, open_world)
        self._input_schema = input_schema
        self._output_schema = output_schema
        self.decode: Callable[[msgspec.Raw | msgspec.UnsetType], Values]
        """The values for the function. Raises `ArgumentError`."""

    def _resolve(self) -> None:
        signature = self.handler.signature
        raw = self._input_schema
        self.decode = signature.decode if raw is None else _raw_decoder(self.handler, raw)
        schema = self._input_schema if self._input_schema is not None else signature.schema
        self.mirrored = headers.check_schema(schema)
        self.output = Output(signature.returns, self._output_schema)
        self.definition = types.Tool(
            self.name,
            schema,
            title=self.title,
            description=self.description,
            icons=self.icons,
            output_schema=self.output.schema,
            annotations=self._hints if self._hints != types.ToolAnnotations() else None,
            meta=self.meta,
        )
        checks.check_wire(self.definition)


class Resource(Record):
    """A resource, or with a template as its URI a family of them. The options are those of
    `Scaffold.resource`.
    """

    kind = "resource"

    def __init__(
        self,
        fn: Callable[..., Any],
        uri: str,
        *,
        mime_type: str | None = None,
        annotations: types.Annotations | None = None,
        size: int | None = None,
        cache: Cache | None = None,
        list: Callable[[], Any] | None = None,  # noqa: A002 - the decorator's option
        **options: Any,
    ) -> None:
        self.uri = uri
        super().__init__(fn, **options)
        with self._named():
            checks.check_uri(uri)
            self.template = UriTemplate(uri) if is_template(uri) else None
            if list is not None and self.template is None:
                raise TypeError("list= enumerates the members of a template, and its URI is none.")
            self.lister = None if list is None else Handler(list, yields=True)
        self.annotations = annotations
        self.size = size
        self.cache = cache
        self._mime_type = mime_type

    @property
    def label(self) -> str:
        """The URI."""
        return self.uri

    @property
    def mime_type(self) -> str | None:
        """As given, else what the return annotation says."""
        returns = self.handler.signature.returns
        if self._mime_type is not None or returns in (MISSING, Any) or is_block_type(returns):
            return self._mime_type
        named = inspect.isclass(returns) or returns is None
        return _MIME_TYPES.get(returns, "application/json") if named else "application/json"

    def _resolve(self) -> None:
        names = self.template.names if self.template is not None else ()
        parameters = self.handler.signature.parameters
        for name in names:
            if name not in {parameter.name for parameter in parameters}:
                raise TypeError(f"its URI has {{{name}}}, but the function has no parameter '{name}'.")
        for parameter in parameters:
            if parameter.name not in names and parameter.required:
                raise TypeError(
                    f"parameter '{parameter.name}' never gets a value: put {{{parameter.name}}} into the URI."
                )
        if self.lister is not None:
            self.lister.resolve()
        self.completers = completers(self.handler.signature)
        checks.check_wire(self.entry() if self.template is None else self.template_entry())

    def entry(self, values: Mapping[str, Any] | None = None) -> types.Resource:
        """As listed; for a template, the member with these values."""
        uri, name = self.uri, self.name
        if values is not None and self.template is not None:
            strange = [key for key in values if key not in self.template.names]
            if strange:
                raise ValueError(
                    f"list= of {self.uri!r} names {strange[0]!r}, which is no variable of the template"
                )
            uri, name = self.template.expand(values), "/".join(map(str, values.values()))
        return types.Resource(
            uri,
            name,
            self.title,
            self.description,
            self.mime_type,
            self.size,
            self.annotations,
            self.icons,
            self.meta,
        )

    def template_entry(self) -> types.ResourceTemplate:
        """As listed among the templates."""
        return types.ResourceTemplate(
            self.uri,
            self.name,
            self.title,
            self.description,
            self.mime_type,
            self.annotations,
            self.icons,
            self.meta,
        )


_MIME_TYPES: dict[Any, str] = {str: "text/plain", bytes: "application/octet-stream", None: "text/plain"}


class Prompt(Record):
    """A prompt: a function that writes messages. The options are those of `Scaffold.prompt`."""

    kind = "prompt"
    definition: types.Prompt

    def _resolve(self) -> None:
        self.completers = completers(self.handler.signature)
        arguments = [_prompt_argument(parameter) for parameter in self.handler.signature.parameters]
        self.definition = types.Prompt(
            self.name, self.title, self.description, arguments or None, icons=self.icons, meta=self.meta
        )
        checks.check_wire(self.definition)


def _prompt_argument(parameter: Parameter) -> types.PromptArgument:
    schema = parameter.schema
    return types.PromptArgument(
        parameter.name,
        schema.get("title"),
        schema.get("description"),
        required=True if parameter.required else None,
    )


_R = TypeVar("_R", bound=Record)


class Registry:
    """All records, each under its name or URI, in the order of registration.

    A handler in a thread may add and remove while others are listed: whoever iterates takes a copy, in one go.
    """

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.resources: dict[str, Resource] = {}
        self.templates: dict[str, Resource] = {}
        self.prompts: dict[str, Prompt] = {}
        self.kinds: set[str] = set()
        """The kinds of which there was one at any time."""
        self.on_change: Callable[[str], None] = lambda kind: None
        """Told the kind of a record that came or went."""
        self.version = object()
        """Another object after each change: what was made of the records is good while it is the same."""
        self._serving = False
        self._merged = False

    def add(self, record: Record) -> None:
        """Register a record. Raises ValueError when its name is taken, TypeError when it cannot be served,
        RuntimeError when an app has taken this registry over already.
        """
        if self._merged:
            raise RuntimeError(
                f"{record.kind} '{record.label}' comes too late: its blueprint is registered already. "
                "Call app.register() after the blueprint's last decorator."
            )
        shelf = self._shelf(record)
        if record.label in shelf:
            raise ValueError(
                f"{record.kind} '{record.label}' exists already: give one of the two another name."
            )
        record.resolve(final=self._serving)
        shelf[record.label] = record
        self.kinds.add(record.kind)
        self.version = object()
        self.on_change(record.kind)

    def remove(self, kind: str, name: str) -> None:
        """Take a record away, by its kind ("tool", "prompt" or "resource") and its name or URI. Raises
        KeyError when there is none.
        """
        shelves: dict[str, list[dict[str, Any]]] = {
            "tool": [self.tools],
            "prompt": [self.prompts],
            "resource": [self.resources, self.templates],
        }
        shelf = next((shelf for shelf in shelves[kind] if name in shelf), shelves[kind][0])
        if name not in shelf:
            raise KeyError(f"there is no {kind} {name!r}")
        del shelf[name]
        self.version = object()
        self.on_change(kind)

    def merge(self, other: Registry, rename: Callable[[str], str]) -> None:
        """Register what another registry holds, tools and prompts under new names."""
        for record in (
            *other.tools.values(),
            *other.resources.values(),
            *other.templates.values(),
            *other.prompts.values(),
        ):
            self.add(_renamed(record, rename(record.name)))
        other._merged = True

    def resolve(self) -> None:
        """Resolve what waits for names, before serving. Raises TypeError for names that do not exist."""
        self._serving = True
        for shelf in (self.tools, self.resources, self.templates, self.prompts):
            for record in tuple(shelf.values()):
                record.resolve(final=True)

    @property
    def listers(self) -> list[Resource]:
        """The templates that enumerate their members."""
        return [record for record in tuple(self.templates.values()) if record.lister is not None]

    @property
    def completes(self) -> bool:
        """Whether there is anything to complete."""
        return any(record.completers for record in (*self.prompts.values(), *self.templates.values()))

    def find_template(self, uri: str) -> Resource | None:
        """The template that is written like `uri`, or that has it as a member."""
        found = self.find_resource(uri)
        return self.templates.get(uri) or (found[0] if found is not None else None)

    def find_resource(self, uri: str) -> tuple[Resource, dict[str, Any]] | None:
        """The resource of a URI and the values of its variables; exact ones come before templates (RES-06)."""
        exact = self.resources.get(uri)
        if exact is not None:
            return exact, {}
        for record in tuple(self.templates.values()):
            assert record.template is not None
            values = record.template.match(uri)
            if values is not None and not (uri[:5].lower() == "file:" and _climbs(values)):
                return record, values
        return None

    def _shelf(self, record: _R) -> dict[str, _R]:
        shelf: Any
        if isinstance(record, Tool):
            shelf = self.tools
        elif isinstance(record, Prompt):
            shelf = self.prompts
        else:
            shelf = (
                self.templates
                if isinstance(record, Resource) and record.template is not None
                else self.resources
            )
        return shelf  # type: ignore[no-any-return]


def _climbs(values: Mapping[str, Any]) -> bool:
    """Whether a path would leave its folder (RES-07, SEC-09). The values are percent-decoded already."""
    parts = [part for value in values.values() for part in ([value] if isinstance(value, str) else value)]
    return any("\0" in part or ".." in re.split(r"[/\\]", part) for part in parts)


def _renamed(record: _R, name: str) -> _R:
    record = copy.copy(record)
    if not isinstance(record, Resource):
        record.name = name
        record.resolved = False
    if isinstance(record, Tool):
        with record._named():
            checks.check_tool_name(name)
    return record


def _raw_decoder(handler: Handler, schema: Schema) -> Callable[[Any], Values]:
    """For a tool with a schema of its own: the arguments reach the function as they are, once they fit."""
    check = validation.checker(schema)
    target = handler.signature.target

    def decode(arguments: Any) -> Values:
        try:
            values = check(b"{}" if arguments is msgspec.UNSET else bytes(arguments))
        except (ValueError, RecursionError) as error:
            raise ArgumentError([str(error)]) from None
        return values if target is None else {target: values}

    return decode
