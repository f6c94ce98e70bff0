import pytest

from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.queue import responses
from shared.db.roster import chats, destinations, wirings
from shared.db.roster.chats import Chat
from shared.db.roster.wirings import Wiring
from shared.rest.admin import retire
from shared.roster import wirings as wiring
from tests.forks import race
from tests.support import NOW, answer, dump, make_agent, make_chat, make_session


def connect(conn, chat, agent="assistant", changes=None, now_ms=NOW):
    with transaction(conn):
        return wiring.connect(conn, chat, agent, changes, now_ms=now_ms)


def chat_of(channel="telegram", is_group=True):
    return Chat(1, channel, "1", is_group, "active", "strict", None, None, None, NOW)


DEFAULTS = {
    "a direct chat": (False, False, "mention", "shared"),
    "a direct chat where there are threads": (False, True, "mention", "shared"),
    "a group without threads": (True, False, "mention", "shared"),
    "a group with threads": (True, True, "mention-sticky", "per-thread"),
}


@pytest.mark.parametrize(("is_group", "has_threads", "engage", "session"), DEFAULTS.values(), ids=DEFAULTS)
def test_the_defaults_of_a_wiring(is_group, has_threads, engage, session):
    found = wiring.defaults_for(chat_of(is_group=is_group), has_threads)
    assert found == {"engage_mode": engage, "session_mode": session}


NEW = {
    "a direct chat": ("telegram", False, "mention", "shared"),
    "a group of Telegram": ("telegram", True, "mention-sticky", "per-thread"),
    "a group of Discord": ("discord", True, "mention-sticky", "per-thread"),
    "a group where there are no threads": ("chatroom", True, "mention", "shared"),
}


@pytest.mark.parametrize(("channel", "is_group", "engage", "session"), NEW.values(), ids=NEW)
def test_a_new_wiring_has_the_chats_defaults(conn, channel, is_group, engage, session):
    chat = make_chat(conn, "1", channel, is_group=is_group)
    made = connect(conn, chat)
    assert made == Wiring(made.id, chat, "assistant", NOW, engage, None, "all", "drop", session, 0)
    assert wirings.of_chat(conn, chat) == [made]


EVERYTHING = {
    "engage_mode": "pattern",
    "engage_pattern": "^hi",
    "sender_scope": "known",
    "ignored_message_policy": "accumulate",
    "session_mode": "agent-shared",
    "priority": -5,
    "while_busy": "followup",
    "debounce_ms": 700,
}


def test_only_the_named_fields_change(conn):
    chat = make_chat(conn, is_group=True)
    made = connect(conn, chat, changes=EVERYTHING)
    assert made._asdict() == {"id": made.id, "chat_id": chat, "agent": "assistant", **EVERYTHING, "created_at": NOW}
    assert connect(conn, chat, now_ms=NOW + 1) == made
    assert connect(conn, chat, changes={"priority": 3}) == made._replace(priority=3)
    changed = connect(conn, chat, changes={"engage_mode": "mention", "engage_pattern": None})
    assert changed == made._replace(priority=3, engage_mode="mention", engage_pattern=None)


WRONG = {
    "no such chat": (99, "assistant", {}, NotFound, "no chat 99"),
    "no such agent": (1, "ghost", {}, NotFound, "no agent 'ghost'"),
    "a retired agent": (1, "gone", {}, NotFound, "no agent 'gone'"),
    "a field that is none": (1, "assistant", {"id": 7}, ConfigInvalid, "has no id; it has engage_mode"),
    "a mode that is none": (
        1,
        "assistant",
        {"engage_mode": "always"},
        ConfigInvalid,
        "engage_mode 'always' of a wiring is none of pattern, mention, mention-sticky",
    ),
    "a scope that is none": (1, "assistant", {"sender_scope": "x"}, ConfigInvalid, "none of all, known"),
    "a policy that is none": (
        1,
        "assistant",
        {"ignored_message_policy": "x"},
        ConfigInvalid,
        "none of drop, accumulate",
    ),
    "a session mode that is none": (1, "assistant", {"session_mode": None}, ConfigInvalid, "none of shared, per-"),
    "a pattern mode without one": (
        1,
        "assistant",
        {"engage_mode": "pattern"},
        ConfigInvalid,
        "needs an engage_pattern",
    ),
    "a broken pattern": (
        1,
        "assistant",
        {"engage_mode": "pattern", "engage_pattern": "("},
        ConfigInvalid,
        r"pattern '\('",
    ),
    "a broken pattern for later": (1, "assistant", {"engage_pattern": "["}, ConfigInvalid, "pattern"),
    "an empty pattern": (1, "assistant", {"engage_mode": "pattern", "engage_pattern": ""}, ConfigInvalid, "empty"),
    "a pattern that is no text": (1, "assistant", {"engage_pattern": 5}, ConfigInvalid, "5 of a wiring is not a text"),
    "a priority that is no number": (1, "assistant", {"priority": "high"}, ConfigInvalid, "not a whole number"),
    "a priority of true": (1, "assistant", {"priority": True}, ConfigInvalid, "not a whole number"),
    "a priority beyond the column": (1, "assistant", {"priority": 2**63}, ConfigInvalid, "not a whole number"),
}


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "wired"])
@pytest.mark.parametrize(("chat", "agent", "changes", "error", "said"), WRONG.values(), ids=WRONG)
def test_an_invalid_wiring_is_refused_with_a_sentence_and_nothing_is_half_made(
    conn, chat, agent, changes, error, said, is_new
):
    assert make_chat(conn) == 1
    make_agent(conn, "gone")
    rows(conn, "UPDATE agents SET retired_at = 1 WHERE id = 'gone'")
    if not is_new:
        connect(conn, 1)
    before = dump(conn)
    with pytest.raises(error, match=said), transaction(conn):
        wiring.connect(conn, chat, agent, changes, now_ms=NOW)
    assert dump(conn) == before


