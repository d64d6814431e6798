"""The page that asks: nobody else can send its form, show it in a frame, or put something into it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import httpx
import pytest
from oauth.browser import PASSWORD, Back, Form, Program, Visitor, program, register
from support import SECONDS


def get(url: str) -> httpx.Response:
    return httpx.get(url, timeout=SECONDS, trust_env=False)


def test_the_page_says_who_asks_for_what(origin: str) -> None:
    """So that a lookalike is noticed: the name, who vouches for it, where it goes on to, the scopes in words."""
    client = register(origin, client_name="Claude Code").json()
    text = Form(get(Program(origin, client["client_id"]).url()).text).text
    assert "Claude Code asks for access to" in text
    assert f"access to {urlsplit(origin).netloc}/mcp" in text
    assert "not known: it has chosen its name itself" in text
    assert "this computer (127.0.0.1:53682)" in text
    assert "Read the team's notes" in text
    assert "Write and change the team's notes" in text


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://app.example:8443/callback", "app.example:8443"),
        ("com.example.app:/callback", "an app on this device (com.example.app)"),
        ("http://localhost:1/x", "this computer (localhost:1)"),
    ],
)
def test_the_page_says_where_the_user_goes_on_to(origin: str, uri: str, shown: str) -> None:
    """The host is what tells clients apart."""
    client = register(origin, redirect_uris=[uri]).json()
    form = Form(get(Program(origin, client["client_id"], redirect_uri=uri).url()).text)
    assert f"Sends you on to {shown}" in form.text


def test_the_page_can_be_used_by_everybody(origin: str) -> None:
    """WCAG 2.2: a language, a title, labels, no script, room for password managers; Enter means the first button."""
    page = get(program(origin).url()).text
    form = Form(page)
    tags = dict(form.tags)
    assert tags["html"]["lang"] == "en"
    assert re.search("<title>.+</title>", page)
    assert "viewport" in page
    assert form.labels == ["username", "password"]
    inputs = {given["name"]: given for tag, given in form.tags if tag == "input"}
    for name, completion in {"username": "username", "password": "current-password"}.items():
        assert inputs[name]["id"] == name
        assert inputs[name]["autocomplete"] == completion
    assert inputs["password"]["type"] == "password"
    assert "autofocus" in inputs["username"]
    assert form.buttons == [("decision", "allow"), ("decision", "deny")]
    assert not {"script", "link", "img", "iframe", "meta http-equiv"} & {tag for tag, _ in form.tags}
    assert not [name for _, given in form.tags for name in given if name.startswith("on") or name == "style"]


@pytest.mark.parametrize("kind", ["the page", "an error", "a wrong password"])
def test_every_page_is_closed_to_others(origin: str, kind: str) -> None:
    """RFC 9700 section 4.16 (clickjacking), 4.2.4 (referrer); nothing is loaded, nothing kept."""
    flow = program(origin)
    if kind == "a wrong password":
        with Visitor() as visitor:
            answer = visitor.allow(flow.url(), password="wrong")
    else:
        answer = get(flow.url(client_id="nobody") if kind == "an error" else flow.url())
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["base-uri"] == "'none'"
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", policy["style-src"])
    assert "form-action" not in policy  # see `pages`, Rule 3
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


MARKUP = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>${x}{{x}}&lt;"


@pytest.mark.parametrize("field", ["client_name", "state", "username", "redirect_uri", "scope"])
def test_what_others_say_is_text(origin: str, field: str) -> None:
    """XSS: names, states, user names and redirects come from strangers."""
    client = register(origin, client_name=MARKUP if field == "client_name" else "x").json()
    changed = {field: MARKUP} if field in ("state", "scope", "redirect_uri") else {}
    flow = Program(origin, client["client_id"], **changed)
    with Visitor() as visitor:
        page = visitor.open(flow.url())
        if field == "username":
            page = visitor.send(page, username=MARKUP, password="x")
    tags = {tag for tag, _ in Form(page.text).tags}
    assert not {"script", "img"} & tags
    if field == "client_name":
        assert MARKUP[:80] in Form(page.text).text
    if field in ("state", "username"):
        assert Form(page.text).fields[field] == MARKUP


def test_a_name_cannot_turn_the_text_around_or_hide_in_it(origin: str) -> None:
    """A name made of invisible or right-to-left characters could pass for another."""
    name = "\u202eedoC\u202c \u200bedualC\x1b[2J\n" + "x" * 500
    client = register(origin, client_name=name).json()
    assert client["client_name"].startswith("edoC edualC[2Jx")
    assert len(client["client_name"]) == 80


# -- The form --------------------------------------------------------------------------------


def test_the_cookie_is_for_this_host_and_for_no_script(origin: str) -> None:
    """On https it has the prefix that no other host can give it (RFC 6265bis section 4.1.3)."""
    cookie = get(program(origin).url()).headers["set-cookie"]
    assert re.fullmatch(r"mcpkit-form=[\w-]{43}; Path=/; HttpOnly; SameSite=Lax; Max-Age=3600", cookie)


def test_a_form_without_its_mark_is_shown_again(origin: str) -> None:
    """CSRF: a stranger's page can post, but knows neither mark nor cookie."""
    flow = program(origin)
    with Visitor() as visitor:
        page = visitor.open(flow.url())
        for mark in ("", "x", ".", "x" * 22 + "." + "0" * 64, "é"):
            answer = visitor.send(page, username="editor", password=PASSWORD, form=mark)
            assert answer.status_code == 403
            assert "no longer good" in answer.text
        assert visitor.send(answer, username="editor", password=PASSWORD).status_code == 303


