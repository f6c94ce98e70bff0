"""Pairs a person or a chat: the sender of ``/start CODE`` gets what the code grants, once.

The first owner is made this way: the operator creates a code on the machine, and sends it from a chat account. Only the
code's hash is stored; no row, no log and no agent ever gets its text. Wrong, used and expired codes get one answer.

A code is safe because there are 2**40 of them, it lives for minutes, and a sender has few tries. No limit over all
senders keeps a right code out: an attacker with many accounts could use it to lock the owner out. A million tries, a
thousand a second for a code's whole life, find it once in a million codes.
"""

import hashlib
from typing import NamedTuple

import apsw

from shared.channels.base import Event
from shared.conversation.access import people, requests
from shared.conversation.inbound import decisions
from shared.conversation.routing.apply import apply, ensure_chat
from shared.conversation.routing.effects import Drop, Effect, Once, RememberDirectChat, Say, WithinRate
from shared.core import chance
from shared.core.errors import ConfigInvalid
from shared.core.policy import AccessPolicy
from shared.db.access import pairings, rates, users
from shared.db.access.pairings import Grants, Pairing
from shared.db.access.users import User
from shared.db.roster import agents, chats, wirings
from shared.db.roster.chats import Chat
from shared.roster import accounts, agents_and_teams
from shared.roster.wirings import beside, connect

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: no two characters look alike
SIZE = 8
GRANTS: tuple[Grants, ...] = ("owner", "admin", "member", "chat")

_MISREAD = str.maketrans({"O": "0", "I": "1", "L": "1", "-": None, " ": None})
_TRIES = 5  # of one sender, in a quarter of an hour
_TRIES_PER_MINUTE = _TRIES / 15
_ANSWERS = 100  # answers to refused codes on a channel, an hour: beyond them no chat is created and nothing is sent
_ANSWERS_PER_MINUTE = _ANSWERS / 60
_NOT_VALID = "That code is not valid, or no longer valid. Ask the operator of this bot for a new one."
_YOURS = "You have used that code: what it gives is yours."
_IN_PRIVATE = "That code is for one person. Send it to me in a direct chat, not in a group."
_TO_A_RIGHT_ONE = (_YOURS, _IN_PRIVATE)


class NewCode(NamedTuple):
    """A new code, which is shown once, and its row."""

    code: str
    pairing: Pairing

    @property
    def say(self) -> str:
        """The message to send to the bot."""
        return f"/start {self.code}"


def make(conn: apsw.Connection, grants: str, agent: str | None = None, *, life_ms: int, now_ms: int) -> NewCode:
    """Create a code that makes its first sender an owner, an admin (of *agent*, or of everything) or a member.

    A code that grants ``chat`` wires the chat in which it is sent to *agent*.

    Raises:
        ConfigInvalid: *grants* is unknown, needs an agent, or allows none.
        NotFound: there is no such agent.
    """
    known = next((each for each in GRANTS if each == grants), None)
    if known is None:
        raise ConfigInvalid(f"a code can't grant {grants!r}; it grants {', '.join(GRANTS)}")
    if known == "owner" and agent is not None:
        raise ConfigInvalid("an owner owns everything: name no agent")
    if known in ("member", "chat") and agent is None:
        raise ConfigInvalid(f"a code that grants {known!r} needs an agent")
    if agent is not None:
        agents_and_teams.known_agent(conn, agent)
    code = chance.text(ALPHABET, SIZE)
    added = pairings.add(
        conn, code_hash=_hash(code), grants=known, agent=agent, expires_at=now_ms + life_ms, now_ms=now_ms
    )
    return NewCode(f"{code[:4]}-{code[4:]}", added)


def _hash(code: str) -> str:
    """The hash of the code, however it was typed."""
    return hashlib.sha256(code.upper().translate(_MISREAD).encode()).hexdigest()


def code_in(event: Event) -> str | None:
    """The possible code in ``/start CODE``, or None; also behind a bot's name: no agent is to read a code."""
    if event.kind not in ("message", "command"):
        return None
    if event.command is not None and event.command.lower() == "start" and event.command_args:
        return event.command_args
    words = without_bot_name(event).split(maxsplit=1)
    is_start = len(words) == 2 and words[0].lower().partition("@")[0] == "/start"
    return words[1] if is_start else None


def without_bot_name(event: Event) -> str:
    """The text without the ``@name`` that it begins with, if any."""
    name, _, rest = event.text.lstrip().partition(" ")
    return rest if name.startswith("@") else event.text


class PairingResult(NamedTuple):
    """The outcome of a code.

    Attributes:
        sentence: the answer, or None where nothing is answered.
        dropped: why the code was refused, or None.
        stored: how many held messages were stored because of it.
    """

    is_paired: bool
    sentence: str | None
    dropped: str | None = None
    stored: int = 0


