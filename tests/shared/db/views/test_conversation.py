"""A conversation as its people saw it."""

from shared.db.access import dropped
from shared.db.engine.connection import rows, transaction
from shared.db.views import conversation
from shared.queue import turns
from shared.queue.turns import TurnReply
from tests.approval_requests import hold_many
from tests.support import NOW, answer, begin_epoch, make_chat, put, take


def read(conn, chat="100", *, cursor=None, before_ms=2**63 - 1, limit=50):
    return conversation.read(
        conn, make_chat(conn, chat), "telegram", chat,
        cursor=cursor, before_ms=before_ms, limit=limit, now_ms=NOW + 5000,
    )  # fmt: skip


def settle(conn, *said):
    claim = take(conn, now_ms=NOW)
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply(text, claim.asked[0]) for text in said], None, now_ms=NOW + 20)


def test_an_answer_stands_with_the_message_that_it_answers(conn):
    put(conn, "hello")
    settle(conn, "hi", "how are you?")
    put(conn, "of another chat", chat="200")

    (line,) = read(conn)

    assert (line["what"], line["message"]["text"], line["message"]["state"]) == ("message", "hello", "answer_due")
    assert [(each["text"], each["state"]) for each in line["said"]] == [
        ("hi", "answer_due"),
        ("how are you?", "answer_behind"),
    ]


def test_an_answer_that_a_client_fetches_stands_with_its_message_too(conn):
    """It has no chat of ours, only the client's name for it; an answer that was moved elsewhere is not of this chat."""
    put(conn, "hello")
    settle(conn, "for the client", "moved")
    with transaction(conn):
        rows(conn, "UPDATE responses SET chat_id = NULL, platform_id = iif(message = 'moved', '200', '100')")

    (line,) = read(conn)

    assert [(each["text"], each["state"]) for each in line["said"]] == [("for the client", "answer_to_fetch")]


def test_what_an_agent_says_by_itself_has_a_line_of_its_own(conn):
    put(conn, "hello")
    row = answer(conn, "by the way", now_ms=NOW + 9)

    newest, _ = read(conn)

    assert (newest["what"], newest["at"], newest["said"][0]["id"]) == ("said", NOW + 9, row)


def test_what_an_agent_said_by_itself_before_a_restore_is_told(conn):
    answer(conn, "by the way")
    begin_epoch(conn)
    answer(conn, "and another thing")
    assert [line["said"][0]["text"] for line in read(conn)] == ["and another thing", "by the way"]


def test_what_was_dropped_is_told_without_its_text(conn):
    put(conn, "hello")
    with transaction(conn):
        dropped.record(
            conn, channel="telegram", reason="rate_limited", platform_id="100", sender_id="5", now_ms=NOW + 3
        )

    newest, _ = read(conn)

    assert (newest["what"], newest["at"], newest["state"]) == ("apart", NOW + 3, "rate_limited")
    assert newest["reason"].startswith("It was over the limit per minute")


def test_the_next_page_begins_before_the_last_line(conn):
    for number in range(3):
        put(conn, f"line {number}", now_ms=NOW + number)

    page = read(conn, limit=2)
    rest = read(conn, cursor=page[-1]["cursor"], limit=2)

    assert [line["message"]["text"] for line in (*page, *rest)] == ["line 2", "line 1", "line 0"]
    assert read(conn, before_ms=NOW + 1) == rest


def test_lines_of_one_millisecond_are_each_on_one_page(conn):
    make_chat(conn)
    hold_many(conn, 1)
    with transaction(conn):
        dropped.record(conn, channel="telegram", reason="rate_limited", platform_id="100", now_ms=NOW)
    for number in range(3):
        put(conn, f"line {number}")
        answer(conn, f"by the way {number}")

    found, cursor = [], None
    while page := read(conn, cursor=cursor, limit=2):
        found += page
        cursor = page[-1]["cursor"]

    assert len(found) == 8
    assert [{**each, "cursor": ""} for each in found] == [{**each, "cursor": ""} for each in read(conn)]


def test_the_next_pages_have_what_was_held_and_dropped_before(conn):
    make_chat(conn)
    hold_many(conn, 3)
    with transaction(conn):
        for at in (NOW + 3, NOW + 4, NOW + 5):
            dropped.record(conn, channel="telegram", reason="rate_limited", platform_id="100", now_ms=at)

    found, cursor = [], None
    for _ in range(3):
        page = read(conn, cursor=cursor, limit=2)
        found += [(line["at"] - NOW, line["state"]) for line in page]
        cursor = page[-1]["cursor"]

    assert [at for at, _ in found] == [5, 4, 3, 2, 1, 0]
    assert [state for _, state in found] == ["rate_limited"] * 3 + ["held"] * 3


def test_what_is_planned_stands_there_when_it_is_due(conn):
    id_ = put(conn, "in ten seconds")
    with transaction(conn):
        rows(conn, "UPDATE messages SET process_after = :at WHERE id = :id", {"at": NOW + 10_000, "id": id_})
    assert read(conn) == []
    with transaction(conn):
        rows(conn, "UPDATE messages SET process_after = :at WHERE id = :id", {"at": NOW + 5000, "id": id_})
    assert [line["message"]["text"] for line in read(conn)] == ["in ten seconds"]
