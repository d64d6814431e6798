"""Who calls: what authentication knows, and handlers are given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

_SCOPE = re.compile(r"[!#-\[\]-~]+")


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

    def __post_init__(self) -> None:
        if not isinstance(self.id, str):
            raise TypeError(f"the id of a Principal is a string, not {self.id!r}")
        force_setattr(self, "id", str.__str__(self.id))  # a string of a subclass could not be stored
        if isinstance(self.scopes, str):
            raise TypeError("the scopes of a Principal are a tuple of strings, not one string")

    def __str__(self) -> str:
        return self.id


def checked_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """The scopes of an option. Raises TypeError for one string, ValueError for what can be no scope (RFC 6749 section
    3.3).
    """
    if isinstance(scopes, str) or not all(isinstance(scope, str) for scope in scopes):
        raise TypeError(f"scopes are a list of strings, not {scopes!r}.")
    for scope in scopes:
        if not _SCOPE.fullmatch(scope):
            raise ValueError(
                f"{scope!r} is no scope: it has visible ASCII characters, no blank, quote or backslash."
            )
    return tuple(dict.fromkeys(scopes))
