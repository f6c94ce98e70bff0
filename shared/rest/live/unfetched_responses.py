"""Reminders: responses that wait for a client that had them, or that heard nothing of them.

TinyAGI's clients look for responses when an event says that there are some, hear no event while they look, and try what
they could not send at the next one. So readers are told once more of the oldest response of a channel that waits:
shortly after the last acknowledgement, and ever less often while what was fetched is not acknowledged. Channels that
nobody fetches from are left alone. They hear it under TinyAGI's name; ``response_ready`` is a row's, and told once.
"""

import asyncio

import apsw

from shared.channels import registry
from shared.core import clock
from shared.db.queue.events import Event
from shared.db.views import responses
from shared.rest.live import frames
from shared.rest.live.feed import Feed

_TOLD = "message:done"
_SELDOM_S = 600.0


class Reminders:
    """One timer for each channel that is fetched from, running while something waits there and somebody reads.

    Args:
        after_s: how long nothing was acknowledged before it is looked again; a client is done with looking by then.
        unsent_s: the same for what was fetched and not acknowledged; twice as long each time.
    """

    def __init__(self, conn: apsw.Connection, feed: Feed, *, after_s: float = 0.5, unsent_s: float = 10.0) -> None:
        self._conn = conn
        self._feed = feed
        self._after_s = after_s
        self._unsent_s = unsent_s
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_closed = False

    def fetched(self, channel: str) -> None:
        """A client has some of the channel's responses, and may fail to send them."""
        if channel not in self._timers:
            self._look_in(channel, self._unsent_s, then_s=2 * self._unsent_s)

    def acknowledged(self, channel: str) -> None:
        """A client has delivered one of the channel's responses."""
        if timer := self._timers.pop(channel, None):
            timer.cancel()
        self._look_in(channel, self._after_s, then_s=self._unsent_s)

    def _look_in(self, channel: str, wait_s: float, *, then_s: float) -> None:
        if not self._is_closed:  # an acknowledgement may be under way still
            self._timers[channel] = asyncio.get_running_loop().call_later(wait_s, self._look, channel, then_s)

    def _look(self, channel: str, then_s: float) -> None:
        del self._timers[channel]
        if not self._feed.readers:
            return  # whoever comes looks for itself
        found = responses.responses_to_fetch(
            self._conn, channel, has_adapter=channel in registry.NAMES, now_ms=clock.now_ms(), limit=1
        )
        for each in found:
            about = (each["messageId"], each["id"], each["agent"], channel)
            event = Event(0, "response_ready", *about, data={}, created_at=each["timestamp"])
            for row in frames.render(self._conn, [event]):
                self._feed.remind([(name, text) for name, text in row.named if name == _TOLD])
            self._look_in(channel, then_s, then_s=min(2 * then_s, _SELDOM_S))

    def close(self) -> None:
        """Remind nobody any more."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
