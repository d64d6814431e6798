"""From a method to what it does, and from an exception to what the client sees.

Rule 1. Methods that run no user code are answered at once (`answer`); the others have a task of their own
        (`perform`).
Rule 2. Exceptions become errors here and nowhere else. A client never sees the text of an exception that was
        not raised for it: it gets a reference, and the log has the traceback under the same one.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
import trio

from mcpkit import completion, content
from mcpkit.context import Port
from mcpkit.engine import rounds
from mcpkit.engine.invoke import TimedOut, invoke
from mcpkit.engine.runtime import Runtime
from mcpkit.errors import AnswerMisfit, ArgumentError, ToolError, from_user_code, innermost
from mcpkit.journal import Suspended
from mcpkit.output import BadResult, encode
from mcpkit.protocol import eras, events, types
from mcpkit.protocol.connection import MAX_SUBSCRIPTIONS
from mcpkit.protocol.errors import InternalError, InvalidParams, McpError, MethodNotFound, NotFound
from mcpkit.questions import InputRequired
from mcpkit.registry import Cache, Record, Registry, Resource
from mcpkit.signature import Values

PAGE = 1000
"""Entries of a list in one page: some clients read only the first."""

_log = logging.getLogger("mcpkit")
_T = TypeVar("_T")

# -- Methods -----------------------------------------------------------------------------


def answer(runtime: Runtime, call: events.Call) -> events.Answer | events.Failure | None:
    """The reply to a method that runs no user code; None for the others, which `perform` serves."""
    try:
        _check_offered(runtime, call)
        action = _IMMEDIATE.get(call.method.name)
        if action is None or (action is _list_resources and runtime.registry.listers):
            return None
        return events.Answer(call, action(runtime, call, call.params))
    except Exception as error:  # rule 2
        return failure(runtime, call, error)


async def perform(runtime: Runtime, call: events.Call, port: Port) -> events.Answer | events.Failure:
    """The reply to a method that runs user code. Cancellation passes through; everything else that is raised
    fails this call alone.
    """
    try:
        return await _ACTIONS[call.method.name](runtime, call, call.params, port)
    except trio.Cancelled:
        raise
    except BaseException as error:  # rule 2; a handler's SystemExit must not end the server
        cancelled, rest = _split(error)
        if cancelled is None:
            return await _ended(runtime, call, error)
        if rest is not None:
            report("%s failed while it was cancelled", call.method.name, error=rest)
        raise cancelled from None


async def _ended(runtime: Runtime, call: events.Call, error: BaseException) -> events.Answer | events.Failure:
    """The reply when a handler has not returned: questions, or what the client sees of its exception."""
    suspended = innermost(error)
    if not isinstance(suspended, Suspended):
        return failure(runtime, call, error)
    try:
        return events.Answer(call, await rounds.suspend(runtime, call, suspended))
    except Exception as broken:  # the store may be full, or out of reach
        return failure(runtime, call, broken)


def _split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """The cancellation in what a handler's nurseries raised, and the rest of it."""
    if isinstance(error, BaseExceptionGroup):
        with contextlib.suppress(RecursionError):  # groups can be nested deeper than anything can look
            return error.split(trio.Cancelled)
    return None, error


_OFFERED: dict[str, Callable[[Registry], object]] = {
    "logging": lambda registry: True,
    "tools": lambda registry: registry.tools,
    "resources": lambda registry: registry.resources or registry.templates,
    "prompts": lambda registry: registry.prompts,
    "completions": lambda registry: registry.completes,
}
"""The capabilities: what there is something of."""

_DETAILS: dict[str, dict[str, bool]] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
}


def _offers(registry: Registry, capability: str | None) -> bool:
    return capability is None or bool(_OFFERED[capability](registry))


def _offered(registry: Registry) -> dict[str, Any]:
    return {name: _DETAILS.get(name, {}) for name in _OFFERED if _offers(registry, name)}


def _check_offered(runtime: Runtime, call: events.Call) -> None:
    if not _offers(runtime.registry, call.method.capability):
        raise MethodNotFound(f"{call.method.name}: this server offers no {call.method.capability}")


def _initialize(runtime: Runtime, call: events.Call, params: types.InitializeParams) -> types.Result:
    return types.InitializeResult(
        protocol_version=call.envelope.revision,
        capabilities=eras.capabilities(_offered(runtime.registry), call.envelope),
        server_info=runtime.app.implementation,
        instructions=runtime.app.instructions,
    )


def _discover(runtime: Runtime, call: events.Call, params: types.Params) -> types.Result:
    return types.DiscoverResult(
        supported_versions=eras.supported_versions(),
        capabilities=eras.capabilities(_offered(runtime.registry), call.envelope),
        instructions=runtime.app.instructions,
    )


def _empty(runtime: Runtime, call: events.Call, params: types.Params) -> types.Result:
    return types.Result()


