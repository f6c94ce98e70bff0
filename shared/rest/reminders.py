"""Reminders: a client that fetches a channel's responses misses the events that come while it sends others.

TinyAGI's clients look for responses when an event says that there are some, and hear no event while they look. So,
shortly after the last acknowledgement, readers are told once more of the oldest response of the channel that waits.
"""

import asyncio

import apsw

from shared import clock
from shared.channels import registry
from shared.db import views
from shared.db.events import Event
from shared.rest import frames
from shared.rest.feed import Feed

_TOLD = {"message:done", "response_ready"}


class Reminders:
    """One timer for each channel that is fetched from, running while it is.

    Args:
        after_s: how long nothing was acknowledged before it is looked again; a client is done with looking by then.
    """

    def __init__(self, conn: apsw.Connection, feed: Feed, *, after_s: float = 0.5) -> None:
        self._conn = conn
        self._feed = feed
        self._after_s = after_s
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def acknowledged(self, channel: str) -> None:
        """A client has delivered one of the channel's responses."""
        if timer := self._timers.pop(channel, None):
            timer.cancel()
        if self._feed.readers:
            self._timers[channel] = asyncio.get_running_loop().call_later(self._after_s, self._look, channel)

    def _look(self, channel: str) -> None:
        del self._timers[channel]
        found = views.responses_to_fetch(
            self._conn, channel, has_adapter=channel in registry.NAMES, now_ms=clock.now_ms(), limit=1
        )
        for each in found:
            about = (each["messageId"], each["id"], each["agent"], channel)
            event = Event(0, "response_ready", *about, data={}, created_at=each["timestamp"])
            for row in frames.render(self._conn, [event]):
                self._feed.remind([(name, text) for name, text in row.named if name in _TOLD])

    def close(self) -> None:
        """Remind nobody any more."""
        for timer in self._timers.values():
            timer.cancel()
