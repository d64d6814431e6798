"""The tools on the official SDK. JSON answers over HTTP, which is the faster of its two ways."""

import os
import sys

import pydantic
from mcp.server import MCPServer

server = MCPServer("bench", log_level="ERROR")


class Item(pydantic.BaseModel):
    name: str
    price: float
    count: int = 1


class Order(pydantic.BaseModel):
    customer: str
    items: list[Item]
    note: str | None = None


class Bill(pydantic.BaseModel):
    customer: str
    total: float


@server.tool()
async def echo(text: str) -> str:
    """The text again."""
    return text


@server.tool()
def plain(text: str) -> str:
    """The text again, from a thread."""
    return text


@server.tool()
async def bill(order: Order) -> Bill:
    """What an order costs."""
    return Bill(customer=order.customer, total=sum(item.price * item.count for item in order.items))


def filler(a: int, b: str = "x", c: list[float] | None = None) -> str:
    """Nothing that anybody calls."""
    return b * a


for number in range(int(os.environ.get("FILLERS", "0"))):
    server.tool(name=f"filler_{number}")(filler)

if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]), json_response=True)
    else:
        server.run()
