"""`app.watch`: what happens to real files is told to a client, whichever way they are watched.

Required by the public docstring of `App.watch`, and SUB-10, RES-08 of the protocol: what is subscribed to is told.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
from live_kit import LIST, MARK, joining, listening, watched_app

from mcpkit import App
from mcpkit.engine.runtime import running

PLAIN = "doc:plain"


@pytest.fixture(params=["watchfiles", "polling"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How files are watched."""
    if request.param == "watchfiles":
        importlib.import_module("watchfiles")
    else:
        monkeypatch.setitem(sys.modules, "watchfiles", None)  # import then raises ImportError
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the files are."""
    return tmp_path


def replace(path: Path, text: str) -> None:
    """Save as many editors do."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


# -- One file ----------------------------------------------------------------------------


async def test_a_file_that_appears_changes_and_vanishes_is_told(folder: Path) -> None:
    """Appearing and vanishing change the list as well; it may be missing at the start."""
    app, path = watched_app(folder), folder / "plain.txt"
    app.watch(PLAIN, path)
    async with listening(app, folder, [PLAIN]) as ear:
        assert await ear.heard() == set()
        path.write_text("one", encoding="utf-8")
        assert await ear.heard() == {LIST, PLAIN}
        assert await ear.read(PLAIN) == "one"
        path.write_text("other", encoding="utf-8")
        assert await ear.heard() == {PLAIN}
        assert await ear.read(PLAIN) == "other"
        path.unlink()
        assert await ear.heard() == {LIST, PLAIN}


async def test_a_file_that_is_saved_by_renaming_has_changed(folder: Path) -> None:
    """It has not vanished meanwhile; nor does what the editor leaves beside it count."""
    app, path = watched_app(folder), folder / "plain.txt"
    path.write_text("one", encoding="utf-8")
    app.watch(PLAIN, path)
    async with listening(app, folder, [PLAIN]) as ear:
        replace(path, "two")
        assert await ear.heard() == {PLAIN}
        (folder / "plain.txt~").touch()
        (folder / ".plain.txt.swp").touch()
        assert await ear.heard() == set()


async def test_a_file_of_the_same_size_and_time_is_another_one(folder: Path) -> None:
    """Its inode tells: `cp -p`, archives and package managers keep times."""
    app, path = watched_app(folder), folder / "plain.txt"
    path.write_text("one", encoding="utf-8")
    app.watch(PLAIN, path)
    async with listening(app, folder, [PLAIN]) as ear:
        other = folder / "other"
        other.write_text("two", encoding="utf-8")
        os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        os.replace(other, path)
        assert await ear.heard() == {PLAIN}
        assert await ear.read(PLAIN) == "two"


async def test_after_several_quick_writes_the_last_is_told(folder: Path) -> None:
    """All of one size, and within a tick of the clock: whoever reads after the last notification reads the last."""
    app, path = watched_app(folder), folder / "plain.txt"
    path.write_text("00", encoding="utf-8")
    app.watch(PLAIN, path)
    async with listening(app, folder, [PLAIN]) as ear:
        read = "00"
        for number in range(1, 60):
            path.write_text(f"{number:02}", encoding="utf-8")
            await trio.lowlevel.checkpoint()
        for message in await ear.messages():
            assert message == PLAIN
            read = await ear.read(PLAIN)
        assert read == "59"


async def test_a_change_of_what_is_not_watched_is_not_told(folder: Path) -> None:
    """Nor is one of a resource that nobody subscribed to, except that the list changed."""
    app = watched_app(folder)
    app.watch(PLAIN, folder / "plain.txt")
    async with listening(app, folder) as ear:
        (folder / "something else").touch()
        assert await ear.heard() == set()
        (folder / "plain.txt").touch()
        assert await ear.heard() == {LIST}


# -- Families ----------------------------------------------------------------------------

NAMES = [
    "milk",
    "two words",
    "grün",
    "100%",
    "100%25",
    "%2F",
    "a+b&c=d",
    "it's (new)!",
    "a:b@c",
    "日本",
    ".hidden",
    "a.b",
]


