"""The client's side of Streamable HTTP and of HTTP+SSE, as a `Wire`: each line that is sent is a POST, and what
comes back are lines.

It reads the headers that it sends from the messages themselves, so that whoever uses it speaks JSON-RPC and
nothing else.
"""

from __future__ import annotations

import math
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

import httpx
import msgspec
import trio

from mcpkit.errors import innermost
from mcpkit.protocol import headers as metadata
from mcpkit.protocol import jsonrpc
from mcpkit.protocol.eras import version_of
from mcpkit.protocol.methods import METHODS
from mcpkit.transports.wire import HttpFailure, Wire, is_sse

_ACCEPT = "application/json, text/event-stream"


@asynccontextmanager
async def connect(url: str, *, headers: Mapping[str, str] | None = None) -> AsyncGenerator[Wire]:
    """Speak with the server at `url` inside the block: Streamable HTTP, unless the URL ends in "/sse". Raises
    `HttpFailure` at the end when an answer was none.
    """
    outgoing, to_send = trio.open_memory_channel[bytes](math.inf)
    received, incoming = trio.open_memory_channel[bytes](math.inf)
    timeout = httpx.Timeout(None, connect=10.0)
    async with httpx.AsyncClient(timeout=timeout, headers=dict(headers or {})) as client:
        connection = (_SseConnection if is_sse(url) else _Connection)(client, url, received)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run, to_send)
            yield Wire(outgoing, incoming)
            outgoing.close()
            with trio.move_on_after(2.0):
                await connection.close()
            nursery.cancel_scope.cancel()


class _Connection:
    def __init__(self, client: httpx.AsyncClient, url: str, received: trio.MemorySendChannel[bytes]) -> None:
        self._client = client
        self._url = url
        self._received = received
        self._session: dict[str, str] = {}
        self._running: dict[Any, trio.CancelScope] = {}
        self._learning = trio.Lock()
        self._tools: dict[str, Any] | None = None

    async def run(self, to_send: trio.MemoryReceiveChannel[bytes]) -> None:
        """Post each line; `initialize` and notifications one after the other, since what follows depends on
        them.
        """
        async with trio.open_nursery() as nursery:
            async for line in to_send:
                message = msgspec.json.decode(line)
                method = message.get("method")
                if method == "notifications/cancelled" and not self._session:
                    self._cancel(message)
                elif method == "initialize" or "id" not in message:
                    await self._post(line, message)
                    if method == "notifications/initialized":
                        nursery.start_soon(self._listen)
                else:
                    nursery.start_soon(self._post, line, message)

    async def close(self) -> None:
        """End the session, if there is one."""
        if self._session:
            await self._client.delete(self._url, headers=self._session)

    def _cancel(self, message: Any) -> None:
        """In the stateless era a request is cancelled by leaving its response."""
        scope = self._running.get(message.get("params", {}).get("requestId"))
        if scope is not None:
            scope.cancel()

    async def _post(self, line: bytes, message: Any) -> None:
        with trio.CancelScope() as scope:
            self._running[message.get("id")] = scope
            try:
                await self._exchange(line, message)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise HttpFailure(f"{self._url} cannot be reached: {_reason(error)}") from None
        self._running.pop(message.get("id"), None)

    async def _exchange(self, line: bytes, message: Any) -> None:
        headers = await self._headers(message)
        async with self._client.stream("POST", self._url, content=line.strip(), headers=headers) as response:
            if message.get("method") == "initialize" and "mcp-session-id" in response.headers:
                self._session = {"mcp-session-id": response.headers["mcp-session-id"]}
            await self._read(response, message)

    async def _headers(self, message: Any) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": _ACCEPT, **self._session}
        params = message.get("params") or {}
        version = version_of(params)
        if version is None:
            return headers
        headers |= {"mcp-protocol-version": version, "mcp-method": message["method"]}
        row = METHODS.get(message["method"])
        if row is not None and row.named_by:
            headers["mcp-name"] = metadata.encode(str(params.get(row.named_by)))
        if message["method"] == "tools/call":
            schema = (await self._schemas(params["_meta"])).get(str(params.get("name")), {})
            headers |= metadata.mirror(schema, params.get("arguments"))
        return headers

    async def _schemas(self, meta: Any) -> dict[str, Any]:
        """The input schemas of the tools, which say what of a call is mirrored into headers; asked for once."""
        async with self._learning:
            cursor = None
            while self._tools is None or cursor is not None:
                params = {"_meta": meta, **({"cursor": cursor} if cursor else {})}
                body = jsonrpc.request("schemas", "tools/list", params)
                headers = {"mcp-protocol-version": version_of(params) or "", "mcp-method": "tools/list"}
                headers |= {"content-type": "application/json", "accept": "application/json"}
                response = await self._client.post(self._url, content=body, headers=headers)
                result = _object(response.content).get("result", {})
                found = {tool["name"]: tool["inputSchema"] for tool in result.get("tools", ())}
                self._tools = {**(self._tools or {}), **found}
                cursor = result.get("nextCursor")
        return self._tools

    async def _listen(self) -> None:
        """The session's own stream; a server need not have one."""
        headers = {"accept": "text/event-stream", **self._session}
        async with self._client.stream("GET", self._url, headers=headers) as response:
            if response.status_code == 200:
                await self._read(response, {})

    async def _read(self, response: httpx.Response, message: Any) -> None:
        if _kind(response) == "text/event-stream":
            async for _, data in events(lines(response.aiter_bytes())):
                self._receive(data, message)
            return
        data = await response.aread()
        if _is_json(response) and (response.is_success or b'"jsonrpc"' in data):
            self._receive(_identified(data, message), message)
        elif {"id", "method"} <= message.keys() or not response.is_success:
            raise HttpFailure(f"{self._url} answered {_status(response)}")

    def _receive(self, data: bytes, message: Any) -> None:
        self._received.send_nowait(data + b"\n")
        if message.get("method") == "initialize" and self._session:
            result = _object(data).get("result", {})
            self._session["mcp-protocol-version"] = result.get("protocolVersion", "")


