"""Who calls: what authentication knows, and handlers are given."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Principal(Struct, frozen=True):
    """Who a token stands for. Handlers over HTTP get it by annotation, or as `ctx.principal`.

    `id` is the user's name, the token's `sub`, or the id of the client; sessions and sealed state are bound to it.
    `scopes` are what the token was given. `claims` is what the token, or its issuer, says more. `value` is what a
    `BearerAuth` function returned.
    """

    id: str
    scopes: tuple[str, ...] = ()
    claims: dict[str, Any] = {}
    value: Any = None

    def __str__(self) -> str:
        return self.id
