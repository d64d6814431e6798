"""Serving over HTTP: an address, an app, and what serves it there.

listener     HTTP/1.1 in clear text: what carries the load
hypercorn    TLS and HTTP/2, and whatever it is asked for
"""

from __future__ import annotations

import functools
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal

import trio

from mcpkit.app import App
from mcpkit.errors import innermost
from mcpkit.transports.address import Address, CannotListen, listening
from mcpkit.transports.options import HttpOptions
from mcpkit.transports.service import Service

SERVERS = ("auto", "hypercorn")


def run(app: App, **options: Any) -> None:
    """Serve until a signal comes; see `serve` for the options."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            stop = trio.Event()
            await nursery.start(_stop_on_signal, stop)
            async with trio.open_nursery() as serving:
                with trio.CancelScope() as starting:  # a lifespan may take its time, or for ever
                    nursery.start_soon(_cancel_after, stop, starting)
                    await serving.start(functools.partial(serve, app, until=stop.wait, **options))
            nursery.cancel_scope.cancel()

    try:
        trio.run(main)
    except BaseExceptionGroup as group:
        raise innermost(group) from None


async def _stop_on_signal(
    stop: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    if threading.current_thread() is not threading.main_thread():
        task_status.started()  # only the main thread may handle signals
        return
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        await anext(aiter(signals))
    stop.set()


async def _cancel_after(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def _first(*functions: Callable[[], Awaitable[object]]) -> None:
    """Wait until one of them returns."""

    async def run(function: Callable[[], Awaitable[object]]) -> None:
        await function()
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for function in functions:
            nursery.start_soon(run, function)


def _print_ready(app: App, urls: Iterable[str]) -> None:
    sys.stderr.write("".join(f"mcpkit: {app.name} serving {url}\n" for url in urls))
    sys.stderr.flush()


async def serve(
    app: App,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    fd: int | None = None,
    certfile: str | None = None,
    keyfile: str | None = None,
    server: Literal["auto", "hypercorn"] = "auto",
    until: Callable[[], Awaitable[object]] = trio.sleep_forever,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
    **options: Any,
) -> None:
    """Serve until `until` returns; then streams end, and calls have `grace` seconds. The task has started,
    with the URL, when the server listens and the lifespan has begun.

    `fd` is the descriptor of a listening socket, to be used instead of a new one at `host` and `port`. `server` is
    "auto" or "hypercorn", which speaks HTTP/2 as well; with a `certfile` it is always that. The other options are
    those of `HttpOptions`. Raises `CannotListen`, and what the lifespan raises.
    """
    if server not in SERVERS:
        raise ValueError(f"unknown server {server!r}: use {' or '.join(SERVERS)}")
    if keyfile is not None and certfile is None:
        raise CannotListen(f"there is a key ({keyfile}), but no certificate: name it as well (--certfile)")
    address = Address(host, port, fd)
    service = Service(app, HttpOptions.of(**options), raises=True)
    with listening(address) as bound:
        paths = service.options.resources
        urls = dict.fromkeys(address.url(bound, path or "/", tls=certfile is not None) for path in paths)
        if server == "hypercorn" or certfile is not None:
            from mcpkit.transports import hypercorn

            start = hypercorn.prepared(service, bound, certfile, keyfile)
        else:
            from mcpkit.transports.listener import listen

            start = functools.partial(listen, service, bound)
        try:
            async with service.living() as life:
                async with trio.open_nursery() as nursery:
                    await nursery.start(
                        functools.partial(start, functools.partial(_first, until, life.ended.wait))
                    )
                    _print_ready(app, urls)
                    task_status.started(next(iter(urls)))
                if life.failure is not None:  # whoever watches this process can start another
                    raise life.failure
        except BaseExceptionGroup as group:
            raise innermost(group) from None
