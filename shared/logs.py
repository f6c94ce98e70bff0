"""Structured logs: one JSON object a line on stdout.

An event is a constant ``noun.verb``; facts are fields. Never a person's text, a header or a token; tracebacks carry no
local variables (structlog's console renderer would print them).
"""

import logging
import sys
from typing import Any

import structlog

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]
_QUIET = ("httpx", "httpcore", "uvicorn.access")  # httpx logs whole URLs, and Telegram's carry the token


def configure(function: str, level: str = "INFO") -> None:
    """Send our logs and those of the libraries to stdout as JSON lines that name *function*."""
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(function=function)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
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
