"""``emulator why``: in one command, why a message was not answered."""

import pytest

from emulator.cli.client import RestClient
from emulator.cli.commands.why import explain
from shared.conversation.inbound import events
from shared.db.access import dropped
from shared.db.engine.connection import transaction
from tests.emulator.cli.commands.conftest import Postroom
from tests.shared.conversation.routing.router.kit import OPEN, event, make_chat, wire
from tests.support import NOW, put


@pytest.fixture(autouse=True)
def empty(postroom: Postroom) -> None:
    """Nothing has come in before each test."""
    for table in ("held", "approvals", "dropped", "responses", "messages"):
        postroom.conn.execute(f"DELETE FROM {table}")


def facts(said: str) -> dict[str, str]:
    """The lines of a list of facts."""
    lines = [line.split("  ", 1) for line in said.splitlines() if "  " in line]
    return {name: rest.strip() for name, rest in lines}


def test_a_dead_message_is_explained_with_the_command_that_helps(postroom: Postroom) -> None:
    put(postroom.conn, given_id="m_1")
    postroom.conn.execute("UPDATE messages SET status = 'dead', retry_count = 5, last_error = 'no such program'")
    said = postroom.run("why", "m_1").stdout
    found = facts(said)
    assert (found["message"], found["why"]) == (
        "m_1",
        "It is dead after 5 attempts: no such program. Retry it when the cause is gone, or discard it.",
    )
    assert (found["chat"], found["sender"]) == ("telegram 100", "5 (Ana)")
    assert "messages retry m_1" in said.splitlines()[-1]
    assert postroom.json("why", "m_1")[0]["state"] == "dead"


def test_a_message_of_a_paused_agent_is_explained_with_the_command_that_helps(postroom: Postroom) -> None:
    put(postroom.conn, given_id="m_2")
    postroom.run("agents", "pause", "assistant", "--reason", "on holiday")
    try:
        said = postroom.run("why", "m_2").stdout
        assert facts(said)["why"] == "Agent assistant is paused: on holiday. It continues when you resume the agent."
        assert "agents resume assistant" in said.splitlines()[-1]
        assert postroom.json("why", "m_2")[0]["state"] == "agent_paused"
    finally:
        postroom.run("agents", "resume", "assistant")


def test_a_held_message_is_found_by_the_id_that_people_see(postroom: Postroom) -> None:
    wire(postroom.conn, make_chat(postroom.conn, "300", policy="request_approval"))
    with transaction(postroom.conn):
        what = event(platform_id="300", platform_message_id="4711", sender_id="31")
        assert events.handle(postroom.conn, "telegram", what, OPEN, now_ms=NOW).held == 1
    (approval,) = postroom.column("SELECT approval_id FROM approvals")
    said = postroom.run("why", "4711").stdout
    assert facts(said)["why"].startswith("It waits for an approval, and no approver could be asked yet: ")
    assert f"approvals approve {approval}" in said.splitlines()[-1]


def test_messages_of_a_sender_are_listed_with_a_reason_each(postroom: Postroom) -> None:
    put(postroom.conn, sender_id="5")
    with transaction(postroom.conn):
        dropped.record(
            postroom.conn, channel="telegram", reason="sender_unknown", sender_id="5", sender="Ana", now_ms=NOW + 1
        )
    head, first, second, _, way = postroom.run("why", "--sender", "5").stdout.splitlines()
    assert head.split() == ["message", "received", "chat", "sender", "why", "until"]
    assert "The sender is a stranger, and the chat is closed to strangers. Let the person in, or open" in first
    assert "It is due" in second
    assert "why MESSAGE" in way


def test_a_message_that_never_came_says_where_to_look(postroom: Postroom) -> None:
    assert "it never arrived" in postroom.refused("why", "4711", code=66)
    assert "name a message" in postroom.refused("why", code=64)
    assert "name a message" in postroom.refused("why", "--channel", "telegram", code=64)


def test_in_a_copy_of_the_past_no_command_is_named_that_it_would_refuse(postroom: Postroom) -> None:
    put(postroom.conn, given_id="m_9")
    postroom.conn.execute("UPDATE messages SET status = 'dead', retry_count = 5, last_error = 'no such program'")
    past = RestClient(postroom.url, past="this is the past")
    assert "To go on" not in repr(explain(past, "m_9"))
    assert "To go on" in repr(explain(RestClient(postroom.url), "m_9"))
