"""Albums, from their pieces to the one message: recorded updates, in every order of arrival."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from shared.channels.telegram.updates import UpdateParser
from shared.conversation.inbound import events
from shared.conversation.routing.apply import Routed
from shared.db.engine.connection import rows, transaction
from shared.db.queue import event_keys
from tests.shared.conversation.inbound.test_events import LIMITED, take
from tests.shared.conversation.routing.router.kit import ASK, OPEN, WIRE, asked, become, event, make_chat, reasons, wire
from tests.support import NOW, column

EVENTS = Path(__file__).parents[3] / "events" / "telegram"
ALBUMS = {case["file"]: case["album"] for case in json.loads((EVENTS / "expected.json").read_text())["cases"]
          if "album" in case}  # fmt: skip
GROUP = json.loads((EVENTS / "300_album_1_photo.json").read_text())["message"]["chat"]["id"]
DIRECT = json.loads((EVENTS / "304_album_documents_1.json").read_text())["message"]["chat"]["id"]
SOON = NOW + 999
QUIET = NOW + 1_000


def recorded(file):
    """The event of a recorded update, sent just now."""
    return replace(UpdateParser(7100200300, "aurora_helper_bot").parse((EVENTS / file).read_bytes()), sent_at_ms=None)


def due(conn, at=QUIET, policy=OPEN):
    with transaction(conn):
        return events.handle_due_albums(conn, policy, now_ms=at)


def stored(conn):
    return rows(conn, "SELECT message, trigger, status FROM messages ORDER BY id")


def piece(number, text="", *, key="g", **fields):
    file = {"kind": "photo", "file_id": f"f{number}"}
    values = {"event_key": f"e{number}", "platform_message_id": str(number), "group_key": key, "attachments": (file,)}
    return event(text, **{**values, **fields})


@pytest.fixture
def chat(conn):
    return wire(conn, make_chat(conn))


def kept(conn):
    """What is kept of pieces, anywhere."""
    return column(conn, "SELECT event FROM album_pieces WHERE event IS NOT NULL")


# -- the recorded albums


@pytest.mark.parametrize(
    ("last", "order"),
    [(last, order) for last, album in ALBUMS.items() for order in itertools.permutations(album["files"])],
    ids=str,
)
def test_a_recorded_album_is_one_turn_in_every_order_of_arrival(conn, last, order):
    wire(conn, make_chat(conn, str(GROUP), is_group=True))
    wire(conn, make_chat(conn, str(DIRECT)))
    expected = ALBUMS[last]
    for at, file in enumerate(order):
        assert take(conn, recorded(file), at=NOW + at * 100) == Routed(gathered=1)
        assert take(conn, recorded(file), at=NOW + at * 100) == Routed(duplicates=1)
        due(conn, at=NOW + at * 100 + 999)
    assert asked(conn) == []
    due(conn, at=NOW + (len(order) - 1) * 100 + 1_000)
    assert asked(conn) == ["assistant"] * expected["turns"]
    ((text, files),) = rows(conn, "SELECT message, files FROM messages")
    assert (text, json.loads(files)) == (expected["text"], expected["attachments"])
    for file in order:
        assert take(conn, recorded(file), at=NOW + 9_000) == Routed(duplicates=1)
    assert due(conn, at=NOW + 99_000) == []
    assert len(asked(conn)) == expected["turns"]
    assert kept(conn) == []


def test_a_recorded_late_piece_is_a_message_of_its_own(conn):
    wire(conn, make_chat(conn, str(DIRECT)))
    for file in ALBUMS["305_album_documents_2.json"]["files"]:
        take(conn, recorded(file))
    due(conn)
    take(conn, recorded("306_album_documents_late.json"), at=NOW + 6_000)
    due(conn, at=NOW + 7_000)
    files = [json.loads(each) for each in column(conn, "SELECT files FROM messages ORDER BY id")]
    assert [[file["name"] for file in each] for each in files] == [["contract.pdf", "annex A.pdf"], ["annex B.pdf"]]


# -- the window


def test_each_piece_begins_the_second_anew(conn, chat):
    take(conn, piece(1))
    take(conn, piece(2), at=SOON)
    assert due(conn, at=QUIET) == []
    assert due(conn, at=SOON + 1_000) == [Routed(stored=1)]


def test_ten_pieces_are_whole_at_once(conn, chat):
    for number in range(1, 11):
        take(conn, piece(number))
    assert due(conn, at=NOW) == [Routed(stored=1)]
    ((files, content),) = rows(conn, "SELECT files, content FROM messages")
    assert [file["file_id"] for file in json.loads(files)] == [f"f{number}" for number in range(1, 11)]
    assert [each["message_id"] for each in json.loads(content)["pieces"]] == [str(number) for number in range(1, 11)]


def test_what_the_sender_writes_next_comes_behind_the_album(conn, chat):
    take(conn, piece(1, "look"))
    assert take(conn, event("and?", event_key="t"), at=NOW + 10) == Routed(stored=2)
    assert stored(conn) == [("look", 1, "pending"), ("and?", 1, "pending")]
    assert due(conn) == []


def test_what_another_person_writes_does_not_end_the_album(conn, chat):
    take(conn, piece(1, "look"))
    take(conn, event("and?", event_key="t", sender_id="6"))
    take(conn, piece(2))
    due(conn)
    assert stored(conn) == [("and?", 1, "pending"), ("look", 1, "pending")]


def test_two_albums_do_not_mix(conn, chat):
    take(conn, piece(1, "one"))
    take(conn, piece(2, "two", key="h"))
    due(conn)
    assert [text for text, *_ in stored(conn)] == ["one", "two"]


def test_a_late_piece_addresses_the_bot_as_its_album_did(conn):
    wire(conn, make_chat(conn, is_group=True), engage_mode="mention")
    of_group = {"is_group": True, "is_mention": False}
    take(conn, piece(1, "@bot look", is_group=True))
    take(conn, piece(9, "others", key="h", **of_group))
    due(conn)
    assert reasons(conn) == [("not_addressed", "")]
    take(conn, piece(2, **of_group), at=NOW + 5_000)
    take(conn, piece(8, key="h", **of_group), at=NOW + 5_000)
    due(conn, at=NOW + 6_000)
    assert stored(conn) == [("@bot look", 1, "pending"), ("", 1, "pending")]


# -- who may be kept


def test_nothing_of_a_refused_person_is_kept(conn, chat):
    become(conn, "refused")
    assert take(conn, piece(1, "look")).dropped == "sender_refused"
    assert kept(conn) == []


def test_nothing_of_a_stranger_is_kept_where_the_chat_is_strict(conn):
    wire(conn, make_chat(conn, policy="strict"))
    assert take(conn, piece(1, "look")).dropped == "sender_unknown"
    assert kept(conn) == []


@pytest.mark.parametrize("policy", [OPEN, ASK])
def test_nothing_is_kept_for_a_closed_chat_without_an_agent(conn, policy):
    make_chat(conn, policy="strict")
    assert take(conn, piece(1, "look"), policy).dropped is not None
    assert kept(conn) == []


def test_an_album_to_a_new_chat_wires_it(conn):
    take(conn, piece(1, "look"), WIRE)
    take(conn, piece(2), WIRE)
    assert due(conn, policy=WIRE) == [Routed(stored=1)]
    assert len(asked(conn)) == 1


def test_a_forwarded_album_of_a_stranger_is_kept_as_its_agent_may_read_it(conn):
    become(conn, "member")
    wire(conn, make_chat(conn, policy="strict"))
    take(conn, piece(1, "SECRET words", forwarded={"sender_id": "77", "is_self": False}))
    assert "SECRET" not in kept(conn)[0]
    due(conn)
    assert "SECRET" not in str(rows(conn, "SELECT message, content, files FROM messages"))
    assert column(conn, "SELECT json_array_length(files) FROM messages") == [0]


def test_a_held_album_is_stored_whole_on_a_yes(conn):
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, policy="request_approval"))
    take(conn, piece(1, "look"))
    take(conn, piece(2))
    assert due(conn)[0].held == 1
    (buttons,) = column(conn, "SELECT content -> '$.buttons' FROM responses WHERE platform_id = '9'")
    token = json.loads(buttons)[0][1]
    take(conn, event(token, kind="callback", event_key="c1", platform_id="9", sender_id="9"))
    ((text, files),) = rows(conn, "SELECT message, files FROM messages")
    assert (text, len(json.loads(files))) == ("look", 2)


def test_the_card_about_a_file_without_a_text_names_the_file(conn):
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, policy="request_approval"))
    take(conn, piece(1))
    due(conn)
    (card,) = column(conn, "SELECT message FROM responses WHERE platform_id = '9'")
    assert "(photo)" in card


def test_an_album_counts_as_one_message(conn, chat):
    for key in ("g", "h", "i"):
        for number in range(3):
            take(conn, piece(number, "look", key=key, event_key=f"{key}{number}"), LIMITED)
    assert [each.dropped for each in due(conn, policy=LIMITED)] == [None, None, "rate_limited:sender"]


def test_a_code_in_a_caption_is_not_kept(conn, chat):
    take(conn, piece(1, "/start 2222-2222", command="start", command_args="2222-2222"))
    assert kept(conn) == []


# -- restarts, and rows that can't be used


def test_pieces_wait_over_a_restart(conn, other, chat):
    take(conn, piece(1, "look"))
    conn.close()
    take(other, piece(2))
    due(other)
    assert column(other, "SELECT json_array_length(files) FROM messages") == [2]


def test_a_piece_that_can_not_be_read_costs_its_album_alone(conn, chat):
    take(conn, piece(1, "bad", key="h", sender_id="6"))
    rows(conn, "UPDATE album_pieces SET event = '{}'")
    take(conn, piece(2, "good"))
    assert due(conn) == [Routed(dropped="malformed"), Routed(stored=1)]
    assert reasons(conn) == [("malformed", "")]
    assert due(conn, at=NOW + 99_000) == []


def test_a_copy_that_comes_when_the_album_is_forgotten_is_too_old(conn, chat):
    """The keys of pieces are kept as long as those of other events."""
    assert events.event_keys.KEPT_MS == event_keys.KEPT_MS
    late = NOW + event_keys.KEPT_MS + 1
    assert take(conn, piece(1, sent_at_ms=NOW), at=late).dropped == "too_old"


# -- the hot path


def test_a_plain_message_costs_no_statement_more(conn, chat):
    take(conn, event(event_key="first"))
    statements = []
    conn.exec_trace = lambda _cursor, sql, _values: statements.append(sql) is None
    take(conn, event(event_key="second"))
    conn.exec_trace = None
    of_events = [
        sql.split()[0] for sql in statements if sql.split()[0] not in ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")
    ]
    assert of_events == ["SELECT", "SELECT", "SELECT", "INSERT"]
