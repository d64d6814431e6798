"""A key-value store in which a model remembers things: the smallest useful server.

Try it:      mcpkit call examples/simple.py remember key=colour value=green
Serve it:    mcpkit run examples/simple.py
"""

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
    app.run()
