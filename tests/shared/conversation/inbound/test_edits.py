import json
from dataclasses import replace

import pytest

from shared.conversation.routing.apply import Routed
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims
from tests.shared.conversation.inbound.test_albums_of_events import due, kept, piece, recorded
from tests.shared.conversation.inbound.test_events import LIMITED, take
from tests.shared.conversation.routing.router.kit import (
    IN_THREAD,
    OPEN,
    WIRE,
    become,
    event,
    make_chat,
    reasons,
    unwire,
    wire,
)
from tests.support import LEASE, NOW, column
from tests.support import take as claim

EDITED = "what the person wrote then"


@pytest.fixture
def chat(conn):
    return wire(conn, make_chat(conn))


@pytest.fixture
def group(conn):
    return wire(conn, make_chat(conn, is_group=True), engage_mode="mention")


def sent(text="first", **fields):
    return event(text, **{"platform_message_id": "m1", "event_key": "e1", **fields})


def edit(text=EDITED, key="e2", **fields):
    return sent(text, **{"kind": "edit", "event_key": key, "edited": True, "first_sent_at_ms": NOW, **fields})


def stored(conn):
    return rows(conn, "SELECT message, trigger, status FROM messages ORDER BY id")


def about(conn):
    return [json.loads(each) for each in column(conn, "SELECT content -> '$.about' FROM messages") if each]


def complete(conn):
    found = claim(conn)
    with transaction(conn):
        claims.complete(conn, found, now_ms=NOW)


def types(conn):
    return column(conn, "SELECT type FROM events WHERE message_id IS NOT NULL ORDER BY id")


# -- what waits


def test_an_edit_replaces_a_message_that_waits(conn, chat):
    file = {"kind": "photo", "file_id": "f"}
    take(conn, sent(context={"token": "sealed"}))
    assert take(conn, edit(attachments=(file,), context={}), at=NOW + 5) == Routed(changed=1)
    ((text, trigger, status, files, content, updated),) = rows(
        conn, "SELECT message, trigger, status, files, content, updated_at FROM messages"
    )
    assert (text, trigger, status, json.loads(files), updated) == (EDITED, 1, "pending", [file], NOW + 5)
    assert json.loads(content) == {"context": {"token": "sealed"}, "edited": True}
    assert types(conn) == ["message_edited"]


def test_an_edit_by_somebody_else_is_context_and_leaves_the_message_as_it_is(conn):
    wire(conn, make_chat(conn, is_group=True))
    take(conn, sent(is_group=True))
    take(conn, edit(is_group=True, sender="Eve", sender_id="66"))
    said = rows(conn, "SELECT sender, message, trigger FROM messages ORDER BY id")
    assert said == [("Ana", "first", 1), ("Eve", EDITED, 0)]


def test_a_copy_of_an_edit_does_nothing(conn, chat):
    take(conn, sent())
    take(conn, edit())
    take(conn, edit("newest", "e3"))
    assert take(conn, edit()) == Routed(duplicates=1)
    assert stored(conn) == [("newest", 1, "pending")]


def test_a_message_that_waits_is_answered_also_where_the_edit_takes_the_name_away(conn, group):
    take(conn, sent("@bot first", is_group=True))
    take(conn, edit(is_group=True, is_mention=False))
    assert stored(conn) == [(EDITED, 1, "pending")]


@pytest.mark.parametrize("instead", [True, False])
def test_an_edit_replaces_a_message_that_waits_for_an_agent_whose_wiring_is_gone(conn, chat, instead):
    take(conn, sent())
    unwire(conn)
    if instead:
        wire(conn, chat.chat_id, "helper")
    assert take(conn, edit()).changed == 1
    assert stored(conn)[0] == (EDITED, 1, "pending")