async def test_each_file_of_a_family_is_a_resource(folder: Path) -> None:
    """Whatever its name: the URI that is told is the one that reads it."""
    app, notes = watched_app(folder), folder / "notes"
    app.watch("note://{name}", notes / "{name}.md")
    template = app.registry.templates["note://{name}"].template
    assert template is not None
    uris = {name: template.expand({"name": name}) for name in NAMES}
    async with listening(app, folder, uris.values()) as ear:
        notes.mkdir()
        for name, uri in uris.items():
            (notes / f"{name}.md").write_text(name, encoding="utf-8")
            assert await ear.heard() == {LIST, uri}
            assert await ear.read(uri) == name
        (notes / "milk.md").write_text("more", encoding="utf-8")
        assert await ear.heard() == {uris["milk"]}
        (notes / "milk.md").rename(notes / "milk.txt")
        assert await ear.heard() == {LIST, uris["milk"]}


async def test_what_does_not_match_is_no_member(folder: Path) -> None:
    """Other endings, what is further below, a folder of that name, a name that is no text."""
    app, notes = watched_app(folder), folder / "notes"
    (notes / "below").mkdir(parents=True)
    app.watch("note://{name}", notes / "{name}.md")
    async with listening(app, folder) as ear:
        (notes / "a.txt").touch()
        (notes / ".md").touch()
        (notes / "folder.md").mkdir()
        (notes / "below" / "b.md").touch()
        Path(os.fsdecode(os.fsencode(notes) + b"/\xff.md")).touch()
        os.mkfifo(notes / "pipe.md")
        assert await ear.heard() == set()


