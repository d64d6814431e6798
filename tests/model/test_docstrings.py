"""Docstrings: what becomes a tool's description and its parameters' descriptions."""

import inspect
import textwrap
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit.docstrings import Doc, parse


def doc(text: str) -> Doc:
    """Parse a docstring as it stands in a function's source."""
    return parse(textwrap.indent(text, "    ").lstrip(" "))


GOOGLE = """Daily forecast for a city.

    It looks: far ahead.

    Args:
        city: City name or post code.
        days (int, optional): Days ahead,
            at most 7.
        units (Literal["a", "b(c)"] | None) : Which units.

            The default follows the city.
        *rest: More cities.
        **options (Any): Anything else: really
        silent:
        `quoted`: In backticks.

    Returns:
        city: not a parameter
    """

NUMPY = """Daily forecast for a city.

    It looks: far ahead.

    Parameters
    ----------
    city : str
        City name or post code.
    days, hours : int, optional
        Time ahead,
        at most 7.

        Zero is now.
    units: {'a', 'b'}
        Which units.
    *rest
        More cities.
    **options : dict
        Anything else.
    silent : int

    Returns
    -------
    city : str
        not a parameter

    Notes
    -----
    Something.
    """

SPHINX = """Daily forecast for a city.

    It looks: far ahead.

    :param city: City name or post code.
    :type city: str
    :param int days: Days ahead,
        at most 7.

        Zero is now.
    :parameter dict[str, int] units: Which: units.
    :arg \\*rest: More cities.
    :keyword **options: Anything else.
    :param :class:`Path` path: A file.
    :param silent:
    :returns: city: not a parameter
    :raises ValueError: if there is no city
    """


def test_google_sections_are_read() -> None:
    """DESIGN 4.2: parameter descriptions from the docstring's ``Args:``."""
    assert parse(GOOGLE) == Doc(
        "Daily forecast for a city.\n\nIt looks: far ahead.",
        {
            "city": "City name or post code.",
            "days": "Days ahead, at most 7.",
            "units": "Which units.\nThe default follows the city.",
            "rest": "More cities.",
            "options": "Anything else: really",
            "quoted": "In backticks.",
        },
    )


def test_numpy_sections_are_read() -> None:
    """DESIGN 4.2: NumPy style."""
    assert parse(NUMPY) == Doc(
        "Daily forecast for a city.\n\nIt looks: far ahead.",
        {
            "city": "City name or post code.",
            "days": "Time ahead, at most 7.\nZero is now.",
            "hours": "Time ahead, at most 7.\nZero is now.",
            "units": "Which units.",
            "rest": "More cities.",
            "options": "Anything else.",
        },
    )


def test_sphinx_fields_are_read() -> None:
    """DESIGN 4.2: Sphinx style."""
    assert parse(SPHINX) == Doc(
        "Daily forecast for a city.\n\nIt looks: far ahead.",
        {
            "city": "City name or post code.",
            "days": "Days ahead, at most 7.\nZero is now.",
            "units": "Which: units.",
            "rest": "More cities.",
            "options": "Anything else.",
            "path": "A file.",
        },
    )


@pytest.mark.parametrize("docstring", [None, "", " ", "\n\n", "\t\n  \n", "\r\n"])
def test_a_missing_docstring_says_nothing(docstring: str | None) -> None:
    """DESIGN 4.2: with none, no description."""
    assert parse(docstring) == Doc("", {})


@pytest.mark.parametrize(
    "text",
    [
        "One line.",
        "Two\nlines.",
        "Note: this is prose.\n\nSo: is this",
        "Returns: a list of cities.",
        "Give it the following\nargs:\n\n    a, b",
        "The arguments are these.\n\nExample:\n    Args:\n        x: not a parameter",
        "Title\n-----\nText under a heading that is not about parameters.",
        "Parameters\n\n----------",
        "Summary.\n\nArgs:\nNothing is indented here.",
        "Summary.\n\nArgs:\n\nNotes:\n    More.",
        "Returns:\n- a list",
        ":class:`Path` is what it takes.",
        ":param is how Sphinx begins.",
        "Time is 12:30:45",
        "Examples:\n    >>> f(1)\n    1\n\nNotes:\n    More.",
        "Parameters and more\n-------------------",
    ],
)
def test_prose_survives_whole(text: str) -> None:
    """DESIGN 4.2: the description is the docstring; only what is certainly a section is cut off."""
    assert doc(text) == Doc(text, {})


