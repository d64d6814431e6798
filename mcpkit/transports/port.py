"""What a handler over HTTP knows of the request that brought its call."""

from __future__ import annotations

from collections.abc import Mapping

from mcpkit.engine.ports import TaskPort
from mcpkit.principal import Principal
from mcpkit.transports.http import Request


class RequestPort(TaskPort):
    """The part of a `context.Port` that reads the request."""

    def __init__(self, request: Request) -> None:
        self.request = request

    @property
    def headers(self) -> Mapping[str, str]:
        """See `context.Port`."""
        return self.request.mapping

    @property
    def principal(self) -> Principal | None:
        """See `context.Port`."""
        return self.request.principal

    @property
    def token(self) -> str | None:
        """See `context.Port`."""
        return None if self.request.caller is None else self.request.caller.token
