"""Tools that stand in a database: each saved report is a tool, and appears as soon as it is saved.

Try it:      mcpkit call examples/manual.py sales region=north
Serve it:    mcpkit run examples/manual.py

With REPORTS_DB=reports.db it keeps them in a file. Nothing in this script knows which reports there are: a `Provider`
looks them up for each list and each call.
"""

import os
import re
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import Annotated, Any

from mcpkit import App, NotFound, Param, Provider, SyncContext, ToolError
from mcpkit.protocol.types import Tool, ToolAnnotations

app = App("reports", instructions="Runs saved reports, and saves new ones.")
PATH = os.environ.get("REPORTS_DB", "file:reports?mode=memory&cache=shared")


def connect() -> sqlite3.Connection:
    return sqlite3.connect(PATH, uri=PATH.startswith("file:"))


@contextmanager
def opened() -> Generator[sqlite3.Connection]:
    """A connection for one piece of work, in whatever thread it is done."""
    with closing(connect()) as connection, connection:
        yield connection


database = connect()  # which keeps a database in memory alive
database.executescript(
    """
    CREATE TABLE IF NOT EXISTS sale (region TEXT, item TEXT, amount REAL);
    CREATE TABLE IF NOT EXISTS report (name TEXT PRIMARY KEY, about TEXT, query TEXT);
    """
)
if not database.execute("SELECT count(*) FROM report").fetchone()[0]:
    database.executemany(
        "INSERT INTO sale VALUES (?, ?, ?)",
        [("north", "tea", 3.5), ("north", "rice", 2), ("south", "tea", 7)],
    )
    database.execute(
        "INSERT INTO report VALUES ('sales', 'Sales of a region.', "
        "'SELECT item, amount FROM sale WHERE region = :region')"
    )
    database.commit()


def parameters(query: str) -> list[str]:
    """The `:names` in a query."""
    return list(dict.fromkeys(re.findall(r":(\w+)", query)))


class Reports(Provider):
    """Each row of the table `report` as a tool. Plain `def`s run in a worker thread, so the database may block."""

    def list_tools(self, ctx: SyncContext) -> Iterator[Tool]:
        with opened() as reader:
            for name, about, query in reader.execute("SELECT name, about, query FROM report ORDER BY name"):
                names = parameters(query)
                schema = {
                    "type": "object",
                    "properties": {name: {"type": "string"} for name in names},
                    "required": names,
                }
                yield Tool(name, schema, description=about, annotations=ToolAnnotations(read_only_hint=True))

    def call_tool(self, ctx: SyncContext, name: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        with opened() as reader:
            row = reader.execute("SELECT query FROM report WHERE name = ?", [name]).fetchone()
            if row is None:
                raise NotFound
            missing = [name for name in parameters(row[0]) if name not in arguments]
            if missing:
                raise ToolError(f"The report needs {', '.join(missing)}.")
            reader.row_factory = sqlite3.Row
            reader.execute("PRAGMA query_only = ON")
            return [dict(found) for found in reader.execute(row[0], arguments)]


app.add_provider(Reports())


@app.tool
def save_report(
    name: Annotated[str, Param("Its name as a tool", pattern="^[a-z][a-z0-9_]{0,40}$")],
    about: str,
    query: Annotated[str, Param("One SELECT, with :names for what is asked each time")],
) -> str:
    """Save a report; from then on it is a tool."""
    try:
        with opened() as writer:
            writer.execute(f"EXPLAIN {query}", dict.fromkeys(parameters(query)))
            writer.execute("INSERT OR REPLACE INTO report VALUES (?, ?, ?)", [name, about, query])
    except sqlite3.Error as error:
        raise ToolError(f"That is no query: {error}.") from error
    app.notifier.tools_changed()
    return f"Saved {name}."


if __name__ == "__main__":
    app.run()
