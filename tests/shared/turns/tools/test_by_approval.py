"""What an agent asks an approver to do is done as the card showed it, or not at all."""

import pytest

from shared.conversation.inbound import decisions
from shared.conversation.inbound.decisions import OPERATOR
from shared.core.errors import NotAllowed
from shared.db.access import approvals
from shared.db.engine.connection import rows, transaction
from shared.db.queue import sessions
from shared.db.roster import agents, chats, destinations, wirings
from shared.db.roster import tool_servers as server_rows
from shared.roster import agents_and_teams, tool_servers
from shared.roster import wirings as wiring
from tests.approval_requests import POLICY, person
from tests.shared.turns.tools.calls import let_send, running, team_mate
from tests.support import NOW, column, dump, make_chat, put, take, wire


def decide(conn, answer, choice=0, by=OPERATOR):
    with transaction(conn):
        approval = answer.split(" as ")[1].split(":")[0]
        return decisions.decide(conn, approval, choice, by, policy=POLICY, now_ms=NOW + 1)


def card(conn):
    """The newest card, as a person reads it."""
    return column(conn, "SELECT message FROM responses WHERE content LIKE '%buttons%' ORDER BY id")[-1].replace(
        "\\", ""
    )


def told(conn):
    """What the agent is told of the decisions, in order."""
    return column(conn, "SELECT message FROM messages WHERE kind = 'system' ORDER BY id")


def change(conn, agent="assistant", **changes):
    with transaction(conn):
        agents_and_teams.save_agent(conn, agent, changes, now_ms=NOW)


def test_an_agent_is_made_only_after_a_yes(conn, db):
    owner = person(conn, "1", "owner")
    with running(conn, db) as turn:
        answer = turn.say("create_agent", name="Researcher", instructions="Look it up.", why="too much to do")
        assert agents.get(conn, "researcher") is None
        assert rows(conn, "SELECT approver FROM approvals") == [(owner.id,)]
        assert "Nothing is done before that" in answer
        decide(conn, answer, 0)
        assert agents.get(conn, "researcher").instructions == "Look it up."
        turn.say("send_to_agent", agent="researcher", text="hello")
    told = column(conn, "SELECT message FROM messages WHERE kind = 'system'")
    assert told[0].startswith("Agent assistant asks to make another agent, like itself: Approved by operator.")


def test_a_refused_agent_is_not_made(conn, db):
    with running(conn, db) as turn:
        decide(conn, turn.say("create_agent", name="Researcher", instructions=""), 1)
        assert turn.refusal("send_to_agent", agent="researcher", text="x").startswith("you have no destination")
    assert agents.get(conn, "researcher") is None


@pytest.mark.parametrize("name", ["", " ", "x" * 61, "a\nb", "a\x00b"])
def test_no_agent_is_asked_for_by_a_name_that_none_can_have(conn, db, name):
    with running(conn, db) as turn:
        before = dump(conn)
        turn.refusal("create_agent", name=name, instructions="")
        assert dump(conn) == before


def test_a_destination_agent_answers_in_a_destination_chat_after_a_yes(conn, db):
    with running(conn, db) as turn:
        team_mate(conn)
        name = let_send(conn, chat=make_chat(conn, "-200", is_group=True))
        answer = turn.say("register_agent_group", agent="bob", chat=name)
        assert column(conn, "SELECT agent FROM wirings") == ["assistant"]
        decide(conn, answer, 0)
    assert rows(conn, "SELECT agent, chat_id FROM wirings WHERE agent = 'bob'") == [("bob", 2)]


def test_the_card_of_a_registration_shows_what_the_names_stand_for(conn, db):
    person(conn, "1", "owner")
    with running(conn, db) as turn:
        team_mate(conn)
        name = let_send(conn, chat=make_chat(conn, "-200", is_group=True))
        turn.say("register_agent_group", agent="bob", chat=name)
    assert '"agent_id": "bob"' in column(conn, "SELECT message FROM responses")[0]
    assert '"platform_id": "-200"' in column(conn, "SELECT message FROM responses")[0]


def test_a_name_that_means_another_chat_by_the_time_of_the_yes_registers_nothing(conn, db):
    with running(conn, db) as turn:
        team_mate(conn)
        let_send(conn, chat=make_chat(conn, "-200", is_group=True))
        answer = turn.say("register_agent_group", agent="bob", chat="chat-2")
        with transaction(conn):
            destinations.remove(conn, "assistant", "chat-2")
            secret = make_chat_in(conn, "-300")
            rows(conn, "UPDATE destinations SET name = 'chat-2' WHERE target_chat = ?", (secret,))
        assert "now means a different agent or chat" in decide(conn, answer, 0).problem
    assert column(conn, "SELECT agent FROM wirings") == ["assistant"]


