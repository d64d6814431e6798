"""Questions to the issuer of tokens: short, small, and never followed elsewhere."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import trio

from mcpkit.auth.base import Unavailable

SECONDS = 10.0
"""For an answer."""
MAX_ANSWER = 1024 * 1024
"""Bytes of an answer."""
RETRY_SECONDS = 5
"""When a client is told to come back while the issuer cannot be reached."""

_log = logging.getLogger("mcpkit")


def checked_url(name: str, url: str) -> str:
    """`url`, the option `name`. Raises ValueError unless it is an absolute http(s) URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{name} is an absolute http(s) URL, not {url!r}")
    return url


class Issuer:
    """One endpoint of an issuer."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._tls: ssl.SSLContext | bool = ssl.create_default_context() if url.startswith("https:") else True

    async def try_get(self) -> dict[str, Any] | None:
        """The JSON object at its URL; None when it cannot be had."""
        try:
            return await self._ask("GET", {})
        except Unavailable:
            return None

    async def post(self, form: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, Any]:
        """The JSON object that answers a form. Raises `Unavailable`."""
        return await self._ask("POST", headers, data=form)

    async def _ask(self, method: str, headers: Mapping[str, str], **more: Any) -> dict[str, Any]:
        headers = {"accept": "application/json", **headers}
        try:
            with trio.fail_after(SECONDS):
                async with (
                    httpx.AsyncClient(verify=self._tls, timeout=SECONDS) as client,
                    client.stream(method, self._url, headers=headers, **more) as response,
                ):
                    return await _read(response)
        except (httpx.HTTPError, trio.TooSlowError, OSError, ValueError) as error:
            # Neither the token nor the secret stands in any of these.
            _log.error("%s cannot be asked: %s", self._url, error or type(error).__name__)
            raise Unavailable(RETRY_SECONDS) from None


async def _read(response: httpx.Response) -> dict[str, Any]:
    if response.status_code != 200:
        raise ValueError(f"it answers with status {response.status_code}")
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MAX_ANSWER:
            raise ValueError(f"its answer is larger than {MAX_ANSWER:,} bytes")
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise ValueError("its answer is no JSON object")
    return answer
