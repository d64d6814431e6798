"""The client at the other end of a socket: what it sends, and what it takes.

Rule 1. What the kernel takes at once is sent without a turn of the event loop.
Rule 2. Sending ends: when the client takes nothing for the send time-out, and when the call is cancelled. An answer
        that was cut is followed by nothing.
Rule 3. Where the client may still be sending, a connection is closed in two steps: the server's half, then, once the
        client has closed its own or `LINGER_SECONDS` are over, the rest. Closing at once would reset the connection,
        and the reset can overtake the answer.

Source: RFC 9112 section 9.6.
"""

from __future__ import annotations

import socket
from contextlib import suppress

import trio

from mcpkit.transports import limits
from mcpkit.transports.http import Disconnected

_MAX_READ = 2**16


class Peer:
    """A client, which may take `send_timeout` seconds for each `limits.PIECE` bytes."""

    def __init__(self, client: socket.socket, send_timeout: float) -> None:
        client.setblocking(False)
        self.rest = b""
        """What has come and is not read yet."""
        self.deaf = False
        """Whether what still comes is thrown away."""
        self.spoilt = False
        """Whether an answer was cut."""
        self._socket = client
        self._is_open = True
        self._send_timeout = send_timeout

    def addresses(self) -> tuple[str | None, str | None]:
        """Of the client, and the one that it connected to; None on a unix socket. Raises OSError when it has left."""
        if self._socket.family == socket.AF_UNIX:
            return None, None
        return self._socket.getpeername()[0], self._socket.getsockname()[0]

    async def receive(self) -> bytes:
        """What comes; nothing at the end, whoever ends it."""
        while (
            self._is_open
        ):  # trio takes a closed socket for one that somebody else waits for, from the second time on
            try:
                await trio.lowlevel.wait_readable(self._socket)
                return self._socket.recv(_MAX_READ)
            except BlockingIOError:
                pass
            except (OSError, trio.ClosedResourceError):
                break
        return b""

    async def send(self, data: bytes) -> None:
        """Send it all. Raises `Disconnected`."""
        if self.spoilt:
            raise Disconnected
        sent = self.send_now(data)
        if sent < len(data):
            await self._send_rest(memoryview(data)[sent:])

    def send_now(self, data: bytes | memoryview) -> int:
        """Send what the kernel takes; how much. Raises `Disconnected`."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            raise Disconnected from None

    async def _send_rest(self, data: memoryview) -> None:
        self.spoilt = True
        with trio.CancelScope() as scope:
            for start in range(0, len(data), limits.PIECE):
                scope.deadline = trio.current_time() + self._send_timeout
                await self._send_piece(data[start : start + limits.PIECE])
        if scope.cancelled_caught:
            raise Disconnected
        self.spoilt = False

    async def _send_piece(self, piece: memoryview) -> None:
        while piece:
            if not self._is_open:
                raise Disconnected
            try:
                await trio.lowlevel.wait_writable(self._socket)
            except (OSError, trio.ClosedResourceError):
                raise Disconnected from None
            piece = piece[self.send_now(piece) :]

    async def part(self) -> None:
        """Say that there is nothing more to come, and wait until the client does."""
        if self.spoilt:
            return
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        with trio.move_on_after(limits.LINGER_SECONDS):
            while await self.receive():
                pass

    def close(self) -> None:
        """Close the socket; whoever waits for it gets nothing."""
        if self._is_open:
            self._is_open = False
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
