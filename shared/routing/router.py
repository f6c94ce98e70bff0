"""From a platform's event to the sessions that it concerns: facts from rows, decided by pure functions, done on rows.

::

    unreadable, empty ─> dropped
    nobody wired the chat ─> wired | an owner is asked, and it is held | dropped
    each wiring, the most important first, and none stops another:
        engages, or is named ──┬─ its sender may not ─> dropped
                               ├─ a command ─> dropped | refused with a sentence | done | text like any other
                               ├─ its sender is unknown ─> held, and somebody is asked
                               └─ else ─> stored, and asks for a turn
        does not, but accumulates ─> stored as context, if its sender may

Nothing of what somebody wrote who may not is stored anywhere. An event that comes again is stored for the agents that
missed it; what was said or done because of it is neither said nor done again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import apsw

from shared.access import people, requests, rules
from shared.access.requests import Asked
from shared.access.rules import Standing
from shared.channels import registry
from shared.channels.base import Event
from shared.core import logs
from shared.core.errors import PostroomError
from shared.core.policy import Policy
from shared.db.engine.connection import savepoint
from shared.db.queue import messages
from shared.db.roster import agents, chats, sticky_threads, wirings
from shared.db.roster.chats import Chat
from shared.db.roster.wirings import Place, Wiring
from shared.queue import drops, notices, session_reset
from shared.roster import wirings as wiring
from shared.routing import commands, rate_limits, recipients
from shared.routing.recipients import Taker

log = logs.get()

_WAITING = "I have asked whether I may answer you here. What you wrote waits until somebody has decided."
# What one wiring suffers from, and not the database: for a lock or a full disk the platform sends the event again.
_ITS_OWN = (PostroomError, apsw.ConstraintError, ValueError, TypeError, LookupError)


class Routed(NamedTuple):
    """What became of an event.

    Attributes:
        stored: for how many agents it is new.
        duplicates: how many had it already.
        held: for how many it waits until somebody has decided.
        dropped: why an agent was not given it, as the rows of ``dropped`` say; the first reason of several.
        said: a response was written, which ``deliver`` is to send.
    """

    stored: int = 0
    duplicates: int = 0
    held: int = 0
    dropped: str | None = None
    said: bool = False

    @property
    def is_taken(self) -> bool:
        """Whether the person hears of it: from an agent, or from us."""
        return bool(self.stored or self.duplicates or self.said)


def store(conn: apsw.Connection, channel: str, event: Event, policy: Policy, *, now_ms: int) -> Routed:
    """Store the event for every agent that takes it, in the caller's transaction; a refusal too, with its reason."""
    reason = unusable(event)
    if reason is not None:
        return drop(conn, channel, event, reason, now_ms=now_ms)
    event = _in_thread(channel, event)
    place = wirings.of_place(conn, channel, event.platform_id or "")
    if place is not None and place.chat.status != "active":
        # News of chats come by another way than what is said there, which proves that we are back.
        chats.set_status(conn, channel, place.chat.platform_id, "active", now_ms=now_ms)
    if place is not None and place.chat.is_group and event.chat_name not in ("", place.chat.name):
        chats.retitle(conn, place.chat.id, event.chat_name, now_ms=now_ms)
        place = place._replace(chat=place.chat._replace(name=event.chat_name))
    if place is None or not place.wirings:
        return _to_unwired(conn, channel, event, place and place.chat, policy, now_ms=now_ms)
    if place.chat.sender_policy == "strict":
        event = _without_strangers(conn, channel, event)
    return _Offers(conn, event, place, policy, now_ms).make()


def _without_strangers(conn: apsw.Connection, channel: str, event: Event) -> Event:
    """The event without what it quotes of somebody who may not write: platforms send that with an answer to it."""
    quoted = event.reply_to
    if quoted is None or quoted.get("is_self") or people.standing(conn, channel, quoted.get("sender_id")).is_somebody:
        return event
    facts = {name: fact for name, fact in event.context.items() if name != "quote"}
    return replace(event, reply_to={**quoted, "text": ""}, context=facts)


def admit(conn: apsw.Connection, channel: str, event: Event, agent: str, *, now_ms: int) -> bool:
    """Store an event that was held for *agent*; False if it has it, may not get it, or answers there no more."""
    event = _in_thread(channel, event)
    place = wirings.of_place(conn, channel, event.platform_id or "")
    wired = next((each for each in place.wirings if each.agent == agent), None) if place is not None else None
    if place is None or wired is None:
        return False
    taker = recipients.as_asked(event, wired, recipients.named(conn, event, place))
    if _is_gated(conn, channel, event, taker, now_ms=now_ms):
        return False
    return _put(conn, channel, event, taker, now_ms=now_ms)


