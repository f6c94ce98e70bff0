"""Requests about chats that have no agent: what they offer, and how strangers share the places of a channel."""

from shared.conversation.access import requests
from shared.conversation.access.requests import MOST_CHAT_CARDS, MOST_NEW_CHATS
from shared.db.access import approvals
from shared.db.engine.connection import rows, transaction
from shared.db.roster import accounts
from tests.approval_requests import ask_chat, event, person, shown
from tests.support import NOW, column, make_agent

OWNER = "1"
DAY = 24 * 60 * 60 * 1000
WAITING = """
    SELECT c.platform_id FROM approvals a JOIN chats c ON c.id = a.chat_id WHERE a.status = 'pending' ORDER BY a.id
"""
DIGESTS = "SELECT count(*) FROM responses WHERE message LIKE '**100 new chats on telegram wait%'"


def flood(conn, numbers, *, now_ms=NOW):
    """A stranger each writes to the bot in a direct chat."""
    return [
        ask_chat(conn, event(f"k{each}", sender=str(1000 + each), chat=str(1000 + each)), now_ms) for each in numbers
    ]


def test_a_new_chat_is_offered_every_agent_the_default_first_and_none(conn):
    person(conn, OWNER, "owner")
    make_agent(conn, "aaa")
    approval = ask_chat(conn, event(chat="-7", is_group=True)).approval
    assert approval.options == ("Assistant", "Aaa", "Ignore this chat")
    assert approval.payload["agents"] == ["assistant", "aaa"]
    assert approval.title.startswith("telegram 5 (Ana) writes in the group (telegram -7), where no agent answers")
    assert [chat for chat, _ in shown(conn)] == ["telegram 1"]


def test_the_agent_whose_bot_it_is_is_offered_first(conn):
    person(conn, "9", "owner")
    make_agent(conn, "clerk")
    with transaction(conn):
        accounts.set_agent(conn, "telegram", "clerk", now_ms=NOW)
    approval = ask_chat(conn, event(chat="-7")).approval
    assert approval.payload["agents"] == ["clerk", "assistant"]


def test_admins_of_one_agent_are_not_asked_about_a_new_chat(conn):
    person(conn, "7", "admin", "assistant")
    assert ask_chat(conn, event(chat="-7")).outcome == "nobody_to_ask"
    assert column(conn, "SELECT count(*) FROM approvals") == [0]
    person(conn, "8", "admin")
    ask_chat(conn, event(chat="-7"))
    assert [chat for chat, _ in shown(conn)] == ["telegram 8"]


def test_a_card_offers_a_bounded_number_of_agents(conn):
    person(conn, OWNER, "owner")
    for number in range(12):
        make_agent(conn, f"agent{number:02}")
    approval = ask_chat(conn, event(chat="-7")).approval
    assert len(approval.options) == 9
    assert approval.options[0] == "Assistant"


def test_many_new_chats_leave_few_cards_and_the_newest_keep_their_places(conn):
    """A flood shuts nobody out: the person after it is held, and so are the three whose cards an approver sees."""
    person(conn, OWNER, "owner")
    asked = flood(conn, range(2000))
    assert {each.outcome for each in asked} == {"held"}
    seen = [str(1000 + each) for each in range(MOST_CHAT_CARDS)]
    newest = [str(1000 + each) for each in range(2000 - MOST_NEW_CHATS + MOST_CHAT_CARDS, 2000)]
    assert column(conn, WAITING) == seen + newest
    assert column(conn, "SELECT count(*) FROM held") == [MOST_NEW_CHATS]
    assert ask_chat(conn, event("late", sender="77", chat="77")).outcome == "held"
    assert column(conn, WAITING)[-1] == "77"
    with transaction(conn):
        assert requests.show_pending(conn, limit=500, now_ms=NOW) == (0, 0)


def test_an_approver_reads_once_a_day_that_places_are_given_up_in_place_of_a_card(conn):
    person(conn, OWNER, "owner")
    flood(conn, range(MOST_NEW_CHATS))
    assert column(conn, DIGESTS) == [0]
    (told,) = flood(conn, [500])
    assert (told.said, column(conn, DIGESTS)) == (True, [1])
    assert [each.said for each in flood(conn, range(501, 520))] == [False] * 19
    assert (column(conn, DIGESTS), len(shown(conn))) == ([1], MOST_CHAT_CARDS + 1)
    assert [each.said for each in flood(conn, [600, 601], now_ms=NOW + DAY)] == [True, False]
    assert column(conn, DIGESTS) == [2]


def test_a_chat_that_gave_way_may_ask_again_and_its_story_says_why(conn):
    person(conn, OWNER, "owner")
    flood(conn, range(MOST_NEW_CHATS + 1))
    gone = str(1000 + MOST_CHAT_CARDS)
    assert column(conn, "SELECT event_key FROM dropped WHERE reason = 'gave_way'") == [f"k{MOST_CHAT_CARDS}"]
    assert rows(conn, "SELECT refused_at FROM chats WHERE platform_id = ?", (gone,)) == [(None,)]
    assert ask_chat(conn, event("again", sender=gone, chat=gone)).outcome == "held"
    assert column(conn, WAITING)[-1] == gone


def test_a_stranger_has_one_place_and_a_newer_chat_takes_that_of_an_older(conn):
    person(conn, OWNER, "owner")
    first = ask_chat(conn, event("1", chat="-7", is_group=True)).approval
    assert ask_chat(conn, event("2", chat="-8", is_group=True)).outcome == "held"
    assert column(conn, WAITING) == ["-8"]
    assert approvals.get(conn, first.approval_id).payload["withdrawn"] == "asked_elsewhere"
    assert column(conn, "SELECT reason FROM dropped") == ["asked_elsewhere"]
    edited = column(conn, "SELECT message FROM responses WHERE content ->> 'edits' IS NOT NULL")
    assert [each.splitlines()[-1] for each in edited] == ["**The same person asks in another chat now\\.**"]
    assert ask_chat(conn, event("3", sender="6", chat="-7", is_group=True)).outcome == "held", (
        "other people of the chat"
    )


def test_places_are_those_of_one_channel(conn):
    person(conn, OWNER, "owner")
    flood(conn, range(MOST_NEW_CHATS))
    with transaction(conn):
        kept = approvals.unseen(conn, kind="chat", channel="discord", limit=9)
    assert kept == []
    assert len(approvals.unseen(conn, kind="chat", channel="telegram", limit=500)) == MOST_NEW_CHATS - MOST_CHAT_CARDS
