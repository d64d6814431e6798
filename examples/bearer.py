"""A notebook for those who have a token. What they may do is up to them: Ann writes, Bob only reads.

Serve it:   mcpkit run examples/bearer.py --transport http
Read:       mcpkit call http://127.0.0.1:8000/mcp read --header Authorization="Bearer bobs-token"
Write:      mcpkit call http://127.0.0.1:8000/mcp write text=milk --header Authorization="Bearer anns-token"

Tokens are secrets: take them from the environment, or from wherever yours are kept. Here only their hashes are looked
up, so that neither memory nor the time that a look-up takes tells anything of them.
"""

import hashlib
import os

from mcpkit import App, Principal
from mcpkit.auth import BearerAuth


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


known = {
    digest(os.environ.get("ANNS_TOKEN", "anns-token")): Principal("Ann", scopes=("write",)),
    digest(os.environ.get("BOBS_TOKEN", "bobs-token")): Principal("Bob"),
}
app = App("notebook", auth=BearerAuth(lambda token: known.get(digest(token))))
notes: list[str] = ["Welcome."]


@app.tool(read_only=True)
def read() -> str:
    """All notes."""
    return "\n".join(notes)


@app.tool(scopes=["write"])
def write(text: str, caller: Principal) -> str:
    """Add a note under the caller's name. Who may not is not even shown this tool."""
    notes.append(f"{caller}: {text}")
    return f"There are {len(notes)} notes."


if __name__ == "__main__":
    app.run("http")