def make_chat_in(conn, chat):
    """A chat that is a destination, in the caller's transaction."""
    made = chats.ensure(conn, "telegram", chat, is_group=True, now_ms=NOW)
    destinations.put(conn, "assistant", chat=made.id, now_ms=NOW)
    return made.id


@pytest.mark.parametrize(
    ("agent", "chat"), [("carol", "chat-1"), ("bob", "chat-9"), ("chat-1", "chat-1"), ("bob", "bob"), ("bob", "-200")]
)
def test_what_is_no_destination_can_not_be_registered_and_nobody_is_asked(conn, db, agent, chat):
    with running(conn, db) as turn:
        team_mate(conn)
        before = dump(conn)
        turn.refusal("register_agent_group", agent=agent, chat=chat)
        assert dump(conn) == before


def test_a_request_that_is_pending_already_is_not_asked_twice_in_a_later_turn(conn, db):
    with running(conn, db) as turn:
        first = turn.say("create_agent", name="Bob", instructions="")
        rows(conn, "UPDATE messages SET status = 'pending', claimed_by = NULL, lease = NULL, spoken = NULL")
        put(conn, "again")
        again = type(turn)(turn.process, db, take(conn, token="turn_b"))
        assert again.say("create_agent", name="Bob", instructions="") == first
    assert column(conn, "SELECT count(*) FROM approvals") == [1]
    assert approvals.get(conn, first.split(" as ")[1].split(":")[0]) is not None


# -- what has changed since the card ----------------------------------------------------------------------------------


def test_a_new_agent_is_not_made_of_a_program_that_the_card_did_not_show(conn, db):
    person(conn, "1", "owner")
    with running(conn, db) as turn:
        answer = turn.say("create_agent", name="Bob", instructions="")
        assert '"provider": "echo"' in card(conn)
        change(conn, provider="command", config={"command": ["cat"]})
        done = decide(conn, answer)
    assert done.problem == "'provider' and 'config' changed since the card was shown, so nothing was done"
    assert agents.get(conn, "bob") is None
    assert done.problem in told(conn)[0]


def test_an_agent_is_not_registered_beside_one_that_the_card_did_not_show(conn, db):
    person(conn, "1", "owner")
    with running(conn, db) as turn:
        team_mate(conn)
        chat = make_chat(conn, "-200", is_group=True)
        answer = turn.say("register_agent_group", agent="bob", chat=let_send(conn, chat=chat))
        assert '"answers there now": []' in card(conn)
        wire(conn, chat)
        assert "'answers there now' changed since the card was shown" in decide(conn, answer).problem
    assert [each.agent for each in wirings.of_chat(conn, chat)] == ["assistant"]


# -- a wiring ---------------------------------------------------------------------------------------------------------

ALL = {"engage_mode": "pattern", "engage_pattern": "."}


def test_a_wiring_is_changed_in_the_settings_that_the_card_shows_and_no_others(conn, db):
    person(conn, "1", "owner")
    with running(conn, db) as turn:
        answer = turn.say("change_wiring", chat="chat-1", settings=ALL)
        assert '"engage_pattern": "."' in card(conn)
        assert '"engage_mode": "mention"' in card(conn).split("As it is now:")[1]
        assert wirings.get(conn, 1, "assistant").engage_mode == "mention"
        before = wirings.get(conn, 1, "assistant")
        decide(conn, answer)
    assert wirings.get(conn, 1, "assistant") == before._replace(**ALL)
    assert "assistant answers in chat-1, with engage_mode = pattern, engage_pattern = ." in told(conn)[0]


def test_a_wiring_that_changed_since_the_card_stays_as_it_is(conn, db):
    with running(conn, db) as turn:
        answer = turn.say("change_wiring", chat="chat-1", settings=ALL)
        with transaction(conn):
            wiring.connect(conn, 1, "assistant", {"priority": 5}, now_ms=NOW)
        done = decide(conn, answer)
    assert done.problem == "'its settings now' changed since the card was shown, so nothing was done"
    assert wirings.get(conn, 1, "assistant").engage_mode == "mention"


def test_a_wiring_is_added_where_there_is_none(conn, db):
    with running(conn, db) as turn:
        team_mate(conn)
        name = let_send(conn, chat=make_chat(conn, "-200", is_group=True))
        decide(conn, turn.say("change_wiring", chat=name, agent="bob", settings={"priority": 3}))
    assert wirings.get(conn, 2, "bob").priority == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"chat": "nowhere"}, "you have no destination 'nowhere'"),
        ({"chat": "chat-1", "agent": "carol"}, "you have no destination 'carol'"),
        ({"chat": "chat-1", "settings": {"engage_mode": "always"}}, "is none of pattern, mention, mention-sticky"),
        ({"chat": "chat-1", "settings": {"engage_mode": "pattern"}}, "needs an engage_pattern"),
        ({"chat": "chat-1", "settings": {"agent": "bob"}}, "a wiring has no agent"),
    ],
)
def test_an_impossible_wiring_is_refused_at_once_and_nobody_is_asked(conn, db, given, words):
    with running(conn, db) as turn:
        before = dump(conn)
        assert words in turn.refusal("change_wiring", **given)
        assert dump(conn) == before


