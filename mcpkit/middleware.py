"""Middleware that many servers want: `app.middleware(Timing())`. How to write one's own: see `Call`."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import trio

from mcpkit.around import Call, CallNext, Middleware
from mcpkit.content import ToolResult
from mcpkit.errors import McpError, TimedOut, ToolError

__all__ = ["Call", "CallNext", "Middleware", "RateLimit", "Timeout", "Timing", "Tracing"]

_log = logging.getLogger("mcpkit.timing")


class Timing:
    """Log how long each use took and how it ended, at level INFO of the logger "mcpkit.timing"; `mcpkit run -v` shows
    it. Arguments and results do not appear.
    """

    async def __call__(self, call: Call, call_next: CallNext) -> Any:
        """See `app.middleware`."""
        began = time.perf_counter()
        outcome = "cancelled"
        try:
            result = await call_next(call)
            outcome = "failed" if _failed(result) else "ok"
            return result
        except BaseException as error:
            outcome = _OUTCOMES.get(type(error).__name__, type(error).__name__)
            raise
        finally:
            took = (time.perf_counter() - began) * 1000
            _log.info("%s %s %s %.1f ms", call.kind, call.name[:200], outcome, took)


_OUTCOMES = {"Cancelled": "cancelled", "Suspended": "asks"}


def _failed(result: Any) -> bool:
    return isinstance(result, ToolResult) and result.is_error


class Timeout:
    """Let nothing take longer than `seconds`, whatever `timeout=` it has itself. Raises ValueError for a limit that is
    not above 0.
    """

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise ValueError(f"a timeout is a number of seconds above 0, not {seconds!r}")
        self._seconds = seconds

    async def __call__(self, call: Call, call_next: CallNext) -> Any:
        """See `app.middleware`."""
        with trio.move_on_after(self._seconds):
            return await call_next(call)
        raise TimedOut(f"it did not finish within {self._seconds:g} s")


class RateLimit:
    """Let each principal, or where nobody is asked who they are each session, use things `rate` times a second on
    average, and `burst` times at once (by default as often as in a second). What is too much is refused at once, with
    the time to wait. Raises ValueError for a rate or a burst that would let nothing pass.
    """

    def __init__(self, rate: float, burst: int | None = None) -> None:
        if not (0 < rate < math.inf and (burst is None or burst >= 1)):
            raise ValueError(
                f"a rate limit lets something pass: not {rate!r} a second with a burst of {burst!r}"
            )
        self._rate = rate
        self._burst = max(1, math.ceil(rate)) if burst is None else burst
        self._of_runs: trio.lowlevel.RunVar[_Buckets | None] = trio.lowlevel.RunVar("_of_runs", None)
        """An app may be served again in another trio run, which has a clock of its own."""

    async def __call__(self, call: Call, call_next: CallNext) -> Any:
        """See `app.middleware`."""
        buckets = self._of_runs.get()
        if buckets is None:
            buckets = _Buckets(self._rate, self._burst)
            self._of_runs.set(buckets)
        wait = buckets.take(call.caller, trio.current_time())
        if wait > 0:
            raise ToolError(f"Too many requests: try again in {math.ceil(wait)} s")
        return await call_next(call)


class _Buckets:
    """A bucket of `burst` tokens for each caller, which fills at `rate` a second."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._full_at: dict[str, float] = {}
        """When the bucket of a caller is full again. Full ones are forgotten now and then."""
        self._swept = -math.inf

    def take(self, caller: str, now: float) -> float:
        """Take a token; else the seconds until there is one."""
        caller = self._bucket(caller, now)
        full_at = max(self._full_at.get(caller, now), now) + 1 / self._rate
        wait = full_at - now - self._burst / self._rate
        if wait > _EPSILON:
            return wait
        self._full_at[caller] = full_at
        return 0.0

    def _bucket(self, caller: str, now: float) -> str:
        """The caller's own bucket, or one for all who come when there are too many."""
        if caller in self._full_at or len(self._full_at) < MOST_CALLERS:
            return caller
        if now - self._swept > 1:
            self._swept = now
            self._full_at = {name: at for name, at in self._full_at.items() if at > now}
        return caller if len(self._full_at) < MOST_CALLERS else ""


_EPSILON = 1e-9
MOST_CALLERS = 10_000
"""Callers whose use is counted apart at the same time."""


class Tracing:
    """An OpenTelemetry span for each use, by the semantic conventions for MCP. Its parent is the one in the request's
    `_meta` ("traceparent", "tracestate", "baggage"). Arguments and results are not recorded.

    Raises ImportError without `mcpkit[otel]`. Where spans go is the business of the SDK that the script sets up.

    Source: OpenTelemetry, "Semantic conventions for Model Context Protocol (MCP)"; MCP 2026-07-28, `_meta`.
    """

    def __init__(self) -> None:
        try:
            from opentelemetry import propagate, trace
        except ImportError:
            raise ImportError("Tracing needs OpenTelemetry: pip install 'mcpkit[otel]'") from None
        self._propagate = propagate
        self._trace = trace
        self._tracer = trace.get_tracer("mcpkit")

    async def __call__(self, call: Call, call_next: CallNext) -> Any:
        """See `app.middleware`."""
        carrier = {key: value for key, value in call.ctx.meta.items() if isinstance(value, str)}
        target = "" if call.kind == "resource" else f" {call.name}"  # URIs are too many for names of spans
        with self._tracer.start_as_current_span(
            call.ctx.method + target,
            context=self._propagate.extract(carrier),
            kind=self._trace.SpanKind.SERVER,
            attributes=_attributes(call),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            with self._failures(span):
                result = await call_next(call)
            if _failed(result):
                self._fail(span, "tool_error", "")
            return result

    @contextmanager
    def _failures(self, span: Any) -> Generator[None]:
        try:
            yield
        except McpError as error:
            span.set_attribute("rpc.response.status_code", str(error.code))
            self._fail(span, str(error.code), error.message)
            raise
        except Exception as error:
            span.record_exception(error)
            self._fail(span, "tool_error" if isinstance(error, ToolError) else type(error).__qualname__, "")
            raise

    def _fail(self, span: Any, kind: str, message: str) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, message or None))


def _attributes(call: Call) -> dict[str, str]:
    ctx = call.ctx
    attributes = {
        "mcp.method.name": ctx.method,
        "mcp.protocol.version": ctx.revision,
        "jsonrpc.request.id": str(ctx.request_id),
        "network.transport": "tcp" if ctx.headers else "pipe",
        _NAMED[call.kind]: call.name,
    }
    if call.kind == "tool":
        attributes["gen_ai.operation.name"] = "execute_tool"
    if ctx.headers:
        attributes["network.protocol.name"] = "http"
    if "mcp-session-id" in ctx.headers:
        attributes["mcp.session.id"] = ctx.headers["mcp-session-id"]
    return attributes


_NAMED = {"tool": "gen_ai.tool.name", "prompt": "gen_ai.prompt.name", "resource": "mcp.resource.uri"}
