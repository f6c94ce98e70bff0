"""Structured logs: one JSON object a line on stdout.

An event is a constant ``noun.verb``; facts are fields. Never a person's text, a header or a token; tracebacks carry no
local variables (structlog's console renderer would print them).
"""

import logging
import sys
from typing import Any

import structlog

_QUIET = ("httpx", "httpcore", "uvicorn.access")  # httpx logs whole URLs, and Telegram's carry the token


def configure(function: str, level: str = "INFO") -> None:
    """Send our logs and those of the libraries to stdout as JSON lines that name *function*."""

    def name_function(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event.setdefault("function", function)  # no context variable: other threads don't have those
        return event

    common: list[Any] = [
        name_function,
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*common, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=common,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(default=str),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def get() -> structlog.stdlib.BoundLogger:
    """The logger of whoever asks."""
    logger: structlog.stdlib.BoundLogger = structlog.get_logger("postroom")
    return logger
