"""The members that each official definition has, by revision: what a client of it may be sent.

The two newest come from the models of mcp-types, which has none of the older ones: theirs are written down here, from
the schema.json of each.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mcp_types.methods as official_methods
from pydantic import TypeAdapter

_V2024_11_05 = """
Implementation: name version
Annotations: audience priority
Tool: name description inputSchema
Resource: uri name description mimeType size annotations
ResourceTemplate: uriTemplate name description mimeType annotations
Prompt: name description arguments
PromptArgument: name description required
TextContent: type text annotations
ImageContent: type data mimeType annotations
EmbeddedResource: type resource annotations
TextResourceContents: uri mimeType text
BlobResourceContents: uri mimeType blob
PromptMessage: role content
Completion: values total hasMore
InitializeResult: _meta protocolVersion capabilities serverInfo instructions
ListToolsResult: _meta tools nextCursor
ListResourcesResult: _meta resources nextCursor
ListResourceTemplatesResult: _meta resourceTemplates nextCursor
ListPromptsResult: _meta prompts nextCursor
CallToolResult: _meta content isError
ReadResourceResult: _meta contents
GetPromptResult: _meta description messages
CompleteResult: _meta completion
EmptyResult: _meta
ProgressNotificationParams: progressToken progress total
LoggingMessageNotificationParams: level logger data
"""
_SINCE_2025_03_26 = """
Tool: annotations
ToolAnnotations: title readOnlyHint destructiveHint idempotentHint openWorldHint
AudioContent: type data mimeType annotations
ProgressNotificationParams: message
"""
_SINCE_2025_06_18 = """
Implementation: title
Annotations: lastModified
Tool: title outputSchema _meta
Resource: title _meta
ResourceTemplate: title _meta
Prompt: title _meta
PromptArgument: title
TextContent: _meta
ImageContent: _meta
AudioContent: _meta
EmbeddedResource: _meta
TextResourceContents: _meta
BlobResourceContents: _meta
ResourceLink: type uri name title description mimeType size annotations _meta
CallToolResult: structuredContent
"""
_WRITTEN_DOWN = {
    "2024-11-05": [_V2024_11_05],
    "2025-03-26": [_V2024_11_05, _SINCE_2025_03_26],
    "2025-06-18": [_V2024_11_05, _SINCE_2025_03_26, _SINCE_2025_06_18],
}

Members = dict[str, frozenset[str]]


@cache
def definitions(revision: str) -> Members:
    """The members of each definition that a server can send, by its official name."""
    return _written_down(revision) if revision in _WRITTEN_DOWN else _modelled(revision)


def _written_down(revision: str) -> Members:
    found: dict[str, frozenset[str]] = {}
    for text in _WRITTEN_DOWN[revision]:
        for line in text.strip().splitlines():
            name, _, members = line.partition(":")
            found[name] = found.get(name, frozenset()) | frozenset(members.split())
    return found


def _modelled(revision: str) -> Members:
    found: Members = {}
    for models in (official_methods.SERVER_RESULTS, official_methods.SERVER_NOTIFICATIONS):
        for (_, since), model in models.items():
            if since == revision:
                schema = TypeAdapter(model).json_schema()
                found |= _members(schema.get("title", ""), schema)
                for name, definition in schema.get("$defs", {}).items():
                    found |= _members(name, definition)
    return found


def _members(name: str, schema: dict[str, Any]) -> Members:
    return {name: frozenset(schema["properties"])} if "properties" in schema else {}
