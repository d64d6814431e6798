"""User names and passwords: checked by the app's own function, at a limited pace.

Whether a user exists makes no difference here: each try costs the same and counts the same. Tries are counted per
network, per user, and for both together, so that guessing is slow from one place and from many, and so that who guesses
holds up nobody but, for a while, the one user. Good passwords do not count.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import trio
from msgspec import Struct

from mcpkit.auth.limits import Limit, network
from mcpkit.auth.secret import digest
from mcpkit.principal import Principal

Users = Callable[[str, str], Principal | str | Awaitable[Principal | str | None] | None]

MAX_NAME = 256
MAX_PASSWORD = 1024
"""Characters: a slow hash of more is work for nothing."""

_AT_ONCE = 4
_log = logging.getLogger("mcpkit")


class TooMany(Exception):
    """There were too many tries: the next one is due in `seconds`."""

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Broken(Exception):
    """The function did not work; the log says why."""


class User(Struct):
    """Who has signed in. `allowed` are the scopes that the user may grant, None for all."""

    principal: Principal
    allowed: tuple[str, ...] | None


class SignIn:
    """`users` is the app's function."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self._threads = trio.CapacityLimiter(_AT_ONCE)
        self._limits = (Limit(50, 600.0), Limit(50, 3600.0), Limit(5, 300.0))

    async def check(self, name: str, password: str, address: str | None) -> User | None:
        """The user; None when name or password is wrong. Raises `TooMany`, `Broken`."""
        where, who = network(address), digest(name.strip().casefold())
        paces = list(zip(self._limits, (where, who, f"{where} {who}"), strict=True))
        wait = max(limit.wait(key) for limit, key in paces)
        if wait:
            raise TooMany(wait)
        for limit, key in paces:  # before the check: those that run at the same time count as well
            limit.count(key)
        wrong = False
        try:
            user = await self._checked(name, password)
            wrong = user is None
        finally:
            if not wrong:  # nor is it the user's fault when nobody could tell
                for limit, key in paces:
                    limit.forgive(key)
        return user

    async def _checked(self, name: str, password: str) -> User | None:
        if not 1 <= len(name) <= MAX_NAME or not 1 <= len(password) <= MAX_PASSWORD:
            return None
        try:
            return _user(await self._call(name, password))
        except Exception:  # the function is the app's own, and raises whatever it likes
            _log.exception("users= failed")
            raise Broken from None

    async def _call(self, name: str, password: str) -> Any:
        if inspect.iscoroutinefunction(self._users):
            return await self._users(name, password)
        result = await trio.to_thread.run_sync(
            self._users, name, password, limiter=self._threads, abandon_on_cancel=True
        )
        return await result if inspect.isawaitable(result) else result


def _user(found: Any) -> User | None:
    if found is None:
        return None
    if isinstance(found, Principal) and found.id:
        return User(found, found.scopes)
    if isinstance(found, str) and found:
        return User(Principal(found), None)
    raise TypeError(f"users= returned {found!r:.100}, not a Principal with an id, a user's name or None")