def _is_gated(conn: apsw.Connection, channel: str, event: Event, taker: Taker, *, now_ms: int) -> bool:
    """Whether it is a command that no agent is given; nobody could say so before an agent was there."""
    standing, wired = people.standing(conn, channel, event.sender_id), taker.wiring
    command = commands.command_of(event, taker.text) or ""
    gate = commands.gate(command, standing, wired.agent)
    if gate == "pass":
        return False
    word, sentence = {
        "drop": ("command_filtered", ""),
        "refuse": ("command_refused", commands.refusal(command, _name(conn, wired))),
        "do": ("command_done", commands.done(_name(conn, wired))),
    }[gate]
    if drops.keep(conn, channel, event, f"{word}:{command}", now_ms=now_ms) and sentence:
        if gate == "do":
            session_reset.clear(conn, wired.agent, *recipients.key_of_session(wired, event), now_ms=now_ms)
        notices.say(conn, channel, event, sentence, chat_id=wired.chat_id, now_ms=now_ms)
    return True


def _name(conn: apsw.Connection, wired: Wiring) -> str:
    agent = agents.get(conn, wired.agent)
    return agent.name if agent is not None else wired.agent


def unusable(event: Event) -> str | None:
    """Why no agent is asked, whoever is wired; None if one may be."""
    if not event.asks_for_a_turn:
        return event.reason or f"unsupported:{event.kind}"
    if event.platform_id is None:
        return "no_chat"
    if not event.text and not event.attachments:
        return "empty"
    return None


def drop(conn: apsw.Connection, channel: str, event: Event, reason: str, *, now_ms: int) -> Routed:
    """Keep why nothing comes of the event: *reason* is a word, or ``word:detail``."""
    drops.keep(conn, channel, event, reason, now_ms=now_ms)
    return Routed(dropped=reason)


def refuse_for_now(
    conn: apsw.Connection,
    channel: str,
    event: Event,
    over: rate_limits.Exceeded,
    *,
    chat: Chat | None,
    is_asked: bool,
    now_ms: int,
) -> Routed:
    """Too much came. Whoever asked for something is told so, once in a minute."""
    reason = f"rate_limited:{over.whose}"
    is_new = drops.keep(conn, channel, event, reason, now_ms=now_ms)
    is_told = is_new and is_asked and chat is not None and over.again_at is not None
    if is_told and chat is not None:
        sentence = rate_limits.sentence(over, now_ms=now_ms)
        notices.say(conn, channel, event, sentence, chat_id=chat.id, now_ms=now_ms)
    return Routed(dropped=reason, said=is_told)


def _in_thread(channel: str, event: Event) -> Event:
    """Threads only where the platform has them; elsewhere an id in their place means something else."""
    if event.thread_id is None or registry.traits(channel).has_threads:
        return event
    return replace(event, thread_id=None)


def _put(conn: apsw.Connection, channel: str, event: Event, taker: Taker, *, now_ms: int) -> bool:
    """Give the agent its message; False if it has it."""
    new = recipients.message(conn, channel, event, taker, now_ms=now_ms)
    if taker.sticks:
        sticky_threads.add(conn, taker.wiring.id, event.thread_id or "", now_ms)
    return messages.enqueue(conn, new, now_ms=now_ms) is not None


def _tell_that_it_waits(
    conn: apsw.Connection, channel: str, event: Event, chat: Chat, asked: Sequence[Asked], *, now_ms: int
) -> bool:
    """Whoever has to wait is told when that begins; and each time where the platform shows a place for the answer."""
    held = [each for each in asked if each.outcome == "held"]
    if any(each.is_new for each in held) or (held and event.kind == "command"):
        notices.say(conn, channel, event, _WAITING, chat_id=chat.id, now_ms=now_ms)
        return True
    return False


# -- chats that nobody wired -------------------------------------------------------------------------------------------


