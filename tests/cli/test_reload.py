"""`mcpkit run --reload`: what is edited is served, and nobody is refused meanwhile."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from hosts.process import Process, started
from support import SECONDS
from web import HTTP, RUN, SERVER, call, failure, here

from mcpkit.cli.reload import scripts_folder

READY = r"serving (http\S+)"


@pytest.fixture(params=["watchfiles", "polling"])
def watching(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment in which a server watches in this way."""
    if request.param == "watchfiles":
        pytest.importorskip("watchfiles")
        return {}
    shadow = tmp_path / "without"
    shadow.mkdir()
    (shadow / "watchfiles.py").write_text("raise ImportError\n", encoding="utf-8")
    return {"PYTHONPATH": str(shadow)}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script in a folder of its own."""
    path = tmp_path / "project" / "served.py"
    path.parent.mkdir()
    path.write_text(SERVER, encoding="utf-8")
    return path


def edit(script: Path, version: str) -> None:
    """Save another version, as editors do: in one step."""
    new = script.with_suffix(".new")
    new.write_text(SERVER.replace('"one"', version), encoding="utf-8")
    os.replace(new, script)


@contextmanager
def reloading(script: Path, *options: str, **env: str) -> Iterator[tuple[Process, str]]:
    with started([*RUN, str(script), *HTTP, "--reload", *options], **env) as process:
        yield process, process.expect(READY)[1]


class Asking:
    """A client that calls again and again, with a new connection each time."""

    def __init__(self, url: str) -> None:
        self.answers: list[str] = []
        self.failures: list[Exception] = []
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        while not self._stop.is_set():
            try:
                self.answers.append(call(self._url, "version"))
            except Exception as error:
                self.failures.append(error)

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


def test_an_edit_is_served_and_nobody_is_refused(script: Path, watching: dict[str, str]) -> None:
    """The listening socket stays open: who connects between two servers waits for the next."""
    with reloading(script, **watching) as (process, url), Asking(url) as client:
        for times, version in enumerate(('"two"', '"three"'), start=2):
            edit(script, version)
            assert process.expect(READY, times=times)[1] == url
            assert call(url, "version") == version.strip('"')
    assert client.failures == []
    assert client.answers == sorted(client.answers, key=["one", "two", "three"].index)
    assert process.count("served.py changed") == 2


def test_an_error_is_shown_and_its_repair_is_served(script: Path) -> None:
    """The server stays down meanwhile, and clients wait."""
    with reloading(script) as (process, url):
        edit(script, '"two')
        process.expect("SyntaxError: ")
        process.expect("waiting for a change in")
        with Asking(url) as client:
            edit(script, '"three"')
            process.expect(READY, times=2)
            assert call(url, "version") == "three"
    assert client.failures == []
    assert set(client.answers) == {"three"}


def test_a_server_that_ends_by_itself_comes_back_with_the_next_change(script: Path) -> None:
    """It is not started again and again."""
    script.write_text(SERVER + "\nraise SystemExit(3)\n", encoding="utf-8")
    with started([*RUN, str(script), *HTTP, "--reload"]) as process:
        process.expect("waiting for a change in")
        edit(script, '"two"')
        assert call(process.expect(READY)[1], "version") == "two"
        assert process.count("waiting for a change in") == 1


def test_a_call_that_runs_is_finished_before(script: Path) -> None:
    """Within the grace."""
    slow = """

import time


@app.tool
def slow() -> str:
    print("begun", flush=True)
    time.sleep(1)
    return "done"
