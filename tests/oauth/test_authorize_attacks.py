"""What must not work at /authorize: each line of the tables is an attack, or a mistake that opens one."""

from __future__ import annotations

import httpx
import pytest
from oauth.browser import CALLBACK, Back, Form, Program, Visitor, challenge, program, register
from support import SECONDS


def get(url: str) -> httpx.Response:
    return httpx.get(url, timeout=SECONDS, trust_env=False)


@pytest.fixture(scope="module")
def web(origin: str) -> Program:
    """A client with a redirect URI on the web."""
    uri = "https://app.example/oauth/callback?tenant=1"
    answer = register(origin, redirect_uris=[uri], client_name="Web app")
    return Program(origin, answer.json()["client_id"], redirect_uri=uri)


REDIRECTS = {
    "another host": "https://evil.example/oauth/callback?tenant=1",
    "a longer path": "https://app.example/oauth/callback/../evil?tenant=1",
    "a longer query": "https://app.example/oauth/callback?tenant=1&next=https://evil.example",
    "no query": "https://app.example/oauth/callback",
    "a longer host": "https://app.example.evil.example/oauth/callback?tenant=1",
    "a user name": "https://app.example@evil.example/oauth/callback?tenant=1",
    "a backslash": "https://evil.example\\@app.example/oauth/callback?tenant=1",
    "another port": "https://app.example:8443/oauth/callback?tenant=1",
    "the default port": "https://app.example:443/oauth/callback?tenant=1",
    "plain http": "http://app.example/oauth/callback?tenant=1",
    "no scheme": "//app.example/oauth/callback?tenant=1",
    "capitals": "https://APP.example/oauth/callback?tenant=1",
    "encoded": "https://app.example/oauth%2fcallback?tenant=1",
    "encoded twice": "https%3A%2F%2Fapp.example%2Foauth%2Fcallback%3Ftenant%3D1",
    "a fragment": "https://app.example/oauth/callback?tenant=1#x",
    "a script": "javascript:alert(1)//https://app.example/oauth/callback?tenant=1",
    "data": "data:text/html,<script>alert(1)</script>",
    "a line break": "https://app.example/oauth/callback?tenant=1\r\nSet-Cookie: a=b",
    "a blank in front": " https://app.example/oauth/callback?tenant=1",
    "a zero byte": "https://app.example/oauth/callback?tenant=1\0",
    "nothing like a URL": "callback",
    "loopback": "http://127.0.0.1:1/oauth/callback?tenant=1",
}


@pytest.mark.parametrize("uri", REDIRECTS.values(), ids=REDIRECTS.keys())
def test_an_open_redirect_is_shown_and_never_followed(web: Program, uri: str) -> None:
    """RFC 9700 section 2.1: exact matching; RFC 6749 section 4.1.2.1: no redirect to what is not trusted."""
    answer = get(web.url(redirect_uri=uri))
    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert "evil" not in answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


LOOPBACK = {
    "http://127.0.0.1:53682/callback": True,
    "http://127.0.0.1:1/callback": True,
    "http://127.0.0.1/callback": True,
    "http://localhost:53682/callback": False,
    "http://[::1]:53682/callback": False,
    "https://127.0.0.1:53682/callback": False,
    "http://127.0.0.1:53682/callback/": False,
    "http://127.0.0.1:53682/callback?x=1": False,
    "http://127.0.0.1:53682/other": False,
    "http://127.0.0.1:99999/callback": False,
    "http://127.0.0.1:@evil.example/callback": False,
    "http://127.0.0.1.evil.example:53682/callback": False,
    "http://2130706433:53682/callback": False,
}


@pytest.mark.parametrize(("uri", "good"), LOOPBACK.items(), ids=LOOPBACK.keys())
def test_only_the_port_of_a_loopback_redirect_is_free(origin: str, uri: str, good: bool) -> None:
    """RFC 8252 section 7.3: programs listen where there is room. Nothing else may differ."""
    answer = get(program(origin).url(redirect_uri=uri))
    assert answer.status_code == (200 if good else 400)
    assert "location" not in answer.headers


SENT_BACK: dict[str, tuple[dict[str, str | None], str]] = {
    "no response type": ({"response_type": None}, "invalid_request"),
    "a token": ({"response_type": "token"}, "unsupported_response_type"),
    "no challenge": ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
    "no challenge but a method": ({"code_challenge": None}, "invalid_request"),
    "plain": ({"code_challenge_method": "plain"}, "invalid_request"),
    "plain because nothing is said": ({"code_challenge_method": None}, "invalid_request"),
    "s256": ({"code_challenge_method": "s256"}, "invalid_request"),
    "a challenge that is too short": ({"code_challenge": "abc"}, "invalid_request"),
    "a challenge with padding": ({"code_challenge": challenge("x" * 43) + "="}, "invalid_request"),
    "another resource": ({"resource": "https://elsewhere.example/mcp"}, "invalid_target"),
    "a resource with a fragment": ({"resource": "#"}, "invalid_target"),
    "a part of the resource": ({"resource": "http://127.0.0.1/"}, "invalid_target"),
    "a fragment as response": ({"response_mode": "fragment"}, "invalid_request"),
    "a request object": ({"request": "eyJhbGciOiJub25lIn0.e30."}, "request_not_supported"),
    "a request object elsewhere": ({"request_uri": "http://169.254.169.254/"}, "request_not_supported"),
    "no page": ({"prompt": "none"}, "login_required"),
}