@pytest.mark.parametrize(
    "section",
    [
        "Args:\n    x: text",
        "Arguments:\n\n    x: text",
        "Parameters:\n    x: text",
        "Keyword Args:\n    x: text",
        "Args:   \n    x: text",
        "Returns:\n    A list.",
        "Raises:\n    ValueError: if it is late",
        "Yields:\n    int: numbers",
        "Parameters\n----------\nx : int\n    text",
        "Other Parameters\n----------------\nx\n    text",
        "Returns\n-------\nint",
        "Yields\n------\nint",
        "Raises\n------\nValueError",
        ":param x: text",
        ":returns: a list",
        ":return: a list",
        ":rtype: int",
        ":raises ValueError: if it is late",
        ":type x: int",
    ],
)
@pytest.mark.parametrize("gap", ["\n\n", "\n"])
def test_the_summary_ends_at_the_first_section(section: str, gap: str) -> None:
    """Rule 1 of the module: parameters and results are not description; examples before them are."""
    before = "Summary.\n\nExamples:\n    >>> f(1)"
    parsed = doc(f"{before}{gap}{section}\n\nNotes\n-----\nLeft out.")
    assert parsed.summary == before
    assert parsed.params in ({}, {"x": "text"})
    assert bool(parsed.params) is ("x: text" in section or "text" in section.splitlines()[-1])


def test_parameters_are_found_after_the_results() -> None:
    """Rule 1 of the module: the order of the sections is free."""
    parsed = doc("Summary.\n\nReturns:\n    A list.\n\nArgs:\n    x: text\n\nKeyword Args:\n    y: more")
    assert parsed == Doc("Summary.", {"x": "text", "y": "more"})


def test_a_docstring_may_begin_with_its_parameters() -> None:
    """DESIGN 4.2: the description is the docstring up to ``Args:``, here nothing."""
    assert parse("\n    Args:\n        x: text\n    ") == Doc("", {"x": "text"})
    assert doc("Args:\n    x: text\n        more") == Doc("", {"x": "text more"})
    assert doc("Args:\n    x: text\n\nReturns:\n    A list.") == Doc("", {"x": "text"})
    assert parse(":param x: text") == Doc("", {"x": "text"})


def test_the_styles_may_be_mixed() -> None:
    """Rule 2 of the module: each section is recognized by itself."""
    parsed = doc(
        "Args:\n    a: one\n\nParameters\n----------\nb : int\n    two\n:param c: three\nArgs:\n    d: four"
    )
    assert parsed.params == {"a": "one", "b": "two", "c": "three", "d": "four"}


@pytest.mark.parametrize(
    ("section", "params"),
    [
        ("Args:\n    x:\n        Below.\n    y:  Beside.", {"x": "Below.", "y": "Beside."}),
        ("Args:\n    x: one\n    goes on here\n    y: two", {"x": "one goes on here", "y": "two"}),
        ("Args:\n    - x: one\n    * y (int): two", {"x": "one", "y": "two"}),
        ("Args:\n    **x** (int): one\n    ``y``: two", {"x": "one", "y": "two"}),
        ("Args:\n    x, y (int): both", {"x": "both", "y": "both"}),
        ("Args:\n    x (int: text\n    y: two", {"y": "two"}),
        ("Args:\n    x (Callable[[int], str]): one", {"x": "one"}),
        ("Args:\n    x (tuple(int, (str)), optional): one", {"x": "one"}),
        ("Args:\n    x: {'a': 1}\n    größe: groß", {"x": "{'a': 1}", "größe": "groß"}),
        ("Args:\n    x: first\n    x: second", {"x": "first"}),
        ("Args:\n    nothing to see\n    x: one", {"x": "one"}),
        ("Args:\n  x: one\n    more\n  y: two\nProse.\n  z: no", {"x": "one more", "y": "two"}),
        ("Args:\n\tx: one\n\t\tmore", {"x": "one more"}),
        ("Args:\r\n    x: one\r\n        more\r\n", {"x": "one more"}),
        ("Parameters\n----------\n    x : int\n        one", {"x": "one"}),
        ("Parameters\n----------\nx : int\nThe value.", {"x": "The value."}),
        ("Parameters\n----------\nx : int\n    one\n\nSee Also\n--------\ny : func\n    no", {"x": "one"}),
        ("Parameters:\n-----------\nx : int\n    one", {"x": "one"}),
        (":param x: one\n    more\nProse.\n:param y: two", {"x": "one more", "y": "two"}),
        (":param x:one\n:param : none\n:param: none\n:param y", {"x": "one"}),
        (":param x:\n    Below.", {"x": "Below."}),
    ],
)
def test_the_ways_people_write_parameters_are_read(section: str, params: dict[str, str]) -> None:
    """DESIGN 4.2: Google, NumPy and Sphinx styles, as they are found."""
    assert parse(f"Summary.\n\n{section}").params == params


