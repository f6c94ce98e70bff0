import json

import pytest

from shared.conversation.access import people
from shared.core.errors import ConfigInvalid, NotFound
from shared.db.access import albums, approvals, user_dms, users
from shared.db.access.approvals import NewApproval
from shared.db.engine.connection import rows, transaction
from shared.db.queue import responses, sessions
from shared.db.roster import chats, destinations, wirings
from tests.support import NOW, answer, column, make_agent, make_chat, make_session, plan, put, row, wire


def ensure(conn, platform_id="100", **fields):
    with transaction(conn):
        return chats.ensure(conn, "telegram", platform_id, **{"is_group": False, "now_ms": NOW, **fields})


def update(conn, chat, now_ms=NOW + 1, **changes):
    with transaction(conn):
        return chats.update(conn, chat, now_ms=now_ms, **changes)


def move(conn, old="100", new="-200", now_ms=NOW + 1):
    with transaction(conn):
        return chats.move(conn, "telegram", old, new, now_ms=now_ms)


def test_a_new_chat_is_strict_by_default(conn):
    made = ensure(conn, name="Family", is_group=True)
    assert made[1:] == ("telegram", "100", True, "active", "strict", None, "Family", None, NOW)
    assert ensure(conn, "200", sender_policy="request_approval").sender_policy == "request_approval"
    assert ensure(conn, "user/5", opens_for="5").opens_for == "5"


def test_an_existing_chat_stays_as_it_is_and_is_found_by_the_platforms_id(conn):
    made = ensure(conn, name="Family")
    assert ensure(conn, name="Other", is_group=True, sender_policy="public", now_ms=NOW + 1) == made
    assert chats.find(conn, "telegram", "100") == made == chats.get(conn, made.id)
    assert chats.find(conn, "discord", "100") is None
    assert chats.get(conn, 99) is None


def test_a_known_chat_is_only_read(conn):
    """Every message over REST asks for its chat while it holds the write lock."""
    made = ensure(conn)
    conn.pragma("query_only", True)
    assert chats.ensure(conn, "telegram", "100", is_group=False, now_ms=NOW + 1) == made


CHANGES = [
    {"name": "Family"},
    {"name": None},
    {"sender_policy": "public"},
    {"status": "inactive"},
    {"refused_at": NOW},
    {"refused_at": None, "sender_policy": "request_approval"},
]


@pytest.mark.parametrize("changes", CHANGES)
def test_only_the_named_fields_change(conn, changes):
    made = ensure(conn, name="Old", is_group=True)
    update(conn, made.id, refused_at=5)
    changed = update(conn, made.id, **changes)
    assert changed == made._replace(**{"refused_at": 5, **changes}) == chats.get(conn, made.id)
    assert row(conn, "chats")["updated_at"] == NOW + 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sender_policy": "open"}, "'open' of a chat is none of strict, request_approval, public"),
        ({"status": "gone"}, "'gone' of a chat is none of active, inactive"),
    ],
)
def test_an_unknown_word_is_refused_and_the_known_ones_are_listed(conn, changes, said):
    made = ensure(conn)
    with pytest.raises(ConfigInvalid, match=said):
        update(conn, made.id, **changes)
    assert chats.get(conn, made.id) == made


def test_an_unknown_chat_can_not_be_changed(conn):
    with pytest.raises(NotFound, match="no chat 99"):
        update(conn, 99, name="x")


# The platform calls it otherwise


STATES = ("pending", "processing", "paused", "dead", "completed", "cancelled")


def waiting(conn, chat="100"):
    """A message in every state and responses, all of them of the chat; the ids of those that are not over."""
    made = {name: put(conn, name, chat=chat) for name in STATES}
    made["context"] = put(conn, "context", chat=chat, trigger=False)
    for status in ("paused", "dead", "completed", "cancelled"):
        rows(conn, "UPDATE messages SET status = ? WHERE id = ?", (status, made[status]))
    rows(
        conn,
        "UPDATE messages SET status = 'processing', claimed_by = 'turn', lease = 1 WHERE id = ?",
        (made["processing"],),
    )
    said = {name: answer(conn, name, chat=chat) for name in ("pending", "acked", "dead")}
    rows(conn, "UPDATE responses SET status = 'dead' WHERE id = ?", (said["dead"],))
    rows(conn, "UPDATE responses SET status = 'acked', acked_at = 1 WHERE id = ?", (said["acked"],))


def places(conn, table):
    return {
        text: (chat, place) for text, chat, place in rows(conn, f"SELECT message, chat_id, platform_id FROM {table}")
    }


