"""The store as lists and loops: what each verb must do, written for reading and not for speed.

Rows are objects in a dict by id; nothing is indexed, nothing is clever. ``events`` collects what a verb must have told
since it was last emptied, as (type, message id, response id, data).
"""

from tests.shared.queue.model.responses import ResponseModel
from tests.shared.queue.model.rows import (
    GIVEN_UP,
    LONGEST_SLEEP,
    MAX_ATTEMPTS,
    Message,
    Response,
    successor,
    waits_left,
)

WAITS = {1: 2500, 2: 5000}  # ms until the next try; half of what is set, because the jitter is 0
KEPT_MAIL = 1000
KEPT_MS = 72 * 60 * 60 * 1000  # the key of an event whose message is deleted
ALREADY_LIVE = "the series has another occurrence that is live"
SUSPECT_FROM, CERTAIN = 20, 200
LOSSES = {"dispatch": 10, "host": 1, "dispatch, by another": 0}  # what each adds to the suspicion


class Model(ResponseModel):
    """Everything that the store knows."""

    def __init__(self, concurrency: dict[str, int]) -> None:
        super().__init__()
        self.concurrency = concurrency
        self.announced = 0
        self.kept_keys: set[tuple[str | None, str]] = set()  # of events whose messages are deleted
        self.kept_ids: set[str] = set()  # that callers gave

    # -- messages: stored and told

    def has_event(self, event_key: str | None, agent: str) -> bool:
        known = {(each.event_key, each.agent) for each in self.messages.values()} | self.kept_keys
        return event_key is not None and (event_key, agent) in known

    def remove(self, id_: int, *, forgotten: int = 0) -> None:
        """Delete a message; a late copy of its event stays known, unless it came before *forgotten*."""
        each = self.messages.pop(id_)
        if each.created_at > forgotten:
            self.kept_keys.add((each.event_key, each.agent))
            if each.message_id.startswith("mine_"):
                self.kept_ids.add(each.message_id)

    def has_live(self, series: str) -> bool:
        live = ("pending", "processing", "paused")
        return any(each.series == series and each.recurrence and each.status in live for each in self.messages.values())

    def announce(self) -> int:
        new = sorted(id_ for id_ in self.messages if id_ > self.announced)
        for id_ in new:
            each = self.messages[id_]
            data = {} if each.process_after is None else {"process_after": each.process_after}
            self.events.append(("message_received", each.message_id, None, data))
        self.announced = max(new, default=self.announced)
        return len(new)

    # -- turns

    def open(self, session: int, *statuses: str, trigger: bool = True) -> list[Message]:
        return [
            each
            for _, each in sorted(self.messages.items())
            if each.session == session and each.trigger is trigger and each.status in statuses
        ]

    def due(self, session: int, now: int, limit: int, *, whole: bool = False) -> list[Message]:
        """The messages that ask for the session's next turn; *whole*: and those that can't share it."""
        if self.open(session, "processing"):
            return []
        waiting = [
            each
            for each in self.open(session, "pending")
            if not (is_later(each, now) and each.failure is None)  # planned for later: nobody waits for it
        ]
        if not waiting or is_later(waiting[0], now):
            return []
        if whole:
            return waiting
        urgent = [each for each in waiting if each.is_urgent and not is_later(each, now)]
        batch: list[Message] = []
        for each in (urgent + [each for each in waiting if each not in urgent])[:limit]:
            alone = each.has_own_answer or each.retry_count > 0 or each.runs_alone
            if is_later(each, now) or (
                batch and (alone or (each.chat, each.thread) != (batch[-1].chat, batch[-1].thread))
            ):
                break
            batch.append(each)
            if alone:
                break
        return batch

    def ready(self, now: int, held: dict[int, str]) -> list[int]:
        """The sessions whose turn it is: the urgent ones first, then by their oldest message that is due."""
        found: list[tuple[bool, int, int]] = []
        has_suspect = False
        for agent, concurrency in sorted(self.concurrency.items()):
            sessions = {each.session for each in self.messages.values() if each.agent == agent}
            busy = {session for session in sessions if self.open(session, "processing")}
            busy |= {session for session, holder in held.items() if holder == agent}
            due = [
                (not self.has_urgent(session, now), min(each.id for each in batch), session)
                for session in sessions - busy
                if (batch := self.due(session, now, 10**6, whole=True))
            ]
            room = concurrency - len(busy)
            for place in sorted(due):
                is_suspect = self.is_suspect(place[1])
                if room > 0 and not (is_suspect and has_suspect):
                    found.append(place)
                    has_suspect = has_suspect or is_suspect
                    room -= 1
        return [session for *_, session in sorted(found)]

    def is_suspect(self, id_: int) -> bool:
        """Its process went away with it, more than once: one such at a time."""
        each = self.messages[id_]
        return each.suspicion >= SUSPECT_FROM

    def has_urgent(self, session: int, now: int) -> bool:
        return any(each.is_urgent and not is_later(each, now) for each in self.open(session, "pending"))

    def batch(self, session: int, now: int, limit: int) -> list[Message]:
        asked = self.due(session, now, limit)
        context = self.open(session, "pending", trigger=False)[::-1][: limit - len(asked)]
        return sorted([*asked, *context], key=lambda each: each.id) if asked else []

    def claim(self, batch: list[Message], token: str, now: int, lease: int) -> None:
        for each in batch:
            each.status, each.token, each.lease, each.updated_at = "processing", token, now + lease, now
            if each.process_after is not None and now - each.process_after > LONGEST_SLEEP:
                each.waits_since = None  # the machine slept, and nothing was tried
        first = next(each for each in batch if each.trigger)
        data = {"batch": [each.message_id for each in batch], "attempt": first.retry_count + 1}
        self.events.append(("chain_step_start", first.message_id, None, data))

    def held(self, token: str) -> list[Message]:
        return [each for _, each in sorted(self.messages.items()) if each.token == token]

    def settle(self, token: str, answers: int, now: int) -> None:
        batch = self.held(token)
        for each in self.open(batch[0].session, "pending", trigger=False):
            if each.id < batch[-1].id:
                each.status, each.updated_at = "completed", now
        for each in batch:
            self._end(each, "completed", now)
            each.last_error = each.failure = None
        first = next(each for each in batch if each.trigger)
        for place in range(answers):
            self._answer(first, now + place)
        data = {"batch": [each.message_id for each in batch], "answers": answers}
        self.events.append(("chain_step_done", first.message_id, None, data))
        self.advance(now)

    def fail(
        self,
        token: str,
        reason: str,
        now: int,
        *,
        retryable: bool = True,
        wait: int | None = None,
        code: str = "error",
    ) -> None:
        dead = []
        is_alone = sum(each.trigger for each in self.held(token)) == 1
        for each in self.held(token):
            if not each.trigger:
                self._end(each, "pending", now)
                continue
            if wait is None:
                each.retry_count += 1
            left = waits_left(each, now, costs_no_attempt=wait is not None)
            is_final = wait is None and (not retryable or each.retry_count >= MAX_ATTEMPTS)
            is_dead = left <= 0 or (is_final and is_alone)
            if is_final and not is_alone:  # it proves nothing about this one
                each.retry_count -= 1
                each.runs_alone = True
            each.suspicion = 0
            self._end(each, "dead" if is_dead else "pending", now)
            each.last_error = reason if left > 0 else GIVEN_UP.format("agent")
            each.failure = "rate_limited" if wait is not None else code
            pause = WAITS.get(each.retry_count, 0) if wait is None else min(wait, left)
            each.process_after = None if is_final or is_dead else now + pause
            self._failed(each, "message_dead" if is_dead else "message_retry", each.last_error)
            if is_dead:
                dead.append(each)
        for place, each in enumerate(dead):
            self._answer(each, now + place)
        self.advance(now)

    def lose(self, token: str, what: str, reason: str, now: int) -> None:
        """Dispatch went away during the turn, alone or with its host."""
        asked = [each for each in self.held(token) if each.trigger]
        has_suspect = any(each.suspicion >= SUSPECT_FROM for each in asked)
        for each in self.held(token):
            self._end(each, "pending", now)
        for each in asked:
            is_suspect, is_dead, wait = each.suspicion >= SUSPECT_FROM, False, 0
            each.suspicion += LOSSES["dispatch" if has_suspect else what]
            each.last_error = reason
            if is_suspect and len(asked) == 1:
                losses = each.suspicion // 10
                each.last_error += f", {losses} times in a row while this message ran"
                is_dead, wait = each.suspicion >= CERTAIN, min(300_000, 5000 * 2 ** (losses - 3)) // 2
            elif is_suspect:
                each.runs_alone = True
            if is_dead:
                each.status, each.suspicion = "dead", 0
                each.retry_count += 1
            each.failure, each.waits_since = "process_gone", None
            each.process_after = now + wait if wait and not is_dead else None
            self._failed(each, "message_dead" if is_dead else "message_retry", each.last_error)
            if is_dead:
                self._answer(each, now)
        self.advance(now)

    def acquit(self, now: int) -> None:
        """Dispatch went away, which began just now, and nothing ran that was there before: what waited is cleared."""
        for each in self.messages.values():
            is_lost = each.trigger and each.status == "pending" and each.failure == "process_gone"
            if is_lost and each.suspicion and each.updated_at <= now:  # the clock may have been set back since
                each.suspicion, each.process_after, each.updated_at = 0, None, now

    def give_back(self, token: str, now: int) -> None:
        for each in self.held(token):
            self._end(each, "pending", now)
            if each.trigger:
                self.events.append(("message_released", each.message_id, None, {}))

    def running(self) -> list[str]:
        """The tokens of the turns that hold something, in the order of agents and sessions."""
        holding = sorted(
            (each.agent, each.session, each.token) for each in self.messages.values() if each.token is not None
        )
        return list(dict.fromkeys(token for *_, token in holding))

    def _failed(self, each: Message, type_: str, reason: str) -> None:
        data = {"reason": reason, "failure": each.failure, "retry_count": each.retry_count}
        data["process_after"] = each.process_after
        self.events.append((type_, each.message_id, None, data))

    def _end(self, each: Message, status: str, now: int) -> None:
        each.status, each.token, each.lease, each.updated_at = status, None, None, now

    def _answer(self, asked: Message, now: int) -> None:
        said = Response(self.next_response(), asked.message_id, asked.chat, now)
        said.agent, said.session = asked.agent, asked.session
        self.respond(said)

    # -- by hand

    def cancel(self, id_: int, reason: str, now: int) -> None:
        each = self.messages[id_]
        token = each.token
        self._end(each, "cancelled", now)
        each.last_error, each.failure = reason, None
        was_running = {"running": True} if token else {}
        self.events.append(("message_cancelled", each.message_id, None, {"reason": reason, **was_running}))
        for other in self.held(token) if token else []:
            self._end(other, "pending", now)
            if other.trigger:
                self.events.append(("message_released", other.message_id, None, {"reason": reason}))

    def move(self, id_: int, status: str, event: str, now: int) -> None:
        each = self.messages[id_]
        each.status, each.updated_at = status, now
        self.events.append((event, each.message_id, None, {}))

    def retry(self, id_: int, now: int) -> None:
        self.move(id_, "pending", "message_retried", now)
        each = self.messages[id_]
        each.retry_count, each.last_error, each.failure, each.process_after = 0, None, None, None
        each.waits_since, each.runs_alone, each.suspicion = None, False, 0

    def delete(self, id_: int, now: int) -> None:
        self.move(id_, "cancelled", "message_deleted", now)
        if id_ == max(self.messages):
            self.messages[id_].message, self.messages[id_].recurrence = "", None
        else:
            self.remove(id_, forgotten=now - KEPT_MS)

    # -- series

    def advance(self, now: int) -> None:
        """Every occurrence that ended hands over to the next."""
        for _, each in sorted(self.messages.items()):
            if each.recurrence and each.status in ("completed", "dead", "cancelled"):
                if self.has_live(each.series or ""):
                    each.recurrence = None
                    self.events.append(("series_ended", each.message_id, None, {"reason": ALREADY_LIVE}))
                    continue
                due, missed = successor(each.scheduled_at or 0, each.misfire, now)
                self.miss(each.message_id, None, each.series, missed)
                id_ = max(self.messages) + 1
                self.messages[id_] = Message(
                    *(id_, "", each.agent, each.session, each.chat, each.message, now, now),
                    thread=each.thread,
                    trigger=each.trigger,
                    process_after=due,
                    recurrence=each.recurrence,
                    misfire=each.misfire,
                    scheduled_at=due,
                    series=each.series,
                )
                each.recurrence = None


def is_later(each: Message, now: int) -> bool:
    return each.process_after is not None and each.process_after > now
