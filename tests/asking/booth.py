"""An app for people at a terminal: every kind of field, a page, a secret that should not be asked for."""

from __future__ import annotations

import datetime
import enum
from typing import Annotated, Any

import msgspec

from mcpkit import App, Context, ElicitForm, Param

app = App("booth")


class Size(enum.Enum):
    small = "s"
    large = "l"


class Order(msgspec.Struct):
    name: Annotated[str, Param("Who orders", title="Your name")]
    count: Annotated[int, Param("How many", ge=1, le=9)]
    size: Annotated[Size, Param(extra={"enumNames": ["Small", "Large"]})] = Size.small
    toppings: Annotated[list[Size], Param(min_length=1)] = msgspec.field(default_factory=lambda: [Size.large])
    gift: bool = False
    weight: float = 1.5
    day: datetime.date | None = None


class Agreed(msgspec.Struct):
    pass


class Login(msgspec.Struct):
    user: str
    password: Annotated[str, Param(min_length=3)]


@app.tool
async def order(ctx: Context) -> str:
    """Everything a form can hold."""
    return repr(await ctx.elicit(Order, "What do you want?\x1b[31m"))


@app.tool
async def agree(ctx: Context) -> str:
    """A form without fields."""
    return repr(await ctx.elicit(Agreed, "Do you agree?"))


@app.tool
async def visit(ctx: Context) -> str:
    """A page."""
    return repr(await ctx.elicit_url("https://example.com/pay", "Pay here"))


@app.tool
async def login(ctx: Context) -> str:
    """Asks for what it should not ask for."""
    answer = await ctx.elicit(Login, "Who are you?")
    return type(answer).__name__


@app.tool
async def two(ctx: Context) -> str:
    """Two forms in one round, after each other in a terminal."""
    answers: dict[str, Any] = await ctx.ask(a=ElicitForm(Agreed, "A?"), b=ElicitForm(Agreed, "B?"))
    return repr(answers)


@app.tool
async def model(ctx: Context) -> str:
    """What a person cannot answer, unless they said so before."""
    said = await ctx.sample("hi")
    roots = await ctx.list_roots()
    return f"{said!r} {roots!r}"
