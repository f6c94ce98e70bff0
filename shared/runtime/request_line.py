"""The one line of a request in the log: the function says what came of it, the runner adds its status and its time.

A second line for each webhook would take a twentieth of ``ingest``'s time.
"""

from collections.abc import MutableMapping
from typing import Any

from shared.core import logs

_KEY = "postroom.request_line"  # of the request's ASGI scope, which the runner and the function share

log = logs.get()


class RequestLine:
    """The line, until the runner writes it."""

    __slots__ = ("event", "facts", "is_written")

    def __init__(self) -> None:
        self.event = "request.done"
        self.facts: dict[str, Any] = {}
        self.is_written = False


def begin(scope: MutableMapping[str, Any]) -> RequestLine:
    """The line of the request with this *scope*, which the caller writes when the request is done."""
    line = scope[_KEY] = RequestLine()
    return line


def tell(scope: MutableMapping[str, Any], event: str, **facts: Any) -> None:
    """Name the request's line *event* and add *facts*; a line of its own where nobody writes one, or has already."""
    line: RequestLine | None = scope.get(_KEY)
    if line is None or line.is_written:
        log.info(event, **facts)
    else:
        line.event, line.facts = event, facts
