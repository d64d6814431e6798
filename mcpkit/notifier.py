"""Tell clients that something has changed: `app.notifier`."""

from __future__ import annotations

from collections.abc import Callable

from mcpkit.content import plain
from mcpkit.protocol.events import Change

Outlet = Callable[[Change], None]


class Notifier:
    """Callable from any task and any thread; it never waits, and does nothing while nobody listens."""

    def __init__(self) -> None:
        self._outlets: tuple[Outlet, ...] = ()

    def tools_changed(self) -> None:
        """The list of tools has changed. `app.add_tool` and `app.remove_tool` say so themselves."""
        self._publish(Change("tools"))

    def prompts_changed(self) -> None:
        """The list of prompts has changed. `app.add_prompt` and `app.remove_prompt` say so themselves."""
        self._publish(Change("prompts"))

    def resources_changed(self) -> None:
        """The list of resources has changed. `app.add_resource` and `app.remove_resource` say so themselves."""
        self._publish(Change("resources"))

    def resource_updated(self, uri: str) -> None:
        """The contents of a resource have changed; clients that subscribed to `uri` are told. Raises TypeError
        unless it is a string.
        """
        if not isinstance(uri, str):
            raise TypeError(f"a resource is named by its URI, a string, not by {uri!r}")
        self._publish(Change("resource", plain(uri)))

    def _publish(self, change: Change) -> None:
        for outlet in self._outlets:
            outlet(change)

    def attach(self, outlet: Outlet) -> None:
        """Pass changes on to a function, which must be callable from any thread. For those who serve the app."""
        self._outlets = (*self._outlets, outlet)

    def detach(self, outlet: Outlet) -> None:
        """Pass nothing on to it any more."""
        self._outlets = tuple(other for other in self._outlets if other != outlet)