def test_an_edit_of_context_that_names_the_bot_engages_no_agent_whose_wiring_is_gone(conn):
    group = make_chat(conn, is_group=True)
    wire(conn, group, engage_mode="mention", ignored_message_policy="accumulate")
    take(conn, sent(is_group=True, is_mention=False))
    unwire(conn)
    wire(conn, group, "helper", engage_mode="mention")
    take(conn, edit(is_group=True))
    assert stored(conn)[0] == (EDITED, 0, "pending")
    assert column(conn, "SELECT agent FROM messages WHERE trigger = 1 AND agent <> 'helper'") == []


def test_an_edit_that_names_an_agent_whose_wiring_is_gone_addresses_those_that_are_there(conn):
    group = make_chat(conn, is_group=True)
    for agent in ("assistant", "helper"):
        wire(conn, group, agent, engage_mode="mention", ignored_message_policy="accumulate")
    take(conn, sent(is_group=True, is_mention=False))
    unwire(conn)
    take(conn, edit("@assistant go", is_group=True))
    assert rows(conn, "SELECT agent, message FROM messages WHERE trigger = 1") == [("helper", "@assistant go")]


@pytest.mark.parametrize("mode", ["shared", "per-thread", "agent-shared"])
def test_a_turn_is_told_of_an_edit_where_the_wiring_of_its_agent_is_gone(conn, mode):
    wire(conn, make_chat(conn, is_group=True), session_mode=mode)
    take(conn, sent(**IN_THREAD))
    (session,) = column(conn, "SELECT id FROM sessions")
    with transaction(conn):
        running = claims.claim(conn, "assistant", session, token="t", now_ms=NOW, lease_ms=LEASE, limit=1)
    unwire(conn)
    assert take(conn, edit(**IN_THREAD)).stored == 1
    assert about(conn) == [{"message_id": running.batch[0].message_id, "as": "edits"}]
    assert claims.next_to_tell(conn, running, now_ms=NOW) == 2


def test_an_edit_of_an_answered_message_is_no_first_message_where_the_wiring_is_gone(conn, chat):
    take(conn, sent())
    complete(conn)
    unwire(conn)
    assert take(conn, edit(), WIRE) == Routed(dropped="not_wired")


def test_an_edit_replaces_the_message_of_each_agent_by_its_own_state(conn, chat):
    wire(conn, chat.chat_id, "second")
    take(conn, sent())
    complete(conn)
    take(conn, edit())
    assert rows(conn, "SELECT agent, message, trigger, status FROM messages ORDER BY id") == [
        ("assistant", "first", 1, "completed"),
        ("second", EDITED, 1, "pending"),
        ("assistant", EDITED, 0, "pending"),
    ]


# -- what runs, or is answered


@pytest.mark.parametrize("end", [claim, complete])
def test_an_edit_of_a_message_that_runs_or_is_answered_is_context(conn, chat, end):
    take(conn, sent())
    end(conn)
    assert take(conn, edit()) == Routed(stored=1)
    assert stored(conn)[1] == (EDITED, 0, "pending")
    (first,) = column(conn, "SELECT message_id FROM messages WHERE trigger = 1")
    assert about(conn) == [{"message_id": first, "as": "edits"}]


def test_a_second_edit_of_an_answered_message_replaces_the_first(conn, chat):
    take(conn, sent())
    complete(conn)
    take(conn, edit())
    take(conn, edit("newest", "e3"))
    assert [(text, trigger) for text, trigger, _ in stored(conn)] == [("first", 1), ("newest", 0)]


def test_an_edit_of_a_message_that_waits_again_replaces_it_and_the_edit_before(conn, chat):
    """A turn had it, and gave it back."""
    take(conn, sent())
    running = claim(conn)
    take(conn, edit())
    with transaction(conn):
        claims.release(conn, running, now_ms=NOW)
    take(conn, edit("newest", "e3"))
    assert stored(conn) == [("newest", 1, "pending"), (EDITED, 0, "cancelled")]


def test_an_edit_that_adds_the_name_to_an_answered_message_is_not_answered_again(conn):
    wire(conn, make_chat(conn, is_group=True), engage_mode="pattern", engage_pattern="first")
    take(conn, sent("first", is_group=True, is_mention=False))
    complete(conn)
    take(conn, edit("@bot first again", is_group=True))
    assert [trigger for _, trigger, _ in stored(conn)] == [1, 0]


