"""The example, for clients on this machine that are described by a document."""

from mcpkit import App, Principal
from mcpkit.auth import AuthorizationServer


def users(username: str, password: str) -> str | None:
    return username if password == "correct horse" else None


app = App("documents", auth=AuthorizationServer(users, allow_loopback_clients=True, register=False))


@app.tool
def whoami(user: Principal) -> str:
    return user.id