def _list_tools(runtime: Runtime, call: events.Call, params: types.ListParams) -> types.Result:
    tools, cursor = _page([tool.definition for tool in tuple(runtime.registry.tools.values())], params.cursor)
    return types.ListToolsResult(tools=tools, next_cursor=cursor)


def _list_prompts(runtime: Runtime, call: events.Call, params: types.ListParams) -> types.Result:
    prompts, cursor = _page(
        [prompt.definition for prompt in tuple(runtime.registry.prompts.values())], params.cursor
    )
    return types.ListPromptsResult(prompts=prompts, next_cursor=cursor)


def _list_resources(runtime: Runtime, call: events.Call, params: types.ListParams) -> types.Result:
    resources, cursor = _page(
        [resource.entry() for resource in tuple(runtime.registry.resources.values())], params.cursor
    )
    return types.ListResourcesResult(resources=resources, next_cursor=cursor)


def _list_templates(runtime: Runtime, call: events.Call, params: types.ListParams) -> types.Result:
    templates, cursor = _page(
        [record.template_entry() for record in tuple(runtime.registry.templates.values())], params.cursor
    )
    return types.ListResourceTemplatesResult(resource_templates=templates, next_cursor=cursor)


def _subscribe(runtime: Runtime, call: events.Call, params: types.SubscribeParams) -> types.Result:
    """The connection has noted it; here it is checked that there can be such a resource (RES-08)."""
    registry = runtime.registry
    schemes = {uri.partition(":")[0] for uri in (*registry.resources, *registry.templates)}
    if registry.find_resource(params.uri) is None and params.uri.partition(":")[0] not in schemes:
        raise NotFound(f"Resource not found: {params.uri[:1000]!r}", {"uri": params.uri})
    return types.Result()


_IMMEDIATE: dict[str, Callable[[Runtime, events.Call, Any], types.Result]] = {
    "initialize": _initialize,
    "ping": _empty,
    "server/discover": _discover,
    "logging/setLevel": _empty,  # the connection has seen to it
    "tools/list": _list_tools,
    "prompts/list": _list_prompts,
    "resources/list": _list_resources,
    "resources/templates/list": _list_templates,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _empty,
}


async def _in_rounds(runtime: Runtime, record: Record, values: Values, call: events.Call, port: Port) -> Any:
    """What a handler returns that may ask the client: in one run where it can wait, else in rounds."""
    handler = record.handler
    dialogue = await rounds.begin(runtime, call, port) if rounds.may_ask(handler, call) else None
    while True:
        try:
            returned = await invoke(runtime, handler, dict(values), call, port, record.timeout, dialogue)
        except Exception:
            if dialogue is not None:
                dialogue.check_ended()
            raise
        finally:
            if dialogue is not None:
                await dialogue.close()
        if dialogue is not None:
            dialogue.check_ended()
        if not isinstance(returned, InputRequired):
            return returned
        dialogue = await rounds.ask(call, port, dialogue or await rounds.begin(runtime, call, port), returned)


async def _call_tool(
    runtime: Runtime, call: events.Call, params: types.CallToolParams, port: Port
) -> events.Answer:
    tool = runtime.registry.tools.get(params.name)
    if tool is None:
        raise InvalidParams(f"Unknown tool: {params.name[:128]!r}")
    values = tool.decode(_arguments(params.arguments))
    returned = await _in_rounds(runtime, tool, values, call, port)
    return events.Answer(call, tool.output.convert(returned), wrap=tool.output.wrap)


def _arguments(raw: msgspec.Raw | msgspec.UnsetType) -> msgspec.Raw | msgspec.UnsetType:
    """The arguments as a JSON object: absent and null are none at all, and some clients send the object as
    JSON text.
    """
    if isinstance(raw, msgspec.UnsetType) or memoryview(raw)[0] == ord("{"):
        return raw
    try:
        value = msgspec.json.decode(raw)
        value = msgspec.json.decode(value) if isinstance(value, str) else value
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        value = ()
    if value is None:
        return msgspec.UNSET
    if not isinstance(value, dict):
        raise InvalidParams('"arguments" must be an object')
    return msgspec.Raw(msgspec.json.encode(value))


async def _read_resource(
    runtime: Runtime, call: events.Call, params: types.ReadResourceParams, port: Port
) -> events.Answer:
    found = runtime.registry.find_resource(params.uri)
    if found is None:
        raise NotFound(f"Resource not found: {params.uri[:1000]!r}", {"uri": params.uri})
    resource, variables = found
    try:
        values = resource.handler.signature.convert(variables)
    except ArgumentError as error:
        raise InvalidParams(f"Invalid URI: {error}", {"uri": params.uri}) from None
    try:
        returned = await _in_rounds(runtime, resource, values, call, port)
    except NotFound as error:
        data = {"uri": params.uri} if error.data is None else error.data  # RES-03, RES-04
        raise NotFound(error.message, data) from error
    result = types.ReadResourceResult(contents=_contents(params.uri, resource, returned))
    asked = not isinstance(params.request_state, msgspec.UnsetType) or not isinstance(
        params.input_responses, msgspec.UnsetType
    )
    cache = Cache() if asked else resource.cache or runtime.app.cache  # CACH-04
    result.ttl_ms, result.cache_scope = cache.wire["ttl_ms"], cache.wire["cache_scope"]
    return events.Answer(call, result)


