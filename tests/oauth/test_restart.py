"""With a store that lasts, nobody notices a restart; with one that is full, everybody is told."""

from __future__ import annotations

import signal
from pathlib import Path

from hosts.process import MCPKIT, started
from oauth.browser import Program, Visitor, call, origin_of, program, register

SCRIPTS = Path(__file__).parent / "scripts"


def test_clients_codes_and_tokens_survive_a_restart(tmp_path: Path) -> None:
    """PITFALLS: registrations survive where a durable store is configured. The second process has another port, so
    the client speaks to the name that it knows through `--port`.
    """
    with started([*MCPKIT, str(SCRIPTS / "durable.py")], SHELF=str(tmp_path)) as process:
        url = process.expect(r"serving (http\S+)")[1]
        origin = origin_of(url)
        flow = program(origin)
        tokens = flow.tokens()
        code = flow.code()
        process.process.send_signal(signal.SIGKILL)
        process.process.wait()
    port = origin.rpartition(":")[2]
    command = [*MCPKIT[:-2], "--port", port, str(SCRIPTS / "durable.py")]
    with started(command, SHELF=str(tmp_path)) as process:
        process.expect(r"serving (http\S+)")
        assert call(url, tokens["access_token"]).status_code == 200
        assert flow.redeem(code).status_code == 200
        assert flow.refresh(tokens["refresh_token"]).status_code == 200
        with Visitor() as visitor:
            assert visitor.allow(flow.url()).status_code == 303


def test_a_store_that_is_full_is_said(tmp_path: Path) -> None:
    """503, on the page and in JSON, and no traceback; it is tried again later."""
    script = tmp_path / "full.py"
    script.write_text(
        "from mcpkit import App\n"
        "from mcpkit.auth import AuthorizationServer\n"
        "from mcpkit.stores.memory import MemoryStore\n"
        "app = App('full', store=MemoryStore(max_entries=2), auth=AuthorizationServer(lambda name, password: name))\n"
    )
    with started([*MCPKIT, str(script)]) as process:
        origin = origin_of(process.expect(r"serving (http\S+)")[1])
        flow = Program(origin, register(origin).json()["client_id"], scope=None)
        assert register(origin).status_code == 201
        full = register(origin)
        assert full.status_code == 503
        assert full.json()["error"] == "temporarily_unavailable"
        assert int(full.headers["retry-after"]) > 0
        with Visitor() as visitor:
            page = visitor.allow(flow.url())
        assert page.status_code == 503
        assert "Try again in a minute" in page.text
        assert "Traceback" not in process.output
