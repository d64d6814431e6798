"""A span for each use, by OpenTelemetry's conventions for MCP; without OpenTelemetry, nothing of it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from asking.asking_kit import talking
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from support import REVISIONS, STATELESS, serving

from mcpkit import App, McpError, ToolError, ToolResult
from mcpkit.middleware import Tracing

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
_spans = InMemorySpanExporter()
_provider = TracerProvider()
_provider.add_span_processor(SimpleSpanProcessor(_spans))
trace.set_tracer_provider(_provider)


@pytest.fixture
def spans() -> InMemorySpanExporter:
    """Where spans arrive."""
    _spans.clear()
    return _spans


@pytest.fixture
def app() -> App:
    """An app whose handlers end in every way, and make spans of their own."""
    app = App("traced")
    app.middleware(Tracing())
    tracer = trace.get_tracer("handlers")

    @app.tool
    async def in_task() -> str:
        with tracer.start_as_current_span("inner"):
            return "done"

    @app.tool
    def in_thread() -> str:
        with tracer.start_as_current_span("inner"):
            return "done"

    @app.tool(loop="asyncio")
    async def on_asyncio() -> str:
        with tracer.start_as_current_span("inner"):
            return "done"

    @app.tool
    async def fail(how: str) -> ToolResult:
        if how == "result":
            return ToolResult("no", is_error=True)
        raise {"tool": ToolError("no"), "bug": KeyError("k"), "mcp": McpError(7, "seven")}[how]

    @app.resource("notes://{name}")
    async def note(name: str) -> str:
        return name

    @app.prompt
    async def review(code: str) -> str:
        return code

    return app


async def one(client: Any, spans: InMemorySpanExporter, method: str, params: dict[str, Any]) -> Any:
    """The span that a request makes."""
    await client.ask(method, params)
    (span,) = [span for span in spans.get_finished_spans() if span.name != "inner"]
    spans.clear()
    return span


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_use_is_a_span_with_the_attributes_of_the_conventions(
    app: App, spans: InMemorySpanExporter, revision: str
) -> None:
    """OpenTelemetry, "Semantic conventions for MCP", Server: name, kind, attributes."""
    common = {"mcp.protocol.version": revision, "network.transport": "pipe"}
    async with talking(app, revision) as client:
        span = await one(client, spans, "tools/call", {"name": "in_task"})
        assert (span.name, span.kind) == ("tools/call in_task", SpanKind.SERVER)
        assert span.status.status_code == StatusCode.UNSET
        assert dict(span.attributes) == {
            **common,
            "mcp.method.name": "tools/call",
            "gen_ai.tool.name": "in_task",
            "gen_ai.operation.name": "execute_tool",
            "jsonrpc.request.id": str(client._last_id),
        }
        span = await one(client, spans, "resources/read", {"uri": "notes://a"})
        assert span.name == "resources/read"
        assert span.attributes["mcp.resource.uri"] == "notes://a"
        span = await one(client, spans, "prompts/get", {"name": "review", "arguments": {"code": "secret"}})
        assert span.name == "prompts/get review"
        assert span.attributes["gen_ai.prompt.name"] == "review"
        assert "secret" not in str(dict(span.attributes))


@pytest.mark.parametrize("tool", ["in_task", "in_thread", "on_asyncio"])
async def test_the_parent_is_the_one_in_meta_and_the_handler_is_inside(
    app: App, spans: InMemorySpanExporter, tool: str
) -> None:
    """MCP 2026-07-28, `_meta.traceparent`; the context reaches the handler wherever it runs."""
    async with talking(app) as client:
        await client.call(tool, _meta={"traceparent": PARENT, "tracestate": "a=b"})
    inner, outer = spans.get_finished_spans()
    assert outer.parent is not None and outer.parent.span_id == 0x00F067AA0BA902B7
    assert outer.context.trace_id == 0x4BF92F3577B34DA6A3CE929D0E0E4736
    assert outer.context.trace_state.get("a") == "b"
    assert inner.parent is not None and inner.parent.span_id == outer.context.span_id


@pytest.mark.parametrize(
    "bad", [1, None, "", "garbage", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", ["x"], {}]
)
async def test_a_parent_that_is_none_is_ignored(app: App, spans: InMemorySpanExporter, bad: Any) -> None:
    """A client can send anything: the span begins a trace of its own."""
    async with talking(app) as client:
        span = await one(
            client, spans, "tools/call", {"name": "in_task", "_meta": {"traceparent": bad, "baggage": bad}}
        )
    assert span.parent is None


@pytest.mark.parametrize(
    ("how", "kind", "code"),
    [
        ("result", "tool_error", None),
        ("tool", "tool_error", None),
        ("bug", "KeyError", None),
        ("mcp", "7", "7"),
    ],
)
async def test_a_failure_shows_in_its_span(
    app: App, spans: InMemorySpanExporter, how: str, kind: str, code: str | None
) -> None:
    """`error.type`, `rpc.response.status_code`, and the status ERROR."""
    async with talking(app) as client:
        span = await one(client, spans, "tools/call", {"name": "fail", "arguments": {"how": how}})
    assert span.status.status_code == StatusCode.ERROR
    assert span.attributes["error.type"] == kind
    assert span.attributes.get("rpc.response.status_code") == code


SCRIPT = """\
from mcpkit import App
from mcpkit.middleware import Timing
app = App("plain")
app.middleware(Timing())
@app.tool(inline=True)
def loaded() -> list[str]:
    import sys
    return [name for name in sys.modules if name.startswith("opentelemetry")]
"""


def test_without_tracing_nothing_of_opentelemetry_is_imported(tmp_path: Any) -> None:
    """It is installed where this runs, and stays out all the same."""
    script = tmp_path / "server.py"
    script.write_text(SCRIPT)
    with serving(script) as server:
        reply = server.ask(1, "tools/call", {"name": "loaded"}, revision=STATELESS)
        assert reply["result"]["structuredContent"] == []


def test_without_opentelemetry_the_error_says_what_to_install() -> None:
    """Where the middleware is made."""
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from mcpkit.middleware import Tracing\ntry:\n    Tracing()\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'mcpkit[otel]'" in done.stdout
