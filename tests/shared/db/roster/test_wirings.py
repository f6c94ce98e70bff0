import apsw
import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats, wirings
from shared.db.roster.wirings import Wiring
from tests.support import NOW, column, make_agent, make_chat, plan, wire

AS_NEW = {
    "engage_mode": "mention",
    "engage_pattern": None,
    "sender_scope": "all",
    "ignored_message_policy": "drop",
    "session_mode": "shared",
    "priority": 0,
    "while_busy": "collect",
    "debounce_ms": None,
}


def put(conn, chat, agent="assistant", now_ms=NOW, **fields):
    with transaction(conn):
        return wirings.put(conn, chat, agent, {**AS_NEW, **fields}, now_ms=now_ms)


def test_a_chat_and_its_wirings_are_read_by_indexes_without_a_temporary_table(conn):
    lines = plan(conn, wirings.FIND_CHAT, channel="telegram", platform_id="1")
    searches = [line for line in lines if line != "SCALAR SUBQUERY 1"]
    assert len(searches) == 4
    assert all(line.startswith("SEARCH ") and " INDEX " in line for line in searches), lines


def test_a_chat_is_read_with_its_wirings(conn):
    assert wirings.find_chat(conn, "telegram", "1") is None
    chat = make_chat(conn, "1", is_group=True)
    make_chat(conn, "1", "discord")
    bare = wirings.find_chat(conn, "telegram", "1")
    assert bare == (chats.get(conn, chat), [], False)
    assert bare.chat.is_group is True
    made = put(conn, chat, engage_mode="pattern", engage_pattern="^hi", priority=-3)
    assert wirings.find_chat(conn, "telegram", "1") == (bare.chat, [made._replace(debounce_ms=0)], False)
    assert wirings.find_chat(conn, "discord", "1").wirings == []


def test_wirings_are_sorted_by_priority_and_then_by_age(conn):
    chat = make_chat(conn, "1")
    for agent, priority in (("low", 0), ("high", 5), ("late", 5)):
        wire(conn, chat, make_agent(conn, agent), priority=priority)
    for found in (wirings.find_chat(conn, "telegram", "1").wirings, wirings.of_chat(conn, chat)):
        assert [wiring.agent for wiring in found] == ["high", "late", "low"]


def test_a_wiring_is_created_once_and_a_change_keeps_its_id_and_created_at(conn):
    chat = make_chat(conn)
    made = put(conn, chat)
    assert made == Wiring(made.id, chat, "assistant", NOW)
    changes = {
        "engage_mode": "pattern",
        "engage_pattern": "x",
        "sender_scope": "known",
        "ignored_message_policy": "accumulate",
        "session_mode": "agent-shared",
        "priority": 4,
    }
    changed = put(conn, chat, now_ms=NOW + 1, **changes)
    assert changed == Wiring(made.id, chat, "assistant", NOW, **changes)
    assert wirings.get(conn, chat, "assistant") == changed
    assert wirings.get(conn, chat, "ghost") is None


def test_a_wiring_and_its_destination_come_and_go_together(conn):
    chat = make_chat(conn)
    put(conn, chat)
    put(conn, chat, priority=2)
    assert rows(conn, "SELECT agent, name, target_chat, created_at FROM destinations") == [
        ("assistant", f"chat-{chat}", chat, NOW)
    ]
    with transaction(conn):
        assert wirings.delete(conn, chat, "assistant")
        assert not wirings.delete(conn, chat, "assistant")
    assert column(conn, "SELECT count(*) FROM destinations") == [0]


@pytest.mark.parametrize(("chat", "agent"), [(1, "ghost"), (99, "assistant")])
def test_the_schema_refuses_an_unknown_chat_or_agent(conn, chat, agent):
    make_chat(conn)
    with pytest.raises(apsw.ConstraintError):
        put(conn, chat, agent)
    assert column(conn, "SELECT count(*) FROM destinations") == [0]
