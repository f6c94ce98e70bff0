"""Sends the logs of libraries and of the ticker, which run inside the supervisor, to the console."""

import json
import logging
from collections.abc import Callable

from emulator.base.console import Console
from shared.core.slim_imports import without

with without("rich"):  # it would draw tracebacks, which the console never gets
    import structlog


def send_to(console: Console) -> None:
    """Redirect logging and structlog of this process."""
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(default=str),
        ],
        logger_factory=lambda *_: _Lines(lambda text: console.line("ticker", text)),
    )
    root = logging.getLogger()
    root.handlers[:] = [_ToConsole(console)]
    root.setLevel(logging.WARNING)


class _Lines:
    """A logger for structlog that hands over each rendered line."""

    def __init__(self, line: Callable[[str], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = self.msg = line


class _ToConsole(logging.Handler):
    """Writes records of logging as our JSON lines. Connections that a client closes are no news."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, ConnectionError):
            return
        facts = {"event": "emulator.log", "level": record.levelname.lower(), "said": record.getMessage()}
        if record.exc_info and error is not None:
            facts["exception"] = logging.Formatter().formatException(record.exc_info)
        self._console.line("emulator", json.dumps(facts))
