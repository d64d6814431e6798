"""The team's notes: what the head of the script says works. What the server does is tested in tests/oauth."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hosts.process import serving_http, started
from oauth.browser import EXAMPLE, PASSWORD, Visitor, call, origin_of, program

HEAD = EXAMPLE.read_text(encoding="utf-8").partition('"""\n\n')[0]


def test_its_head_is_true(tmp_path: Path) -> None:
    """What a newcomer copies first: how to serve it, how to register it, and who may sign in."""
    assert "mcpkit run examples/oauth.py --transport http" in HEAD
    assert f'"{PASSWORD}"' in HEAD
    default = "mcpkit install --url http://127.0.0.1:8000/mcp --name team-notes"
    assert default in HEAD
    with serving_http(EXAMPLE) as (_, url):
        words = default.replace("http://127.0.0.1:8000/mcp", url).split()
        done = subprocess.run(
            [sys.executable, "-m", *words, "--print"],
            env={"HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert f'"url": "{url}"' in done.stdout
        for user in ("editor", "guest"):
            assert f'"{user}"' in HEAD
            token = program(origin_of(url)).tokens(user)["access_token"]
            assert user in call(url, token).text


def test_it_serves_when_it_is_run_as_a_script() -> None:
    """And a person who denies the client leaves it without a token."""
    with started([sys.executable, str(EXAMPLE)], PORT="0") as process:
        url = process.expect(r"serving (http\S+)")[1]
        assert call(url, None).status_code == 401
        with Visitor() as visitor:
            answer = visitor.send(visitor.open(program(origin_of(url)).url()), decision="deny")
        assert "error=access_denied" in answer.headers["location"]
        process.signal()
        assert process.wait() == 0
