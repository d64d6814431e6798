"""A shop: search a product, put it into a cart, check out to an address. It shows nearly everything that mcpkit can do.

Look at it:  mcpkit inspect examples/complete.py
Try it:      mcpkit call examples/complete.py search query=shirt
Serve it:    mcpkit run examples/complete.py
"""

import copy
import enum
import struct
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

import trio
from msgspec import Struct, field

from mcpkit import (
    Annotations,
    App,
    Blueprint,
    Cache,
    Complete,
    Context,
    EmbeddedResource,
    Image,
    Message,
    NotFound,
    Param,
    ResourceLink,
    SyncContext,
    Text,
    ToolError,
    assistant,
    user,
)

# -- What the shop deals with ------------------------------------------------------------
#
# These types become JSON Schemas. As parameters they say what a model may send, as results what it will get.
# What does not fit never reaches a tool, and never leaves one.

Category = Literal["clothing", "kitchen", "garden"]


class Shipping(enum.Enum):
    STANDARD = "standard"
    EXPRESS = "express"
    DRONE = "drone"


SHIPPING_COSTS = {Shipping.STANDARD: 490, Shipping.EXPRESS: 990, Shipping.DRONE: 2490}


class Product(Struct):
    sku: str
    name: str
    category: Category
    price: Annotated[int, Param("In cents.")]
    stock: int
    colour: Annotated[str, Param("Red, green and blue as hexadecimal digits.", pattern="^[0-9a-f]{6}$")]


class Line(Struct):
    sku: str
    quantity: Annotated[int, Param(ge=1, le=99)] = 1


class Cart(Struct):
    id: str
    lines: list[Line]
    total: Annotated[int, Param("In cents.")] = 0


class Address(Struct):
    name: str
    street: str
    city: str
    country: Annotated[str, Param("Two letters, as in ISO 3166.", pattern="^[A-Z]{2}$")]
    floor: int | None = None


class Order(Struct):
    number: int
    lines: list[Line]
    address: Address
    shipping: Shipping
    total: Annotated[int, Param("In cents, shipping included.")]


CATALOGUE = [
    Product("SH-1", "Linen shirt", "clothing", 4900, 12, "e8e0d0"),
    Product("SH-2", "Flannel shirt", "clothing", 5900, 3, "a02c2c"),
    Product("MU-1", "Enamel mug", "kitchen", 1400, 40, "2c5aa0"),
    Product("TE-1", "Teapot", "kitchen", 3900, 0, "308050"),
    Product("RA-1", "Rake", "garden", 2900, 7, "806030"),
]


class Shop(Struct):
    """What the shop knows while it is open. A real one would hold a connection to its database."""

    products: dict[str, Product]
    carts: dict[str, Cart] = field(default_factory=dict)
    orders: list[Order] = field(default_factory=list)
    followed: set[int] = field(default_factory=set)

    def product(self, sku: str) -> Product:
        # The text of a ToolError is shown to the model, which can then do better.
        if sku not in self.products:
            raise ToolError(f"There is no product {sku!r}: search for one first.")
        return self.products[sku]

    def cart(self, cart_id: str) -> Cart:
        if cart_id not in self.carts:
            raise ToolError(f"There is no cart {cart_id!r}: call add_to_cart first.")
        return self.carts[cart_id]


@asynccontextmanager
async def open_shop(app: App) -> AsyncGenerator[Shop]:
    """Surrounds serving, once. Handlers find what it yields as `ctx.state`."""
    yield Shop({product.sku: copy.copy(product) for product in CATALOGUE})


app = App(
    "shop",
    "1.0.0",
    title="Corner shop",
    instructions="Search for products, add them to a cart, then check out. All prices are in cents.",
    lifespan=open_shop,
)


# -- Tools -------------------------------------------------------------------------------
#
# A plain `def` runs in a thread, where it may block. An `async def` runs on trio, where only one handler runs at a
# time and gives way only at an `await`: what it does in between needs no lock.


