"""Sealed state: only what this server sealed, for this request, not long ago, opens."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from pathlib import Path

import pytest
from asking.asking_kit import STATELESS
from hypothesis import given, settings
from hypothesis import strategies as st
from support import SECONDS, serving

from mcpkit import App, StateKey
from mcpkit.engine.runtime import Runtime
from mcpkit.seal import VARIABLE, BadKeys, SealBroken, Sealer, keys_from_environment

OLD, NEW, FOREIGN = (
    StateKey(name, bytes([number]) * 32) for number, name in enumerate(("old", "new", "foreign"))
)
BINDING = b"b" * 32


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


def sealer(*keys: StateKey, ttl: float = 60.0, purpose: str = "p", clock: Clock | None = None) -> Sealer:
    return Sealer(keys or (OLD,), ttl, purpose, clock or Clock())


def raw(state: str) -> bytes:
    return base64.urlsafe_b64decode(state + "=" * (-len(state) % 4))


def text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def refused(opener: Sealer, state: str, binding: bytes = BINDING) -> bool:
    try:
        opener.open(state, binding)
    except SealBroken:
        return True
    return False


@given(content=st.binary(max_size=300), binding=st.binary(max_size=40))
@settings(max_examples=50, deadline=None)
def test_what_was_sealed_opens(content: bytes, binding: bytes) -> None:
    """SEC-04; a state fits into a URL, and two of the same content differ (MRTR-11)."""
    one = sealer()
    state = one.seal(content, binding)
    assert one.open(state, binding) == content
    assert state.replace("-", "").replace("_", "").isalnum()
    assert one.seal(content, binding) != state


def test_no_single_bit_can_be_changed() -> None:
    """MRTR-06: every bit of the sealed bytes, one after the other."""
    one = sealer()
    state = raw(one.seal(b"some content", BINDING))
    for position in range(len(state) * 8):
        changed = bytearray(state)
        changed[position // 8] ^= 1 << position % 8
        assert refused(one, text(bytes(changed))), f"bit {position}"


@given(content=st.binary(max_size=80), data=st.data())
@settings(max_examples=200, deadline=None)
def test_no_bit_of_the_text_can_be_changed(content: bytes, data: st.DataObject) -> None:
    """MRTR-06: Base64 has several spellings of the same bytes; only the one that was sent opens."""
    one = sealer()
    state = one.seal(content, BINDING)
    position = data.draw(st.integers(0, len(state) * 8 - 1))
    changed = bytearray(state.encode())
    changed[position // 8] ^= 1 << position % 8
    assert refused(one, changed.decode("latin-1"))


@given(content=st.binary(max_size=80), data=st.data())
@settings(max_examples=100, deadline=None)
def test_nothing_can_be_cut_off_or_added(content: bytes, data: st.DataObject) -> None:
    """MRTR-06."""
    one = sealer()
    state = one.seal(content, BINDING)
    size = data.draw(st.integers(0, len(state) - 1))
    assert refused(one, state[:size])
    assert refused(one, state[size + 1 :])
    assert refused(
        one, state + data.draw(st.sampled_from(["-TAMPERED", "A", "=", "==", "\n", " ", "é", "\ud800"]))
    )


@given(state=st.text(max_size=120))
@settings(max_examples=200, deadline=None)
def test_other_text_never_opens(state: str) -> None:
    """MRTR-06: a state is whatever an attacker sends."""
    assert refused(sealer(), state)


@pytest.mark.parametrize(
    "data", [b"", b"\x01", b"\x01\x03", b"\x01\x03old", b"\x01\x03old" + bytes(12), b"\x01\xffold"]
)
def test_beginnings_of_a_state_do_not_open(data: bytes) -> None:
    """MRTR-06: each part may be missing."""
    assert refused(sealer(), text(data))


@given(one=st.binary(max_size=40), other=st.binary(max_size=40))
@settings(max_examples=100, deadline=None)
def test_a_state_opens_for_its_own_request_only(one: bytes, other: bytes) -> None:
    """MRTR-07."""
    state = sealer().seal(b"x", one)
    assert refused(sealer(), state, other) == (one != other)


def test_purposes_do_not_mix() -> None:
    """A state is no token: the same key serves both. Moving a border between purpose and binding does not help."""
    state = sealer(purpose="state").seal(b"x", b"binding")
    assert refused(sealer(purpose="token"), state, b"binding")
    assert refused(sealer(purpose="stateb"), state, b"inding")


def test_a_state_expires() -> None:
    """MRTR-07: at its time and not before."""
    clock = Clock()
    one = sealer(ttl=60, clock=clock)
    state = one.seal(b"x", BINDING)
    clock.now += 59.9
    assert one.open(state, BINDING) == b"x"
    clock.now += 0.1
    assert refused(one, state)


def test_keys_are_rotated() -> None:
    """SEC-04: the first seals, all open; a key that is gone opens nothing."""
    state = sealer(OLD).seal(b"x", BINDING)
    both = sealer(NEW, OLD)
    assert both.open(state, BINDING) == b"x"
    assert refused(sealer(OLD), both.seal(b"x", BINDING))
    assert sealer(NEW).open(both.seal(b"x", BINDING), BINDING) == b"x"
    assert refused(sealer(NEW), state)


def test_a_foreign_key_opens_nothing() -> None:
    """SEC-04: not even under the same id."""
    state = sealer(OLD).seal(b"x", BINDING)
    assert refused(sealer(FOREIGN), state)
    assert refused(sealer(StateKey("old", FOREIGN.secret)), state)


def test_without_keys_each_process_has_its_own() -> None:
    """DESIGN: random per process by default."""
    one, other = Sealer((), 60, "p"), Sealer((), 60, "p")
    state = one.seal(b"x", BINDING)
    assert one.open(state, BINDING) == b"x"
    assert refused(other, state)


async def test_keys_say_what_is_wrong_with_them_and_keep_their_secret() -> None:
    """SEC-04: 32 bytes, an id; no representation shows them."""
    for name, secret, error in (
        ("", bytes(32), ValueError),
        ("x" * 65, bytes(32), ValueError),
        ("x", bytes(31), ValueError),
        ("x", "x" * 32, TypeError),
    ):
        with pytest.raises(error):
            StateKey(name, secret)  # type: ignore[arg-type]
    assert repr(OLD) == "StateKey('old', ...)"
    with pytest.raises(BadKeys, match="the same id"):
        sealer(OLD, StateKey("old", FOREIGN.secret))
    with pytest.raises(BadKeys, match="the same id"):
        Runtime(App("twins", state_keys=[OLD, OLD]))


# -- MCPKIT_STATE_KEYS ---------------------------------------------------------------------------------------


def variable(*keys: StateKey, padding: str = "") -> str:
    return ",".join(f"{key.id}:{text(key.secret)}{padding}" for key in keys)


def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN 4.5: ID:BASE64URL, several with commas; with and without padding."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert keys_from_environment() == ()
    for value in (
        variable(NEW, OLD),
        variable(NEW, OLD, padding="="),
        f" {variable(NEW)} , {variable(OLD)},",
    ):
        monkeypatch.setenv(VARIABLE, value)
        assert keys_from_environment() == (NEW, OLD)


async def test_keys_of_the_app_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN 4.5: what the script says is not changed from outside, and the variable is not read."""
    monkeypatch.setenv(VARIABLE, "nonsense")
    runtime = Runtime(App("keyed", state_keys=[OLD]))
    state = runtime.sealer.seal(b"x", BINDING)
    assert Sealer((OLD,), 60, "request state").open(state, BINDING) == b"x"


