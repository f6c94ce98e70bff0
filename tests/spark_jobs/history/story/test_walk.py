"""Stories of messages that our own functions handled, told from what the real Litestream wrote."""

import os
import shutil
from pathlib import Path

import pytest

from shared.core.errors import RetryableError
from shared.db.access import approvals, held_events
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import messages, responses
from shared.queue import deliveries, turns
from shared.queue.delivery_verdicts import DeliveryPolicy
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from spark_jobs import replicas
from spark_jobs.__main__ import main
from spark_jobs.history.story.walk import MessageAmbiguous, MessageMissing, walk
from spark_jobs.replicas import PositionMissing, RestoreFailed
from tests.approval_requests import ask_sender, event
from tests.conftest import close_gate
from tests.spark_jobs.conftest import Primary
from tests.support import LEASE, NOW, make_session, put, take

TURNS = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=0.0)
SENDS = DeliveryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, unknown_sends="resend", jitter=0.0)
DAY_MS = 86_400_000


@pytest.fixture
def primary(db, tmp_path):
    return Primary(db, f"file://{tmp_path}/replica")


@pytest.fixture(scope="module")
def lived(fresh_database, tmp_path_factory):
    """A message whose whole life is in a replica: it came, failed, was answered, and was pruned. Its id; the folder."""
    folder = tmp_path_factory.mktemp("lived")
    path = Path(shutil.copy(fresh_database, folder / "p.db"))
    conn = open_connection(path)
    try:
        return live(conn, Primary(path, f"file://{folder}/replica"), folder / "replica"), folder / "replica"
    finally:
        conn.close()
        close_gate(path)


@pytest.fixture
def message(lived, tmp_path):
    """The id of that message; the replica is the test's own copy."""
    message_id, folder = lived
    shutil.copytree(folder, tmp_path / "replica")
    return message_id


def live(conn, primary, folder):
    row = put(conn, "what is \x1b[31m2+2?", platform_message_id="m7", event_key="u7")
    primary.replicate()
    claim = take(conn, now_ms=NOW + 10)
    primary.replicate()
    with transaction(conn):
        turns.fail(conn, claim, Failure("the model was away"), TURNS, now_ms=NOW + 20)
    primary.replicate()
    claim = take(conn, now_ms=NOW + 10_000, token="turn_b")
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply("4", claim.asked[0])], "go on", now_ms=NOW + 10_500)
    primary.replicate()
    send(conn, RetryableError("reset"), now_ms=NOW + 11_000)
    primary.replicate()
    send(conn, None, now_ms=NOW + 20_000)
    primary.replicate()
    ((message_id,),) = rows(conn, "SELECT message_id FROM messages WHERE id = ?", (row,))
    put(conn, "a later one", now_ms=NOW + DAY_MS)
    primary.replicate()
    with transaction(conn):
        assert messages.prune(conn, after_id=0, older_than_ms=NOW + DAY_MS, limit=100)[0] == 1
    primary.replicate()
    date_positions(folder, 0, 1, 2, 11, 12, 21, 86_400, 86_500)
    return message_id


