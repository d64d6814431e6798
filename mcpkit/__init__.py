"""mcpkit: a small, Flask-like framework for Model Context Protocol (MCP) servers."""

from mcpkit.app import App
from mcpkit.blueprint import Blueprint
from mcpkit.content import (
    Annotations,
    Audio,
    EmbeddedResource,
    Icon,
    Image,
    Message,
    PromptResult,
    ResourceLink,
    Text,
    ToolResult,
    assistant,
    user,
)
from mcpkit.context import Context, SyncContext
from mcpkit.errors import InvalidParams, McpError, NotFound, ToolError
from mcpkit.markers import Complete, Header, Param
from mcpkit.registry import Cache

__version__ = "0.1.0"

__all__ = [
    "Annotations",
    "App",
    "Audio",
    "Blueprint",
    "Cache",
    "Complete",
    "Context",
    "EmbeddedResource",
    "Header",
    "Icon",
    "Image",
    "InvalidParams",
    "McpError",
    "Message",
    "NotFound",
    "Param",
    "PromptResult",
    "ResourceLink",
    "SyncContext",
    "Text",
    "ToolError",
    "ToolResult",
    "assistant",
    "user",
]
