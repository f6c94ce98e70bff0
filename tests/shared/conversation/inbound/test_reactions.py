import json
from dataclasses import replace

import pytest

from shared.channels.base import Event
from shared.conversation.inbound import reactions
from shared.conversation.routing.apply import Routed
from shared.db.access import questions
from shared.db.engine.connection import rows, transaction
from tests.shared.conversation.inbound.test_albums_of_events import due, piece, recorded
from tests.shared.conversation.inbound.test_edits import about, chat, complete, sent
from tests.shared.conversation.inbound.test_events import LIMITED, take
from tests.shared.conversation.routing.router.kit import become, event, make_chat, reasons, wire
from tests.support import NOW, answer, column

__all__ = ["chat"]


def reaction(message="m1", key="r1", added=("👍",), removed=(), sender="5"):
    changes = {"added": list(added), "removed": list(removed)}
    return Event("reaction", key, platform_id="100", platform_message_id=message, sender="Ana", sender_id=sender,
                 context=changes)  # fmt: skip


def context(conn):
    return rows(conn, "SELECT message, sender, content ->> '$.reply_to.text' FROM messages WHERE trigger = 0")


def shown(conn, text, message="a1", agent="assistant", **fields):
    """A response that the platform shows as *message*; its row."""
    row = answer(conn, text, agent=agent, **fields)
    with transaction(conn):
        rows(conn, "UPDATE responses SET parts = :parts WHERE id = :id", {"parts": json.dumps([message]), "id": row})
    return row


def test_a_reaction_is_context_with_the_message_that_it_is_about(conn, chat):
    take(conn, sent("first"))
    complete(conn)
    assert take(conn, reaction()) == Routed(stored=1)
    assert context(conn) == [("(reacted with 👍)", "Ana", "first")]
    (first,) = column(conn, "SELECT message_id FROM messages WHERE trigger = 1")
    assert about(conn) == [{"message_id": first, "as": "reacts_to"}]
    assert take(conn, reaction()) == Routed(duplicates=1)


def test_a_reaction_that_is_taken_back_is_told_too(conn, chat):
    take(conn, sent("first"))
    take(conn, reaction(added=(), removed=("👍", "🔥")))
    take(conn, reaction(key="r2", added=("🎉",), removed=("👍",)))
    assert [text for text, *_ in context(conn)] == ["(took back 👍 🔥)", "(reacted with 🎉, took back 👍)"]


def test_a_reaction_to_what_an_agent_said_goes_to_that_agent_alone(conn, chat):
    wire(conn, chat.chat_id, "second")
    shown(conn, "my answer", thread_id=None)
    take(conn, reaction("a1"))
    assert context(conn) == [("(reacted with 👍)", "Ana", "my answer")]
    assert column(conn, "SELECT agent FROM messages") == ["assistant"]


def test_a_reaction_to_a_further_photo_of_an_album_of_ours_is_about_it(conn, chat):
    row = shown(conn, "three photos", thread_id=None)
    with transaction(conn):
        rows(conn, "UPDATE responses SET also = :ids WHERE id = :id", {"ids": '["a2", "a3"]', "id": row})
    take(conn, reaction("a3"))
    assert context(conn) == [("(reacted with 👍)", "Ana", "three photos")]


def test_a_reaction_to_a_piece_of_an_album_is_about_the_album(conn, chat):
    for number, text in ((1, "one"), (2, "two")):
        take(conn, piece(number, text))
    due(conn)
    take(conn, reaction("2"))
    assert context(conn) == [("(reacted with 👍)", "Ana", "one\ntwo")]


def test_the_recorded_reactions_are_told(conn):
    first = recorded("301_album_2_video.json")
    wire(conn, make_chat(conn, first.platform_id, is_group=True))
    take(conn, first)
    due(conn)
    take(conn, recorded("316_reaction_all_removed.json"))
    take(conn, recorded("318_reaction_one_kept.json"))
    assert [text for text, *_ in context(conn)] == ["(took back 👀 🔥)", "(reacted with 🎉, took back 👍)"]


def test_a_reaction_goes_into_the_thread_of_its_message(conn):
    wire(conn, make_chat(conn, is_group=True), session_mode="per-thread")
    take(conn, sent("first", is_group=True, thread_id="7"))
    take(conn, reaction())
    assert len(set(column(conn, "SELECT session_id FROM messages"))) == 1


