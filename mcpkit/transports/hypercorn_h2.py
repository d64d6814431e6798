"""What hypercorn 0.18 lacks in HTTP/2, where each stream has a window of its own that its client opens.

Rule 1. An application waits for the window. hypercorn lets it write on as soon as its sending task has found the window
        closed, so that what is written for a client that reads nothing piles up without end.
Rule 2. A stream whose application has ended without ending its answer is reset. hypercorn would leave it open for as
        long as the connection lives.

Source: RFC 9113 sections 5.2 (flow control) and 5.4.2 (stream errors).
"""

from __future__ import annotations

import contextlib

from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hypercorn.protocol.h2 import BUFFER_LOW_WATER, H2Protocol, StreamBuffer
from hypercorn.trio.worker_context import EventWrapper


def bound(protocol: H2Protocol) -> None:
    """Rule 1, from now on; it must be told before the first stream."""
    if not isinstance(protocol.stream_buffers, _Buffers):
        protocol.stream_buffers = _Buffers()


async def reset_given_up(protocol: H2Protocol) -> None:
    """Rule 2. The sending task forgets a stream that it cannot end."""
    for stream_id in protocol.stream_buffers.keys() - protocol.streams.keys():
        if not protocol.stream_buffers[stream_id]._complete:
            await protocol.stream_buffers[stream_id].close()
            with contextlib.suppress(ProtocolError):  # the client has reset it
                protocol.connection.reset_stream(stream_id, ErrorCodes.CANCEL)
            protocol.priority.unblock(stream_id)
            await protocol.has_data.set()
            await protocol._flush()


class _Buffers(dict[int, StreamBuffer]):
    """The buffers of a connection, which hypercorn puts in one by one."""

    def __setitem__(self, stream_id: int, buffer: StreamBuffer) -> None:
        super().__setitem__(stream_id, _Buffer(EventWrapper))


class _Buffer(StreamBuffer):
    """What waits for the window of one stream."""

    async def pop(self, max_length: int) -> bytes:
        """Take bytes; whoever waits for room goes on when little is left, and not when nothing could be taken."""
        data = bytes(self.buffer[:max_length])
        del self.buffer[:max_length]
        if len(self.buffer) < BUFFER_LOW_WATER:
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data
