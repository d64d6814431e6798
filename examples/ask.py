"""A restaurant that asks: who comes, and whether the table is right. Each thing is done once.

Try it:      mcpkit call examples/ask.py book day=2030-05-04 --answer name=Ada --answer proceed=yes
Serve it:    mcpkit run examples/ask.py

Without an `--answer` the first command asks in the terminal.

A handler reads as if it could wait for the answers. With clients of the handshake era it does. In the stateless era
each question ends a round, and the handler runs again from the start with the answers so far: then `ctx.elicit` returns
at once, and so does `ctx.step`, with what its function returned the first time. So whatever must happen only once is a
step, and between questions and steps a handler does the same each time.
"""

import datetime
import enum
import itertools
import sys
from typing import Annotated

from msgspec import Struct

from mcpkit import Accepted, App, Cancelled, Context, Declined, Param, ToolError, Unavailable

app = App("restaurant", instructions="Books tables for one evening.")


class Area(enum.Enum):
    INSIDE = "inside"
    TERRACE = "terrace"
    BAR = "bar"


# -- Forms -------------------------------------------------------------------------------
#
# A form is a flat record. What a person enters is checked against it, and asked for again, with the reason, when it
# does not fit. `enumNames` are the titles of the choices, in their order.


class Party(Struct):
    name: Annotated[str, Param("Under which name", min_length=2, max_length=40)]
    guests: Annotated[int, Param("How many come", ge=1, le=8)] = 2
    area: Annotated[Area, Param(extra={"enumNames": ["Inside", "On the terrace", "At the bar"]})] = (
        Area.INSIDE
    )
    mail: Annotated[str, Param("Where the confirmation goes", extra={"format": "email"})] | None = None


class Confirm(Struct):
    proceed: Annotated[bool, Param("Book this table", title="Book it?")]


# -- The restaurant ----------------------------------------------------------------------


class Table(Struct):
    number: int
    area: Area
    seats: int


class Booking(Struct):
    number: int
    day: datetime.date
    table: Table
    party: Party


TABLES = [Table(n, area, seats) for n, (area, seats) in enumerate(itertools.product(Area, (2, 4, 8)), 1)]
numbers = itertools.count(1)
held: set[tuple[datetime.date, int]] = set()
bookings: list[Booking] = []


def hold(day: datetime.date, party: Party) -> Table:
    """Keep the smallest free table that is large enough."""
    for table in TABLES:
        if table.area is party.area and table.seats >= party.guests and (day, table.number) not in held:
            held.add((day, table.number))
            print(f"table {table.number} is held", file=sys.stderr)
            return table
    raise ToolError(f"There is no free table for {party.guests} {party.area.value} on {day}.")


def release(day: datetime.date, table: Table) -> None:
    """Let somebody else have it."""
    held.discard((day, table.number))
    print(f"table {table.number} is released", file=sys.stderr)


async def enter(day: datetime.date, table: Table, party: Party) -> Booking:
    """Write the booking down."""
    booking = Booking(next(numbers), day, table, party)
    bookings.append(booking)
    print(f"booking {booking.number} is entered", file=sys.stderr)
    return booking


# -- Tools -------------------------------------------------------------------------------


@app.tool(destructive=False)
async def book(day: datetime.date, ctx: Context, party: Party | None = None) -> Booking:
    """Book a table. The guest is asked who comes, and whether the table is right.

    Args:
        day: The evening.
        party: Who comes; only for clients that cannot ask the guest.
    """
    if party is None:
        party = await ask_for_party(day, ctx)
    table: Table = await ctx.step(hold, day, party)
    offer = f"Table {table.number} ({table.area.value}, {table.seats} seats) on {day}, for {party.guests}?"
    match await ctx.elicit(Confirm, offer):
        case Accepted(Confirm(proceed=True)) | Unavailable():
            # Where nobody can be asked, whoever gave the party has asked already.
            booking: Booking = await ctx.step(enter, day, table, party)
            return booking
        case _:
            await ctx.step(release, day, table)
            raise ToolError("Nothing was booked: the guest does not want this table.")


async def ask_for_party(day: datetime.date, ctx: Context) -> Party:
    """Who comes."""
    match await ctx.elicit(Party, f"Who comes on {day}?"):
        case Accepted(party):
            return party
        case Unavailable():
            raise ToolError("This client cannot ask the guest: ask them, and call again with `party`.")
        case Declined() | Cancelled():
            raise ToolError("Nothing was booked: the guest did not say who comes.")


@app.tool(read_only=True)
def list_bookings() -> list[Booking]:
    """What has been booked."""
    return bookings


if __name__ == "__main__":
    app.run()