MALFORMED = {
    "no colon": "nonsense",
    "no id": f":{text(bytes(32))}",
    "short": f"a:{text(bytes(16))}",
    "no Base64": f"a:{'!' * 43}",
    "the second": f"{variable(OLD)},b:{text(bytes(5))}",
    "only commas": ",,",
    "the same id twice": variable(OLD, OLD),
}


@pytest.mark.parametrize("value", MALFORMED.values(), ids=MALFORMED)
async def test_malformed_keys_are_told_without_the_secret(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-04: never a key of this process's own instead, which no other would open."""
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(BadKeys) as caught:
        Runtime(App("keyed"))
    said = str(caught.value)
    assert VARIABLE in said or "the same id" in said
    assert text(bytes(32)) not in said
    assert text(OLD.secret) not in said


@pytest.mark.parametrize("options", [[], ["--transport", "http", "--port", "0"]], ids=["stdio", "http"])
def test_malformed_keys_stop_the_start(options: list[str], tmp_path: Path) -> None:
    """One clear line and exit code 1."""
    script = tmp_path / "server.py"
    script.write_text("from mcpkit import App\napp = App('x')\n")
    command = [sys.executable, "-m", "mcpkit", "run", str(script), *options]
    done = subprocess.run(
        command,
        env={VARIABLE: "nonsense"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.fullmatch(f"mcpkit: {VARIABLE}: key 1 is not ID:BASE64URL with 32 bytes .*\n", done.stderr)


def test_good_keys_start(tmp_path: Path) -> None:
    """And nothing is said."""
    script = tmp_path / "server.py"
    script.write_text("from mcpkit import App\napp = App('x')\n")
    with serving(script, env={VARIABLE: variable(NEW, OLD)}) as server:
        server.start(STATELESS)
        server.close_input()
        assert server.wait() == 0
        assert server.errors == ""
