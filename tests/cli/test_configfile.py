"""Clients' configuration files: one entry is set, the rest stays as it was, doubtful files are left alone."""

import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.cli import configfile, jsonedit, tomledit
from mcpkit.cli.configfile import Config, ConfigError, Format

KEYS = ("mcpServers", "demo")
TABLE = ("mcp_servers", "demo")
ENTRY: dict[str, Any] = {
    "command": "/usr/bin/python3",
    "args": ["-P", "-m", "mcpkit", "run", "/srv/a b/é.py"],
}


def edited(kind: Format, raw: bytes, keys: tuple[str, ...], entry: dict[str, Any]) -> bytes:
    """What a file of these bytes becomes, by way of the parser that `load` uses."""
    text = raw.removeprefix(b"\xef\xbb\xbf").decode()
    data = {"json": jsonedit.parse, "toml": tomledit.parse}[kind](text)
    return Config(Path("config"), kind, raw, data).put(keys, entry)


def edited_json(text: str, entry: dict[str, Any] = ENTRY, keys: tuple[str, ...] = KEYS) -> str:
    return edited("json", text.encode(), keys, entry).decode()


def edited_toml(text: str, entry: dict[str, Any] = ENTRY, keys: tuple[str, ...] = TABLE) -> str:
    return edited("toml", text.encode(), keys, entry).decode()


