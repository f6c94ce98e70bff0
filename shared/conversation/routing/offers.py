"""Offers: an event to one agent that may take it, and what follows for this agent alone. Pure."""

from typing import NamedTuple

from shared.channels.base import Event
from shared.conversation.access import rules
from shared.conversation.access.rules import Standing
from shared.conversation.routing import commands, quotations
from shared.conversation.routing.effects import Drop, HoldForSender, StoreMessage
from shared.conversation.routing.quotations import Authors
from shared.conversation.routing.recipients import Recipient
from shared.db.roster.chats import Chat


class Offer(NamedTuple):
    """A recipient, the event as it may read it, whether the sender may talk to it, and the command with its outcome."""

    recipient: Recipient
    heard: Event
    verdict: rules.Admission
    reason: str
    command: str | None
    outcome: commands.Outcome

    @property
    def agent(self) -> str:
        return self.recipient.wiring.agent

    @property
    def is_answered(self) -> bool:
        """Whether the command is answered here, and no agent is given it."""
        return self.verdict != "refuse" and self.outcome in ("do", "refuse")


def make_offer(event: Event, chat: Chat, recipient: Recipient, sender: Standing, authors: Authors) -> Offer:
    """Whether the sender may talk to the recipient, and the outcome of a command. Pure."""
    wired = recipient.wiring
    has_id = event.sender_id is not None
    verdict, reason = rules.admits(chat.sender_policy, wired.sender_scope, sender, wired.agent, has_id=has_id)
    if verdict == "ask" and not recipient.trigger:  # nobody is asked about a sender who asked for nothing
        verdict = "refuse"
    heard = quotations.for_agent(event, authors, chat, wired)
    recipient = as_heard(event, heard, recipient)
    return Offer(recipient, heard, verdict, reason, *command_in(event, recipient, sender))


def as_heard(event: Event, heard: Event, recipient: Recipient) -> Recipient:
    """The recipient with the text of *heard* where that text is not the event's own. Pure."""
    return recipient if heard.text == event.text else recipient._replace(text=heard.text)


def command_in(event: Event, recipient: Recipient, sender: Standing) -> tuple[str | None, commands.Outcome]:
    """The command for the recipient, and its outcome; context is no command. Pure."""
    command = commands.parse(event, recipient.text) if recipient.trigger else None
    return command, commands.decide(command, sender, recipient.wiring.agent)


def effect_of(offer: Offer) -> Drop | HoldForSender | StoreMessage:
    """What follows for one recipient, unless its command is answered here."""
    if offer.verdict == "refuse":
        return Drop(offer.reason)
    if offer.outcome == "drop":
        return Drop(f"command_filtered:{offer.command}")
    if offer.verdict == "ask":
        return HoldForSender(offer.agent, heard=offer.heard)
    return StoreMessage(offer.recipient, offer.heard)
