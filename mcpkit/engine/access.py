"""The access log: a line for each request with its answer, for people who watch a server.

    tools/call add id=3 ok 1.2 ms                    stdio: ok, isError, an error code, cancelled
    tools/call add id=3 200 isError 1.2 ms           HTTP: the status, and what is not ok about the answer
    POST /mcp 401 -32600 0.2 ms                      where no message was read

Rule 1. It reads the messages as they pass by. So nothing else has to know of it, and it costs nothing when the logger
        is not enabled, which is looked at once for each connection.
Rule 2. Methods, names, URIs and ids are what a client sent: shortened, and escaped. Arguments, results, headers and
        the texts of errors never appear.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence

import msgspec
from msgspec import Struct, UnsetType

from mcpkit.engine.channel import Channel
from mcpkit.protocol import jsonrpc
from mcpkit.protocol.lines import Oversized

_log = logging.getLogger("mcpkit.access")
_LONGEST = 200


def enabled() -> bool:
    """Whether anybody wants the lines."""
    return _log.isEnabledFor(logging.INFO)


def write(what: str, outcome: str, began: float | None = None) -> None:
    """Write a line; `began` is what `time.perf_counter` said. A log that cannot be written is nobody's failure."""
    took = "" if began is None else f" {(time.perf_counter() - began) * 1000:.1f} ms"
    with contextlib.suppress(Exception):
        _log.info("%s %s%s", what, outcome, took)


# -- What a message is -----------------------------------------------------------------------


class _Params(Struct, rename="camel"):
    name: str | None = None
    uri: str | None = None
    ref: _Params | None = None
    request_id: int | str | None = None


class _Error(Struct):
    code: int


class _Result(Struct, rename="camel"):
    is_error: bool = False
    result_type: str = "complete"


_params = msgspec.json.Decoder(_Params)
_error = msgspec.json.Decoder(_Error)
_result = msgspec.json.Decoder(_Result)


class Seen:
    """What a message shows of itself. `method` and `id` are None where it has none, or none that is valid."""

    def __init__(self, data: bytes) -> None:
        self.method: str | None = None
        self.id: int | str | None = None
        self.of = _Params()
        self.outcome = ""
        """Of an answer: ok, isError, the code of an error."""
        try:
            message = jsonrpc.decode(data)
        except jsonrpc.Malformed as malformed:
            self._identify(malformed.id)
            return
        self._identify(message.id)
        with contextlib.suppress(msgspec.MsgspecError, RecursionError, UnicodeError):
            if isinstance(message.method, str):
                self.method = message.method
                self.of = self.of if isinstance(message.params, UnsetType) else _params.decode(message.params)
            elif not isinstance(message.error, UnsetType):
                self.outcome = str(_error.decode(message.error).code)
            elif not isinstance(message.result, UnsetType):
                self.outcome = _outcome(_result.decode(message.result))

    def _identify(self, request_id: object) -> None:
        if isinstance(request_id, int | str) and not isinstance(request_id, bool):
            self.id = request_id

    def __str__(self) -> str:
        of = self.of.ref or self.of
        words = [
            self.method or "invalid",
            of.name or of.uri or "",
            "" if self.id is None else f"id={self.id}",
        ]
        return " ".join(clean(word) for word in words if word)


def _outcome(result: _Result) -> str:
    if result.is_error:
        return "isError"
    return "ok" if result.result_type == "complete" else result.result_type


def each(data: bytes) -> list[Seen]:
    """The messages of a batch, or the one that it is."""
    try:
        return [Seen(item) for item in (jsonrpc.decode_batch(data) if jsonrpc.is_array(data) else [data])]
    except jsonrpc.Malformed:
        return []


def clean(text: str) -> str:
    """A text from a client as part of a line."""
    text = text[:_LONGEST]
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# -- A connection ----------------------------------------------------------------------------


class LoggedChannel:
    """A channel whose requests are logged when they are answered or cancelled."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.flush_now = channel.flush_now
        self.flush = channel.flush
        self.drain = channel.drain
        # A list, since an id that is in use may come again: that request is refused at once.
        self._open: dict[int | str, list[tuple[Seen, float]]] = {}

    async def receive(self) -> Sequence[bytes | Oversized] | None:
        """See `Channel`."""
        messages = await self._channel.receive()
        for message in messages or ():
            for seen in each(message) if isinstance(message, bytes) else ():
                self._received(seen)
        return messages

    def write(self, message: bytes) -> None:
        """See `Channel`."""
        for seen in each(message):
            if seen.outcome:
                self._close(seen.id, seen.outcome)
        self._channel.write(message)

    def _received(self, seen: Seen) -> None:
        if seen.method is not None and seen.id is not None:
            self._open.setdefault(seen.id, []).append((seen, time.perf_counter()))
        elif seen.method == "notifications/cancelled" and seen.of.request_id in self._open:
            self._close(seen.of.request_id, "cancelled")

    def _close(self, request_id: int | str | None, outcome: str) -> None:
        asked = [] if request_id is None else self._open.get(request_id, [])
        if not asked:
            write("invalid" if request_id is None else f"invalid id={clean(str(request_id))}", outcome)
            return
        seen, began = asked.pop()
        if not asked and request_id is not None:
            del self._open[request_id]
        write(str(seen), outcome, began)
