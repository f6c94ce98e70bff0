"""What became of a schedule's runs, in words: by the agent's history and the events, which outlive the messages."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import apsw
from typing_extensions import TypedDict

from shared.core import content
from shared.core.time import cron
from shared.core.time.durations import time_span
from shared.db.engine.connection import rows
from shared.db.queue.schedules import missed_runs
from shared.db.queue.schedules.missed_runs import MissedRuns
from shared.db.queue.schedules.response_series import RESPONSES

Outcome = Literal["answered", "silent", "ended", "sent", "not_run", "failed", "cancelled", "running", "waits", "missed"]
_MOST_COUNTED = 1000  # instants of one gap
LATE_MS = 60_000  # from here on the sentence says how late a run began
_LONGEST_SAID = 200


class RunView(TypedDict):
    """A run of a schedule, or instants that got none. *words*: the same as a sentence, in the schedule's time zone.

    *outcome*: ``answered``, ``silent`` (it ended without an answer), ``ended`` (what it said is not known), ``sent`` (a
    text without an agent), ``not_run`` (no model was asked), ``failed``, ``cancelled``, ``running``, ``waits`` (for
    another attempt), ``missed``. *count*: of a ``missed`` one, how many instants from *dueAt* on; 1000 stands for more
    too. *reason*: why it was not run, failed, was cancelled or missed. *said*: the beginning of the answer.
    *requests*, *tokens*: of models.
    """

    dueAt: int
    outcome: Outcome
    words: str
    count: int
    messageId: str
    startedAt: int | None
    endedAt: int | None
    reason: str | None
    said: str | None
    requests: int
    tokens: int


class RunEnd(NamedTuple):
    """How a run ended, and when, in ms UTC."""

    outcome: Outcome
    at_ms: int | None = None
    reason: str | None = None
    said: str | None = None


_BEGUN = """
    SELECT message_id, due_at, started_at, timezone
      FROM schedule_runs
     WHERE series_id = :series
     ORDER BY id DESC
     LIMIT :limit
"""

_IDS = "(SELECT value FROM json_each(:ids))"
_ROWS = f"SELECT message_id, status, last_error, updated_at FROM messages WHERE message_id IN {_IDS}"  # noqa: S608
_ANSWERS = """
    SELECT i.value, a.content, a.created_at
      FROM json_each(:ids) i
      JOIN agent_messages a ON a.id = (SELECT id
                                         FROM agent_messages
                                        WHERE message_id = i.value AND message_id GLOB 'task_*' AND role = 'assistant'
                                        ORDER BY id DESC
                                        LIMIT 1)
"""
_NOTES = """
    SELECT i.value, e.type, e.created_at, e.data
      FROM json_each(:ids) i
      JOIN events e ON e.id = (SELECT id
                                 FROM events
                                WHERE message_id = i.value AND type <> 'message_received' AND type <> 'chain_step_start'
                                  AND type <> 'chain_step_done' AND type <> 'response_ready'
                                  AND type <> 'response_acked' AND type IN (SELECT value FROM json_each(:types))
                                ORDER BY id DESC
                                LIMIT 1)
"""
_WAITING = f"""
    SELECT message_id, last_error
      FROM responses
     WHERE series_id IN {_IDS} AND (status = 'pending' OR status = 'delivering' OR status = 'paused')
"""  # noqa: S608

_USED = """
    SELECT ifnull(sum(requests), 0), ifnull(sum(input + output + cache_read + cache_write), 0)
      FROM usage
     WHERE created_at >= :since AND created_at <= :until
       AND EXISTS (SELECT 1 FROM json_each(messages) WHERE value = :id)
