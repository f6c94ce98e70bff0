"""What an agent may read of a text that another person wrote: a quotation, or a forwarded message.

Such a text is judged as if its author had written it here: an agent reads it only where its author may talk to that
agent. A person, a channel, or a group in whose name an admin writes is an author by its id. An author whom the platform
hides is a stranger. What the event's own sender wrote before is judged with the event. What our bot wrote stays, except
an approval's card, which quotes a stranger for people alone. A marker stands in the place of a withheld text; the text
is stored nowhere.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import apsw

from shared.channels.base import Event
from shared.conversation.access import people, rules
from shared.conversation.access.rules import Standing
from shared.db.access import approvals
from shared.db.roster.chats import Chat
from shared.db.roster.wirings import Wiring

QUOTATION_WITHHELD = "[quotation withheld: its author may not talk to this agent here]"
FORWARD_WITHHELD = "[forwarded message withheld: its author may not talk to this agent here]"


_APPROVAL = re.compile(r"\bapproval_[0-9a-z]{8}\b")

MayTalk = Callable[[Standing], bool]


class Authors(NamedTuple):
    """The authors of what an event brings along, without its sender and our bot; None: the text is for people alone."""

    quoted: Sequence[Standing | None] = ()
    forwarded: Sequence[Standing | None] = ()


_NOBODY = Authors()


def for_wiring(conn: apsw.Connection, channel: str, event: Event, chat: Chat, wired: Wiring) -> Event:
    """The event as the wiring's agent may read it."""
    return for_agent(event, read_authors(conn, channel, event, chat), chat, wired)


def for_agent(event: Event, authors: Authors, chat: Chat, wired: Wiring) -> Event:
    """The event as the wiring's agent may read it. Pure."""

    def may_talk(author: Standing) -> bool:
        return rules.admits(chat.sender_policy, wired.sender_scope, author, wired.agent)[0] == "allow"

    return _withhold(event, authors, may_talk)


def for_approval(event: Event, authors: Authors) -> Event:
    """The event as it is held while no agent is chosen: with texts of people whom at least one agent knows. Pure."""
    return _withhold(event, authors, lambda author: author.is_known)


def _withhold(event: Event, authors: Authors, may_talk: MayTalk) -> Event:
    if event.reply_to is not None and not _are_heard(authors.quoted, may_talk):
        event = replace(event, reply_to={**event.reply_to, "text": QUOTATION_WITHHELD})
    if not _are_heard(authors.forwarded, may_talk):
        event = replace(event, text=FORWARD_WITHHELD, attachments=(), pieces=())
    return event


def _are_heard(authors: Sequence[Standing | None], may_talk: MayTalk) -> bool:
    return all(author is not None and may_talk(author) for author in authors)


# -- the authors -------------------------------------------------------------------------------------------------------


def read_authors(conn: apsw.Connection, channel: str, event: Event, chat: Chat | None) -> Authors:
    """The authors of what the event brings along; most events bring nothing, and nothing is read.

    Args:
        chat: the event's chat, where it is known.
    """
    if event.reply_to is None and event.forwarded is None:
        return _NOBODY
    quoted = _quoted_ids(event)
    forwarded = _forwarded_ids(event)
    standings = {id_: people.standing(conn, channel, id_) for id_ in {*quoted, *forwarded}}
    return Authors(
        [*(standings[id_] for id_ in quoted), *([None] if _quotes_card(conn, event, chat) else [])],
        [*(standings[id_] for id_ in forwarded), *([None] if _forwards_card(conn, event) else [])],
    )


def _quoted_ids(event: Event) -> set[str | None]:
    """The ids of the quotation's authors: its sender and, where that one had forwarded it, its first sender."""
    quoted = event.reply_to
    if quoted is None or not quoted["text"]:
        return set()
    found: set[str | None] = {quoted["origin_id"]} if "origin_id" in quoted else set()
    if not quoted.get("is_self"):
        found.add(quoted.get("sender_id"))
    elif quoted.get("external"):  # what the bot said in another chat may be a card there
        found.add(None)
    return _without_sender(found, event)


def _forwarded_ids(event: Event) -> set[str | None]:
    if event.forwarded is None or event.forwarded["is_self"]:
        return set()
    return _without_sender({event.forwarded["sender_id"]}, event)


def _without_sender(ids: set[str | None], event: Event) -> set[str | None]:
    return {id_ for id_ in ids if id_ is None or id_ != event.sender_id}


def _quotes_card(conn: apsw.Connection, event: Event, chat: Chat | None) -> bool:
    """Whether the event is a reply to an approval's card; these are in direct chats only."""
    quoted = event.reply_to
    if quoted is None or not quoted.get("is_self") or event.is_group or chat is None:
        return False
    return approvals.is_card(conn, chat.id, quoted.get("message_id", ""))


def _forwards_card(conn: apsw.Connection, event: Event) -> bool:
    """Whether the event forwards an approval's card. The platform does not tell which message it was."""
    if event.forwarded is None or not event.forwarded["is_self"]:
        return False
    return any(approvals.get(conn, id_) is not None for id_ in _APPROVAL.findall(event.text)[-1:])
