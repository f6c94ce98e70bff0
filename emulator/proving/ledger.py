"""The ledger of a run: what became of each message that was accepted, and what arrived more than once and why.

accepted = answered + dead + dropped + waiting + cancelled, and nothing is left over: what is left over is lost.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apsw

from emulator.proving import row_promises
from emulator.proving.platform import Written
from emulator.proving.witnesses import Witnesses

ENDS = ("answered", "dead", "dropped", "waiting", "cancelled")
# A note that tells an agent of an answer that was not delivered is Postroom's own.
UNREADABLE = "the database can't be read"
WRITTEN = "FROM messages WHERE NOT (kind = 'system' AND trigger = 0)"
DOUBTS = "SELECT response_id, count(*) FROM events WHERE type = 'response_outcome_unknown' GROUP BY response_id"
_ANSWERS = """
    SELECT m.channel, m.event_key, r.status, ifnull(r.last_error, '')
      FROM messages m
      JOIN responses r ON r.message_id = m.message_id
     WHERE m.event_key IS NOT NULL AND r.status <> 'deleted'
     ORDER BY r.id
"""
_REASONS_OF_DOUBTS = """
    SELECT doubt.response_id,
           (SELECT json_extract(event.data, '$.reason') FROM events event
             WHERE event.response_id = doubt.response_id AND event.id > doubt.id
               AND event.type IN ('response_retry', 'response_dead')
             ORDER BY event.id LIMIT 1)
      FROM events doubt
     WHERE doubt.type = 'response_outcome_unknown'
     ORDER BY doubt.id
"""


@dataclass(frozen=True, slots=True)
class Doubled:
    """An answer that arrived more than once, and the recorded reasons why its sender did not know the outcome."""

    chat: str
    text: str
    arrivals: int
    doubts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Balance:
    """The ledger.

    Attributes:
        accepted: messages with a 2xx.
        ends: how many of them ended in each of :data:`ENDS`.
        reasons: of the ends that are no answer, how often each reason was given.
        lost: accepted texts in no column of the ledger, each with what was found in place of an end.
        sends: calls of the platform.
        arrivals: sends that people got.
        doubled: what arrived more than once.
    """

    accepted: int
    ends: Mapping[str, int]
    reasons: Mapping[str, Mapping[str, int]]
    lost: Mapping[str, str]
    sends: int
    arrivals: int
    doubled: tuple[Doubled, ...]

    def facts(self) -> dict[str, Any]:
        """The ledger for programs."""
        return {
            "accepted": self.accepted,
            **{end: self.ends[end] for end in ENDS},
            "lost": len(self.lost),
            "lostMessages": dict(self.lost),
            "reasons": {end: dict(counts) for end, counts in self.reasons.items()},
            "sends": self.sends,
            "arrivals": self.arrivals,
            "arrivedTwice": [
                {"chat": each.chat, "text": each.text, "arrivals": each.arrivals, "doubts": list(each.doubts)}
                for each in self.doubled
            ],
        }


def balance(seen: Witnesses) -> Balance:
    """The ledger by what the witnesses saw, at any instant of a run."""
    accepted = {each.event: each for each in seen.written.values() if each.accepted}
    try:
        return _balance(seen, accepted)
    except apsw.Error as error:
        lost = {each.text: f"{UNREADABLE}: {error}" for each in accepted.values()}
        return Balance(len(accepted), dict.fromkeys(ENDS, 0), {}, lost, len(seen.sends), len(seen.taken), ())


def _balance(seen: Witnesses, accepted: Mapping[tuple[str, str], Written]) -> Balance:
    answers: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for channel, key, status, error in seen.rows(_ANSWERS):
        answers[channel, key].append((status, error))
    ends: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    lost: dict[str, str] = {}
    became = row_promises.outcomes(seen.rows, accepted).became
    for key, each in accepted.items():
        end, reason = became.get(key, ("lost", "it is not stored"))
        if end == "answered":
            end, reason = _end_of_answers(answers[key])
        if end not in ENDS:
            lost[each.text] = reason or f"it is {end}"
            continue
        ends[end] += 1
        if end != "answered":
            reasons[end][reason or "nothing failed"] += 1
    taken = seen.taken
    return Balance(
        len(accepted),
        {end: ends[end] for end in ENDS},
        reasons,
        lost,
        len(seen.sends),
        len(taken),
        tuple(_doubled(seen)),
    )


def _end_of_answers(answers: list[tuple[str, str]]) -> tuple[str, str]:
    for status, error in answers:
        if status == "dead":
            return "dead", f"the answer was not delivered: {error}"
        if status == "cancelled":
            return "cancelled", error
        if status != "acked":
            return "waiting", error or f"the answer is {status}"
    return ("answered", "") if answers else ("lost", "its turn ended without an answer")


def _doubled(seen: Witnesses) -> Iterator[Doubled]:
    responses: dict[tuple[str, str], list[int]] = defaultdict(list)
    for id_, chat, text in seen.rows("SELECT id, platform_id, message FROM responses WHERE status <> 'deleted'"):
        responses[chat, text].append(id_)
    doubts: dict[int, list[str]] = defaultdict(list)
    for id_, reason in seen.rows(_REASONS_OF_DOUBTS):
        doubts[id_].append(str(reason))
    arrived = Counter((send.chat, send.text) for send in seen.taken)
    for (chat, text), count in arrived.items():
        ids = responses.get((chat, text), [])
        if count > max(1, len(ids)):
            yield Doubled(chat, text, count, tuple(reason for id_ in ids for reason in doubts[id_]))
