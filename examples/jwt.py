"""A tool for those who have a signed token (a JWT) from an issuer that the server trusts.

Serve it:   mcpkit run examples/jwt.py --transport http
Call it:    mcpkit call http://127.0.0.1:8000/mcp whoami --header Authorization="Bearer TOKEN"

With JWKS_URL in the environment, tokens are checked with the keys that the issuer publishes there, as Keycloak, Auth0
and Entra ID do. Without it, with the secret in JWT_SECRET, which the issuer shares.

A token is good for the URL that the client uses ("aud"), until it expires ("exp"); "sub" says whose it is, "scope" what
it may do.
"""

import os

from mcpkit import App, Principal
from mcpkit.auth import JWTAuth

ISSUER = os.environ.get("JWT_ISSUER")
SECRET = os.environ.get("JWT_SECRET", "for trying out only: 32 bytes or more")

if "JWKS_URL" in os.environ:
    auth = JWTAuth(jwks_url=os.environ["JWKS_URL"], algorithms=["RS256", "ES256"], issuer=ISSUER)
else:
    auth = JWTAuth(secret=SECRET, algorithms=["HS256"], issuer=ISSUER)

app = App("whoami", auth=auth)


@app.tool(read_only=True)
def whoami(caller: Principal) -> str:
    """Who calls, and what they may do."""
    return f"{caller} may: {', '.join(caller.scopes) or 'nothing in particular'}"


@app.tool(scopes=["admin"], destructive=True)
def restart(caller: Principal) -> str:
    """For administrators."""
    return f"{caller} has restarted it."


if __name__ == "__main__":
    app.run("http")
