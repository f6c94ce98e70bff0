"""The operator's program for sound: what it gets and sees, and how it fails."""

import asyncio

import pytest

from shared.agents import sound_program
from shared.agents.programs import containment
from shared.agents.programs.limits import Limits
from shared.core.errors import SoundFailed


def run(folder, *words, **more):
    given = {"token": "turn_1", "limits": Limits(tool_ms=20_000), "leash": "auto", "private": (), **more}
    return asyncio.run(sound_program.run(words, folder, **given))


def test_it_gets_the_sound_as_a_file_and_nothing_of_it_stays(tmp_path):
    assert run(tmp_path, "cat", "{sound}", sound=("sound.ogg", b"OggS\n\0x")) == b"OggS\n\0x"
    assert list(tmp_path.iterdir()) == []


def test_it_gets_the_text_on_its_input_and_writes_sound(tmp_path):
    assert run(tmp_path, "tr", "a-z", "A-Z", given=b"hello") == b"HELLO"


@pytest.mark.skipif(not containment.available().is_leash, reason="there is no leash on this host")
def test_it_sees_no_file_of_an_agent(tmp_path):
    (tmp_path / "secret").write_text("of an agent")
    with pytest.raises(SoundFailed, match="No such file"):
        run(tmp_path, "sh", "-c", "cat ../secret")


FAILURES = {
    "a failure": (("sh", "-c", "echo no model >&2; exit 3"), {}, "ended with code 3: no model"),
    "too slow": (("sleep", "60"), {"limits": Limits(tool_ms=200)}, "sleep took longer than 0.2 s"),
    "too much": (("head", "-c", "99999", "/dev/zero"), {"limits": Limits(output_bytes=1000)}, "more than 1000 bytes"),
}


@pytest.mark.parametrize(("words", "more", "why"), FAILURES.values(), ids=FAILURES)
def test_a_failure_says_why(tmp_path, words, more, why):
    with pytest.raises(SoundFailed, match=why):
        run(tmp_path, *words, **more)
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SoundFailed, match="no-such-program"):
        run(tmp_path, "no-such-program")
