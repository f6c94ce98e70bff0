"""The rows that the model keeps, what reads the same of the store, and the rules of both kinds of rows."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

MAX_ATTEMPTS = 3
GRID = 300_000  # of the one cron expression that is used: every five minutes
CRON = "*/5 * * * *"
LONGEST_WAITS = 24 * 60 * 60 * 1000
LONGEST_SLEEP = 6 * 60 * 60 * 1000
GIVEN_UP = "slow down; given up after 24 hours of waits that the {} asked for"
Told = tuple[str, str | None, int | None, dict[str, Any]]


@dataclass
class Message:
    id: int
    message_id: str
    agent: str
    session: int
    chat: int
    message: str
    created_at: int
    updated_at: int
    thread: str | None = None
    trigger: bool = True
    is_urgent: bool = False
    has_own_answer: bool = False
    from_agent: str | None = None
    event_key: str | None = None
    status: str = "pending"
    retry_count: int = 0
    last_error: str | None = None
    failure: str | None = None
    waits_since: int | None = None
    runs_alone: bool = False
    suspicion: int = 0
    token: str | None = None
    lease: int | None = None
    process_after: int | None = None
    recurrence: str | None = None
    misfire: str = "coalesce"
    scheduled_at: int | None = None
    series: str | None = None

    def row(self) -> tuple[Any, ...]:
        """As ``COLUMNS`` reads it."""
        return (
            *(self.id, self.message_id, self.session, self.message, self.status, self.retry_count, self.last_error),
            *(self.failure, self.token, self.lease, self.process_after, self.recurrence, self.scheduled_at),
            *(self.series, self.created_at, self.updated_at),
        )

    COLUMNS = """
        SELECT id, message_id, session_id, message, status, retry_count, last_error, failure, claimed_by, lease,
               process_after, recurrence, scheduled_at, series_id, created_at, updated_at
          FROM messages
         ORDER BY id
    """


@dataclass
class Response:
    id: int
    message_id: str
    chat: int
    created_at: int
    status: str = "pending"
    retry_count: int = 0
    last_error: str | None = None
    failure: str | None = None
    waits_since: int | None = None
    token: str | None = None
    lease: int | None = None
    deliver_after: int | None = None
    recurrence: str | None = None
    scheduled_at: int | None = None
    series: str | None = None
    parts: list[str] = field(default_factory=list)
    part_started: int | None = None
    acked_at: int | None = None
    unanswered: Counter[int | None] = field(default_factory=Counter)  # by part
    agent: str | None = None  # which said it
    session: int = 0

    def row(self) -> tuple[Any, ...]:
        """As ``COLUMNS`` reads it."""
        return (
            *(self.id, self.message_id, self.chat, self.status, self.retry_count, self.last_error, self.failure),
            *(self.token, self.lease, self.deliver_after, self.recurrence, self.scheduled_at, self.series),
            *(len(self.parts), self.part_started, self.created_at, self.acked_at),
        )

    COLUMNS = """
        SELECT id, message_id, chat_id, status, retry_count, last_error, failure, claimed_by, lease, deliver_after,
               recurrence, scheduled_at, series_id, json_array_length(parts), part_started, created_at, acked_at
          FROM responses
         ORDER BY id
    """


def successor(scheduled: int, misfire: str, now: int) -> tuple[int, int | None]:
    """The next instant, and the first one before it that gets no run."""
    following = scheduled // GRID * GRID + GRID
    return (now // GRID * GRID + GRID, following) if misfire != "catch_up" and following <= now else (following, None)


def waits_left(each: Message | Response, now: int, *, costs_no_attempt: bool) -> int:
    """How long all its waits in a row may still last, with the one that begins now."""
    if not costs_no_attempt:
        each.waits_since = None
        return LONGEST_WAITS
    each.waits_since = now if each.waits_since is None else min(each.waits_since, now)
    return each.waits_since + LONGEST_WAITS - now
