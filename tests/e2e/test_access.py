"""Who may talk to whom, from outside: one conversation for each policy, through the fake Telegram."""

from collections.abc import Iterator

import pytest

from shared.conversation.routing.quotations import QUOTATION_WITHHELD
from tests.e2e.conftest import System, until
from tests.e2e.people import (
    ANA,
    Person,
    _groups,
    asked_for,
    card,
    cards,
    code_for,
    dropped,
    heard,
    hears,
    messages,
    refused,
    room,
    stands_anywhere,
)
from tests.emulator.harness import copy_project

pytestmark = [pytest.mark.e2e, pytest.mark.long]
LIMIT = 30  # messages a minute of one sender; only the test of the limit sends more
SETTINGS = f"POSTROOM_NEW_CHATS=ask\nPOSTROOM_SENDER_LIMIT={LIMIT}\n"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system that asks about new chats; Ana owns it, because she sent the first code."""
    folder = tmp_path_factory.mktemp("access")
    project = copy_project(folder / "project")
    (project / ".env").write_text(SETTINGS)
    running = System(folder / "state", project=project)
    running.start()
    try:
        running.code = code_for(running, "owner")  # type: ignore[attr-defined]
        Person(running, ANA).says(running.code)  # type: ignore[attr-defined]
        until("the owner", lambda: running.query("SELECT 1 FROM user_roles WHERE role = 'owner'"))
        yield running
    finally:
        running.stop()


@pytest.fixture
def ana(house: System) -> Person:
    """The owner."""
    return Person(house, ANA)


@pytest.fixture
def stranger(house: System) -> Person:
    """A person without a role, a membership or a message."""
    return Person(house)


def test_the_first_sender_of_the_code_is_the_owner(house: System, ana: Person, stranger: Person) -> None:
    code = house.code  # type: ignore[attr-defined]
    owners = """
        SELECT u.channel, u.sender_id
          FROM user_roles r
          JOIN users u ON u.id = r.user_id
         WHERE r.role = 'owner'
    """
    assert house.query(owners) == [("telegram", ANA)]
    hears(house, ANA, "owner")

    stranger.says(code)
    used = hears(house, stranger.id, "not valid")
    other = Person(house)
    other.says("/start ZZZZ-ZZZZ")
    wrong = hears(house, other.id, "not valid")

    assert used == wrong  # a guesser can't tell a used code from a wrong one
    assert house.query(owners) == [("telegram", ANA)]
    refused(house, stranger, "pairing_failed")
    secret = code.removeprefix("/start ")
    assert stands_anywhere(house, secret) == []
    assert stands_anywhere(house, secret.replace("-", "")) == []


def test_in_a_public_chat_anybody_is_answered(house: System, stranger: Person) -> None:
    chat, _ = room(house, policy="public")

    stranger.says("@postroom_bot hello from outside", chat)

    hears(house, chat, "hello from outside")
    assert dropped(house, stranger) == []


def test_in_a_strict_chat_nothing_of_a_stranger_is_kept(house: System, ana: Person, stranger: Person) -> None:
    """Not even for an agent that keeps other messages as context."""
    chat, _ = room(house, policy="strict", ignoredMessagePolicy="accumulate")

    stranger.says("@postroom_bot xylophone one", chat)
    stranger.says("xylophone two", chat)
    ana.says("@postroom_bot who is there?", chat)

    hears(house, chat, "who is there?")
    refused(house, stranger, "sender_unknown", 2)
    assert stands_anywhere(house, "xylophone") == []
    assert len(heard(house, chat)) == 1


def test_a_stranger_is_let_in_once_and_answered_once(house: System, ana: Person, stranger: Person) -> None:
    chat, _ = room(house, policy="request_approval")
    stranger.says("@postroom_bot knock knock", chat)
    stranger.says("@postroom_bot are you there?", chat)
    asked = card(house, stranger.id)
    until("both to be held", lambda: house.query("SELECT count(*) FROM held") == [(2,)])
    assert "knock knock" in asked["text"]
    assert asked_for(house, "@postroom_bot knock knock") == []

    stranger.forges_a_press(asked, "Allow")
    until("the forged press", lambda: dropped(house, stranger))
    assert house.query("SELECT status FROM approvals ORDER BY id DESC LIMIT 1") == [("pending",)]
    ana.presses(asked, "Allow")

    for text in ("knock knock", "are you there?"):
        hears(house, chat, text)
        assert asked_for(house, f"@postroom_bot {text}") == ["assistant"]
    until("the card to be decided", lambda: not any(each["keyboard"] for each in cards(house, stranger.id)))
    stranger.says("@postroom_bot thank you", chat)
    hears(house, chat, "thank you")
    (decided,) = cards(house, stranger.id)
    assert "Allowed by telegram 5000000001 (Ana)" in decided["text"]
    assert house.query("SELECT count(*) FROM held") == [(0,)]
    said = [each for each in heard(house, chat) if each.startswith("You said: ")]
    assert [each.rpartition("bot ")[2] for each in said] == ["knock knock", "are you there?", "thank you"]
    assert len(dropped(house, stranger)) == 1


def test_a_stranger_who_is_refused_is_not_asked_about_again(house: System, ana: Person, stranger: Person) -> None:
    chat, _ = room(house, policy="request_approval")
    stranger.says("@postroom_bot buy my pills", chat)

    ana.presses(card(house, stranger.id), "Refuse")

    refused(house, stranger, "sender_refused")
    stranger.says("@postroom_bot really, do", chat)
    refused(house, stranger, "sender_refused", 2)
    assert len(cards(house, stranger.id)) == 1
    assert not any("pills" in each for each in heard(house, chat))
    assert stands_anywhere(house, "really, do") == []


def test_a_member_who_quotes_a_held_message_does_not_hand_it_to_the_agent(
    house: System, ana: Person, stranger: Person
) -> None:
    chat, _ = room(house, policy="request_approval")
    stranger.says("@postroom_bot zeppelin", chat)
    asked = card(house, stranger.id)
    _, there = house.get(f"/control/telegram/chats/{chat}", "platforms")
    (original,) = (each["id"] for each in there["messages"] if "zeppelin" in each["text"])

    ana.says("@postroom_bot what is that?", chat, reply_to=original)

    hears(house, chat, "what is that?")
    quoted = "SELECT content ->> '$.reply_to.text' FROM messages WHERE message LIKE '%what is that?'"
    assert house.query(quoted) == [(QUOTATION_WITHHELD,)]
    assert set(stands_anywhere(house, "zeppelin")) == {"held", "responses"}, (
        "the event until the decision, and the card"
    )
    ana.presses(asked, "Refuse")
    refused(house, stranger, "sender_refused")
    assert stands_anywhere(house, "zeppelin") == ["responses"]


def test_an_agent_for_known_people_answers_no_stranger_in_a_public_chat(
    house: System, ana: Person, stranger: Person
) -> None:
    chat, _ = room(house, policy="public", senderScope="known")

    stranger.says("@postroom_bot let me in", chat)
    ana.says("@postroom_bot only me", chat)

    hears(house, chat, "only me")
    refused(house, stranger, "not_known")
    assert asked_for(house, "@postroom_bot let me in") == []


def test_a_new_chat_waits_until_an_owner_chooses_its_agent(house: System, ana: Person, stranger: Person) -> None:
    stranger.says("is anybody here?")
    asked = card(house, stranger.id)

    ana.presses(asked, asked["keyboard"][0][0]["text"])

    hears(house, stranger.id, "You said: is anybody here?")
    stranger.says("good")
    hears(house, stranger.id, "You said: good")
    wired = """
        SELECT w.agent, w.engage_mode, c.sender_policy
          FROM wirings w
          JOIN chats c ON c.id = w.chat_id
         WHERE c.platform_id = ?
    """
    assert house.query(wired, stranger.id) == [("assistant", "mention", "request_approval")]


def test_a_chat_that_an_owner_ignores_is_not_asked_about_again(house: System, ana: Person, stranger: Person) -> None:
    group = f"-{next(_groups)}"
    stranger.says("chatter that means nobody", group)
    stranger.says("@postroom_bot come in", group)

    ana.presses(card(house, group), "Ignore this chat")

    until("the chat to be refused", lambda: "chat_refused" in dropped(house, stranger))
    stranger.says("@postroom_bot please", group)
    until("the refusal", lambda: dropped(house, stranger).count("chat_refused") == 2)
    assert len(cards(house, group)) == 1
    assert stands_anywhere(house, "chatter that means nobody") == []


def test_a_code_connects_the_group_that_it_is_sent_in(house: System, stranger: Person) -> None:
    group = f"-{next(_groups)}"

    stranger.says(code_for(house, "chat", "assistant"), group)
    hears(house, group, "connected")
    stranger.says("@postroom_bot hello", group)
    stranger.says("no one is meant", group)

    hears(house, group, "hello")
    until("the other message", lambda: dropped(house, stranger) == ["pairing_done", "not_addressed"])
    assert house.query("SELECT sender_policy FROM chats WHERE platform_id = ?", group) == [("request_approval",)]


def test_a_flood_of_strangers_is_one_card_after_the_other(house: System, ana: Person) -> None:
    """The operator may decide too, without a card."""
    chat, _ = room(house, policy="request_approval")
    strangers = [Person(house) for _ in range(3)]
    for each in strangers:
        each.says(f"@postroom_bot I am {each.id}", chat)
    until("three to wait", lambda: house.query("SELECT count(*) FROM held") == [(3,)])
    first, second, third = strangers
    shown = card(house, first.id)
    assert cards(house, second.id) == cards(house, third.id) == []

    ana.presses(shown, "Allow")

    card(house, second.id)
    assert cards(house, third.id) == []
    waiting = house.call("GET", "/api/approvals?status=pending")
    (of_third,) = (each["approvalId"] for each in waiting if third.id in each["title"])
    house.call("POST", f"/api/approvals/{of_third}/decide", {"approve": True})
    hears(house, chat, f"I am {first.id}")
    hears(house, chat, f"I am {third.id}")
    assert asked_for(house, f"@postroom_bot I am {second.id}") == []
    assert cards(house, third.id) == []
    ana.presses(card(house, second.id), "Refuse")
    refused(house, second, "sender_refused")


def test_clear_is_for_admins_and_starts_a_fresh_session(house: System, ana: Person, stranger: Person) -> None:
    """Pairing wired the owner's own chat. A turn there knows the turns before it, until she clears the session."""
    chat, _ = room(house, policy="public")
    ana.says("!count")
    hears(house, ANA, "This is turn 1")
    stranger.says("/clear", chat)
    hears(house, chat, "admin")
    refused(house, stranger, "command_refused")
    ana.says("/clearance sale")
    hears(house, ANA, "You said: /clearance sale")

    ana.says("/clear@postroom_bot")
    hears(house, ANA, "afresh")
    ana.says("!count")

    until("a first turn once more", lambda: heard(house, ANA).count("This is turn 1 of our session.") == 2)
    assert asked_for(house, "/clear") == asked_for(house, "/clear@postroom_bot") == []


