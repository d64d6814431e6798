"""A real browser, Chromium, signs in at examples/oauth.py: with the keyboard, without scripts, and against an attacker.

Its screenshots go to the folder in SCREENSHOTS, where that is set.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from clients import nodejs
from oauth.browser import PASSWORD, Program, register
from oauth.library import Library, library
from support import SECONDS

pytestmark = pytest.mark.once
NAME = "<img src=x onerror=alert(1)><script>alert(2)</script>Claude"


def chromium() -> str:
    """The browser; the test is skipped where there is none, but not in CI."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        assert not os.environ.get("CI"), "Chromium is missing"
        pytest.skip("Chromium is missing")
    return found


@pytest.fixture(scope="module")
def sites() -> Iterator[Library]:
    """The pages of the client, and those of an attacker: another site, since the server is on 127.0.0.1."""
    with library() as sites:
        yield sites


@pytest.fixture(scope="module")
def seen(origin: str, sites: Library, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the browser saw."""
    nodejs.install()
    html = {"content_type": "text/html"}
    # The client's page goes on to another one, as that of claude.ai does: a `form-action` would not let it.
    sites.put("/done", b"<p>Done.", **html)
    other = sites.url.replace("localhost", "127.0.0.1")
    callback = sites.put("/callback", b"", status=302, location=f"{other}/done")
    denied = sites.put("/denied", b"<p>Denied.", **html)
    good = register(origin, client_name="Claude Code", redirect_uris=[callback, denied]).json()
    bad = register(origin, client_name=NAME, redirect_uris=[callback]).json()
    flow = Program(origin, good["client_id"], redirect_uri=callback)
    sites.put("/frame", f'<iframe src="{escape(flow.url())}"></iframe>'.encode(), **html)
    fields = {**flow.request, "username": "guest", "password": PASSWORD, "decision": "allow", "form": "a.b"}
    inputs = "".join(f'<input name="{name}" value="{escape(str(value))}">' for name, value in fields.items())
    form = f'<form method="post" action="{origin}/authorize">{inputs}</form><script>document.forms[0].submit()</script>'
    sites.put("/forge", form.encode(), **html)
    shots = Path(os.environ.get("SCREENSHOTS") or tmp_path_factory.mktemp("shots"))
    plan = {
        "executable": chromium(),
        "flow": {"url": flow.url(), "end": f"{other}/done", "password": PASSWORD},
        "deny": {"url": flow.url(redirect_uri=denied), "end": f"{denied}?**"},
        "hostile": {"url": Program(origin, bad["client_id"], redirect_uri=callback).url()},
        "frame": {"url": f"{sites.url}/frame"},
        "forge": {"url": f"{sites.url}/forge"},
        "shots": str(shots),
    }
    command = nodejs.command("browse.mjs", json.dumps(plan))
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("light", "wrong", "dark", "hostile"):
        assert (shots / f"{name}.png").stat().st_size > 5_000
    return json.loads(done.stdout)


def test_the_browser_comes_to_the_end(seen: dict[str, Any], sites: Library) -> None:
    """Signed in, allowed, back at the client with a code, and on to where the client goes; twice."""
    assert seen["end"] == seen["withoutScript"] == sites.url.replace("localhost", "127.0.0.1") + "/done"
    codes = [parse_qs(urlsplit(path).query) for path, _ in sites.asked if path.startswith("/callback?")]
    assert len(codes) == 2
    assert all(set(code) == {"code", "state", "iss"} for code in codes)


def test_the_style_is_applied_and_nothing_is_complained_about(seen: dict[str, Any]) -> None:
    """The policy lets through what the page needs, and the page needs no more."""
    assert seen["complaintsOfOurPages"] == []
    assert seen["background"] == "rgb(242, 244, 247)"


def test_the_keyboard_is_enough(seen: dict[str, Any]) -> None:
    """WCAG 2.2, 2.1.1 and 2.4.3: the order of the page, and Enter signs in."""
    assert seen["focus"] == ["username", "password", "allow", "deny"]


def test_a_wrong_password_is_announced(seen: dict[str, Any]) -> None:
    """The problem is read out, the name is kept, the cursor is where the next try begins."""
    assert seen["problem"] == "User name or password is wrong."
    assert seen["focusAfterProblem"] == "password"
    assert seen["kept"] == ["editor", ""]


def test_assistive_technology_sees_names(seen: dict[str, Any]) -> None:
    """Roles and names, from the labels."""
    for line in (
        'heading "Claude Code asks for access to',
        'textbox "User name"',
        'textbox "Password"',
        'button "Sign in and allow"',
        'button "Deny"',
        "listitem: Write and change the team's notes",
    ):
        assert line in seen["aria"]


def test_no_is_an_answer(seen: dict[str, Any], sites: Library) -> None:
    """RFC 6749 section 4.1.2.1."""
    assert parse_qs(urlsplit(seen["denied"]).query)["error"] == ["access_denied"]


def test_a_name_that_is_markup_is_shown_as_text(seen: dict[str, Any]) -> None:
    """And nothing of it runs."""
    assert NAME in seen["hostile"]
    assert seen["injected"] == 0
    assert seen["dialogs"] == []


def test_the_page_is_not_shown_in_a_frame(seen: dict[str, Any]) -> None:
    """Clickjacking: the frame of the other site holds nothing of it."""
    assert "Password" not in seen["framed"]
    assert "asks for access" not in seen["framed"]


def test_another_site_cannot_send_the_form(seen: dict[str, Any], sites: Library) -> None:
    """CSRF: the user would be signed in as the attacker. The form is shown again, with a reason."""
    assert "no longer good" in seen["forged"]
