"""The published revisions, in order, and what each cannot receive.

A revision is its date, so revisions compare as strings. `narrow` takes a result down to what a revision
knows: a client must never see a field, a content block or a shape that its revision lacks (REQUIREMENTS of
the handshake: INIT-04, INIT-10). Everything here is a table; a new field is a row in `_FIELD_SINCE`, a new
block a row in `_BLOCK_SINCE`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import UNSET, Raw, Struct, structs

from mcpkit.protocol import types

V2024_11_05 = "2024-11-05"
V2025_03_26 = "2025-03-26"
V2025_06_18 = "2025-06-18"
V2025_11_25 = "2025-11-25"
V2026_07_28 = "2026-07-28"

HANDSHAKE = (V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25)
STATELESS = (V2026_07_28,)
REVISIONS = HANDSHAKE + STATELESS
"""Oldest first."""

FIRST, LAST = REVISIONS[0], REVISIONS[-1]
LAST_HANDSHAKE = HANDSHAKE[-1]
FIRST_STATELESS = STATELESS[0]

BATCHES = frozenset({V2025_03_26})
"""Revisions with JSON-RPC batches."""

COMPLETIONS_CAPABILITY_SINCE = V2025_03_26
"""Before it, completion has a method but no key among the capabilities."""

NULL_ID = frozenset({V2024_11_05, V2025_03_26, V2025_06_18})
"""Revisions whose schema demands an id in every error: unreadable ones are null there."""

_T = TypeVar("_T")

_TITLED = {"title": V2025_06_18, "icons": V2025_11_25, "meta": V2025_06_18}
_BLOCK = {"meta": V2025_06_18}

_FIELD_SINCE: dict[type[Struct], dict[str, str]] = {
    types.Implementation: {
        "title": V2025_06_18,
        "description": V2025_11_25,
        "website_url": V2025_11_25,
        "icons": V2025_11_25,
    },
    types.Annotations: {"last_modified": V2025_06_18},
    types.Tool: _TITLED | {"annotations": V2025_03_26, "output_schema": V2025_06_18},
    types.Resource: _TITLED,
    types.ResourceTemplate: _TITLED,
    types.Prompt: _TITLED,
    types.PromptArgument: {"title": V2025_06_18},
    types.TextContent: _BLOCK,
    types.ImageContent: _BLOCK,
    types.AudioContent: _BLOCK,
    types.ResourceLinkContent: {"icons": V2025_11_25},
    types.EmbeddedResourceContent: _BLOCK,
    types.ResourceContents: _BLOCK,
    types.ProgressParams: {"message": V2025_03_26},
}

_CHILDREN: dict[type[Struct], tuple[str, ...]] = {
    types.InitializeResult: ("server_info",),
    types.ListToolsResult: ("tools",),
    types.ListResourcesResult: ("resources",),
    types.ListResourceTemplatesResult: ("resource_templates",),
    types.ListPromptsResult: ("prompts",),
    types.CallToolResult: ("content",),
    types.ReadResourceResult: ("contents",),
    types.GetPromptResult: ("messages",),
    types.Resource: ("annotations",),
    types.ResourceTemplate: ("annotations",),
    types.Prompt: ("arguments",),
    types.PromptMessage: ("content",),
    types.TextContent: ("annotations",),
    types.ImageContent: ("annotations",),
    types.AudioContent: ("annotations",),
    types.ResourceLinkContent: ("annotations",),
    types.EmbeddedResourceContent: ("resource", "annotations"),
}
"""Where objects with revisions of their own sit inside others."""


def _audio_as_resource(block: types.AudioContent) -> types.ContentBlock:
    contents = types.ResourceContents("audio://content", mime_type=block.mime_type, blob=block.data)
    return types.EmbeddedResourceContent(contents, annotations=block.annotations)


def _link_as_text(block: types.ResourceLinkContent) -> types.ContentBlock:
    return types.TextContent(block.uri, annotations=block.annotations)


_BLOCK_SINCE: dict[type[Struct], tuple[str, Callable[[Any], types.ContentBlock]]] = {
    types.AudioContent: (V2025_03_26, _audio_as_resource),
    types.ResourceLinkContent: (V2025_06_18, _link_as_text),
}

_LACKS: dict[str, dict[type[Struct], dict[str, None]]] = {
    revision: {
        kind: dict.fromkeys(name for name, since in fields.items() if revision < since)
        for kind, fields in _FIELD_SINCE.items()
    }
    for revision in REVISIONS
}


_NO_ANNOTATIONS = types.Annotations()


def narrow(value: _T, revision: str, *, wrap: bool = False) -> _T:
    """`value`, a result or another object of `types`, as `revision` can receive it; the original stays as it
    is.

    `wrap` says that the structured content of a tool result belongs to a schema whose root is no object, so
    that the revisions which allow only objects get `{"result": …}`.
    """
    if revision >= V2026_07_28:
        return value
    narrowed: Any = value
    if isinstance(value, types.CallToolResult):
        if value.structured_content is not UNSET:
            narrowed = _narrow_structured(value, revision, wrap)
    elif isinstance(value, types.ListToolsResult):
        tools = [_narrow_tool(tool, revision) for tool in value.tools]
        narrowed = structs.replace(value, tools=tools)
    if revision < V2025_11_25:
        narrowed = _narrow_fields(narrowed, revision)
    return narrowed  # type: ignore[no-any-return]


def wrapped_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The output schema for revisions whose structured content is an object: a root that is none goes under
    "result".
    """
    if schema.get("type") == "object":
        return schema
    root = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    outside = {key: value for key, value in schema.items() if key in ("$defs", "$schema")}
    return {"type": "object", "properties": {"result": root}, "required": ["result"], **outside}


def _narrow_structured(result: types.CallToolResult, revision: str, wrap: bool) -> types.CallToolResult:
    if revision < V2025_06_18:
        return structs.replace(result, structured_content=UNSET)
    text = bytes(result.structured_content)  # type: ignore[arg-type]
    if wrap or not text.startswith(b"{"):
        return structs.replace(result, structured_content=Raw(b'{"result":' + text + b"}"))
    return result


def _narrow_tool(tool: types.Tool, revision: str) -> types.Tool:
    if tool.output_schema is not None:
        tool = structs.replace(tool, output_schema=wrapped_schema(tool.output_schema))
    if tool.title is not None and revision == V2025_03_26:  # the only revision whose title is a hint
        annotations = structs.replace(tool.annotations or types.ToolAnnotations(), title=tool.title)
        tool = structs.replace(tool, annotations=annotations)
    return tool


def _narrow_fields(value: Any, revision: str) -> Any:
    if isinstance(value, list):
        return [_narrow_fields(item, revision) for item in value]
    if not isinstance(value, Struct):
        return value
    since, fallback = _BLOCK_SINCE.get(type(value), (FIRST, None))
    if fallback is not None and revision < since:
        return _narrow_fields(fallback(value), revision)
    changes: dict[str, Any] = {
        name: _narrow_fields(getattr(value, name), revision) for name in _CHILDREN.get(type(value), ())
    }
    changes.update(_LACKS[revision].get(type(value), {}))
    narrowed = structs.replace(value, **changes) if changes else value
    return None if narrowed == _NO_ANNOTATIONS else narrowed
