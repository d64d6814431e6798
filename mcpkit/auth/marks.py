"""Whether a form comes from the page that this browser was given, and from no other site's (CSRF).

The browser keeps a secret in a cookie; the form carries a mark, which is made with that secret over everything that is
asked. Nothing is kept here, and no key is needed: only who has both can send the form.

Rule 1. On https the name of the cookie begins with `__Host-`, so no other host, not even a neighbouring one, can have
        set it. On plain http, which is for this machine, other ports could: there the browser says which site sends the
        form.
Rule 2. A secret is used again while it lasts, so that two pages can be open at once; each form has a mark of its own,
        which counts once.

Source: RFC 6265bis section 4.1.3; W3C Fetch Metadata; OWASP, "Signed Double-Submit Cookie".
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping

import msgspec

from mcpkit.auth.base import Site
from mcpkit.auth.secret import digest, new_secret
from mcpkit.stores.base import Store
from mcpkit.transports.http import Request

SECONDS = 3600
_SECRET = re.compile(r"[A-Za-z0-9\-_]{43}")


def secret_for(request: Request, site: Site) -> str:
    """The secret of the browser, a new one when it has none."""
    return _secret(request, site) or new_secret()


def cookie(secret: str, site: Site) -> tuple[bytes, bytes]:
    """The header that has the browser keep its secret."""
    secure = "; Secure" if site.origin.startswith("https:") else ""
    text = f"{_name(site)}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={SECONDS}{secure}"
    return b"set-cookie", text.encode()


def new_mark(secret: str, asked: Mapping[str, str]) -> str:
    """A mark for one form."""
    salt = secrets.token_urlsafe(16)
    return f"{salt}.{_sign(secret, salt, asked)}"


async def is_good(request: Request, site: Site, mark: str, asked: Mapping[str, str], store: Store) -> bool:
    """Whether the form is one that this browser was given, for what is asked, and not used yet."""
    if request.get("sec-fetch-site") in ("cross-site", "same-site"):
        return False
    secret = _secret(request, site)
    salt, _, signed = mark.partition(".")
    if secret is None or not hmac.compare_digest(signed.encode(), _sign(secret, salt, asked).encode()):
        return False
    return await store.get(_used(mark)) is None


async def use(mark: str, store: Store) -> bool:
    """The form has its effect; False when it has had it already, since it was sent twice."""
    if await store.get(_used(mark)) is not None:
        return False
    await store.put(_used(mark), b"", SECONDS)
    return True


def _used(mark: str) -> str:
    return f"oauth:form:{digest(mark)}"


def _sign(secret: str, salt: str, asked: Mapping[str, str]) -> str:
    signed = msgspec.json.encode([salt, *sorted(asked.items())])
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def _name(site: Site) -> str:
    return "__Host-mcpkit-form" if site.origin.startswith("https:") else "mcpkit-form"


def _secret(request: Request, site: Site) -> str | None:
    """The secret in the cookie. Of two cookies with the name at least one is somebody else's: neither is trusted."""
    prefix = _name(site) + "="
    pairs = [pair.strip() for pair in "; ".join(request.all("cookie")).split(";")]
    found = [pair.removeprefix(prefix) for pair in pairs if pair.startswith(prefix)]
    return found[0] if len(found) == 1 and _SECRET.fullmatch(found[0]) else None
