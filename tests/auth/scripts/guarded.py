"""An app that knows its callers by their tokens, with parts that need scopes."""

from __future__ import annotations

import os
import time
from typing import Annotated

import msgspec

from mcpkit import Accepted, App, Cache, Complete, Context, Message, Principal, SyncContext, user
from mcpkit.auth import BearerAuth, Unavailable

TOKENS = {
    "ann": Principal("ann", ("read",)),
    "ann-again": Principal("ann", ("read",)),
    "ann-write": Principal("ann", ("read", "write"), {"team": "blue"}),
    "ann-all": Principal("ann", ("read", "write", "audit")),
    "bob": "bob",
    "robot": {"kind": "robot", "number": 7},
    "nobody": "",
    "no": False,
    "list": [],
    "s3cret:with!signs$": "eve",
}


async def check(token: str) -> object:
    """What a token stands for."""
    if token == "boom":
        raise ValueError("a secret of the database")
    if token == "exit":
        raise SystemExit(3)
    if token == "away":
        raise Unavailable(2.5)
    if token == "unwritable":
        return object()
    if token == "brief":
        return Principal("ann", ("read",), {"exp": time.time() + 1.5})
    return TOKENS.get(token)


REQUIRED = os.environ.get("REQUIRED", "").split()
AUTH = BearerAuth(check, required_scopes=REQUIRED, realm='the "realm" \\')
app = App("guarded", auth=AUTH, cache=Cache(60, "public"))


@app.tool
def who(caller: Principal, ctx: SyncContext) -> str:
    """Who calls, with what."""
    assert ctx.principal == caller
    return f"{caller} {' '.join(caller.scopes)} {ctx.token} {caller.claims} {caller.value}"


@app.tool(inline=True)
def who_inline(caller: Principal) -> str:
    """Who calls."""
    return caller.id


@app.tool(loop="asyncio")
async def who_on_asyncio(caller: Principal) -> str:
    """Who calls."""
    return caller.id


@app.tool
async def anyone(ctx: Context, caller: Principal | None, again: Principal | None = None) -> str:
    """Who calls, if that is known."""
    return f"{caller} {again} {ctx.principal} {ctx.token}"


@app.tool(scopes=["write"])
async def wipe(what: int, ctx: Context) -> str:
    """Needs a scope."""
    await ctx.report_progress(1)
    return f"wiped {what}"


@app.tool(scopes=["write", "audit"])
async def audit() -> str:
    """Needs two."""
    return "audited"


@app.resource("memo://open")
def open_memo() -> str:
    """For everybody."""
    return "open"


@app.resource("memo://secret", scopes=["write"])
def secret_memo() -> str:
    """Needs a scope."""
    return "secret"


def names(partial: str) -> list[str]:
    """What there is in the vault."""
    return ["gold"]


@app.resource("vault://{name}", scopes=["write"], list=lambda: [{"name": "gold"}])
def vault(name: Annotated[str, Complete(names)]) -> str:
    """Needs a scope."""
    return name


@app.prompt
def greet() -> str:
    """For everybody."""
    return "Hello"


@app.prompt(scopes=["write"])
def plan(target: Annotated[str, Complete(names)]) -> list[Message]:
    """Needs a scope."""
    return [user(target)]


@app.tool
async def touch(ctx: Context) -> str:
    """All memos have changed."""
    for uri in ("memo://secret", "memo://open"):
        ctx.app.notifier.resource_updated(uri)
    return "touched"


class Answer(msgspec.Struct):
    """A form."""

    colour: str


@app.tool
async def ask(ctx: Context) -> str:
    """Asks."""
    match await ctx.elicit(Answer, "Which colour?"):
        case Accepted(answer):
            return answer.colour
    return "none"
