"""examples/ask.py, as its readers would use it: with the client of the official Python SDK, which answers, in both eras
over stdio and HTTP, and from the command line. Each step is counted by what the restaurant says on standard error.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from asking.asking_kit import STATELESS
from clients.messages import Watch
from clients.test_python_sdk import _Tap
from hosts.process import serving_http
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from support import SECONDS, STDIO_AND_HTTP

EXAMPLE = Path(__file__).parents[2] / "examples" / "ask.py"
DAY = {"day": "2030-05-04"}
PARTY = {"name": "Ada", "guests": 4, "area": "terrace", "mail": "ada@example.com"}

Guest = Callable[[types.ElicitRequestFormParams], types.ElicitResult]


def willing(params: types.ElicitRequestFormParams) -> types.ElicitResult:
    """A guest who enters all that is asked for."""
    known: dict[str, Any] = {**PARTY, "proceed": True}
    fields = params.requested_schema["properties"]
    return types.ElicitResult(action="accept", content={name: known[name] for name in fields})


def undecided(params: types.ElicitRequestFormParams) -> types.ElicitResult:
    """A guest who does not like the table."""
    return types.ElicitResult(action="decline") if "table" in params.message.lower() else willing(params)


class Careless:
    """A guest who first enters what cannot be."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def __call__(self, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        self.messages.append(params.message)
        result = willing(params)
        if len(self.messages) == 1 and result.content is not None:
            result.content["guests"] = 80
        return result


class Restaurant:
    """A client of the served example, and what the restaurant has said."""

    def __init__(self, client: Any, said: Callable[[], str]) -> None:
        self.client = client
        self._said = said

    async def book(self, **arguments: Any) -> types.CallToolResult:
        """Book a table for the day."""
        result: types.CallToolResult = await self.client.call_tool("book", {**DAY, **arguments})
        return result

    def steps(self) -> Counter[str]:
        """The steps that were taken, by their last words."""
        lines = self._said().splitlines()
        return Counter(line.rpartition(" ")[2] for line in lines if line.startswith(("table ", "booking ")))


@asynccontextmanager
async def transport(kind: str, tmp_path: Path) -> AsyncGenerator[tuple[Any, Callable[[], str]]]:
    """The SDK's transport to the served example, and how to read its standard error."""
    if kind == "stdio":
        server = StdioServerParameters(command=sys.executable, args=["-m", "mcpkit", "run", str(EXAMPLE)])
        log = tmp_path / "stderr"
        with log.open("w") as errors:
            yield stdio_client(server, errlog=errors), log.read_text
    else:
        with serving_http(EXAMPLE) as (process, url):
            yield streamable_http_client(url), lambda: process.output


@asynccontextmanager
async def restaurant(
    revision: str, kind: str, tmp_path: Path, guest: Guest | None = willing
) -> AsyncGenerator[Restaurant]:
    """The example, with a guest who answers; without one the client cannot ask."""

    async def callback(context: Any, params: Any) -> Any:
        assert guest is not None
        return guest(params)

    watch = Watch()

    @asynccontextmanager
    async def tapped(inner: Any) -> AsyncGenerator[Any]:
        async with inner as (received, sent):
            yield _Tap(received, watch), _Tap(sent, watch)

    answers = None if guest is None else callback
    async with transport(kind, tmp_path) as (inner, said):
        if revision == "2025-06-18":  # which the SDK speaks, but does not offer
            async with (
                tapped(inner) as (received, sent),
                ClientSession(received, sent, elicitation_callback=answers) as session,
            ):
                params = types.InitializeRequestParams(
                    protocol_version=revision,
                    capabilities=types.ClientCapabilities(
                        elicitation=None if guest is None else types.ElicitationCapability()
                    ),
                    client_info=types.Implementation(name="test", version="1"),
                )
                request = types.InitializeRequest(params=params)
                session.adopt(await session.send_request(request, types.InitializeResult))
                await session.send_notification(types.InitializedNotification())
                assert session.protocol_version == revision
                yield Restaurant(session, said)
        else:
            mode = "legacy" if revision < STATELESS else "auto"
            async with Client(tapped(inner), mode=mode, elicitation_callback=answers) as client:
                assert client.protocol_version == revision
                yield Restaurant(client, said)
    assert watch.validated


def text(result: types.CallToolResult) -> str:
    """Its text."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


each_revision = pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", STATELESS])
each_transport = pytest.mark.parametrize("kind", STDIO_AND_HTTP)


# The SDK leaves a stream as soon as it has its answer, and the generators that read it to the collector.
@pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected:ResourceWarning")
@each_revision
@each_transport
async def test_a_table_is_booked_and_each_step_taken_once(revision: str, kind: str, tmp_path: Path) -> None:
    """MRTR-14, S2C-02: the same source, in both eras, with a client that we did not write."""
    async with restaurant(revision, kind, tmp_path) as place:
        result = await place.book()
        assert not result.is_error, result
        booking = result.structured_content
        assert booking is not None
        assert booking["party"] == PARTY
        assert booking["table"] == {"number": 5, "area": "terrace", "seats": 4}
        listed = (await place.client.call_tool("list_bookings", {})).structured_content
        assert [booking] == (listed if isinstance(listed, list) else listed["result"])
        assert place.steps() == {"held": 1, "entered": 1}


@each_revision
async def test_what_cannot_be_is_asked_for_again(revision: str, tmp_path: Path) -> None:
    """S2C-06: with the reason."""
    guest = Careless()
    async with restaurant(revision, "stdio", tmp_path, guest) as place:
        assert not (await place.book()).is_error
        assert place.steps() == {"held": 1, "entered": 1}
    assert guest.messages[1] == f"{guest.messages[0]}\n\nPlease correct: `guests`: expected integer <= 8"
    assert len(guest.messages) == 3


@each_revision
async def test_a_guest_may_say_no(revision: str, tmp_path: Path) -> None:
    """MRTR-10: then the table is released, once."""
    async with restaurant(revision, "stdio", tmp_path, undecided) as place:
        result = await place.book()
        assert result.is_error
        assert text(result) == "Nothing was booked: the guest does not want this table."
        assert place.steps() == {"held": 1, "released": 1}


@each_revision
async def test_a_client_that_cannot_ask_is_told_what_to_do(revision: str, tmp_path: Path) -> None:
    """S2C-01: and does it, as the model would."""
    async with restaurant(revision, "stdio", tmp_path, None) as place:
        result = await place.book()
        assert result.is_error
        assert "call again with `party`" in text(result)
        assert not (await place.book(party=PARTY)).is_error
        assert place.steps() == {"held": 1, "entered": 1}


def test_it_can_be_tried_from_the_command_line() -> None:
    """As the head of the example says."""
    answers = ["name=Ada", "guests=4", "area=terrace", "proceed=yes"]
    words = [word for answer in answers for word in ("--answer", answer)]
    command = [sys.executable, "-m", "mcpkit", "call", str(EXAMPLE), "book", "day=2030-05-04", *words]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    assert '"party":{"name":"Ada","guests":4,"area":"terrace","mail":null}' in done.stdout
    assert done.stderr.splitlines() == ["table 5 is held", "booking 1 is entered"]
