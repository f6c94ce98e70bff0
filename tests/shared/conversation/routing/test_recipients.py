import pytest

from shared.channels.base import Event
from shared.conversation.routing import recipients
from shared.conversation.routing.addressing import Addressee
from shared.db.roster.wirings import Wiring


def wiring(agent="a", mode="mention", pattern=None, ignored="drop", session="shared"):
    fields = dict.fromkeys(Wiring._fields)
    fields |= {"id": 1, "chat_id": 7, "agent": agent, "engage_mode": mode, "engage_pattern": pattern, "priority": 0}
    return Wiring(**{**fields, "ignored_message_policy": ignored, "session_mode": session})


def event(text="hello", *words, thread=None, context=None):
    facts = {"is_mention": "mention" in words, "is_group": "group" in words, "thread_id": thread}
    return Event("message", "1", text=text, context=context or {}, **facts)


FOR_A, FOR_B = Addressee("a", "hello"), Addressee("b", "hello")
TAKES = {
    "it engages": (event(), wiring(), None, "asked"),
    "it does not": (event("hello", "group"), wiring(), None, None),
    "it does not, and accumulates": (event("hello", "group"), wiring(ignored="accumulate"), None, "context"),
    "named, alone with the bot": (event("@a hello"), wiring(), FOR_A, "asked"),
    "another is named": (event("@b hello"), wiring(), FOR_B, None),
    "another is named, and it accumulates": (event("@b hello"), wiring(ignored="accumulate"), FOR_B, "context"),
    "another is named, whatever its pattern": (event("@b hello"), wiring(mode="pattern", pattern="."), FOR_B, None),
    "named, whatever its pattern": (event("@a hello"), wiring(mode="pattern", pattern="^never$"), FOR_A, "asked"),
    "named in a group, and the bot is meant": (event("@a hello", "group", "mention"), wiring(), FOR_A, "asked"),
    "named in a group, and the bot is not meant": (event("@a hello", "group"), wiring(), FOR_A, None),
    "named in a group: its pattern": (event("@a x", "group"), wiring(mode="pattern", pattern="^@a"), FOR_A, "asked"),
    "another in a group, and the bot is not meant: its own pattern": (
        event("@b hello", "group"), wiring(mode="pattern", pattern="hello"), FOR_B, "asked",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("what", "wired", "named", "expected"), TAKES.values(), ids=TAKES)
def test_which_wirings_take_an_event(what, wired, named, expected):
    recipient = recipients.recipient_of(what, wired, named)
    assert (recipient and ("asked" if recipient.trigger else "context")) == expected


def test_an_invalid_pattern_is_an_error_and_naming_the_agent_still_works():
    broken = wiring(mode="pattern", pattern="(")
    with pytest.raises(ValueError, match="missing"):
        recipients.recipient_of(event(), broken, None)
    assert recipients.recipient_of(event("@a hello"), broken, FOR_A).trigger


TEXTS = {
    "its name is taken off": (event("@a hello"), FOR_A, "hello"),
    "another's stays": (event("@b hello"), FOR_B, "@b hello"),
    "no name": (event("hello"), None, "hello"),
    "nothing would be left": (event("@a "), Addressee("a", ""), "@a "),
}


@pytest.mark.parametrize(("what", "named", "text"), TEXTS.values(), ids=TEXTS)
def test_the_text_that_an_agent_is_given(what, named, text):
    assert recipients.answering(what, wiring(), named).text == text


def test_a_file_whose_text_is_only_a_name_is_given_without_the_name():
    sent = Event("message", "1", text="@a ", attachments=({"kind": "photo"},))
    assert recipients.answering(sent, wiring(), Addressee("a", "")).text == ""


def test_context_keeps_the_whole_text():
    assert recipients.recipient_of(event("@b hello"), wiring(ignored="accumulate"), FOR_B).text == "@b hello"


STICKS = {
    "mentioned in a thread": (event("x", "group", "mention", thread="3"), False, True),
    "in a thread where it sticks": (event("x", "group", "mention", thread="3"), True, False),
    "outside of threads": (event("x", "group", "mention"), False, False),
}


@pytest.mark.parametrize(("what", "is_stuck", "sticks"), STICKS.values(), ids=STICKS)
def test_a_mention_in_a_thread_sticks(what, is_stuck, sticks):
    assert recipients.recipient_of(what, wiring(mode="mention-sticky"), None, is_stuck=is_stuck).sticks is sticks


ALONE = {"receiver_user_id": "5"}
KEYS = {
    "shared, in a thread": ("shared", event("x", "group", thread="3"), (7, None)),
    "shared, alone with the bot": ("shared", event("x", thread="3"), (7, None)),
    "per thread, in one": ("per-thread", event("x", "group", thread="3"), (7, "3")),
    "per thread, in none": ("per-thread", event("x", "group"), (7, None)),
    "per thread, alone with the bot": ("per-thread", event("x", thread="3"), (7, None)),
    "the agent's own": ("agent-shared", event("x", "group", thread="3"), (None, None)),
    "what one person alone sees": ("agent-shared", event("x", "group", thread="3", context=ALONE), (7, None)),
    "what one person alone sees, per thread": ("per-thread", event("x", "group", thread="3", context=ALONE), (7, None)),
}


@pytest.mark.parametrize(("mode", "what", "key"), KEYS.values(), ids=KEYS)
def test_the_key_of_a_session(mode, what, key):
    assert recipients.session_key(wiring(session=mode), what) == key
