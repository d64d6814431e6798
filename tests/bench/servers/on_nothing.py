"""The floor: trio, msgspec and a loop. It takes every request for a call of the tools, and checks nothing."""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from typing import Any

import msgspec
import trio


class Item(msgspec.Struct):
    name: str
    price: float
    count: int = 1


class Order(msgspec.Struct):
    customer: str
    items: list[Item]
    note: str | None = None


class Arguments(msgspec.Struct):
    text: str = ""
    order: Order | None = None


class Params(msgspec.Struct):
    name: str = ""
    arguments: Arguments = msgspec.field(default_factory=Arguments)


class Request(msgspec.Struct):
    id: int | str | None = None
    params: Params = msgspec.field(default_factory=Params)


decode = msgspec.json.Decoder(Request).decode
encode = msgspec.json.Encoder().encode
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def answer(line: bytes) -> bytes:
    """The answer to any request; nothing for a notification."""
    request = decode(line)
    if request.id is None:
        return b""
    arguments = request.params.arguments
    result: dict[str, Any] = {"content": [{"type": "text", "text": arguments.text}]}
    if arguments.order is not None:
        total = sum(item.price * item.count for item in arguments.order.items)
        structure = {"customer": arguments.order.customer, "total": total}
        result = {
            "content": [{"type": "text", "text": encode(structure).decode()}],
            "structuredContent": structure,
        }
    return encode({"jsonrpc": "2.0", "id": request.id, "result": result}) + b"\n"


async def over_stdio() -> None:
    """A line in, a line out."""
    incoming, outgoing = trio.lowlevel.FdStream(os.dup(0)), trio.lowlevel.FdStream(os.dup(1))
    rest = b""
    async for data in incoming:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            await outgoing.send_all(answer(line))


async def over_http(stream: trio.SocketStream) -> None:
    """A request in, a response out, as long as the connection lasts."""
    data = b""
    while True:
        while (end := data.find(b"\r\n\r\n")) < 0:
            more = await stream.receive_some()
            if not more:
                return
            data += more
        found = LENGTH.search(data, 0, end)
        size = int(found[1]) if found else 0
        while len(data) < end + 4 + size:
            data += await stream.receive_some()
        body = answer(data[end + 4 : end + 4 + size])
        data = data[end + 4 + size :]
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        await stream.send_all(head + body)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        trio.run(partial(trio.serve_tcp, over_http, int(sys.argv[1]), host="127.0.0.1"))
    else:
        trio.run(over_stdio)
