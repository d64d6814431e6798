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
from mcpkit.principal import Principal
from mcpkit.provider import Provider
from mcpkit.questions import (
    Accepted,
    Cancelled,
    Declined,
    ElicitForm,
    ElicitUrl,
    InputRequired,
    ListRoots,
    Sample,
    Unavailable,
)
from mcpkit.registry import Cache
from mcpkit.seal import StateKey

__version__ = "0.1.0"

__all__ = [
    "Accepted",
    "Annotations",
    "App",
    "Audio",
    "Blueprint",
    "Cache",
    "Cancelled",
    "Complete",
    "Context",
    "Declined",
    "ElicitForm",
    "ElicitUrl",
    "EmbeddedResource",
    "Header",
    "Icon",
    "Image",
    "InputRequired",
    "InvalidParams",
    "ListRoots",
    "McpError",
    "Message",
    "NotFound",
    "Param",
    "Principal",
    "PromptResult",
    "Provider",
    "ResourceLink",
    "Sample",
    "StateKey",
    "SyncContext",
    "Text",
    "ToolError",
    "ToolResult",
    "Unavailable",
    "assistant",
    "user",
]
