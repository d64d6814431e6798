"""The one way in to what is served over HTTP: may this client speak to it, with this verb, in this form? What is
refused is answered here, with its status and an error.

Rule 1. The order of the checks is that of the specification: the verb, the names that the request was sent to and comes
        from, the token. In an app with auth the verb is last: nobody learns there what they may not use (AUTH-09).
Rule 2. A preflight never needs a token: browsers send none with it.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from mcpkit.auth.base import Auth, Site, canonical
from mcpkit.auth.guard import Gate, Refusal
from mcpkit.protocol import eras, jsonrpc
from mcpkit.protocol.errors import InvalidRequest, McpError
from mcpkit.stores.base import StoreError
from mcpkit.transports import http
from mcpkit.transports.http import BodyRefused, Exchange, HeaderList, Request
from mcpkit.transports.options import HttpOptions
from mcpkit.transports.security import Guard, own_origin
from mcpkit.transports.table import TooManySessions

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

    async def answer(self, exchange: Exchange, cors: HeaderList = ()) -> None:
        """Tell the client."""
        body = jsonrpc.error(self.request_id, eras.error_object(self.error, None))
        await exchange.respond(self.status, http.json_headers((*cors, *self.headers)), body)


def refused(status: int, message: str, headers: HeaderList = ()) -> Refused:
    """A request that is wrong in a way that no code of the protocol is about."""
    return Refused(status, InvalidRequest(message), headers=headers)


def unavailable(error: Exception, request_id: Any = msgspec.UNSET) -> Refused:
    """A request that may be served later."""
    return Refused(503, InvalidRequest(str(error)), request_id, [(b"retry-after", b"60")])


class Entrance:
    """The entrance of one endpoint, which is served with some verbs. Its tokens are for `resource`, a path: messages
    are posted to the resource that their stream is.
    """

    def __init__(
        self, guard: Guard, gate: Gate | None, resource: str, verbs: Sequence[str], answer: Answer
    ) -> None:
        self._guard = guard
        self._gate = gate
        self._resource = resource
        self._verbs = (*verbs, "OPTIONS")
        self._answer = answer

    async def serve(self, exchange: Exchange) -> None:
        """Answer a request."""
        request = exchange.request
        cors: HeaderList = ()
        try:
            cors, site = request.once(self._look)
            if request.method == "OPTIONS":
                await exchange.respond(204, self._guard.preflight(request))
                return
            if self._gate is not None and site is not None:
                admitted = await self._gate.admit(request, site)
                if isinstance(admitted, Refusal):
                    raise refused(admitted.status, admitted.message, admitted.headers)
                request.caller = admitted
                self._check_verb(request)
            await self._answer(exchange, cors)
        except Refused as refusal:
            await refusal.answer(exchange, cors)
        except (TooManySessions, StoreError) as error:
            await unavailable(error).answer(exchange, cors)

    def _look(self, request: Request) -> tuple[HeaderList, Site | None]:
        """What the head says by itself: the headers for web pages, and where tokens are needed, what they are to be
        for. Raises `Refused`.
        """
        if self._gate is None:
            self._check_verb(request)
        reason = self._guard.refuses(request)
        if reason is not None:
            raise refused(403, reason)
        site = None
        if self._gate is not None and request.method != "OPTIONS":
            site = site_of(self._gate.auth, request, self._resource)
        return self._guard.cors(request), site

    def _check_verb(self, request: Request) -> None:
        if request.method not in self._verbs:
            allow = ", ".join(self._verbs).encode()
            raise refused(405, f"{request.method} is not supported", [(b"allow", allow)])


def site_of(auth: Auth, request: Request, path: str) -> Site:
    """Where a request found us. Raises `Refused` when its Host header cannot be part of a URL."""
    try:
        origin = canonical(own_origin(request) or "")
    except ValueError:  # no host, or a port that is none
        raise refused(403, "Forbidden: the Host header names no host") from None
    resource = auth.resource or origin + (request.prefix + path).rstrip("/")
    return Site(origin, request.prefix, path, resource, request.client)


# -- What is asked ---------------------------------------------------------------------------


async def json_body(exchange: Exchange, limit: int, options: HttpOptions) -> bytes:
    """The body, which is to be JSON, of at most `limit` bytes unless the options say otherwise."""
    if not exchange.request.once(_is_json):
        raise refused(415, "Content-Type must be application/json")
    if options.max_body is not None:
        limit = options.max_body
    try:
        return await exchange.body(limit, options.body_timeout)
    except BodyRefused as refusal:
        raise refused(refusal.status, str(refusal)) from None


def _is_json(request: Request) -> bool:
    """Whether the body is JSON; the parameters of its type say nothing (HM-08)."""
    return (request.get("content-type") or "").partition(";")[0].strip().lower() == "application/json"


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
