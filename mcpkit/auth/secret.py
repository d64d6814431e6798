"""Secrets that are given out, and what is kept of them."""

from __future__ import annotations

import hashlib
import hmac
import secrets


def new_secret() -> str:
    """A secret that cannot be guessed: 256 random bits in text for URLs and headers."""
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """What is kept of a secret. It is too random to be found by trying, so one round of SHA-256 is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_secret(secret: str, kept: str) -> bool:
    """Whether `kept` is the digest of a secret."""
    return hmac.compare_digest(digest(secret), kept)
