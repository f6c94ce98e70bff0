"""The output of ``emulator run``: a line for each step, the summary, and the functions' logs.

``pretty`` is for people. What it prints of a process or of an error is escaped, because a plain request from outside
puts text into a log line. ``json``, the default where the output is no terminal, passes the log lines of the functions
through and writes the emulator's own lines in the same form: one object a line. The log file gets this form in both
modes.
"""

import datetime
import json
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import IO, Any, Literal

from emulator.base.terminal import escape, indent_more

Mode = Literal["pretty", "json"]
KEPT_LINES = 20  # of each process, to show them if it does not become ready
_WIDTH = 10
_INDENT = 14 + _WIDTH  # of the text behind the time and the name

_COLOURS = {"ingest": 36, "dispatch": 35, "deliver": 34, "sweep": 33, "recurrence": 32, "api": 96}
_LEVELS = {"warning": 33, "error": 31, "critical": 31}
_ERRORS = ("error", "critical")
_REPORTED_BY_US = {"function.ready", "function.stopped"}
_HIDDEN = {"event", "level", "timestamp", "function", "exception", "logger"}


class Console:
    """Writes to one stream, and keeps the last lines of each process for :meth:`tail`."""

    def __init__(
        self,
        mode: Mode,
        stream: IO[str],
        *,
        quiet: bool = False,
        only_errors: bool = False,
    ) -> None:
        """*quiet*: write nothing. *only_errors*: write errors, and the one line that it is ready."""
        self._mode = mode
        self._only_errors = only_errors
        self._stream = stream
        self._quiet = quiet
        self._colour = stream.isatty()
        self._tails: dict[str, deque[str]] = {}
        self._record: Callable[[str], None] | None = None
        self.hides_all_but_errors = False  # of the processes' lines, in pretty mode

    def record_to(self, record: Callable[[str], None] | None) -> None:
        """Hand every line from now on to *record* too, as JSON; None ends that."""
        self._record = record

    def record(self, event: str, *, level: str = "info", **facts: Any) -> None:
        """Write to the log file alone."""
        if self._record is not None:
            self._record(_json_line(event, level, facts))

    def step(self, name: str, detail: str, ms: float) -> None:
        """Report that one component is up."""
        line = _json_line("step.done", "info", {"step": name, "detail": detail, "ms": round(ms, 1)})
        self._tell(f"  {self._paint('✓', 32)} {name:<{_WIDTH}} {escape(detail):<64} {ms:5.0f} ms", line)

    def note(self, text: str) -> None:
        """Report a fact that is no error."""
        line = _json_line("emulator.note", "info", {"note": text})
        self._tell(f"  {self._paint('note', 33)}  {_below(text, 8)}", line)

    def say(self, text: str, *, short: str | None = None, **facts: Any) -> None:
        """Write *text* in pretty mode; in json mode the *facts*, if there are any.

        Args:
            short: in place of *text* where only errors are wanted; None: that is not worth a line then.
        """
        shown = short if self._only_errors and short is not None else text
        line = _json_line(facts.pop("event"), "info", facts) if facts else None
        self._tell(escape(shown, keep="\n"), line, matters=short is not None)

    def event(self, name: str, text: str, *, level: str = "info", **facts: Any) -> None:
        """Report an event of the running emulator, in the form of a log line."""
        line = _json_line("emulator.event", level, {"about": name, "text": text, **facts})
        shown = f"{self._now()} {self._name(name)} {self._paint(_below(text), _LEVELS.get(level, 0))}"
        self._tell(shown, line, matters=level in _ERRORS)

    def line(self, name: str, text: str, is_error: bool = False) -> None:
        """Write one line that the process *name* printed: one of our JSON log lines, or any text."""
        self._tails.setdefault(name, deque(maxlen=KEPT_LINES)).append(text)
        facts = _parse(text)
        if facts is None:
            line = _json_line("process.output", "error" if is_error else "info", {"function": name, "text": text})
            shown_text = f"{self._now()} {self._name(name)} {self._paint(escape(text), 31 if is_error else 2)}"
            self._tell(shown_text, line, matters=is_error)
            return
        is_hidden = facts["event"] in _REPORTED_BY_US or (self.hides_all_but_errors and facts.get("level") != "error")
        shown = None if is_hidden or self._mode == "json" else self._pretty(name, facts)
        line = json.dumps({"function": name} | facts, default=str)
        self._tell(shown, line, matters=facts.get("level") in _ERRORS)

    def tail(self, name: str) -> str:
        """The last lines of *name*, indented; empty when it printed nothing."""
        return "\n".join(f"    {escape(line)}" for line in self._tails.get(name, ()))

    def forget(self, name: str) -> None:
        self._tails.pop(name, None)

    def _pretty(self, name: str, facts: Mapping[str, Any]) -> str:
        stamp = _clock(facts.get("timestamp")) or self._now()
        shown = " ".join(f"{key}={_value(value)}" for key, value in facts.items() if key not in _HIDDEN)
        level = str(facts.get("level", "info"))
        event = self._paint(escape(str(facts.get("event", ""))), _LEVELS.get(level, 0))
        text = f"{stamp} {self._name(name)} {event} {escape(shown)}"
        trace = facts.get("exception")
        if trace:
            text += f"\n{'':{_INDENT}}{_below(str(trace).rstrip())}"
        return text.rstrip()

    def _name(self, name: str) -> str:
        return self._paint(f"{name:<{_WIDTH}}", _COLOURS.get(name, 90))

    def _paint(self, text: str, code: int) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour and code else text

    def _tell(self, text: str | None, line: str | None, *, matters: bool = False) -> None:
        """Write *text* for people, or *line*, the same as JSON, for programs and for the log file.

        Args:
            matters: also where only errors are wanted.
        """
        if self._record is not None and line is not None:
            self._record(line)
        if self._only_errors and not matters:
            return
        shown = line if self._mode == "json" else text
        if shown is not None:
            self._write(shown)

    def _write(self, text: str) -> None:
        if self._quiet:
            return
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except (BrokenPipeError, ValueError):
            self._quiet = True  # the reader closed the pipe (`| head`); the emulator continues

    @staticmethod
    def _now() -> str:
        return datetime.datetime.now().astimezone().strftime("%H:%M:%S.%f")[:12]


def for_run(mode: Mode | None, *, only_errors: bool = False) -> Console:
    """The console of ``emulator run``: *mode*, or by default pretty on a terminal and json elsewhere."""
    return Console(mode or ("pretty" if sys.stdout.isatty() else "json"), sys.stdout, only_errors=only_errors)


def _json_line(event: str, level: str, facts: Mapping[str, Any]) -> str:
    stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"event": event, "level": level, "timestamp": stamp, **facts}, default=str)


def _parse(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # an agent may print anything
        return None
    return found if isinstance(found, dict) and "event" in found else None


def _clock(stamp: Any) -> str | None:
    """``2026-11-21T12:00:03.114Z`` as local time of day."""
    try:
        instant = datetime.datetime.fromisoformat(str(stamp))
    except ValueError:
        return None
    return instant.astimezone().strftime("%H:%M:%S.%f")[:12]


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if not value or " " in value else value
    return json.dumps(value, ensure_ascii=False, default=str)


def _below(text: str, width: int = _INDENT) -> str:
    """The text with its further lines below the first, so that none of them looks like a log line."""
    return indent_more(escape(text, keep="\n\t"), width)
