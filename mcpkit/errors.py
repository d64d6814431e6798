"""What handlers raise, and what arguments can fail with."""

from __future__ import annotations

from mcpkit.protocol.errors import InvalidParams, McpError, NotFound

__all__ = ["ArgumentError", "InvalidParams", "McpError", "NotFound", "ToolError"]


class ToolError(Exception):
    """A tool could not do what it was asked for. Its text is always shown to the model, as a result with `isError`."""


class ArgumentError(ValueError):
    """Arguments do not fit. `problems` has a line for each: the argument, what is expected, never the value."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