def _contents(uri: str, resource: Resource, value: Any) -> list[types.ResourceContents]:
    """What is sent for a resource: text, a blob, a list of embedded resources, or else JSON."""
    if isinstance(value, content.EmbeddedResource):
        return [value.contents]
    if (
        isinstance(value, list)
        and value
        and all(isinstance(item, content.EmbeddedResource) for item in value)
    ):
        return [item.contents for item in value]
    mime_type = resource.mime_type
    if content.is_block_type(type(value)):
        wire = content.block(value)
        if isinstance(wire, types.ImageContent | types.AudioContent):
            return [types.ResourceContents(uri, mime_type or wire.mime_type, blob=wire.data)]
        value = wire.text if isinstance(wire, types.TextContent) else wire
    if isinstance(value, str):
        return [types.ResourceContents(uri, mime_type or "text/plain", text=content.plain(value))]
    if isinstance(value, bytes | bytearray | memoryview):
        return [types.ResourceContents(uri, mime_type or "application/octet-stream", blob=bytes(value))]
    return [types.ResourceContents(uri, mime_type or "application/json", text=encode(value).decode())]


async def _list_all_resources(
    runtime: Runtime, call: events.Call, params: types.ListParams, port: Port
) -> events.Answer:
    entries = [resource.entry() for resource in tuple(runtime.registry.resources.values())]
    for template in runtime.registry.listers:
        assert template.lister is not None
        members = await invoke(runtime, template.lister, {}, call, port, template.timeout)
        entries += [template.entry(member) for member in members]
    resources, cursor = _page(entries, params.cursor)
    return events.Answer(call, types.ListResourcesResult(resources=resources, next_cursor=cursor))


async def _get_prompt(
    runtime: Runtime, call: events.Call, params: types.GetPromptParams, port: Port
) -> events.Answer:
    prompt = runtime.registry.prompts.get(params.name)
    if prompt is None:
        raise InvalidParams(f"Unknown prompt: {params.name[:128]!r}")
    try:
        values = prompt.handler.signature.convert(params.arguments or {})
    except ArgumentError as error:
        raise InvalidParams(f"Invalid arguments for prompt {prompt.name!r}: {error}") from None
    returned = await _in_rounds(runtime, prompt, values, call, port)
    description = prompt.description
    if isinstance(returned, content.PromptResult):
        description, returned = returned.description or description, returned.messages
    return events.Answer(
        call, types.GetPromptResult(messages=content.messages(returned), description=description)
    )


async def _complete(
    runtime: Runtime, call: events.Call, params: types.CompleteParams, port: Port
) -> events.Answer:
    completer = _completed(runtime.registry, params.ref).completers.get(params.argument.name)
    partial = params.argument.value
    values: Any = ()
    if completer is not None and completer.handler is None:
        values = completer.matching(partial)
    elif completer is not None and completer.handler is not None:
        known = (params.context.arguments if params.context is not None else None) or {}
        values = await invoke(runtime, completer.handler, completer.values(partial, known), call, port)
    return events.Answer(call, types.CompleteResult(completion=completion.cut(values)))


def _completed(registry: Registry, ref: types.PromptReference | types.ResourceReference) -> Record:
    """The prompt or template whose argument is completed; an argument that it has not completes to nothing."""
    if isinstance(ref, types.PromptReference):
        record: Record | None = registry.prompts.get(ref.name)
        label = f"prompt: {ref.name[:128]!r}"
    else:
        record = registry.find_template(ref.uri)
        label = f"resource template: {ref.uri[:1000]!r}"
    if record is None:
        raise InvalidParams(f"Unknown {label}")
    return record


async def _listen(
    runtime: Runtime, call: events.Call, params: types.ListenParams, port: Port
) -> events.Answer:
    """Send what the client asked to hear of, until it leaves or the server ends."""
    honoured = _honoured(runtime.registry, params.notifications)
    uris = set(honoured.resource_subscriptions)
    lists = {
        "tools": honoured.tools_list_changed,
        "prompts": honoured.prompts_list_changed,
        "resources": honoured.resources_list_changed,
    }
    listener = runtime.hub.listen(lambda change: lists.get(change.kind, False) or change.uri in uris)
    try:
        port.emit(events.Acknowledged(call, honoured))
        await port.drain()
        while (changes := await listener.next()) is not None:
            for change in changes:
                port.emit(events.Notify(change, call))
            await port.drain()
    finally:
        listener.close()
    return events.Answer(call, types.Result())


