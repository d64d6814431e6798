"""One connection of hypercorn 0.18, moving its bytes as streams of events need it.

hypercorn's `TCPServer` stands between a socket and a protocol object (HTTP/1.1 or HTTP/2), which is used as it
is. How it moves bytes is replaced:

Rule 1. Sending ends. It is shielded from the application's cancellations, since half a chunk or half a frame
        would spoil all that follows on the connection; but it fails when the client takes nothing for
        `send_timeout` seconds, and when the connection itself is cancelled: `_watch` then closes the socket under it.
        hypercorn shields it without a limit, so that one client that does not read keeps a server from ending.
Rule 2. A small response is one write: its head waits for what follows. An application therefore sends the first
        bytes of a stream together with its head.
Rule 3. Idle time is a deadline of the next read, not a task that each request starts and ends.
Rule 4. A client ends at most its own connection. hypercorn's protocols raise for some input (data for an HTTP/2
        stream that is answered already, a path that is no ASCII), which would end the whole server.
Rule 5. While the client is still sending, a connection is closed in two steps: the server's half, then, once the
        client has closed its own or `LINGER_SECONDS` are over, the rest. Closing at once would reset the connection,
        and the reset can overtake the answer.
Rule 6. A client that leaves is noticed, also when it has pipelined a request behind the one that is being answered.
Rule 7. HTTP/2 gets what it lacks: see `hypercorn_h2`.

Source: RFC 9112 sections 9.3 to 9.6 (persistence, time-outs, tear-down).
"""

from __future__ import annotations

import logging
import math
import os
from typing import Any, cast

import trio
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import EventWrapper

from mcpkit.errors import innermost
from mcpkit.transports import hypercorn_h2, limits

_MAX_READ = 2**16
_MAX_AHEAD = 2**16
_BRIEF_SECONDS = 0.1

_log = logging.getLogger("mcpkit")


