"""The objects of the Model Context Protocol: one superset of all revisions, as msgspec Structs.

A field that some revision lacks is simply optional here; `revisions` knows which, and takes it away before
sending. Names are the specification's, in snake case; on the wire they are in camel case. An optional field
that is None is left out.
Source: schema.ts of each revision.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType, field

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOG_LEVELS: tuple[LogLevel, ...] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
"""Least severe first (RFC 5424)."""

Role = Literal["user", "assistant"]
RequestId = int | str
Meta = dict[str, Any]


class Wire(Struct, omit_defaults=True, rename="camel"):
    """What all objects share: camel case on the wire, defaults left out."""


# -- Descriptions ------------------------------------------------------------------------


class Icon(Wire):
    """An icon that a client may show. `src` is an https or data URL; `sizes` are like "48x48" or "any"."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class Implementation(Wire):
    """Who a client or server is."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class Annotations(Wire):
    """Hints for a client on a piece of content.

    `audience` holds "user", "assistant" or both; `priority` runs from 0 (optional) to 1 (required);
    `last_modified` is an ISO 8601 moment such as "2025-01-12T15:00:58Z".
    """

    audience: tuple[Role, ...] = ()
    priority: float | None = None
    last_modified: str | None = None


class ToolAnnotations(Wire):
    """Hints on what a tool does."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class Tool(Wire):
    """A tool as listed. The schemas are JSON Schema objects."""

    name: str
    input_schema: dict[str, Any]
    title: str | None = None
    description: str | None = None
    icons: list[Icon] | None = None
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


class Resource(Wire):
    """A resource as listed. `size` is in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = field(default=None, name="_meta")


class ResourceTemplate(Wire):
    """A family of resources: an RFC 6570 template."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = field(default=None, name="_meta")


class PromptArgument(Wire):
    """An argument of a prompt; its value is a string."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class Prompt(Wire):
    """A prompt as listed."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = field(default=None, name="_meta")


# -- Content -----------------------------------------------------------------------------


class TextContent(Wire, tag_field="type", tag="text"):
    """A block of text."""

    text: str
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


class ImageContent(Wire, tag_field="type", tag="image"):
    """An image; `data` is the bytes of the file (base64 on the wire)."""

    data: bytes
    mime_type: str
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


class AudioContent(Wire, tag_field="type", tag="audio"):
    """A sound; `data` is the bytes of the file (base64 on the wire)."""

    data: bytes
    mime_type: str
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


class ResourceLinkContent(Wire, tag_field="type", tag="resource_link"):
    """A pointer to a resource that the client may read. `size` is in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = field(default=None, name="_meta")


class ResourceContents(Wire):
    """The contents of a resource: exactly one of `text` and `blob` (base64 on the wire)."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: bytes | None = None
    meta: Meta | None = field(default=None, name="_meta")


class EmbeddedResourceContent(Wire, tag_field="type", tag="resource"):
    """A resource's contents, sent along."""

    resource: ResourceContents
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, name="_meta")


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLinkContent | EmbeddedResourceContent


class PromptMessage(Wire):
    """One message of a prompt."""

    role: Role
    content: ContentBlock


# -- Parameters --------------------------------------------------------------------------


class RequestMeta(Struct):
    """The keys of `params._meta` that the protocol owns; applications' own keys stay in the raw message."""

    protocol_version: str | UnsetType = field(default=UNSET, name="io.modelcontextprotocol/protocolVersion")
    client_capabilities: dict[str, Any] | UnsetType = field(
        default=UNSET, name="io.modelcontextprotocol/clientCapabilities"
    )
    client_info: Implementation | UnsetType = field(default=UNSET, name="io.modelcontextprotocol/clientInfo")
    log_level: LogLevel | UnsetType = field(default=UNSET, name="io.modelcontextprotocol/logLevel")
    progress_token: RequestId | UnsetType = field(default=UNSET, name="progressToken")


class Params(Wire):
    """The parameters of a request: what every method has."""

    meta: RequestMeta | None = field(default=None, name="_meta")


class InitializeParams(Params, kw_only=True):
    """`initialize`: the client proposes a revision."""

    protocol_version: str
    capabilities: dict[str, Any]
    client_info: Implementation


class SetLevelParams(Params, kw_only=True):
    """`logging/setLevel`."""

    level: LogLevel


class ListParams(Params):
    """All list methods."""

    cursor: str | None = None


class ResumableParams(Params, kw_only=True):
    """What the methods share whose handlers can ask the client: its answers, and the state that it brings
    back.
    """

    input_responses: dict[str, Raw] | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


class CallToolParams(ResumableParams, kw_only=True):
    """`tools/call`; the arguments stay JSON until the tool is known."""

    name: str
    arguments: Raw | UnsetType = UNSET


