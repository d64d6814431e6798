"""The store over HTTP: served as its head says, to several clients of all revisions at once."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.process import Process, serving_http, started
from support import REVISIONS

from mcpkit.testing import Client

EXAMPLE = Path(__file__).parents[2] / "examples" / "http_simple.py"
HEAD = [line for line in EXAMPLE.read_text(encoding="utf-8").splitlines()[:8] if ":  " in line]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Process, str]]:
    """The script as it is run, on a free port."""
    with started([sys.executable, str(EXAMPLE)], PORT="0") as process:
        yield process, process.expect(r"^mcpkit: notes serving (http://127\.0\.0\.1:\d+/mcp)$")[1]


def command(first: str) -> str:
    """What the head of the example says after `first`."""
    (line,) = [line for line in HEAD if line.startswith(first)]
    return line.removeprefix(first).strip()


async def test_clients_of_all_revisions_share_the_store(served: tuple[Process, str]) -> None:
    """One endpoint for both eras; what one client keeps another one finds."""
    _, url = served
    for revision in REVISIONS[1:]:
        async with Client(url, revision=revision) as one, Client(url, revision=REVISIONS[-1]) as other:
            assert [tool.name for tool in await one.list_tools()] == ["remember", "recall"]
            missing = await one.call_tool("recall", {"key": revision})
            assert missing.is_error
            assert missing.text == f"Nothing is kept under {revision}."
            kept = await one.call_tool("remember", {"key": revision, "value": "grün"})
            assert kept.text == f"{revision} is kept."
            assert (await other.call_tool("recall", {"key": revision})).text == "grün"


def test_its_head_is_true(served: tuple[Process, str], tmp_path: Path) -> None:
    """What a newcomer copies first works: with the default port, but for this one."""
    _, url = served
    default = "http://127.0.0.1:8000/mcp"
    assert command("Serve it:").startswith("python examples/http_simple.py ")
    assert default in command("Serve it:")
    for first, printed in (("Try it:", "colour is kept.\n"), ("Register it:", f'"url": "{url}"')):
        words = command(first).replace(default, url).split()
        done = subprocess.run(
            [sys.executable, "-m", *words, *(["--print"] if "install" in words else [])],
            env={"HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert printed in done.stdout


def test_mcpkit_run_serves_it_as_well() -> None:
    """And without the option over stdio: transports are chosen when it is served."""
    with serving_http(EXAMPLE) as (process, url):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", url)
        process.signal()
        assert process.wait() == 0
