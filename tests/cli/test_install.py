"""`mcpkit install`: a client gets an entry that starts the server from anywhere; nothing else is touched."""

import json
import os
import shlex
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

import pytest
from desks import PLACES, SERVER, Desk, every_place

from mcpkit.cli.claude import project_directory
from mcpkit.cli.clients import CLIENTS, Machine, Scope


def entry(server: str, typed: bool = False, **env: str) -> dict[str, Any]:
    """The entry for a script, as the client reads it."""
    common: dict[str, Any] = {"command": sys.executable, "args": ["-P", "-m", "mcpkit", "run", server]}
    if typed:
        return {"type": "stdio", **common, "env": env}
    return {**common, "env": env} if env else common


class TestEveryClient:
    """DESIGN 4.7 and CLIENTS.md, "Configuration files"."""

    @every_place
    def test_the_entry_has_absolute_paths(
        self, desk: Desk, client: str, scope: Scope, file: str, keys: tuple[str, ...], typed: bool
    ) -> None:
        """PITFALLS: from any working directory, absolute interpreter and script paths."""
        code, out, err = desk.install("server.py", "--client", client, "--scope", scope)
        assert (code, err) == (0, "")
        assert desk.servers(file, keys) == {"demo": entry(str(desk.server), typed)}
        assert f"Registered demo with {CLIENTS[client].label} ({scope} scope" in out
        assert str(desk.root / file) in out

    @every_place
    def test_twice_is_once(
        self, desk: Desk, client: str, scope: Scope, file: str, keys: tuple[str, ...], typed: bool
    ) -> None:
        """PITFALLS: idempotent."""
        words = ("server.py", "--client", client, "--scope", scope, "--env", "A=b")
        desk.install(*words)
        before = desk.files()
        code, out, _ = desk.install(*words)
        assert (code, desk.files()) == (0, before)
        assert "demo is already registered with" in out
        assert desk.servers(file, keys) == {"demo": entry(str(desk.server), typed, A="b")}

    @every_place
    def test_another_server_and_all_else_stay(
        self, desk: Desk, client: str, scope: Scope, file: str, keys: tuple[str, ...], typed: bool
    ) -> None:
        """PITFALLS: existing entries of other servers untouched. The second server is the foreign one."""
        desk.install("server.py", "--client", client, "--scope", scope, "--name", "first", "--env", "A=1")
        with (desk.root / file).open("a", encoding="utf-8") as stream:
            stream.write("# mine\n" if file.endswith(".toml") else " \n\n")
        before = (desk.root / file).read_bytes()
        desk.install("server.py", "--client", client, "--scope", scope, "--name", "second")
        after = (desk.root / file).read_bytes()
        start = len(os.path.commonprefix([before, after]))  # noqa: RUF071  (of bytes, on purpose)
        assert after.endswith(before[start:])
        assert list(desk.servers(file, keys)) == ["first", "second"]
        assert desk.servers(file, keys)["first"] == entry(str(desk.server), typed, A="1")

    @every_place
    def test_a_moved_script_replaces_its_entry(
        self, desk: Desk, client: str, scope: Scope, file: str, keys: tuple[str, ...], typed: bool
    ) -> None:
        """One entry a name, with nothing left of the former command."""
        desk.install("server.py", "--client", client, "--scope", scope, "--env", "OLD=1")
        desk.server.rename(desk.project / "moved.py")
        desk.install("moved.py", "--client", client, "--scope", scope)
        assert desk.servers(file, keys) == {"demo": entry(str(desk.project / "moved.py"), typed)}

    @every_place
    def test_print_shows_and_writes_nothing(
        self, desk: Desk, client: str, scope: Scope, file: str, keys: tuple[str, ...], typed: bool
    ) -> None:
        """DESIGN 4.7: `--print`. The text after the first line is what the file would hold."""
        before = desk.files()
        code, out, err = desk.install("server.py", "--client", client, "--scope", scope, "--print")
        head, _, text = out.partition("\n")
        assert (code, err, desk.files()) == (0, "", before)
        assert head.endswith(f"{scope} scope, in {desk.root / file}:")
        node: Any = tomllib.loads(text) if file.endswith(".toml") else json.loads(text)
        for key in keys:
            node = node[str(desk.project) if key == "PROJECT" else key]
        assert node == {"demo": entry(str(desk.server), typed)}

    @every_place
    @pytest.mark.parametrize("raw", [b"{", b"\xff\xfe", b"[broken", b'{"mcpServers": 1, "servers": []} // x'])
    def test_a_broken_file_is_reported_and_left_alone(
        self, desk: Desk, client: str, scope: Scope, file: str, keys: tuple[str, ...], typed: bool, raw: bytes
    ) -> None:
        """PITFALLS: a broken config file is reported and left alone; the message has what to add by hand."""
        path = desk.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        before = desk.files()
        code, out, err = desk.install("server.py", "--client", client, "--scope", scope)
        assert (code, out, desk.files()) == (1, "", before)
        assert f"mcpkit install: {path} is not " in err
        assert "Nothing was written." in err
        assert json.dumps(str(desk.server)) in err

    @every_place
    def test_servers_that_are_no_object_are_reported_and_left_alone(
        self, desk: Desk, client: str, scope: Scope, file: str, keys: tuple[str, ...], typed: bool
    ) -> None:
        """An entry cannot be put into a list, and the list is not ours to drop."""
        path = desk.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"{keys[0]} = [1]" if file.endswith(".toml") else f'{{"{keys[0]}": [1]}}', encoding="utf-8"
        )
        before = desk.files()
        code, _, err = desk.install("server.py", "--client", client, "--scope", scope)
        assert (code, desk.files()) == (1, before)
        assert f"{path}: {keys[0]} is not an object" in err

    @pytest.mark.parametrize(
        ("client", "file"),
        [
            ("claude-code", "home/.claude.json"),
            ("claude-desktop", "home/.config/Claude/claude_desktop_config.json"),
            ("cursor", "home/.cursor/mcp.json"),
            ("vscode", "project/.vscode/mcp.json"),
            ("codex", "home/.codex/config.toml"),
            ("gemini", "home/.gemini/settings.json"),
        ],
    )
    def test_each_client_has_its_natural_scope(self, desk: Desk, client: str, file: str) -> None:
        """CLIENTS.md names this file first."""
        before = set(desk.files())
        assert desk.install("server.py", "--client", client)[0] == 0
        assert set(desk.files()) - before == {file}

    @pytest.mark.parametrize(
        ("client", "scope"),
        [
            (client, scope)
            for client, row in CLIENTS.items()
            for scope in ("local", "project", "user")
            if scope not in row.places
        ],
    )
    def test_a_scope_that_the_client_lacks_is_a_usage_error(
        self, desk: Desk, client: str, scope: str
    ) -> None:
        """DESIGN 4.7: exit code 2 is usage. The message names what there is."""
        before = desk.files()
        code, out, err = desk.install("server.py", "--client", client, "--scope", scope)
        assert (code, out, desk.files()) == (2, "", before)
        assert f"has no scope {scope!r}; use --scope {' or '.join(CLIENTS[client].places)}" in err


