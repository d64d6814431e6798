"""Lists that have been encoded, kept for whoever asks next."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

MAX_BYTES = 8 * 1024 * 1024
"""Of all that is kept. Who has more lists than that, in all revisions and for all combinations of scopes, has some of
them encoded again.
"""

Key = tuple[str, str, str | None, frozenset[str] | None]
"""What decides what a page holds: method, revision, cursor, and the scopes of the caller where they count."""


class Pages:
    """Encoded pages. They were made of `basis`, and are good as long as nothing in it has been replaced; `needed` are
    the scopes that anything needs.
    """

    def __init__(self, basis: tuple[Any, ...], needed: frozenset[str]) -> None:
        self.basis = basis
        self.needed = needed
        self._kept: dict[Key, Raw] = {}
        self.size = 0
        """Bytes that are kept."""

    def get(self, key: Key) -> Raw | None:
        """The page, when it is kept."""
        return self._kept.get(key)

    def keep(self, key: Key, page: bytes) -> Raw:
        """The page, which is kept."""
        self.size += len(page)
        if self.size > MAX_BYTES:
            self._kept.clear()
            self.size = len(page)
        kept = self._kept[key] = Raw(page)
        return kept
