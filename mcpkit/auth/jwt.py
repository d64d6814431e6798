"""Tokens that carry who they are for, signed by their issuer.

Source: RFC 7519, RFC 8725 (best practices), RFC 9068 (access tokens).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import OctKey
from joserfc.jws import JWSRegistry

from mcpkit.auth import claims as read
from mcpkit.auth.base import Auth, AuthOptions, Site
from mcpkit.auth.keys import Keys, OneKey, PublishedKeys, public_key, secret_key
from mcpkit.auth.outbound import checked_url
from mcpkit.principal import Principal
from mcpkit.stores.base import Store

_SYMMETRIC = ("HS256", "HS384", "HS512")
_OF_KEYS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA", "Ed25519"),
    "oct": _SYMMETRIC,
}
_ASYMMETRIC = tuple(name for kind, names in _OF_KEYS.items() if kind != "oct" for name in names)
_TYPES = ("jwt", "at+jwt")

_log = logging.getLogger("mcpkit.auth")


class JWTAuth(Auth):
    """JSON Web Tokens. One of: `secret`, for HS256; `public_key`, a PEM text or the path of a file; `jwks_url`, where
    the issuer publishes its keys.

    `algorithms` are those that are accepted: HS256 with a secret, else all of the key's kind unless given. `issuer` is
    what `iss` must be; `audience` what `aud` must hold, one of them when there are several: the URL of the MCP endpoint
    unless given. `exp` is needed; `leeway` is how many seconds clocks may differ. The principal is `sub`, or else the
    client, with the scopes in `scope` and `scp`. The other options are those of `Auth`.

    Raises ValueError and TypeError for what cannot be: no key or several, an algorithm that does not fit the key.
    """

    def __init__(
        self,
        *,
        secret: str | bytes | None = None,
        public_key: str | Path | None = None,
        jwks_url: str | None = None,
        algorithms: Sequence[str] = (),
        issuer: str | None = None,
        audience: str | Sequence[str] | None = None,
        leeway: float = 0.0,
        **options: Unpack[AuthOptions],
    ) -> None:
        super().__init__(**options)
        if (secret is not None) + (public_key is not None) + (jwks_url is not None) != 1:
            raise TypeError("JWTAuth takes one of secret=, public_key= and jwks_url=")
        self._jwks_url = None if jwks_url is None else checked_url("jwks_url", jwks_url)
        self._keys: Keys | None = None
        possible = _ASYMMETRIC
        if jwks_url is None:
            self._keys, possible = _given(secret, public_key)
        self._registry = _Registry(algorithms=_checked(algorithms, possible), strict_check_header=False)
        self._issuer = issuer
        self._audiences = [audience] if isinstance(audience, str) else list(audience or ())
        self._leeway = leeway

    @property
    def trusts_host(self) -> bool:
        """See `Auth`."""
        return self.resource is None and not self._audiences

    async def run(self, store: Store) -> None:
        """See `Auth`."""
        await super().run(store)
        if self._jwks_url is not None:
            self._keys = PublishedKeys(self._jwks_url)

    async def verify(self, token: str, site: Site) -> Principal | None:
        """See `Auth`."""
        claims = await self._verified(token)
        problem = (
            "its signature, algorithm or type is not good" if claims is None else self._problem(claims, site)
        )
        if claims is None or problem is not None:
            _log.info("a token was refused: %s", problem)
            return None
        return read.principal(claims)

    def _problem(self, claims: dict[str, Any], site: Site) -> str | None:
        """Why a token with a good signature is not good here, for the log."""
        if "exp" not in claims or not read.is_current(claims, self._leeway):
            return "it has expired, is not valid yet, or says no time"
        if self._issuer is not None and claims.get("iss") != self._issuer:
            return f"it is from {claims.get('iss')!r:.200}, not from {self._issuer!r}"
        wanted = self._audiences or [site.resource]
        if not any(read.is_for(claims.get("aud"), audience) for audience in wanted):
            return f"it is for {claims.get('aud')!r:.200}, and this server is {', '.join(wanted)}"
        return None

    async def _verified(self, token: str) -> dict[str, Any] | None:
        """The claims of a token whose signature is good."""
        assert self._keys is not None, "run() comes first"
        try:
            signed = jws.extract_compact(token.encode(), registry=self._registry)
            header = signed.headers()
            self._registry.get_alg(header["alg"])
            if "crit" in header or not _is_access_token(header.get("typ")):
                return None
            key = await self._keys.find(header.get("kid"))
            if key is None or not jws.validate_compact(signed, key, registry=self._registry):
                return None
            claims = msgspec.json.decode(signed.payload)
        except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        return claims if isinstance(claims, dict) else None


class _Registry(JWSRegistry):
    """Exactly the algorithms of the list, and headers as long as issuers make them."""

    max_header_length = 4096

    def get_alg(self, name: str) -> Any:
        """Raises `UnsupportedAlgorithmError` for one that is not in the list. (EdDSA is there under both names: RFC
        9864 deprecates the old one, which issuers go on using.)
        """
        if not isinstance(name, str) or name not in (self.allowed or ()):
            raise UnsupportedAlgorithmError(f"Algorithm of '{name}' is not allowed")
        return self.algorithms[name]


def _given(secret: str | bytes | None, given: str | Path | None) -> tuple[Keys, tuple[str, ...]]:
    """A key that was given, and the algorithms that it can be used with."""
    key = secret_key(secret) if secret is not None else public_key(given or "")
    return OneKey(key), _OF_KEYS["oct" if isinstance(key, OctKey) else key.key_type]


def _checked(algorithms: Sequence[str], possible: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(algorithms, str):
        raise TypeError("algorithms is a list of names, not one string")
    for name in algorithms:
        if name not in possible:
            raise ValueError(
                f"tokens signed with {name!r} cannot be checked with this key, or by nobody: there are "
                f"{', '.join(possible)}"
            )
    chosen = tuple(algorithms) or (possible[:1] if possible == _SYMMETRIC else possible)
    both = ("EdDSA", "Ed25519")
    return (*chosen, *both) if set(both) & set(chosen) else chosen


def _is_access_token(kind: Any) -> bool:
    """`typ`, which may be left out: an ID token or a logout token of the same issuer is no key to anything (RFC 8725
    section 3.11).
    """
    return kind is None or (isinstance(kind, str) and kind.lower().removeprefix("application/") in _TYPES)
