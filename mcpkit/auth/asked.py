"""What a client asks of the authorization endpoint, and whether it could be granted.

Source: OAuth 2.1 (draft-ietf-oauth-v2-1) section 4.1.1; RFC 6749 sections 3.1 and 3.3; RFC 7636; RFC 8707.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from mcpkit.auth.forms import OAuthError, require
from mcpkit.auth.urls import is_same_resource

PARAMETERS = (
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "scope",
    "code_challenge",
    "code_challenge_method",
    "resource",
)
"""Those that mean something here."""

MAX_STATE = 4096
"""Characters."""

_CHALLENGE = re.compile(r"[A-Za-z0-9\-_]{43}")


class Given:
    """The parameters of a request. One that is empty counts as absent."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.fields: dict[str, str] = {}
        self.repeated: set[str] = set()
        for name, value in pairs:
            if name in self.fields:
                self.repeated.add(name)
            if value:
                self.fields[name] = value

    def get(self, name: str) -> str:
        """The value of a parameter, "" when it is absent. Raises `OAuthError` when there is more than one."""
        if name in self.repeated:
            raise OAuthError("invalid_request", f"{name} is there more than once")
        return self.fields.get(name, "")

    def require(self, name: str) -> str:
        """The value of a parameter that must be there. Raises `OAuthError`."""
        self.get(name)
        return require(self.fields, name)

    @property
    def state(self) -> str | None:
        """What goes back to the client as it was."""
        state = None if "state" in self.repeated else self.fields.get("state")
        return None if state is None or len(state) > MAX_STATE else state

    @property
    def asked(self) -> dict[str, str]:
        """The parameters that mean something."""
        return {name: self.fields[name] for name in PARAMETERS if name in self.fields}


class Asked(Struct):
    """What could be granted."""

    challenge: str
    scopes: tuple[str, ...]


class Rules(Struct):
    """What there is to ask for: `scopes`, each with what users read about it; `default` for whoever asks for none."""

    scopes: Mapping[str, str]
    default: tuple[str, ...]

    def check(self, given: Given, resource: str) -> Asked:
        """What is asked. Raises `OAuthError`, which the client is told."""
        if given.repeated:
            raise OAuthError("invalid_request", "A parameter is there more than once")
        if given.require("response_type") != "code":
            raise OAuthError("unsupported_response_type", "response_type must be code")
        if given.get("response_mode") not in ("", "query"):
            raise OAuthError("invalid_request", "response_mode must be query")
        if given.get("request") or given.get("request_uri"):
            raise OAuthError("request_not_supported", "Request objects are not supported")
        if given.get("prompt") == "none":
            raise OAuthError("login_required", "The user has to sign in")
        if len(given.get("state")) > MAX_STATE:
            raise OAuthError("invalid_request", f"state is longer than {MAX_STATE:,} characters")
        if given.get("code_challenge_method") != "S256":  # absent, it would mean "plain"
            raise OAuthError("invalid_request", "code_challenge_method must be S256")
        if not _CHALLENGE.fullmatch(given.require("code_challenge")):
            raise OAuthError("invalid_request", "code_challenge must be a SHA-256 hash in base64url")
        if not is_same_resource(given.get("resource") or resource, resource):
            raise OAuthError("invalid_target", f"The only resource here is {resource}")
        return Asked(given.get("code_challenge"), self._wanted(given.get("scope")))

    def _wanted(self, scope: str) -> tuple[str, ...]:
        """The scopes that are asked for and exist: a server may ignore others. Clients that know of none ask for those
        of OpenID Connect.
        """
        return tuple(name for name in dict.fromkeys(scope.split()) if name in self.scopes) or self.default
