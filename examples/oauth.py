"""Notes of a team. Users sign in on a page of this server, and say which clients may read or write for them.

Serve it:      mcpkit run examples/oauth.py --transport http            (at http://127.0.0.1:8000/mcp)
Register it:   mcpkit install --url http://127.0.0.1:8000/mcp --name team-notes

The client opens the page: sign in as "editor" or as "guest", with the password "correct horse".

On a network, serve it with TLS: --certfile and --keyfile, or behind a proxy that is named with --trusted-proxy.
"""

import hashlib
import hmac
import os

from mcpkit import App, Principal
from mcpkit.auth import AuthorizationServer

SCOPES = {"notes:read": "Read the team's notes", "notes:write": "Write and change the team's notes"}
ALLOWED = {"editor": ("notes:read", "notes:write"), "guest": ("notes:read",)}


def scrypt(password: str, salt: bytes) -> bytes:
    """What is kept of a password. It takes its time on purpose: about 50 ms."""
    return hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1)


# A real list comes from a file or a database, and holds no password in clear text.
passwords: dict[str, tuple[bytes, bytes]] = {}
for user in ALLOWED:
    some_salt = os.urandom(16)
    passwords[user] = some_salt, scrypt("correct horse", some_salt)
nobody = os.urandom(16), os.urandom(64)


def check_password(username: str, password: str) -> Principal | None:
    """Who signs in. It takes the same time whether there is such a user or not."""
    salt, kept = passwords.get(username, nobody)
    if not hmac.compare_digest(scrypt(password, salt), kept):
        return None
    return Principal(username, ALLOWED[username])


app = App(
    "team-notes",
    auth=AuthorizationServer(check_password, scopes=SCOPES, required_scopes=["notes:read"]),
)
notes: dict[str, tuple[str, str]] = {}


@app.tool(read_only=True)
def read(name: str) -> str:
    """Read a note."""
    text, writer = notes.get(name, ("", "nobody"))
    return f"{text} (from {writer})"


@app.tool(scopes=["notes:write"])
def write(name: str, text: str, user: Principal) -> str:
    """Keep a note."""
    notes[name] = text, user.id
    return f"Kept {name} for {user}."


@app.tool(read_only=True)
def whoami(user: Principal) -> str:
    """Who you are here, and what you may do."""
    return f"{user}: {' '.join(user.scopes)}"


if __name__ == "__main__":
    app.run("http", port=int(os.environ.get("PORT", "8000")))
