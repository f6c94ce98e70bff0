"""The script of a task runs in the agent's leash; what it writes decides, and each failure is told in words."""

import asyncio

import pytest

from shared.agents import task_script
from shared.agents.base import Turn
from shared.agents.programs import containment
from shared.agents.programs.limits import Limits
from shared.agents.task_script import SPARED, ScriptFailed, ScriptVerdict
from shared.core.errors import ConfigInvalid

READ = {
    "nothing": ("", ScriptVerdict()),
    "a text": ("two letters\nfrom Ana\n", ScriptVerdict("two letters\nfrom Ana")),
    "a text that wakes": ('two letters\n{"wakeAgent": true}\n', ScriptVerdict("two letters")),
    "nothing to do": ('{"wakeAgent": false}\n', ScriptVerdict(why_not=SPARED)),
    "nothing to do, after a text": ('none\n\n{"wakeAgent": false}\n\n', ScriptVerdict(why_not=SPARED)),
    "nothing to do, with a reason": (
        '{"wakeAgent": false, "reason": "no letter"}',
        ScriptVerdict(why_not=f"{SPARED}: no letter"),
    ),
    "a reason that is no text": ('{"wakeAgent": false, "reason": 5}', ScriptVerdict(why_not=SPARED)),
    "another object": ('{"letters": 2}', ScriptVerdict('{"letters": 2}')),
    "the word elsewhere": ('{"wakeAgent": false}\nmore', ScriptVerdict('{"wakeAgent": false}\nmore')),
    "a list": ("[1]", ScriptVerdict("[1]")),
}


@pytest.mark.parametrize(("output", "verdict"), READ.values(), ids=READ)
def test_the_last_line_decides(output, verdict):
    assert task_script.read(output) == verdict


def test_a_last_line_that_means_neither_is_a_failure():
    with pytest.raises(ScriptFailed, match="the last line of its script must say"):
        task_script.read('{"wakeAgent": "no"}')


def turn(folder, **fields):
    (folder / "sessions" / "session_a").mkdir(parents=True, exist_ok=True)
    base = {"model": None, "instructions": "", "config": {}, "continuation": None, "prompt": "", "messages": ()}
    return Turn(**{"agent": "coder", "folder": folder, "session": "session_a", "attempt": 1, **base, **fields})


def run(folder, script, longest_s=30, **fields):
    return asyncio.run(task_script.run(turn(folder, **fields), script, longest_s=longest_s))


def test_it_runs_in_the_home_of_the_session_with_an_empty_input(tmp_path):
    (tmp_path / "list.txt").write_text("milk\n")
    assert run(tmp_path, "cat; cat list.txt; pwd\necho $HOME $POSTROOM_AGENT_ID") == ScriptVerdict(
        f"milk\n{tmp_path}\n{tmp_path} coder"
    )


@pytest.mark.skipif(not containment.available().is_leash, reason="there is no leash on this host")
def test_it_is_on_the_leash_of_its_session(tmp_path):
    (tmp_path / "coder" / "homes" / "session_b").mkdir(parents=True)
    (tmp_path / "coder" / "homes" / "session_b" / "private").write_text("of another session")
    (tmp_path / "p.db").write_text("rows")
    script = "cat homes/session_b/private ../p.db 2>/dev/null; echo mine > note; ls; wc -l < /proc/net/dev"
    said = run(tmp_path / "coder", script, private=(tmp_path / "p.db",))
    assert "of another session" not in said.text
    assert "rows" not in said.text
    assert (tmp_path / "coder" / "homes" / "session_a" / "note").read_text() == "mine\n"


FAILURES = {
    "an exit code": ("echo no mail server >&2; exit 3", {}, "ended with code 3: no mail server", "crashed"),
    "too slow": ("echo begun; sleep 60", {"longest_s": 0.3}, "took longer than 0.3 s: let it do less", "turn_timeout"),
    "too much": ("head -c 200001 /dev/zero | tr '\\0' '\\n'", {}, "wrote more than 100000 bytes", "output_limit"),
    "one long line": ("head -c 200001 /dev/zero", {}, "wrote more than 100000 bytes", "output_limit"),
    "beyond the agent's limit": (
        "echo 12345678901234567890",
        {"limits": Limits(output_bytes=10)},
        "wrote more than 10 bytes, so Postroom ended it .output_limit_bytes of the agent",
        "output_limit",
    ),
}


@pytest.mark.parametrize(("script", "more", "why", "code"), FAILURES.values(), ids=FAILURES)
def test_a_failure_says_why(tmp_path, script, more, why, code):
    with pytest.raises(ScriptFailed, match=why) as failed:
        run(tmp_path, script, **more)
    assert failed.value.code == code


def test_it_is_shown_nothing_that_no_program_may_see(tmp_path):
    config = {"readable": [str(tmp_path)]}
    with pytest.raises(ConfigInvalid, match="can't be shown"):
        run(tmp_path / "coder", "ls", config=config, private=(tmp_path / "p.db",))
