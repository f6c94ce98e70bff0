"""The responses of the store as a dict: what each verb must do. Messages are in ``model``."""

from typing import Any

from tests.shared.queue.model.rows import (
    GIVEN_UP,
    LONGEST_SLEEP,
    MAX_ATTEMPTS,
    Message,
    Response,
    Told,
    successor,
    waits_left,
)

SEND_WAITS = {1: 2500, 2: 10_000}
SENT_TWICE = (
    "it was sent {} times without an answer: see in the chat whether it arrived, then retry or delete the response"
)


class ResponseModel:
    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}
        self.responses: dict[int, Response] = {}
        self.silent_until: dict[int, int] = {}  # by chat
        self.events: list[Told] = []

    def next_response(self) -> int:
        return max(self.responses, default=0) + 1

    def respond(self, new: Response, data: dict[str, Any] | None = None) -> None:
        self.responses[new.id] = new
        self.events.append(("response_ready", new.message_id, new.id, data or {}))

    def heads(self, now: int) -> list[int]:
        found = []
        for chat in {each.chat for each in self.responses.values()}:
            mine = [each for _, each in sorted(self.responses.items()) if each.chat == chat]
            waiting = [
                each
                for each in mine
                if each.status == "pending" and not ((each.deliver_after or 0) > now and each.failure is None)
            ]
            if (
                waiting
                and (waiting[0].deliver_after or 0) <= now
                and self.silent_until.get(chat, 0) <= now
                and not any(each.status == "delivering" for each in mine)
            ):
                found.append(waiting[0].id)
        return sorted(found)

    def send(self, id_: int, token: str, now: int, lease: int) -> None:
        each = self.responses[id_]
        each.status, each.token, each.lease, each.part_started = "delivering", token, now + lease, len(each.parts)

    def ack(self, id_: int, parts: list[str], now: int) -> None:
        each = self.responses[id_]
        each.status, each.token, each.lease, each.part_started = "acked", None, None, None
        each.last_error, each.failure, each.parts, each.acked_at = None, None, parts, now
        self.events.append(("response_acked", each.message_id, id_, {}))

    def fail_send(
        self,
        id_: int,
        reason: str,
        now: int,
        *,
        retryable: bool = True,
        wait: int | None = None,
        is_limit: bool = False,
        is_unknown: bool = False,
    ) -> None:
        """*wait*: what the platform asked for; *is_limit*: it costs no attempt, and holds the whole chat."""
        each = self.responses[id_]
        each.retry_count += not is_limit
        if each.deliver_after is not None and now - each.deliver_after > LONGEST_SLEEP:
            each.waits_since = None  # the machine slept, and nothing was tried
        left = waits_left(each, now, costs_no_attempt=is_limit)
        is_dead = left <= 0 or (not is_limit and (not retryable or each.retry_count >= MAX_ATTEMPTS))
        reason = reason if left > 0 else GIVEN_UP.format("platform")
        if is_unknown:
            each.unanswered[each.part_started] += 1
        if is_unknown and each.unanswered[each.part_started] >= 2:
            is_dead, reason = True, f"{reason}; {SENT_TWICE.format(each.unanswered[each.part_started])}"
        each.status, each.token, each.lease, each.last_error = "dead" if is_dead else "pending", None, None, reason
        each.failure = "outcome_unknown" if is_unknown else "rate_limited" if is_limit else "error"
        pause = SEND_WAITS.get(each.retry_count, 0) if wait is None else min(wait, left)
        each.deliver_after = None if is_dead else now + pause
        if is_unknown:
            self.events.append(("response_outcome_unknown", each.message_id, id_, {"part": each.part_started}))
        else:
            each.part_started = None
        data = {"reason": reason, "failure": each.failure, "retry_count": each.retry_count}
        data["deliver_after"] = each.deliver_after
        self.events.append(("response_dead" if is_dead else "response_retry", each.message_id, id_, data))
        if is_dead and each.agent is not None:
            note = Message(max(self.messages) + 1, "", each.agent, each.session, 0, "", now, now, trigger=False)
            self.messages[note.id] = note
        if is_limit and each.deliver_after is not None:
            self.silent_until[each.chat] = each.deliver_after

    def has_live_response(self, series: str) -> bool:
        return any(
            each.series == series and each.recurrence and each.status in ("pending", "delivering")
            for each in self.responses.values()
        )

    def advance_responses(self, now: int) -> None:
        for _, each in sorted(self.responses.items()):
            if each.recurrence and each.status in ("acked", "dead"):
                due, missed = successor(each.scheduled_at or 0, "coalesce", now)
                self.miss(each.message_id, each.id, each.series, missed)
                next_ = Response(self.next_response(), "", each.chat, now, deliver_after=due)
                next_.recurrence, next_.scheduled_at, next_.series = each.recurrence, due, each.series
                each.recurrence = None
                self.respond(next_, {"deliver_after": due})

    def miss(self, message_id: str, response: int | None, series: str | None, due: int | None) -> None:
        if due is not None:
            data = {"series_id": series, "reason": "coalesced", "due": due}
            self.events.append(("series_missed", message_id, response, data))
