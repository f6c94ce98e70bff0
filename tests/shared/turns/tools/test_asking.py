import json

import pytest

from shared.conversation.inbound import decisions
from shared.conversation.inbound.decisions import OPERATOR
from shared.db.access import approvals, questions
from shared.db.engine.connection import rows, transaction
from shared.db.roster import agents, chats, destinations
from tests.approval_requests import POLICY, person
from tests.shared.turns.tools.calls import let_send, running, team_mate
from tests.support import NOW, column, dump, make_chat, put, row, take


def asked_in(answer):
    """The id of the question."""
    return answer.split(" as ")[1].split(".")[0]


def test_a_question_is_a_row_with_an_expiry_and_a_message_with_buttons(conn, db):
    with running(conn, db, thread="7") as turn:
        answer = turn.say("ask_user_question", question="Which colour?", options=["Red", "Blue"], expires_in_minutes=5)
    question = questions.get(conn, asked_in(answer))
    assert (question.status, question.options, question.expires_at) == ("open", ("Red", "Blue"), NOW + 300_000)
    assert (question.chat_id, question.thread_id, question.card) == (turn.claim.batch[0].chat_id, "7", 1)
    shown = row(conn, "responses")
    assert shown["message"] == "Which colour?"
    assert json.loads(shown["content"])["buttons"] == [
        ["Red", f"{question.question_id}.0"],
        ["Blue", f"{question.question_id}.1"],
    ]
    assert "the answer comes as a message of its own" in answer


def test_where_there_are_no_buttons_the_choices_are_numbered(conn, db):
    with running(conn, db) as turn:
        rows(conn, "UPDATE messages SET channel = 'web'")
        rows(conn, "UPDATE messages SET status = 'pending', claimed_by = NULL, lease = NULL")
        turn = type(turn)(turn.process, db, take(conn, token="turn_b"))
        turn.say("ask_user_question", question="Which?", options=["Red", "Blue"], title="Colours")
    assert row(conn, "responses")["message"] == (
        "**Colours**\n\nWhich?\n\n1. Red\n2. Blue\n\nPlease answer with the number or the text."
    )
    assert "buttons" not in json.loads(row(conn, "responses")["content"])


@pytest.mark.parametrize(
    "given",
    [
        {"question": ""},
        {"question": "x" * 2001},
        {"options": ["a"] * 2},
        {"options": ["Yes", "yes "]},
        {"options": [" "]},
        {"options": list("abcdefghi")},
        {"options": ["x" * 61]},
        {"options": "yes"},
        {"expires_in_minutes": 0},
        {"expires_in_minutes": 10**9},
        {"to": "family"},
    ],
)
def test_a_question_that_nobody_could_answer_is_refused_and_not_stored(conn, db, given):
    with running(conn, db) as turn:
        before = dump(conn)
        turn.refusal("ask_user_question", **{"question": "?", **given})
        assert dump(conn) == before


def test_elsewhere_only_a_question_with_buttons_is_asked_because_only_a_press_comes_back(conn, db):
    with running(conn, db) as turn:
        name = let_send(conn, chat=make_chat(conn, "-200", is_group=True))
        assert "only a question with 'options' can be asked" in turn.refusal("ask_user_question", question="?", to=name)
        turn.say("ask_user_question", question="?", options=["Yes", "No"], to=name)
    assert column(conn, "SELECT platform_id FROM responses") == ["-200"]


def test_a_conversation_has_so_many_open_questions_and_no_more(conn, db):
    with running(conn, db) as turn:
        for number in range(10):
            turn.say("ask_user_question", question=f"{number}?")
        assert turn.refusal("ask_user_question", question="one more?").startswith("10 questions of this conversation")


def test_the_same_question_twice_in_a_turn_is_asked_once(conn, db):
    with running(conn, db) as turn:
        first = turn.say("ask_user_question", question="sure?")
        assert turn.say("ask_user_question", question="sure?") == first
    assert column(conn, "SELECT count(*) FROM questions") == [1]


# -- by approval ------------------------------------------------------------------------------------------------------


def decide(conn, answer, choice):
    with transaction(conn):
        approval = answer.split(" as ")[1].split(":")[0]
        return decisions.decide(conn, approval, choice, OPERATOR, policy=POLICY, now_ms=NOW + 1)


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
        assert "means another agent or chat by now" in decide(conn, answer, 0).problem
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
