"""From a method to what it does, and from an exception to what the client sees.

Rule 1. Methods that run no user code are answered at once (`answer`); the others have a task of their own
        (`perform`).
Rule 2. Exceptions become errors here and nowhere else. A client never sees the text of an exception that was
        not raised for it: it gets a reference, and the log has the traceback under the same one.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio

from mcpkit import completion, content
from mcpkit.context import Port
from mcpkit.engine import listing, rounds, scopes, uses
from mcpkit.engine.invoke import invoke
from mcpkit.engine.runtime import Runtime
from mcpkit.errors import AnswerMisfit, ArgumentError, TimedOut, ToolError, from_user_code, innermost
from mcpkit.fields import MISSING
from mcpkit.journal import Suspended
from mcpkit.output import BadResult, Output, encode
from mcpkit.protocol import eras, events, types
from mcpkit.protocol.connection import MAX_SUBSCRIPTIONS
from mcpkit.protocol.errors import InternalError, InvalidParams, McpError, MethodNotFound, NotFound
from mcpkit.registry import Cache, Record, Registry, Resource
from mcpkit.signature import Values

_log = logging.getLogger("mcpkit")

# -- Methods -----------------------------------------------------------------------------


def answer(runtime: Runtime, call: events.Call) -> events.Answer | events.Failure | None:
    """The reply to a method that runs no user code; None for the others, which `perform` serves."""
    try:
        if call.principal is not None:
            scopes.check(runtime.app, call)
        if not listing.offers(runtime, call.method.capability):
            raise MethodNotFound(f"{call.method.name}: this server offers no {call.method.capability}")
        action = _IMMEDIATE.get(call.method.name)
        if action is not None:
            return events.Answer(call, action(runtime, call, call.params))
        listed = listing.at_once(runtime, call) if call.method.name in listing.LISTS else None
        return None if listed is None else events.Answer(call, listed)
    except Exception as error:  # rule 2
        return failure(runtime, call, error)


async def perform(runtime: Runtime, call: events.Call, port: Port) -> events.Answer | events.Failure:
    """The reply to a method that runs user code. Its cancellation passes through; everything else that is raised
    fails this call alone.
    """
    try:
        return await _ACTIONS[call.method.name](runtime, call, call.params, port)
    except BaseException as error:  # rule 2; a handler's SystemExit must not end the server
        cancelled, rest = _split(error)
        # A handler can raise the cancellation of another, which a cache has kept, say: nothing would catch it here.
        if cancelled is None or trio.current_effective_deadline() > -math.inf:
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
    if isinstance(error, trio.Cancelled):
        return error, None
    if isinstance(error, BaseExceptionGroup):
        with contextlib.suppress(RecursionError):  # groups can be nested deeper than anything can look
            return error.split(trio.Cancelled)
    return None, error


def _initialize(runtime: Runtime, call: events.Call, params: types.InitializeParams) -> types.Result:
    return types.InitializeResult(
        protocol_version=call.envelope.revision,
        capabilities=eras.capabilities(listing.offered(runtime), call.envelope),
        server_info=runtime.app.implementation,
        instructions=runtime.app.instructions,
    )


def _discover(runtime: Runtime, call: events.Call, params: types.Params) -> types.Result:
    return types.DiscoverResult(
        supported_versions=eras.supported_versions(),
        capabilities=eras.capabilities(listing.offered(runtime), call.envelope),
        instructions=runtime.app.instructions,
    )


def _empty(runtime: Runtime, call: events.Call, params: types.Params) -> types.Result:
    return types.Result()


def _subscribe(runtime: Runtime, call: events.Call, params: types.SubscribeParams) -> types.Result:
    """The connection has noted it; here it is checked that there can be such a resource (RES-08)."""
    registry = runtime.registry
    schemes = {uri.partition(":")[0] for uri in (*registry.resources, *registry.templates)}
    if not _can_read(runtime, params.uri) and params.uri.partition(":")[0] not in schemes:
        raise _no_resource(params.uri)
    return types.Result()


def _can_read(runtime: Runtime, uri: str) -> bool:
    """Whether there may be such a resource: what providers have is not known without asking them."""
    return runtime.registry.find_resource(uri) is not None or runtime.provides("read_resource")


def _no_resource(uri: str) -> NotFound:
    return NotFound(f"Resource not found: {uri[:1000]!r}", {"uri": uri})


_IMMEDIATE: dict[str, Callable[[Runtime, events.Call, Any], types.Result]] = {
    "initialize": _initialize,
    "ping": _empty,
    "server/discover": _discover,
    "logging/setLevel": _empty,  # the connection has seen to it
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _empty,
}


async def _call_tool(
    runtime: Runtime, call: events.Call, params: types.CallToolParams, port: Port
) -> events.Answer:
    tool = runtime.registry.tools.get(params.name)
    if tool is not None:
        try:
            values = tool.decode(params.arguments)
        except ArgumentError:  # seldom; then it may be no object as it came
            values = tool.decode(_arguments(params.arguments))
        returned = await uses.in_rounds(runtime, tool, tool.name, values, call, port)
        return events.Answer(call, tool.output.convert(returned), tool.output.wrap)
    unknown = InvalidParams(f"Unknown tool: {params.name[:128]!r}")
    provided = uses.provided(runtime, "tool", "call_tool", unknown)
    values = {"name": params.name, "arguments": _plain(_arguments(params.arguments))}
    try:
        returned = await uses.in_rounds(runtime, provided, params.name, values, call, port)
    except NotFound:
        raise unknown from None
    return events.Answer(call, _UNDECLARED.convert(returned))


_UNDECLARED = Output(MISSING)
"""For what providers return."""


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


def _plain(arguments: msgspec.Raw | msgspec.UnsetType) -> dict[str, Any]:
    """Arguments as JSON, for whom no signature says what they are. Raises `ArgumentError`."""
    try:
        decoded = {} if isinstance(arguments, msgspec.UnsetType) else msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise ArgumentError(["the arguments cannot be read"]) from None
    assert isinstance(decoded, dict)
    return decoded


async def _read_resource(
    runtime: Runtime, call: events.Call, params: types.ReadResourceParams, port: Port
) -> events.Answer:
    uri = params.uri
    found = runtime.registry.find_resource(uri)
    target: uses.Target
    if found is None:
        target = uses.provided(runtime, "resource", "read_resource", _no_resource(uri))
        values: Values = {"uri": uri}
    else:
        target = found[0]
        values = _variables(target, found[1], uri)
    try:
        returned = await uses.in_rounds(runtime, target, uri, values, call, port)
    except NotFound as error:
        if found is None:
            raise _no_resource(uri) from None
        data = {"uri": uri} if error.data is None else error.data  # RES-03, RES-04
        raise NotFound(error.message, data) from error
    if isinstance(target, uses.Provided):  # which may look at who asks
        mime_type, cache, private = None, None, call.principal is not None
    else:
        mime_type, cache, private = target.mime_type, target.cache, bool(target.scopes)
    result = types.ReadResourceResult(contents=_contents(uri, mime_type, returned))
    asked = not isinstance(params.request_state, msgspec.UnsetType) or not isinstance(
        params.input_responses, msgspec.UnsetType
    )
    cache = Cache() if asked else cache or runtime.app.cache  # CACH-04
    result.ttl_ms = cache.wire["ttl_ms"]
    result.cache_scope = "private" if private else cache.scope
    return events.Answer(call, result)


def _variables(resource: Resource, variables: dict[str, Any], uri: str) -> Values:
    try:
        return resource.handler.signature.convert(variables)
    except ArgumentError as error:
        raise InvalidParams(f"Invalid URI: {error}", {"uri": uri}) from None


def _contents(uri: str, mime_type: str | None, value: Any) -> list[types.ResourceContents]:
    """What is sent for a resource: text, a blob, a list of embedded resources, or else JSON."""
    if isinstance(value, content.EmbeddedResource):
        return [value.contents]
    if (
        isinstance(value, list)
        and value
        and all(isinstance(item, content.EmbeddedResource) for item in value)
    ):
        return [item.contents for item in value]
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


async def _get_prompt(
    runtime: Runtime, call: events.Call, params: types.GetPromptParams, port: Port
) -> events.Answer:
    prompt = runtime.registry.prompts.get(params.name)
    description = None
    unknown = InvalidParams(f"Unknown prompt: {params.name[:128]!r}")
    if prompt is None:
        provided = uses.provided(runtime, "prompt", "get_prompt", unknown)
        values: Values = {"name": params.name, "arguments": params.arguments or {}}
        try:
            returned = await uses.in_rounds(runtime, provided, params.name, values, call, port)
        except NotFound:
            raise unknown from None
    else:
        try:
            values = prompt.handler.signature.convert(params.arguments or {})
        except ArgumentError as error:
            raise InvalidParams(f"Invalid arguments for prompt {prompt.name!r}: {error}") from None
        returned = await uses.in_rounds(runtime, prompt, prompt.name, values, call, port)
        description = prompt.description
    if isinstance(returned, content.PromptResult):
        description, returned = returned.description or description, returned.messages
    return events.Answer(
        call, types.GetPromptResult(messages=content.messages(returned), description=description)
    )


async def _complete(
    runtime: Runtime, call: events.Call, params: types.CompleteParams, port: Port
) -> events.Answer:
    known = (params.context.arguments if params.context is not None else None) or {}
    record = _completed(runtime.registry, params.ref)
    if record is not None:
        values = await _completions(runtime, record, params.argument, known, call, port)
    else:
        values = await _provided_completions(runtime, params, known, call, port)
    return events.Answer(call, types.CompleteResult(completion=completion.cut(values)))


async def _completions(
    runtime: Runtime,
    record: Record,
    argument: types.CompletionArgument,
    known: dict[str, str],
    call: events.Call,
    port: Port,
) -> Any:
    """What completes an argument of the app's own; one that it has not completes to nothing."""
    completer = record.completers.get(argument.name)
    if completer is None:
        return ()
    if completer.handler is None:
        return completer.matching(argument.value)
    return await invoke(runtime, completer.handler, completer.values(argument.value, known), call, port)


