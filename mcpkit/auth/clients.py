"""The programs that ask for tokens: registered here (RFC 7591), or described by a document at their own URL.

Anybody can register. So registrations are counted, per network, and all those together that no user has accepted yet;
these are forgotten after a week.

Source: RFC 7591; MCP 2026-07-28, "Authorization", client registration.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from typing import Any

import msgspec
import trio

from mcpkit.auth.clientdata import Client, bad_metadata, checked, described, is_document
from mcpkit.auth.documents import Documents
from mcpkit.auth.forms import busy, invalid_client
from mcpkit.auth.limits import Limit, network
from mcpkit.auth.secret import is_secret, new_secret
from mcpkit.stores.base import Store

MAX_UNUSED = 2_000
"""Registrations that no user has accepted yet, in this process."""

UNUSED_SECONDS = 7 * 86400.0
USED_SECONDS = 366 * 86400.0
_PER_HOUR = 100


class Clients:
    """All clients. `store` holds those that have registered, `documents` knows the others. One that a user has accepted
    is kept for at least `keep` seconds.
    """

    def __init__(self, store: Store, documents: Documents, keep: float = 0.0) -> None:
        self._store = store
        self._keep = max(keep, USED_SECONDS)
        self._documents = documents
        self._unused: OrderedDict[str, float] = OrderedDict()
        self._registering = Limit(_PER_HOUR, 3600.0)

    async def register(self, body: bytes, address: str | None) -> dict[str, Any]:
        """Register a client; what it is told. Raises `OAuthError`."""
        metadata = checked(_object(body))
        self._check_room(network(address))
        self._registering.count(network(address))
        client_id = f"client_{secrets.token_urlsafe(16)}"
        secret = None if metadata.token_endpoint_auth_method == "none" else new_secret()  # noqa: S105
        await self._put(described(client_id, metadata, secret), UNUSED_SECONDS)
        self._unused[client_id] = trio.current_time() + UNUSED_SECONDS
        told: dict[str, Any] = {
            "client_id": client_id,
            "client_id_issued_at": int(time.time()),
            **msgspec.to_builtins(metadata),
            "token_endpoint_auth_method": metadata.token_endpoint_auth_method,
            "grant_types": metadata.grant_types,
            "response_types": metadata.response_types,
        }
        return told if secret is None else {**told, "client_secret": secret, "client_secret_expires_at": 0}

    def _check_room(self, key: str) -> None:
        wait = self._registering.wait(key)
        if wait:
            raise busy(429, "Too many clients have registered from this network", wait)
        now = trio.current_time()
        while self._unused and next(iter(self._unused.values())) <= now:
            self._unused.popitem(last=False)
        if len(self._unused) >= MAX_UNUSED:
            raise busy(503, "Too many clients have registered that no user has accepted", 3600)

    async def accept(self, client: Client) -> None:
        """A user has accepted the client: it is kept for longer."""
        if not is_document(client.id):
            self._unused.pop(client.id, None)
            await self._put(client, self._keep)

    async def _put(self, client: Client, ttl: float) -> None:
        await self._store.put(f"oauth:client:{client.id}", msgspec.json.encode(client), ttl)

    async def find(self, client_id: str, address: str | None) -> Client:
        """A client that asks for authorization. Raises `OAuthError`, whose description is for the user."""
        if is_document(client_id):
            return await self._documents.find(client_id, network(address))
        client = await self._registered(client_id)
        if client is None:
            raise invalid_client("This server does not know the program that sent you here, or no longer")
        return client

    async def _registered(self, client_id: str) -> Client | None:
        found = await self._store.get(f"oauth:client:{client_id}") if len(client_id) < 100 else None
        return None if found is None else msgspec.json.decode(found, type=Client)

    async def authenticate(self, client_id: str, secret: str | None, *, basic: bool = False) -> str:
        """The id of a client at the token endpoint, once it has proved who it is. Raises `OAuthError`.

        A client with a document is public, and what it was given is bound to its id: the document is not needed again.
        """
        if is_document(client_id) and secret is None:
            return client_id
        client = None if is_document(client_id) else await self._registered(client_id)
        if client is None:
            raise invalid_client("There is no such client: register again", basic=basic)
        if client.secret is None:
            if secret is not None:
                raise invalid_client("This client has no secret", basic=basic)
        elif secret is None or not is_secret(secret, client.secret):
            raise invalid_client("The client's secret is missing or wrong", basic=basic)
        return client_id


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise bad_metadata("The body is not JSON") from None
    if not isinstance(value, dict):
        raise bad_metadata("The body is not a JSON object")
    return value
