"""The example's users, with a store that lasts: a file for each record, below the folder in SHELF."""

import os
import time
from pathlib import Path

from mcpkit import App, Principal
from mcpkit.auth import AuthorizationServer

SHELF = Path(os.environ["SHELF"])


class FileStore:
    def _path(self, name: str) -> Path:
        return SHELF / name.encode().hex()

    async def get(self, name: str) -> bytes | None:
        try:
            expiry, _, value = self._path(name).read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        return value if float(expiry) > time.time() else None

    async def put(self, name: str, value: bytes, ttl: float) -> None:
        self._path(name).write_bytes(b"%f\n" % (time.time() + ttl) + value)

    async def delete(self, name: str) -> bool:
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            return False
        return True


def users(username: str, password: str) -> str | None:
    return username if password == "correct horse" else None


app = App(
    "durable",
    store=FileStore(),
    auth=AuthorizationServer(users, scopes={"notes:read": "", "notes:write": ""}),
)


@app.tool
def whoami(user: Principal) -> str:
    return user.id