# -- a session --------------------------------------------------------------------------------------------------------


def test_a_conversation_begins_anew_after_a_yes_and_the_new_one_is_told(conn, db):
    with running(conn, db) as turn:
        answer = turn.say("reset_session", why="we are done")
        assert sessions.get(conn, 1).status == "active"
        decide(conn, answer)
    assert sessions.get(conn, 1).status == "closed"
    assert rows(conn, "SELECT session_id, kind FROM messages WHERE kind = 'system'") == [(2, "system")]


def test_a_conversation_that_was_begun_anew_already_is_not_begun_anew_again(conn, db):
    with running(conn, db) as turn:
        first = turn.say("reset_session")
        with transaction(conn):
            sessions.close(conn, 1, now_ms=NOW)
        assert "is closed already" in decide(conn, first).problem


# -- instructions -----------------------------------------------------------------------------------------------------


def test_instructions_are_shown_whole_and_changed_after_a_yes(conn, db):
    person(conn, "1", "owner")
    text = "Be brief.\n" + "x" * 15_000 + "\nNever lie."
    with running(conn, db) as turn:
        answer = turn.say("change_instructions", instructions=text, why="better so")
        assert "  | Be brief." in card(conn)
        assert "  | Never lie." in card(conn)
        assert "x" * 15_000 in card(conn)
        assert "is cut" not in card(conn)
        assert agents.get(conn, "assistant").instructions == ""
        decide(conn, answer)
    assert agents.get(conn, "assistant").instructions == text
    assert "assistant has its new instructions" in told(conn)[0]


def test_instructions_that_an_operator_changed_meanwhile_stay(conn, db):
    with running(conn, db) as turn:
        answer = turn.say("change_instructions", instructions="Be brief.")
        change(conn, instructions="Be polite.")
        assert "'instructions now' changed since the card was shown" in decide(conn, answer).problem
    assert agents.get(conn, "assistant").instructions == "Be polite."


def test_an_admin_of_the_agent_decides_about_its_instructions_and_not_about_its_wirings(conn, db):
    admin = person(conn, "2", "admin", "assistant")
    by = decisions.Decider("N2", admin, "telegram")
    with running(conn, db) as turn:
        decide(conn, turn.say("change_instructions", instructions="Be brief."), by=by)
        answer = turn.say("change_wiring", chat="chat-1", settings=ALL)
        with pytest.raises(NotAllowed):
            decide(conn, answer, by=by)
    assert agents.get(conn, "assistant").instructions == "Be brief."


# -- a tool server ----------------------------------------------------------------------------------------------------

TOOLS = {"look": "The weather of a town.", "forecast": "Of the next days."}


def put_server(conn, tools=TOOLS, command=("/opt/weather", "--metric")):
    with transaction(conn):
        tool_servers.save(conn, "weather", command, tools, now_ms=NOW)


def test_a_tool_server_is_shown_with_its_command_and_tools_and_given_after_a_yes(conn, db):
    person(conn, "1", "owner")
    put_server(conn)
    with running(conn, db) as turn:
        change(conn, provider="claude")
        answer = turn.say("install_tool_server", server="weather", why="people ask")
        for part in (
            '"starts": ["/opt/weather", "--metric"]',
            '"tool look": "The weather of a town."',
            '"tool forecast"',
        ):
            assert part in card(conn)
        assert server_rows.of_agent(conn, "assistant") == []
        decide(conn, answer)
        assert "you have the tool server 'weather' already" in turn.refusal("install_tool_server", server="weather")
    assert [each.name for each in server_rows.of_agent(conn, "assistant")] == ["weather"]
    assert "assistant has the tools of weather from its next turn on: look, forecast." in told(conn)[0]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"tools": {**TOOLS, "delete": "Deletes all."}}, None),
        ({"tools": {"look": "Sends all files away."}}, "'tool look'"),
        ({"command": ("/opt/evil",)}, "'starts'"),
    ],
)
def test_a_tool_server_that_changed_since_the_card_is_not_given(conn, db, changed, words):
    put_server(conn)
    with running(conn, db) as turn:
        change(conn, provider="claude")
        answer = turn.say("install_tool_server", server="weather")
        put_server(conn, **changed)
        problem = decide(conn, answer).problem
    assert "changed since the card was shown" in problem
    assert (words or "'tool delete'") in problem
    assert server_rows.of_agent(conn, "assistant") == []


def test_a_server_that_is_not_on_the_list_is_refused_with_those_that_are(conn, db):
    put_server(conn)
    with running(conn, db) as turn:
        assert "it has: weather" in turn.refusal("install_tool_server", server="/bin/sh")
        assert "its provider 'echo' starts none" in turn.refusal("install_tool_server", server="weather")