def test_a_named_agent_or_team_gets_the_message_and_no_other_does(house: System, ana: Person) -> None:
    house.call("PUT", "/api/agents/coder", {"name": "Coder"})
    house.call(
        "PUT", "/api/teams/crew", {"name": "The Crew", "agents": ["assistant", "coder"], "leader_agent": "coder"}
    )
    person = Person(house)
    _, row = room(house, policy="public", direct=person)
    house.call("PUT", f"/api/chats/{row}/wirings/coder", {"engageMode": "pattern", "engagePattern": "^fix"})

    for text in ("@coder one", "@crew two", "@Coder three", "@nobody four", "five"):
        person.says(text)

    hears(house, person.id, "five")
    asked = [asked_for(house, text) for text in ("one", "two", "three", "@nobody four", "five")]
    assert asked == [["coder"], ["coder"], ["coder"], ["assistant"], ["assistant"]]


def test_a_sender_over_the_limit_is_told_once_and_the_rest_is_not_kept(house: System, stranger: Person) -> None:
    chat, _ = room(house, policy="public", direct=stranger)
    before = len(heard(house, chat))

    sent = 0
    while dropped(house, stranger).count("rate_limited") < 5:  # on a slow machine the limit refills meanwhile
        assert sent < 10 * LIMIT, "the limit was never reached"
        stranger.says(f"flood {sent}")
        sent += 1

    hears(house, chat, "minute")
    until("all to be routed", lambda: _kept(house, chat) + dropped(house, stranger).count("rate_limited") == sent)
    assert LIMIT <= _kept(house, chat) <= sent - 5
    said_once = "SELECT count(*) FROM responses WHERE platform_id = ? AND message LIKE '%minute%'"
    assert house.query(said_once, chat) == [(1,)]
    assert len([each for each in heard(house, chat)[before:] if "minute" in each]) == 1


