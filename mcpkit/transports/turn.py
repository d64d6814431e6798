"""One request over HTTP/1.1 and its answer: the `http.Exchange` of the listener.

Rule 1. Nothing is started for a request that is answered soon: no task, no nursery, no cancel scope. What runs beside
        the answer (`start_soon`) runs in the nursery of the listener, and ends with the answer.
Rule 2. A client that leaves is noticed: whoever asked to be told, and is not done in `_BRIEF_SECONDS`, gets a task that
        reads on. What comes is kept for the next request; a client that sends more than `_MAX_AHEAD` bytes ahead can be
        watched no longer, and is taken to have left.
Rule 3. A body that nobody wants is read where it is small and comes at once, so that the connection can go on; else
        the connection ends with the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from mcpkit.engine.bell import Bell
from mcpkit.errors import innermost
from mcpkit.transports import h1, limits
from mcpkit.transports.http import BodyRefused, Disconnected, HeaderList, Request
from mcpkit.transports.peer import Peer

_MAX_AHEAD = 2**16
_BRIEF_SECONDS = 0.1

_log = logging.getLogger("mcpkit")


class Watch:
    """Sees to the requests that want to know when their client leaves (rule 2)."""

    def __init__(self) -> None:
        self.ending = False
        """Whether the server is: then each answer is the last of its connection."""
        self._turns: set[Turn] = set()
        self._some = trio.Event()

    def add(self, turn: Turn) -> None:
        """Notice, soon, when its client leaves."""
        self._turns.add(turn)
        self._some.set()

    def discard(self, turn: Turn) -> None:
        """It is answered."""
        self._turns.discard(turn)

    async def run(self) -> None:
        """Watch, for ever."""
        while True:
            await self._some.wait()
            await trio.sleep(_BRIEF_SECONDS)
            self._some = trio.Event()
            self._notice()

    def _notice(self) -> None:
        turns, self._turns = self._turns, set()
        for turn in turns:
            turn.notice()


class Turn:
    """A request of `peer` with its answer: an `http.Exchange`. `scope` is that of the connection, which has one request
    at a time.
    """

    def __init__(
        self,
        request: Request,
        head: h1.Head,
        peer: Peer,
        nursery: trio.Nursery,
        scope: trio.CancelScope,
        watch: Watch,
    ) -> None:
        self.request = request
        self.started = False
        """Whether an answer has begun."""
        self.closes = not head.lasts
        """Whether the connection ends with the answer."""
        self._head = head
        self._peer = peer
        self._nursery = nursery
        self._scope = scope
        self._watch = watch
        self._body: h1.Body = h1.Chunks() if head.length is None else h1.Sized(head.length)
        self._asked = False
        self._reading = False
        self._streams = False
        self._gone = False
        self._on_disconnect: list[Callable[[], object]] = []
        self._beside: list[trio.CancelScope] = []
        self._alone = Bell()

    # -- In ----------------------------------------------------------------------------------

    async def body(self, limit: int, seconds: float) -> bytes:
        """See `http.Exchange`."""
        self._asked = True
        if self._head.length is not None and self._head.length > limit:
            raise _too_large(limit)
        if self._peer.deaf:  # somebody has begun to answer without it
            raise Disconnected
        try:
            content, self._peer.rest = self._body.feed(self._peer.rest)
            if not self._body.done:
                content = await self._read_on([content], limit, seconds)
        except h1.Refused as refusal:
            raise BodyRefused(refusal.status, str(refusal)) from None
        if len(content) > limit:
            raise _too_large(limit)
        return content

    async def _read_on(self, parts: list[bytes], limit: int, seconds: float) -> bytes:
        self._reading = True
        size = len(parts[0])
        try:
            with trio.move_on_after(seconds) as timer:
                if self._head.waits and not size:
                    await self._give(h1.CONTINUE)
                while not self._body.done and size <= limit:
                    content, self._peer.rest = self._body.feed(await self._receive())
                    parts.append(content)
                    size += len(content)
        finally:
            self._reading = False
        if timer.cancelled_caught:
            raise BodyRefused(408, f"The body did not arrive within {seconds:g} s")
        return b"".join(parts)

    async def _receive(self) -> bytes:
        data = await self._peer.receive()
        if not data:
            self._leave()
            raise Disconnected
        return data

    async def _swallow(self) -> None:
        """Rule 3."""
        if not (self._asked or self._head.waits):
            with suppress(BodyRefused):
                await self.body(limits.SMALL_BODY, limits.SOON_SECONDS)
        self._ignore_rest()

    def _ignore_rest(self) -> None:
        if not self._body.done:
            self.closes = self._peer.deaf = True

    # -- Out ---------------------------------------------------------------------------------

    async def respond(self, status: int, headers: HeaderList, body: bytes = b"") -> None:
        """See `http.Exchange`."""
        if not self._body.done:
            await self._swallow()
        if status != 204:
            headers = (*headers, (b"content-length", b"%d" % len(body)))
        self.started = True
        head = h1.answer_head(status, headers, self._connection())
        await self._give(head if self.request.method == "HEAD" else head + body)

    async def start(self, status: int, headers: HeaderList, first: bytes) -> None:
        """See `http.Exchange`."""
        self._ignore_rest()
        self.started = self._streams = True
        if self._head.chunks:
            headers = [*headers, (b"transfer-encoding", b"chunked")]
        else:
            self.closes = True
        await self._give(h1.answer_head(status, headers, self._connection()) + self._framed(first))

    async def write(self, data: bytes) -> None:
        """See `http.Exchange`."""
        await self._give(self._framed(data))

    def _framed(self, data: bytes) -> bytes:
        if self.request.method == "HEAD" or not data:
            return b""
        return h1.chunk(data) if self._head.chunks else data

    def _connection(self) -> bytes:
        """What the answer says of the connection: what the client would not expect of its version."""
        if self._watch.ending:
            self.closes = True
        if self.closes:
            return b"close"
        return b"" if self._head.chunks else b"keep-alive"

    async def _give(self, data: bytes) -> None:
        if self._gone:
            raise Disconnected
        try:
            await self._peer.send(data)
        except Disconnected:
            self._leave()
            raise

    async def finish(self) -> None:
        """End the answer, and what runs beside it."""
        if self._streams and self._head.chunks and self.request.method != "HEAD":
            with suppress(Disconnected):
                await self._give(h1.LAST_CHUNK)
        if self._gone or not self.started:
            self.closes = True
        self.end()
        while self._beside:
            await self._alone.wait()

    def end(self) -> None:
        """Nothing is written any more, and nobody watches the client."""
        self._gone = True
        if self._on_disconnect:
            self._watch.discard(self)
            self._on_disconnect.clear()
        self.cut()

    # -- Beside ------------------------------------------------------------------------------

    def start_soon(self, task: Callable[[], Awaitable[object]]) -> None:
        """See `http.Exchange`."""
        scope = trio.CancelScope()
        self._beside.append(scope)
        self._nursery.start_soon(self._run_beside, scope, task)

    async def _run_beside(self, scope: trio.CancelScope, task: Callable[[], Awaitable[object]]) -> None:
        try:
            with scope:
                await task()
        except Exception as error:  # which ends this connection, and no other
            _log.error("a request failed, and its connection with it", exc_info=innermost(error))
            self._peer.close()
            self._leave()
        finally:
            self._beside.remove(scope)
            self._alone.ring()

    def cut(self) -> None:
        """End what runs beside the answer."""
        for scope in self._beside:
            scope.cancel()

    def on_disconnect(self, call: Callable[[], object]) -> None:
        """See `http.Exchange`."""
        if self._gone:
            call()
            return
        if not self._on_disconnect:
            self._watch.add(self)
        self._on_disconnect.append(call)

    def end_with_client(self) -> None:
        """See `http.Exchange`."""
        self.on_disconnect(self._scope.cancel)

    def notice(self) -> None:
        """Begin to look whether the client leaves."""
        if self._reading:  # which notices as well
            self._watch.add(self)
        elif not self._gone:
            self._ignore_rest()
            self.start_soon(self._look)

    async def _look(self) -> None:
        while len(self._peer.rest) < _MAX_AHEAD:
            data = await self._peer.receive()
            if not data:
                break
            if not self._peer.deaf:
                self._peer.rest += data
        self._leave()

    def _leave(self) -> None:
        self._gone = True
        for call in self._on_disconnect:
            call()


def _too_large(limit: int) -> BodyRefused:
    return BodyRefused(413, f"The body is larger than the limit of {limit:,} bytes")