def _to_unwired(
    conn: apsw.Connection, channel: str, event: Event, chat: Chat | None, policy: Policy, *, now_ms: int
) -> Routed:
    """As the operator wants it: the default agent answers, an owner is asked, or neither."""
    is_meant = event.is_mention or not event.is_group
    if chat is not None and chat.refused_at is not None:
        return drop(conn, channel, event, "chat_refused", now_ms=now_ms)
    if policy.new_chats == "refuse" or not is_meant:
        return drop(conn, channel, event, "not_wired", now_ms=now_ms)
    if chat is not None and chat.sender_policy == "strict" and not _is_somebody(conn, channel, event):
        return drop(conn, channel, event, "sender_unknown", now_ms=now_ms)
    over = rate_limits.exceeded(conn, channel, event, policy, now_ms=now_ms)
    if over is not None:
        return refuse_for_now(conn, channel, event, over, chat=chat, is_asked=True, now_ms=now_ms)
    if policy.new_chats == "ask":
        return _ask_for_chat(conn, channel, event, chat, policy, now_ms=now_ms)
    agent = agents.default(conn)
    if agent is None:
        return drop(conn, channel, event, "not_wired", now_ms=now_ms)
    chat = chat or chat_of(conn, channel, event, policy, now_ms=now_ms)
    wired = wiring.connect(conn, chat.id, agent.id, now_ms=now_ms)
    return _Offers(conn, event, Place(chat, [wired]), policy, now_ms, is_counted=True).make()


def _is_somebody(conn: apsw.Connection, channel: str, event: Event) -> bool:
    return people.standing(conn, channel, event.sender_id).is_somebody


def chat_of(conn: apsw.Connection, channel: str, event: Event, policy: Policy, *, now_ms: int) -> Chat:
    """The event's chat; a new one treats strangers as the settings have it."""
    return chats.ensure(
        conn,
        channel,
        event.platform_id or "",
        is_group=event.is_group,
        name=event.place,
        sender_policy=policy.of_new_chats,
        now_ms=now_ms,
    )


def _ask_for_chat(
    conn: apsw.Connection, channel: str, event: Event, chat: Chat | None, policy: Policy, *, now_ms: int
) -> Routed:
    """Hold the event until an owner has said who answers there. Of a chat that nobody is asked about, no row stays."""
    with savepoint(conn) as point:
        known = chat or chat_of(conn, channel, event, policy, now_ms=now_ms)
        asked = requests.ask_chat(conn, known, event, policy=policy, now_ms=now_ms)
        if asked.outcome in ("held", "again"):
            is_told = _tell_that_it_waits(conn, channel, event, known, [asked], now_ms=now_ms)
            return Routed(held=1, said=asked.said or is_told)
        point.undo()
    reason = "not_wired" if asked.outcome == "nobody_to_ask" else asked.outcome
    return drop(conn, channel, event, reason, now_ms=now_ms)


