"""A tool for those whose token is good in the eyes of its issuer, which is asked (RFC 7662).

Serve it:   INTROSPECTION_URL=https://id.example.com/introspect CLIENT_ID=mcp CLIENT_SECRET=... \\
                mcpkit run examples/introspection.py --transport http
Call it:    mcpkit call http://127.0.0.1:8000/mcp whoami --header Authorization="Bearer TOKEN"

The issuer's answer is kept for a minute, and not beyond the token's own end. While the issuer cannot be reached clients
are told to come back (503), instead of to log in again.
"""

import os

from mcpkit import App, Principal
from mcpkit.auth import IntrospectionAuth

auth = IntrospectionAuth(
    os.environ.get("INTROSPECTION_URL", "http://127.0.0.1:9000/introspect"),
    client_id=os.environ.get("CLIENT_ID", "mcp"),
    client_secret=os.environ.get("CLIENT_SECRET", "secret"),
    cache_ttl=60,
    required_scopes=["notes"],
)
app = App("whoami", auth=auth)


@app.tool(read_only=True)
def whoami(caller: Principal) -> str:
    """Who calls, and through which program."""
    return f"{caller}, with {caller.claims.get('client_id', 'some program')}"


if __name__ == "__main__":
    app.run("http")
