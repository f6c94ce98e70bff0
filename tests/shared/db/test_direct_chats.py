from shared.db import chats, direct_chats, responses
from shared.db.connection import rows, transaction
from tests.support import LEASE, NOW, answer, column, make_chat, plan, row

ANA = "80000000000000001"
STAND_IN = f"user/{ANA}"


def make_stand_in(conn):
    with transaction(conn):
        return chats.ensure(conn, "discord", STAND_IN, is_group=False, opens_for=ANA, now_ms=NOW).id


def say(conn, text="hi"):
    return answer(conn, text, chat=STAND_IN, channel="discord")


def opened(conn, chat_id, platform_id="400"):
    with transaction(conn):
        return direct_chats.opened(conn, chat_id, platform_id, now_ms=NOW + 1)


def write_to(conn, chat_id):
    """Somebody is written to in this chat."""
    with transaction(conn):
        rows(
            conn,
            "INSERT INTO users (id, channel, sender_id, created_at, updated_at) VALUES (1, 'discord', ?, 0, 0)",
            (ANA,),
        )
        rows(conn, "INSERT INTO user_dms (user_id, chat_id, resolved_at) VALUES (1, ?, 0)", (chat_id,))


def test_what_waits_goes_to_the_chat_that_was_opened(conn):
    chat_id = make_stand_in(conn)
    say(conn)
    going_out = say(conn)
    with transaction(conn):
        responses.claim(conn, going_out, token="send_a", now_ms=NOW, lease_ms=LEASE)
    elsewhere = answer(conn, chat="200", channel="discord")
    assert opened(conn, chat_id) == chat_id
    chat = row(conn, "chats", chat_id)
    assert (chat["platform_id"], chat["opens_for"], chat["updated_at"]) == ("400", None, NOW + 1)
    assert column(conn, "SELECT platform_id FROM responses WHERE chat_id = :chat", chat=chat_id) == ["400", "400"]
    assert row(conn, "responses", elsewhere)["platform_id"] == "200"


def test_where_they_had_written_before_everything_moves_to_that_chat(conn):
    known = make_chat(conn, "400", "discord")
    chat_id = make_stand_in(conn)
    write_to(conn, chat_id)
    waiting, over = say(conn), say(conn)
    with transaction(conn):
        rows(conn, "UPDATE responses SET status = 'dead' WHERE id = ?", (over,))
    assert opened(conn, chat_id) == known
    moved, left = row(conn, "responses", waiting), row(conn, "responses", over)
    assert (moved["chat_id"], moved["platform_id"]) == (known, "400")
    assert (left["chat_id"], left["platform_id"]) == (chat_id, STAND_IN), "history is not rewritten"
    assert column(conn, "SELECT chat_id FROM user_dms") == [known]


def test_to_open_it_twice_changes_nothing_more(conn):
    chat_id = make_stand_in(conn)
    say(conn)
    assert opened(conn, chat_id) == opened(conn, chat_id) == chat_id
    known, again = make_chat(conn, "500", "discord"), make_chat(conn, "user/2", "discord")
    assert opened(conn, again, "500") == opened(conn, again, "500") == known


def test_what_waits_in_a_chat_is_found_by_the_index(conn):
    found = plan(conn, direct_chats.MOVE, now_chat=1, platform_id="400", chat=2)
    assert any("responses_open" in line for line in found)
    assert not any(line.startswith("SCAN") for line in found)
