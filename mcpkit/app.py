"""The application: what a script declares, and the ways to serve it."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

from mcpkit.around import Middleware
from mcpkit.around import check as check_middleware
from mcpkit.auth.base import Auth
from mcpkit.blueprint import Blueprint
from mcpkit.notifier import Notifier
from mcpkit.protocol.types import Icon, Implementation
from mcpkit.provider import OFFERS, Provider, Source
from mcpkit.registry import Cache
from mcpkit.scaffold import Scaffold
from mcpkit.seal import StateKey
from mcpkit.stores.base import Store
from mcpkit.watching import Watches

M = TypeVar("M", bound=Middleware)
Lifespan = Callable[["App"], AbstractAsyncContextManager[Any]]

_OVER_HTTP: dict[str, dict[str, Any]] = {"http": {}, "sse": {"transport": "sse", "path": "/sse"}}
"""The transports of an HTTP server, each with the options that make it what it is."""


class App(Scaffold):
    """An MCP server: definitions that can be served many times at once.

    `instructions` tell the model how to use the server. `lifespan` is an async context manager function of
    the app; it surrounds serving, and handlers find what it yields as `ctx.state`. `auth` says
    who may use it over HTTP (see `mcpkit.auth`); everybody unless given, and on stdio whoever starts it. `cache`
    says how long clients may keep lists and resources. `store` holds sessions and long journals; this process's memory
    unless given. If it is a `stores.base.Bus` as well, clients of all processes that share it hear what changes
    in any. `state_keys` seal what travels through clients between the rounds of a handler that asks
    (the first seals, all open); without them, those in `MCPKIT_STATE_KEYS`, or a random one of this process.
    `state_ttl` is how long such a state is good, in seconds. With `debug` clients see the text of internal
    errors.
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
        auth: Auth | None = None,
        cache: Cache | None = None,
        store: Store | None = None,
        state_keys: Sequence[StateKey] | None = None,
        state_ttl: float = 3600.0,
        debug: bool = False,
    ) -> None:
        super().__init__(name)
        self.implementation = Implementation(
            name, version, title, description, website_url, list(icons) or None
        )
        self.instructions = instructions
        if auth is not None and not isinstance(auth, Auth):
            raise TypeError(
                f"auth= takes a way of authentication from mcpkit.auth, such as BearerAuth(…), not {auth!r}"
            )
        self.lifespan = lifespan
        self.auth = auth
        self.cache = cache or Cache()
        self.store = store
        self.state_keys = tuple(state_keys or ())
        self.state_ttl = state_ttl
        self.debug = debug
        self.notifier = Notifier()
        """Tells clients that something has changed; what is added and removed while serving is told by
        itself.
        """
        self.watches = Watches()
        self.registry.on_change = self._changed
        self.sources: tuple[Source, ...] = ()
        self.layers: tuple[Middleware, ...] = ()
        self.servings = 0
        """How many times it is being served now."""

    def _changed(self, kind: str) -> None:
        {
            "tool": self.notifier.tools_changed,
            "prompt": self.notifier.prompts_changed,
            "resource": self.notifier.resources_changed,
        }[kind]()

    def register(self, blueprint: Blueprint, prefix: str | None = None) -> None:
        """Take over what a blueprint holds now. Names of tools and prompts get `prefix` and an underscore in
        front: the blueprint's name unless given, none for "". URIs stay as they are. Raises ValueError for a
        name that is taken.
        """
        prefix = blueprint.name if prefix is None else prefix
        self.registry.merge(blueprint.registry, lambda name: f"{prefix}_{name}" if prefix else name)

    def add_provider(self, provider: Provider) -> None:
        """Offer what a provider has, after the app's own and that of earlier providers. While serving, clients are
        told. Raises TypeError for what is none.
        """
        source = Source(provider)
        self.sources = (*self.sources, source)
        for kind in filter(source.offers, OFFERS):
            self._changed(kind)

    def middleware(self, fn: M) -> M:
        """Put an async function around every use of a tool, resource or prompt; see `around`.

        It gets the `Call` and the rest of the way, and returns a result: `return await call_next(call)`. The first
        that is registered is outermost. Instances do as well: `app.middleware(Timing())`. Raises TypeError for what
        cannot be called so, RuntimeError while the app is being served.
        """
        check_middleware(fn)
        if self.servings:
            raise RuntimeError(
                "middleware comes too late: the app is being served. Register it before app.run()."
            )
        self.layers = (*self.layers, fn)
        return fn

    def watch(self, uri: str, path: str | os.PathLike[str]) -> None:
        """Tell clients when the file behind a resource changes, for as long as the app is served.

        A change of the file at `path` is told as an update of the resource `uri`; when the file appears or vanishes,
        the list of resources has changed as well. It need not exist yet. At a folder, whatever changes in it or below
        updates the resource.

        Where `uri` is a template, `path` is a pattern with the same variables, and each file that matches is a resource
        of its own: `app.watch("note://{name}", "notes/{name}.md")`. `{name}` matches within a segment of the path;
        `{+path}`, or `{/path*}` as in "docs{/path*}", matches what is below as well. Values are percent-encoded in the
        URI, as in `list=` of the resource.

        Relative paths count from the current directory at this moment. Links are followed. May be called before and
        while the app is served, from any task or thread; what begins to be watched while it is served is told as having
        appeared. It registers no resource: what clients read is still a function of yours.

        Changes are noticed at once with `mcpkit[reload]`, and within half a second without. Raises TypeError for what
        is no URI or path, ValueError for one that is malformed, and where the variables of the two differ.
        """
        self.watches.add(uri, path)

    # The rim is imported when it is first needed: a script that only declares pays for none of it.

    def run(self, transport: str = "stdio", **options: Any) -> None:
        """Serve until the client leaves or a signal comes; blocks.

        "stdio": nothing but the protocol reaches standard output from now on. Options: `max_body` (bytes of
        one message, 4 MiB), `grace` (seconds that running calls may take once the client has left, 0.5).

        "http": `host` ("127.0.0.1", or "unix:PATH"), `port` (8000; 0 takes a free one), `certfile` and
        `keyfile` for TLS, `server` ("auto", or "hypercorn" for HTTP/2), and the options of
        `transports.options.HttpOptions`. The URL is printed on standard error.

        "sse": HTTP+SSE for older clients, with the same options; the "http" option `with_sse` serves both.

        Raises TypeError when something that was registered cannot be served or an option is unknown,
        ValueError for an unknown transport, OSError when the address cannot be listened on.
        """
        if transport == "stdio":
            from mcpkit.transports import stdio

            with _settled(self):
                stdio.run(self, **options)
        elif transport in _OVER_HTTP:
            from mcpkit.transports import serving

            with _settled(self):
                serving.run(self, **{**_OVER_HTTP[transport], **options})
        else:
            raise ValueError(f"unknown transport {transport!r}: use stdio, http or sse")

    async def serve(self, transport: str = "stdio", **options: Any) -> None:
        """Like `run`, inside a running trio loop; the caller handles signals, and cancels to stop."""
        if transport == "stdio":
            from mcpkit.transports import stdio

            await stdio.serve(self, **options)
        elif transport in _OVER_HTTP:
            from mcpkit.transports import serving

            await serving.serve(self, **{**_OVER_HTTP[transport], **options})
        else:
            raise ValueError(f"unknown transport {transport!r}: use stdio, http or sse")

    def asgi(self, path: str = "/mcp", **options: Any) -> Any:
        """The app as an ASGI 3 application, to serve or to mount in any ASGI server, on trio or asyncio.

        It answers at `path` below wherever it is mounted; the options are those of
        `transports.options.HttpOptions`. Raises TypeError when something that was registered cannot be
        served.

        The lifespan begins with the host's, or with the first request where the host forwards none. Hosts that
        forward none to what is mounted in them (Starlette, FastAPI) take it by hand:
        `mcp = app.asgi(); Starlette(routes=[Mount("/api", mcp)], lifespan=mcp.lifespan)`.
        """
        from mcpkit.transports.asgi import Application
        from mcpkit.transports.options import HttpOptions

        return Application.of(self, HttpOptions.of(path=path, **options))


@contextmanager
def _settled(app: App) -> Generator[None]:
    """The process is ours inside the block. What there is at its beginning, modules and definitions, stays to the end;
    the garbage collector would look through all of it again and again, and hold up the calls of that moment.
    """
    app.registry.resolve()
    if gc.get_freeze_count():  # somebody else's, or an outer block's
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