# -- what was not answered


def test_an_edit_that_adds_the_name_engages_once(conn, group):
    take(conn, sent(is_group=True, is_mention=False))
    assert reasons(conn) == [("not_addressed", "")]
    assert take(conn, edit(is_group=True, first_sent_at_ms=None)) == Routed(stored=1)
    complete(conn)
    take(conn, edit("@bot and again", "e3", is_group=True))
    assert [(text, trigger) for text, trigger, _ in stored(conn)] == [(EDITED, 1), ("@bot and again", 0)]


def test_an_edit_that_adds_the_name_to_context_engages_once_and_the_context_goes(conn):
    wire(conn, make_chat(conn, is_group=True), engage_mode="mention", ignored_message_policy="accumulate")
    take(conn, sent(is_group=True, is_mention=False))
    take(conn, edit("still not meant", is_group=True, is_mention=False))
    assert stored(conn) == [("still not meant", 0, "pending")]
    take(conn, edit("@bot now", "e3", is_group=True))
    assert stored(conn) == [("still not meant", 0, "cancelled"), ("@bot now", 1, "pending")]


def test_an_edit_of_a_message_that_was_never_seen_engages(conn, group):
    """In a group a bot often sees only what names it."""
    assert take(conn, edit(is_group=True), at=NOW + 60_000) == Routed(stored=1)
    assert stored(conn) == [(EDITED, 1, "pending")]


@pytest.mark.parametrize("first", [None, NOW - 2 * 60 * 60 * 1000])
def test_an_edit_of_a_message_that_may_be_pruned_is_context(conn, group, first):
    take(conn, edit(is_group=True, first_sent_at_ms=first))
    assert stored(conn) == [(EDITED, 0, "pending")]


def test_an_edit_that_addresses_nobody_leaves_its_reason(conn, group):
    take(conn, edit(is_group=True, is_mention=False))
    assert (stored(conn), reasons(conn)) == ([], [("not_addressed", "")])


# -- nothing to see


def test_an_edit_without_a_visible_change_does_nothing(conn, chat):
    link = {"kind": "file", "url": "https://cdn/1?ex=1"}
    take(conn, sent(attachments=(link,)))
    again = edit("first", attachments=({**link, "url": "https://cdn/1?ex=2"},))
    assert take(conn, again) == Routed()
    complete(conn)
    assert take(conn, replace(again, event_key="e3")) == Routed()
    assert stored(conn) == [("first", 1, "completed")]


def test_the_recorded_edit_without_a_change_does_nothing(conn):
    first = recorded("314_before_noop_edit.json")
    wire(conn, make_chat(conn, first.platform_id))
    take(conn, first)
    assert take(conn, recorded("315_noop_edit.json")) == Routed()
    assert [trigger for _, trigger, _ in stored(conn)] == [1]


# -- albums


def test_the_recorded_edit_of_a_caption_replaces_the_words_of_that_piece(conn):
    files = ["300_album_1_photo.json", "301_album_2_video.json", "302_album_3_photo.json"]
    pieces = [recorded(file) for file in files]
    wire(conn, make_chat(conn, pieces[0].platform_id, is_group=True))
    for each in pieces:
        take(conn, each)
    due(conn)
    take(conn, recorded("303_album_caption_edited.json"))
    assert column(conn, "SELECT message FROM messages") == [
        "@aurora_helper_bot which of these is the leak, left or right?"
    ]
    assert column(conn, "SELECT json_array_length(files) FROM messages") == [3]


