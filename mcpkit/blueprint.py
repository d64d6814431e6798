"""Parts of an application that are written in other modules."""

from __future__ import annotations

from mcpkit.scaffold import Scaffold


class Blueprint(Scaffold):
    """A set of tools, resources and prompts to register with an app: `app.register(github)`.

    A tool `search` of `Blueprint("github")` becomes `github_search`. What is decorated after that is an
    error.
    """
