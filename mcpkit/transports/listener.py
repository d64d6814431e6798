"""The app over HTTP/1.1 in clear text, on trio: what carries the load.

A connection is one task, which reads a request, answers it (`turn`), and reads the next. Most answers leave in one
write that the kernel takes at once, so that a call costs one turn of the event loop.

Rule 1. Time is a number of each connection, and one task looks at all of them: how long a head may take, and how long
        a connection may be idle.
Rule 2. A client ends at most its own connection.
Rule 3. When the server ends, an idle connection is kept a little longer, for the request that may be on its way; calls
        have the grace period; what is left then is told so, and cancelled.
"""

from __future__ import annotations

import errno
import logging
import math
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import copy

import trio

from mcpkit.engine import access
from mcpkit.errors import innermost
from mcpkit.transports import h1, limits
from mcpkit.transports.http import Disconnected, Request
from mcpkit.transports.peer import Peer
from mcpkit.transports.service import Life, Service
from mcpkit.transports.turn import Turn, Watch

_SWEEP_SECONDS = 1.0
_LAST_WORDS_SECONDS = 1.0
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_ROOM_SECONDS = 0.1
_AT_ONCE = 64
"""Clients that are let in before those who are in have their turn."""

_log = logging.getLogger("mcpkit")


async def listen(
    service: Service,
    bound: socket.socket,
    until: Callable[[], Awaitable[object]],
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve a running service at a socket until `until` returns, and then to the end."""
    listener = Listener(service, await service.start())
    task_status.started()
    await listener.serve(bound, until)


class Listener:
    """All connections of one listening socket."""

    def __init__(self, service: Service, life: Life) -> None:
        self.service = service
        self.life = life
        self.watch = Watch()
        self.nursery: trio.Nursery
        """Of the connections, and of what runs beside their answers."""
        self._connections: set[Connection] = set()
        self._some = trio.Event()

    async def serve(self, bound: socket.socket, until: Callable[[], Awaitable[object]]) -> None:
        """Serve until `until` returns, and then to the end (rule 3)."""
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            nursery.start_soon(self._sweep)
            nursery.start_soon(self.watch.run)
            async with trio.open_nursery() as accepting:
                accepting.start_soon(self._accept, bound)
                await until()
                accepting.cancel_scope.cancel()
            bound.close()
            await self._end()
            nursery.cancel_scope.cancel()

    async def _accept(self, bound: socket.socket) -> None:
        bound.setblocking(False)
        while True:
            await trio.lowlevel.wait_readable(bound)
            try:
                for _ in range(_AT_ONCE):
                    client, _address = bound.accept()
                    peer = Peer(client, self.service.options.send_timeout)
                    self.nursery.start_soon(self._serve, Connection(self, peer))
            except BlockingIOError:
                pass
            except OSError as error:  # a client that has left already, or there is no room
                if error.errno in _NO_ROOM:
                    _log.warning("no client can be let in at the moment: %s", error.strerror)
                    await trio.sleep(_NO_ROOM_SECONDS)

    async def _serve(self, connection: Connection) -> None:
        self._connections.add(connection)
        self._some.set()
        try:
            await connection.run()
        finally:
            self._connections.remove(connection)

    async def _sweep(self) -> None:
        """Rule 1."""
        while True:
            await self._some.wait()
            await trio.sleep(_SWEEP_SECONDS)
            self._expire()
            if not self._connections:
                self._some = trio.Event()

    def _expire(self) -> None:
        now = trio.current_time()
        for connection in tuple(self._connections):
            if connection.deadline < now:
                connection.expire()

    async def _end(self) -> None:
        self.watch.ending = True
        self.service.end_streams()
        with trio.move_on_after(self.service.options.grace):
            soon = trio.current_time() + limits.LAST_SECONDS
            for connection in self._connections:
                if connection.is_idle:
                    connection.deadline = min(connection.deadline, soon)
            while self._connections:
                await trio.sleep(limits.LAST_SECONDS / 4)
                self._expire()
        with trio.move_on_after(_LAST_WORDS_SECONDS):
            await self.life.end_requests()


class Connection:
    """One client's connection."""

    def __init__(self, listener: Listener, peer: Peer) -> None:
        self._listener = listener
        self._peer = peer
        self._turn: Turn | None = None
        self._data = b""
        self._head: h1.Head
        self._request: Request
        self.deadline = trio.current_time() + limits.HEAD_SECONDS
        """Until when the head of a request has to be here; infinite while one is being answered."""

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request."""
        return self.deadline < math.inf

    async def run(self) -> None:
        """Serve the connection until it ends."""
        try:
            client, server = self._peer.addresses()
            with self._listener.life.requests() as scope:
                await self._serve(scope, client, server)
            if scope.cancelled_caught and self._turn is not None:
                await self._tell_ending(self._turn)
        except (OSError, Disconnected):
            pass  # the client has gone
        except Exception as error:  # rule 2
            _log.error("a request failed, and its connection with it", exc_info=innermost(error))
        finally:
            if self._turn is not None:
                self._turn.end()
            self._peer.close()

    async def _serve(self, scope: trio.CancelScope, client: str | None, server: str | None) -> None:
        try:
            while (data := await self._next()) is not None:
                if data != self._data:
                    self._read(data, client, server)
                if await self._take(scope):
                    break
                ending = self._listener.watch.ending
                seconds = limits.LAST_SECONDS if ending else limits.IDLE_SECONDS
                self.deadline = trio.current_time() + seconds
            else:
                return
        except h1.Refused as refusal:
            if access.enabled():
                access.write("no request", str(refusal.status))
            await self._peer.send(h1.text_answer(refusal.status, str(refusal)))
            self._peer.deaf = True
        if self._peer.deaf or self._peer.rest:
            await self._peer.part()

    async def _take(self, scope: trio.CancelScope) -> bool:
        """Answer the request that was read; whether the connection ends with it. Nothing of it stays."""
        listener = self._listener
        turn = Turn(copy(self._request), self._head, self._peer, listener.nursery, scope, listener.watch)
        self._turn = turn
        try:
            await listener.service.answer(listener.life, turn)
        except Disconnected:
            pass
        except Exception as error:
            turn.closes = True
            if not turn.started:  # else the service has logged it
                _log.error("a request failed", exc_info=innermost(error))
                await turn.respond(500, [(b"content-type", b"text/plain")], b"Internal Server Error\n")
        await turn.finish()
        self._turn = None
        return turn.closes

    async def _tell_ending(self, turn: Turn) -> None:
        turn.cut()
        turn.closes = True
        with suppress(Disconnected), trio.move_on_after(_LAST_WORDS_SECONDS):
            await self._listener.service.tell_ending(turn)

    def _read(self, data: bytes, client: str | None, server: str | None) -> None:
        """Read a head. It is kept for the next request: most clients say the same each time."""
        self._head = head = h1.parse_head(data)
        self._request = Request(
            head.method, head.path, head.headers, server=server, client=client, query=head.query
        )
        self._data = data

    async def _next(self) -> bytes | None:
        """The head of the next request; none at the end, whoever ends it. Raises `h1.Refused`."""
        peer = self._peer
        if peer.rest:
            await trio.lowlevel.checkpoint()  # a client that pipelines lets others have their turn
        while (end := peer.rest.find(b"\r\n\r\n")) < 0:
            if peer.rest:
                h1.check_beginning(peer.rest)
                self.deadline = min(self.deadline, trio.current_time() + limits.HEAD_SECONDS)
            data = await peer.receive()
            if not data:
                return None
            peer.rest += data
        self.deadline = math.inf
        data, peer.rest = peer.rest[: end + 4], peer.rest[end + 4 :]
        return data

    def expire(self) -> None:
        """The time for a head is over."""
        if self._peer.rest:
            with suppress(Disconnected):
                self._peer.send_now(h1.text_answer(408, "The request did not arrive in time"))
        self._peer.close()
