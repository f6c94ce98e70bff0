"""``/why`` in a chat: an admin is told why a message has no answer."""

from dataclasses import replace

import pytest

from shared.conversation.routing import commands
from shared.db.engine.connection import rows, transaction
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.shared.conversation.routing.router.kit import (
    NOBODY,
    OPEN,
    become,
    event,
    make_chat,
    reasons,
    said,
    store,
    wire,
)
from tests.support import NOW, column, put, take

ONCE = RetryPolicy(1, 1, 1, 0.0)
GROUP = {"platform_id": "-100", "is_group": True}
PAGED = replace(OPEN, public_url="https://post.example")


@pytest.fixture
def admin(conn):
    """Sender 5 is an admin of the assistant, which answers in chat 100 and in the group -100, when mentioned."""
    become(conn, "scoped")
    for chat in (make_chat(conn), make_chat(conn, "-100", is_group=True)):
        wire(conn, chat)
    return conn


def ask(conn, text="/why", policy=OPEN, key="why", **of):
    """The answer to the command."""
    store(conn, event(text, event_key=key, **of), policy, at=NOW + 5000)
    return said(conn)[-1]


def die(conn, **of):
    put(conn, given_id="m_dead", **of)
    claim = take(conn)
    with transaction(conn):
        turns.fail(conn, claim, Failure("no such program"), ONCE, now_ms=NOW)
    rows(conn, "DELETE FROM responses")


DEAD = "m_dead of Ana, 5 s ago: It is dead after 1 attempt: no such program. "
DEAD += "Retry it when the cause is gone, or discard it."


def test_the_last_message_that_waits_is_told(admin):
    store(admin, event("one"))
    (waiting,) = column(admin, "SELECT message_id FROM messages")
    assert ask(admin).startswith(f"{waiting} of Ana, 5 s ago: It is due, and dispatch takes it within seconds.")
    assert reasons(admin) == [("command_done", "why")]
    assert column(admin, "SELECT count(*) FROM messages") == [1]


def test_it_is_said_once_for_each_command(admin):
    ask(admin)
    ask(admin)
    assert said(admin) == [commands.NOTHING_UNANSWERED]


def test_a_dead_message_is_told_with_what_to_do_and_its_page(admin):
    die(admin)
    assert ask(admin) == DEAD
    assert ask(admin, policy=PAGED, key="2") == f"{DEAD}\nhttps://post.example/#/m/m_dead"


def test_a_group_message_without_a_mention_is_told_as_dropped(admin):
    store(admin, event("hello all", is_mention=False, **GROUP))
    told = ask(admin, "@bot /why", mention="@bot ", **GROUP)
    assert told.startswith("dropped_1 of Ana, 5 s ago: It was not addressed to an agent that answers there. Mention")
    assert ask(admin, "/why dropped_1", policy=PAGED, key="2", **GROUP).endswith("\nhttps://post.example/#/dropped")


def test_an_answer_that_could_not_be_sent_is_told(admin):
    put(admin, given_id="m_1")
    claim = take(admin)
    with transaction(admin):
        turns.settle(admin, claim, [TurnReply("hi", claim.asked[0])], None, now_ms=NOW)
    rows(admin, "UPDATE responses SET status = 'dead', last_error = 'chat not found'")
    assert "Its answer, response 1, could not be sent: chat not found. Send it again, or discard it." in ask(admin)


@pytest.mark.parametrize("role", [NOBODY, "member"])
def test_another_person_is_refused(conn, role):
    if role != NOBODY:
        become(conn, role)
    wire(conn, make_chat(conn))
    die(conn)
    assert "Only an admin of Assistant may use /why." in ask(conn)
    assert reasons(conn) == [("command_refused", "why")]


def test_a_message_is_told_by_its_id_here_and_where_the_sender_is_an_admin_of_its_agent(admin):
    die(admin, chat="100")
    assert ask(admin, "/why m_dead", **GROUP) == DEAD
    make_chat(admin, "300")
    wire(admin, 3, "secret")
    put(admin, chat="300", agent="secret", given_id="m_secret")
    for number, ref in enumerate(("m_secret", "m_none", "dropped_99", "held_7")):
        assert ask(admin, f"/why {ref}", key=str(number)) == commands.not_found(ref)


def test_what_is_planned_or_of_another_chat_is_not_the_last_one(admin):
    put(admin, given_id="m_planned")
    rows(admin, "UPDATE messages SET process_after = :later", {"later": NOW + 60_000})
    put(admin, chat="400", given_id="m_other")
    assert ask(admin) == commands.NOTHING_UNANSWERED
