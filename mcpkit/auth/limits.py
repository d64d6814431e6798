"""How often somebody may do something: token buckets, for the last who did, in this process."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict

import trio

BURST = 100
"""Wrong tokens at once from one address, and again in as many seconds."""
MAX_KEYS = 10_000
"""Who is remembered; who was quiet for longest is forgotten first."""


class Limit:
    """At most `burst` at once, and `burst` in each `seconds` from then on, for each key."""

    def __init__(self, burst: int, seconds: float) -> None:
        self._burst = burst
        self._seconds_each = seconds / burst
        self._of_runs: trio.lowlevel.RunVar[OrderedDict[str, float] | None] = trio.lowlevel.RunVar(
            "_of_runs", None
        )

    @property
    def _full_at(self) -> OrderedDict[str, float]:
        """The moment at which a key has its whole burst again: one number says all about a bucket. Each trio run has a
        clock of its own, which another's moments mean nothing to.
        """
        moments = self._of_runs.get()
        if moments is None:
            moments = OrderedDict()
            self._of_runs.set(moments)
        return moments

    def wait(self, key: str) -> int:
        """Whole seconds until it may be done; 0 for now."""
        behind = self._full_at.get(key, 0.0) - trio.current_time()
        return max(0, math.ceil(round(behind - (self._burst - 1) * self._seconds_each, 3)))

    def count(self, key: str) -> None:
        """It is done once."""
        self._move(key, self._seconds_each)

    def forgive(self, key: str) -> None:
        """It was not done after all."""
        self._move(key, -self._seconds_each)

    def _move(self, key: str, seconds: float) -> None:
        now = trio.current_time()
        self._full_at[key] = max(now, self._full_at.get(key, now)) + seconds
        self._full_at.move_to_end(key)
        if len(self._full_at) > MAX_KEYS:
            self._full_at.popitem(last=False)


class Failures:
    """How many wrong tokens an address may send.

    Guessing is hopeless with good tokens, but each wrong one costs work, and maybe a question to another server. After
    a burst an address is told to wait; a good token still passes, since many people may share the address.
    """

    def __init__(self) -> None:
        self._limit = Limit(BURST, BURST)

    def count(self, address: str | None) -> int:
        """Note a wrong token. The seconds to wait for the next one; 0 while there may be more."""
        name = network(address)
        wait = self._limit.wait(name)
        if not wait:
            self._limit.count(name)
        return wait


def retry_after(seconds: float) -> tuple[bytes, bytes]:
    """The header that says when to come again."""
    return b"retry-after", str(math.ceil(seconds)).encode()


def network(address: str | None) -> str:
    """Whoever has one IPv6 address has the other 2**64 of its network."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return ""
    return str(parsed) if parsed.version == 4 else str(ipaddress.ip_network((parsed, 64), strict=False))
