"""`mcpkit call` answers what a tool asks: in the terminal, from `--answer`, or not at all."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import SECONDS

from mcpkit.cli.ask import read

SCRIPT = Path(__file__).with_name("booth.py")


def command(tool: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "mcpkit", "call", str(SCRIPT), tool, *options]


def call(tool: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Call without a terminal."""
    return subprocess.run(
        command(tool, *options), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
    )


class Terminal:
    """A person's terminal: standard input and standard error of a process; standard output goes elsewhere."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.shown = ""
        self._master = master
        self._read = 0

    def expect(self, text: str) -> None:
        """Wait until a text is shown, after what was expected before."""
        while (found := self.shown.find(text, self._read)) < 0:
            ready, _, _ = select.select([self._master], [], [], SECONDS)
            assert ready, f"{text!r} is not shown:\n{self.shown}"
            self.shown += os.read(self._master, 4096).decode().replace("\r\n", "\n")
        self._read = found + len(text)

    def type(self, text: str) -> None:
        """Type a line, or what `text` holds instead: ctrl-d, ctrl-c."""
        os.write(self._master, (text if text in ("\x04", "\x03") else text + "\n").encode())

    def interrupt(self) -> None:
        """Ctrl-c; once more when the first came just before the process began to read, and waits for a line."""
        while self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)

    def result(self) -> tuple[int, str]:
        """The exit code, and what went to standard output."""
        output, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, output.decode()


@contextmanager
def terminal(tool: str, *options: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command(tool, *options), stdin=slave, stdout=subprocess.PIPE, stderr=slave, start_new_session=True
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        os.close(master)


# -- In the terminal -----------------------------------------------------------------------------------------


def test_a_form_is_filled_in_field_by_field() -> None:
    """Descriptions, choices with titles, defaults; what does not fit is asked again, and says why. What would steer
    the terminal is not shown. Only the result is on standard output.
    """
    with terminal("order") as person:
        person.expect("What do you want??[31m")
        person.expect("Your name: Who orders\n  text: ")
        person.type("")
        person.expect("Your name is needed")
        person.type("Ada")
        person.expect("count: How many\n  integer from 1 up to 9: ")
        person.type("many")
        person.expect("count is no integer")
        person.type("12")
        person.expect("count is not at least 1 and at most 9")
        person.type("3")
        person.expect("size\n  1) s - Small\n  2) l - Large\n  number [s]: ")
        person.type("3")
        person.expect("size is not one of s, l")
        person.type("2")
        person.expect("toppings\n  1) s\n  2) l\n  numbers, with commas between: ")
        person.type("")  # it may be left out, and the type has its own default
        person.expect("gift\n  y/n [n]: ")
        person.type("maybe")
        person.expect("gift is no boolean")
        person.type("yes")
        person.expect("weight\n  number [1.5]: ")
        person.type("")
        person.expect("day\n  date: ")
        person.type("tomorrow")
        person.expect("day is no date")
        person.type("2030-01-02")
        code, output = person.result()
    assert code == 0
    assert output == (
        "Accepted(value=Order(name='Ada', count=3, size=<Size.large: 'l'>, toppings=[<Size.large: 'l'>], gift=True, "
        "weight=1.5, day=datetime.date(2030, 1, 2)))\n"
    )


def test_the_end_of_input_cancels() -> None:
    """Ctrl-d at any field."""
    with terminal("order") as person:
        person.expect("text: ")
        person.type("Ada")
        person.expect("up to 9: ")
        person.type("\x04")
        person.expect("cancelled")
        assert person.result() == (0, "Cancelled()\n")


def test_an_interrupt_ends_the_command() -> None:
    """Ctrl-c: exit code 130 as in a shell, and no traceback."""
    with terminal("order") as person:
        person.expect("text: ")
        person.interrupt()
        code, output = person.result()
        assert (code, output) == (130, "")
        assert "Traceback" not in person.shown


@pytest.mark.parametrize(("typed", "answer"), [("y", "Accepted(value=Agreed())"), ("No", "Declined()")])
def test_a_form_without_fields_is_agreed_to_or_not(typed: str, answer: str) -> None:
    """MRTR-10: declining is an answer."""
    with terminal("agree") as person:
        person.expect("Do you agree?\nAgree? [y/n]: ")
        person.type("what")
        person.expect("Agree? [y/n]: ")
        person.type(typed)
        assert person.result() == (0, f"{answer}\n")


def test_a_page_is_shown_and_not_opened() -> None:
    """S2C-10: a person sees where they go before they agree."""
    with terminal("visit") as person:
        person.expect("Pay here\n  https://example.com/pay\n")
        person.expect("[y/n]: ")
        person.type("y")
        assert person.result() == (0, "Accepted(value=None)\n")


def test_what_looks_like_a_secret_is_not_echoed() -> None:
    """ELI-05: a form should not ask for it; if it does, nothing of it is shown, also when it does not fit."""
    with terminal("login") as person:
        person.expect("user\n  text: ")
        person.type("ada")
        person.expect("password\n  text: ")
        person.type("xy")
        person.expect("password is not at least 3 characters\n  text: ")
        person.type("hunter2")
        assert person.result() == (0, "Accepted\n")
        assert "xy" not in person.shown
        assert "hunter2" not in person.shown


def test_several_questions_come_one_after_the_other() -> None:
    """A round with two forms."""
    with terminal("two") as person:
        person.expect("A?")
        person.type("y")
        person.expect("B?")
        person.type("n")
        assert person.result() == (0, "{'a': Accepted(value=Agreed()), 'b': Declined()}\n")


# -- Without one ---------------------------------------------------------------------------------------------


def test_answers_are_given_by_the_names_of_fields() -> None:
    """Choices by value, title or number; several with commas; what is left out has its default."""
    given = ("name=Ada", "count=3", "size=Large", "toppings=s,2", "gift=yes")
    done = call("order", *(word for pair in given for word in ("--answer", pair)))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "Accepted(value=Order(name='Ada', count=3, size=<Size.large: 'l'>, toppings=[<Size.small: 's'>, "
        "<Size.large: 'l'>], gift=True, weight=1.5, day=None))\n"
    )


def test_an_answer_that_does_not_fit_is_a_usage_error() -> None:
    """It is named, and not shown."""
    done = call("order", "--answer", "name=Ada", "--answer", "count=hunter2")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mcpkit: --answer count is no integer\n"


def test_a_form_with_an_answer_missing_is_cancelled() -> None:
    """The tool hears of it, and so does whoever called it."""
    done = call("order", "--answer", "name=Ada")
    assert (done.returncode, done.stdout) == (0, "Cancelled()\n")
    assert done.stderr.endswith("mcpkit: it needs --answer count=…\n")


def test_models_and_roots_are_answered_by_name() -> None:
    """They are declared only where they are given."""
    done = call("model", "--answer", "sampling=ho", "--answer", "roots=file:///x")
    assert "text='ho'" in done.stdout
    assert "uri='file:///x'" in done.stdout
    done = call("model", "--answer", "sampling=ho")
    assert "the client does not declare roots" in done.stdout


def test_without_answers_and_terminal_nothing_can_be_asked() -> None:
    """S2C-01: no capability is declared."""
    done = call("order")
    assert done.stdout == "Unavailable(reason='the client does not declare elicitation')\n"
    done = call("visit", "--answer", "x=y")
    assert done.stdout == "Unavailable(reason='the client does not declare elicitation.url')\n"


@pytest.mark.parametrize("option", ["name", "=Ada"])
def test_an_answer_has_a_name_and_a_value(option: str) -> None:
    """Usage errors have exit code 2."""
    done = call("order", "--answer", option)
    assert done.returncode == 2
    assert "is not name=value" in done.stderr


TITLED = {"type": "string", "oneOf": [{"const": "2", "title": "Two"}, {"const": "x", "title": "Ex"}]}


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("2", TITLED, "2"),
        ("Ex", TITLED, "x"),
        ("1", TITLED, "2"),
        ("x, Two", {"type": "array", "items": {"anyOf": TITLED["oneOf"]}}, ["x", "2"]),
        ("One", {"type": "string", "enum": ["1"], "enumNames": ["One"]}, "1"),
        ("3", {"type": "number"}, 3),
        ("3", {"type": "string"}, "3"),
        ("Y", {"type": "boolean"}, True),
        ("0", {"type": "boolean"}, False),
    ],
)
def test_text_is_read_as_the_field_wants_it(text: str, schema: object, value: object) -> None:
    """A value comes before a number: choices may be numbers themselves."""
    assert read(text, schema) == value  # type: ignore[arg-type]
