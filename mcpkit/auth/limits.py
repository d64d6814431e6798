"""How many wrong tokens an address may send.

Guessing is hopeless with good tokens, but each wrong one costs work, and maybe a question to another server. After a
burst an address is told to wait; a good token still passes, since many people may share the address.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict

BURST = 100
"""Wrong tokens at once."""
PER_SECOND = 1.0
"""And then."""
MAX_PEERS = 10_000
"""Addresses that are remembered; the one that was quiet for longest is forgotten first."""


class Failures:
    """Wrong tokens by address: a bucket for each, which fills up again with time."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def count(self, address: str | None) -> int:
        """Note a wrong token. The seconds to wait for the next one; 0 while there may be more."""
        now, name = time.monotonic(), _network(address)
        left, since = self._buckets.pop(name, (float(BURST), now))
        left = min(float(BURST), left + (now - since) * PER_SECOND)
        wait = 0 if left >= 1 else max(1, math.ceil((1 - left) / PER_SECOND))
        self._buckets[name] = (left - 1 if not wait else left, now)
        if len(self._buckets) > MAX_PEERS:
            self._buckets.popitem(last=False)
        return wait


def _network(address: str | None) -> str:
    """Whoever has one IPv6 address has the other 2**64 of its network."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return ""
    return str(parsed) if parsed.version == 4 else str(ipaddress.ip_network((parsed, 64), strict=False))