class TestOptions:
    """DESIGN 4.7: TARGET, --name, --env."""

    @pytest.mark.parametrize(
        ("name", "slug"),
        [
            ("demo", "demo"),
            ("My shop!", "My-shop"),
            ("café.menu", "cafe-menu"),
            ("a__b-c", "a__b-c"),
            ("目録", "server"),
        ],
    )
    def test_the_name_is_the_apps_in_plain_characters(self, desk: Desk, name: str, slug: str) -> None:
        """Claude Code and Codex refuse other names; a name without such characters yields to the file's."""
        desk.server.write_text(SERVER.format(name=name), encoding="utf-8")
        assert desk.install("server.py", "--client", "cursor")[0] == 0
        assert list(desk.servers("home/.cursor/mcp.json", ("mcpServers",))) == [slug]

    @pytest.mark.parametrize("client", ["claude-code", "codex"])
    @pytest.mark.parametrize("name", ["a.b", "My shop", "-x", "é", ""])
    def test_a_name_that_the_client_refuses_is_a_usage_error(
        self, desk: Desk, client: str, name: str
    ) -> None:
        """Both say so themselves, Codex only when it starts: `must match ^[a-zA-Z0-9_-]+$`."""
        before = desk.files()
        code, _, err = desk.install("server.py", "--client", client, f"--name={name}")
        assert (code, desk.files()) == (2, before)
        assert f"refuses the name {name!r}" in err
        assert "Try --name " in err

    @pytest.mark.parametrize("name", ["", "  ", "a\nb"])
    def test_a_name_that_nobody_could_read_is_a_usage_error(self, desk: Desk, name: str) -> None:
        """Even where the client would take it."""
        assert desk.install("server.py", "--client", "gemini", "--name", name)[0] == 2

    def test_a_name_that_the_client_changes_is_warned_about(self, desk: Desk) -> None:
        """CLIENTS.md: other characters become `_` in the names of tools, so two servers can collide."""
        code, _, err = desk.install("server.py", "--client", "cursor", "--name", "my.shop")
        assert code == 0
        assert err.startswith("mcpkit: warning: Cursor turns 'my.shop' into something else")
        assert list(desk.servers("home/.cursor/mcp.json", ("mcpServers",))) == ["my.shop"]

    @pytest.mark.parametrize("client", list(CLIENTS))
    def test_environment_variables_reach_the_entry(self, desk: Desk, client: str) -> None:
        """Values may hold anything, `=` and quotes included; the last one of a name counts."""
        words = ("--env", "KEY=x", "--env", "EMPTY=", "--env", 'KEY=a=b "c" \\d é\n')
        assert desk.install("server.py", "--client", client, *words)[0] == 0
        file, keys = next((file, keys) for name, _, file, keys, _ in PLACES if name == client)
        assert desk.servers(file, keys)["demo"]["env"] == {"KEY": 'a=b "c" \\d é\n', "EMPTY": ""}

    @pytest.mark.parametrize("word", ["KEY", "=x", "1A=x", "A B=x", ""])
    def test_a_malformed_variable_is_a_usage_error(self, desk: Desk, word: str) -> None:
        """Before anything is loaded or written."""
        before = desk.files()
        code, _, err = desk.install("missing.py", "--env", word)
        assert (code, desk.files()) == (2, before)
        assert f"--env {word!r} is not of the form NAME=VALUE" in err

    @pytest.mark.parametrize("place", ["server.py", "./server.py", "sub/../server.py", "with space/süß.py"])
    @pytest.mark.parametrize("suffix", ["", ":app"])
    @pytest.mark.parametrize("client", ["cursor", "codex"])
    def test_scripts_are_named_by_their_absolute_path(
        self, desk: Desk, place: str, suffix: str, client: str
    ) -> None:
        """The app's name after the colon is kept."""
        path = desk.project / place
        for folder in ("sub", "with space"):
            (desk.project / folder).mkdir()
        path.write_text(SERVER.format(name="demo"), encoding="utf-8")
        assert desk.install(place + suffix, "--client", client)[0] == 0
        file, keys = next((file, keys) for name, _, file, keys, _ in PLACES if name == client)
        (target,) = desk.servers(file, keys)["demo"]["args"][4:]
        assert target == os.path.normpath(path) + suffix

    def test_a_path_through_a_link_is_not_shortened_wrongly(self, desk: Desk) -> None:
        """`link/..` is the parent of the link's target (POSIX, pathname resolution)."""
        (desk.root / "elsewhere" / "deep").mkdir(parents=True)
        (desk.root / "elsewhere" / "s.py").write_text(SERVER.format(name="demo"), encoding="utf-8")
        (desk.project / "link").symlink_to(desk.root / "elsewhere" / "deep")
        assert desk.install("link/../s.py", "--client", "cursor")[0] == 0
        target = desk.servers("home/.cursor/mcp.json", ("mcpServers",))["demo"]["args"][4]
        assert os.path.isabs(target)
        assert os.path.samefile(target, desk.root / "elsewhere" / "s.py")

    def test_a_missing_script_is_a_usage_error(self, desk: Desk) -> None:
        """DESIGN 4.7: exit code 2; nothing is registered that cannot start."""
        before = desk.files()
        code, _, err = desk.install("missing.py")
        assert (code, desk.files()) == (2, before)
        assert "missing.py" in err

    def test_a_script_that_fails_is_not_registered(self, desk: Desk) -> None:
        """The command line shows the traceback and exits with 1; so the exception comes through here."""
        desk.server.write_text("1 / 0\n", encoding="utf-8")
        before = desk.files()
        with pytest.raises(ZeroDivisionError):
            desk.install("server.py")
        assert desk.files() == before

    def test_a_path_that_is_no_text_is_a_usage_error(self, desk: Desk) -> None:
        """JSON and TOML are Unicode (RFC 8259 section 8.1); a file name need not be."""
        try:
            desk.server.rename(os.fsdecode(os.fsencode(desk.project) + b"/s\xff.py"))
        except OSError:
            pytest.skip("this file system takes Unicode names only")
        code, _, err = desk.install(os.fsdecode(b"s\xff.py"), "--client", "cursor")
        assert code == 2
        assert "is not valid UTF-8" in err