"""

_ENDED_BY: dict[str, Outcome] = {
    "turn_not_run": "not_run",
    "message_dead": "failed",
    "message_cancelled": "cancelled",
    "response_dead": "failed",
}

_MISSED = {
    "too_late": "it could not begin in time",
    "coalesced": "another run, late or long, replaced it",
    "ended": "it had not begun when the schedule was cancelled",
}


def of_series(conn: apsw.Connection, series_id: str, *, now_ms: int, limit: int) -> list[RunView]:
    """The newest runs of the series and what it missed, newest first; of one that has ended too."""
    begun = rows(conn, _BEGUN, {"series": series_id, "limit": limit})
    ends = ends_of(conn, [(series_id, message_id) for message_id, *_ in begun])
    found = [
        _run(conn, message_id, due_at, started_at, timezone or "UTC", ends[message_id], now_ms)
        for message_id, due_at, started_at, timezone in begun
    ]
    found += map(_missed, missed_runs.newest(conn, series_id, limit=limit))
    return sorted(found, key=lambda each: each["dueAt"], reverse=True)[:limit]


def _run(
    conn: apsw.Connection, message_id: str, due_at: int, started_at: int, timezone: str, end: RunEnd, now_ms: int
) -> RunView:
    until = now_ms if end.at_ms is None else end.at_ms
    ((requests, tokens),) = rows(conn, _USED, {"id": message_id, "since": started_at, "until": until})
    return {
        "dueAt": due_at,
        "outcome": end.outcome,
        "words": sentence(end, due_at, started_at, ZoneInfo(timezone)),
        "count": 1,
        "messageId": message_id,
        "startedAt": started_at,
        "endedAt": end.at_ms,
        "reason": end.reason,
        "said": end.said,
        "requests": requests,
        "tokens": tokens,
    }


def ends_of(conn: apsw.Connection, begun: Iterable[tuple[str, str]]) -> dict[str, RunEnd]:
    """What became of runs that have begun, by message. *begun*: of each its series and its message."""
    series = {message_id: series_id for series_id, message_id in begun}
    texts = [each for each in series if each.startswith(f"{RESPONSES.id_prefix}_")]
    of_all = {"ids": json.dumps(list(series))}
    noted = {
        id_: RunEnd(_ENDED_BY[type_], at_ms, content.readable(data).get("reason"))
        for id_, type_, at_ms, data in rows(conn, _NOTES, {**of_all, "types": json.dumps(list(_ENDED_BY))})
    }
    kept = {id_: kept for id_, *kept in rows(conn, _ROWS, of_all)}
    answers = {id_: answer for id_, *answer in rows(conn, _ANSWERS, of_all)}
    ends = {each: _message_end(each, kept.get(each), noted.get(each), answers.get(each)) for each in series}
    waiting = dict(rows(conn, _WAITING, {"ids": json.dumps([series[each] for each in texts])})) if texts else {}
    for each in texts:
        ends[each] = RunEnd("waits", reason=waiting[each]) if each in waiting else noted.get(each, RunEnd("sent"))
    return ends


def _message_end(
    message_id: str, kept: Sequence[Any] | None, noted: RunEnd | None, answer: Sequence[Any] | None
) -> RunEnd:
    """By the message's row, the newest event of an end, and what the agent said last; each may be missing. Pure."""
    status, error, updated_at = kept or (None, None, None)
    if status == "processing":
        return RunEnd("running")
    if status in ("pending", "paused"):
        return RunEnd("waits", reason=error)
    if answer is not None and (noted is None or (noted.at_ms is not None and noted.at_ms < answer[1])):
        return RunEnd("answered", answer[1], said=_shortened(answer[0]))
    return noted or RunEnd("silent" if message_id.startswith("task_") else "ended", updated_at)


def _missed(missed: MissedRuns) -> RunView:
    count, words = missed_words(missed, missed.timezone or "UTC")
    return {
        "dueAt": missed.due_at,
        "outcome": "missed",
        "words": words,
        "count": count,
        "messageId": missed.message_id,
        "startedAt": None,
        "endedAt": None,
        "reason": missed.reason,
        "said": None,
        "requests": 0,
        "tokens": 0,
    }


@lru_cache(maxsize=4096)  # a grid of minutes takes a tenth of a second
def missed_words(missed: MissedRuns, timezone: str) -> tuple[int, str]:
    """How many instants they are, and a sentence with the clock of *timezone*. Pure."""
    instants = cron.between(
        missed.recurrence, missed.timezone, due_ms=missed.due_at, until_ms=missed.until_at, most=_MOST_COUNTED
    )
    zone = ZoneInfo(timezone)
    span = _clock(missed.due_at, zone)
    if len(instants) > 1:
        more = " or more" if len(instants) == _MOST_COUNTED else ""
        last = f"{_day(instants[-1], zone)} {_clock(instants[-1], zone)}"
        span = f"{span} and later, {len(instants)} runs{more} until {last}"
    return len(instants), f"missed {span}: {_MISSED[missed.reason]}"


# -- words


def sentence(end: RunEnd, due_at: int, started_at: int, zone: ZoneInfo) -> str:
    """``ran 08:00:02, 14 s, said: Nothing new.`` Pure."""
    began = _clock(started_at, zone)
    if started_at - due_at >= LATE_MS:
        began += f" ({time_span(started_at - due_at)} late)"
    took = "" if end.at_ms is None else f", {time_span(max(end.at_ms - started_at, 1000))}"
    why = f": {end.reason}" if end.reason else ""
    return _SENTENCES[end.outcome].format(began=began, took=took, said=end.said, why=why)


_SENTENCES: dict[Outcome, str] = {
    "answered": "ran {began}{took}, said: {said}",
    "silent": "ran {began}{took}, said nothing",
    "ended": "ran {began}{took}",
    "sent": "sent {began}",
    "not_run": "asked no model {began}{why}",
    "failed": "ran {began}{took}, failed{why}",
    "cancelled": "ran {began}{took}, was cancelled{why}",
    "running": "runs since {began}",
    "waits": "began {began}, waits for another attempt{why}",
}


def _clock(at_ms: int, zone: ZoneInfo) -> str:
    at = datetime.fromtimestamp(at_ms // 1000, zone)
    return f"{at.hour:02}:{at.minute:02}:{at.second:02}"  # a third of strftime's time: a calendar tells thousands


def _day(at_ms: int, zone: ZoneInfo) -> str:
    return datetime.fromtimestamp(at_ms // 1000, zone).strftime("%Y-%m-%d")


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST_SAID else f"{flat[: _LONGEST_SAID - 1].rstrip()}…"
