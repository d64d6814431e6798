"""`mcpkit install --url`: a client gets an entry that reaches a server which runs already."""

from __future__ import annotations

import json
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from desks import PLACES, Desk
from hosts.process import serving_http
from web import SERVER

from mcpkit.cli.clients import CLIENTS, Scope

URL = "http://127.0.0.1:8000/mcp"
REMOTE = [place for place in PLACES if place[0] != "claude-desktop"]
every_place = pytest.mark.parametrize(("client", "scope", "file", "keys", "typed"), REMOTE)
TYPED = ("claude-code", "vscode", "gemini")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running server; it calls itself "My shop"."""
    script = tmp_path_factory.mktemp("served") / "server.py"
    script.write_text(SERVER, encoding="utf-8")
    with serving_http(script) as (_, url):
        yield url


def entry(client: str, **headers: str) -> dict[str, Any]:
    """The entry for `URL`, as the client reads it."""
    name = "http_headers" if client == "codex" else "headers"
    return {
        **({"type": "http"} if client in TYPED else {}),
        "url": URL,
        **({name: headers} if headers else {}),
    }


@every_place
def test_the_entry_has_the_shape_that_the_client_reads(
    desk: Desk, client: str, scope: Scope, file: str, keys: tuple[str, ...], typed: bool
) -> None:
    """CLIENTS.md, "Configuration files"; Codex calls headers `http_headers`."""
    where = ("--client", client, "--scope", scope)
    code, out, err = desk.install("--transport", "http", "--url", URL, "--name", "shop", *where)
    assert (code, err) == (0, "")
    assert desk.servers(file, keys) == {"shop": entry(client)}
    assert f"Registered shop with {CLIENTS[client].label} ({scope} scope" in out


@every_place
def test_headers_go_into_the_entry(
    desk: Desk, client: str, scope: Scope, file: str, keys: tuple[str, ...], typed: bool
) -> None:
    """Such as a token, which has `=` and blanks in it."""
    words = ("--url", URL, "--name", "shop", "--client", client, "--scope", scope)
    headers = {"Authorization": "Bearer abc==", "X-Team": "a b"}
    options = [word for name, value in headers.items() for word in ("--header", f"{name}={value}")]
    assert desk.install(*words, *options)[0] == 0
    assert desk.servers(file, keys) == {"shop": entry(client, **headers)}
    if scope != "project":
        assert stat.S_IMODE((desk.root / file).stat().st_mode) == 0o600


@every_place
def test_twice_is_once_and_without_its_headers_it_has_none(
    desk: Desk, client: str, scope: Scope, file: str, keys: tuple[str, ...], typed: bool
) -> None:
    """PITFALLS: idempotent; and a second registration says all of how the server is reached."""
    words = ("--url", URL, "--name", "shop", "--client", client, "--scope", scope)
    desk.install(*words, "--header", "A=b")
    before = desk.files()
    assert "already registered" in desk.install(*words, "--header", "A=b")[1]
    assert desk.files() == before
    desk.install(*words)
    assert desk.servers(file, keys) == {"shop": entry(client)}


def test_an_entry_with_a_command_is_replaced_as_a_whole(desk: Desk) -> None:
    """A command's settings mean nothing to a URL, and the other way round."""
    path = desk.root / "home/.cursor/mcp.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"mcpServers": {"shop": {"command": "x", "args": [], "cwd": "/"}}}), "utf-8")
    assert desk.install("--url", URL, "--name", "shop", "--client", "cursor")[0] == 0
    assert desk.servers("home/.cursor/mcp.json", ("mcpServers",)) == {"shop": {"url": URL}}


def test_a_client_without_http_says_what_to_do_instead(desk: Desk) -> None:
    """CLIENTS.md: Claude Desktop's file has commands only."""
    before = desk.files()
    code, out, err = desk.install("--url", URL, "--name", "shop", "--client", "claude-desktop")
    assert (code, out, desk.files()) == (2, "", before)
    assert "Claude Desktop's file takes no URLs: add the URL under Settings > Connectors" in err


STREAM = "http://127.0.0.1:8000/sse"