FAKE_CLAUDE = """\
#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
with open(here / "calls", "a") as calls:
    print(json.dumps(sys.argv[1:]), file=calls)
answers = json.loads((here / "answers").read_text())
code, text = answers.pop(0) if answers else [0, ""]
(here / "answers").write_text(json.dumps(answers))
print(text, file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture
def claude(desk: Desk) -> Callable[..., list[list[str]]]:
    """A `claude` on PATH that writes down its arguments. Called with (exit code, message) it answers so."""
    program = desk.root / "bin" / "claude"
    program.write_text(FAKE_CLAUDE.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    (desk.root / "bin" / "answers").write_text("[]", encoding="utf-8")

    def calls(*answers: tuple[int, str]) -> list[list[str]]:
        if answers:
            (desk.root / "bin" / "answers").write_text(json.dumps(answers), encoding="utf-8")
        log = desk.root / "bin" / "calls"
        return [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []

    return calls


class TestClaudeCommand:
    """Local and user scope go through the `claude` command when it is present: it owns that file."""

    @pytest.mark.parametrize("scope", ["local", "user"])
    def test_claude_is_asked_to_add(
        self, desk: Desk, claude: Callable[..., list[list[str]]], scope: str
    ) -> None:
        """The command goes behind `--`, or its own options would be read as Claude's."""
        code, out, _ = desk.install("server.py", "--scope", scope, "--env", "A=b c", "--env", "D=")
        command = ["--", sys.executable, "-P", "-m", "mcpkit", "run", str(desk.server)]
        assert code == 0
        assert claude() == [["mcp", "add", "--scope", scope, "demo", "-e", "A=b c", "-e", "D=", *command]]
        assert "claude mcp list" in out
        assert not (desk.root / "home" / ".claude.json").exists()

    def test_the_project_file_is_written_without_it(
        self, desk: Desk, claude: Callable[..., list[list[str]]]
    ) -> None:
        """`.mcp.json` is a plain file of the project."""
        assert desk.install("server.py", "--scope", "project")[0] == 0
        assert claude() == []
        assert (desk.project / ".mcp.json").exists()

    def test_print_shows_the_command_and_does_not_run_it(
        self, desk: Desk, claude: Callable[..., list[list[str]]]
    ) -> None:
        """It can be copied into a shell."""
        _, out, _ = desk.install("server.py", "--env", "A=b c", "--print")
        assert claude() == []
        (line,) = [line for line in out.splitlines() if line.startswith("  claude ")]
        words = ["claude", "mcp", "add", "--scope", "local", "demo", "-e", "A=b c", "--"]
        assert shlex.split(line) == [*words, sys.executable, "-P", "-m", "mcpkit", "run", str(desk.server)]

    def present(self, desk: Desk, value: dict[str, Any]) -> None:
        (desk.root / "home" / ".claude.json").write_text(
            json.dumps({"mcpServers": {"demo": value}}), encoding="utf-8"
        )

    def test_the_same_entry_is_not_added_again(
        self, desk: Desk, claude: Callable[..., list[list[str]]]
    ) -> None:
        """`claude mcp add` fails for a name that is there."""
        self.present(desk, entry(str(desk.server), typed=True))
        code, out, _ = desk.install("server.py", "--scope", "user")
        assert (code, claude()) == (0, [])
        assert "already registered" in out

    def test_another_entry_is_removed_first(self, desk: Desk, claude: Callable[..., list[list[str]]]) -> None:
        """The same, for a moved script."""
        self.present(desk, entry("/old/server.py", typed=True))
        assert desk.install("server.py", "--scope", "user")[0] == 0
        removal, addition = claude()
        assert removal == ["mcp", "remove", "--scope", "user", "demo"]
        assert addition[:5] == ["mcp", "add", "--scope", "user", "demo"]

    def test_settings_of_the_user_go_along(self, desk: Desk, claude: Callable[..., list[list[str]]]) -> None:
        """`mcp add` has no option for a time-out, `mcp add-json` takes it."""
        self.present(desk, {**entry("/old/server.py", typed=True), "timeout": 9})
        assert desk.install("server.py", "--scope", "user")[0] == 0
        *words, text = claude()[1]
        assert words == ["mcp", "add-json", "--scope", "user", "demo"]
        assert json.loads(text) == {**entry(str(desk.server), typed=True), "timeout": 9}

    def test_a_name_found_elsewhere_by_claude_is_replaced(
        self, desk: Desk, claude: Callable[..., list[list[str]]]
    ) -> None:
        """Another version may keep it where we do not look; a second registration succeeds all the same."""
        claude((1, "MCP server demo already exists in local config"))
        assert desk.install("server.py")[0] == 0
        assert [words[1] for words in claude()] == ["add", "remove", "add"]

    def test_its_refusal_is_reported_in_its_own_words(
        self, desk: Desk, claude: Callable[..., list[list[str]]]
    ) -> None:
        """A reserved name, or a policy of the company."""
        claude((1, 'Cannot add MCP server "demo": this name is reserved.'))
        code, out, err = desk.install("server.py")
        assert (code, out) == (1, "")
        assert "`claude mcp add` failed with exit code 1: Cannot add MCP server" in err
        assert len(claude()) == 1

    def test_a_refused_replacement_puts_the_earlier_entry_back(
        self, desk: Desk, claude: Callable[..., list[list[str]]]
    ) -> None:
        """Removing and adding are two steps; the user must not end up with none."""
        old = entry("/old/server.py", typed=True)
        self.present(desk, old)
        claude((0, ""), (1, "not today"), (0, ""))
        code, _, err = desk.install("server.py", "--scope", "user")
        assert (code, "not today" in err, "could not be put back" in err) == (1, True, False)
        *words, text = claude()[2]
        assert words == ["mcp", "add-json", "--scope", "user", "demo"]
        assert json.loads(text) == old

    def test_an_entry_that_cannot_be_put_back_is_shown(
        self, desk: Desk, claude: Callable[..., list[list[str]]]
    ) -> None:
        """Then the person at least sees what it was."""
        self.present(desk, entry("/old/server.py", typed=True))
        claude((0, ""), (1, "not today"), (1, "no"))
        err = desk.install("server.py", "--scope", "user")[2]
        assert "could not be put back" in err
        assert "/old/server.py" in err

    @pytest.mark.parametrize("raw", [b"{", b'{"mcpServers": []}'])
    def test_claude_is_not_run_on_a_broken_file(
        self, desk: Desk, claude: Callable[..., list[list[str]]], raw: bytes
    ) -> None:
        """It would put an empty file in its place."""
        (desk.root / "home" / ".claude.json").write_bytes(raw)
        assert desk.install("server.py", "--scope", "user")[0] == 1
        assert claude() == []
        assert (desk.root / "home" / ".claude.json").read_bytes() == raw

    def test_a_claude_that_cannot_be_started_is_reported(self, desk: Desk) -> None:
        """Not a traceback."""
        program = desk.root / "bin" / "claude"
        program.write_text("#!/nonexistent/interpreter\n", encoding="utf-8")
        program.chmod(0o755)
        code, _, err = desk.install("server.py")
        assert code == 1
        assert "`claude mcp add`" in err
        assert "cannot be started" in err


