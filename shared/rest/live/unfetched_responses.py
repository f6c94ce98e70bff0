"""Unfetched responses: a client that fetches responses is notified again while its channel has pending ones.

TinyAGI's clients fetch responses when an event announces one. They miss events that come while they fetch, and retry a
response that they could not send only at the next event. So readers get one more event about the oldest pending
response of such a channel: shortly after the last acknowledgement, and then ever less often while nothing is
acknowledged. Channels that no client fetches from get none. The event has TinyAGI's name only: ``response_ready``
stands for a row, and is sent once.
"""

import asyncio

import apsw

from shared.channels import registry
from shared.core.time import clock
from shared.db.queue.events import RecordedEvent
from shared.db.views import responses
from shared.rest.live import frames
from shared.rest.live.feed import EventFeed

_EVENT = "message:done"
_SELDOM_S = 600.0


class UnfetchedResponses:
    """One timer for each channel that a client fetches from. It runs while responses are pending and readers listen.

    Args:
        after_s: the wait after an acknowledgement; a client has finished its round of fetching by then.
        unsent_s: the wait after a fetch without an acknowledgement; it doubles each time.
    """

    def __init__(self, conn: apsw.Connection, feed: EventFeed, *, after_s: float = 0.5, unsent_s: float = 10.0) -> None:
        self._conn = conn
        self._feed = feed
        self._after_s = after_s
        self._unsent_s = unsent_s
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._is_closed = False

    def watch(self, channel: str) -> None:
        """A client has fetched responses of the channel, and may fail to send them."""
        if channel not in self._timers:
            self._look_in(channel, self._unsent_s, then_s=2 * self._unsent_s)

    def watch_again(self, channel: str) -> None:
        """A client has delivered a response of the channel."""
        if timer := self._timers.pop(channel, None):
            timer.cancel()
        self._look_in(channel, self._after_s, then_s=self._unsent_s)

    def _look_in(self, channel: str, wait_s: float, *, then_s: float) -> None:
        if not self._is_closed:  # an acknowledgement may come after the close
            self._timers[channel] = asyncio.get_running_loop().call_later(wait_s, self._look, channel, then_s)

    def _look(self, channel: str, then_s: float) -> None:
        del self._timers[channel]
        if not self._feed.readers:
            return  # a client that connects fetches by itself
        found = responses.responses_to_fetch(
            self._conn, channel, has_adapter=registry.is_adapted(channel), now_ms=clock.now_ms(), limit=1
        )
        for each in found:
            about = (each["messageId"], each["id"], each["agent"], channel)
            event = RecordedEvent(0, "response_ready", *about, data={}, created_at=each["timestamp"])
            for row in frames.render(self._conn, [event]):
                self._feed.send_unstored([(name, text) for name, text in row.named if name == _EVENT])
            self._look_in(channel, then_s, then_s=min(2 * then_s, _SELDOM_S))

    def close(self) -> None:
        """Stop all timers."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