def test_the_summary_is_dedented_and_stripped() -> None:
    """PEP 257: the indentation of the source is not part of the text; that of a code block is."""
    parsed = parse("\n\n        Summary.\n\n            code\n\n        More.\n\n    ")
    assert parsed.summary == "Summary.\n\n    code\n\nMore."


PIECES = [
    *[
        "Args:",
        "Returns:",
        "Parameters",
        "----------",
        "Returns",
        "-------",
        ":param x: y",
        ":returns:",
        ":param",
    ],
    *[
        "x: y",
        "x (int): y",
        "x (((",
        "x : int",
        "**k",
        "- x",
        "a, b",
        ",",
        "`",
        "\\",
        ":",
        "::",
        "\ud800",
        "é",
        "\0",
    ],
    *["\n", "\n", "\n\n", "    ", "    ", "\t", " ", "\r", "\x0b", "\x0c", "\x85", "\u2028"],
]
unhurried = settings(deadline=None)  # a slow machine is no failure


@unhurried
@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_text_is_read(text: str) -> None:
    """A docstring is never a reason to refuse a function; a description is never empty or indented."""
    summary, params = parse(text)
    assert inspect.cleandoc(text).strip().replace("\r", "\n").startswith(summary) or "\r" in text
    assert all(value and value == value.strip() and "\n\n" not in value for value in params.values())


words = st.from_regex(r"[a-z]+( [a-z]+){0,5}", fullmatch=True)
names = st.from_regex(r"[a-z_][a-z0-9_]*", fullmatch=True)


def google(params: dict[str, str]) -> str:
    return "Args:\n" + "".join(f"    {name} (int): {text}\n" for name, text in params.items())


def numpy(params: dict[str, str]) -> str:
    return "Parameters\n----------\n" + "".join(
        f"{name} : int\n    {text}\n" for name, text in params.items()
    )


def sphinx(params: dict[str, str]) -> str:
    return "".join(f":param int {name}: {text}\n" for name, text in params.items())


@unhurried
@given(words, st.dictionaries(names, words, min_size=1), st.sampled_from([google, numpy, sphinx]), st.data())
def test_what_is_written_is_read_in_each_style(
    summary: str, params: dict[str, str], style: object, data: st.DataObject
) -> None:
    """DESIGN 4.2: the three styles say the same."""
    assert callable(style)
    text = f"{summary}\n\n{style(params)}"
    assert parse(text) == doc(text) == Doc(summary, params)


MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    "unit",
    [
        *["\n", " ", "\t", " \n", "x", "x\n", "(", ":", "-", "*", "`", ",", "x,", ": "],
        *[
            "Args:\n",
            "Args:\n\n",
            "Args:\n    x (",
            "Args:\n    x: y\n",
            "Args:\n   x\n",
            "Args:\n x" + " " * 99,
        ],
        *["Parameters\n-----\n", "x\n---\n", "Parameters\n---\nx : int\n", "Parameters\n---\nArgs:\n\n"],
        *[":param x: y\n", ":param ", ":param :", ":param x:\n\n", ":param x" + " " * 99],
    ],
)
@pytest.mark.parametrize("start", ["", "Args:\n    ", "Parameters\n----\n", ":param x", "Args:\n    x ("])
def test_a_megabyte_is_read_in_linear_time(start: str, unit: str) -> None:
    """Rule 3 of the module; generated code has long docstrings. Quadratic time would be minutes."""
    text = start + unit * (MEGABYTE // len(unit) // 4)
    begin = time.perf_counter()
    parsed = parse(text)
    assert time.perf_counter() - begin < 5
    assert len(parsed.summary) <= len(text) * 8
