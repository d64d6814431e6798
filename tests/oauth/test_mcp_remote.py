"""The bridge mcp-remote signs in: it finds, registers, opens a browser, and keeps its tokens for the next time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from clients import nodejs
from clients.peer import WatchedServer
from support import HANDSHAKE

pytestmark = pytest.mark.once
BROWSER = '''\
#!{python}
"""Signs in, allows, and goes where it is sent: a browser for one purpose."""
import pathlib, sys
sys.path[:0] = {path!r}
from oauth.browser import Visitor

with Visitor() as visitor, pathlib.Path({log!r}).open("a") as log:
    answer = visitor.allow(sys.argv[1])
    back = visitor.open(answer.headers["location"])
    print(sys.argv[1], answer.status_code, back.status_code, file=log)
'''


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    nodejs.install()


def test_mcp_remote_signs_in_once(origin: str, tmp_path: Path) -> None:
    """CLIENTS: a redirect to localhost with a port of its own, and the scopes of OpenID Connect where it finds none."""
    log, browser = tmp_path / "browser.log", tmp_path / "browser"
    path = [item for item in sys.path if item.endswith("tests")]
    browser.write_text(BROWSER.format(python=sys.executable, path=path, log=str(log)))
    browser.chmod(0o755)
    env = {"HOME": str(tmp_path), "MCP_REMOTE_CONFIG_DIR": str(tmp_path), "BROWSER": str(browser)}
    arguments = (f"{origin}/mcp", "--transport", "http-only")
    for _ in range(2):
        bridge = WatchedServer(nodejs.command("node_modules/mcp-remote/dist/proxy.js", *arguments), env=env)
        try:
            assert bridge.start(HANDSHAKE[-1])["serverInfo"]["name"] == "team-notes", bridge.errors
            reply = bridge.ask(1, "tools/call", {"name": "whoami", "arguments": {}})
            assert reply["result"]["content"][0]["text"] == "editor: notes:read"
            bridge.close_input()
            assert bridge.wait() == 0
        finally:
            bridge.end()
    (line,) = log.read_text().splitlines()  # the second time it had its tokens
    assert line.startswith(f"{origin}/authorize?")
    assert line.endswith(" 303 200")
