"""The agent that a text names."""

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.roster import teams
from tests.shared.conversation.routing.router.kit import ASK, OPEN, WIRE, asked, become, event, make_chat, store, wire
from tests.support import NOW, column, make_agent

IN_GROUP = {"platform_id": "200", "is_group": True}

NAMED = {
    "no agent": (event("hi"), [("assistant", "hi"), ("coder", "hi")]),
    "an agent": (event("@coder hi"), [("coder", "hi")]),
    "an agent in capitals": (event("@CODER hi"), [("coder", "hi")]),
    "a team": (event("@build hi"), [("coder", "hi")]),
    "a team's name": (event("@builders hi"), [("coder", "hi")]),
    "an unknown name": (event("@nobody hi"), [("assistant", "@nobody hi"), ("coder", "@nobody hi")]),
    "an agent that is not there": (event("@absent hi"), [("assistant", "@absent hi"), ("coder", "@absent hi")]),
    "an agent in a group, behind the bot's name": (event("@our_bot @coder hi", **IN_GROUP), [("coder", "hi")]),
    "an agent in a reply to the bot": (event("@coder hi", **IN_GROUP), [("coder", "hi")]),
    "an agent in a group where the bot is not meant": (event("@coder hi", **IN_GROUP, is_mention=False), []),
}


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(("what", "expected"), NAMED.values(), ids=NAMED)
def test_a_text_goes_to_the_agent_that_it_names(conn, what, expected):
    make_agent(conn, "absent")
    store(conn, what)
    assert rows(conn, "SELECT agent, message FROM messages ORDER BY id") == expected


def test_a_named_agent_is_wired_into_an_open_direct_chat_only_for_messages_that_name_it(conn):
    make_agent(conn, "coder")
    for key, text in enumerate(("@coder hi", "hello", "@coder again", "@assistant hello")):
        assert store(conn, event(text, platform_id="7", event_key=str(key)), WIRE).stored == 1
    assert asked(conn) == ["coder", "assistant", "coder", "assistant"]
    assert column(conn, "SELECT message FROM messages ORDER BY id") == ["hi", "hello", "again", "hello"]
    assert rows(conn, "SELECT engage_mode, priority FROM wirings WHERE agent = 'coder'") == [("pattern", -1)]


def test_a_team_whose_leader_is_retired_names_no_agent(conn):
    make_agent(conn, "coder")
    with transaction(conn):
        teams.save(conn, teams.Team("build", "Builders", "coder", ("coder",)), now_ms=NOW)
        rows(conn, "UPDATE agents SET retired_at = :now WHERE id = 'coder'", {"now": NOW})
    assert store(conn, event("@build hi", platform_id="7"), WIRE).stored == 1
    assert store(conn, event("@build hi", platform_id="7", event_key="2"), WIRE).stored == 1
    assert asked(conn) == ["assistant"] * 2


@pytest.mark.parametrize(
    ("policy", "fields"),
    [(OPEN, {}), (ASK, {}), (WIRE, {"is_group": True})],
    ids=["new chats are refused", "are asked about", "are wired, in a group"],
)
def test_a_named_agent_is_wired_in_no_other_chat(conn, policy, fields):
    make_agent(conn, "coder")
    wire(conn, make_chat(conn))
    store(conn, event("@coder hi", **fields), policy)
    assert asked(conn) == ["assistant"]
    assert column(conn, "SELECT message FROM messages") == ["@coder hi"]


@pytest.mark.parametrize(
    ("sender_policy", "role"), [("strict", None), ("request_approval", None), ("public", "refused")]
)
def test_a_sender_who_may_not_talk_to_an_agent_can_not_wire_it_by_its_name(conn, sender_policy, role):
    make_agent(conn, "coder")
    wire(conn, make_chat(conn, policy=sender_policy))
    if role:
        become(conn, role, agent="coder")
    store(conn, event("@coder hi"), WIRE)
    assert column(conn, "SELECT agent FROM wirings") == ["assistant"]
    become(conn, "member", agent="coder")
    store(conn, event("@coder hi", event_key="2"), WIRE)
    assert column(conn, "SELECT agent FROM wirings ORDER BY id") == ["assistant", "coder"]
