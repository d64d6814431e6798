"""The variant `live` of the golden corpus's reference server (`fixtures/README.md`): it changes while it is served.

Run it with `mcpkit run tests/corpus/live.py:live`.
"""

from __future__ import annotations

from typing import Literal

from mcpkit import App, Context

live = App("live")

LISTS = {
    "tools": live.notifier.tools_changed,
    "prompts": live.notifier.prompts_changed,
    "resources": live.notifier.resources_changed,
}


def extra() -> str:
    """Comes and goes."""
    return "extra"


# Changes are made and told on the engine's own thread, in one go: so their order is the order of the code.


@live.tool
async def announce(changes: list[str]) -> str:
    """Say that lists or resources have changed."""
    for change in changes:
        if change in LISTS:
            LISTS[change]()
        else:
            live.notifier.resource_updated(change)
    return "announced"


@live.tool
async def add(kind: Literal["tool", "prompt", "resource"]) -> str:
    """Add what is called extra."""
    if kind == "tool":
        live.add_tool(extra)
    elif kind == "prompt":
        live.add_prompt(extra)
    else:
        live.add_resource(extra, "extra://one", mime_type="text/plain")
    return "added"


@live.tool
async def remove(kind: Literal["tool", "prompt", "resource"]) -> str:
    """Take it away again."""
    if kind == "tool":
        live.remove_tool("extra")
    elif kind == "prompt":
        live.remove_prompt("extra")
    else:
        live.remove_resource("extra://one")
    return "removed"


@live.tool
async def toil(ctx: Context) -> str:
    """Report progress, log, and announce."""
    await ctx.report_progress(1, 1)
    await ctx.warning("hot")
    live.notifier.tools_changed()
    return "toiled"


@live.prompt
def greet() -> str:
    """Greet someone."""
    return "Hello!"


@live.resource("memo://note", mime_type="text/plain")
def note() -> str:
    """A note."""
    return "a note"


@live.resource("memo://{name}", mime_type="text/plain")
def memo(name: str) -> str:
    """A note by its name."""
    return f"note {name}"