@pytest.mark.parametrize(("changed", "error"), SENT_BACK.values(), ids=SENT_BACK.keys())
def test_a_bad_request_of_a_good_client_is_sent_back(
    origin: str, changed: dict[str, str | None], error: str
) -> None:
    """RFC 6749 section 4.1.2.1, with `state` and (RFC 9207) `iss`. PKCE is S256 from the start (OAuth 2.1)."""
    flow = program(origin)
    back = Back.of(get(flow.url(**changed)))
    assert back.uri == CALLBACK
    assert back.parameters["error"] == error
    assert back.parameters["state"] == flow.state
    assert back.parameters["iss"] == origin
    assert "code" not in back.parameters


@pytest.mark.parametrize(
    "name", ["state", "scope", "code_challenge", "code_challenge_method", "response_type", "nonsense"]
)
def test_a_parameter_that_is_there_twice_is_refused(origin: str, name: str) -> None:
    """RFC 6749 section 3.1: whoever reads the first and whoever reads the last would disagree."""
    flow = program(origin, nonsense="1")
    back = Back.of(get(f"{flow.url()}&{name}=other"))
    assert back.parameters["error"] == "invalid_request"
    assert back.parameters.get("state") == (None if name == "state" else flow.state)


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
def test_who_asks_is_said_once(origin: str, name: str) -> None:
    """Neither of the two is trusted."""
    flow = program(origin)
    answer = get(f"{flow.url()}&{name}={flow.request[name]}")
    assert answer.status_code == 400
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    "client_id", ["", "nobody", "client_" + "x" * 22, "x" * 5000, "../../x", "oauth:client:x", "\0"]
)
def test_an_unknown_client_is_shown_an_error(origin: str, client_id: str) -> None:
    """Its redirect URI is nobody's."""
    answer = get(program(origin).url(client_id=client_id or None))
    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert "start again there" in answer.text


STATES = {
    "line breaks": "a\r\nLocation: https://evil.example\r\n\r\n<script>alert(1)</script>",
    "more parameters": "x&code=stolen&iss=https://evil.example#fragment",
    "markup": "\"><script>alert('state')</script>",
    "everything": "üñí\u2028\u202e\x00\x7f % + ?",
    "long": "x" * 4096,
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES.keys())
def test_state_comes_back_as_it_was(origin: str, state: str) -> None:
    """RFC 6749 section 4.1.2: the exact value; and nothing that is in it becomes a header, a parameter or markup."""
    flow = program(origin, state=state)
    with Visitor() as visitor:
        page = visitor.open(flow.url())
        assert "<script" not in page.text
        assert Form(page.text).fields["state"] == state
        answer = visitor.send(page, username="editor", password="correct horse")
    back = Back.of(answer)
    assert back.parameters["state"] == state
    assert back.parameters["iss"] == origin
    assert flow.redeem(back.parameters["code"]).status_code == 200
    assert "evil.example" not in answer.headers.get("set-cookie", "")


def test_a_state_of_any_length_is_not_carried_around(origin: str) -> None:
    """Forms and headers are bounded."""
    back = Back.of(get(program(origin, state="x" * 4097).url()))
    assert back.parameters["error"] == "invalid_request"
    assert "state" not in back.parameters


@pytest.mark.parametrize(
    "query", ["", "%", "client_id=%ff%fe", "&".join(f"a{n}=1" for n in range(1000)), "=", "client_id", ";;;"]
)
def test_garbage_is_a_page_with_an_error(origin: str, query: str) -> None:
    """It never fails inside."""
    answer = get(f"{origin}/authorize?{query}")
    assert answer.status_code == 400
    assert "<h1>" in answer.text


@pytest.mark.parametrize("verb", ["PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/authorize", "/token", "/register", "/revoke"])
def test_other_verbs_are_refused(origin: str, verb: str, path: str) -> None:
    """RFC 9110 section 15.5.6."""
    answer = httpx.request(verb, origin + path, trust_env=False)
    assert answer.status_code == 405
    assert "POST" in answer.headers["allow"]


def test_a_request_can_be_changed_by_nobody_on_its_way_through_the_form(origin: str) -> None:
    """What the user saw is what is granted: each field of the form is under its mark."""
    flow = program(origin, scope="notes:read")
    with Visitor() as visitor:
        page = visitor.open(flow.url())
        for name, value in {
            "scope": "notes:read notes:write",
            "redirect_uri": "http://127.0.0.1:1/callback",
            "code_challenge": challenge("another verifier, of another client"),
            "state": "another",
        }.items():
            answer = visitor.send(page, username="editor", password="correct horse", **{name: value})
            assert answer.status_code == 403
            assert "location" not in answer.headers
