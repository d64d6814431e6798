"""What handlers raise, and what arguments can fail with."""

from __future__ import annotations

from mcpkit.protocol.errors import InvalidParams, McpError, NotFound

__all__ = ["ArgumentError", "InvalidParams", "McpError", "NotFound", "ToolError"]


class ToolError(Exception):
    """A tool could not do what it was asked for. Its text is always shown to the model, as a result with
    `isError`.
    """


class TimedOut(Exception):
    """A handler took longer than it may. The text says how long that is."""


class AnswerMisfit(Exception):
    """A client's answer to a form did not fit, however often it was asked."""


class ArgumentError(ValueError):
    """Arguments do not fit. `problems` has a line for each: the argument, what is expected, never the value."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def innermost(error: BaseException) -> BaseException:
    """The exception inside groups of one: whatever passes through a trio nursery comes out in a group."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def from_user_code(error: BaseException) -> BaseException:
    """The exception with a traceback that begins in the user's script, not in the machinery that called it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] in _MACHINERY:
        trace = trace.tb_next
    shows_itself = isinstance(
        error, SyntaxError
    )  # with its file and line, and without any frame of the script
    return error if trace is None and not shows_itself else error.with_traceback(trace)


_MACHINERY = ("mcpkit", "trio", "outcome", "importlib")
