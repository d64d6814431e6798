"""Clients whose id is the URL of a document about them: fetched, checked, kept for a while.

Anybody can have any URL fetched. So that is done at a limited pace for each network, and what went wrong is remembered,
too, if only for seconds. What a fetch may reach is the matter of `fetch`.

Source: draft-ietf-oauth-client-id-metadata-document; MCP 2026-07-28, "Authorization", Client ID Metadata Documents.
"""

from __future__ import annotations

from collections import OrderedDict

import trio

from mcpkit.auth.clientdata import Client, checked, described
from mcpkit.auth.fetch import CannotFetch, Fetcher
from mcpkit.auth.forms import OAuthError, busy, invalid_client
from mcpkit.auth.limits import Limit
from mcpkit.auth.urls import split

GOOD_SECONDS = 900.0
BAD_SECONDS = 10.0
PER_MINUTE = 30
MAX_KEPT = 1_000


class Documents:
    """The documents that were fetched last."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._pace = Limit(PER_MINUTE, 60.0)
        # Until when each holds, and what came of it: the client, or what is wrong.
        self._kept: OrderedDict[str, tuple[float, Client | str]] = OrderedDict()

    async def find(self, url: str, network: str) -> Client:
        """The client with the id `url`, for somebody in `network`. Raises `OAuthError`, whose description is for the
        user.
        """
        until, known = self._kept.get(url, (0.0, ""))
        if until <= trio.current_time():
            known = await self._look(url, network)
        if isinstance(known, str):
            raise invalid_client(f"The document that describes the program cannot be used. {known}")
        return known

    async def _look(self, url: str, network: str) -> Client | str:
        wait = self._pace.wait(network)
        if wait:
            raise busy(429, "Too many programs have sent you here", wait)
        self._pace.count(network)
        try:
            found: Client | str = await self._fetch(url)
        except (CannotFetch, OAuthError) as error:
            found = str(error)
        seconds = BAD_SECONDS if isinstance(found, str) else GOOD_SECONDS
        self._kept[url] = trio.current_time() + seconds, found
        self._kept.move_to_end(url)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return found

    async def _fetch(self, url: str) -> Client:
        parts = split(url)
        if parts is None or parts.path in ("", "/") or "/." in parts.path:
            raise CannotFetch("It is not the URL of a document")
        document = await self._fetcher.json(url)
        if not isinstance(document, dict) or document.get("client_id") != url:
            raise CannotFetch("It says another client_id than its own URL")
        said = {name: value for name, value in document.items() if value is not None}
        metadata = checked({"token_endpoint_auth_method": "none", **said})
        if metadata.token_endpoint_auth_method != "none":  # noqa: S105
            raise CannotFetch("It wants to prove itself with a secret, which a public document cannot hold")
        return described(url, metadata, None)