@pytest.mark.parametrize(
    ("uri", "pattern", "path", "member"),
    [
        ("tree:{+path}", "tree/{+path}", "tree/a b/ü/100%25?.md", "tree:a%20b/%C3%BC/100%2525?.md"),
        ("tree:{+path}", "tree/{+path}.md", "tree/a/b.md", "tree:a/b"),
        ("deep:{/path*}", "deep{/path*}", "deep/a b/c%20", "deep:/a%20b/c%2520"),
        ("deep:{/path*}", "./deep//x/..{/path*}", "deep/a", "deep:/a"),
        ("note://{name}", "notes/in/{name}", "notes/in/a", "note://a"),
        ("note://{name}", "{name}", "a", "note://a"),
        ("note://{name}", "a{name}.b", "aX.b", "note://X"),
        ("note://{year}/{name}", "notes/{year}/{name}.md", "notes/1999/a.md", "note://1999/a"),
        ("note://{name}.{ext}", "notes/{name}{.ext}", "notes/a.b.c", "note://a.b.c"),
        ("note://{name}", "notes {1}/../notes/{name}", "notes/a", None),
    ],
)
async def test_a_pattern_matches_as_the_template_does(
    folder: Path, uri: str, pattern: str, path: str, member: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`{name}` within a segment, `{+path}` and `{/path*}` below; relative to the current directory at the call."""
    app = watched_app(folder)
    home = os.getcwd()
    os.chdir(folder)
    try:
        if member is None:
            with pytest.raises(ValueError, match="variable"):
                app.watch(uri, pattern)
            return
        app.watch(uri, pattern)
    finally:
        os.chdir(home)
    async with listening(app, folder, [member]) as ear:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x", encoding="utf-8")
        assert await ear.heard() == {LIST, member}


async def test_the_current_directory_is_taken_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Braces in its name are no variables."""
    (folder / "{project}").mkdir()
    app = watched_app(folder)
    monkeypatch.chdir(folder / "{project}")
    app.watch("note://{name}", "notes/{name}.md")
    monkeypatch.chdir(folder)
    async with listening(app, folder, ["note://a"]) as ear:
        (folder / "{project}" / "notes").mkdir()
        (folder / "{project}" / "notes" / "a.md").touch()
        assert await ear.heard() == {LIST, "note://a"}


# -- Folders -----------------------------------------------------------------------------


async def test_whatever_happens_in_a_folder_updates_its_resource(folder: Path) -> None:
    """Also further below; the list changes only when the folder itself comes or goes."""
    app, top = watched_app(folder), folder / "top"
    app.watch("all:below", top)
    async with listening(app, folder, ["all:below"]) as ear:
        top.mkdir()
        assert await ear.heard() == {LIST, "all:below"}
        (top / "a").touch()
        assert await ear.heard() == {"all:below"}
        (top / "b" / "c").mkdir(parents=True)
        assert await ear.heard() == {"all:below"}
        (top / "b" / "c" / "d").touch()
        assert await ear.heard() == {"all:below"}
        (top / "b" / "c" / "d").write_text("x", encoding="utf-8")
        assert await ear.heard() == {"all:below"}
        shutil.rmtree(top)
        assert await ear.heard() == {LIST, "all:below"}


async def test_a_folder_that_was_removed_is_watched_again_when_it_is_back(folder: Path) -> None:
    """With all that was above it, in one go, and another one under its name."""
    app, notes = watched_app(folder), folder / "x" / "y" / "notes"
    app.watch("note://{name}", notes / "{name}.md")
    notes.mkdir(parents=True)
    async with listening(app, folder, ["note://a", "note://b"]) as ear:
        for _ in range(2):
            (notes / "a.md").touch()
            assert await ear.heard() == {LIST, "note://a"}
            shutil.rmtree(folder / "x")
            assert await ear.heard() == {LIST, "note://a"}
            notes.mkdir(parents=True)
            assert await ear.heard() == set()
        (notes / "a.md").touch()
        assert await ear.heard() == {LIST, "note://a"}
        notes.rename(folder / "moved")
        notes.mkdir()
        (notes / "b.md").touch()
        assert await ear.heard() == {LIST, "note://a", "note://b"}
        (folder / "moved" / "a.md").write_text("x", encoding="utf-8")
        assert await ear.heard() == set()
        (notes / "b.md").write_text("x", encoding="utf-8")
        assert await ear.heard() == {"note://b"}


async def test_a_folder_that_cannot_be_read_is_watched_again_when_it_can(folder: Path) -> None:
    """Here a link that leads to itself, which nobody can read, and a file where a folder should be."""
    app, notes = watched_app(folder), folder / "notes"
    app.watch("note://{name}", notes / "{name}.md")
    app.watch("all:below", notes)
    notes.symlink_to(notes)
    async with listening(app, folder, ["note://a", "all:below"]) as ear:
        assert await ear.heard() == set()
        notes.unlink()
        notes.touch()
        assert await ear.heard() == {LIST, "all:below"}
        notes.unlink()
        notes.mkdir()
        (notes / "a.md").touch()
        assert await ear.heard() == {LIST, "note://a", "all:below"}


@pytest.fixture
def own_folder() -> Iterator[Path]:
    """A folder of somebody who cannot read what its permissions forbid: not root, who can read everything."""
    with tempfile.TemporaryDirectory() as name:
        root = os.geteuid() == 0
        if root:
            os.chown(name, _NOBODY, _NOBODY)
            os.seteuid(_NOBODY)
        try:
            yield Path(name)
        finally:
            if root:
                os.seteuid(0)


_NOBODY = 65534


async def test_a_folder_without_permission_is_watched_again_when_it_is_given(own_folder: Path) -> None:
    """What cannot be read has vanished for the client."""
    folder = own_folder
    app, notes = watched_app(folder), folder / "notes"
    notes.mkdir()
    (notes / "a.md").touch()
    app.watch("note://{name}", notes / "{name}.md")
    async with listening(app, folder, ["note://a"]) as ear:
        notes.chmod(0)
        assert await ear.heard() == {LIST, "note://a"}
        notes.chmod(0o700)
        assert await ear.heard() == {LIST, "note://a"}


# -- Links -------------------------------------------------------------------------------


async def test_links_are_followed(folder: Path) -> None:
    """A change of the file behind it, and of where it leads."""
    app, notes, far = watched_app(folder), folder / "notes", folder / "far" / "away"
    notes.mkdir()
    far.mkdir(parents=True)
    (far / "one").write_text("one", encoding="utf-8")
    (notes / "a.md").symlink_to(far / "one")
    app.watch("note://{name}", notes / "{name}.md")
    async with listening(app, folder, ["note://a"]) as ear:
        (far / "one").write_text("one more", encoding="utf-8")
        assert await ear.heard() == {"note://a"}
        (far / "one").unlink()
        assert await ear.heard() == {LIST, "note://a"}
        (far / "one").write_text("again", encoding="utf-8")
        assert await ear.heard() == {LIST, "note://a"}
        (far / "two").write_text("two", encoding="utf-8")
        (folder / "new").symlink_to(far / "two")
        os.replace(folder / "new", notes / "a.md")
        assert await ear.heard() == {"note://a"}
        assert await ear.read("note://a") == "two"


async def test_a_link_on_the_way_may_lead_elsewhere(folder: Path) -> None:
    """As releases are switched, and as Kubernetes changes what it mounts."""
    app = watched_app(folder)
    for release in ("1", "2"):
        (folder / release / "notes").mkdir(parents=True)
        (folder / release / "notes" / f"{release}.md").touch()
    (folder / "now").symlink_to("1")
    app.watch("note://{name}", folder / "now" / "notes" / "{name}.md")
    async with listening(app, folder, ["note://1", "note://2"]) as ear:
        (folder / "new").symlink_to("2")
        os.replace(folder / "new", folder / "now")
        assert await ear.heard() == {LIST, "note://1", "note://2"}


async def test_a_link_that_leads_back_up_is_not_followed_for_ever(folder: Path) -> None:
    """Once is enough."""
    app, tree = watched_app(folder), folder / "tree"
    (tree / "a").mkdir(parents=True)
    (tree / "a" / "up").symlink_to(tree)
    app.watch("tree:{+path}", tree / "{+path}")
    async with listening(app, folder, ["tree:a/b", "tree:a/up/a/b"]) as ear:
        (tree / "a" / "b").touch()
        assert await ear.heard() == {LIST, "tree:a/b"}


# -- While it is served ------------------------------------------------------------------


@pytest.mark.parametrize("where", ["task", "thread"])
async def test_what_is_watched_later_is_told_as_found(folder: Path, where: str) -> None:
    """A client may have read it before anybody looked; from then on it is told like the rest."""
    app, path = watched_app(folder), folder / "plain.txt"
    path.write_text("one", encoding="utf-8")
    async with listening(app, folder, [PLAIN]) as ear:
        if where == "task":
            app.watch(PLAIN, path)
        else:
            await trio.to_thread.run_sync(app.watch, PLAIN, path)
        assert await ear.heard() == {LIST, PLAIN}
        app.watch(PLAIN, path)  # once more is not more
        path.write_text("other", encoding="utf-8")
        assert await ear.messages() == [PLAIN]


async def test_the_first_watch_may_come_while_the_app_is_served(folder: Path) -> None:
    """Nothing was watched before; the lifespan is a good place to begin."""
    app = App("late")
    app.add_resource(lambda: "x", MARK)
    (folder / "mark").touch()
    async with listening(app, folder) as ear:
        app.watch(MARK, folder / "mark")
        assert await ear.messages() == [LIST]
        assert await ear.messages() == []


async def test_all_clients_are_told_by_one_thread(folder: Path) -> None:
    """Files are looked at once per process, and each client hears of a change once."""
    app, path = watched_app(folder), folder / "plain.txt"
    app.watch(PLAIN, path)
    async with running(app) as runtime, AsyncExitStack() as stack:
        threads = threading.active_count()
        ears = [await stack.enter_async_context(joining(runtime, folder, [PLAIN])) for _ in range(20)]
        path.touch()
        assert await ears[0].messages() == [LIST, PLAIN]
        for ear in ears[1:]:
            assert await ear.until_mark() == [LIST, PLAIN]
        assert threading.active_count() == threads


async def test_a_burst_does_not_flood(folder: Path) -> None:
    """10,000 files at once: the list has changed a few times, what was subscribed to is told, and others are answered
    meanwhile.
    """
    app, notes = watched_app(folder), folder / "notes"
    app.watch("note://{name}", notes / "{name}.md")
    notes.mkdir()

    def write(text: str) -> None:
        for number in range(10_000):
            (notes / f"{number}.md").write_text(text, encoding="utf-8")

    async with listening(app, folder, ["note://1", "note://9999"]) as ear:
        for text, listed in (("x", {LIST}), ("xy", set[str]())):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, write, text)
                for _ in range(100):
                    began = time.monotonic()
                    await ear.peer.ask("ping")
                    assert time.monotonic() - began < 2
            told = await ear.messages()
            assert set(told) == {"note://1", "note://9999"} | listed
            assert len(told) < 100