@pytest.mark.parametrize("words", [("--transport", "sse"), ()], ids=["said", "seen in the URL"])
@every_place
def test_a_server_of_the_older_transport_is_registered_as_such(
    desk: Desk,
    client: str,
    scope: Scope,
    file: str,
    keys: tuple[str, ...],
    typed: bool,
    words: tuple[str, ...],
) -> None:
    """CLIENTS.md: `type` says which, where a client's entries have one. Codex speaks it not at all."""
    before = desk.files()
    where = ("--client", client, "--scope", scope)
    code, out, err = desk.install(*words, "--url", STREAM, "--name", "shop", "--header", "A=b", *where)
    if client == "codex":
        assert (code, out, desk.files()) == (2, "", before)
        assert "Codex does not speak HTTP+SSE: serve it Streamable HTTP" in err
        return
    assert (code, err) == (0, "")
    kind = {"type": "sse"} if client in TYPED else {}
    assert desk.servers(file, keys) == {"shop": {**kind, "url": STREAM, "headers": {"A": "b"}}}


def test_what_is_said_counts_more_than_the_url(desk: Desk) -> None:
    """A path is only a name."""
    words = ("--url", STREAM, "--name", "shop", "--client", "codex")
    assert desk.install(*words, "--transport", "http")[0] == 0
    assert desk.servers("home/.codex/config.toml", ("mcp_servers",)) == {"shop": {"url": STREAM}}


def test_without_a_name_the_server_is_asked_for_it(desk: Desk, url: str) -> None:
    """In the characters that every client takes."""
    assert desk.install("--url", url, "--client", "cursor")[0] == 0
    assert desk.servers("home/.cursor/mcp.json", ("mcpServers",)) == {"My-shop": {"url": url}}


def test_a_server_that_does_not_answer_is_not_registered_without_a_name(desk: Desk, url: str) -> None:
    """Exit code 1, with the reason and what to do."""
    before = desk.files()
    code, out, err = desk.install("--url", f"{url}/wrong", "--client", "cursor")
    assert (code, out, desk.files()) == (1, "", before)
    assert "answered 404 Not Found" in err
    assert "start it first, or give it a --name" in err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "name a TARGET to be started, or the --url"),
        (("--transport", "http"), "the --url of a server that runs already"),
        (("server.py", "--transport", "http"), "the --url of a server that runs already"),
        (("server.py", "--transport", "sse"), "the --url of a server that runs already"),
        (("server.py", "--url", URL), "either a TARGET to be started or the --url"),
        (("--url", URL, "--transport", "stdio"), "either a TARGET to be started or the --url"),
        (("--url", URL, "--env", "A=b"), "a --url takes --header"),
        (("server.py", "--header", "A=b"), "a TARGET takes --env"),
        (("--url", "127.0.0.1:8000/mcp"), "is no URL of a server, such as http"),
        (("--url", "ftp://example.com/"), "is no URL of a server"),
        (("--url", "http:///mcp"), "is no URL of a server"),
        (("--url", "http://a:b/mcp"), "is no URL of a server"),
        (("--url", "http://[::1/mcp"), "is no URL of a server"),
        (("--url", "http://a b/mcp"), "is no URL of a server"),
    ],
)
def test_options_that_contradict_each_other_are_usage_errors(
    desk: Desk, words: tuple[str, ...], problem: str
) -> None:
    """DESIGN 4.7: exit code 2; nothing is written."""
    before = desk.files()
    code, out, err = desk.install(*words, "--client", "cursor")
    assert (code, out, desk.files()) == (2, "", before)
    assert problem in err


@pytest.mark.parametrize("word", ["A", "=b", "A B=c", "A=", "A=b\nC: d", "A=b\rc", "A=ü", "Ä=b", "A:=b"])
def test_a_header_that_cannot_be_sent_is_a_usage_error(desk: Desk, word: str) -> None:
    """RFC 9110 section 5.5; a line end would begin another header."""
    with pytest.raises(SystemExit) as stopped:
        desk.install("--url", URL, "--name", "shop", "--header", word)
    assert stopped.value.code == 2


def test_print_shows_the_command_of_claude(desk: Desk) -> None:
    """It can be copied into a shell."""
    claude = Path(desk.root / "bin" / "claude")
    claude.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    claude.chmod(0o755)
    code, out, _ = desk.install("--url", URL, "--name", "shop", "--header", "A=b c", "--print")
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith("  claude ")]
    words = shlex.split(line)
    assert words[:-1] == ["claude", "mcp", "add-json", "--scope", "local", "shop"]
    assert json.loads(words[-1]) == entry("claude-code", A="b c")