class TestProjectDirectory:
    """Claude Code 2.1.197 files the local scope under the root of the repository (as observed)."""

    def test_without_a_repository_it_is_the_directory_itself(self, tmp_path: Path) -> None:
        """As CLIENTS.md says: `projects["/abs/dir"]`."""
        (tmp_path / "a").mkdir()
        assert project_directory(tmp_path / "a") == tmp_path.resolve() / "a"

    def test_in_a_repository_it_is_the_root(self, tmp_path: Path) -> None:
        """From a sub-directory too, and through a symbolic link."""
        (tmp_path / "repo" / ".git").mkdir(parents=True)
        (tmp_path / "repo" / "a" / "b").mkdir(parents=True)
        (tmp_path / "link").symlink_to(tmp_path / "repo" / "a")
        assert project_directory(tmp_path / "repo" / "a" / "b") == tmp_path.resolve() / "repo"
        assert project_directory(tmp_path / "link") == tmp_path.resolve() / "repo"

    @pytest.mark.parametrize(("common", "expected"), [("repo/.git", "repo"), ("bare.git", "bare.git")])
    def test_a_worktree_belongs_to_its_repository(self, tmp_path: Path, common: str, expected: str) -> None:
        """git-worktree(1), "Details": `.git` is a file, `commondir` names the repository."""
        git = tmp_path / common / "worktrees" / "wt"
        git.mkdir(parents=True)
        (git / "commondir").write_text("../..\n", encoding="utf-8")
        (tmp_path / "wt" / "a").mkdir(parents=True)
        (tmp_path / "wt" / ".git").write_text(f"gitdir: {git}\n", encoding="utf-8")
        assert project_directory(tmp_path / "wt" / "a") == tmp_path.resolve() / expected

    @pytest.mark.parametrize("text", ["gitdir: ../.git/modules/sub\n", "gitdir: /nowhere\n", "", "\x00"])
    def test_a_submodule_is_a_project_of_its_own(self, tmp_path: Path, text: str) -> None:
        """Its git directory has no `commondir`; what cannot be followed counts the same."""
        (tmp_path / ".git" / "modules" / "sub").mkdir(parents=True)
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub" / ".git").write_text(text, encoding="utf-8")
        assert project_directory(tmp_path / "sub") == tmp_path.resolve() / "sub"


