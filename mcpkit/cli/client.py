"""What `call` and `inspect` share: a client of TARGET, served by `mcpkit run` in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import trio

from mcpkit.protocol.errors import McpError
from mcpkit.testing import Client, Disconnected


def with_client(target: str, use: Callable[[Client], Awaitable[int]]) -> int:
    """Start TARGET, let `use` speak with it, and return its exit code; what goes wrong is said in one line."""

    async def main() -> int:
        client = Client(target)
        try:
            async with client:
                return await use(client)
        except Disconnected:
            return client.exit_code or 1  # the server has said why on standard error
        except McpError as error:
            print(f"mcpkit: {error.message} (error {error.code})", file=sys.stderr)
            return 1

    return trio.run(main)