@app.tool(title="Search products", read_only=True)
def search(
    ctx: SyncContext,
    query: Annotated[str, Param("Words from the name; empty for everything.", max_length=100)] = "",
    category: Category | None = None,
    max_price: Annotated[int | None, Param("In cents.", gt=0)] = None,
) -> list[Product]:
    """Search the catalogue.

    Args:
        category: Leave it out to search all of them.
    """
    shop: Shop = ctx.state
    return [
        product
        for product in shop.products.values()
        if query.casefold() in product.name.casefold()
        and category in (None, product.category)
        and (max_price is None or product.price <= max_price)
    ]


@app.tool
async def add_to_cart(
    ctx: Context, items: Annotated[list[Line], Param(min_length=1)], cart_id: str | None = None
) -> Cart:
    """Put products into a cart.

    Args:
        items: What to add.
        cart_id: Leave it out to begin a new cart.
    """
    shop: Shop = ctx.state
    for item in items:
        if shop.product(item.sku).stock < item.quantity:
            raise ToolError(f"There are only {shop.product(item.sku).stock} of {item.sku} left.")
    if cart_id is None:
        cart_id = f"cart-{len(shop.carts) + 1}"
        shop.carts[cart_id] = Cart(cart_id, [])
    cart = shop.cart(cart_id)
    cart.lines += items
    cart.total = sum(shop.product(line.sku).price * line.quantity for line in cart.lines)
    return cart


@app.tool(destructive=True, idempotent=True)
async def empty_cart(ctx: Context, cart_id: str) -> None:
    """Take everything out of a cart."""
    cart = ctx.state.cart(cart_id)
    cart.lines, cart.total = [], 0


@app.tool(destructive=True, idempotent=False, open_world=True)
async def check_out(
    ctx: Context, cart_id: str, address: Address, shipping: Shipping = Shipping.STANDARD
) -> Order:
    """Order what is in a cart."""
    shop: Shop = ctx.state
    cart = shop.cart(cart_id)
    if not cart.lines:
        raise ToolError("The cart is empty.")
    # Progress and log messages are sent only to clients that want them.
    await ctx.report_progress(1, 3, "Packing")
    for line in cart.lines:
        shop.product(line.sku).stock -= line.quantity
    await ctx.report_progress(2, 3, "Charging")
    total = cart.total + SHIPPING_COSTS[shipping]
    order = Order(len(shop.orders) + 1, cart.lines, address, shipping, total)
    shop.orders.append(order)
    del shop.carts[cart_id]
    await ctx.info({"order": order.number, "total": total}, logger="orders")
    await ctx.report_progress(3, 3, "Done")
    return order


@app.tool(read_only=True)
async def follow_parcel(
    ctx: Context, number: int, pace: Annotated[float, Param("Seconds per stop.", ge=0, le=60)] = 1
) -> str:
    """Follow the parcel of an order until it arrives."""
    shop: Shop = ctx.state
    if not 0 < number <= len(shop.orders):
        raise ToolError(f"There is no order {number}.")
    if number in shop.followed:
        raise ToolError(f"Order {number} is being followed already.")
    stops = ["the warehouse", "the airport", "the depot", "your street"]
    shop.followed.add(number)
    try:
        await ctx.report_progress(0, len(stops), "On its way")
        for passed, stop in enumerate(stops, 1):
            await trio.sleep(pace)  # raises trio.Cancelled when the client gives up
            await ctx.report_progress(passed, len(stops), f"At {stop}")
    finally:
        shop.followed.discard(number)
    return f"Order {number} has arrived."


@app.tool(read_only=True)
def show(ctx: SyncContext, sku: str) -> list[Text | Image | ResourceLink]:
    """Show a product: a line of text, its photo, and where to read more."""
    product = ctx.state.product(sku)
    return [
        Text(f"{product.name}, {product.price / 100:.2f}", Annotations(audience=("user",), priority=1.0)),
        Image(photo_of(product)),
        ResourceLink(f"shop://products/{sku}", product.name, mime_type="application/json"),
    ]