# -- chats that have wirings -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Offers:
    """One event, offered to the agents of one chat, and what became of it so far.

    Attributes:
        is_counted: against the limits, already.
        stored, duplicates: for how many agents it is new, and for how many it is not.
        cleared, refused: whose command it is, and whose it would be if an admin had sent it.
    """

    conn: apsw.Connection
    event: Event
    place: Place
    policy: Policy
    now_ms: int
    is_counted: bool = False
    stored: int = 0
    duplicates: int = 0
    asked: list[Asked] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    cleared: list[Wiring] = field(default_factory=list)
    refused: list[Wiring] = field(default_factory=list)

    @property
    def channel(self) -> str:
        """Where it came from."""
        return self.place.chat.channel

    def make(self) -> Routed:
        """Offer it to all, and say what has to be said once for all of them."""
        found, failed = recipients.of(self.conn, self.event, self.place, self.policy, now_ms=self.now_ms)
        self.reasons += [f"wiring_failed:{agent}" for agent in failed]
        if not found:
            return self._dropped("not_addressed")
        standing = people.standing(self.conn, self.channel, self.event.sender_id)
        offers = [(taker, *self._verdict(taker, standing)) for taker in found]
        is_allowed = any(verdict == "allow" for _, verdict, _ in offers)
        over = None if self.is_counted else self._exceeded(counts_chat=is_allowed)
        if over is not None:
            return refuse_for_now(
                self.conn,
                self.channel,
                self.event,
                over,
                chat=self.place.chat,
                is_asked=any(taker.trigger and verdict != "refuse" for taker, verdict, _ in offers),
                now_ms=self.now_ms,
            )
        for taker, verdict, reason in offers:
            self._offer(taker, standing, verdict, reason)
        said = self._answer_command(found) if self.cleared or self.refused else False
        if self.asked:
            said |= self._tell_that_it_waits()
        self._remember(standing)
        return Routed(self.stored, self.duplicates, len(self.asked), self._dropped().dropped, said)

    def _dropped(self, otherwise: str | None = None) -> Routed:
        """Keep the reasons why an agent was not given it; *otherwise* where there is none."""
        if otherwise is not None and not self.reasons:
            self.reasons.append(otherwise)
        for reason in self.reasons:
            self._record(reason)
        return Routed(dropped=self.reasons[0] if self.reasons else None)

    def _record(self, reason: str) -> bool:
        return drops.keep(self.conn, self.channel, self.event, reason, now_ms=self.now_ms)

    def _exceeded(self, *, counts_chat: bool) -> rate_limits.Exceeded | None:
        """Whether it is too much; what comes again, because we were late with an answer, is not."""
        over = rate_limits.exceeded(
            self.conn, self.channel, self.event, self.policy, counts_chat=counts_chat, now_ms=self.now_ms
        )
        is_again = over is not None and messages.has_event(self.conn, self.channel, self.event.event_key)
        return None if is_again else over

    def _offer(self, taker: Taker, standing: Standing, verdict: rules.Verdict, reason: str) -> None:
        """Give it to one agent. If that fails, it fails for this agent alone."""
        wired = taker.wiring
        try:
            with savepoint(self.conn):
                self._give(taker, standing, verdict, reason)
        except _ITS_OWN as error:
            log.exception("routing.wiring_failed", agent=wired.agent, chat=wired.chat_id, reason=type(error).__name__)
            self.reasons.append(f"wiring_failed:{wired.agent}")

    def _verdict(self, taker: Taker, standing: Standing) -> tuple[rules.Verdict, str]:
        policy, wired = self.place.chat.sender_policy, taker.wiring
        has_id = self.event.sender_id is not None
        return rules.admits(policy, wired.sender_scope, standing, wired.agent, has_id=has_id)

    def _give(self, taker: Taker, standing: Standing, verdict: rules.Verdict, reason: str) -> None:
        if verdict == "refuse" or (verdict == "ask" and not taker.trigger):
            self.reasons.append(reason)
        elif taker.trigger and self._is_for_us(taker, standing):
            pass
        elif verdict == "ask":
            self._ask(taker.wiring.agent)
        elif _put(self.conn, self.channel, self.event, taker, now_ms=self.now_ms):
            self.stored += 1
        else:
            self.duplicates += 1

    def _is_for_us(self, taker: Taker, standing: Standing) -> bool:
        """Whether it is a command that no agent is given."""
        command = commands.command_of(self.event, taker.text)
        match commands.gate(command, standing, taker.wiring.agent):
            case "pass":
                return False
            case "drop":
                self.reasons.append(f"command_filtered:{command}")
            case "refuse":
                self.refused.append(taker.wiring)
            case "do":
                self.cleared.append(taker.wiring)
        return True

    def _ask(self, agent: str) -> None:
        asked = requests.ask_sender(self.conn, self.place, self.event, agent, policy=self.policy, now_ms=self.now_ms)
        if asked.outcome in ("held", "again"):
            self.asked.append(asked)
        else:
            self.reasons.append("sender_unknown" if asked.outcome == "nobody_to_ask" else asked.outcome)

    def _tell_that_it_waits(self) -> bool:
        is_told = _tell_that_it_waits(
            self.conn, self.channel, self.event, self.place.chat, self.asked, now_ms=self.now_ms
        )
        return is_told or any(each.said for each in self.asked)

    def _answer_command(self, found: Sequence[Taker]) -> bool:
        """Do what was commanded, say so, and to whom it was not granted; False if that was done when it came before."""
        names = {taker.wiring.agent: commands.command_of(self.event, taker.text) for taker in found}
        first = (self.refused or self.cleared)[0]
        if not self._record(f"{'command_refused' if self.refused else 'command_done'}:{names[first.agent]}"):
            return False
        for wired in self.cleared:
            key = recipients.key_of_session(wired, self.event)
            session_reset.clear(self.conn, wired.agent, *key, now_ms=self.now_ms)
        self.reasons += [f"command_refused:{names[wired.agent]}" for wired in self.refused]
        sentences = [commands.done(_name(self.conn, wired)) for wired in self.cleared]
        sentences += [commands.refusal(names[wired.agent] or "", _name(self.conn, wired)) for wired in self.refused]
        text = "\n\n".join(dict.fromkeys(sentences))
        notices.say(self.conn, self.channel, self.event, text, chat_id=self.place.chat.id, now_ms=self.now_ms)
        return True

    def _remember(self, standing: Standing) -> None:
        """Where somebody whom we know is reached alone, on platforms that don't name that chat after them."""
        is_direct = not self.event.is_group and standing.user_id is not None
        if is_direct and not registry.traits(self.channel).direct_by_sender:
            people.seen_direct(self.conn, standing.user_id or 0, self.place.chat.id, self.now_ms)
