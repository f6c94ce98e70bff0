"""Applies the effects that routing, decisions and pairing decide on: the one place that writes because of an event."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from shared.channels.base import Event
from shared.conversation.access import drops, new_chats, new_people, people
from shared.conversation.access.requests import AskResult
from shared.conversation.routing import commands, explaining, rate_limits, recipients
from shared.conversation.routing.effects import (
    ActivateChat,
    CancelMessage,
    ClearSession,
    Drop,
    Effect,
    ForgetPerson,
    HoldForChat,
    HoldForSender,
    Isolated,
    Once,
    RememberDirectChat,
    RenameChat,
    ReplaceMessage,
    Say,
    Stop,
    StoreMessage,
    TellWhy,
    Wire,
    WithinLimits,
    WithinRate,
)
from shared.conversation.routing.recipients import Recipient
from shared.core import content, logs
from shared.core.content import MessageContent, ResponseContent
from shared.core.errors import PostroomError, WrongState
from shared.core.policy import AccessPolicy
from shared.db.access import dropped, rates
from shared.db.engine.connection import savepoint
from shared.db.queue import messages, sessions
from shared.db.queue.messages import NewMessage
from shared.db.roster import chats, sticky_threads
from shared.db.roster.chats import Chat
from shared.queue import cancellations, forgetting, notices, session_reset, stops
from shared.queue.forgetting import ForgottenCounts
from shared.queue.stops import Stopped
from shared.roster import wirings

log = logs.get()

_WAITING = "I have asked whether I may answer you here. Your message waits for the decision."
_OVER = "rate_limited"  # the reason of what was dropped for want of room
# Errors of one wiring. After any other error, such as a lock or a full disk, the platform sends the event again.
_OF_ONE_WIRING = (PostroomError, apsw.ConstraintError, ValueError, TypeError, LookupError)


class Routed(NamedTuple):
    """The outcome of an event.

    Attributes:
        stored: for how many agents it is new.
        duplicates: how many agents had it already.
        held: for how many approvals it waits.
        dropped: why an agent was not given it, as the rows of ``dropped`` say; the first reason of several.
        said: a response was written, which ``deliver`` is to send.
        gathered: how many pieces of an album wait for the others.
        changed: how many messages that were stored before it replaced or cancelled.
    """

    stored: int = 0
    duplicates: int = 0
    held: int = 0
    dropped: str | None = None
    said: bool = False
    gathered: int = 0
    changed: int = 0

    def after(self, other: "Routed") -> "Routed":
        """This outcome, with what *other* stored, held and said before it."""
        return self._replace(
            stored=self.stored + other.stored, held=self.held + other.held, said=self.said or other.said
        )

    @property
    def is_answered(self) -> bool:
        """Whether the sender gets an answer: from an agent, or from us."""
        return bool(self.stored or self.duplicates or self.said)


def sum_of(outcomes: Sequence[Routed]) -> Routed:
    """The outcomes of several events as one: its numbers are sums, its reason is the first."""
    return Routed(
        stored=sum(each.stored for each in outcomes),
        duplicates=sum(each.duplicates for each in outcomes),
        held=sum(each.held for each in outcomes),
        dropped=next((each.dropped for each in outcomes if each.dropped), None),
        said=any(each.said for each in outcomes),
        gathered=sum(each.gathered for each in outcomes),
        changed=sum(each.changed for each in outcomes),
    )


def apply(
    conn: apsw.Connection,
    channel: str,
    event: Event,
    effects: Iterable[Effect],
    *,
    policy: AccessPolicy,
    chat: Chat | None = None,
    now_ms: int,
) -> Routed:
    """Do what was decided about *event*, in order, in the caller's transaction.

    Args:
        chat: the event's chat, where the caller has read it; None: it is read when an effect needs it.
    """
    application = _Application(conn, channel, event, policy, chat, now_ms)
    application.apply(effects)
    return application.finish()


class _Application:
    """The effects of one event, and its outcome so far."""

    __slots__ = ("changed", "channel", "chat", "conn", "dropped", "duplicates", "event", "held", "is_new_wait",
                 "now_ms", "policy", "said", "stored")  # fmt: skip

    def __init__(
        self, conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, chat: Chat | None, now_ms: int
    ) -> None:
        self.conn = conn
        self.channel = channel
        self.event = event
        self.policy = policy
        self.chat = chat
        self.now_ms = now_ms
        self.stored = 0
        self.changed = 0
        self.duplicates = 0
        self.held = 0
        self.dropped: str | None = None
        self.said = False
        self.is_new_wait = False  # the sender is still to be told that the message waits

    def finish(self) -> Routed:
        if self.is_new_wait:
            self.say(Say(_WAITING))
        return Routed(self.stored, self.duplicates, self.held, self.dropped, self.said, changed=self.changed)

    def apply(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            _APPLY[type(effect)](self, effect)

    def within_limits(self, effect: WithinLimits) -> None:
        if (again := self._refused_before()) is not None:
            self.drop(again)
            return
        over = rate_limits.count(
            self.conn, self.channel, self.event, self.policy, counts_chat=effect.counts_chat, now_ms=self.now_ms
        )
        if over is None or messages.has_event(self.conn, self.channel, self.event.event_key):
            self.apply(effect.then)
            return
        is_told = effect.is_told and over.is_told
        told = (Say(rate_limits.sentence(over, now_ms=self.now_ms), is_ahead=True),) if is_told else ()
        self.drop(Drop(f"{_OVER}:{over.limit}", if_new=told))

    def _refused_before(self) -> Drop | None:
        """The drop of an event that was over a limit before: its sender was told so, whatever room there is by now."""
        if not self.policy.has_limits:
            return None
        found = dropped.reason(self.conn, self.channel, self.event.event_key)
        return Drop(":".join(found)) if found is not None and found[0] == _OVER else None

    def within_rate(self, effect: WithinRate) -> None:
        taken = rates.take(self.conn, effect.key, per_minute=effect.per_minute, burst=effect.burst, now_ms=self.now_ms)
        if taken.allowed:
            self.apply(effect.then)

    def isolate(self, effect: Isolated) -> None:
        try:
            with savepoint(self.conn):
                self.apply((effect.effect,))
        except _OF_ONE_WIRING as error:
            chat_id = self._ensure_chat().id
            log.exception("routing.wiring_failed", agent=effect.agent, chat=chat_id, reason=type(error).__name__)
            self.drop(Drop(f"wiring_failed:{effect.agent}"))

    def store_message(self, effect: StoreMessage) -> None:
        recipient = effect.recipient
        heard = effect.heard or self.event
        new = recipients.message(self.conn, self.channel, heard, recipient, about=effect.about, now_ms=self.now_ms)
        if recipient.trigger and recipient.wiring.while_busy != "collect":
            new = new._replace(while_busy=recipient.wiring.while_busy)
        if recipient.sticks:
            sticky_threads.add(self.conn, recipient.wiring.id, self.event.thread_id or "", self.now_ms)
        row = messages.enqueue(self.conn, new, now_ms=self.now_ms)
        if row is None:
            self.duplicates += 1
            return
        self.stored += 1
        if recipient.trigger and recipient.wiring.debounce_ms:
            self._debounce(row, new, recipient, heard)

    def _debounce(self, row: int, new: NewMessage, recipient: Recipient, heard: Event) -> None:
        """Let the turn wait for the sender's next line; never after a command, and where each line has its own turn."""
        wired = recipient.wiring
        is_line = heard.kind == "message" and commands.parse(heard, recipient.text) is None
        if is_line and wired.while_busy != "followup":
            messages.go_on_burst(self.conn, row, new, debounce_ms=wired.debounce_ms or 0, now_ms=self.now_ms)
        else:
            messages.end_burst(self.conn, new)

    def replace_message(self, effect: ReplaceMessage) -> None:
        kept: MessageContent = {**effect.content, **recipients.content_of(effect.heard), "edited": True}
        if "context" in effect.content:  # the answer goes where the first event asked for it
            kept["context"] = effect.content["context"]
        is_replaced = messages.replace(
            self.conn,
            effect.row,
            message=effect.recipient.text,
            content=content.encode(kept),
            files=json.dumps(effect.heard.attachments),
            now_ms=self.now_ms,
        )
        if is_replaced:
            self.changed += 1
        else:
            self.store_message(effect.otherwise)

    def cancel_message(self, effect: CancelMessage) -> None:
        try:
            cancellations.cancel(self.conn, effect.row, reason=effect.reason, now_ms=self.now_ms)
        except WrongState:  # it ended meanwhile
            return
        self.changed += 1

    def drop(self, effect: Drop) -> None:
        self.dropped = self.dropped or effect.reason
        if self._record(effect.reason):
            self.apply(effect.if_new)

    def once(self, effect: Once) -> None:
        if self._record(effect.reason):
            self.apply(effect.then)

    def _record(self, reason: str) -> bool:
        """Whether the event had no record before."""
        return drops.keep(self.conn, self.channel, self.event, reason, now_ms=self.now_ms)

    def say(self, effect: Say) -> None:
        chat = self._ensure_chat() if effect.creates_chat else self._find_chat()
        if chat is None:
            return
        carried: ResponseContent = {} if effect.click is None else {"click": effect.click}
        notices.say(
            self.conn,
            self.channel,
            self.event,
            effect.text,
            chat_id=chat.id,
            is_ahead=effect.is_ahead,
            now_ms=self.now_ms,
            **carried,
        )
        self.said = True

    def hold_for_sender(self, effect: HoldForSender) -> None:
        chat = self._ensure_chat()
        event = effect.heard or self.event
        asked = new_people.ask_sender(self.conn, chat, event, effect.agent, policy=self.policy, now_ms=self.now_ms)
        if asked.is_held:
            self._count_held(asked, is_told=effect.is_told)
        else:
            self.drop(Drop("sender_unknown" if asked.outcome == "nobody_to_ask" else asked.outcome))

    def hold_for_chat(self, effect: HoldForChat) -> None:
        before = self.chat
        with savepoint(self.conn) as point:
            chat = self._ensure_chat()
            event = effect.heard or self.event
            asked = new_chats.ask_chat(self.conn, chat, event, policy=self.policy, now_ms=self.now_ms)
            if not asked.is_held:
                point.undo()
                self.chat = before
        if asked.is_held:
            self._count_held(asked, is_told=True)
        else:
            self.drop(Drop("not_wired" if asked.outcome == "nobody_to_ask" else asked.outcome))

    def _count_held(self, asked: AskResult, *, is_told: bool) -> None:
        """The sender is told once per approval, and for each command: the platform shows a place for its answer."""
        self.held += 1
        self.said |= asked.said
        is_first = asked.outcome == "held" and (asked.is_new or self.event.kind in ("command", "modal"))
        self.is_new_wait |= is_told and is_first

    def clear_session(self, effect: ClearSession) -> None:
        session_reset.clear(
            self.conn,
            effect.agent,
            effect.chat_id,
            effect.thread_id,
            private_to=effect.private_to,
            now_ms=self.now_ms,
        )

    def stop(self, effect: Stop) -> None:
        channel, sender = self.channel, self.event.sender_id
        found = [
            (each.agent, row, each.is_admin)
            for each in effect.sessions
            if (row := sessions.active(self.conn, each.agent, each.chat_id, each.thread_id, private_to=each.private_to))
        ]
        place = (self._ensure_chat().id, self.event.thread_id)
        unwired = stops.without_wiring(self.conn, *place, channel=channel, sender_id=sender)
        found += [(agent, row, False) for agent, row in unwired]
        done = [
            stops.stop(self.conn, agent, row, channel=channel, sender_id=sender, is_admin=is_admin, now_ms=self.now_ms)
            for agent, row, is_admin in found
        ]
        total = Stopped(sum(each.waiting for each in done), sum(each.running for each in done))
        self.changed += sum(total)
        self.say(Say(commands.stopped(*total)))

    def forget_person(self, effect: ForgetPerson) -> None:
        sender = self.event.sender_id
        gone = ForgottenCounts()
        if sender:
            gone = forgetting.forget(self.conn, effect.agents, self.channel, sender, now_ms=self.now_ms)
        self.changed += gone.remembered + gone.said
        self.say(Say(commands.forgotten(gone.remembered, gone.said, goes_on=gone.goes_on)))

    def tell_why(self, effect: TellWhy) -> None:
        self.say(Say(explaining.answer(self.conn, self._ensure_chat(), effect, self.policy, now_ms=self.now_ms)))

    def remember_direct_chat(self, effect: RememberDirectChat) -> None:
        people.remember_direct_chat(self.conn, effect.user_id, self._ensure_chat().id, self.now_ms)

    def activate_chat(self, _: ActivateChat) -> None:
        chats.set_status(self.conn, self.channel, self.event.platform_id or "", "active", now_ms=self.now_ms)

    def rename_chat(self, effect: RenameChat) -> None:
        chats.rename(self.conn, self._ensure_chat().id, effect.title, now_ms=self.now_ms)
        self.chat = self._ensure_chat()._replace(name=effect.title)

    def wire(self, effect: Wire) -> None:
        wirings.connect(self.conn, self._ensure_chat().id, effect.agent, effect.changes, now_ms=self.now_ms)

    def _find_chat(self) -> Chat | None:
        if self.chat is None:
            self.chat = chats.find(self.conn, self.channel, self.event.platform_id or "")
        return self.chat

    def _ensure_chat(self) -> Chat:
        if self.chat is None:
            self.chat = ensure_chat(self.conn, self.channel, self.event, self.policy, now_ms=self.now_ms)
        return self.chat


_APPLY: Mapping[type[Effect], Callable[[_Application, Any], None]] = {
    ActivateChat: _Application.activate_chat,
    CancelMessage: _Application.cancel_message,
    ClearSession: _Application.clear_session,
    Drop: _Application.drop,
    ForgetPerson: _Application.forget_person,
    HoldForChat: _Application.hold_for_chat,
    HoldForSender: _Application.hold_for_sender,
    Isolated: _Application.isolate,
    Once: _Application.once,
    RememberDirectChat: _Application.remember_direct_chat,
    RenameChat: _Application.rename_chat,
    ReplaceMessage: _Application.replace_message,
    Say: _Application.say,
    Stop: _Application.stop,
    StoreMessage: _Application.store_message,
    TellWhy: _Application.tell_why,
    Wire: _Application.wire,
    WithinLimits: _Application.within_limits,
    WithinRate: _Application.within_rate,
}


def ensure_chat(conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, now_ms: int) -> Chat:
    """The event's chat, created if it is new. A new one treats strangers as the settings say."""
    return chats.ensure(
        conn,
        channel,
        event.platform_id or "",
        is_group=event.is_group,
        name=event.place,
        sender_policy=policy.of_new_chats,
        now_ms=now_ms,
    )
