"""Tokens that a function of the user's knows."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Unpack

import msgspec
import trio

from mcpkit.auth.base import Auth, AuthOptions, Site
from mcpkit.principal import Principal

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class BearerAuth(Auth):
    """`check(token)`, a def (which runs in a thread) or an async def (on trio), says whose a token is.

    It returns a `Principal`; a string, which is the id; any other JSON value, which becomes the principal's `value`
    with an id that is always the same for it; or None (or False) for a token that is not good. The options are those
    of `Auth`.
    """

    def __init__(self, check: Callable[[str], Any], **options: Unpack[AuthOptions]) -> None:
        super().__init__(**options)
        if not callable(check):
            advice = ": pass its get method" if isinstance(check, Mapping) else ""
            raise TypeError(f"BearerAuth takes a function of the token, not a {type(check).__name__}{advice}")
        called = (
            check
            if inspect.isroutine(check) or isinstance(check, functools.partial)
            else type(check).__call__
        )
        self._is_async = inspect.iscoroutinefunction(called)
        self._check = check

    @property
    def trusts_host(self) -> bool:
        """See `Auth`. The function alone decides."""
        return False

    async def verify(self, token: str, site: Site) -> Principal | None:
        """See `Auth`."""
        found = self._check(token) if self._is_async else await trio.to_thread.run_sync(self._check, token)
        return _principal(await found if inspect.isawaitable(found) else found)


def _principal(found: Any) -> Principal | None:
    if found is None or found is False:
        return None
    if isinstance(found, Principal):
        return found
    if isinstance(found, str):
        return Principal(found)
    return Principal("value:" + hashlib.sha256(_encode_sorted(found)).hexdigest()[:32], value=found)
