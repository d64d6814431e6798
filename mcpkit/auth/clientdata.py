"""What a program says about itself, and what of it is kept.

Rule 1. Programs that register and programs that publish a document pass the same checks; what is not understood is
        left out, never kept.
Rule 2. A program may call itself anything. What identifies it is where its codes go, and, for a document, the host
        that serves it.

Source: RFC 7591 section 2; draft-ietf-oauth-client-id-metadata-document.
"""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec
from msgspec import Struct

from mcpkit.auth.forms import OAuthError
from mcpkit.auth.secret import digest
from mcpkit.auth.urls import redirect_problem, split

METHODS = ("none", "client_secret_post", "client_secret_basic")
GRANTS = ("authorization_code", "refresh_token")
_MAX_URIS = 16


class Metadata(Struct, omit_defaults=True):
    """What a client says about itself (RFC 7591 section 2). Other members are left out."""

    redirect_uris: tuple[str, ...]
    token_endpoint_auth_method: str = "client_secret_basic"  # noqa: S105
    grant_types: tuple[str, ...] = ("authorization_code",)
    response_types: tuple[str, ...] = ("code",)
    client_name: str = ""
    client_uri: str = ""
    logo_uri: str = ""
    tos_uri: str = ""
    policy_uri: str = ""
    scope: str = ""
    contacts: tuple[str, ...] = ()
    software_id: str = ""
    software_version: str = ""
    application_type: str = ""


class Client(Struct):
    """A client as it is kept. `secret` is the digest of its secret, None for a public client."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    grant_types: tuple[str, ...]
    secret: str | None = None

    @property
    def host(self) -> str | None:
        """The host that vouches for it; None when it has registered itself under a name of its own choice."""
        parts = split(self.id) if is_document(self.id) else None
        return parts.netloc if parts else None


def is_document(client_id: str) -> bool:
    """Whether the id of a client is the URL of its metadata. The ids that are given here hold no colon."""
    return ":" in client_id


def described(client_id: str, metadata: Metadata, secret: str | None) -> Client:
    """The client with this id and metadata."""
    return Client(
        client_id,
        metadata.client_name,
        metadata.redirect_uris,
        metadata.grant_types,
        None if secret is None else digest(secret),
    )


def checked(document: dict[str, Any]) -> Metadata:
    """What a document says, when all of it is allowed. Raises `OAuthError`."""
    given = {name: value for name, value in document.items() if value is not None}
    try:
        metadata = msgspec.convert(given, Metadata)
    except msgspec.ValidationError as error:
        where = "redirect_uris" in str(error)
        problem = "redirect_uris is not a list of strings" if where else _plain(str(error))
        raise OAuthError("invalid_redirect_uri" if where else "invalid_client_metadata", problem) from None
    _check_redirects(metadata.redirect_uris)
    if metadata.token_endpoint_auth_method not in METHODS:
        raise bad_metadata(f"token_endpoint_auth_method is one of {', '.join(METHODS)}")
    if "code" not in metadata.response_types or "authorization_code" not in metadata.grant_types:
        raise bad_metadata("Only the authorization code is given here: response_types must hold code")
    # RFC 7591 section 3.2.1: what the server does not have it replaces, and says so.
    metadata.grant_types = tuple(grant for grant in GRANTS if grant in metadata.grant_types)
    metadata.response_types = ("code",)
    metadata.client_name = readable(metadata.client_name)
    if metadata.application_type not in ("", "web", "native"):
        raise bad_metadata("application_type is web or native")
    return metadata


def _check_redirects(uris: tuple[str, ...]) -> None:
    if not 1 <= len(uris) <= _MAX_URIS:
        raise OAuthError("invalid_redirect_uri", f"A client has 1 to {_MAX_URIS} redirect URIs")
    for number, uri in enumerate(uris, 1):
        problem = redirect_problem(uri)
        if problem is not None:
            raise OAuthError("invalid_redirect_uri", f"Redirect URI {number} {problem}")


def readable(name: str, limit: int = 80) -> str:
    """A name as it can be shown: without what is invisible or turns the direction of the text around."""
    shown = "".join(c for c in name if unicodedata.category(c)[0] != "C")
    return shown[:limit].strip()


def _plain(text: str) -> str:
    """Text without what RFC 6749 section 5.2 does not allow in a description."""
    return "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else "'" for c in text)


def bad_metadata(description: str) -> OAuthError:
    """The error for metadata that cannot be taken."""
    return OAuthError("invalid_client_metadata", description)