def test_an_edit_of_one_caption_leaves_the_others_and_knows_its_file(conn, chat):
    for number, text in ((1, "one"), (2, "two"), (3, "")):
        take(conn, piece(number, text))
    due(conn)
    new = ({"kind": "photo", "file_id": "new"},)
    change = piece(2, "2", kind="edit", edited=True, attachments=new, event_key="x")
    take(conn, change)
    ((text, files),) = rows(conn, "SELECT message, files FROM messages")
    assert (text, [each["file_id"] for each in json.loads(files)]) == ("one\n2", ["f1", "new", "f3"])
    complete(conn)
    take(conn, replace(change, text="zwei", event_key="y"))
    assert [(text, trigger) for text, trigger, _ in stored(conn)] == [("one\n2", 1), ("one\nzwei", 0)]


def test_an_edit_of_a_piece_that_waits_for_the_others_changes_it(conn, chat):
    take(conn, piece(1, "one"))
    assert take(conn, piece(1, "1", kind="edit", edited=True, event_key="x")) == Routed(changed=1)
    take(conn, piece(2, "two"))
    due(conn)
    assert stored(conn) == [("1\ntwo", 1, "pending")]


# -- access


def test_a_refused_person_tells_nothing_by_an_edit(conn, chat):
    take(conn, sent())
    become(conn, "refused")
    assert take(conn, edit()).dropped == "sender_refused"
    take(conn, piece(1, "one"))
    assert EDITED not in str(rows(conn, "SELECT * FROM messages")) + str(kept(conn))
    assert stored(conn) == [("first", 1, "pending")]


def test_a_stranger_tells_nothing_by_an_edit_in_a_strict_chat(conn):
    wire(conn, make_chat(conn, policy="strict"))
    take(conn, sent())
    assert take(conn, edit()).dropped == "sender_unknown"
    assert stored(conn) == []


def test_an_edit_of_a_held_message_replaces_it_there_alone(conn):
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, policy="request_approval"))
    take(conn, sent())
    assert take(conn, edit()) == Routed(changed=1)
    assert (stored(conn), column(conn, "SELECT event ->> '$.text' FROM held")) == ([], [EDITED])
    (buttons,) = column(conn, "SELECT content -> '$.buttons' FROM responses WHERE platform_id = '9'")
    press = event(json.loads(buttons)[0][1], kind="callback", event_key="c", platform_id="9", sender_id="9")
    take(conn, press)
    assert stored(conn) == [(EDITED, 1, "pending")]


def test_a_command_is_not_given_by_an_edit(conn, chat):
    become(conn, "owner")
    take(conn, sent())
    assert take(conn, edit("/clear")).dropped == "command_in_edit:clear"
    assert stored(conn) == [("first", 1, "pending")]
    assert column(conn, "SELECT status FROM sessions") == ["active"]


def test_edits_count_against_the_limit(conn, chat):
    take(conn, sent(), LIMITED)
    take(conn, edit(), LIMITED)
    assert take(conn, edit("more", "e3"), LIMITED).dropped == "rate_limited:sender"


@pytest.mark.parametrize("first", [NOW, None])
def test_an_edit_in_a_chat_without_an_agent_leaves_its_reason(conn, first):
    assert take(conn, edit(first_sent_at_ms=first), WIRE if first is None else OPEN).dropped == "not_wired"


def test_an_edit_that_names_the_bot_in_a_new_chat_is_its_first_message(conn):
    take(conn, sent(is_group=True, is_mention=False), WIRE)
    assert take(conn, edit(is_group=True), WIRE).stored == 1
    assert stored(conn) == [(EDITED, 1, "pending")]


def test_a_row_that_can_not_be_used_costs_the_edit_alone(conn, chat):
    take(conn, piece(1, "one"))
    due(conn)
    rows(conn, "UPDATE messages SET content = '{\"pieces\": [7]}'")
    assert take(conn, piece(1, "uno", kind="edit", event_key="x")).dropped == "malformed"
    assert stored(conn) == [("one", 1, "pending")]


@pytest.mark.parametrize("lacks", [{"platform_message_id": None}, {"reason": "malformed"}])
def test_an_edit_that_names_no_message_leaves_its_reason(conn, chat, lacks):
    assert take(conn, edit(**lacks)).dropped in ("unsupported:edit", "malformed")