async def test_shutting_down_is_immediate_and_leaves_nothing(folder: Path) -> None:
    """No descriptor, and no thread that still works: served many times, as in tests, an app costs nothing."""
    app = watched_app(folder)
    app.watch("all:below", folder)

    async def serve() -> float:
        async with listening(app, folder, ["all:below"]) as ear:
            (folder / "file").write_text(str(time.monotonic()), encoding="utf-8")
            assert "all:below" in await ear.heard()
            began = time.monotonic()
        return time.monotonic() - began

    await serve()
    most = descriptors(), threading.active_count()
    assert max([await serve() for _ in range(5)]) < 1
    assert threading.active_count() <= most[1]
    with trio.fail_after(10):
        while descriptors() > most[0]:  # watchfiles closes its own in a thread, a little later
            await trio.sleep(0.005)


def descriptors() -> int:
    """How many there are open."""
    return len(os.listdir("/dev/fd"))


async def test_it_ends_while_it_looks(folder: Path) -> None:
    """However much there is to look at."""
    app = watched_app(folder)
    for number in range(3000):
        (folder / str(number)).touch()
    app.watch("all:below", folder)
    async with listening(app, folder):
        began = time.monotonic()
    assert time.monotonic() - began < 1


def test_an_app_that_watches_nothing_does_not_pay(way: str) -> None:
    """Neither watchfiles nor our own half is imported."""
    code = """
import sys, trio
from mcpkit import App
from mcpkit.testing import Client
app = App("x")
async def main():
    async with Client(app): pass
trio.run(main)
print(*{"watchfiles", "anyio", "mcpkit.engine.watcher", "mcpkit.engine.files"} & set(sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "\n"


# -- What cannot be watched --------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "path", "error", "said"),
    [
        (
            "note://{name}",
            "notes/{title}.md",
            ValueError,
            "'note://{name}' has {name}, the path 'notes/{title}.md' has {title}",
        ),
        ("note://{name}", "notes", ValueError, "the path 'notes' has no variable"),
        ("note://a", "notes/{name}.md", ValueError, "the URI 'note://a' has no variable"),
        ("note:{/a*}", "notes/{+a}", ValueError, "{/a*}"),
        ("note://{name}", "notes/{name}/{name}", ValueError, "used twice"),
        ("note://{name}", "notes/{name", ValueError, "has no counterpart"),
        ("note://{name", "notes/{name}", ValueError, "has no counterpart"),
        ("note://{name}", "notes/{?name}", ValueError, "mean something in a path"),
        ("note", "notes", ValueError, "scheme"),
        ("note://a", "", ValueError, "no path"),
        ("note://a", "a\0b", ValueError, "no path"),
        ("note://a", "a\ud800b", ValueError, "no path"),
        ("note://a", b"notes", TypeError, "no path"),
        ("note://a", None, TypeError, "None"),
        (None, "notes", TypeError, "not by None"),
    ],
)
def test_what_cannot_be_watched_is_refused_at_once(
    uri: str, path: str, error: type[Exception], said: str
) -> None:
    """With what is wrong, where the script says it."""
    app = App("wrong")
    with pytest.raises(error) as raised:
        app.watch(uri, path)
    assert said in str(raised.value)
    assert app.watches.all() == ()
