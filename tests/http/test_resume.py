"""A response that ends before its call does, and the client that comes back for the rest."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest
import trio
from clients.messages import Watch, parse
from support import SECONDS, STATELESS, initialize, request

from mcpkit import App, Context, SyncContext
from mcpkit.testing import Client

RESUMABLE = "2025-11-25"
BOTH = "application/json, text/event-stream"


class Event(NamedTuple):
    """A server-sent event, its data as it is on the wire."""

    id: str
    data: str
    retry: str = ""

    @property
    def message(self) -> Any:
        return parse(self.data)


def _events(text: str) -> Iterator[Event]:
    """The events in a stream, comments left out."""
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            yield Event(fields.get("id", ""), fields.get("data", ""), fields.get("retry", ""))


class Talk:
    """A client that sends one request after the other and takes whole responses."""

    def __init__(self, http: httpx.AsyncClient, url: str, revision: str, accept: str = BOTH) -> None:
        self.revision = revision
        self._http = http
        self._url = url
        self._headers = {"Accept": accept, "Content-Type": "application/json"}
        self._watch = Watch()

    async def begin(self) -> None:
        """The handshake, where there is one."""
        if self.revision == STATELESS:
            self._headers |= {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call"}
            return
        response = await self._post(initialize(self.revision))
        self._headers["Mcp-Session-Id"] = response.headers["mcp-session-id"]
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, tool: str, **meta: Any) -> httpx.Response:
        """Call a tool without arguments."""
        params = {"name": tool, "arguments": {}, **({"_meta": meta} if meta else {})}
        if self.revision == STATELESS:
            self._headers["Mcp-Name"] = tool
        return await self._post(request(7, "tools/call", params, revision=self.revision))

    async def resume(self, event_id: str) -> list[Event]:
        """What came after an event."""
        async with self.resuming(event_id) as response:
            await response.aread()
            return self.events(response)

    async def refusal(self, event_id: str) -> int:
        """The status of an answer to a client that cannot come back with an event."""
        headers = {**self._headers, "Accept": "text/event-stream", "Last-Event-ID": event_id}
        return (await self._http.get(self._url, headers=headers)).status_code

    @asynccontextmanager
    async def resuming(self, event_id: str) -> AsyncIterator[httpx.Response]:
        """The response that brings what came after an event."""
        headers = {**self._headers, "Accept": "text/event-stream", "Last-Event-ID": event_id}
        async with self._http.stream("GET", self._url, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            yield response

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[httpx.Response]:
        """The session's own stream."""
        headers = {**self._headers, "Accept": "text/event-stream"}
        async with self._http.stream("GET", self._url, headers=headers) as response:
            yield response

    async def leave(self) -> None:
        """End the session, and its streams with it."""
        assert (await self._http.delete(self._url, headers=self._headers)).is_success

    def events(self, response: httpx.Response) -> list[Event]:
        """The events of a response, their messages validated."""
        assert response.headers["content-type"] == "text/event-stream"
        found = list(_events(response.text))
        for event in found:
            if event.data:
                self._watch.received(event.message)
        return found

    async def _post(self, message: dict[str, Any]) -> httpx.Response:
        self._watch.sent(message)
        response = await self._http.post(self._url, headers=self._headers, content=json.dumps(message))
        assert response.is_success, response.text
        if response.headers.get("content-type") == "application/json":
            self._watch.received(response.json())
        return response