LINUX = Machine("linux", PurePosixPath("/home/ada"), PurePosixPath("/src/shop"), {})
MAC = Machine("darwin", PurePosixPath("/Users/ada"), PurePosixPath("/src/shop"), {"XDG_CONFIG_HOME": "/no"})
WINDOWS = Machine(
    "win32", PureWindowsPath("C:/Users/ada"), PureWindowsPath("D:/shop"), {"APPDATA": "C:\\Users\\ada\\Roam"}
)


@pytest.mark.parametrize(
    ("machine", "client", "scope", "path"),
    [
        (LINUX, "claude-desktop", "user", "/home/ada/.config/Claude/claude_desktop_config.json"),
        (
            MAC,
            "claude-desktop",
            "user",
            "/Users/ada/Library/Application Support/Claude/claude_desktop_config.json",
        ),
        (WINDOWS, "claude-desktop", "user", "C:/Users/ada/Roam/Claude/claude_desktop_config.json"),
        (LINUX, "vscode", "user", "/home/ada/.config/Code/User/mcp.json"),
        (MAC, "vscode", "user", "/Users/ada/Library/Application Support/Code/User/mcp.json"),
        (WINDOWS, "vscode", "user", "C:/Users/ada/Roam/Code/User/mcp.json"),
        (WINDOWS, "vscode", "project", "D:/shop/.vscode/mcp.json"),
        (WINDOWS, "claude-code", "local", "C:/Users/ada/.claude.json"),
        (MAC, "claude-code", "project", "/src/shop/.mcp.json"),
        (WINDOWS, "cursor", "user", "C:/Users/ada/.cursor/mcp.json"),
        (WINDOWS, "codex", "user", "C:/Users/ada/.codex/config.toml"),
        (MAC, "gemini", "user", "/Users/ada/.gemini/settings.json"),
    ],
)
def test_files_on_each_platform(machine: Machine, client: str, scope: Scope, path: str) -> None:
    """CLIENTS.md, "Configuration files"."""
    assert CLIENTS[client].places[scope].file(machine) == type(machine.home)(path)