def date_positions(folder, *seconds):
    """Litestream reads the instants of positions from their files."""
    for path, after in zip(sorted((folder / "ltx" / "0").iterdir()), seconds, strict=True):
        os.utime(path, (NOW // 1000 + after,) * 2)


def send(conn, error, *, now_ms):
    """Claim the response, and end the send with *error* or the platform's acceptance."""
    with transaction(conn):
        response = responses.claim(conn, 1, token="send_a", now_ms=now_ms, lease_ms=LEASE)
    with transaction(conn):
        if error is None:
            deliveries.acknowledge(conn, response, ("m8",), now_ms=now_ms)
        else:
            deliveries.fail(conn, response, error, SENDS, now_ms=now_ms)


def states(story):
    return [row.get("status") for each in story.sightings for row in [each.rows.get(("messages", 1), {})]]


def test_the_story_has_every_state_and_goes_on_after_the_row_was_pruned(message, primary, cache, capsys):
    command = ["story", message, "--replica", primary.url, "--cache-dir", str(cache)]
    assert main(command) == 0
    said = capsys.readouterr().out
    story = walk(primary.url, message, cache_dir=str(cache))
    expected = ["pending", "processing", "pending", "completed", "completed", "completed", "completed", None]
    assert states(story) == expected
    assert [each.why for each in story.sightings][-1] is None
    for words in (
        f"{message}: a message on telegram '100' for agent assistant",
        "8 of 8 positions were read",
        "message_retry: ",
        "status 'pending' -> 'processing', ",
        "claimed_by NULL -> 'turn_a'",
        "last_error NULL -> 'the model was away'",
        "+ responses 1: message '4', ",
        "last_error NULL -> 'reset'",
        "platform_message_id NULL -> 'm8'",
        "It was answered: response 1 was sent.",
        "+ agent_messages 2: role 'assistant', sender 'assistant', content '4', ",
        "- messages 1 is gone",
        "it had ended, and was pruned after its retention.",
    ):
        assert words in said
    assert "\x1b" not in said
    assert said.index("message_retry: ") < said.index("last_error NULL -> 'the model was away'"), "as it happened"
    last = story.sightings[-2].pin
    assert f'.option("txid", "{last.txid}")' in said


@pytest.mark.parametrize(
    ("most", "read", "expected"),
    [
        (3, [6, 7, 8], ["completed", "completed", None]),
        (5, [1, 4, 6, 7, 8], ["pending", "completed", "completed", "completed", None]),
        (7, [1, 2, 4, 6, 7, 8], ["pending", "processing", "completed", "completed", "completed", None]),
    ],
)
def test_few_restores_tell_most_of_what_happened_and_the_end_of_the_row(most, read, expected, message, primary, cache):
    story = walk(primary.url, message, most=most, cache_dir=str(cache))
    assert [int(each.pin.txid, 16) for each in story.sightings] == read
    assert states(story) == expected
    assert len(list(cache.glob("*.db"))) == len(read)


def test_the_platforms_id_names_the_message_too(message, primary, cache):
    assert walk(primary.url, "m7", cache_dir=str(cache)).message.message_id == message


def test_an_approval_that_the_message_waited_for_belongs_to_its_story(conn, primary, cache, capsys):
    make_session(conn)
    ask_sender(conn, event("u9"))
    primary.replicate()
    ((approval_id, number),) = rows(conn, "SELECT approval_id, id FROM approvals")
    with transaction(conn):
        approvals.decide(conn, approval_id, choice=0, decided_by="telegram:1", now_ms=NOW + 50)
        held_events.forget(conn, number)
    put(conn, "hello", event_key="u9", now_ms=NOW + 60)
    primary.replicate()
    ((message_id,),) = rows(conn, "SELECT message_id FROM messages")
    assert main(["story", message_id, "--replica", primary.url, "--cache-dir", str(cache)]) == 0
    said = capsys.readouterr().out
    assert "There is no row of the message.\n" in said
    assert f"+ approvals {approval_id}: " in said
    assert "status 'pending' -> 'approved', decided_by NULL -> 'telegram:1'" in said
    assert "- held 1 is gone" in said
    assert "The row of the message is still there at the newest position that was read." in said


def test_an_edit_after_the_turn_began_belongs_to_the_story_of_the_message(conn, primary, cache):
    put(conn, "hello", platform_message_id="m1", event_key="u1")
    put(conn, "in another chat", chat="200", trigger=False, content={"about": {"message_id": "m1", "as": "edits"}})
    put(conn, "hello!", trigger=False, content={"about": {"message_id": "m1", "as": "edits"}})
    primary.replicate()
    (seen,) = walk(primary.url, "m1", cache_dir=str(cache)).sightings
    assert [row["message"] for (table, _), row in seen.rows.items() if table == "messages"] == ["hello", "hello!"]


def test_a_message_that_a_restore_lost_is_told_as_such(conn, primary, cache, capsys):
    primary.begin_prefix("first", "epoch_1")
    row = put(conn)
    ((message_id,),) = rows(conn, "SELECT message_id FROM messages WHERE id = ?", (row,))
    primary.replicate()
    rows(conn, "DELETE FROM messages")
    primary.begin_prefix("second", "epoch_2")
    primary.replicate()
    assert main(["story", message_id, "--replica", primary.url, "--cache-dir", str(cache)]) == 0
    said = capsys.readouterr().out
    assert "(a new history, epoch epoch_2)" in said
    assert "a restore lies in between, and its history does not have the row." in said
    assert 'option("epoch", "first")' in said


def test_a_message_of_an_earlier_release_has_a_story(new_primary, tmp_path, cache):
    old = new_primary(tmp_path / "old.db", f"file://{tmp_path}/old", 5)
    old.receive(1, status="completed")
    old.replicate()
    (seen,) = walk(old.url, "m_0", cache_dir=str(cache)).sightings
    assert seen.why == "It was completed."
    assert seen.rows["messages", 1]["status"] == "completed"


def test_a_message_that_is_in_no_position_is_an_error_that_says_what_to_do(message, primary, cache, capsys):
    assert main(["story", "telegram_nothing1", "--replica", primary.url, "--cache-dir", str(cache)]) == 66
    assert "there is no message 'telegram_nothing1' in the positions that were read (8 of 8" in capsys.readouterr().err
    with pytest.raises(MessageMissing, match="may be in a mart"):
        walk(primary.url, "telegram_nothing1", most=3, cache_dir=str(cache))


def test_an_id_of_a_platform_that_several_messages_have_is_refused(conn, primary, cache):
    put(conn, platform_message_id="m1", event_key="u1")
    put(conn, chat="200", platform_message_id="m1", event_key="u2")
    primary.replicate()
    with pytest.raises(MessageAmbiguous, match="name one of telegram_"):
        walk(primary.url, "m1", cache_dir=str(cache))


def test_positions_that_can_not_be_restored_are_left_out_and_told(message, primary, tmp_path, cache, capsys):
    sorted((tmp_path / "replica" / "ltx" / "0").iterdir())[3].unlink()
    story = walk(primary.url, message, most=20, cache_dir=str(cache))
    assert [int(each.pin.txid, 16) for each in story.sightings] == [1, 2, 3]
    assert states(story) == ["pending", "processing", "pending"]
    assert main(["story", message, "--replica", primary.url, "--positions", "20", "--cache-dir", str(cache)]) == 0
    assert "3 of 7 positions were read" in (said := capsys.readouterr().out)
    assert "4 could not be restored and are left out; the last of them: " in said


def test_a_replica_of_which_nothing_can_be_restored_says_so(message, primary, tmp_path, cache):
    sorted((tmp_path / "replica" / "ltx" / "0").iterdir())[0].unlink()
    with pytest.raises((RestoreFailed, PositionMissing)):
        walk(primary.url, message, cache_dir=str(cache))


def test_every_position_is_listed_history_by_history(message, primary):
    found = replicas.every_position(primary.url)
    assert [int(pin.txid, 16) for pin in found] == list(range(1, 9))
    assert found[-1] == replicas.resolve(primary.url)