class Stage:
    """The app, and what its handlers wait for."""

    def __init__(self) -> None:
        self.app = App("resumed")
        self.gate = trio.Event()
        self.second_gate = trio.Event()
        self.app.add_tool(self.in_task)
        self.app.add_tool(self.in_thread)
        self.app.add_tool(self.on_asyncio, loop="asyncio")
        self.app.add_tool(self.at_once, inline=True)
        self.app.add_tool(self.midway)
        self.app.add_tool(self.twice)
        self.app.add_tool(self.plain)

    async def plain(self) -> str:
        return "done"

    async def in_task(self, ctx: Context) -> str:
        await ctx.close_stream()
        await self.gate.wait()
        return "done"

    def in_thread(self, ctx: SyncContext) -> str:
        ctx.close_stream()
        trio.from_thread.run(self.gate.wait)
        return "done"

    async def on_asyncio(self, ctx: Context) -> str:
        import asyncio

        await ctx.close_stream()
        while not self.gate.is_set():
            await asyncio.sleep(0.001)
        return "done"

    def at_once(self, ctx: SyncContext) -> str:
        ctx.close_stream()
        return "done"

    async def midway(self, ctx: Context) -> str:
        await ctx.report_progress(1)
        await ctx.close_stream()
        await self.gate.wait()
        await ctx.report_progress(2)
        return "done"

    async def twice(self, ctx: Context) -> str:
        await ctx.close_stream()
        await self.gate.wait()
        await ctx.report_progress(1)
        await self.second_gate.wait()
        await ctx.close_stream()
        await trio.sleep_forever()

    @asynccontextmanager
    async def talking(self, revision: str, accept: str = BOTH) -> AsyncIterator[Talk]:
        """A client of the app, served over HTTP."""
        async with (
            trio.open_nursery() as nursery,
            httpx.AsyncClient(timeout=SECONDS, trust_env=False) as http,
        ):
            talk = Talk(http, await nursery.start(self._serve), revision, accept)
            await talk.begin()
            yield talk
            nursery.cancel_scope.cancel()

    async def _serve(self, task_status: trio.TaskStatus[str]) -> None:
        await self.app.serve("http", port=0, task_status=task_status)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def result(event: Event) -> Any:
    """The text of the result in an event."""
    assert event.message["id"] == 7
    return event.message["result"]["content"][0]["text"]


async def read_on(response: httpx.Response, mark: str, arrived: trio.Event) -> str:
    """All of a response; says when a mark has arrived."""
    read = ""
    async for part in response.aiter_text():
        read += part
        if mark in read:
            arrived.set()
    return read


def text(response: httpx.Response) -> Any:
    """The text of the result that is a JSON answer."""
    assert response.headers["content-type"] == "application/json"
    return response.json()["result"]["content"][0]["text"]


def progress(seen: list[Event]) -> list[float]:
    """The progress that events report, when they report nothing else."""
    messages = [event.message for event in seen if event.data]
    assert {message["method"] for message in messages} <= {"notifications/progress"}
    return [message["params"]["progress"] for message in messages]


@pytest.mark.parametrize("tool", ["in_task", "in_thread", "on_asyncio"])
async def test_a_call_lets_go_of_its_response_and_the_client_fetches_the_rest(
    stage: Stage, tool: str
) -> None:
    """HL-14 to HL-16: the response begins with an event to resume from and says when to come back."""
    async with stage.talking(RESUMABLE) as talk:
        (priming,) = talk.events(await talk.call(tool))
        assert priming.id
        assert priming.data == ""
        assert int(priming.retry) > 0
        stage.gate.set()
        assert result((await talk.resume(priming.id))[-1]) == "done"


async def test_a_response_that_has_begun_ends_too(stage: Stage) -> None:
    """HL-14: the client gets what comes after the last event that it saw, and nothing twice."""
    async with stage.talking(RESUMABLE) as talk:
        seen = talk.events(await talk.call("midway", progressToken="p"))
        stage.gate.set()
        *more, last = await talk.resume(seen[-1].id)
        assert progress([*seen, *more]) == [1, 2]
        assert result(last) == "done"


async def test_a_call_lets_go_of_a_resumed_response_too(stage: Stage) -> None:
    """HL-16: as often as it wants."""
    async with stage.talking(RESUMABLE) as talk:
        (priming,) = talk.events(await talk.call("twice", progressToken="p"))
        async with talk.resuming(priming.id) as response:
            stage.gate.set()
            read = await read_on(response, "notifications/progress", stage.second_gate)
        assert progress(list(_events(read))) == [1]