@pytest.mark.parametrize(
    ("variable", "client", "scope", "path"),
    [
        ("CLAUDE_CONFIG_DIR", "claude-code", "user", "/d/.claude.json"),
        ("CLAUDE_CONFIG_DIR", "claude-code", "local", "/d/.claude.json"),
        ("CODEX_HOME", "codex", "user", "/d/config.toml"),
        ("GEMINI_CLI_HOME", "gemini", "user", "/d/.gemini/settings.json"),
        ("XDG_CONFIG_HOME", "vscode", "user", "/d/Code/User/mcp.json"),
        ("XDG_CONFIG_HOME", "claude-desktop", "user", "/d/Claude/claude_desktop_config.json"),
    ],
)
def test_variables_that_move_a_file(variable: str, client: str, scope: Scope, path: str) -> None:
    """The clients honour them, and take an empty value for none."""
    file = CLIENTS[client].places[scope].file
    moved = Machine("linux", LINUX.home, LINUX.cwd, {variable: "/d"})
    empty = Machine("linux", LINUX.home, LINUX.cwd, {variable: ""})
    assert file(moved) == PurePath(path)
    assert file(empty) == file(LINUX)


def test_an_old_file_of_claude_code_stays_in_use(desk: Desk) -> None:
    """Claude Code 2.1.197 goes on with `.config.json` in its configuration directory where that exists."""
    old = desk.root / "home" / ".claude" / ".config.json"
    old.parent.mkdir()
    old.write_text("{}", encoding="utf-8")
    assert desk.install("server.py", "--scope", "user")[0] == 0
    assert list(desk.servers("home/.claude/.config.json", ("mcpServers",))) == ["demo"]
    assert not (desk.root / "home" / ".claude.json").exists()


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