class _SseConnection:
    """The server says on its stream where to post, and all its messages come there."""

    def __init__(self, client: httpx.AsyncClient, url: str, received: trio.MemorySendChannel[bytes]) -> None:
        self._client = client
        self._url = url
        self._received = received

    async def run(self, to_send: trio.MemoryReceiveChannel[bytes]) -> None:
        """Read the stream to its end, and meanwhile post each line, one after the other."""
        headers = {"accept": "text/event-stream"}
        try:
            async with self._client.stream("GET", self._url, headers=headers) as response:
                if not response.is_success or _kind(response) != "text/event-stream":
                    await response.aread()
                    raise HttpFailure(f"{self._url} answered {_status(response)}")
                await self._read(response, to_send)
        except* (httpx.HTTPError, httpx.InvalidURL) as group:
            raise HttpFailure(f"{self._url} cannot be reached: {_reason(innermost(group))}") from None
        self._received.close()

    async def _read(self, response: httpx.Response, to_send: trio.MemoryReceiveChannel[bytes]) -> None:
        async with trio.open_nursery() as nursery:
            async for kind, data in events(lines(response.aiter_bytes())):
                if kind == "endpoint":
                    nursery.start_soon(self._post, data.decode(), to_send)
                elif kind == "message":
                    self._received.send_nowait(data + b"\n")
            nursery.cancel_scope.cancel()

    async def close(self) -> None:
        """Leaving the stream is all."""

    def _endpoint(self, said: str) -> httpx.URL:
        """Where to post. Raises `HttpFailure` for another origin: what is sent may hold a token."""
        own = httpx.URL(self._url)
        url = own.join(said)
        if (url.scheme, url.host, url.port) != (own.scheme, own.host, own.port):
            raise HttpFailure(f"{self._url} wants its messages at another origin: {said[:200]!r}")
        return url

    async def _post(self, endpoint: str, to_send: trio.MemoryReceiveChannel[bytes]) -> None:
        url = self._endpoint(endpoint)
        async for line in to_send:
            headers = {"content-type": "application/json"}
            response = await self._client.post(url, content=line.strip(), headers=headers)
            if _is_json(response) and b'"jsonrpc"' in response.content:  # it was refused at once
                self._received.send_nowait(_identified(response.content, _object(line)) + b"\n")
            elif not response.is_success:
                raise HttpFailure(f"{url.copy_with(query=None)} answered {_status(response)}")


def _kind(response: httpx.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _is_json(response: httpx.Response) -> bool:
    return _kind(response) == "application/json"


def _identified(data: bytes, message: Any) -> bytes:
    """An error that names no request answers the one whose response it is."""
    answer = _object(data)
    if "id" not in message or "error" not in answer or answer.get("id") is not None:
        return data
    return msgspec.json.encode({**answer, "id": message["id"]})


def _object(data: bytes) -> dict[str, Any]:
    """A JSON object; an empty one for what is none, which whoever receives it says."""
    with suppress(msgspec.MsgspecError, RecursionError, UnicodeError):
        value = msgspec.json.decode(data)
        return value if isinstance(value, dict) else {}
    return {}


def _reason(error: BaseException) -> str:
    """What httpx says of a failed connection; of TLS it says nothing, but knows what was the cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            advice = "name the certificate of its authority in SSL_CERT_FILE"
            return f"its certificate is not trusted: {cause.verify_message} ({advice})"
        if isinstance(cause, ssl.SSLError):
            return f"no TLS: {cause.reason or cause}"
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


def _status(response: httpx.Response) -> str:
    """The status for people, with what the server says about it."""
    code = response.status_code
    phrase = HTTPStatus(code).phrase if code in set(HTTPStatus) else ""
    said = " ".join(response.text[:200].split()) if _kind(response) != "text/html" else ""
    if code == HTTPStatus.NOT_FOUND:
        said = "is this the path of the endpoint? It is /mcp or /sse, unless --path says otherwise"
    if response.is_success:
        said = f"no message of the protocol, but {response.headers.get('content-type') or 'nothing'}"
    return f"{code} {phrase}".strip() + (f": {said}" if said else "")


_LINE_END = re.compile(rb"\r\n|\n|\r(?=[^\n])")  # a CR at the end of what has come may be half of a CRLF


async def lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[str]:
    """The lines of an event stream. Nothing else ends one that Unicode calls a line end: JSON may hold those as they
    are.
    """
    rest = b""
    async for chunk in chunks:
        *complete, rest = _LINE_END.split(rest + chunk)
        for line in complete:
            yield line.decode(errors="replace")


async def events(lines: AsyncIterator[str]) -> AsyncGenerator[tuple[str, bytes]]:
    """The type and the data of each event in an event stream (WHATWG HTML, "Server-sent events")."""
    kind, data = "message", list[str]()
    async for line in lines:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif line.startswith("event:"):
            kind = line[6:].removeprefix(" ")
        elif not line:
            if any(data):
                yield kind, "\n".join(data).encode()
            kind, data = "message", []
