"""The tools on mcpkit."""

import os
import sys

import msgspec

from mcpkit import App

app = App("bench")


class Item(msgspec.Struct):
    name: str
    price: float
    count: int = 1


class Order(msgspec.Struct):
    customer: str
    items: list[Item]
    note: str | None = None


class Bill(msgspec.Struct):
    customer: str
    total: float


@app.tool
async def echo(text: str) -> str:
    """The text again."""
    return text


@app.tool
def plain(text: str) -> str:
    """The text again, from a thread."""
    return text


@app.tool
async def bill(order: Order) -> Bill:
    """What an order costs."""
    return Bill(order.customer, sum(item.price * item.count for item in order.items))


def filler(a: int, b: str = "x", c: list[float] | None = None) -> str:
    """Nothing that anybody calls."""
    return b * a


for number in range(int(os.environ.get("FILLERS", "0"))):
    app.add_tool(filler, name=f"filler_{number}")

if __name__ == "__main__":
    if len(sys.argv) > 1:
        app.run("http", port=int(sys.argv[1]))
    else:
        app.run()