def _honoured(registry: Registry, wanted: types.SubscriptionFilter) -> types.SubscriptionFilter:
    """What of a filter can be delivered: of what is offered, and of resources that there are (SUB-02,
    SUB-11).
    """
    uris = [
        uri for uri in dict.fromkeys(wanted.resource_subscriptions) if registry.find_resource(uri) is not None
    ]
    return types.SubscriptionFilter(
        wanted.tools_list_changed and _offers(registry, "tools"),
        wanted.prompts_list_changed and _offers(registry, "prompts"),
        wanted.resources_list_changed and _offers(registry, "resources"),
        uris[:MAX_SUBSCRIPTIONS],
    )


_ACTIONS: dict[str, Callable[[Runtime, events.Call, Any, Port], Awaitable[events.Answer]]] = {
    "tools/call": _call_tool,
    "resources/read": _read_resource,
    "resources/list": _list_all_resources,
    "prompts/get": _get_prompt,
    "completion/complete": _complete,
    "subscriptions/listen": _listen,
}

# -- Pages -------------------------------------------------------------------------------


def _page(entries: Sequence[_T], cursor: str | None) -> tuple[list[_T], str | None]:
    """A page and the cursor of the next; None at the end. Raises `InvalidParams` for a cursor that was not
    given out.
    """
    start = 0 if cursor is None else _position(cursor, len(entries))
    end = start + PAGE
    return list(entries[start:end]), _cursor(end) if end < len(entries) else None


def _cursor(position: int) -> str:
    return base64.urlsafe_b64encode(b"from:%d" % position).decode()


def _position(cursor: str, size: int) -> int:
    for position in range(PAGE, size, PAGE):
        if cursor == _cursor(position):
            return position
    raise InvalidParams("The cursor is unknown or has expired: start again without one")


# -- Errors ------------------------------------------------------------------------------


def failure(runtime: Runtime, call: events.Call, error: BaseException) -> events.Answer | events.Failure:
    """What the client sees of an exception, even of one that cannot be shown because its own text raises."""
    error = innermost(error)
    if isinstance(error, McpError):
        return events.Failure(call, error)
    if isinstance(error, AnswerMisfit) and eras.suspends(call.envelope):
        return events.Failure(call, InvalidParams(str(error)))
    try:
        text = _text(runtime, call, error)
    except Exception as broken:
        report("%s failed with an error that cannot be shown", call.method.name, error=broken)
        text = "Internal error"
    if isinstance(call.params, types.CallToolParams):
        return events.Answer(call, types.CallToolResult(content=[types.TextContent(text)], is_error=True))
    return events.Failure(call, InternalError(text))


def report(message: str, *arguments: object, error: BaseException | None) -> None:
    """Log an error. A log that cannot be written must not end the server: a handler may have closed it."""
    with contextlib.suppress(Exception):
        _log.error(message, *arguments, exc_info=error)


def _text(runtime: Runtime, call: events.Call, error: BaseException) -> str:
    if isinstance(error, ToolError | AnswerMisfit):
        return str(error)
    if not isinstance(call.params, types.CallToolParams):
        return _internal(runtime, call, error)
    if isinstance(error, ArgumentError):
        return f"Invalid arguments for tool '{call.params.name}': {error}"
    if isinstance(error, TimedOut):
        return f"Tool '{call.params.name}' failed: {error}"
    return _internal(runtime, call, error)


def _internal(runtime: Runtime, call: events.Call, error: BaseException) -> str:
    """Log the failure; the text for the client says no more than that there was one, unless it holds nothing
    of the server's insides.
    """
    reference = os.urandom(3).hex()
    shown = str(error) if isinstance(error, BadResult | TimedOut) else _advice(error)
    name = getattr(call.params, "name", None) or getattr(call.params, "uri", None) or ""
    report(
        "%s %s failed (ref %s)%s",
        call.method.name,
        name,
        reference,
        f": {shown}" if shown else "",
        error=None if isinstance(error, BadResult | TimedOut) else from_user_code(error),
    )
    if shown is None and runtime.app.debug:
        shown = f"{type(error).__name__}: {error}"
    return f"Internal error (ref {reference})" + (f": {shown}" if shown else "")


_ASYNCIO_TRACES = ("no running event loop", "trio can't", "asyncio")


def _advice(error: BaseException) -> str | None:
    """What to do when a library that needs asyncio was awaited on trio."""
    if isinstance(error, RuntimeError | TypeError) and any(trace in str(error) for trace in _ASYNCIO_TRACES):
        return 'it awaits asyncio, and handlers run on trio: register it with loop="asyncio"'
    return None