class TestJson:
    """PITFALLS, "Registering with clients": existing entries of other servers untouched."""

    @pytest.mark.parametrize(
        "text", ["", " \n", "{}", "{ }\n", '{"mcpServers": {}}', '{\n  "mcpServers": {\n  }\n}']
    )
    def test_an_empty_file_gets_the_entry(self, text: str) -> None:
        """A new client has no file, an empty one, or one without servers."""
        assert json.loads(edited_json(text)) == {"mcpServers": {"demo": ENTRY}}

    def test_a_new_file_is_indented_by_two_and_ends_its_last_line(self) -> None:
        """The shape that clients write themselves."""
        assert edited_json("", {"command": "/bin/x", "args": ["a"]}) == (
            '{\n  "mcpServers": {\n    "demo": {\n      "command": "/bin/x",\n'
            '      "args": [\n        "a"\n      ]\n'
            "    }\n  }\n}\n"
        )

    def test_all_other_bytes_stay(self) -> None:
        """Numbers, escapes, repeated keys, odd spacing and lone surrogates are not ours to normalise."""
        head = (
            '{ "big": 12345678901234567890123, "exp" : 1.50E+2,\n  "half": "\\ud83d",\n'
            '"slash": "a\\/b", "k": 1,\n'
            '    "k": 2, "mcpServers" : {\n    "other": { "command":"x","args":[ "1" ,"2" ] }'
        )
        tail = '\n  },\n  "last": null}\n\n'
        after = edited_json(head + tail, {"command": "y"})
        assert after == head + ',\n    "demo": {\n      "command": "y"\n    }' + tail

    def test_key_order_is_kept_and_the_entry_comes_last(self) -> None:
        """A file under version control shows one added block."""
        after = json.loads(edited_json('{"z": 1, "mcpServers": {"y": {}, "b": {}}, "a": 2}'))
        assert list(after) == ["z", "mcpServers", "a"]
        assert list(after["mcpServers"]) == ["y", "b", "demo"]

    def test_an_existing_entry_is_replaced_in_place(self) -> None:
        """A moved script is registered again under its name."""
        before = '{"mcpServers": {"demo": {"command": "old", "env": {"A": "1"}}, "z": {"command": "z"}}}'
        after = json.loads(edited_json(before))
        assert list(after["mcpServers"]) == ["demo", "z"]
        assert after["mcpServers"] == {"demo": ENTRY, "z": {"command": "z"}}

    def test_settings_that_the_user_added_to_the_entry_stay(self) -> None:
        """A time-out or an approval given once survives a second registration."""
        before = '{"mcpServers": {"demo": {"command": "old", "timeout": 60, "env": {"A": "1"}}}}'
        assert json.loads(edited_json(before))["mcpServers"]["demo"] == {**ENTRY, "timeout": 60}

    def test_settings_of_a_remote_server_go_with_it(self) -> None:
        """Headers mean nothing to a command."""
        before = '{"mcpServers": {"demo": {"url": "https://example.com/mcp", "headers": {"A": "b"}}}}'
        assert json.loads(edited_json(before))["mcpServers"]["demo"] == ENTRY

    @pytest.mark.parametrize(
        "raw", [b"", b'{"a": 1}', b'\xef\xbb\xbf{\r\n\t"a": 1\r\n}\r\n', b'{"mcpServers":{"z":{}}}']
    )
    def test_a_second_edit_changes_nothing(self, raw: bytes) -> None:
        """PITFALLS: twice is idempotent."""
        once = edited("json", raw, KEYS, ENTRY)
        assert edited("json", once, KEYS, ENTRY) == once

    def test_byte_order_mark_line_ends_and_tabs_are_kept(self) -> None:
        """Editors on Windows write all three."""
        after = edited("json", b'\xef\xbb\xbf{\r\n\t"a": 1\r\n}\r\n', ("a2", "b"), {"command": "x"})
        assert after == (
            b'\xef\xbb\xbf{\r\n\t"a": 1,\r\n\t"a2": {\r\n'
            b'\t\t"b": {\r\n\t\t\t"command": "x"\r\n\t\t}\r\n\t}\r\n}\r\n'
        )

    def test_keys_that_need_escapes(self) -> None:
        """Claude Code's project keys are paths: of any characters, and backslashes in old files."""
        keys = ("projects", 'C:\\x "ü"', "mcpServers", "demo")
        once = edited_json("{}", keys=keys)
        assert json.loads(once) == {"projects": {'C:\\x "ü"': {"mcpServers": {"demo": ENTRY}}}}
        assert json.loads(edited_json(once, {"command": "n"}, keys))["projects"]['C:\\x "ü"'][
            "mcpServers"
        ] == {"demo": {"command": "n"}}

    @pytest.mark.parametrize("value", ["[]", "null", '"x"', "7", "false"])
    def test_servers_that_are_no_object_are_refused(self, value: str) -> None:
        """Putting an entry there would lose what is there now."""
        with pytest.raises(ConfigError, match=r"config: mcpServers is not an object"):
            edited_json(f'{{"mcpServers": {value}}}')

    @given(
        st.dictionaries(
            st.text(),
            st.recursive(
                st.none()
                | st.booleans()
                | st.integers()
                | st.floats(allow_nan=False, allow_infinity=False)
                | st.text(),
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
                max_leaves=8,
            ),
            max_size=4,
        ),
        st.sampled_from([None, 0, 2, "\t"]),
        st.booleans(),
    )
    def test_any_object_keeps_its_members(self, data: dict[str, Any], indent: Any, ascii_only: bool) -> None:
        """Whatever a client or a user put into the file is there afterwards."""
        data.pop("mcpServers", None)
        text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
        assert json.loads(edited_json(text)) == {**data, "mcpServers": {"demo": ENTRY}}


CODEX = '''\
# my settings
model = "gpt-5"   # the big one

[mcp_servers.other]  # not ours
command = "npx"
args = [ "-y",
  "thing]", # with a comment ]
]
startup_timeout_sec = 20.0

[mcp_servers.other.env]
"A.B" = """
[mcp_servers.demo]
command = "a trap inside a string"
"""

[profiles.x]
k = 'v'
'''