"""
    script.write_text(SERVER + slow, encoding="utf-8")
    with reloading(script) as (process, url):
        answers: list[str] = []
        caller = threading.Thread(target=lambda: answers.append(call(url, "slow")))
        caller.start()
        process.expect("begun")
        edit(script, '"two"')
        process.expect(READY, times=2)
        caller.join()
        assert answers == ["done"]


def test_a_server_that_does_not_end_is_killed(script: Path) -> None:
    """Bounded by the grace; a script may do what it likes with its signals."""
    deaf = "\n\nimport os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    script.write_text(
        f"{SERVER}{deaf}print('up', os.getpid(), flush=True)\ntime.sleep(600)\n", encoding="utf-8"
    )
    with started([*RUN, str(script), *HTTP, "--reload", "--grace", "0"]) as process:
        pid = int(process.expect(r"^up (\d+)$")[1])
        edit(script, '"two"')
        process.expect("the server does not end; it is killed")
        assert call(process.expect(READY)[1], "version") == "two"
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both(script: Path, watching: dict[str, str], number: int) -> None:
    """With 0, and without a traceback; the port is free afterwards."""
    with reloading(script, **watching) as (process, url):
        process.signal(number)
        assert process.wait() == 0
        assert process.output.count("\n") == 1, process.output
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, timeout=SECONDS)


def test_the_server_ends_when_its_supervisor_is_killed(script: Path) -> None:
    """It would hold the port for ever."""
    with reloading(script) as (process, url):
        os.kill(process.process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL  # its output has ended, too: the server has gone
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, timeout=SECONDS)


def test_a_unix_socket_stays_the_same(script: Path, tmp_path: Path) -> None:
    """The server that goes does not remove it; the supervisor does, at the end."""
    path = tmp_path / "socket"
    with started([*RUN, str(script), *HTTP, "--reload", "--host", f"unix:{path}"]) as process:
        process.expect(f"serving unix:{path}$")
        identity = path.stat().st_ino
        edit(script, '"two"')
        process.expect(f"serving unix:{path}$", times=2)
        assert path.stat().st_ino == identity
        transport = httpx.HTTPTransport(uds=str(path))
        client = httpx.Client(transport=transport, timeout=SECONDS)
        assert call("http://localhost/mcp", "version", client=client) == "two"
        process.signal()
        assert process.wait() == 0
        assert not path.exists()


def test_a_module_is_watched_as_a_package(tmp_path: Path) -> None:
    """TARGET may be package.module:app, found from the current directory; all of its files count."""
    package = tmp_path / "shop"
    (package / "inner").mkdir(parents=True)
    (package / "inner" / "words.py").write_text('WORD = "one"\n', encoding="utf-8")
    text = "from shop.inner.words import WORD\n" + SERVER.replace('return "one"', "return WORD")
    (package / "server.py").write_text(text, encoding="utf-8")
    code = f"import os, sys; os.chdir({str(tmp_path)!r}); from mcpkit.cli.main import main; sys.exit(main())"
    with started([sys.executable, "-c", code, "run", "shop.server:app", *HTTP, "--reload"]) as process:
        url = process.expect(READY)[1]
        (package / "inner" / "words.py").write_text('WORD = "two"\n', encoding="utf-8")
        process.expect(READY, times=2)
        assert call(url, "version") == "two"
        process.expect(f"^mcpkit: {Path('inner', 'words.py')} changed$")


# -- What is a change ------------------------------------------------------------------------


@pytest.mark.parametrize("watching", ["watchfiles", "polling"], indirect=True)
def test_only_the_users_scripts_count(tmp_path: Path, watching: dict[str, str]) -> None:
    """Not what tools and package managers write; seen from another process, where watchfiles can be absent."""
    code = (
        "import sys; from pathlib import Path; from mcpkit.cli.reload import changes\n"
        f"watched = changes(Path({str(tmp_path)!r}))\n"
        "next(watched); print('watching', flush=True)\n"
        "while True:\n"
        "    for path in sorted(next(watched)): print('changed', Path(path).name, flush=True)\n"
    )
    for folder in (".git", ".venv/lib", "env/lib", "node_modules/x", "__pycache__", "own/deep"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    with started([sys.executable, "-c", code], **watching) as process:
        process.expect("watching")
        for place in (".git/a.py", ".venv/lib/b.py", "env/lib/c.py", "node_modules/x/d.py", "data.json"):
            (tmp_path / place).write_text("x", encoding="utf-8")
        (tmp_path / "own" / "deep" / "script.py").write_text("x", encoding="utf-8")
        process.expect("changed script.py")
        (tmp_path / "own" / "deep" / "script.py").write_text("xy", encoding="utf-8")
        process.expect("changed script.py", times=2)
        (tmp_path / "own" / "deep" / "script.py").unlink()
        process.expect("changed script.py", times=3)
        assert set(process.output.split("\n")) == {"watching", "changed script.py", ""}


def test_a_folder_is_found_for_each_kind_of_target(
    script: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A script's own; a package's; for a module that is a single file, the one that it is in."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(script.parent)
    assert scripts_folder("served.py:app") == script.parent
    assert scripts_folder("served:app") == script.parent
    assert scripts_folder("email.message:app") == Path(sys.modules["email"].__file__ or "").parent


# -- Usage -----------------------------------------------------------------------------------


def test_over_stdio_it_is_a_usage_error(script: Path) -> None:
    """There a client starts the server."""
    code, out, err = here("run", str(script), "--reload")
    assert (code, out) == (2, "")
    assert "--reload needs --transport http" in err


@pytest.mark.parametrize("target", ["missing.py", "no_such_module:app"])
def test_a_target_that_is_not_there_is_a_usage_error(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It will not come by itself."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    code, out, err = here("run", target, *HTTP, "--reload")
    assert (code, out) == (2, "")
    assert err.startswith("mcpkit: There is no ")


def test_a_port_that_is_taken_ends_the_supervisor(script: Path) -> None:
    """One line, exit code 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ("run", str(script), "--transport", "http", "--port", port, "--reload")
        assert f"127.0.0.1:{port}: Address already in use" in failure(*words)


def test_the_descriptor_is_no_option_for_people() -> None:
    """`--fd` is between the supervisor and its servers."""
    done = subprocess.run([*RUN, "--help"], capture_output=True, text=True, timeout=SECONDS)
    assert "--reload" in done.stdout
    assert "--fd" not in done.stdout
