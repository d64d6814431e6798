"""An app whose handlers ask in every way there is, in each kind of function."""

from __future__ import annotations

import datetime
import enum
import os
from typing import Annotated, Any

import msgspec

from mcpkit import (
    Accepted,
    App,
    Context,
    ElicitForm,
    InputRequired,
    ListRoots,
    Message,
    Param,
    Sample,
    SyncContext,
    Unavailable,
    user,
)

app = App("questionnaire")
done: list[str] = []
"""The steps that were taken in this process."""


def record(step: str) -> None:
    """Note that a step was taken, also for whoever started this process."""
    done.append(step)
    if "STEPS" in os.environ:
        with open(os.environ["STEPS"], "a") as file:
            file.write(step + "\n")


class Area(enum.Enum):
    inside = "inside"
    terrace = "terrace"


class Party(msgspec.Struct):
    area: Area
    guests: Annotated[int, Param("How many come", ge=1, le=8)] = 2
    vegetarian: bool = False


class Confirm(msgspec.Struct):
    proceed: bool


class Table(msgspec.Struct):
    number: int
    area: Area
    day: datetime.date


class Booking(msgspec.Struct):
    table: Table
    guests: int
    paid: bool


def reserve(area: Area) -> Table:
    record("reserve")
    return Table(7, area, datetime.date(2030, 1, 2))


async def areserve(area: Area) -> Table:
    return reserve(area)


def pay(table: Table) -> bool:
    record("pay")
    return isinstance(table.day, datetime.date)


async def _book(name: str, ctx: Context, step: Any) -> Booking | None:
    party = await ctx.elicit(Party, f"Who comes, {name}?")
    if not isinstance(party, Accepted):
        raise ValueError(repr(party))
    table = await ctx.step(step, party.value.area)
    match await ctx.elicit(Confirm, f"Take table {table.number} on the {table.area.value}?"):
        case Accepted(Confirm(proceed=True)):
            return Booking(table, party.value.guests, await ctx.step(pay, table))
    return None


@app.tool
async def book(name: str, ctx: Context) -> Booking | None:
    """Book a table."""
    return await _book(name, ctx, areserve)


@app.tool(loop="asyncio")
async def book_asyncio(name: str, ctx: Context) -> Booking | None:
    """Book a table, on asyncio."""
    return await _book(name, ctx, reserve)


@app.tool
def book_sync(name: str, ctx: SyncContext) -> Booking | None:
    """Book a table, in a thread."""
    party = ctx.elicit(Party, f"Who comes, {name}?")
    if not isinstance(party, Accepted):
        raise ValueError(repr(party))
    table = ctx.step(areserve, party.value.area)
    match ctx.elicit(Confirm, f"Take table {table.number} on the {table.area.value}?"):
        case Accepted(Confirm(proceed=True)):
            return Booking(table, party.value.guests, ctx.step(pay, table))
    return None


async def _everything(ctx: Context) -> list[str]:
    several = await ctx.ask(
        ok=ElicitForm(Confirm, "All right?"), haiku=Sample("A haiku", max_tokens=50), where=ListRoots()
    )
    visit = await ctx.elicit_url("https://example.com/pay", "Pay here")
    said = await ctx.sample(["Hello", user("Again")], max_tokens=5, temperature=0.5, stop_sequences=["."])
    roots = await ctx.list_roots()
    return [_told(answer) for answer in (*several.values(), visit, said, roots)]


def _told(answer: Any) -> str:
    match answer:
        case Accepted(value) if hasattr(value, "text"):
            return f"said {value.text}"
        case Accepted([*roots]):
            return f"roots {[root.uri for root in roots]}"
        case Accepted(value):
            return f"accepted {value}"
        case Unavailable():
            return "unavailable"
    return type(answer).__name__


@app.tool
async def everything(ctx: Context) -> list[str]:
    """Ask everything there is to ask."""
    return await _everything(ctx)


@app.tool(loop="asyncio")
async def everything_asyncio(ctx: Context) -> list[str]:
    """The same on asyncio."""
    return await _everything(ctx)


@app.tool
def everything_sync(ctx: SyncContext) -> list[str]:
    """The same in a thread."""
    several = ctx.ask(
        ok=ElicitForm(Confirm, "All right?"), haiku=Sample("A haiku", max_tokens=50), where=ListRoots()
    )
    visit = ctx.elicit_url("https://example.com/pay", "Pay here")
    said = ctx.sample(["Hello", user("Again")], max_tokens=5, temperature=0.5, stop_sequences=["."])
    roots = ctx.list_roots()
    return [_told(answer) for answer in (*several.values(), visit, said, roots)]


@app.tool
async def try_to_ask(ctx: Context) -> str:
    """What became of a question."""
    return repr(await ctx.elicit(Confirm, "Go on?"))


@app.prompt
async def invitation(guest: str, ctx: Context) -> list[Message]:
    """A letter, once it is known where to."""
    answer = await ctx.elicit(Party, f"Where will {guest} sit?")
    return [user(f"Invite {guest}: {answer.value.area.value}" if isinstance(answer, Accepted) else "No.")]


@app.prompt
def invitation_sync(guest: str, ctx: SyncContext) -> str:
    """The same in a thread."""
    answer = ctx.elicit(Party, f"Where will {guest} sit?")
    return f"Invite {guest}: {answer.value.area.value}" if isinstance(answer, Accepted) else "No."


@app.resource("menu://{day}")
async def menu(day: str, ctx: Context) -> str:
    """A menu, once it is known for whom."""
    answer = await ctx.elicit(Party, f"Who comes on {day}?")
    return f"{day}: {answer.value.vegetarian}" if isinstance(answer, Accepted) else "closed"


@app.resource("menu-sync://{day}")
def menu_sync(day: str, ctx: SyncContext) -> str:
    """The same in a thread."""
    answer = ctx.elicit(Party, f"Who comes on {day}?")
    return f"{day}: {answer.value.vegetarian}" if isinstance(answer, Accepted) else "closed"


@app.tool
async def by_hand(ctx: Context) -> str | InputRequired:
    """Ask the low-level way, in two rounds."""
    if ctx.request_state is None:
        record("first")
        return InputRequired({"confirm": ElicitForm(Confirm, "Sure?")}, state="asked once")
    if "confirm" not in ctx.input_responses:
        return InputRequired({"confirm": ElicitForm(Confirm, "Sure?")}, state="asked again")
    return f"{ctx.request_state}: {ctx.input_responses['confirm']['action']}"


@app.tool
async def stateless_by_hand(ctx: Context) -> str | InputRequired:
    """Ask the low-level way, without a state."""
    answer = ctx.input_responses.get("user_name")
    if answer is None:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        return InputRequired({"user_name": ElicitForm(schema, "What is your name?")})
    return f"Hello, {answer['content']['name']}!"
