"""What the user sees: who asks for what, a form to sign in and allow it, and errors.

Rule 1. Everything that is put into a page is escaped, in `_fill`; the templates are constants.
Rule 2. A page loads nothing and runs nothing: `default-src 'none'`, and its one style is known by its hash. It cannot
        be framed, and its base cannot be moved.
Rule 3. There is no `form-action`. Chrome and Safari apply it to every redirect that follows on a form, also where the
        client's own page goes on to, which may be a private-use scheme (https://claude.ai on to claude:): no list of
        sources holds for all of them, and what it would prevent, a form that a stranger has put into the page,
        Rule 1 does.

Source: RFC 9700 sections 4.2 and 4.16; RFC 6819 section 5.2.4; WCAG 2.2.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from string import Template

from msgspec import Struct

from mcpkit.transports.http import Exchange, HeaderList

_STYLE = """
:root { color-scheme: light dark; --ground: #f2f4f7; --paper: #fff; --text: #15181e; --soft: #555c68; --line: #c3c8d0;
  --accent: #1d4ed8; --on-accent: #fff; --bad: #b3140f }
@media (prefers-color-scheme: dark) { :root { --ground: #111318; --paper: #1c1f25; --text: #eceff4; --soft: #a9b0bd;
  --line: #4a505b; --accent: #8fb4ff; --on-accent: #10131a; --bad: #ff9d96 } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; line-height: 1.5;
  font-family: system-ui, sans-serif; background: var(--ground); color: var(--text) }
main { width: 100%; max-width: 27rem; padding: 1.75rem; border: 1px solid var(--line); border-radius: .75rem;
  background: var(--paper); overflow-wrap: anywhere }
h1 { margin: 0 0 1rem; font-size: 1.3rem; line-height: 1.3 }
dl { margin: 0 0 1rem; padding: .75rem 1rem; border: 1px solid var(--line); border-radius: .5rem }
dt { font-size: .85rem; color: var(--soft) }
dd { margin: 0 0 .5rem; font-weight: 600 }
dd:last-child { margin: 0 }
ul { margin: .25rem 0 1rem; padding-left: 1.25rem }
label { display: block; margin-top: .75rem; font-weight: 600 }
input { width: 100%; margin-top: .25rem; padding: .6rem .7rem; font: inherit; color: inherit; border-radius: .4rem;
  background: transparent; border: 1px solid var(--soft) }
button { flex: 1 1 auto; padding: .65rem 1rem; font: inherit; font-weight: 600; border-radius: .4rem; cursor: pointer;
  border: 1px solid var(--accent); color: var(--accent); background: transparent }
button.main { color: var(--on-accent); background: var(--accent) }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px }
.buttons { display: flex; flex-wrap: wrap; gap: .75rem; margin-top: 1.25rem }
.problem { margin: 0 0 1rem; padding: .6rem .8rem; border-left: .25rem solid var(--bad); color: var(--bad) }
.note { margin: 1rem 0 0; font-size: .85rem; color: var(--soft) }
"""

_FRAME = Template(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
$content
</main>
</body>
</html>
"""
)

_CONSENT = Template(
    """<h1>$name asks for access to $server</h1>
$problem<dl>
<dt>Published by</dt><dd>$host</dd>
<dt>Sends you on to</dt><dd>$target</dd>
</dl>
$scopes<form method="post" action="$action">
$hidden<label for="username">User name</label>
<input id="username" name="username" autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="256"
 value="$username" required$described$focus_username>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="1024"
 required$described$focus_password>
<div class="buttons">
<button class="main" name="decision" value="allow">Sign in and allow</button>
<button name="decision" value="deny" formnovalidate>Deny</button>
</div>
</form>
<p class="note">Allow this only if you have just started it yourself, in a program that you know.</p>"""
)

_ERROR = Template("""<h1>This cannot go on</h1>\n<p>$text</p>\n<p class="note">$remedy</p>""")

_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS: HeaderList = (
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; frame-ancestors 'none'".encode(),
    ),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


class Consent(Struct):
    """What the page shows. `client_host` is None when nobody but the client itself says who it is. `hidden` are the
    fields that come back with the form.
    """

    server: str
    client_name: str
    client_host: str | None
    target: str
    scopes: Sequence[str]
    action: str
    hidden: Mapping[str, str]
    username: str = ""
    problem: str | None = None


def consent(page: Consent) -> bytes:
    """The page that signs in and asks."""
    name = page.client_name or page.client_host or "A program"
    described = ' aria-describedby="problem" aria-invalid="true"' if page.problem else ""
    content = _fill(
        _CONSENT,
        markup={
            "problem": _if(
                page.problem, Template('<p class="problem" id="problem" role="alert">$text</p>\n')
            ),
            "scopes": _scopes(page.scopes),
            "hidden": "".join(
                _fill(Template('<input type="hidden" name="$name" value="$value">\n'), name=key, value=value)
                for key, value in page.hidden.items()
            ),
            "described": described,
            "focus_username": "" if page.username else " autofocus",
            "focus_password": " autofocus" if page.username else "",
        },
        name=name,
        server=page.server,
        host=page.client_host or "not known: it has chosen its name itself",
        target=page.target,
        action=page.action,
        username=page.username,
    )
    return _page(f"{name} asks for access", content)


def error(text: str, remedy: str) -> bytes:
    """A page that says what is wrong and what to do."""
    return _page("This cannot go on", _fill(_ERROR, text=text, remedy=remedy))


async def show(
    exchange: Exchange, status: int, page: bytes, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Answer with a page."""
    await exchange.respond(status, [*_HEADERS, *headers], page)


def _scopes(scopes: Sequence[str]) -> str:
    if not scopes:
        return ""
    items = "".join(_fill(Template("<li>$text</li>\n"), text=scope) for scope in scopes)
    return f"<p>It will be able to:</p>\n<ul>\n{items}</ul>\n"


def _if(text: str | None, template: Template) -> str:
    return _fill(template, text=text) if text else ""


def _page(title: str, content: str) -> bytes:
    return _fill(_FRAME, markup={"style": _STYLE, "content": content}, title=title).encode()


def _fill(template: Template, markup: Mapping[str, str] | None = None, **text: str) -> str:
    """The template with text, which is escaped, and with markup of ours, which is not."""
    return template.substitute({name: escape(value) for name, value in text.items()}, **(markup or {}))