# -- Resources: what a client may read ---------------------------------------------------


@app.resource("shop://about", mime_type="text/markdown", cache=Cache(ttl=3600, scope="public"))
def about() -> str:
    """Where and when the shop is open."""
    return "# Corner shop\n\nOpen from nine to five, at the corner.\n"


@app.resource("shop://logo", mime_type="image/png")
def logo() -> bytes:
    """The shop's sign."""
    return png("d04010", 32, 32)


def skus(typed: str) -> list[str]:
    """Completes what is typed so far."""
    return [product.sku for product in CATALOGUE if product.sku.startswith(typed.upper())]


def all_products() -> Iterator[dict[str, str]]:
    """The members of the template below, so that clients can list them."""
    for product in CATALOGUE:
        yield {"sku": product.sku}


@app.resource("shop://products/{sku}", list=all_products)
def product(ctx: SyncContext, sku: Annotated[str, Complete(skus)]) -> Product:
    """A product, as JSON."""
    shop: Shop = ctx.state
    if sku not in shop.products:
        raise NotFound(f"There is no product {sku!r}.")
    return shop.products[sku]


@app.resource("shop://products/{sku}/photo", mime_type="image/png")
def photo(ctx: SyncContext, sku: Annotated[str, Complete(skus)]) -> bytes:
    """What a product looks like."""
    return photo_of(product(ctx, sku))  # a decorated function is still the function


@app.resource("shop://orders/{number}")
def order(ctx: SyncContext, number: int) -> Order:
    """An order. The number in the URI is read as an integer; what is none is refused."""
    shop: Shop = ctx.state
    if not 0 < number <= len(shop.orders):
        raise NotFound(f"There is no order {number}.")
    return shop.orders[number - 1]


# -- Prompts: what a user may begin with -------------------------------------------------


@app.prompt(title="Find a present")
def find_present(recipient: str, category: Category = "clothing", budget: int = 5000) -> str:
    """Let the model look for a present.

    Args:
        recipient: Who it is for.
        budget: In cents.
    """
    return f"Search the shop's {category} for a present for {recipient} that costs at most {budget} cents."


def other_skus(typed: str, arguments: dict[str, str]) -> list[str]:
    """Completes with what has been chosen for the other arguments in mind."""
    return [sku for sku in skus(typed) if sku != arguments.get("first")]


@app.prompt
def compare(
    ctx: SyncContext, first: Annotated[str, Complete(skus)], second: Annotated[str, Complete(other_skus)]
) -> list[Message]:
    """Compare two products."""
    return [
        user(f"Compare {first} and {second}."),
        *(user(data_sheet(ctx.state.product(sku))) for sku in (first, second)),
        assistant("Here is how they differ:"),
    ]


# -- A part of the app that could stand in a module of its own ---------------------------

staff = Blueprint("staff")


@staff.tool
async def restock(ctx: Context, sku: str, quantity: Annotated[int, Param(ge=1)]) -> int:
    """Put more of a product on the shelf; the result is how many there are now."""
    shop: Shop = ctx.state
    product = shop.product(sku)
    product.stock += quantity
    return product.stock


app.register(staff)  # as staff_restock


# -- Helpers -----------------------------------------------------------------------------


def data_sheet(product: Product) -> EmbeddedResource:
    text = f"{product.name} ({product.category}): {product.price} cents, {product.stock} in stock"
    return EmbeddedResource(f"shop://products/{product.sku}", text=text, mime_type="text/plain")


def photo_of(product: Product) -> bytes:
    return png(product.colour, 64, 48)


def png(colour: str, width: int, height: int) -> bytes:
    """A PNG file of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    row = b"\0" + bytes.fromhex(colour) * width
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(row * height)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


if __name__ == "__main__":
    app.run()
