"""The application: what a script declares, and the ways to serve it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcpkit.blueprint import Blueprint
from mcpkit.protocol.types import Icon, Implementation
from mcpkit.registry import Cache
from mcpkit.scaffold import Scaffold

Lifespan = Callable[["App"], AbstractAsyncContextManager[Any]]


class App(Scaffold):
    """An MCP server: definitions that can be served many times at once.

    `instructions` tell the model how to use the server. `lifespan` is an async context manager function of
    the app; it surrounds serving, and handlers find what it yields as `ctx.state`. `cache` says how long
    clients may keep lists and resources. With `debug` clients see the text of internal errors.
    """

    def __init__(
        self,
        name: str,
        version: str = "0.1.0",
        *,
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: Sequence[Icon] = (),
        lifespan: Lifespan | None = None,
        cache: Cache | None = None,
        debug: bool = False,
    ) -> None:
        super().__init__(name)
        self.implementation = Implementation(
            name, version, title, description, website_url, list(icons) or None
        )
        self.instructions = instructions
        self.lifespan = lifespan
        self.cache = cache or Cache()
        self.debug = debug

    def register(self, blueprint: Blueprint, prefix: str | None = None) -> None:
        """Take over what a blueprint holds now. Names of tools and prompts get `prefix` and an underscore in
        front: the blueprint's name unless given, none for "". URIs stay as they are. Raises ValueError for a
        name that is taken.
        """
        prefix = blueprint.name if prefix is None else prefix
        self.registry.merge(blueprint.registry, lambda name: f"{prefix}_{name}" if prefix else name)

    # The rim is imported when it is first needed: a script that only declares pays for none of it.

    def run(self, transport: str = "stdio", **options: Any) -> None:
        """Serve until the client leaves or a signal comes; blocks. On stdio nothing but the protocol reaches
        standard output from now on.

        Options: `max_body` (bytes of one message, 4 MiB), `grace` (seconds that running calls may take once
        the client has left, 0.5).
        Raises TypeError when something that was registered cannot be served, and ValueError for an unknown
        transport.
        """
        if transport != "stdio":
            raise ValueError(f"unknown transport {transport!r}: this version serves stdio")
        from mcpkit.transports import stdio

        stdio.run(self, **options)

    async def serve(self, transport: str = "stdio", **options: Any) -> None:
        """Like `run`, inside a running trio loop; the caller handles signals."""
        if transport != "stdio":
            raise ValueError(f"unknown transport {transport!r}: this version serves stdio")
        from mcpkit.transports import stdio

        await stdio.serve(self, **options)