class TestToml:
    """CLIENTS.md, Codex: a duplicate table breaks all of it; keep comments, edit in place."""

    def test_an_entry_is_added_at_the_end(self) -> None:
        """Everything before it is the file as it was."""
        after = edited_toml(CODEX)
        assert after.startswith(CODEX + "\n[mcp_servers.demo]\n")
        assert tomllib.loads(after)["mcp_servers"]["demo"] == ENTRY

    @pytest.mark.parametrize("text", ["", "\n", "# only a comment", "a = 1", "a = 1\n\n\n", "a = 1\r\n"])
    def test_any_end_of_file_will_do(self, text: str) -> None:
        """A last line without its line end is not joined with the new header."""
        after = edited_toml(text)
        assert after.startswith(text)
        assert tomllib.loads(after) == {**tomllib.loads(text), "mcp_servers": {"demo": ENTRY}}

    @pytest.mark.parametrize("text", ["", CODEX, "[mcp_servers.demo]\ncommand = 'x'\n"])
    def test_a_second_edit_changes_nothing(self, text: str) -> None:
        """PITFALLS: twice is idempotent."""
        once = edited_toml(text)
        assert edited_toml(once) == once

    def test_an_existing_table_is_replaced_with_its_environment(self) -> None:
        """No second table, no left-over variables; comments and neighbours stay."""
        before = (
            "# head\n[mcp_servers.demo] # mine\ncommand = 'old' # gone\nargs = [\n  'x', # gone\n]\n# kept\n"
            "\n"
            "[mcp_servers.demo.env]\nA = '1'\n\n# about z\n[mcp_servers.z]\ncommand = 'z'\n"
        )
        after = edited_toml(before)
        assert tomllib.loads(after)["mcp_servers"] == {"demo": ENTRY, "z": {"command": "z"}}
        assert after.startswith("# head\n[mcp_servers.demo] # mine\ncommand = ")
        assert after.endswith("\n# kept\n\n\n# about z\n[mcp_servers.z]\ncommand = 'z'\n")
        assert "gone" not in after

    def test_settings_that_the_user_added_to_the_table_stay(self) -> None:
        """Time-outs and approvals of tools survive, in their place and with their comments."""
        before = (
            "[mcp_servers.demo]\ncommand = 'old'\nstartup_timeout_sec = 30 # slow\nenv = {A = '1'}\n"
            "[mcp_servers.demo.tools.search]\napproval_mode = 'prompt'\n"
        )
        after = edited_toml(before)
        assert tomllib.loads(after)["mcp_servers"]["demo"] == {
            **ENTRY,
            "startup_timeout_sec": 30,
            "tools": {"search": {"approval_mode": "prompt"}},
        }
        assert "startup_timeout_sec = 30 # slow\n" in after

    def test_settings_of_a_remote_server_go_with_it(self) -> None:
        """Codex refuses all of a file in which a command has a bearer token."""
        before = (
            "[mcp_servers.demo]\nurl = 'u'\nbearer_token_env_var = 'T'\n[mcp_servers.demo.oauth]\nid = 'x'\n"
        )
        assert tomllib.loads(edited_toml(before)) == {"mcp_servers": {"demo": ENTRY}}

    @pytest.mark.parametrize(
        "before",
        [
            "[mcp_servers]\nz = { command = 'z' }\ndemo = { command = 'old', args = [] }\n[t]\na = 1\n",
            "mcp_servers.demo = { command = 'old' }\nmcp_servers.z.command = 'z'\n[t]\na = 1\n",
            "[t]\na = 1\n[mcp_servers]\ndemo.command = 'old'\ndemo.env.A = '1'\nz.command = 'z'\n",
            "[t]\na = 1\n[mcp_servers.demo.env]\nA = '1'\n[mcp_servers.z]\ncommand = 'z'\n",
            "[t]\na = 1\n[ \"mcp_servers\" . 'demo' ]\ncommand = 'old'\n[mcp_servers.z]\ncommand = 'z'\n",
            "[mcp_servers.z]\ncommand = 'z'\n[t]\na = 1\n[mcp_servers.demo]\n\"command\" = '='\n\"args\"=[]",
        ],
    )
    def test_every_way_to_write_an_entry_is_found(self, before: str) -> None:
        """TOML 1.0 has inline tables, dotted keys, quoted keys, and sub-tables without a parent."""
        after = edited_toml(before)
        assert tomllib.loads(after) == {"t": {"a": 1}, "mcp_servers": {"z": {"command": "z"}, "demo": ENTRY}}

    @pytest.mark.parametrize(
        "before",
        [
            "mcp_servers = { z = { command = 'z' } }\n",
            "mcp_servers = {}\n[t]\na = 1\n",
            "[[mcp_servers.demo]]\ncommand = 'x'\n",
            "[mcp_servers]\ndemo.command = 'old'\ndemo.startup_timeout_sec = 3\n",
        ],
    )
    def test_a_form_that_cannot_be_extended_is_refused(self, before: str) -> None:
        """An inline table is closed (TOML 1.0, "Inline Table"); rewriting it is not ours to do."""
        with pytest.raises(
            ConfigError, match="config: mcp_servers is written in a form that cannot be extended in place"
        ):
            edited_toml(before)

    @pytest.mark.parametrize("value", ["[]", "'x'", "7"])
    def test_servers_that_are_no_table_are_refused(self, value: str) -> None:
        """Such a file is broken for Codex as well."""
        with pytest.raises(ConfigError, match="mcp_servers is not an object"):
            edited_toml(f"mcp_servers = {value}\n")

    def test_names_that_need_quotes(self) -> None:
        """A dot in a bare key would make a sub-table (TOML 1.0, "Keys")."""
        keys = ("mcp_servers", 'a.b "ü"')
        once = edited_toml("", keys=keys)
        assert tomllib.loads(once) == {"mcp_servers": {'a.b "ü"': ENTRY}}
        assert tomllib.loads(edited_toml(once, {"command": "n"}, keys)) == {
            "mcp_servers": {'a.b "ü"': {"command": "n"}}
        }

    def test_line_ends_and_byte_order_mark_are_kept(self) -> None:
        """Editors on Windows write both."""
        after = edited("toml", b"\xef\xbb\xbfa = 1\r\n", TABLE, {"command": "x"})
        assert after == b'\xef\xbb\xbfa = 1\r\n\r\n[mcp_servers.demo]\r\ncommand = "x"\r\n'

    def test_dates_floats_and_nan_do_not_hinder(self) -> None:
        """`nan` differs from itself; the comparison after the edit must not stumble on it."""
        before = "a = nan\nb = -inf\nc = 1979-05-27T07:32:00Z\nd = 1e3\n"
        assert edited_toml(before).startswith(before)

    @given(
        st.text(st.characters(exclude_categories=["Cs"])),
        st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
    )
    def test_any_text_survives_in_values_and_keys(self, word: str, words: list[str]) -> None:
        """Backslashes, quotes, control characters and DEL are escaped (TOML 1.0, "String")."""
        entry = {"command": word, "args": words, "env": {word: word}}
        after = edited_toml(CODEX, entry, ("mcp_servers", word + "x"))
        assert tomllib.loads(after)["mcp_servers"][word + "x"] == entry
        assert edited_toml(after, {"command": "n"}, ("mcp_servers", word + "x")).startswith(CODEX)

    @pytest.mark.parametrize(
        "value",
        [
            '"""a"""',
            '"""a\\""""""',
            '""""a"""""',
            "'''it's'''''",
            '"a # b"',
            "'#'",
            '["[", "]"]',
            '["""a"""", "]",\n"#"]',
        ],
    )
    def test_strings_do_not_confuse_the_scanner(self, value: str) -> None:
        """Quotes inside multi-line strings, brackets and number signs inside strings."""
        before = f"a = {value}\n[mcp_servers.demo]\ncommand = {value}\nargs = {value}\n[z]\n"
        after = edited_toml(before)
        assert after.startswith(f"a = {value}\n[mcp_servers.demo]\n")
        assert after.endswith("\n[z]\n")
        assert tomllib.loads(after)["mcp_servers"]["demo"] == ENTRY


