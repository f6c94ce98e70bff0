"""Why a message has no answer, as a word for programs and a sentence for people. Pure functions over facts.

A reason says what to do where a person has to do something; what goes on by itself says so. Lists, REST, commands and
chats show the same words.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from typing_extensions import TypedDict

from shared.core.time.durations import time_span
from shared.db.views.spending import ChainUsage, MessageUsage
from shared.db.views.why import COUNTED, DroppedFacts, GatheringFacts, HeldFacts, MessageFacts, ResponseFacts


class Reason(TypedDict):
    """Why a row stands where it stands: *state*, *reason*, *until* as in ``GET /api/why``."""

    state: str
    reason: str
    until: int | None


class Why(NamedTuple):
    """A reason: *state* is its word, and *until* the instant (ms UTC) at which it ends, where that is known."""

    state: str
    reason: str
    until: int | None = None

    def as_fields(self) -> Reason:
        """For a row that is shown with it."""
        return {"state": self.state, "reason": self.reason, "until": self.until}

    def in_full(self, now_ms: int) -> str:
        """The reason, and how long it lasts from now on, where that is known."""
        if self.until is None or self.until <= now_ms:
            return self.reason
        return f"{self.reason} That ends in {time_span(self.until - now_ms)}."


def of_usage(usage: Sequence[MessageUsage]) -> str:
    """What the turns over a message took from models, as a sentence; empty where they took nothing."""
    if not usage:
        return ""
    tokens = sum(each["input"] + each["output"] + each["cacheRead"] + each["cacheWrite"] for each in usage)
    costs = [each["cost"] for each in usage if each["paidBy"] == "key"]
    known = [cost for cost in costs if cost is not None]
    price = f", for ${sum(known) / 1_000_000:.4f}" if known and len(known) == len(costs) else ""
    together = max(each["messages"] for each in usage)
    others = f" with {_count(together - 1, 'other message')}" if together > 1 else ""
    return f"Its turns{others} took {tokens:,} tokens{price}."


def of_chain(chain: ChainUsage) -> str:
    """What agents did for each other because of one message, as a sentence."""
    price = f", for ${chain['cost'] / 1_000_000:.4f}" if chain["cost"] is not None else ""
    sent = f"Because of {chain['origin']} agents have sent each other {_count(chain['messages'], 'message')}"
    turns = _count(chain["turns"], "turn")
    took = f", in {turns} that took {chain['tokens']:,} tokens{price}" if chain["turns"] else ""
    return f"{sent}{took}.{'' if chain['endedAt'] is None else ' A limit ended that.'}"


# -- a message in the queue

_SPOKEN = "The agent had already said something, so it is not run again by itself: it continues only when you retry it."


_RETRY = "Retry it when the cause is gone, or discard it."
_DECIDE = "Approve or refuse it."


def of_message(facts: MessageFacts, *, now_ms: int) -> Why:
    """Why the message has no answer yet, or that it has one."""
    match facts.status:
        case "completed":
            return _of_completed(facts, now_ms)
        case "processing" if (facts.lease or 0) > now_ms and facts.asks is not None:
            return Why("asks", f"Its turn waits for a yes or no: {facts.asks_what} ({facts.asks}). {_DECIDE}")
        case "processing" if (facts.lease or 0) > now_ms:
            return Why("running", f"Agent {facts.agent} is working on it now.")
        case "processing":
            return Why("process_gone", "The process of its turn has ended. It is tried again within a minute.")
        case "dead" if facts.has_spoken:
            return Why("dead", f"{_SPOKEN} Its turn ended early: {facts.last_error}.")
        case "dead":
            return Why("dead", f"It is dead after {_count(facts.retry_count, 'attempt')}: {facts.last_error}. {_RETRY}")
        case "paused":
            return Why("paused", f"Its schedule {facts.series_id} is paused, until you resume it.")
        case "cancelled":
            return Why("cancelled", f"It was cancelled: {facts.last_error or 'by hand'}.")
    return _of_pending(facts, now_ms)


def _of_pending(facts: MessageFacts, now_ms: int) -> Why:
    until = facts.process_after if (facts.process_after or 0) > now_ms else None
    if not facts.trigger:
        return Why("context", "It asked for no answer. The agent reads it with the next message that does.")
    if facts.is_agent_gone:
        return Why("agent_gone", f"Agent {facts.agent} was deleted. Cancel it, and write to another agent.")
    if facts.pause is not None:
        or_itself = ", or by itself" if facts.pause_until is not None else ""
        resumes = f"It continues when you resume the agent{or_itself}."
        return Why("agent_paused", f"Agent {facts.agent} is paused: {facts.pause}. {resumes}", facts.pause_until)
    if until is not None and facts.failure is None:
        return Why("planned", "It is planned for later.", until)
    if until is not None:
        return Why(
            "waiting_for_retry", f"An attempt failed, and it is tried again by itself: {facts.last_error}.", until
        )
    if facts.running is None and (facts.gathers_until or 0) > now_ms:
        reason = "Its sender may be writing more, and one answer is for all of it."
        return Why("waits_for_more", reason, facts.gathers_until)
    return _of_due(facts)


def _of_due(facts: MessageFacts) -> Why:
    """What a message waits for that could be taken now."""
    if facts.running is not None:
        return Why("session_busy", f"Agent {facts.agent} is working on {facts.running} in the same session.")
    if facts.retrying is not None:
        reason = f"It comes after {facts.retrying}, of which an attempt failed: {facts.retrying_error}."
        return Why("behind_retry", reason, facts.retrying_until)
    if facts.busy_sessions >= facts.concurrency:
        turns = _count(facts.busy_sessions, "turn")
        return Why("agent_busy", f"Agent {facts.agent} has {turns} in other chats, and no more at once.")
    if facts.ahead:
        so_many = _count(facts.ahead, "earlier message") + (" or more" if facts.ahead == COUNTED else "")
        return Why("behind", f"{so_many} of its session come first.")
    return Why("due", "It is due, and dispatch takes it within seconds. If it stays due, dispatch does not run.")


def _of_completed(facts: MessageFacts, now_ms: int) -> Why:
    unsent = next((each for each in facts.responses if each.status != "acked"), None)
    if unsent is not None:
        return of_response(unsent, now_ms=now_ms)
    if facts.responses:
        return Why("answered", f"It was answered: response {facts.responses[-1].id} was sent.")
    if facts.steered_into is not None:
        return Why("answered_with", f"The turn of {facts.steered_into} heard it while it ran, and answered both.")
    return Why(
        "no_answer", f"Agent {facts.agent} read it, and did not answer it separately. It may have answered another one."
    )


def of_response(response: ResponseFacts, *, now_ms: int, called: str = "Its answer") -> Why:
    """Why an answer has not arrived, or that it has. *called*: how the sentence begins."""
    answer = f"{called}, response {response.id},"
    if response.status == "dead":
        return Why("answer_dead", f"{answer} could not be sent: {response.last_error}. Send it again, or discard it.")
    if response.status == "paused":
        return Why("answer_paused", f"{answer} is paused with its series, until you resume the schedule.")
    if response.status == "acked":
        return Why("answered", f"Response {response.id} was sent.")
    if response.status == "delivering":
        return Why("answer_on_its_way", f"{answer} is being sent now.")
    return _of_waiting(response, answer, now_ms)


def _of_waiting(response: ResponseFacts, answer: str, now_ms: int) -> Why:
    if response.chat_id is None:
        return Why("answer_to_fetch", f"{answer} waits until a client fetches it.")
    if response.pause is not None:
        return Why(
            "channel_paused",
            f"{answer} waits, because nothing is sent on {response.channel}: {response.pause}. "
            f"It goes out when that is over.",
        )
    if response.is_chat_inactive:
        return Why(
            "chat_inactive",
            f"{answer} waits: the bot was blocked, or removed from the chat. It goes out when the bot is back.",
        )
    if response.ahead is not None:
        return Why("answer_behind", f"{answer} comes after response {response.ahead} of the same chat.")
    if (response.deliver_after or 0) > now_ms and response.failure is not None:
        return Why("answer_retry", f"{answer} is sent again by itself: {response.last_error}.", response.deliver_after)
    if (response.silent_until or 0) > now_ms:
        return Why("chat_silent", f"{answer} waits, because the platform asked for a pause.", response.silent_until)
    if (response.deliver_after or 0) > now_ms:
        return Why("answer_planned", f"{answer} is planned for later.", response.deliver_after)
    return Why("answer_due", f"{answer} goes out within seconds. If not, deliver does not run.")


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


# -- an event that never became a message


def of_held(facts: HeldFacts) -> Why:
    """Who has to decide, and until when."""
    asked = f"{facts.approver} has the card" if facts.approver else "no approver could be asked yet"
    return Why("held", f"It waits for an approval, and {asked}: {_ended(facts.title)} {_DECIDE}", facts.expires_at)


def of_gathering(facts: GatheringFacts) -> Why:
    """Why a piece of an album is no message yet."""
    waits = (
        "It is a piece of an album, and waits for the others: the album is whole after a second without another one."
    )
    return Why("gathering", f"{waits} If it keeps waiting, dispatch does not run.", facts.due_at)


# The words of `dropped`, as docs/access.md explains them.
DROPPED: Mapping[str, str] = {
    "payload": "The platform signed it, and it could not be read",
    "malformed": "It lacked a field that every message has",
    "too_old": "By the platform's date it is more than 72 hours old, so it may be a copy of one that was handled then",
    "unsupported": "It was no message for an agent",
    "message_unknown": "It is about a message that no agent there was given lately",
    "command_in_edit": "An edit made it a command, and a command runs only when it is sent",
    "no_chat": "It belongs to no chat",
    "empty": "It had neither text nor files",
    "not_wired": "No agent answers there, and no approver could be asked; or the bot was not addressed",
    "chat_refused": "An approver or the operator chose to ignore this chat",
    "not_addressed": "It was not addressed to an agent that answers there",
    "rate_limited": "It was over the limit per minute",
    "bot_not_asked_for": "A person made a bot for ours without being asked, so it is not used",
    "sender_unknown": "The sender is a stranger, and the chat is closed to strangers",
    "sender_refused": "An approver or the operator refused this sender",
    "not_known": "The sender is a stranger, and the agent takes known people only",
    "command_filtered": "It was a command of the agent's own program, which no agent gets",
    "command_refused": "It was a command for admins",
    "command_done": "It was a command, which was carried out",
    "wiring_failed": "The wiring of an agent is broken",
    "too_many_held": "Ten messages of this sender wait for an approval already",
    "too_many_waiting": "Too many people of this chat wait for an approval already",
    "gave_way_in_chat": "It was held for an approval, and twenty newer people of the chat took its place",
    "gave_way": "It was held for an approval, and a hundred newer chats took its place",
    "asked_elsewhere": "It was held for an approval, and the same person then asked in another chat",
    "approval_expired": "It was held for an approval, and nobody decided in time",
    "approval_failed": "It was approved, and could not be done",
    "not_approver": "The button was pressed by a person who may not decide",
    "decided_already": "The button was pressed after the decision",
    "not_asked": "The button was pressed by a person whom the question does not ask",
    "question_closed": "The button was pressed after the question had ended",
    "pairing_failed": "It was a pairing code that is not valid there",
    "pairing_done": "It was a pairing code, which worked",
    "pairing_used": "It was a pairing code that this person had used before",
    "pairing_limited": "It was a pairing code, after too many wrong ones",
}


_WRITE_AGAIN = "The person may write again."
ON_DROPPED: Mapping[str, str] = {  # what a person can do about it
    "too_old": _WRITE_AGAIN,
    "message_unknown": "The person may write it as a new message.",
    "command_in_edit": "The person may send the command as a new message.",
    "not_wired": "Wire an agent to the chat.",
    "chat_refused": "Wire an agent to the chat to answer there after all.",
    "not_addressed": "Mention the bot or answer one of its messages; or let the wiring take every message.",
    "rate_limited": "The person may write again in a minute.",
    "sender_unknown": "Let the person in, or open the chat to strangers.",
    "sender_refused": "Let the person in to change that.",
    "not_known": "Let the person in, or let the wiring take strangers.",
    "command_refused": "Let an admin send it.",
    "wiring_failed": "Correct the wiring; the log says what is wrong.",
    "too_many_held": "Decide on those.",
    "too_many_waiting": "Decide on those.",
    "gave_way_in_chat": _WRITE_AGAIN,
    "gave_way": _WRITE_AGAIN,
    "asked_elsewhere": "Decide on the one of the other chat.",
    "approval_expired": _WRITE_AGAIN,
    "approval_failed": "The log says why; the person may write again.",
    "not_approver": "An approver may press it.",
    "question_closed": "The person may write the answer.",
    "pairing_failed": "Make a new code.",
    "pairing_limited": "Make a new code, and send it in a while.",
}


def of_dropped(facts: DroppedFacts) -> Why:
    """Why nothing came of the event."""
    return Why("dropped", of_drop(facts.reason, facts.detail))


def of_drop(code: str, detail: str) -> str:
    """The sentence for a word of ``dropped``; a word of the platform's own stands as it is."""
    known = DROPPED.get(code)
    words = ": ".join(filter(None, (code, detail))) if known is None else detail
    sentence = (known or "It is nothing that agents get") + (f" ({words})." if words else ".")
    return " ".join(filter(None, (sentence, ON_DROPPED.get(code))))
