"""Passwords are tried at a limited pace, and what `users=` does wrong is said in the log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hosts.process import Process, serving_http
from oauth.browser import EXAMPLE, PASSWORD, Back, Form, Visitor, origin_of, program
from support import SECONDS

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture
def own() -> Iterator[str]:
    """A server that this test may exhaust."""
    with serving_http(EXAMPLE) as (process, url):
        yield origin_of(url)
        assert "Traceback" not in process.output


def test_a_wrong_password_is_said_without_saying_which_part(own: str) -> None:
    """An unknown user and a wrong password look the same; the name stays, the password does not."""
    flow = program(own)
    pages = []
    with Visitor() as visitor:
        for name in ("editor", "nobody"):
            answer = visitor.allow(flow.url(), name, "wrong")
            assert answer.status_code == 403
            form = Form(answer.text)
            assert "User name or password is wrong." in form.text
            assert form.fields["username"] == name
            assert form.fields["password"] == ""
            pages.append(re.sub(r'value="[^"]*"', "", answer.text))
        assert pages[0] == pages[1]
        assert visitor.send(answer, username="editor", password=PASSWORD).status_code == 303


def test_guessing_is_slowed_down_for_one_user_only(own: str) -> None:
    """Five wrong passwords; then not even the right one, until some time has passed. Others are not held up."""
    flow = program(own)
    with Visitor() as visitor:
        for number in range(5):
            assert visitor.allow(flow.url(), "editor", f"guess {number}").status_code == 403
        for name in ("editor", "EDITOR", " editor "):
            answer = visitor.allow(flow.url(), name)
            assert answer.status_code == 429
            assert "Too many tries. Try again in " in answer.text
            assert 0 < int(answer.headers["retry-after"]) <= 60
        assert visitor.allow(flow.url(), "guest").status_code == 303


def test_guessing_from_many_networks_is_slowed_down_too(own: str) -> None:
    """Fifty wrong passwords for one user in an hour, wherever they come from."""
    flow = program(own)
    statuses = []
    for network in range(2, 14):
        visitor = Visitor()
        visitor.http.close()
        transport = httpx.HTTPTransport(local_address=f"127.0.0.{network}")
        visitor.http = httpx.Client(transport=transport, timeout=SECONDS)
        with visitor:
            page = visitor.open(flow.url())
            statuses += [visitor.send(page, username="editor", password="x").status_code for _ in range(5)]
    assert statuses == [403] * 50 + [429] * 10


def test_those_who_sign_in_are_not_slowed_down(own: str) -> None:
    """Good passwords do not count."""
    flow = program(own)
    with Visitor() as visitor:
        assert [visitor.allow(flow.url()).status_code for _ in range(10)] == [303] * 10


@pytest.mark.parametrize(
    ("name", "password"),
    [("", PASSWORD), ("editor", ""), ("x" * 257, "x"), ("editor", "x" * 1025), ("\0", "\n")],
)
def test_names_and_passwords_are_bounded(own: str, name: str, password: str) -> None:
    """A slow hash of a megabyte is work for nothing."""
    with Visitor() as visitor:
        assert visitor.allow(program(own).url(), name, password).status_code == 403


# -- users= ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def odd() -> Iterator[tuple[Process, str]]:
    """A server whose `users=` is an async function that returns and raises all sorts of things."""
    with serving_http(SCRIPTS / "odd_users.py") as (process, url):
        yield process, origin_of(url)


def test_users_may_be_async_and_return_a_name(odd: tuple[Process, str]) -> None:
    """A name may grant every scope."""
    with Visitor() as visitor:
        flow = program(odd[1], scope="a b")
        back = Back.of(visitor.allow(flow.url(), "name"))
    assert flow.redeem(back.parameters["code"]).json()["scope"] == "a b"


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("raises", "ZeroDivisionError"),
        ("true", "users= returned True, not a Principal with an id, a user's name or None"),
        ("empty", "users= returned ''"),
        ("nameless", "users= returned Principal(id=''"),
        ("object", "must have a JSON form"),
    ],
)
def test_what_users_does_wrong_is_in_the_log_and_not_on_the_page(
    odd: tuple[Process, str], user: str, reason: str
) -> None:
    """Fail closed, and say where to look."""
    process, origin = odd
    with Visitor() as visitor:
        answer = visitor.allow(program(origin).url(), user)
    assert answer.status_code == 500
    assert "location" not in answer.headers
    assert "Whoever runs this server finds the reason in its log" in answer.text
    assert reason not in answer.text
    process.expect(re.escape(reason))
