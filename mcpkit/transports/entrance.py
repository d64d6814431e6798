"""What comes first in a request over HTTP, whichever endpoint it is for: may this client speak to the server, with
this verb, in this form? What is refused is answered here, with its status and an error.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from mcpkit.engine import access
from mcpkit.protocol import eras, jsonrpc
from mcpkit.protocol.errors import InvalidRequest, McpError
from mcpkit.stores.base import StoreError
from mcpkit.transports import http
from mcpkit.transports.access import LoggedExchange
from mcpkit.transports.http import BodyRefused, Disconnected, Exchange, HeaderList, Request
from mcpkit.transports.options import HttpOptions
from mcpkit.transports.security import Guard
from mcpkit.transports.sessions import TooManySessions

Accepted = tuple[bool, ...]
"""Which of some media types the client takes."""

Answer = Callable[[Exchange, HeaderList], Awaitable[None]]
"""Answers a request that was let in; the headers, which let a web page read the answer, are part of it."""


class Refused(Exception):
    """The request is answered with a status and an error."""

    def __init__(
        self, status: int, error: McpError, request_id: Any = msgspec.UNSET, headers: HeaderList = ()
    ) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.request_id = request_id
        self.headers = headers


def refused(status: int, message: str, headers: HeaderList = ()) -> Refused:
    """A request that is wrong in a way that no code of the protocol is about."""
    return Refused(status, InvalidRequest(message), headers=headers)


def unavailable(error: Exception, request_id: Any = msgspec.UNSET) -> Refused:
    """A request that may be served later."""
    return Refused(503, InvalidRequest(str(error)), request_id, [(b"retry-after", b"60")])


class Entrance:
    """The entrance of one server. With `guarded`, requests have passed the gateway, and without a caller nobody is let
    in.
    """

    def __init__(self, options: HttpOptions, *, guarded: bool) -> None:
        self._guarded = guarded
        self._options = options
        self._guard = Guard(options.allowed_hosts, options.allowed_origins)
        self._logs = access.enabled()

    async def serve(
        self, exchange: Exchange, verbs: Sequence[str], answer: Answer, *, logs_accepted: bool = True
    ) -> None:
        """Answer a request with one of some verbs. Without `logs_accepted`, what is answered with 202 has no line in
        the access log: its true answer has one.
        """
        if not self._logs:
            await self._serve(exchange, verbs, answer)
            return
        logged = LoggedExchange(exchange)
        try:
            await self._serve(logged, verbs, answer)
        finally:
            if logs_accepted or logged.status != 202:
                logged.log()

    async def _serve(self, exchange: Exchange, verbs: Sequence[str], answer: Answer) -> None:
        request = exchange.request
        cors: HeaderList = ()
        try:
            if request.method not in (*verbs, "OPTIONS"):
                allow = ", ".join([*verbs, "OPTIONS"]).encode()
                raise refused(405, f"{request.method} is not supported", [(b"allow", allow)])
            reason = self._guard.refuses(request)
            if reason is not None:
                raise refused(403, reason)
            cors = self._guard.cors(request)
            if request.method == "OPTIONS":
                await exchange.respond(204, self._guard.preflight(request))
            elif self._guarded and request.caller is None:
                raise refused(
                    401, "This server needs a token"
                )  # whoever serves this has forgotten the gateway
            else:
                await answer(exchange, cors)
        except (Refused, TooManySessions, StoreError) as error:
            refusal = error if isinstance(error, Refused) else unavailable(error)
            body = jsonrpc.error(refusal.request_id, eras.error_object(refusal.error, None))
            await exchange.respond(refusal.status, http.json_headers((*cors, *refusal.headers)), body)
        except Disconnected:
            pass  # there is nobody to answer

    async def body(self, exchange: Exchange, limit: int) -> bytes:
        """The body, which is to be JSON, of at most `limit` bytes unless the options say otherwise."""
        kind = (exchange.request.get("content-type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise refused(415, "Content-Type must be application/json")
        if self._options.max_body is not None:
            limit = self._options.max_body
        try:
            return await exchange.body(limit, self._options.body_timeout)
        except BodyRefused as refusal:
            raise refused(refusal.status, str(refusal)) from None


def decoded(data: bytes) -> jsonrpc.Message | None:
    """The message in a body; None for a batch, whose messages are looked at one by one later."""
    try:
        if not jsonrpc.is_array(data):
            return jsonrpc.decode(data)
        jsonrpc.decode_batch(data)  # what is no JSON is told so, whoever sends it
    except jsonrpc.Malformed as malformed:
        request_id = msgspec.UNSET if malformed.id is None else malformed.id
        raise Refused(400, malformed.error, request_id) from None
    return None


def accepts(request: Request, *kinds: str) -> Accepted:
    """Which media types the client takes: all where it does not say, or says so with wildcards (RFC 9110
    section 12.5.1).
    """
    return _accepted(request.get("accept"), kinds)


@functools.lru_cache(256)  # a client says the same each time
def _accepted(accept: str | None, kinds: tuple[str, ...]) -> Accepted:
    if accept is None or not accept.strip():
        return (True,) * len(kinds)
    weights: dict[str, float] = {}
    for item in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in item.split(";"))
        weights[kind] = next((_weight(p[2:]) for p in parameters if p.startswith("q=")), 1.0)
    return tuple(
        next((weights[name] for name in (kind, kind.partition("/")[0] + "/*", "*/*") if name in weights), 0.0)
        > 0
        for kind in kinds
    )


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0
