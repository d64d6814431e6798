"""A folder of notes, each a resource: clients hear of notes that appear, change and vanish, whoever writes them.

Look at it:  mcpkit inspect examples/live.py
Serve it:    mcpkit run examples/live.py
Over HTTP:   mcpkit run examples/live.py --transport http

The notes are the files notes/*.md beside this script, or those in the folder that NOTES names. Write one with any
editor, or with the tool. With `pip install mcpkit[reload]` clients hear of it at once, else within half a second.
"""

import os
from pathlib import Path
from typing import Annotated

from mcpkit import App, NotFound, Param

NOTES = Path(os.environ.get("NOTES") or Path(__file__).with_name("notes")).absolute()

app = App("live notes", instructions="Each note is a resource. Subscribe to hear when one changes.")

Name = Annotated[str, Param("The note's name", max_length=100, pattern=r"^[^./\\\x00][^/\\\x00]*$")]
"""A name must not lead out of the folder, nor hide in it: it comes from the client."""


def listed() -> list[dict[str, str]]:
    """The notes there are, as values of the template."""
    return [{"name": path.stem} for path in sorted(NOTES.glob("[!.]*.md"))]


@app.resource("note://{name}", mime_type="text/markdown", list=listed)
def note(name: Name) -> str:
    """A note."""
    try:
        return (NOTES / f"{name}.md").read_text(encoding="utf-8")
    except OSError:
        raise NotFound(f"There is no note {name!r}.") from None


@app.tool(destructive=True, idempotent=True)
def write(name: Name, text: str) -> str:
    """Write a note; one of that name is replaced."""
    NOTES.mkdir(parents=True, exist_ok=True)
    (NOTES / f"{name}.md").write_text(text, encoding="utf-8")
    return f"{name} is written."


app.watch("note://{name}", NOTES / "{name}.md")

if __name__ == "__main__":
    app.run()
