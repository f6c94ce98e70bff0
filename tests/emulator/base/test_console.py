"""The output for people and for programs."""

import io
import json
import re
from typing import Literal

import pytest

from emulator.base.console import Console

LINE = '{"event": "request.done", "level": "info", "timestamp": "2026-11-21T12:00:03.114Z", "status": 200, "ms": 6.8}'


def test_pretty_mode_prints_a_json_log_line_as_text() -> None:
    out = io.StringIO()

    Console("pretty", out).line("ingest", LINE)

    assert re.fullmatch(r"\d\d:\d\d:03\.114 ingest     request\.done status=200 ms=6\.8\n", out.getvalue())


def test_json_mode_passes_log_lines_through_with_the_functions_name() -> None:
    out = io.StringIO()

    Console("json", out).line("ingest", LINE)

    assert json.loads(out.getvalue()) == {"function": "ingest"} | json.loads(LINE)


def test_json_mode_wraps_plain_text() -> None:
    out = io.StringIO()

    Console("json", out).line("ingest", "Segmentation fault", True)

    said = json.loads(out.getvalue())
    assert (said["event"], said["function"], said["text"], said["level"]) == (
        "process.output", "ingest", "Segmentation fault", "error",
    )  # fmt: skip


def test_a_traceback_is_indented_below_its_line() -> None:
    out = io.StringIO()

    Console("pretty", out).line("api", json.dumps({"event": "function.broken", "exception": "Traceback\n  boom"}))

    assert out.getvalue().splitlines()[1].strip() == "Traceback"


def test_output_that_is_no_terminal_has_no_colours() -> None:
    out = io.StringIO()
    console = Console("pretty", out)

    console.step("db", "ok", 3)
    console.event("watch", "broken", level="error")

    assert "\033" not in out.getvalue()


def test_the_last_lines_are_kept_for_error_messages() -> None:
    console = Console("json", io.StringIO())
    for number in range(30):
        console.line("api", f"line {number}")

    assert console.tail("api").splitlines() == [f"    line {number}" for number in range(10, 30)]
    assert console.tail("nobody") == ""


def test_a_closed_pipe_stops_the_output_and_nothing_else() -> None:
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    console = Console("json", Gone())

    console.line("api", LINE)
    console.note("still here")


HOSTILE = "/\x1b[2J\x9b31m\u202e\r\n12:00:00.000 ingest forged"
STARTS = re.compile(r"  (✓|note)|\d\d:\d\d:\d\d\.\d{3} \S| ")


def everything_said(mode: Literal["pretty", "json"]) -> str:
    """Each way to write, with a text from outside in each place."""
    out = io.StringIO()
    console = Console(mode, out)
    console.step("db", HOSTILE, 1)
    console.note(HOSTILE)
    console.event("watch", HOSTILE, level="error")
    console.line("api", HOSTILE.replace("\n", "\x0b"))
    for value in (HOSTILE, [HOSTILE], {HOSTILE: HOSTILE}, HOSTILE.replace(" ", "")):
        console.line("api", json.dumps({"event": "request.done", "path": value}, ensure_ascii=False))
    console.line("api", json.dumps({"event": HOSTILE, HOSTILE: 1, "timestamp": HOSTILE}))
    console.line("api", json.dumps({"event": "function.broken", "exception": f"Traceback\n{HOSTILE}"}))
    console.event("api", f"down:\n{console.tail('api')}")
    return out.getvalue()


@pytest.mark.parametrize("mode", ["pretty", "json"])
def test_a_request_from_outside_can_not_act_on_the_terminal(mode: Literal["pretty", "json"]) -> None:
    assert everything_said(mode).replace("\n", "").isprintable()


def test_a_line_break_from_outside_makes_no_log_line() -> None:
    for line in everything_said("pretty").splitlines():
        assert STARTS.match(line), line
        assert not line.startswith("12:00:00.000"), line


def test_the_emulators_own_words_may_have_lines_but_no_controls() -> None:
    out = io.StringIO()

    Console("pretty", out).say("one\ntwo \x1b[2J", event="x")

    assert out.getvalue() == "one\ntwo \\x1b[2J\n"


def test_the_log_file_gets_every_line_as_json_whatever_the_terminal_shows() -> None:
    recorded: list[str] = []
    console = Console("pretty", io.StringIO(), quiet=True)
    console.record_to(recorded.append)
    console.hides_all_but_errors = True

    console.step("db", "ok", 3)
    console.note("careful")
    console.say("Ready", event="emulator.ready", ms=5)
    console.say("\n")
    console.event("watch", "broken", level="error")
    console.line("ingest", LINE)
    console.line("ingest", "Segmentation fault", True)
    console.record("emulator.failed", level="error", reason="no port")
    console.record_to(None)
    console.note("not recorded")

    found = [json.loads(line) for line in recorded]
    assert [each["event"] for each in found] == [
        "step.done", "emulator.note", "emulator.ready", "emulator.event", "request.done", "process.output",
        "emulator.failed",
    ]  # fmt: skip
    assert [each["level"] for each in found if each["level"] != "info"] == ["error"] * 3


def test_a_line_that_is_nested_without_end_is_text() -> None:
    """An agent may print anything; the supervisor reads it."""
    out = io.StringIO()

    Console("json", out).line("dispatch", '{"event": ' + "[" * 50_000)

    assert json.loads(out.getvalue())["event"] == "process.output"


@pytest.mark.parametrize("mode", ["pretty", "json"])
def test_where_only_errors_are_wanted_there_is_one_line_more_and_the_log_file_has_everything(
    mode: Literal["pretty", "json"],
) -> None:
    out, recorded = io.StringIO(), list[str]()
    console = Console(mode, out, only_errors=True)
    console.record_to(recorded.append)

    console.step("db", "fine", 1.0)
    console.note("a note")
    console.say("a page of addresses", short="Ready in 1 s", event="emulator.ready")
    console.say("Stopped.", event="emulator.stopped")
    console.event("replica", "it is late", level="warning")
    console.event("ingest", "it ended", level="error")
    console.line("ingest", LINE)
    console.line("ingest", LINE.replace('"info"', '"error"'))
    console.line("ingest", "plain")
    console.line("ingest", "Traceback", True)

    shown = out.getvalue().splitlines()
    assert ("Ready in 1 s" if mode == "pretty" else '"emulator.ready"') in shown[0]
    assert ["it ended" in shown[1], "request.done" in shown[2], "Traceback" in shown[3]] == [True, True, True]
    assert len(shown) == 4
    assert len(recorded) == 10
