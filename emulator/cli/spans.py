"""Spans of time, as people write them after a command."""

import re
from typing import Any

import typer

from shared.core.time.durations import TooLong, limited_ms, parse_ms

_DAYS = re.compile(r"([1-9][0-9]*)d")
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def span_ms(text: str) -> int:
    """A duration, which may be of days.

    Raises:
        TooLong
        ValueError
    """
    days = _DAYS.fullmatch(text)
    return limited_ms(text, days[1], 86_400_000) if days else parse_ms(text)


def timeout_option(help_: str, default: str) -> Any:
    """The option for how long a command waits: a duration, or a number of seconds."""
    return typer.Option(parser=_seconds, metavar="SPAN", show_default=default, help=f"{help_}, such as 90s or 10m.")


def _seconds(given: str | float) -> float:
    text = str(given)  # a default is a number already
    try:
        return float(text) if _SECONDS.fullmatch(text) else span_ms(text) / 1000
    except TooLong as error:
        raise typer.BadParameter(str(error)) from None
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no span of time: write 90s, 10m or 1h, or 90 for seconds") from None
