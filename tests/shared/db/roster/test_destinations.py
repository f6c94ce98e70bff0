import apsw
import pytest

from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.roster import agents, chats, destinations
from tests.support import NOW, column, make_agent, make_chat, wire


def chat(conn, name=None, platform_id="100"):
    with transaction(conn):
        return chats.ensure(conn, "telegram", platform_id, is_group=True, name=name, now_ms=NOW).id


def put(conn, **fields):
    with transaction(conn):
        return destinations.put(conn, "assistant", now_ms=NOW, **fields)


SLUGS = {
    "Family": "family",
    "  Équipe — Été 2027! ": "equipe-ete-2027",
    "a_b": "a-b",
    "Привет": "",
    "": "",
    "x" * 99: "x" * 64,
    "x" * 63 + " y": "x" * 63,
}


@pytest.mark.parametrize(("text", "slug"), SLUGS.items())
def test_a_name_is_made_from_the_chats_name(text, slug):
    assert destinations.slug(text) == slug


NAMES = {
    "as people call it": ("Family", "family"),
    "without a name its number": (None, "chat-1"),
    "in letters that names have not": ("Привет", "chat-1"),
    "like the number of another chat": ("Chat 77", "chat-1"),
    "what would become such a number": ("chat", "chat-1"),
}


@pytest.mark.parametrize(("name", "called"), NAMES.values(), ids=NAMES)
def test_the_name_of_a_chats_destination(conn, name, called):
    made = put(conn, chat=chat(conn, name))
    assert made == ("assistant", called, 1, None)
    assert destinations.of_agent(conn, "assistant") == [made]
    assert destinations.get(conn, "assistant", called) == made == destinations.find(conn, "assistant", chat=1)


def test_the_name_of_an_agents_destination_is_its_id(conn):
    for agent in ("second", "chat-7", "chat"):
        make_agent(conn, agent)
    made = [put(conn, target_agent=agent).name for agent in ("second", "chat-7", "chat")]
    assert made == ["second", "agent-chat-7", "agent-chat"]
    assert destinations.find(conn, "assistant", target_agent="second") == ("assistant", "second", None, "second")


def test_a_taken_name_gets_a_number(conn):
    names = [put(conn, chat=chat(conn, "Family", str(number))).name for number in range(3)]
    assert names == ["family", "family-2", "family-3"]
    long = [put(conn, chat=chat(conn, "x" * 70, f"l{number}")).name for number in range(2)]
    assert long == ["x" * 64, "x" * 62 + "-2"]


def test_two_agents_have_their_own_names(conn):
    family = chat(conn, "Family")
    make_agent(conn, "second")
    put(conn, chat=family)
    with transaction(conn):
        assert destinations.put(conn, "second", chat=family, now_ms=NOW).name == "family"


def test_an_existing_destination_keeps_its_name_unless_one_is_given(conn):
    family = chat(conn, "Family")
    first = put(conn, chat=family, name="kin")
    assert put(conn, chat=family) == first
    assert put(conn, chat=family, name="folks").name == "folks"
    assert column(conn, "SELECT name FROM destinations") == ["folks"]


WRONG = {
    "neither chat nor agent": ({}, ConfigInvalid, "either a chat or an agent"),
    "both": ({"chat": 1, "target_agent": "second"}, ConfigInvalid, "either a chat or an agent"),
    "no such chat": ({"chat": 99}, NotFound, "no chat 99"),
    "no such agent": ({"target_agent": "ghost"}, NotFound, "no agent 'ghost'"),
    "a retired agent": ({"target_agent": "gone"}, NotFound, "no agent 'gone'"),
    "itself": ({"target_agent": "assistant"}, ConfigInvalid, "be its own destination"),
    "a name in capitals": ({"chat": 1, "name": "Family"}, ConfigInvalid, "a name is 1 to 64"),
    "a name with a line's end": ({"chat": 1, "name": "a\n"}, ConfigInvalid, "a name is 1 to 64"),
    "an empty name": ({"chat": 1, "name": ""}, ConfigInvalid, "a name is 1 to 64"),
    "a name of 65": ({"chat": 1, "name": "x" * 65}, ConfigInvalid, "a name is 1 to 64"),
    "a name that wirings need": ({"chat": 1, "name": "chat-2"}, ConfigInvalid, "chats without a name"),
    "a name that is taken": ({"chat": 1, "name": "kin"}, WrongState, "has another destination called 'kin'"),
}


