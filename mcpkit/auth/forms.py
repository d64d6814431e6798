"""Forms that clients post to OAuth endpoints, and the answers they get.

Source: RFC 6749 sections 2.3.1, 3.2 and 5; RFC 6750 section 2.1.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

import msgspec

from mcpkit.auth.base import Route, Site
from mcpkit.auth.limits import retry_after
from mcpkit.stores.base import StoreError
from mcpkit.transports.http import BodyRefused, Exchange, HeaderList, Request

MAX_FORM = 16 * 1024
"""Bytes."""
FORM_SECONDS = 10.0
MAX_FIELDS = 50
RETRY_SECONDS = 30
"""When to come again while the store is full or out of reach."""

_NO_STORE: HeaderList = ((b"cache-control", b"no-store"), (b"pragma", b"no-cache"))


class OAuthError(Exception):
    """An error of RFC 6749 section 5.2: its `code` is for programs, the description for people."""

    def __init__(self, code: str, description: str, status: int = 400, headers: HeaderList = ()) -> None:
        super().__init__(description)
        self.code = code
        self.status = status
        self.headers = headers


def invalid_client(description: str, *, basic: bool = False) -> OAuthError:
    """The error for a client that is unknown or does not prove who it is; it may register again."""
    challenge = [(b"www-authenticate", b'Basic realm="token"')] if basic else []
    return OAuthError("invalid_client", description, 401, challenge)


def busy(status: int, description: str, wait: float) -> OAuthError:
    """The error for what may be tried again after `wait` seconds."""
    return OAuthError("temporarily_unavailable", description, status, [retry_after(wait)])


FULL = busy(503, "The server cannot keep anything at the moment", RETRY_SECONDS)


def endpoint(route: Route, *verbs: str) -> Route:
    """A route for some verbs, whose errors are answered as OAuth has them."""

    async def serve(exchange: Exchange, site: Site) -> None:
        if exchange.request.method not in verbs:
            await refuse_verb(exchange, verbs)
            return
        try:
            await route(exchange, site)
        except OAuthError as error:
            await respond_error(exchange, error)
        except StoreError:
            await respond_error(exchange, FULL)

    return serve


async def refuse_verb(exchange: Exchange, verbs: Sequence[str]) -> None:
    """Answer a verb that a route does not have; OPTIONS it has, see `Route`."""
    headers = [(b"allow", ", ".join([*verbs, "OPTIONS"]).encode()), (b"content-type", b"text/plain")]
    await exchange.respond(405, headers, b"Method Not Allowed\n")


async def respond(
    exchange: Exchange, status: int, value: Mapping[str, Any], headers: HeaderList = ()
) -> None:
    """Answer with JSON that nobody keeps (RFC 6749 section 5.1)."""
    head = [(b"content-type", b"application/json"), *_NO_STORE, *headers]
    await exchange.respond(status, head, msgspec.json.encode(value))


async def respond_error(exchange: Exchange, error: OAuthError) -> None:
    """Answer with an error."""
    await respond(
        exchange, error.status, {"error": error.code, "error_description": str(error)}, error.headers
    )


async def read_form(exchange: Exchange) -> dict[str, str]:
    """The fields of a form; empty ones count as absent (RFC 6749 section 3.2). Raises `OAuthError`."""
    kind = (exchange.request.get("content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise OAuthError("invalid_request", "Send the form as application/x-www-form-urlencoded")
    try:
        data = await exchange.body(MAX_FORM, FORM_SECONDS)
    except BodyRefused as refused:
        raise OAuthError("invalid_request", str(refused), refused.status) from None
    pairs = parse(data)
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise OAuthError("invalid_request", "A field is there more than once")
    return {name: value for name, value in fields.items() if value}


def parse(data: bytes) -> list[tuple[str, str]]:
    """The names and values in a form or a query. Raises `OAuthError`."""
    try:
        return parse_qsl(
            data.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise OAuthError("invalid_request", "The form cannot be read") from None


def require(fields: Mapping[str, str], name: str) -> str:
    """The value of a field that must be there. Raises `OAuthError`."""
    if name not in fields:
        raise OAuthError("invalid_request", f"{name} is missing")
    return fields[name]


def basic_credentials(request: Request) -> tuple[str, str] | None:
    """User and password of Basic credentials, still encoded; None when the request has none. Raises ValueError for
    what cannot be read.
    """
    given = request.all("authorization")
    if not given:
        return None
    scheme, _, value = given[0].partition(" ")
    if len(given) > 1 or scheme.lower() != "basic":
        raise ValueError("no Basic credentials")
    try:
        user, colon, password = base64.b64decode(value.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError("no Basic credentials") from None
    if not colon:
        raise ValueError("no Basic credentials")
    return user, password


def spellings(text: str) -> tuple[str, ...]:
    """What one part of Basic credentials may stand for: RFC 6749 wants it form-encoded, and many clients do not."""
    decoded = unquote_plus(text)
    return (decoded,) if decoded == text else (decoded, text)
