"""Random requests to every endpoint: some answer, never a failure inside, and the server goes on."""

from __future__ import annotations

import random
import string
from urllib.parse import quote, urlencode

import httpx
import pytest
from hosts.process import serving_http
from oauth.browser import CALLBACK, EXAMPLE, Program, origin_of, register
from support import SECONDS

NASTY = [
    "",
    "\0",
    "\r\nX: y",
    "é" * 50,
    "\U0001f600",
    "x" * 3000,
    "[1]",
    '{"a":1}',
    "%00",
    "../../etc/passwd",
    "https://evil.example/",
    "https://[::1/",
    "https://[",
    "http://127.0.0.1:99999/",
    "null",
    "-1",
    "code",
    "S256",
    CALLBACK,
    "authorization_code",
    "refresh_token",
    "a.b",
    "." * 100,
]
NAMES = [
    *(
        "client_id",
        "redirect_uri",
        "response_type",
        "state",
        "scope",
        "code_challenge",
        "code_challenge_method",
    ),
    *(
        "resource",
        "grant_type",
        "code",
        "code_verifier",
        "refresh_token",
        "client_secret",
        "token",
        "form",
        "decision",
    ),
    *("username", "password", "prompt", "request", "response_mode", "redirect_uris", "client_name"),
]


def value(dice: random.Random) -> str:
    return (
        dice.choice(NASTY)
        if dice.random() < 0.8
        else "".join(dice.choices(string.printable, k=dice.randrange(99)))
    )


def encoded(dice: random.Random, good: dict[str, str]) -> str:
    """A form that is mostly good, with some of its fields changed, left out, repeated or broken."""
    fields = [(name, kept) for name, kept in good.items() if dice.random() < 0.9]
    fields += [(dice.choice(NAMES), value(dice)) for _ in range(dice.randrange(4))]
    fields = [(name, value(dice) if dice.random() < 0.1 else kept) for name, kept in fields]
    dice.shuffle(fields)
    text = urlencode(fields)
    return text if dice.random() < 0.9 else text + dice.choice(["&%ff=%fe", "&&&", "&=", "%", "&a", "&\x7f"])


def document(dice: random.Random, depth: int = 0) -> object:
    """Something that is JSON."""
    kind = dice.randrange(7 if depth < 3 else 5)
    if kind < 5:
        return [None, dice.random() < 0.5, dice.randrange(-(10**20), 10**20), value(dice), 1e300][kind]
    if kind == 5:
        return [document(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {dice.choice(NAMES): document(dice, depth + 1) for _ in range(dice.randrange(5))}


@pytest.mark.parametrize("seed", range(4))
def test_no_request_makes_it_fail_inside(seed: int) -> None:
    """The project's first promise, and where a stranger's bytes first arrive."""
    dice = random.Random(seed)
    with serving_http(EXAMPLE) as (process, url), httpx.Client(timeout=SECONDS, trust_env=False) as http:
        origin = origin_of(url)
        flow = Program(origin, register(origin).json()["client_id"])
        authorize = {name: kept for name, kept in flow.request.items() if kept is not None}
        token = {
            "grant_type": "authorization_code",
            "code": "x",
            "client_id": flow.client_id,
            "code_verifier": "v" * 43,
        }
        forms = {
            "/authorize": {**authorize, "username": "", "form": "a.b"},
            "/token": token,
            "/revoke": token,
        }
        kinds = ["application/x-www-form-urlencoded"] * 9 + ["text/plain"]
        statuses = set()
        for _ in range(250):
            path = dice.choice([*forms, "/register", "GET"])
            if path == "GET":
                answer = http.get(f"{origin}/authorize?{quote(encoded(dice, authorize), safe='=&%+')}")
            elif path == "/register":
                body = (
                    {"redirect_uris": [CALLBACK], dice.choice(NAMES): document(dice)}
                    if dice.random() < 0.7
                    else 0
                )
                answer = http.post(origin + path, json=body or document(dice))
            else:
                headers = {
                    "content-type": dice.choice(kinds),
                    "cookie": dice.choice(["", "mcpkit-form=" + "x" * 43]),
                }
                if dice.random() < 0.1:
                    headers["authorization"] = "Basic x" + quote(value(dice))[:100]
                answer = http.post(
                    origin + path, content=encoded(dice, forms[path]).encode(), headers=headers
                )
            statuses.add(answer.status_code)
            assert answer.status_code < 500, (path, answer.request.content, answer.text)
        assert {200, 201, 303, 400, 401} <= statuses
        assert "Traceback" not in process.output