def test_a_reaction_to_what_one_person_alone_saw_stays_in_that_persons_session(conn):
    wire(conn, make_chat(conn, is_group=True))
    take(conn, sent("first", is_group=True, context={"receiver_user_id": "5"}))
    take(conn, reaction())
    assert len(set(column(conn, "SELECT session_id FROM messages"))) == 1


@pytest.mark.parametrize(
    ("what", "reason"), [(reaction("unknown"), "message_unknown"), (reaction(added=()), "empty")], ids=str
)
def test_a_reaction_that_tells_nothing_leaves_its_reason(conn, chat, what, reason):
    take(conn, sent("first"))
    assert take(conn, what).dropped == reason
    assert reasons(conn) == [(reason, "")]


def test_a_refused_person_tells_nothing_by_a_reaction(conn, chat):
    take(conn, sent("first"))
    become(conn, "refused", "6")
    assert take(conn, reaction(sender="6")).dropped == "sender_refused"
    assert context(conn) == []


def test_reactions_count_against_the_limit(conn, chat):
    take(conn, sent("first"), LIMITED)
    take(conn, reaction(), LIMITED)
    assert take(conn, reaction(key="r2"), LIMITED).dropped == "rate_limited:sender"


def test_names_of_emoji_are_cut():
    many = [f"name{number}:{'1' * 200}" for number in range(30)]
    assert len(reactions.said(reaction(added=many))) < 20 * 66 + 20


# -- questions


def ask(conn, chat, *options):
    take(conn, sent("first"))
    (session,) = column(conn, "SELECT id FROM sessions")
    card = shown(conn, "Ship it?", "q1")
    with transaction(conn):
        asked = {"question": "Ship it?", "options": options, "expires_at": NOW + 9}
        made = questions.ask(conn, session_id=session, **asked, now_ms=NOW)
        rows(
            conn,
            "UPDATE questions SET chat_id = :chat, card = :card WHERE question_id = :id",
            {"chat": chat.chat_id, "card": card, "id": made},
        )


@pytest.mark.parametrize(
    ("options", "emoji", "chosen"),
    [
        (("👍 ship", "👎 wait"), "👎", "👎 wait"),
        (("Yes", "No"), "👍", "Yes"),
        (("Yes", "No"), "👎", "No"),
        (("Now", "Later"), "👍", None),
        (("Yes", "No"), "🔥", None),
    ],
)
def test_a_reaction_answers_a_question_whose_card_names_it(conn, chat, options, emoji, chosen):
    ask(conn, chat, *options)
    routed = take(conn, reaction("q1", added=(emoji,)))
    assert column(conn, "SELECT answer FROM questions") == [chosen]
    if chosen is None:
        assert context(conn) == [(f"(reacted with {emoji})", "Ana", "Ship it?")]
        return
    assert routed == Routed(stored=1, said=True)
    assert column(conn, "SELECT message FROM messages WHERE trigger = 1 ORDER BY id") == ["first", chosen]
    ((text, kept),) = rows(conn, "SELECT message, content FROM responses WHERE id = (SELECT max(id) FROM responses)")
    assert chosen in text
    assert "click" not in json.loads(kept)
    assert take(conn, reaction("q1", added=(emoji,))) == Routed(duplicates=1)


def test_a_reaction_after_the_answer_is_context(conn, chat):
    ask(conn, chat, "Yes", "No")
    take(conn, reaction("q1"))
    take(conn, reaction("q1", "r2", added=("👎",)))
    assert column(conn, "SELECT answer FROM questions") == ["Yes"]
    assert [text for text, *_ in context(conn)] == ["(reacted with 👎)"]


def test_a_reaction_decides_no_approval(conn):
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, policy="request_approval"))
    take(conn, event())
    with transaction(conn):
        rows(conn, "UPDATE responses SET parts = '[\"card\"]' WHERE platform_id = '9'")
    thumb = replace(reaction("card", sender="9"), platform_id="9")
    assert take(conn, thumb).dropped == "message_unknown"
    assert column(conn, "SELECT status FROM approvals") == ["pending"]
