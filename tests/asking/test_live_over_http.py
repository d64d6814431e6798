"""Questions of the handshake era over Streamable HTTP: they go out on the stream of the call that asks."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from asking.asking_kit import ALL, HANDSHAKE, accept, text
from clients.messages import Watch
from hosts.process import serving_http
from support import OVER_HTTP, initialize

SCRIPT = Path(__file__).with_name("questionnaire.py")
BOTH = "application/json, text/event-stream"

# httpx leaves generators to the collector when a response is not read to its end.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected:ResourceWarning"),
    OVER_HTTP,
]
each_revision = pytest.mark.parametrize("revision", HANDSHAKE[2:])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving_http(SCRIPT) as (process, url):
        yield url
        assert "Traceback" not in process.output


class Session:
    """A session of a client that does as it is told."""

    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self.http = http
        self._url = url
        self.headers: dict[str, str] = {"accept": BOTH}
        self.watch = Watch()

    def noted(self, message: Any) -> Any:
        message = {"jsonrpc": "2.0", **message}
        self.watch.sent(message)
        return message

    async def post(self, message: Any, **headers: str) -> httpx.Response:
        """Send a message, and read all that comes back."""
        return await self.http.post(self._url, json=self.noted(message), headers={**self.headers, **headers})

    @asynccontextmanager
    async def call(self, tool: str, **headers: str) -> AsyncIterator[AsyncGenerator[Any]]:
        """The messages on the stream of a call."""
        message = {"id": tool, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
        async with self.http.stream(
            "POST", self._url, json=self.noted(message), headers={**self.headers, **headers}
        ) as response:
            assert response.status_code == 200
            yield self.events(response)

    async def events(self, response: httpx.Response) -> AsyncGenerator[Any]:
        async for line in response.aiter_lines():
            if line.startswith("data:") and line[5:].strip():
                message = json.loads(line[5:])
                self.watch.received(message)
                yield message

    async def answer(self, question: Any, result: Any) -> None:
        """Answer a question."""
        response = await self.post({"id": question["id"], "result": result})
        assert (response.status_code, response.content) == (202, b"")


@asynccontextmanager
async def session(url: str, revision: str) -> AsyncGenerator[Session]:
    async with httpx.AsyncClient(timeout=20) as http:
        opened = Session(http, url)
        response = await opened.post(initialize(revision, capabilities=ALL))
        opened.watch.received(response.json())
        opened.headers |= {
            "mcp-session-id": response.headers["mcp-session-id"],
            "mcp-protocol-version": revision,
        }
        await opened.post({"method": "notifications/initialized"})
        yield opened


@each_revision
@pytest.mark.parametrize("tool", ["everything", "everything_sync", "everything_asyncio"])
async def test_a_question_comes_on_the_stream_of_its_call(url: str, revision: str, tool: str) -> None:
    """S2C-02; the answer is a POST of its own, with the status 202 (HL-06)."""
    async with session(url, revision) as client, client.call(tool) as stream:
        asked = [await anext(stream) for _ in range(3)]
        assert {question["method"] for question in asked} == {
            "elicitation/create",
            "sampling/createMessage",
            "roots/list",
        }
        for question in asked:
            answer = {
                "elicitation/create": accept(proceed=True),
                "sampling/createMessage": {
                    "role": "assistant",
                    "content": {"type": "text", "text": "hi"},
                    "model": "m",
                },
                "roots/list": {"roots": []},
            }[question["method"]]
            await client.answer(question, answer)
        later = await anext(stream)
        assert later["method"] == (
            "elicitation/create" if revision > "2025-06-18" else "sampling/createMessage"
        )
        await client.post({"method": "notifications/cancelled", "params": {"requestId": tool}})
        cancelled = await anext(stream)
        assert cancelled["method"] == "notifications/cancelled"
        assert cancelled["params"]["requestId"] == later["id"]
        assert [message async for message in stream] == []  # CAN-01: nothing more, and the stream ends


async def test_a_client_that_takes_no_stream_is_not_asked(url: str) -> None:
    """S2C-02: there is nothing on which it could be."""
    async with session(url, HANDSHAKE[3]) as client:
        message = {"id": 1, "method": "tools/call", "params": {"name": "try_to_ask", "arguments": {}}}
        response = await client.post(message, accept="application/json")
        assert "accepts no stream" in text(response.json())


async def test_a_question_waits_for_a_client_that_comes_back(url: str) -> None:
    """HL-18: losing the response does not cancel the call; the question is fetched with Last-Event-ID."""
    async with session(url, HANDSHAKE[3]) as client:
        message = {"id": 9, "method": "tools/call", "params": {"name": "try_to_ask", "arguments": {}}}
        body = client.noted(message)
        async with client.http.stream("POST", url, json=body, headers=client.headers) as response:
            lines = response.aiter_lines()
            last = (await anext(line async for line in lines if line.startswith("id:")))[3:].strip()
        resume = {**client.headers, "accept": "text/event-stream", "last-event-id": last}
        async with client.http.stream("GET", url, headers=resume) as response:
            stream = client.events(response)
            await client.answer(await anext(stream), {"action": "cancel"})
            assert text(await anext(stream)) == "Cancelled()"


async def test_an_answer_reaches_its_own_session_only(url: str) -> None:
    """S2C-10: another client cannot answer, not even with the right id."""
    last = HANDSHAKE[3]
    async with session(url, last) as one, session(url, last) as two, one.call("try_to_ask") as stream:
        question = await anext(stream)
        await two.answer(question, accept(proceed=True))
        await one.answer(question, {"action": "decline"})
        assert text(await anext(stream)) == "Declined()"


async def test_a_session_that_ends_takes_its_questions_along(url: str) -> None:
    """HL-05: DELETE cancels what runs; the late answer finds no session."""
    async with session(url, HANDSHAKE[3]) as client, client.call("try_to_ask") as stream:
        question = await anext(stream)
        assert (await client.http.delete(url, headers=client.headers)).status_code in (200, 204)
        with trio.fail_after(5):
            rest = [message async for message in stream]
        assert [message.get("method") for message in rest] in ([], ["notifications/cancelled"])
        late = await client.post({"id": question["id"], "result": accept(proceed=True)})
        assert late.status_code == 404
