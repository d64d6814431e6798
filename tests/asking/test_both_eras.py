"""The same handlers, asked by clients of every revision, over memory, over stdio and over HTTP.

Whatever the server sends is validated with the official types as well.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from asking import questionnaire
from asking.asking_kit import ASKABLE, REVISIONS, STATELESS, validated
from hosts.process import serving_http
from support import OVER_HTTP, STDIO_AND_HTTP

from mcpkit import Accepted, Cancelled, Declined
from mcpkit.testing import Client, ToolOutcome

SCRIPT = str(Path(__file__).with_name("questionnaire.py"))
KINDS = ("", "_sync", "_asyncio")
ANSWERS = {
    "area": "terrace",
    "guests": 4,
    "proceed": True,
    "Pay here": Accepted(None),
    "sampling": "hi",
    "roots": ["file:///x"],
}
BOOKED = {"table": {"number": 7, "area": "terrace", "day": "2030-01-02"}, "guests": 4, "paid": True}

each_revision = pytest.mark.parametrize("revision", REVISIONS)
each_askable = pytest.mark.parametrize("revision", ASKABLE)
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def no_steps() -> None:
    questionnaire.done.clear()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_http(SCRIPT) as (process, url):
        yield url
        assert "Traceback" not in process.output


@asynccontextmanager
async def client(revision: str, target: Any = questionnaire.app, **options: Any) -> AsyncGenerator[Client]:
    options.setdefault("answers", ANSWERS)
    async with Client(target, revision=revision, **options) as opened:
        yield opened
    validated(opened)


def value(outcome: ToolOutcome) -> Any:
    """The structured value as the handler returned it, whatever the revision makes of it."""
    assert not outcome.is_error, outcome
    return json.loads(outcome.text)


def questions(opened: Client) -> list[str]:
    """The methods of what the server asked while a call ran, or the results that asked."""
    messages = [json.loads(message) for sender, message in opened.transcript if sender == "server"]
    live = [message["method"] for message in messages if "method" in message and "id" in message]
    rounds = [
        message for message in messages if message.get("result", {}).get("resultType") == "input_required"
    ]
    return live + [asked["method"] for m in rounds for asked in m["result"].get("inputRequests", {}).values()]


@each_askable
@each_kind
async def test_a_handler_asks_twice_and_takes_each_step_once(revision: str, kind: str) -> None:
    """MRTR-14: the handler reads as if it could wait; its steps are not repeated; what it returns is structured."""
    async with client(revision) as opened:
        outcome = await opened.call_tool(f"book{kind}", {"name": "Ada"})
        assert value(outcome) == BOOKED
        assert questions(opened) == ["elicitation/create"] * 2
    assert questionnaire.done == ["reserve", "pay"]


@each_revision
@each_kind
async def test_everything_is_asked_that_the_revision_knows(revision: str, kind: str) -> None:
    """S2C-01, MRTR-03: several questions in one round, a URL, a completion, roots. What a revision does not know is
    Unavailable.
    """
    form = "unavailable" if revision < "2025-06-18" else "accepted Confirm(proceed=True)"
    visit = "unavailable" if revision < "2025-11-25" else "accepted None"
    async with client(revision) as opened:
        outcome = await opened.call_tool(f"everything{kind}")
        roots = "roots ['file:///x']"
        assert value(outcome) == [form, "said hi", roots, visit, "said hi", roots]


@each_revision
async def test_a_client_that_cannot_be_asked_is_not(revision: str) -> None:
    """S2C-01, MRTR-04: Unavailable, without a round trip."""
    async with client(revision, answers=None) as opened:
        assert "Unavailable(" in (await opened.call_tool("try_to_ask")).text
        assert value(await opened.call_tool("everything")) == ["unavailable"] * 6
        assert questions(opened) == []


@each_askable
async def test_capabilities_decide_what_is_asked(revision: str) -> None:
    """S2C-07: an empty `elicitation` means forms and no URLs; `url` alone means no forms from 2025-11-25 on, while
    2025-06-18 knows nothing but forms.
    """
    async with client(revision, capabilities={"elicitation": {}}) as opened:
        assert value(await opened.call_tool("everything"))[0] == "accepted Confirm(proceed=True)"
        assert questions(opened) == ["elicitation/create"]
    async with client(revision, capabilities={"elicitation": {"url": {}}}) as opened:
        told = value(await opened.call_tool("everything"))
        old = revision == "2025-06-18"
        assert told[0] == ("accepted Confirm(proceed=True)" if old else "unavailable")
        assert told[3] == ("unavailable" if old else "accepted None")


@each_askable
@pytest.mark.parametrize(("answer", "told"), [(Declined(), "Declined()"), (Cancelled(), "Cancelled()")])
async def test_declining_and_cancelling_are_answers(revision: str, answer: Any, told: str) -> None:
    """MRTR-10, S2C-06: the handler sees both."""
    async with client(revision, answers={"Go on?": answer}) as opened:
        assert (await opened.call_tool("try_to_ask")).text == told


@each_askable
@pytest.mark.parametrize("kind", ["", "_sync"])
async def test_prompts_and_resources_ask_too(revision: str, kind: str) -> None:
    """MRTR-01: the three methods that can; CACH-04: what was asked for is cached by nobody."""
    async with client(revision) as opened:
        (message,) = await opened.get_prompt(f"invitation{kind}", {"guest": "Ada"})
        assert message.content.text == "Invite Ada: terrace"  # type: ignore[union-attr]
        (contents,) = await opened.read_resource(f"menu{kind.replace('_', '-')}://friday")
        assert contents.text == "friday: False"
        assert questions(opened) == ["elicitation/create"] * 2
    last = json.loads(opened.transcript[-1].message)["result"]
    assert revision != STATELESS or (last["ttlMs"], last["cacheScope"]) == (0, "private")


@each_askable
@pytest.mark.parametrize("transport", STDIO_AND_HTTP)
async def test_processes_are_asked_like_memory(
    revision: str, transport: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STD-01, S2C-02: over stdio, and over HTTP on the call's own stream. Steps are taken once."""
    steps = tmp_path / "steps"
    monkeypatch.setenv("STEPS", str(steps))
    async with client(revision, url if transport == "http" else SCRIPT) as opened:
        for kind in KINDS:
            assert value(await opened.call_tool(f"book{kind}", {"name": "Ada"})) == BOOKED
            assert len(value(await opened.call_tool(f"everything{kind}"))) == 6
        assert (await opened.get_prompt("invitation", {"guest": "Ada"}))[0].role == "user"
        assert (await opened.read_resource("menu://friday"))[0].text == "friday: False"
    if transport == "stdio":
        assert steps.read_text().split() == ["reserve", "pay"] * len(KINDS)


@pytest.mark.parametrize(
    ("revision", "transport"),
    [
        ("2024-11-05", "stdio"),
        ("2025-03-26", "stdio"),
        pytest.param("2025-03-26", "http", marks=OVER_HTTP),
    ],
)
async def test_old_clients_are_asked_what_they_know(revision: str, transport: str, url: str) -> None:
    """S2C-05: completions and roots, in revisions that know no forms."""
    async with client(revision, url if transport == "http" else SCRIPT) as opened:
        told = value(await opened.call_tool("everything"))
        assert told == [
            "unavailable",
            "said hi",
            "roots ['file:///x']",
            "unavailable",
            "said hi",
            "roots ['file:///x']",
        ]
