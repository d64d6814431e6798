"""A tool for programs. Each has an id and a secret, which it changes for a token now and then (RFC 6749, section 4.4).

Serve it:   mcpkit run examples/client_credentials.py --transport http
Token:      curl -s -u nightly:its-secret -d grant_type=client_credentials http://127.0.0.1:8000/token
Call it:    mcpkit call http://127.0.0.1:8000/mcp report --header Authorization="Bearer ACCESS_TOKEN"

Libraries do that by themselves: they find the token endpoint from the server's metadata.
"""

import os

from mcpkit import App, Principal
from mcpkit.auth import ClientCredentialsAuth

secrets = {
    "nightly": os.environ.get("NIGHTLY_SECRET", "its-secret"),
    "release": os.environ.get("RELEASE_SECRET", "another-secret"),
}
scopes = {"nightly": ["read"], "release": ["read", "publish"]}
app = App("builds", auth=ClientCredentialsAuth(secrets, token_ttl=3600, scopes=scopes))


@app.tool(scopes=["read"], read_only=True)
def report() -> str:
    """The state of the builds."""
    return "All is green."


@app.tool(scopes=["publish"])
def publish(version: str, caller: Principal) -> str:
    """Publish a version."""
    return f"{version} is published by {caller}."


if __name__ == "__main__":
    app.run("http")
