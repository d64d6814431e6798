"""State that travels through the client, which must neither read nor change it.

A seal is AES-256-GCM under a key that is derived from the app's, in text that a URL can hold:

    version (1 byte) | length of the key's id (1 byte) | the id | nonce (12 bytes) | ciphertext and tag

Rule 1. Header, purpose and binding (who asks what) are authenticated with the content. So a state that is
        changed, cut, or shown with another binding does not open.
Rule 2. The moment of expiry is inside; a state without one does not exist.
Rule 3. All failures are the same to the client.

Source: NIST SP 800-38D; RFC 5869 (key derivation); MCP 2026-07-28, "Multi round-trip requests", security.
"""

from __future__ import annotations

import base64
import os
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

VARIABLE = "MCPKIT_STATE_KEYS"
"""Keys as `ID:BASE64URL,ID:BASE64URL`: the first seals, all open."""

_VERSION = 1
_EXPIRY = struct.Struct(">d")


class StateKey(Struct, frozen=True):
    """A key for sealed state: an id of 1 to 64 bytes in UTF-8, and 32 secret bytes. Raises ValueError or TypeError
    for anything else.
    """

    id: str
    secret: bytes

    def __post_init__(self) -> None:
        if not 1 <= len(self.id.encode()) <= 64:
            raise ValueError("the id of a StateKey has 1 to 64 bytes in UTF-8")
        if not isinstance(self.secret, bytes):
            raise TypeError("the secret of a StateKey is bytes, not text: os.urandom(32) makes one")
        if len(self.secret) != 32:
            raise ValueError(
                f"the secret of a StateKey has 32 bytes, not {len(self.secret)}: os.urandom(32) makes one"
            )

    def __repr__(self) -> str:
        return f"StateKey({self.id!r}, ...)"


class SealBroken(Exception):
    """A state that this server did not make, not for this request, or that has expired."""


class BadKeys(ValueError):
    """The keys for sealed state cannot be used; the message says why, and nothing of the secrets."""


def keys_from_environment() -> tuple[StateKey, ...]:
    """The keys in `MCPKIT_STATE_KEYS`; none when it is not set. Raises `BadKeys` when it cannot be read."""
    text = os.environ.get(VARIABLE, "")
    keys = tuple(_key(number, item.strip()) for number, item in enumerate(text.split(","), 1) if item.strip())
    if text and not keys:
        raise BadKeys(f"{VARIABLE} holds no key: give it one as ID:BASE64URL, or unset it")
    return keys


def _key(number: int, text: str) -> StateKey:
    name, _, secret = text.partition(":")
    secret = secret.rstrip("=")
    try:
        return StateKey(name, base64.b64decode(secret + "=" * (-len(secret) % 4), b"-_", validate=True))
    except ValueError as error:
        raise BadKeys(
            f"{VARIABLE}: key {number} is not ID:BASE64URL with 32 bytes ({error}). Make one with: "
            "python -c \"import base64, os; print('ID:' + base64.urlsafe_b64encode(os.urandom(32)).decode())\""
        ) from None


class Sealer:
    """Seals with the first key, opens with any; without keys it makes one that lives as long as the process.

    `ttl` is how long a state is good, in seconds of `clock`, which several processes must share. Raises
    `BadKeys` for two keys with the same id.
    """

    def __init__(
        self, keys: Sequence[StateKey], ttl: float, purpose: str, clock: Callable[[], float] = time.time
    ) -> None:
        keys = keys or (StateKey(os.urandom(4).hex(), os.urandom(32)),)
        if len({key.id for key in keys}) < len(keys):
            raise BadKeys(
                "two keys for sealed state have the same id: a state would not say which one opens it"
            )
        self._ttl = ttl
        self._clock = clock
        self._purpose = purpose.encode()
        self._first = keys[0].id.encode()
        self._secrets = {key.id.encode(): key.secret for key in keys}
        self._ciphers: dict[bytes, Any] = {}

    def seal(self, content: bytes, binding: bytes) -> str:
        """The content as a state for requests with this binding."""
        header = bytes([_VERSION, len(self._first)]) + self._first
        nonce = os.urandom(12)
        plain = _EXPIRY.pack(self._clock() + self._ttl) + content
        sealed = self._cipher(self._first).encrypt(nonce, plain, self._context(header, binding))
        return base64.urlsafe_b64encode(header + nonce + sealed).decode().rstrip("=")

    def open(self, state: str, binding: bytes) -> bytes:
        """The content of a state. Raises `SealBroken`."""
        from cryptography.exceptions import InvalidTag

        raw = _decode(state)
        size = 2 + (raw[1] if len(raw) > 1 else 0)
        header, nonce, sealed = raw[:size], raw[size : size + 12], raw[size + 12 :]
        if header[:1] != bytes([_VERSION]) or header[2:] not in self._secrets or len(nonce) < 12:
            raise SealBroken
        try:
            plain: bytes = self._cipher(header[2:]).decrypt(nonce, sealed, self._context(header, binding))
        except InvalidTag:
            raise SealBroken from None
        if _EXPIRY.unpack_from(plain)[0] <= self._clock():
            raise SealBroken
        return plain[_EXPIRY.size :]

    def _cipher(self, key_id: bytes) -> Any:
        """Made when it is first needed: most servers never seal anything."""
        if key_id not in self._ciphers:
            self._ciphers[key_id] = _cipher(self._secrets[key_id], self._purpose)
        return self._ciphers[key_id]

    def _context(self, header: bytes, binding: bytes) -> bytes:
        return header + len(self._purpose).to_bytes(2, "big") + self._purpose + binding


def _decode(state: str) -> bytes:
    """The bytes of a state. Only the one spelling that `seal` writes is taken: Base64 has several for the
    same bytes.
    """
    try:
        raw = base64.urlsafe_b64decode(state + "=" * (-len(state) % 4))
    except ValueError:
        raise SealBroken from None
    if base64.urlsafe_b64encode(raw).decode().rstrip("=") != state:
        raise SealBroken
    return raw


def _cipher(secret: bytes, purpose: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # slow to import, and seldom needed
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return AESGCM(HKDF(SHA256(), 32, salt=None, info=b"mcpkit " + purpose).derive(secret))
