"""What may stand inside `Annotated[...]` of a parameter, besides a plain string (its description)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mcpkit.protocol.headers import check_header_name


def Param(  # noqa: N802 - reads as a type in Annotated
    description: str | None = None,
    *,
    title: str | None = None,
    examples: list[Any] | None = None,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    multiple_of: float | None = None,
    pattern: str | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    extra: dict[str, Any] | None = None,
) -> msgspec.Meta:
    """Describe and bound a parameter: `days: Annotated[int, Param("Days ahead", ge=1, le=7)]`.

    Bounds on an optional (`Annotated[int | None, Param(ge=1)] = None`) bind the value when there is one.
    Lengths count characters of a string, items of a list, members of a dict; `pattern` is a regular
    expression that is searched for. `extra` is merged into the JSON Schema. A bare `msgspec.Meta` does the
    same.
    """
    options: dict[str, Any] = {
        "description": description,
        "title": title,
        "examples": examples,
        "ge": ge,
        "gt": gt,
        "le": le,
        "lt": lt,
        "multiple_of": multiple_of,
        "pattern": pattern,
        "min_length": min_length,
        "max_length": max_length,
        "extra_json_schema": extra,
    }
    return msgspec.Meta(**options)


def Header(name: str) -> msgspec.Meta:  # noqa: N802 - reads as a type in Annotated
    """Mirror a tool's parameter into the HTTP header `Mcp-Param-NAME`, so that proxies can route on it:
    `region: Annotated[str, Header("Region")]`.

    The parameter is a `str`, `int`, `bool` or an enum of these. Never mark a secret. Raises ValueError for a
    name that is no HTTP token. Source: MCP 2026-07-28, Streamable HTTP, "x-mcp-header".
    """
    check_header_name(name)
    return msgspec.Meta(extra_json_schema={"x-mcp-header": name})


class Complete:
    """Complete a prompt's argument or a template's variable: `slug: Annotated[str, Complete(slugs)]`.

    `fn` takes what is typed so far, and optionally the arguments that have a value already (a dict of
    strings); it returns, or is a coroutine function that returns, any iterable of strings. The first 100 are
    sent.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        if not callable(fn):
            raise TypeError(f"Complete takes a function of the text typed so far, not {fn!r}")
        self.fn = fn