def test_a_chat_that_moves_keeps_its_row_and_its_open_rows_follow(conn):
    old = ensure(conn, is_group=True, name="Family", opens_for="5")
    wire(conn, old.id)
    waiting(conn)
    waiting(conn, "999")
    moved = move(conn)
    assert moved == old._replace(platform_id="-200", opens_for=None) == chats.get(conn, old.id)
    assert chats.find(conn, "telegram", "100") is None
    found = rows(conn, "SELECT message, platform_id FROM messages WHERE chat_id = ?", (old.id,))
    assert {text for text, place in found if place == "-200"} == {"pending", "processing", "paused", "dead", "context"}
    assert {text for text, place in found if place == "100"} == {"completed", "cancelled"}
    found = rows(conn, "SELECT message, platform_id FROM responses WHERE chat_id = ?", (old.id,))
    assert sorted(found) == [("acked", "100"), ("dead", "-200"), ("pending", "-200")]
    assert column(conn, "SELECT count(*) FROM messages WHERE platform_id = '999'") == [7]
    assert column(conn, "SELECT count(*) FROM responses WHERE platform_id = '999'") == [3]
    assert [wiring.agent for wiring in wirings.of_chat(conn, old.id)] == ["assistant"]


@pytest.mark.parametrize(("old", "new", "found"), [("7", "8", False), ("100", "100", True)])
def test_moving_an_unknown_chat_or_to_the_same_id_changes_nothing(conn, old, new, found):
    made = ensure(conn)
    assert move(conn, old, new) == (made if found else None)
    assert (column(conn, "SELECT id FROM chats"), chats.get(conn, made.id)) == ([made.id], made)


def test_a_second_notice_of_the_same_move_changes_nothing(conn):
    ensure(conn)
    moved = move(conn)
    assert move(conn, now_ms=NOW + 9) is None
    assert (column(conn, "SELECT id FROM chats"), chats.get(conn, moved.id)) == ([moved.id], moved)


@pytest.fixture
def both(conn):
    """The old chat and one that is called by the new name already; both wired to the assistant, each to one more."""
    old = ensure(conn, name="Family", is_group=True, sender_policy="public")
    new = ensure(conn, "-200", name="Family?", is_group=True)
    for agent in ("second", "third"):
        make_agent(conn, agent)
    wire(conn, old.id, priority=7)
    wire(conn, old.id, "second")
    wire(conn, new.id)
    wire(conn, new.id, "third")
    return old, new


def test_merged_chats_have_the_settings_of_the_old_one(conn, both):
    old, new = both
    moved = move(conn)
    assert moved == chats.get(conn, new.id)
    assert moved == new._replace(sender_policy="public", name="Family")
    assert chats.get(conn, old.id).status == "inactive"
    assert {wiring.agent: wiring.priority for wiring in wirings.of_chat(conn, new.id)} == {
        "assistant": 7,
        "second": 0,
        "third": 0,
    }
    assert wirings.of_chat(conn, old.id) == []


def test_merged_chats_have_one_destination_for_each_wiring_with_the_old_name(conn, both):
    with transaction(conn):
        destinations.rename(conn, "assistant", "family", "kin")
    move(conn)
    assert sorted(rows(conn, "SELECT agent, target_chat FROM destinations")) == [
        ("assistant", both[1].id),
        ("second", both[1].id),
        ("third", both[1].id),
    ]
    assert destinations.find(conn, "assistant", chat=both[1].id).name == "kin"


def test_merged_chats_keep_one_of_two_destinations(conn, both):
    old, new = both
    with transaction(conn):
        destinations.put(conn, "third", chat=old.id, now_ms=NOW)
    move(conn)
    assert [each.target_chat for each in destinations.of_agent(conn, "third")] == [new.id]


def test_a_refused_chat_stays_refused_when_it_moves(conn, both):
    update(conn, both[0].id, refused_at=NOW)
    assert move(conn).refused_at == NOW


def test_merged_chats_keep_the_old_session_and_open_messages_run(conn, both):
    _, new = both
    put(conn, "before", chat="100")
    put(conn, "after", chat="-200")
    put(conn, "threaded", chat="-200", thread="7")
    put(conn, "third", chat="-200", agent="third")
    session = dict(rows(conn, "SELECT message, session_id FROM messages"))
    answer(conn, "said", chat="100")
    move(conn)
    with transaction(conn):
        assert sessions.ensure(conn, "assistant", new.id, None, now_ms=NOW) == session["before"]
        assert sessions.ensure(conn, "assistant", new.id, "7", now_ms=NOW) == session["threaded"]
        assert sessions.ensure(conn, "third", new.id, None, now_ms=NOW) == session["third"]
    assert row(conn, "sessions", session["after"])["status"] == "closed"
    assert row(conn, "sessions", session["after"])["closed_at"] == NOW + 1
    assert places(conn, "messages") == dict.fromkeys(("before", "after", "threaded", "third"), (new.id, "-200"))
    assert places(conn, "responses") == {"said": (new.id, "-200")}
    assert column(conn, "SELECT count(*) FROM messages WHERE status = 'pending'") == [4]


def test_merged_chats_keep_each_persons_private_session(conn, both):
    old, new = both

    def private(chat, person):
        with transaction(conn):
            return sessions.ensure(conn, "assistant", chat.id, None, private_to=person, now_ms=NOW)

    ana, doubled, ben = private(old, "5"), private(new, "5"), private(new, "6")
    shared = make_session(conn, chat="-200")[1]
    move(conn)
    assert [private(new, "5"), private(new, "6"), make_session(conn, chat="-200")[1]] == [ana, ben, shared]
    assert row(conn, "sessions", doubled)["status"] == "closed"