def claim(
    conn: apsw.Connection, channel: str, event: Event, code: str, *, policy: AccessPolicy, now_ms: int
) -> PairingResult:
    """Use a code that was sent in any chat, and answer there.

    A code for one person that is sent in a group does nothing, and stays valid. A redelivery is not answered again.
    """
    if event.sender_id is None or event.platform_id is None:
        return _refuse(conn, channel, event, "pairing_failed", None, policy=policy, now_ms=now_ms)
    user = users.find(conn, channel, event.sender_id)
    if user is not None and pairings.is_used_by(conn, _hash(code), user.id):
        return _refuse(conn, channel, event, "pairing_used", _YOURS, policy=policy, now_ms=now_ms)
    found = pairings.find_open(conn, _hash(code), now_ms)
    refusal = _limit(conn, channel, event.sender_id, now_ms=now_ms)
    if refusal is not None:
        return _refuse(conn, channel, event, "pairing_limited", refusal, policy=policy, now_ms=now_ms)
    if found is None:
        return _refuse(conn, channel, event, "pairing_failed", _NOT_VALID, policy=policy, now_ms=now_ms)
    if event.is_group and found.grants != "chat":
        return _refuse(conn, channel, event, "pairing_failed", _IN_PRIVATE, policy=policy, now_ms=now_ms)
    user = users.ensure(conn, channel, event.sender_id, name=event.sender, now_ms=now_ms)
    if not pairings.use(conn, found.id, user.id, now_ms):
        return _refuse(conn, channel, event, "pairing_failed", _NOT_VALID, policy=policy, now_ms=now_ms)
    rates.forget(conn, _tries_of(channel, event.sender_id))  # a sender with a right code does not guess
    return _pair(conn, channel, event, found, user, policy, now_ms=now_ms)


def _limit(conn: apsw.Connection, channel: str, sender_id: str, *, now_ms: int) -> str | None:
    """Count the try. None: the sender had one left; otherwise the answer, empty where it was given a moment ago."""
    key = _tries_of(channel, sender_id)
    taken = rates.take(conn, key, per_minute=_TRIES_PER_MINUTE, burst=_TRIES, now_ms=now_ms)
    if taken.allowed:
        return None
    minutes = max(1, -(-((taken.again_at or now_ms) - now_ms) // 60_000))
    wait = "a minute" if minutes == 1 else f"{minutes} minutes"
    return f"Those were too many codes. Please try again in {wait}." if taken.is_first_refusal else ""


def _tries_of(channel: str, sender_id: str) -> str:
    return rates.key("pair", channel, sender_id)


def _refuse(
    conn: apsw.Connection,
    channel: str,
    event: Event,
    reason: str,
    sentence: str | None,
    *,
    policy: AccessPolicy,
    now_ms: int,
) -> PairingResult:
    """Record that a code was tried, never the code, and answer once, while the channel has answers for such codes."""
    answer: tuple[Effect, ...] = (Say(sentence, creates_chat=True),) if sentence else ()
    if answer and sentence not in _TO_A_RIGHT_ONE:
        answer = (WithinRate(rates.key("pair", channel), _ANSWERS_PER_MINUTE, _ANSWERS, answer),)
    done = apply(conn, channel, event, [Drop(reason, answer)], policy=policy, now_ms=now_ms)
    return PairingResult(False, sentence if done.said else None, reason)


def _pair(
    conn: apsw.Connection,
    channel: str,
    event: Event,
    pairing: Pairing,
    user: User,
    policy: AccessPolicy,
    *,
    now_ms: int,
) -> PairingResult:
    """Grant what the code was created for, and continue what waited for it."""
    by = f"pairing {pairing.pairing_id}"
    chat = ensure_chat(conn, channel, event, policy, now_ms=now_ms)
    chat = chats.update(conn, chat.id, status="active", now_ms=now_ms)
    agent = _wire(conn, chat, pairing, now_ms=now_ms)
    if pairing.grants in ("owner", "admin"):
        people.grant(conn, user.id, pairing.grants, pairing.agent, by=by, now_ms=now_ms)
    elif pairing.agent is not None:
        people.add_member(conn, user.id, pairing.agent, by=by, now_ms=now_ms)
    effects: list[Effect] = [] if event.is_group else [RememberDirectChat(user.id)]
    effects.append(Once("pairing_done"))
    apply(conn, channel, event, effects, policy=policy, chat=chat, now_ms=now_ms)
    stored = decisions.reconsider(conn, user.id, by=by, policy=policy, now_ms=now_ms)
    sentence = _sentence(conn, pairing, chat, agent)
    apply(conn, channel, event, [Say(sentence)], policy=policy, chat=chat, now_ms=now_ms)
    requests.show_pending(conn, limit=requests.MOST_NEW_CHATS, now_ms=now_ms)
    return PairingResult(True, sentence, stored=stored)


def _wire(conn: apsw.Connection, chat: Chat, pairing: Pairing, *, now_ms: int) -> str | None:
    """Wire the chat and return the agent that answers there; None if the code wires none, or the agent is gone.

    A direct chat without a wiring gets the code's agent, or the default: a paired person wants to talk there.
    """
    if pairing.grants == "chat" and pairing.agent is not None:
        agent = pairing.agent
        if chat.sender_policy == "strict":
            chats.update(conn, chat.id, sender_policy="request_approval", now_ms=now_ms)
    elif chat.is_group or wirings.of_chat(conn, chat.id):
        return None
    else:
        default = accounts.default_agent(conn, chat.channel)
        agent = pairing.agent or (default.id if default else "")
    if agents.get(conn, agent) is None:
        return None
    connect(conn, chat.id, agent, now_ms=now_ms)
    return agent


def _sentence(conn: apsw.Connection, pairing: Pairing, chat: Chat, agent: str | None) -> str:
    found = agents.get(conn, agent or "")
    answers = f" {found.name} answers here{beside(conn, chat.id, found.id)}." if found else ""
    match pairing.grants:
        case "owner":
            return f"You are an owner now, and will be asked here about new people and chats.{answers}"
        case "admin":
            return f"You are an admin of {pairing.agent or 'all agents'} now, and will be asked here about it.{answers}"
        case "member":
            return f"You may talk to {pairing.agent} now.{answers}"
    return f"This chat is connected.{answers}"