class TestFile:
    """PITFALLS: a broken config file is reported and left alone; writes are whole or not at all."""

    def test_a_missing_file_is_made_with_its_directories(self, tmp_path: Path) -> None:
        """A client that was never started has neither."""
        path = tmp_path / "a" / "b c" / "mcp.json"
        config = configfile.load(path, "json")
        config.save(b"{}\n", private=False)
        assert path.read_bytes() == b"{}\n"
        assert os.listdir(path.parent) == ["mcp.json"]

    @pytest.mark.parametrize(
        ("kind", "raw", "reason"),
        [
            ("json", b"{", r"is not plain JSON: .*line 1 column 2"),
            (
                "json",
                b'{\n  // a comment\n  "a": 1\n}',
                r"line 2 column 3.*comments and trailing commas are not read",
            ),
            ("json", b'{"a": 1,}', "is not plain JSON"),
            ("json", b"[1]", "its root is not an object"),
            ("json", b'{"a": NaN}', "NaN is not JSON"),
            ("json", b"[" * 200_000, "is not plain JSON"),
            ("json", '{"a": "é"}'.encode("latin-1"), "is not UTF-8"),
            ("json", '{"a": 1}'.encode("utf-16"), "is not UTF-8"),
            ("toml", b"[a]\n[a]\n", r"is not plain TOML: .*line 2"),
            ("toml", b"a = ", "is not plain TOML"),
            ("toml", b"a = '\xff'", "is not UTF-8"),
        ],
    )
    def test_a_broken_file_is_refused_with_its_reason(
        self, tmp_path: Path, kind: Format, raw: bytes, reason: str
    ) -> None:
        """The message names the file and the place of the mistake."""
        path = tmp_path / "config"
        path.write_bytes(raw)
        with pytest.raises(ConfigError, match=reason) as caught:
            configfile.load(path, kind)
        assert str(path) in str(caught.value)
        assert path.read_bytes() == raw

    def test_a_directory_in_place_of_the_file_is_refused(self, tmp_path: Path) -> None:
        """Not a traceback."""
        with pytest.raises(ConfigError, match=r"cannot read .*: Is a directory"):
            configfile.load(tmp_path, "json")

    def test_a_symbolic_link_stays_one(self, tmp_path: Path) -> None:
        """Users keep these files in a repository of dot-files and link to them."""
        target = tmp_path / "dotfiles" / "claude.json"
        target.parent.mkdir()
        target.write_bytes(b"{}")
        link = tmp_path / "claude.json"
        link.symlink_to(Path("dotfiles") / "claude.json")
        configfile.load(link, "json").save(b'{"a": 1}', private=True)
        assert link.is_symlink()
        assert target.read_bytes() == b'{"a": 1}'

    def test_a_dangling_link_gets_its_target(self, tmp_path: Path) -> None:
        """The link says where the user wants the file."""
        link = tmp_path / "mcp.json"
        link.symlink_to(tmp_path / "new" / "mcp.json")
        configfile.load(link, "json").save(b"{}", private=False)
        assert link.is_symlink()
        assert (tmp_path / "new" / "mcp.json").read_bytes() == b"{}"

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
    def test_the_mode_is_kept(self, tmp_path: Path, mode: int) -> None:
        """A file with tokens in it does not become readable to others."""
        path = tmp_path / "c.json"
        path.write_bytes(b"{}")
        path.chmod(mode)
        configfile.load(path, "json").save(b"{ }", private=False)
        assert stat.S_IMODE(path.stat().st_mode) == mode

    def test_a_new_private_file_is_for_its_owner_alone(self, tmp_path: Path) -> None:
        """`--env` may hold secrets."""
        configfile.load(tmp_path / "c.json", "json").save(b"{}", private=True)
        assert stat.S_IMODE((tmp_path / "c.json").stat().st_mode) == 0o600

    @pytest.mark.parametrize("before", [b'{"a": 1}', None])
    def test_a_file_changed_meanwhile_is_not_overwritten(self, tmp_path: Path, before: bytes | None) -> None:
        """A running client writes its own state into the same file."""
        path = tmp_path / "c.json"
        if before is not None:
            path.write_bytes(before)
        config = configfile.load(path, "json")
        path.write_bytes(b'{"a": 2}')
        with pytest.raises(ConfigError, match="changed by another program"):
            config.save(b"{}", private=False)
        assert path.read_bytes() == b'{"a": 2}'
        assert os.listdir(tmp_path) == ["c.json"]

    def test_a_place_that_cannot_be_written_is_reported(self, tmp_path: Path) -> None:
        """Here the parent is a file; the same holds for a directory without write permission."""
        (tmp_path / "f").write_bytes(b"")
        path = tmp_path / "f" / "c.json"
        with pytest.raises(ConfigError, match=r"cannot (read|write) .*c\.json: "):
            configfile.load(path, "json").save(b"{}", private=False)

    def test_the_snippet_is_the_text_of_an_otherwise_empty_file(self) -> None:
        """What is shown can be pasted."""
        assert json.loads(configfile.snippet("json", KEYS, ENTRY)) == {"mcpServers": {"demo": ENTRY}}
        assert configfile.snippet("toml", TABLE, {"command": "x", "args": []}) == (
            '[mcp_servers.demo]\ncommand = "x"\nargs = []\n'
        )
