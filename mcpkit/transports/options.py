"""The options of serving over HTTP, the same for the command line, `app.run` and `app.asgi`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class HttpOptions(Struct, kw_only=True, frozen=True):
    """Limits and permissions of one HTTP server."""

    path: str = "/mcp"
    """Where the endpoint is; with and without a slash at its end."""
    max_body: int = 4 * 1024 * 1024
    """Bytes of one request body."""
    body_timeout: float = 30.0
    """Seconds that a body may take to arrive."""
    max_sessions: int = 10_000
    """Sessions of the handshake era at the same time."""
    session_idle: float = 1800.0
    """Seconds without a request after which a session is forgotten."""
    grace: float = 5.0
    """Seconds that running calls may take when the server ends."""
    keep_alive: float = 15.0
    """Seconds of silence after which a stream gets a comment."""
    send_timeout: float = 30.0
    """Seconds that a client may take for 64 KiB of an answer; one that takes longer is taken to have left."""
    allowed_origins: Sequence[str] = ()
    """Origins of web pages that may use the server, such as "https://example.com"; "*" for all."""
    allowed_hosts: Sequence[str] = ()
    """Further names, with or without a port, under which the server is reached."""
    trusted_proxies: Sequence[str] = ()
    """Addresses and networks ("10.0.0.0/8", or "unix" for a unix socket) of reverse proxies, whose Forwarded and
    X-Forwarded-For, -Proto, -Host and -Prefix headers are believed.
    """

    def __post_init__(self) -> None:
        for name in (
            "max_body",
            "body_timeout",
            "max_sessions",
            "session_idle",
            "grace",
            "keep_alive",
            "send_timeout",
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
                raise TypeError(f"{name} is a number from 0 on, not {value!r}")
        for name in ("allowed_origins", "allowed_hosts", "trusted_proxies"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"{name} is a list of strings, not one string")
        if not self.path.startswith("/"):
            raise ValueError(f"path starts with a slash, which {self.path!r} does not")
