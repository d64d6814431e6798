"""A client for tests: it speaks any revision, checks every message that the server sends, and keeps the
transcript.

    async with Client(app, revision="2026-07-28") as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.structured == 3

It runs on trio: use it in `async def` tests with pytest-trio (or anyio's plugin on its trio backend), or
`trio.run(test)`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Literal, NamedTuple, Self

import msgspec
import trio

from mcpkit import __version__, answering
from mcpkit.answering import Answers
from mcpkit.app import App
from mcpkit.errors import innermost
from mcpkit.protocol import eras, jsonrpc, revisions, types
from mcpkit.protocol.errors import METHOD_NOT_FOUND, McpError
from mcpkit.protocol.methods import METHODS
from mcpkit.protocol.questions import Question, violation
from mcpkit.transports import memory, process
from mcpkit.transports.wire import Wire

_ANSWERING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
_MOST_ROUNDS = 20
_LONGEST_WAIT = 5.0

Target = App | str | Sequence[str]
OnProgress = Callable[[types.ProgressParams], None]


class ProtocolViolation(AssertionError):
    """The server sent what the revision does not allow."""


class Disconnected(Exception):
    """The server has gone while a request waited for its answer."""


class Entry(NamedTuple):
    """A message of the transcript, as JSON text."""

    sender: Literal["client", "server"]
    message: bytes


class ToolOutcome:
    """The result of a tool: `content` blocks, `structured` value (None when there is none), `is_error`,
    `meta`.
    """

    def __init__(self, result: types.CallToolResult) -> None:
        raw = result.structured_content
        self.content = result.content
        self.is_error = result.is_error
        self.meta = result.meta or {}
        self.has_structured = not isinstance(raw, msgspec.UnsetType)
        self.structured: Any = None if isinstance(raw, msgspec.UnsetType) else msgspec.json.decode(raw)

    @property
    def text(self) -> str:
        """All text blocks, joined by line feeds."""
        return "\n".join(block.text for block in self.content if isinstance(block, types.TextContent))

    def __repr__(self) -> str:
        return (
            f"ToolOutcome(is_error={self.is_error}, structured={self.structured!r}, content={self.content!r})"
        )


class _Pending:
    def __init__(self, method: str, on_progress: OnProgress | None) -> None:
        self.method = method
        self.on_progress = on_progress
        self.done = trio.Event()
        self.reply: jsonrpc.Message | None = None


class Client:
    """A client of one server: an `App` in memory, an http(s) URL, or over stdio a command (`["python",
    "server.py"]`) or a TARGET of `mcpkit run`.

    `revision` is the protocol revision to speak; `capabilities` what the client declares; `log_level` the
    least severe log message that it asks for in the stateless era. With `answers` (see `answering.Answers`) it
    answers what the server asks, and declares that it can. `headers` go along with each request to a URL.
    """

    def __init__(
        self,
        target: Target,
        *,
        revision: str = revisions.LAST,
        capabilities: Mapping[str, Any] | None = None,
        log_level: types.LogLevel | None = None,
        answers: Answers | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if revision not in revisions.REVISIONS:
            raise ValueError(f"unknown revision {revision!r}: use one of {', '.join(revisions.REVISIONS)}")
        self.revision = revision
        self.transcript: list[Entry] = []
        self.logs: list[types.LogParams] = []
        self.server: types.Implementation | None = None
        self.server_capabilities: dict[str, Any] = {}
        self.instructions: str | None = None
        if capabilities is None:
            capabilities = {} if answers is None else _ANSWERING
        own = types.Implementation("mcpkit", __version__)
        self._capabilities = dict(capabilities)
        self._own = eras.ClientSide(revision, own, self._capabilities, log_level)
        self._answers = answers
        self._open = functools.partial(_connect, target, headers)
        self._pending: dict[types.RequestId, _Pending] = {}
        self._next_id = 0
        self._violation: ProtocolViolation | None = None

    # -- Life ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._running = self._run()
        with _ungrouped():
            await self._running.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        # What the body raised stays outside, where it is not wrapped into groups by the nurseries.
        with _ungrouped():
            await self._running.__aexit__(None, None, None)

    @property
    def exit_code(self) -> int | None:
        """How the server's process ended; None while it runs, and for an app in memory."""
        return self._wire.exit_code

    @asynccontextmanager
    async def _run(self) -> AsyncGenerator[None]:
        async with self._open() as self._wire, trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._listen)
            await self._greet()
            yield
            self._nursery.cancel_scope.cancel()
        if self._violation is not None:
            raise self._violation

    async def _greet(self) -> None:
        method, params = self._own.greeting()
        result = await self.request(method, params)
        self.server_capabilities = result["capabilities"]
        self.instructions = result.get("instructions")
        info = self._own.server_info(result)
        self.server = None if info is None else msgspec.convert(info, types.Implementation)
        if method == "initialize":
            if result["protocolVersion"] != self.revision:
                raise ProtocolViolation(
                    f"asked for {self.revision}, the server speaks {result['protocolVersion']}"
                )
            self.notify("notifications/initialized")

    # -- Requests --------------------------------------------------------------------------------------------

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> Any:
        """Send a request and return its result as JSON. Raises `McpError` for an error response,
        `Disconnected`, `ProtocolViolation`.

        When the caller is cancelled, so is the request.
        """
        reply = await self._exchange(method, params, on_progress)
        return msgspec.json.decode(reply)

    async def _exchange(
        self, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None = None
    ) -> bytes:
        """The result of a request, in as many rounds as its questions take. Without `answers` the questions are
        the result.
        """
        for number in range(_MOST_ROUNDS):
            result = await self._round(method, params, on_progress)
            asked = self._own.asked(result)
            if asked is None or (asked.input_requests and self._answers is None):
                return result
            if not asked.input_requests:  # come back later
                await trio.sleep(min(_LONGEST_WAIT, 0.05 * 2**number))
            responses = {
                key: await self._answered(Question(request.method, request.params))
                for key, request in (asked.input_requests or {}).items()
            }
            state = {} if asked.request_state is None else {"requestState": asked.request_state}
            params = {**(params or {}), "inputResponses": responses, **state}
        raise ProtocolViolation(f"{method} asked for more in {_MOST_ROUNDS} rounds, one after the other")

    async def _round(
        self, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None
    ) -> bytes:
        self._next_id += 1
        request_id = self._next_id
        pending = self._pending[request_id] = _Pending(method, on_progress)
        own = self._own.request_params(dict(params or {}), None if on_progress is None else request_id)
        self._send(jsonrpc.request(request_id, method, own or msgspec.UNSET))
        try:
            await pending.done.wait()
        except trio.Cancelled:
            if method != "initialize":
                self.notify("notifications/cancelled", {"requestId": request_id})
            raise
        finally:
            del self._pending[request_id]
        return _result(pending, self._violation)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self._send(jsonrpc.notification(method, dict(params) if params else msgspec.UNSET))

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._send(data, end=b"")

    def _send(self, line: bytes, end: bytes = b"\n") -> None:
        self.transcript.append(Entry("client", line))
        try:
            self._wire.send(line + end)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._disconnect()

    async def _typed(
        self, method: str, params: Mapping[str, Any] | None = None, on_progress: OnProgress | None = None
    ) -> Any:
        result = await self._exchange(method, params, on_progress)
        if self._own.asked(result) is not None:
            raise ProtocolViolation(f"{method} asked, and this Client has no answers=: {result[:500]!r}")
        return msgspec.json.decode(result, type=METHODS[method].result)

    async def _all_pages(self, method: str, field: str) -> list[Any]:
        found: list[Any] = []
        cursor: str | None = None
        while True:
            page = await self._typed(method, {"cursor": cursor} if cursor else None)
            found += getattr(page, field)
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def list_tools(self) -> list[types.Tool]:
        """All tools."""
        return await self._all_pages("tools/list", "tools")

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> ToolOutcome:
        """Call a tool. A tool that fails is an outcome with `is_error`, not an exception; an unknown one
        raises `McpError`.
        """
        params = {"name": name, "arguments": dict(arguments or {})}
        return ToolOutcome(await self._typed("tools/call", params, on_progress))

    async def list_resources(self) -> list[types.Resource]:
        """All resources."""
        return await self._all_pages("resources/list", "resources")

    async def list_resource_templates(self) -> list[types.ResourceTemplate]:
        """All templates."""
        return await self._all_pages("resources/templates/list", "resource_templates")

    async def read_resource(self, uri: str) -> list[types.ResourceContents]:
        """The contents of a resource: mostly one, with `.text` or `.blob`. Raises `McpError` when there is no
        such resource.
        """
        result: types.ReadResourceResult = await self._typed("resources/read", {"uri": uri})
        return result.contents

    async def list_prompts(self) -> list[types.Prompt]:
        """All prompts."""
        return await self._all_pages("prompts/list", "prompts")

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None
    ) -> list[types.PromptMessage]:
        """The messages of a prompt. Raises `McpError` for an unknown prompt and for arguments that do not
        fit.
        """
        result: types.GetPromptResult = await self._typed(
            "prompts/get", {"name": name, "arguments": dict(arguments or {})}
        )
        return result.messages

    async def complete(
        self, of: str, argument: str, value: str = "", *, context: Mapping[str, str] | None = None
    ) -> types.Completion:
        """Complete an argument of a prompt, given by its name, or a variable of a template, given by its URI."""
        ref = {"type": "ref/resource", "uri": of} if ":" in of else {"type": "ref/prompt", "name": of}
        params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        result: types.CompleteResult = await self._typed("completion/complete", params)
        return result.completion

    async def ping(self) -> None:
        """Ping the server; only the handshake era can."""
        await self.request("ping")

    async def set_log_level(self, level: types.LogLevel) -> None:
        """Ask for log messages from `level` on: of the whole session, or in the stateless era of requests
        from now on.
        """
        if self._own.set_log_level(level):
            await self.request("logging/setLevel", {"level": level})

    # -- What the server sends -------------------------------------------------------------------------------

    async def _listen(self) -> None:
        while (line := await self._wire.receive()) is not None:
            self.transcript.append(Entry("server", line))
            try:
                for message in jsonrpc.decode_batch(line) if jsonrpc.is_array(line) else (line,):
                    self._receive(jsonrpc.decode(message))
            except jsonrpc.Malformed as error:
                self._violate(f"not a JSON-RPC message: {error}")
            except (msgspec.ValidationError, ProtocolViolation) as error:
                self._violate(str(error))
        self._disconnect()

    def _receive(self, message: jsonrpc.Message) -> None:
        if isinstance(message.method, str):
            if isinstance(message.id, msgspec.UnsetType):
                self._notified(message.method, message.params)
            elif isinstance(message.id, int | str):
                self._nursery.start_soon(self._answer, message.id, message.method, message.params)
            return
        pending = self._pending.get(message.id) if isinstance(message.id, int | str) else None
        if pending is None:
            return  # an error without an id, or the answer to a request that was cancelled meanwhile
        if not isinstance(message.result, msgspec.UnsetType) and pending.method in METHODS:
            self._own.check_result(pending.method, message.result)
        pending.reply = message
        pending.done.set()

    def _notified(self, method: str, params: Any) -> None:
        if method == "notifications/message":
            self.logs.append(msgspec.json.decode(params, type=types.LogParams))
        elif method == "notifications/progress":
            progress = msgspec.json.decode(params, type=types.ProgressParams)
            pending = self._pending.get(progress.progress_token)
            if pending is not None and pending.on_progress is not None:
                pending.on_progress(progress)

    async def _answer(self, request_id: types.RequestId, method: str, params: Any) -> None:
        """Answer a request of the server, in the handshake era."""
        if self._answers is None:
            problem = jsonrpc.ErrorObject(METHOD_NOT_FOUND, f"this client does not answer {method}")
            self._send(jsonrpc.error(request_id, problem))
            return
        decoded = {} if isinstance(params, msgspec.UnsetType) else msgspec.json.decode(params)
        self._send(jsonrpc.result(request_id, await self._answered(Question(method, decoded))))

    async def _answered(self, question: Question) -> dict[str, Any]:
        """The result of a question. Raises `ProtocolViolation` for one that must not be asked."""
        assert self._answers is not None
        problem = violation(question, self.revision, self._capabilities)
        if problem is not None:
            raise ProtocolViolation(f"{question.method}: {problem}")
        return await answering.result(self._answers, question)

    def _violate(self, text: str) -> None:
        self._violation = self._violation or ProtocolViolation(
            f"{text}\nin: {self.transcript[-1].message[:2000]!r}"
        )
        self._disconnect()

    def _disconnect(self) -> None:
        for pending in self._pending.values():
            pending.done.set()


@contextmanager
def _ungrouped() -> Generator[None]:
    try:
        yield
    except BaseExceptionGroup as group:
        raise innermost(group) from None


def _result(pending: _Pending, violation: ProtocolViolation | None) -> bytes:
    if violation is not None:
        raise violation
    if pending.reply is None:
        raise Disconnected(f"the server has gone while {pending.method} waited for its answer")
    if isinstance(pending.reply.error, msgspec.UnsetType):
        return bytes(pending.reply.result)  # type: ignore[arg-type]
    error = msgspec.json.decode(pending.reply.error, type=jsonrpc.ErrorObject)
    raise McpError(error.code, error.message, error.data)


def _connect(target: Target, headers: Mapping[str, str] | None) -> AbstractAsyncContextManager[Wire]:
    if isinstance(target, App):
        return memory.connect(target)
    if isinstance(target, str) and target.startswith(("http://", "https://")):
        from mcpkit.transports import client  # httpx is slow to import

        return client.connect(target, headers=headers)
    command = (
        [sys.executable, "-P", "-m", "mcpkit", "run", target] if isinstance(target, str) else list(target)
    )
    return process.connect(command)