async def test_a_client_that_loses_its_response_comes_back_for_the_rest(stage: Stage) -> None:
    """HL-14, HL-18: a lost connection is no cancellation."""
    async with stage.talking(RESUMABLE) as talk:
        (priming,) = talk.events(await talk.call("twice", progressToken="p"))
        async with talk.resuming(priming.id):
            pass  # left before anything has come
        async with talk.resuming(priming.id) as response:
            stage.gate.set()
            read = await read_on(response, "notifications/progress", stage.second_gate)
        assert progress(list(_events(read))) == [1]


async def test_a_call_that_ends_at_once_is_answered_as_usual(stage: Stage) -> None:
    """Letting go costs a client nothing when there is nothing to wait for."""
    async with stage.talking(RESUMABLE) as talk:
        assert text(await talk.call("at_once")) == "done"


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_stream_begins_before_there_is_anything_to_say(stage: Stage, revision: str) -> None:
    """HL-11: a proxy gives up on a response that does not begin."""
    async with stage.talking(revision) as talk, talk.listening() as response:
        assert response.headers["content-type"] == "text/event-stream"
        await talk.leave()
        assert await response.aread()


async def test_a_new_stream_of_the_session_repeats_nothing(stage: Stage) -> None:
    """HL-12: a message is sent on one stream; only `Last-Event-ID` asks for what was sent before."""

    async def listen(talk: Talk, name: str, task_status: trio.TaskStatus[None]) -> None:
        async with talk.listening() as response:
            task_status.started()
            read[name] = await read_on(response, f"notifications/{name}/list_changed", told[name])

    told = {name: trio.Event() for name in ("tools", "prompts")}
    read: dict[str, str] = {}
    async with stage.talking(RESUMABLE) as talk, trio.open_nursery() as nursery:
        for name, changed in (
            ("tools", stage.app.notifier.tools_changed),
            ("prompts", stage.app.notifier.prompts_changed),
        ):
            await nursery.start(listen, talk, name)
            changed()
            await told[name].wait()
        await talk.leave()
    assert "tools" not in read["prompts"]


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", STATELESS])
async def test_where_a_response_cannot_be_resumed_it_goes_on(stage: Stage, revision: str) -> None:
    """HL-15, HL-16, HM-14: those clients are given no event to come back with."""
    stage.gate.set()
    async with stage.talking(revision) as talk:
        *before, last = talk.events(await talk.call("midway", progressToken="p"))
        assert progress(before) == [1, 2]
        assert result(last) == "done"


async def test_what_was_no_stream_cannot_be_resumed(stage: Stage) -> None:
    """HL-14: a client comes back with an event that it was given, and was given none where the answer was JSON, or
    where there was nothing to answer.
    """
    stage.gate.set()
    async with stage.talking(RESUMABLE) as talk:
        assert text(await talk.call("plain")) == "done"
        for number in (1, 2):
            assert await talk.refusal(f"{number}.0") == 400


@pytest.mark.parametrize("revision", [RESUMABLE, STATELESS])
async def test_a_client_that_takes_no_stream_gets_one_json_answer(stage: Stage, revision: str) -> None:
    """HL-05: what it does not accept is not sent, and there is nothing to come back to."""
    stage.gate.set()
    async with stage.talking(revision, accept="application/json") as talk:
        assert text(await talk.call("midway", progressToken="p")) == "done"


@pytest.mark.parametrize("revision", [RESUMABLE, STATELESS])
@pytest.mark.parametrize("tool", ["in_task", "in_thread", "on_asyncio", "at_once"])
async def test_off_http_nothing_is_let_go(stage: Stage, revision: str, tool: str) -> None:
    """DESIGN 4.4: safe to call unconditionally; there is only one connection."""
    stage.gate.set()
    async with Client(stage.app, revision=revision) as client:
        assert (await client.call_tool(tool)).text == "done"
