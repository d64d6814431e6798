"""The variant `many` of the golden corpus's reference server (`fixtures/README.md`): lists of two pages.

Run it with `mcpkit run tests/corpus/many.py:many`.
"""

from __future__ import annotations

from mcpkit import App

many = App("many")


def one_of_many(app: App, number: int) -> None:
    """The tool, resource, template and prompt with this number."""
    tool, resource, template, prompt = (
        f"{kind}_{number:04}" for kind in ("tool", "resource", "template", "prompt")
    )
    app.tool(name=tool, description=tool)(lambda: tool)
    app.resource(f"many://{number:04}", name=resource, description=resource, mime_type="text/plain")(
        lambda: resource
    )
    app.resource(f"many{number:04}://{{part}}", name=template, description=template, mime_type="text/plain")(
        lambda part: template
    )
    app.prompt(name=prompt, description=prompt)(lambda: prompt)


for number in range(1001):
    one_of_many(many, number)