class ReadResourceParams(ResumableParams, kw_only=True):
    """`resources/read`."""

    uri: str


class GetPromptParams(ResumableParams, kw_only=True):
    """`prompts/get`."""

    name: str
    arguments: dict[str, str] | None = None


class SubscribeParams(Params, kw_only=True):
    """`resources/subscribe` and `resources/unsubscribe`."""

    uri: str


class SubscriptionFilter(Wire):
    """Which changes a client wants to hear of."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: list[str] = []


class ListenParams(Params, kw_only=True):
    """`subscriptions/listen`."""

    notifications: SubscriptionFilter


class PromptReference(Wire, tag_field="type", tag="ref/prompt"):
    """Completion of a prompt's argument."""

    name: str


class ResourceReference(Wire, tag_field="type", tag="ref/resource"):
    """Completion of a template's variable; `uri` is the template (or a URI)."""

    uri: str


class CompletionArgument(Wire):
    """The argument being typed and what is typed so far."""

    name: str
    value: str


class CompletionContext(Wire):
    """The arguments that have a value already."""

    arguments: dict[str, str] | None = None


class CompleteParams(Params, kw_only=True):
    """`completion/complete`."""

    ref: PromptReference | ResourceReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class CancelledParams(Params, kw_only=True):
    """`notifications/cancelled`."""

    request_id: RequestId
    reason: str | None = None


class ProgressParams(Wire):
    """`notifications/progress`."""

    progress_token: RequestId
    progress: float
    total: float | None = None
    message: str | None = None


class CancelledNotice(Wire):
    """`notifications/cancelled`, from the server."""

    request_id: RequestId
    reason: str | None = None


class ChangeParams(Wire):
    """`notifications/…/list_changed`, and with a `uri` `notifications/resources/updated`."""

    uri: str | None = None
    meta: Meta | None = field(default=None, name="_meta")


class AcknowledgedParams(Wire):
    """`notifications/subscriptions/acknowledged`: what of the filter is honoured."""

    notifications: SubscriptionFilter
    meta: Meta | None = field(default=None, name="_meta")


class LogParams(Wire):
    """`notifications/message`; `data` is any JSON value."""

    level: LogLevel
    data: Any
    logger: str | None = None


# -- Results -----------------------------------------------------------------------------


class Result(Wire):
    """What every result has; as it stands, the empty result."""

    result_type: str | None = None
    meta: Meta | None = field(default=None, name="_meta")


class CacheableResult(Result):
    """A result that the stateless era lets clients keep. `ttl_ms` is in milliseconds."""

    ttl_ms: int | None = None
    cache_scope: Literal["public", "private"] | None = None


class InitializeResult(Result, kw_only=True):
    """`initialize`: the revision that will be spoken."""

    protocol_version: str
    capabilities: dict[str, Any]
    server_info: Implementation
    instructions: str | None = None


class DiscoverResult(CacheableResult, kw_only=True):
    """`server/discover`."""

    supported_versions: list[str]
    capabilities: dict[str, Any]
    instructions: str | None = None


class ListToolsResult(CacheableResult, kw_only=True):
    """`tools/list`."""

    tools: list[Tool]
    next_cursor: str | None = None


class ListResourcesResult(CacheableResult, kw_only=True):
    """`resources/list`."""

    resources: list[Resource]
    next_cursor: str | None = None


class ListResourceTemplatesResult(CacheableResult, kw_only=True):
    """`resources/templates/list`."""

    resource_templates: list[ResourceTemplate]
    next_cursor: str | None = None


class ListPromptsResult(CacheableResult, kw_only=True):
    """`prompts/list`."""

    prompts: list[Prompt]
    next_cursor: str | None = None


class CallToolResult(Result, kw_only=True):
    """`tools/call`. `structured_content` is encoded JSON; unset is not the same as null."""

    content: list[ContentBlock]
    structured_content: Raw | UnsetType = UNSET
    is_error: bool = False


class InputRequest(Struct):
    """A question inside a result."""

    method: str
    params: dict[str, Any]


class InputRequiredResult(Result, kw_only=True):
    """Instead of the result of a call: what the client has to bring for it."""

    input_requests: dict[str, InputRequest] | None = None
    request_state: str | None = None


class ReadResourceResult(CacheableResult, kw_only=True):
    """`resources/read`."""

    contents: list[ResourceContents]


class GetPromptResult(Result, kw_only=True):
    """`prompts/get`."""

    messages: list[PromptMessage]
    description: str | None = None


class Completion(Wire):
    """At most 100 values; `total` counts all there are."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result, kw_only=True):
    """`completion/complete`."""

    completion: Completion