def test_the_form_of_another_browser_is_no_good(origin: str) -> None:
    """An attacker has a form of their own: it would sign the user in as them."""
    flow = program(origin)
    with Visitor() as attacker, Visitor() as victim:
        theirs = attacker.open(flow.url())
        without = victim.send(theirs, username="editor", password=PASSWORD)
        assert without.status_code == 403
        victim.open(flow.url())
        assert victim.send(theirs, username="editor", password=PASSWORD).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_form_that_another_site_sends_is_no_good(origin: str, site: str) -> None:
    """W3C Fetch Metadata: on one machine all ports share their cookies, and the browser says which page it was."""
    with Visitor() as visitor:
        page = visitor.open(program(origin).url())
        for told, status in ((site, 403), ("same-origin", 303)):
            visitor.http.headers["sec-fetch-site"] = told
            assert visitor.send(page, username="editor", password=PASSWORD).status_code == status


def test_a_form_counts_once(origin: str) -> None:
    """Whoever sees it pass can do nothing with it afterwards, the password in it included."""
    flow = program(origin)
    with Visitor() as visitor:
        page = visitor.open(flow.url())
        assert visitor.send(page, username="editor", password="wrong").status_code == 403
        assert visitor.send(page, username="editor", password=PASSWORD).status_code == 303
        assert visitor.send(page, username="editor", password=PASSWORD).status_code == 403


def test_the_form_of_one_request_is_no_good_for_another(origin: str) -> None:
    """Each form has a mark over all that it asks."""
    one, other = program(origin), program(origin)
    with Visitor() as visitor:
        mark = Form(visitor.open(one.url()).text).fields["form"]
        page = visitor.open(other.url())
        assert visitor.send(page, username="editor", password=PASSWORD, form=mark).status_code == 403


def test_two_tabs_can_ask_at_the_same_time(origin: str) -> None:
    """Two clients are set up at once; the second does not spoil the first."""
    one, other = program(origin), program(origin)
    with Visitor() as visitor:
        first, second = visitor.open(one.url()), visitor.open(other.url())
        for page, flow in ((first, one), (second, other)):
            back = Back.of(visitor.send(page, username="editor", password=PASSWORD))
            assert back.parameters["state"] == flow.state


@pytest.mark.parametrize(
    "cookie", ["mcpkit-form=short", "mcpkit-form=" + "é" * 43, "mcpkit-form", "=;;=", "x" * 4000]
)
def test_a_cookie_that_is_not_ours_is_replaced(origin: str, cookie: str) -> None:
    """It would be one that somebody else knows, or that does not fit."""
    answer = httpx.get(program(origin).url(), headers={"cookie": cookie.encode()}, trust_env=False)
    assert answer.status_code == 200
    assert re.match(r"mcpkit-form=[A-Za-z0-9_-]{43};", answer.headers["set-cookie"])


def test_the_way_back_keeps_secrets_to_itself(origin: str) -> None:
    """RFC 9700 sections 4.2 and 4.12: 303, so that the password stays here, and no referrer."""
    with Visitor() as visitor:
        answer = visitor.allow(program(origin).url())
    assert answer.status_code == 303
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.content == b""
