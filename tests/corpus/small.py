"""The small variants of the golden corpus's reference server (`fixtures/README.md`), one App for each.

Run one with `mcpkit run tests/corpus/small.py:cached`.
"""

from __future__ import annotations

from reference import echo

from mcpkit import App, Cache

tools_only = App("tools-only")
tools_only.add_tool(echo)

empty = App("empty")

cached = App("cached", cache=Cache(ttl=300.0, scope="public"))


@cached.tool
def now() -> str:
    """Tell the time."""
    return "noon"


@cached.resource("memo://plain", mime_type="text/plain")
def plain() -> str:
    """Cached like everything else."""
    return "plain"


@cached.resource("memo://own", mime_type="text/plain", cache=Cache(ttl=1.5, scope="private"))
def own() -> str:
    """Cached in its own way."""
    return "own"
