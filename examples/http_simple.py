"""The key-value store of simple.py, served over HTTP: all clients share what is kept.

Serve it:      python examples/http_simple.py            (at http://127.0.0.1:8000/mcp, or on the port in PORT)
Try it:        mcpkit call http://127.0.0.1:8000/mcp remember key=colour value=green
Register it:   mcpkit install --url http://127.0.0.1:8000/mcp
"""

import os

from mcpkit import App, ToolError

app = App("notes")
notes: dict[str, str] = {}


@app.tool
def remember(key: str, value: str) -> str:
    """Keep a value under a key."""
    notes[key] = value
    return f"{key} is kept."


@app.tool(read_only=True)
def recall(key: str) -> str:
    """The value that is kept under a key."""
    if key not in notes:
        raise ToolError(f"Nothing is kept under {key}.")
    return notes[key]


if __name__ == "__main__":
    app.run("http", port=int(os.environ.get("PORT", "8000")))