class TestRegisteredCommand:
    """CLIENTS.md: a registered command is started from another directory with a bare PATH."""

    def register(self, desk: Desk, python: str, target: str, **environ: str) -> dict[str, Any]:
        """The entry that `python -m mcpkit install` writes, run in the project's directory."""
        subprocess.run(
            [python, "-m", "mcpkit", "install", target, "--client", "cursor", "--name", "demo"],
            cwd=desk.project,
            env={"HOME": str(desk.root / "home"), "PATH": os.defpath, **environ},
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )
        return desk.servers("home/.cursor/mcp.json", ("mcpServers",))["demo"]

    def start(self, desk: Desk, entry: dict[str, Any]) -> str:
        """The name that the server gives when a client starts it elsewhere with the least environment."""
        outcome = subprocess.run(
            [entry["command"], *entry["args"]],
            cwd=desk.root / "home",
            env={"PATH": "/usr/bin:/bin", **entry.get("env", {})},
            input=json.dumps(INITIALIZE).encode() + b"\n",
            capture_output=True,
            timeout=60,
        )
        assert outcome.returncode == 0, outcome.stderr.decode()
        return json.loads(outcome.stdout.splitlines()[0])["result"]["serverInfo"]["name"]

    def test_a_script_starts(self, desk: Desk) -> None:
        """With spaces and other letters in its path, and a module beside it that it imports."""
        folder = desk.project / "my süß folder"
        folder.mkdir()
        (folder / "helper.py").write_text("NAME = 'helped'\n", encoding="utf-8")
        (folder / "s.py").write_text(
            "from helper import NAME\nfrom mcpkit import App\n\napp = App(NAME)\n", "utf-8"
        )
        entry = self.register(desk, sys.executable, "my süß folder/s.py:app")
        assert entry == {
            "command": sys.executable,
            "args": ["-P", "-m", "mcpkit", "run", f"{folder}/s.py:app"],
        }
        assert self.start(desk, entry) == "helped"

    @pytest.mark.parametrize("target", ["shop.server:app", "shop.server", "single:app"])
    def test_a_module_of_the_current_directory_starts(self, desk: Desk, target: str) -> None:
        """The entry says where it is to be found; relative imports inside a package go on working."""
        (desk.project / "shop").mkdir()
        (desk.project / "shop" / "__init__.py").write_text("", encoding="utf-8")
        (desk.project / "shop" / "names.py").write_text("NAME = 'demo'\n", encoding="utf-8")
        text = "from mcpkit import App\n\nfrom .names import NAME\n\napp = App(NAME)\n"
        (desk.project / "shop" / "server.py").write_text(text, encoding="utf-8")
        (desk.project / "single.py").write_text(SERVER.format(name="demo"), encoding="utf-8")
        entry = self.register(desk, sys.executable, target)
        assert entry["args"] == ["-P", "-m", "mcpkit", "run", target]
        assert entry["env"] == {"PYTHONPATH": str(desk.project)}
        assert self.start(desk, entry) == "demo"

    def test_a_terminal_that_cannot_show_the_path_does_not_hinder(self, desk: Desk) -> None:
        """A Windows console in code page 1252 and a path in Greek, for example."""
        (desk.project / "süß.py").write_text(SERVER.format(name="demo"), encoding="utf-8")
        assert self.register(desk, sys.executable, "süß.py", PYTHONIOENCODING="ascii")["args"][4].endswith(
            "süß.py"
        )

    def test_a_module_found_through_python_path_starts(self, desk: Desk) -> None:
        """The client does not have that variable."""
        lib = desk.root / "lib"
        lib.mkdir()
        (lib / "single.py").write_text(SERVER.format(name="demo"), encoding="utf-8")
        entry = self.register(desk, sys.executable, "single:app", PYTHONPATH=str(lib))
        assert entry["env"] == {"PYTHONPATH": str(lib)}
        assert self.start(desk, entry) == "demo"

    def test_a_virtual_environment_stays_one(self, desk: Desk) -> None:
        """PITFALLS: from a virtual environment. Only the link that its interpreter is finds its packages."""
        environment = desk.root / "venv with space"
        venv.create(environment, symlinks=True)
        (packages,) = environment.glob("lib/python*/site-packages")
        roots = {
            str(Path(module.__file__).parents[1]) for module in map(__import__, ("mcpkit", "msgspec", "trio"))
        }
        (packages / "linked.pth").write_text("\n".join(sorted(roots)) + "\n", encoding="utf-8")
        (packages / "installed.py").write_text(SERVER.format(name="installed"), encoding="utf-8")
        python = environment / "bin" / "python"
        assert python.is_symlink()
        entry = self.register(desk, str(python), "installed:app")
        assert entry == {"command": str(python), "args": ["-P", "-m", "mcpkit", "run", "installed:app"]}
        assert self.start(desk, entry) == "installed"