def test_a_wired_chat_is_a_destination_named_after_the_chat(conn):
    with transaction(conn):
        made = [
            chats.ensure(conn, "telegram", str(number), is_group=True, name=name, now_ms=NOW).id
            for number, name in enumerate(["Family", "Family", None])
        ]
    for chat in made:
        connect(conn, chat)
        connect(conn, chat)
    assert [each.name for each in destinations.of_agent(conn, "assistant")] == ["chat-3", "family", "family-2"]


def test_a_given_name_stays_when_the_wiring_changes(conn):
    with transaction(conn):
        chat = chats.ensure(conn, "telegram", "1", is_group=True, name="Family", now_ms=NOW).id
        wiring.connect(conn, chat, "assistant", now_ms=NOW)
        destinations.rename(conn, "assistant", "family", "kin")
    connect(conn, chat, changes={"priority": 1})
    assert [each.name for each in destinations.of_agent(conn, "assistant")] == ["kin"]


def test_wiring_a_refused_chat_ends_the_refusal(conn):
    chat = make_chat(conn)
    with transaction(conn):
        chats.update(conn, chat, refused_at=NOW, now_ms=NOW)
    connect(conn, chat)
    assert chats.get(conn, chat).refused_at is None


def test_wiring_a_retired_chat_activates_it(conn):
    chat = make_chat(conn)
    make_session(conn)
    with transaction(conn):
        assert retire.delete_chat(conn, chat, now_ms=NOW) == "retired"
    connect(conn, chat)
    assert chats.get(conn, chat).status == "active"
    response = answer(conn)
    with transaction(conn):
        assert not responses.claim(conn, response, token="t", now_ms=NOW, lease_ms=1000).is_inactive


def test_wiring_a_chat_that_blocked_the_bot_does_not_activate_it(conn):
    chat = make_chat(conn)
    with transaction(conn):
        chats.update(conn, chat, status="inactive", now_ms=NOW)
    connect(conn, chat)
    assert chats.get(conn, chat).status == "inactive"


def test_a_disconnected_agent_loses_the_wiring_and_the_destination(conn):
    chat = make_chat(conn)
    connect(conn, chat)
    with transaction(conn):
        assert wiring.disconnect(conn, chat, "assistant")
        assert not wiring.disconnect(conn, chat, "assistant")
    assert wirings.of_chat(conn, chat) == []
    assert destinations.of_agent(conn, "assistant") == []


CONNECT = """
from shared.rest.admin import retire
from shared.roster import wirings
with transaction(conn):
    print(wirings.connect(conn, 1, "assistant", {"priority": int(sys.argv[2])}, now_ms=1).id)
"""


def test_eight_processes_at_once_make_one_wiring_and_one_destination(conn, db):
    make_chat(conn)
    assert len(set(race(db, CONNECT, [[number] for number in range(8)]))) == 1
    assert len(wirings.of_chat(conn, 1)) == 1
    assert len(destinations.of_agent(conn, "assistant")) == 1


# -- beside other agents


def connect_beside(conn, chat, agent="coder", changes=None, others="refuse"):
    with transaction(conn):
        return wiring.connect_beside(conn, chat, agent, changes, others=others, now_ms=NOW)


def answering(conn, chat):
    return {each.agent for each in wirings.of_chat(conn, chat)}


@pytest.fixture
def wired(conn):
    """A chat in which assistant answers by a pattern, and the agent coder, which answers nowhere."""
    make_agent(conn, "coder")
    chat = make_chat(conn)
    connect(conn, chat, changes=EVERYTHING)
    return chat


def test_a_second_agent_is_refused_unless_it_is_wanted(conn, wired):
    before = dump(conn)
    with pytest.raises(WrongState, match="chat 1 has assistant, and with coder too each of them would answer"):
        connect_beside(conn, wired)
    assert dump(conn) == before
    assert connect_beside(conn, wired, others="keep") == []
    assert answering(conn, wired) == {"assistant", "coder"}
    assert connect_beside(conn, wired, changes={"priority": 3}) == [], "a wiring that is there may change"
    assert wirings.get(conn, wired, "coder").priority == 3


def test_the_first_agent_of_a_chat_is_refused_by_nobody(conn):
    chat = make_chat(conn)
    assert connect_beside(conn, chat, "assistant") == []
    assert answering(conn, chat) == {"assistant"}


@pytest.mark.parametrize(("changes", "expected"), [({}, EVERYTHING), ({"priority": 7}, {**EVERYTHING, "priority": 7})])
def test_a_chat_moves_to_another_agent_with_the_settings_of_its_wiring(conn, wired, changes, expected):
    assert connect_beside(conn, wired, changes=changes, others="remove") == ["assistant"]
    (moved,) = wirings.of_chat(conn, wired)
    assert moved.agent == "coder"
    assert {field: getattr(moved, field) for field in EVERYTHING} == expected
    assert rows(conn, "SELECT agent, target_chat FROM destinations") == [("coder", wired)]


def test_of_several_agents_none_passes_its_settings_on(conn, wired):
    make_agent(conn, "second")
    connect(conn, wired, "second")
    assert connect_beside(conn, wired, others="remove") == ["second", "assistant"]
    (moved,) = wirings.of_chat(conn, wired)
    assert (moved.agent, moved.engage_mode) == ("coder", "mention")


def test_a_move_to_an_agent_that_does_not_exist_changes_nothing(conn, wired):
    before = dump(conn)
    with pytest.raises(NotFound, match="no agent 'zoe'"):
        connect_beside(conn, wired, "zoe", others="remove")
    assert dump(conn) == before
