"""The options of serving over HTTP, the same for the command line, `app.run` and `app.asgi`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from mcpkit.transports.proxies import Proxies
from mcpkit.transports.security import check_host, check_origin

Kind = Literal["streamable", "stream", "message"]
"""Streamable HTTP, or one of the two that HTTP+SSE has."""


class HttpOptions(Struct, kw_only=True, frozen=True):
    """Limits and permissions of one HTTP server."""

    path: str = "/mcp"
    """Where the endpoint is; with and without a slash at its end."""
    transport: Literal["http", "sse"] = "http"
    """What is at `path`: Streamable HTTP, or the stream of HTTP+SSE, which takes messages at "message" beside it."""
    with_sse: bool = False
    """Whether HTTP+SSE is served as well: at "sse" and "message" beside `path`."""
    max_body: int | None = None
    """Bytes of one request body; 4 MiB unless given, and 1 MiB for HTTP+SSE."""
    body_timeout: float = 30.0
    """Seconds that a body may take to arrive."""
    max_sessions: int = 10_000
    """Sessions of the handshake era at the same time, and as many streams of HTTP+SSE."""
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
            if name == "max_body" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
                raise TypeError(f"{name} is a number from 0 on, not {value!r}")
        for name in ("allowed_origins", "allowed_hosts", "trusted_proxies"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"{name} is a list of strings, not one string")
        for host in self.allowed_hosts:
            check_host(host)
        for origin in self.allowed_origins:
            check_origin(origin)
        Proxies(self.trusted_proxies)
        if not self.path.startswith("/"):
            raise ValueError(f"path starts with a slash, which {self.path!r} does not")
        if self.transport not in ("http", "sse"):
            raise ValueError(f"unknown transport {self.transport!r}: use http or sse")
        if self.with_sse and self.transport == "sse":
            raise ValueError("with_sse is for the transport http: HTTP+SSE is served alone here")
        if len(dict(self.endpoints)) < len(self.endpoints):
            raise ValueError(f"path {self.path!r} is where HTTP+SSE would be: take another one")

    @classmethod
    def of(cls, **options: Any) -> HttpOptions:
        """The options of somebody's call. Raises TypeError for one that there is not, naming those that there are."""
        unknown = [name for name in options if name not in cls.__struct_fields__]
        if unknown:
            raise TypeError(
                f"there is no option {unknown[0]!r}; there are: {', '.join(cls.__struct_fields__)}"
            )
        return cls(**options)

    @property
    def endpoints(self) -> Sequence[tuple[str, Kind]]:
        """What is served at which path, without a slash at its end."""
        path = self.path.rstrip("/")
        folder = path.rpartition("/")[0]
        found: list[tuple[str, Kind]] = [(path, "streamable" if self.transport == "http" else "stream")]
        if self.with_sse:
            found.append((f"{folder}/sse", "stream"))
        if self.with_sse or self.transport == "sse":
            found.append((f"{folder}/message", "message"))
        return found

    @property
    def resources(self) -> Sequence[str]:
        """The paths of what there are tokens for; the first is the app's own."""
        return [path for path, kind in self.endpoints if kind != "message"]