async def _provided_completions(
    runtime: Runtime, params: types.CompleteParams, known: dict[str, str], call: events.Call, port: Port
) -> Any:
    ref, argument = params.ref, params.argument
    for handler in runtime.providing("complete"):
        values = {"ref": ref, "argument": argument.name, "value": argument.value, "arguments": dict(known)}
        with contextlib.suppress(NotFound):
            return await invoke(runtime, handler, values, call, port)
    if isinstance(ref, types.PromptReference):
        raise InvalidParams(f"Unknown prompt: {ref.name[:128]!r}")
    raise InvalidParams(f"Unknown resource template: {ref.uri[:1000]!r}")


def _completed(registry: Registry, ref: types.PromptReference | types.ResourceReference) -> Record | None:
    if isinstance(ref, types.PromptReference):
        return registry.prompts.get(ref.name)
    return registry.find_template(ref.uri)


async def _listen(
    runtime: Runtime, call: events.Call, params: types.ListenParams, port: Port
) -> events.Answer:
    """Send what the client asked to hear of, until it leaves, its token expires, or the server ends."""
    honoured = _honoured(runtime, call, params.notifications)
    uris = set(honoured.resource_subscriptions)
    lists = {
        "tools": honoured.tools_list_changed,
        "prompts": honoured.prompts_list_changed,
        "resources": honoured.resources_list_changed,
    }
    listener = runtime.hub.listen(
        lambda change: (
            lists.get(change.kind, False)
            or (change.uri in uris and scopes.may_read(runtime.app, call.principal, change.uri))
        ),
        port,
    )
    try:
        port.emit(events.Acknowledged(call, honoured))
        await port.drain()
        with trio.move_on_after(scopes.seconds_left(call.principal)):
            while (changes := await listener.next()) is not None:
                for change in changes:
                    port.emit(events.Notify(change, call))
                await port.drain()
    finally:
        listener.close()
    return events.Answer(call, types.Result())


def _honoured(
    runtime: Runtime, call: events.Call, wanted: types.SubscriptionFilter
) -> types.SubscriptionFilter:
    """What of a filter can be delivered: of what is offered, and of resources that there are and that the caller
    may read (SUB-02, SUB-11).
    """
    uris = [
        uri
        for uri in dict.fromkeys(wanted.resource_subscriptions)
        if _can_read(runtime, uri) and scopes.may_read(runtime.app, call.principal, uri)
    ]
    return types.SubscriptionFilter(
        wanted.tools_list_changed and listing.offers(runtime, "tools"),
        wanted.prompts_list_changed and listing.offers(runtime, "prompts"),
        wanted.resources_list_changed and listing.offers(runtime, "resources"),
        uris[:MAX_SUBSCRIPTIONS],
    )


_ACTIONS: dict[str, Callable[[Runtime, events.Call, Any, Port], Awaitable[events.Answer]]] = {
    "tools/call": _call_tool,
    "resources/read": _read_resource,
    "prompts/get": _get_prompt,
    "completion/complete": _complete,
    "subscriptions/listen": _listen,
    **dict.fromkeys(listing.LISTS, listing.gathered),
}

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