@pytest.mark.parametrize(("fields", "error", "said"), WRONG.values(), ids=WRONG)
def test_an_invalid_destination_is_refused_with_a_sentence_and_not_stored(conn, fields, error, said):
    chat(conn, "Family")
    for agent in ("second", "gone"):
        make_agent(conn, agent)
    put(conn, target_agent="second", name="kin")
    rows(conn, "UPDATE agents SET retired_at = 1 WHERE id = 'gone'")
    with pytest.raises(error, match=said):
        put(conn, **fields)
    assert column(conn, "SELECT name FROM destinations") == ["kin"]


def test_a_destination_is_renamed_to_a_free_name(conn):
    family = put(conn, chat=chat(conn, "Family"))
    put(conn, chat=chat(conn, "Work", "200"))
    with transaction(conn):
        assert destinations.rename(conn, "assistant", "family", "kin") == family._replace(name="kin")
        assert destinations.rename(conn, "assistant", "kin", "kin").name == "kin"
    for name, new, error in (("family", "x", NotFound), ("kin", "work", WrongState), ("kin", "No", ConfigInvalid)):
        with pytest.raises(error), transaction(conn):
            destinations.rename(conn, "assistant", name, new)
    assert [each.name for each in destinations.of_agent(conn, "assistant")] == ["kin", "work"]


def test_a_removed_destination_is_gone(conn):
    put(conn, chat=chat(conn, "Family"))
    with transaction(conn):
        assert destinations.remove(conn, "assistant", "family")
        assert not destinations.remove(conn, "assistant", "family")
    assert destinations.find(conn, "assistant", chat=1) is None


def test_a_chat_that_the_agent_answers_in_stays_a_destination(conn):
    wire(conn, chat(conn, "Family"))
    with pytest.raises(WrongState, match="answers in chat 1, its destination 'family'"), transaction(conn):
        destinations.remove(conn, "assistant", "family")
    assert [each.name for each in destinations.of_agent(conn, "assistant")] == ["family"]


def test_a_chat_named_like_another_chats_number_does_not_block_its_wiring(conn):
    wire(conn, chat(conn, "Chat 2", "a"))
    second = chat(conn, None, "b")
    assert second == 2
    wire(conn, second)
    assert {each.target_chat: each.name for each in destinations.of_agent(conn, "assistant")} == {
        1: "chat-1",
        2: "chat-2",
    }


def test_destinations_are_deleted_with_either_end(conn):
    make_agent(conn, "second")
    put(conn, target_agent="second")
    with transaction(conn):
        agents.delete(conn, "second")
    assert column(conn, "SELECT count(*) FROM destinations") == [0]


ILLEGAL = {
    "two targets": "('assistant', 'x', 1, 'second', 1)",
    "no target": "('assistant', 'x', NULL, NULL, 1)",
    "itself": "('assistant', 'x', NULL, 'assistant', 1)",
    "a chat twice": "('assistant', 'x', 1, NULL, 1)",
    "an agent twice": "('assistant', 'x', NULL, 'second', 1)",
    "a name twice": "('assistant', 'family', 2, NULL, 1)",
    "a name in capitals": "('assistant', 'X', 2, NULL, 1)",
}


@pytest.mark.parametrize("values", ILLEGAL.values(), ids=ILLEGAL)
def test_the_schema_refuses(conn, values):
    make_agent(conn, "second")
    put(conn, chat=chat(conn, "Family"))
    make_chat(conn, "200")
    put(conn, target_agent="second")
    with pytest.raises(apsw.ConstraintError), transaction(conn):
        rows(conn, f"INSERT INTO destinations (agent, name, target_chat, target_agent, created_at) VALUES {values}")
