"""The output for people and for programs."""

import io
import json
import re

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
