from shared.db.access import dropped
from shared.db.engine.connection import rows, transaction
from shared.db.views import originals
from tests.support import NOW, answer, begin_epoch, column, plan, put


def found(conn):
    return [each.message for each in originals.find(conn, "telegram", "100", "m1")]


def test_messages_are_found_by_the_id_of_the_platform_newest_first(conn):
    put(conn, "one", platform_message_id="m1")
    put(conn, "two", platform_message_id="m1", trigger=False)
    put(conn, "elsewhere", chat="200", platform_message_id="m1")
    put(conn, "another", platform_message_id="m2")
    assert found(conn) == ["two", "one"]
    assert [each.trigger for each in originals.find(conn, "telegram", "100", "m1")] == [False, True]


def test_what_waits_is_found_however_old_it_is_and_the_rest_for_a_while(conn):
    first = put(conn, "one", platform_message_id="m1")
    last = put(conn, "newest")
    with transaction(conn):
        rows(conn, "UPDATE messages SET id = :id WHERE id = :last", {"id": first + originals.SEARCHED, "last": last})
    assert found(conn) == ["one"]
    with transaction(conn):
        rows(conn, "UPDATE messages SET status = 'completed' WHERE id = :first", {"first": first})
    assert found(conn) == []
    assert originals.searched_since(conn) == NOW


def test_of_few_messages_all_are_known(conn):
    assert originals.searched_since(conn) == 0


def test_the_open_ones_are_read_by_their_index(conn):
    lines = plan(conn, originals.OPEN, message="m", channel="c", platform_id="p")
    assert any("messages_open" in line for line in lines), lines


def test_why_a_message_was_dropped_last(conn):
    assert originals.dropped_as(conn, "telegram", "100", "m1") is None
    for key, reason in (("e1", "not_addressed"), ("e2", "sender_refused")):
        with transaction(conn):
            dropped.record(
                conn, channel="telegram", reason=reason, platform_id="100", platform_message_id="m1", event_key=key,
                now_ms=NOW,
            )  # fmt: skip
    assert originals.dropped_as(conn, "telegram", "100", "m1") == "sender_refused"
    assert column(conn, "SELECT count(*) FROM dropped") == [2]


def test_a_response_is_found_by_each_of_its_parts(conn):
    from_agent = answer(conn, "one", agent="assistant", content={"context": {"receiver_user_id": "5"}})
    ours = answer(conn, "two")
    with transaction(conn):
        for row, parts in ((from_agent, '["a1", "a2"]'), (ours, '["b1", null]')):
            rows(conn, "UPDATE responses SET parts = :parts WHERE id = :row", {"parts": parts, "row": row})
    (chat,) = column(conn, "SELECT id FROM chats")
    found = originals.response(conn, chat, "a2")
    assert (found.id, found.agent, found.message) == (from_agent, "assistant", "one")
    assert found.content["context"] == {"receiver_user_id": "5"}
    assert originals.response(conn, chat, "b1").agent is None
    assert originals.response(conn, chat, "a") is None
    assert originals.response(conn, chat + 1, "a1") is None


def test_what_was_said_before_a_restore_is_found(conn):
    row = answer(conn, "one")
    begin_epoch(conn)
    answer(conn, "two")
    rows(conn, """UPDATE responses SET parts = '["a1"]' WHERE id = :row""", {"row": row})
    (chat,) = column(conn, "SELECT id FROM chats")
    assert originals.response(conn, chat, "a1").id == row


def test_a_response_is_found_by_each_picture_of_its_album(conn):
    row = answer(conn, "two pictures", agent="assistant")
    with transaction(conn):
        rows(conn, """UPDATE responses SET parts = '["a1"]', also = '["a2", "a3"]' WHERE id = :row""", {"row": row})
    (chat,) = column(conn, "SELECT id FROM chats")
    assert {originals.response(conn, chat, ref).id for ref in ("a1", "a2", "a3")} == {row}
    assert originals.response(conn, chat, "a4") is None