class Connection(TCPServer):
    """One client's connection, which may take `send_timeout` seconds for `limits.PIECE` bytes of an answer."""

    def __init__(self, *args: Any, send_timeout: float) -> None:
        super().__init__(*args)
        self._send_timeout = send_timeout
        self.idle_task: Any = _NoTask()
        self._life = trio.CancelScope()
        self._reading = trio.CancelScope()
        self._deadline = trio.current_time() + limits.HEAD_SECONDS
        self._idle = True
        self._deaf = False
        """Whether what still comes is thrown away."""
        self._head = b""
        self._ahead = b""

    async def run(self) -> None:
        """Serve the connection until it ends."""
        try:
            with self._life:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._watch)
                    await super().run()
                    nursery.cancel_scope.cancel()
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone
        except* Exception as group:  # rule 4
            _log.warning("a connection was ended, since its protocol failed: %r", innermost(group))

    async def _watch(self) -> None:
        """When the server ends, end an idle connection; when this one is cancelled, close it, which ends what
        is being sent.
        """
        try:
            await self.context.terminated.wait()
            self._be_idle(self._idle)
            await trio.sleep_forever()
        finally:
            await trio.aclose_forcefully(self.stream)

    # -- In ----------------------------------------------------------------------------------

    async def _read_data(self) -> None:
        if isinstance(self.protocol.protocol, H11Protocol):
            self.protocol.protocol.can_read = cast(Any, _Pause(self))  # rule 6
        while data := await self._read():
            if not self._deaf:
                await self.protocol.handle(RawData(data))
            if self._idle and isinstance(
                self.protocol.protocol, H11Protocol
            ):  # a head has begun, but not ended
                self._deadline = min(self._deadline, trio.current_time() + limits.HEAD_SECONDS)
        if not self._deaf:
            await self.protocol.handle(RawData(b""))
        await self.protocol.handle(Closed())

    async def _read(self) -> bytes:
        """What has come; nothing at the end, whoever ends it."""
        if self._ahead:
            data, self._ahead = self._ahead, b""
            return data
        with trio.CancelScope(deadline=self._deadline) as self._reading:
            try:
                return bytes(await self.stream.receive_some(_MAX_READ))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return b""
        return b""

    async def read_ahead(self) -> None:
        """Read what a client pipelines. Raises trio.BrokenResourceError when it leaves, or sends too much."""
        while len(self._ahead) < _MAX_AHEAD:
            data = await self.stream.receive_some(_MAX_READ)
            if not data:
                break
            self._ahead += bytes(data)
        raise trio.BrokenResourceError

    # -- Out ---------------------------------------------------------------------------------

    async def protocol_send(self, event: Event) -> None:
        """Do what the protocol wants done."""
        if isinstance(event, RawData):
            if isinstance(self.protocol.protocol, H2Protocol):
                hypercorn_h2.bound(self.protocol.protocol)
            await self._write(event.data)
        elif isinstance(event, Updated):
            self._be_idle(event.idle)
            if isinstance(self.protocol.protocol, H2Protocol):
                await hypercorn_h2.reset_given_up(self.protocol.protocol)
        elif self._is_answering():
            self._deaf = True  # the client has spoilt what it sends, not what it gets
        else:
            await self._end()
            await self.protocol.handle(Closed())

    def _is_answering(self) -> bool:
        """Whether an answer has begun that the application has still to end."""
        protocol = self.protocol.protocol
        return (
            isinstance(protocol, H11Protocol)
            and protocol.stream is not None
            and repr(protocol.connection.our_state) == "SEND_BODY"
        )

    async def _write(self, data: bytes) -> None:
        if (
            not self._head and data.startswith(b"HTTP/1.1 ") and data[9:10] != b"1"
        ):  # rule 2; 1xx goes at once
            self._head = data
            if self.context.terminated.is_set():  # the client must not send another one here
                self._head = data[:-2] + b"connection: close\r\n\r\n"
            return
        data, self._head = self._at_once(self._head + data), b""
        if data and not await self._sent(data):
            await trio.aclose_forcefully(self.stream)
            await self.protocol.handle(Closed())

    def _at_once(self, data: bytes) -> bytes:
        """Send what the kernel takes without waiting; what is left. Most answers leave here, without a turn of the
        event loop.
        """
        if not data or not isinstance(self.stream, trio.SocketStream) or self.send_lock.locked():
            return data
        try:
            return data[os.write(self.stream.socket.fileno(), data) :]
        except OSError:
            return data  # the slow way finds out what is the matter

    async def _sent(self, data: bytes) -> bool:
        """Send it; whether the client has taken it."""
        with trio.CancelScope(shield=True) as scope:  # rule 1
            async with self.send_lock:
                try:
                    for start in range(0, len(data), limits.PIECE):
                        scope.deadline = trio.current_time() + self._send_timeout
                        await self.stream.send_all(data[start : start + limits.PIECE])
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return False
        return not scope.cancelled_caught

    def _be_idle(self, idle: bool) -> None:
        self._idle = idle
        if not idle:
            self._deadline = math.inf
        elif self.context.terminated.is_set():
            self._deadline = trio.current_time() + limits.LAST_SECONDS
        else:
            self._deadline = trio.current_time() + limits.IDLE_SECONDS
        self._reading.deadline = self._deadline

    async def _end(self) -> None:
        """Close the connection; in two steps if the client is still sending. TLS has but one."""
        await self._write(b"")
        if not self._is_client_sending():
            await trio.aclose_forcefully(self.stream)
            return
        self._deaf = True
        self._life.deadline = trio.current_time() + limits.LINGER_SECONDS
        try:
            async with self.send_lock:
                await self.stream.send_eof()
        except AttributeError:
            await trio.aclose_forcefully(self.stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    def _is_client_sending(self) -> bool:
        """Whether more may come from the client."""
        protocol = self.protocol.protocol
        states = ("SEND_BODY", "ERROR")
        return not isinstance(protocol, H11Protocol) or repr(protocol.connection.their_state) in states


class _Pause(EventWrapper):
    """Where a pipelined request waits for the end of the answer before it."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    async def wait(self) -> None:
        """Wait for it, as long as the client is there."""
        with trio.move_on_after(_BRIEF_SECONDS):  # a client that got its answer is quicker than who sent it
            await self._event.wait()
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._connection.read_ahead)
            await self._event.wait()
            nursery.cancel_scope.cancel()


class _NoTask:
    """Stands where hypercorn keeps the task of its idle timer."""

    async def restart(self, task_group: object, action: object) -> None:
        """The deadline is set already."""

    async def stop(self) -> None:
        """There is nothing to stop."""
