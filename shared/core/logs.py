"""Structured logs: one JSON object a line on stdout.

An event is a constant ``noun.verb``; facts are fields. A log never holds a person's text, a header or a token;
our secrets are removed from every line, because an error of a library or a platform may repeat an address.
Tracebacks carry no local variables; structlog's console renderer would print them.
"""

import json
import logging
import sys
from typing import Any

import msgspec

from shared.core import page_links
from shared.core.slim_imports import without
from shared.core.text import redaction

with without("rich"):  # structlog would load it to draw tracebacks: a fifth of a function's start, and 4 MB
    import structlog

_WITH_PAGE = ("warning", "error", "critical")  # the levels of lines that a person has to read

_ENCODER = msgspec.json.Encoder(enc_hook=str)
_QUIET = ("httpx", "uvicorn.access")  # httpx logs whole URLs, and Telegram's carry the token


def configure(function: str) -> None:
    """Write our logs and those of the libraries to stdout, as JSON lines that name *function*."""

    def name_function(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event.setdefault("function", function)  # not a context variable, which other threads would not see
        return event

    common: list[Any] = [
        name_function,
        structlog.stdlib.add_log_level,
        _name_page,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = [structlog.processors.format_exc_info, _as_json]
    # Ours go straight to stdout: the logging module would cost twice as much as everything else here.
    structlog.configure(
        processors=[*common, *last],
        logger_factory=structlog.WriteLoggerFactory(sys.stdout),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=common,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _name_page(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    is_told = "message_id" in event and event["level"] in _WITH_PAGE
    if is_told and (address := page_links.here("message", event["message_id"])):
        event["page"] = address
    return event


def _as_json(_: object, __: str, event: structlog.typing.EventDict) -> str:
    try:
        line = _ENCODER.encode(event).decode()
    except (TypeError, ValueError):  # half of a surrogate pair, or a key that is not text: keep the line
        line = json.dumps(event, default=str)
    return redaction.redact(line)


def get() -> structlog.stdlib.BoundLogger:
    """The logger for a module."""
    logger: structlog.stdlib.BoundLogger = structlog.get_logger("postroom")
    return logger
