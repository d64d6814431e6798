"""The keys that tokens are signed with: one that is given, or those that an issuer publishes.

Published keys (RFC 7517) are fetched when they are first needed, when a token names one that is not known, and now and
then; at most once in a while whatever tokens come, and once for all who wait. What is known goes on being good when the
issuer cannot be reached.
"""

from __future__ import annotations

import base64
import math
from pathlib import Path
from typing import Any, Protocol

import trio
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, Key, OctKey, OKPKey, RSAKey

from mcpkit.auth.base import Unavailable
from mcpkit.auth.outbound import RETRY_SECONDS, Issuer

MAX_AGE_SECONDS = 3600.0
"""After which the keys are fetched again: one that the issuer has withdrawn is to be forgotten."""
COOL_DOWN_SECONDS = 10.0
"""Between two fetches for the sake of keys that are not known: anybody can make such tokens."""
FAILED_SECONDS, STALE_SECONDS = 1.0, 60.0
"""Between two tries when the issuer does not answer: for a token that waits, and for one whose key is known."""

_PEM = "-----BEGIN"
_KINDS: tuple[type[RSAKey | ECKey | OKPKey], ...] = (RSAKey, ECKey, OKPKey)


class Keys(Protocol):
    """Where keys come from."""

    async def find(self, kid: str | None) -> Key | None:
        """The key of an id; without one, the only key. Raises `Unavailable`."""
        ...


class OneKey:
    """One key, whatever id a token gives it."""

    def __init__(self, key: Key) -> None:
        self._key = key

    async def find(self, kid: str | None) -> Key | None:
        """See `Keys`."""
        return self._key


def secret_key(secret: str | bytes) -> OctKey:
    """The key of HS256 and its like. Raises ValueError for what is a public key, which everybody knows."""
    raw = secret.encode() if isinstance(secret, str) else secret
    if not raw:
        raise ValueError("the secret is empty")
    if _PEM.encode() in raw or raw.startswith((b"ssh-", b"ecdsa-")):
        raise ValueError(
            "the secret is a key of a pair, which would let anybody sign who has its public half: pass "
            "public_key=, and a secret only for HS256 and its like"
        )
    return OctKey.import_key({"kty": "oct", "k": _base64url(raw)})


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def public_key(given: str | Path) -> Key:
    """The public key in a PEM text (or in a certificate), or in a file. Raises ValueError for what is none, OSError
    when the file cannot be read.
    """
    text = given if isinstance(given, str) and _PEM in given else Path(given).read_text(encoding="utf-8")
    if "PRIVATE KEY" in text:
        raise ValueError(
            "public_key is a private key: whoever only checks tokens must not be able to make them"
        )
    for kind in _KINDS:
        try:
            return kind.import_key(text)
        except (ValueError, TypeError, JoseError):
            continue
    raise ValueError(f"public_key is no RSA, EC or Ed25519 key in PEM form: {text.strip()[:30]!r}")


class PublishedKeys:
    """The keys at a URL."""

    def __init__(self, url: str) -> None:
        self._issuer = Issuer(url)
        self._keys: dict[str | None, Key] = {}
        self._fetched = self._failed = self._wondered = -math.inf
        """When a fetch succeeded, when one failed, and when one was for a key that was not known."""
        self._fetching = trio.Lock()

    async def find(self, kid: str | None) -> Key | None:
        """See `Keys`."""
        if self._is_due(kid):
            async with self._fetching:
                if self._is_due(kid):  # nobody has fetched them while this waited
                    await self._fetch(kid)
        if kid not in self._keys and self._failing:
            raise Unavailable(RETRY_SECONDS)  # nobody knows whether it is a key of the issuer
        return self._keys.get(kid)

    @property
    def _failing(self) -> bool:
        return self._failed > self._fetched

    def _is_due(self, kid: str | None) -> bool:
        now, known = trio.current_time(), kid in self._keys
        if self._failing and now - self._failed < (STALE_SECONDS if known else FAILED_SECONDS):
            return False
        if now - self._fetched > MAX_AGE_SECONDS:
            return True
        return not known and now - self._wondered > COOL_DOWN_SECONDS

    async def _fetch(self, kid: str | None) -> None:
        document = await self._issuer.try_get()
        if document is None:
            self._failed = trio.current_time()
            return
        first, self._fetched = self._fetched == -math.inf, trio.current_time()
        if not first and kid not in self._keys:
            self._wondered = self._fetched
        self._keys = _read(document)


def _read(document: dict[str, Any]) -> dict[str | None, Key]:
    """The keys of a document that can sign; one that cannot be read is left out (RFC 7517 section 5)."""
    keys: dict[str | None, Key] = {}
    found = document.get("keys")
    for data in found if isinstance(found, list) else ():
        try:
            if data.get("use", "sig") == "sig" and data.get("kty") != "oct":
                key = JWKRegistry.import_key(data)
                keys[data.get("kid")] = key
        except (JoseError, ValueError, TypeError, AttributeError, KeyError):
            continue
    if len(keys) == 1:
        keys[None] = next(iter(keys.values()))
    return keys