def test_merged_chats_take_over_direct_users_and_approvals(conn, both):
    old, new = both
    asked = NewApproval("sender", {}, options=("Yes", "No"), chat_id=old.id)
    with transaction(conn):
        ana = users.ensure(conn, "telegram", "5", name="Ana", now_ms=NOW)
        user_dms.put(conn, ana.id, old.id, NOW)
        approval, _ = approvals.request(conn, asked, expires_at=NOW + 9, now_ms=NOW)
    move(conn)
    assert user_dms.get(conn, ana.id) == new.id
    assert approvals.get(conn, approval.approval_id).chat_id == new.id


def test_a_provisional_chat_leaves_the_settings_of_the_real_one(conn):
    with transaction(conn):
        bob = users.ensure(conn, "discord", "5", name="Bob", now_ms=NOW)
        unopened = people.direct_chat(conn, bob, now_ms=NOW)
        seen = chats.ensure(conn, "discord", "D1", is_group=False, name="b", sender_policy="public", now_ms=NOW)
        answer_id = responses.enqueue(
            conn,
            responses.NewResponse(
                message_id="proactive_1", channel="discord", sender="x", message="hi", chat_id=unopened,
                platform_id="user/5",
            ),
            now_ms=NOW,
        )  # fmt: skip
        assert chats.move(conn, "discord", "user/5", "D1", now_ms=NOW) == seen
    assert row(conn, "responses", answer_id)["platform_id"] == "D1"
    assert chats.get(conn, unopened).status == "inactive"


def test_open_rows_are_found_by_partial_indexes(conn):
    values = {"from": 1, "to": 2, "new": "n"}
    for statement in chats.REDIRECT:
        more = {"channel": "telegram"} if ":channel" in statement else {}
        assert " INDEX " in plan(conn, statement, **values, **more, void=True)[0]
    late = plan(conn, chats.REDIRECT_LATE, to=1, channel="telegram", old="o", new="n")
    assert "responses_open" in late[0]
    for statement in chats.REDIRECT_ALBUMS:
        lines = plan(conn, statement, channel="telegram", old="o", new="n")
        assert not any(line.startswith("SCAN") for line in lines), lines


def test_the_ids_of_messages_in_the_old_chat_are_void(conn, both):
    put(conn, "waits", platform_message_id="7")
    carried = {"reply_to": "7", "edits": 3, "asked_at": NOW}
    response = answer(conn, "late", content=carried)
    move(conn)
    assert column(conn, "SELECT platform_message_id FROM messages") == [None]
    assert json.loads(row(conn, "responses", response)["content"]) == {"asked_at": NOW}


def test_the_answer_of_a_turn_that_ran_meanwhile_follows_the_chat(conn):
    """It is written for the old id when no chat has that id any more, and the platform refuses it once more."""
    make_chat(conn, is_group=True)
    move(conn)
    response = answer(conn, "late", chat="-200", content={"reply_to": "7"})
    with transaction(conn):
        rows(conn, "UPDATE responses SET platform_id = '100'")
    move(conn)
    found = row(conn, "responses", response)
    assert (found["platform_id"], found["content"]) == ("-200", "{}")


def test_pieces_of_an_album_follow_their_chat(conn):
    make_chat(conn, is_group=True)
    with transaction(conn):
        albums.add(
            conn, channel="telegram", platform_id="100", group_key="g", sender_id="5", event_key="e",
            platform_message_id="1", event='{"platform_id": "100"}', most=10, due_ms=NOW, now_ms=NOW,
        )  # fmt: skip
    move(conn)
    assert column(conn, "SELECT platform_id FROM albums") == ["-200"]
    assert column(conn, "SELECT event ->> '$.platform_id' FROM album_pieces") == ["-200"]


def test_held_events_are_found_by_indexes(conn):
    lines = plan(conn, chats.REDIRECT_HELD, to=1, new="n")
    assert any("approvals_of_chat (chat_id=?)" in line for line in lines)
    assert not any(line.startswith("SCAN") for line in lines)


def test_the_status_is_of_the_chat_on_that_platform(conn):
    make_chat(conn, "1", "telegram"), make_chat(conn, "1", "discord")
    with transaction(conn):
        assert chats.set_status(conn, "discord", "1", "inactive", now_ms=NOW)
        assert not chats.set_status(conn, "discord", "2", "inactive", now_ms=NOW)
    assert chats.find(conn, "discord", "1").status == "inactive"
    assert chats.find(conn, "telegram", "1").status == "active"


def test_a_chat_with_a_wiring_is_not_refused(conn):
    bare, wired = make_chat(conn, "1"), make_chat(conn, "2")
    wire(conn, wired)
    with transaction(conn):
        assert [chats.refuse(conn, each, now_ms=NOW) for each in (bare, wired)] == [True, False]
    assert column(conn, "SELECT refused_at FROM chats ORDER BY id") == [NOW, None]