def _kept(house: System, chat: str) -> int:
    """How many messages of the flood were stored."""
    count: int = house.query("SELECT count(*) FROM messages WHERE platform_id = ?", chat)[0][0]
    return count


def test_an_agent_that_was_mentioned_in_a_thread_stays_there(house: System, stranger: Person) -> None:
    chat, _ = room(house, policy="public", engageMode="mention-sticky", sessionMode="per-thread")

    stranger.says("nobody is meant", chat, thread=7)
    stranger.says("@postroom_bot come here", chat, thread=7)
    hears(house, chat, "come here")
    stranger.says("and stay", chat, thread=7)
    hears(house, chat, "and stay")
    stranger.says("not here", chat, thread=8)

    until("both others", lambda: dropped(house, stranger).count("not_addressed") == 2)
    assert asked_for(house, "and stay") == ["assistant"]
    assert asked_for(house, "nobody is meant") == asked_for(house, "not here") == []
    answers = {each["thread"] for each in messages(house, chat) if each["text"].startswith("You said")}
    assert answers == {7}


def test_an_approval_survives_a_kill_of_everything(house: System, ana: Person, stranger: Person) -> None:
    """The card, the held messages and the approvers are rows."""
    chat, _ = room(house, policy="request_approval")
    stranger.says("@postroom_bot before the power cut", chat)
    asked = card(house, stranger.id)
    house.kill()

    house.start()
    ana.presses(asked, "Allow")

    hears(house, chat, "before the power cut")
    assert asked_for(house, "@postroom_bot before the power cut") == ["assistant"]
    assert house.query("SELECT count(*) FROM held") == [(0,)]
