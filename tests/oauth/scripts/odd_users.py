"""Users of all sorts, most of them wrong."""

from typing import Any

from mcpkit import App, Principal
from mcpkit.auth import AuthorizationServer


async def users(username: str, password: str) -> Any:
    if username == "raises":
        return 1 // 0
    return {
        "name": "name",
        "true": True,
        "empty": "",
        "nameless": Principal(""),
        "object": Principal("object", value=object()),
    }.get(username)


app = App("odd", auth=AuthorizationServer(users, scopes={"a": "", "b": "Do b"}))
