import apsw
import pytest

from shared.db.access import approvals, held_events
from shared.db.engine.connection import rows, transaction
from tests.support import NOW, column


@pytest.fixture
def ask(conn):
    def make():
        with transaction(conn):
            new = approvals.NewApproval("sender", {}, options=("Yes", "No"))
            return approvals.request(conn, new, expires_at=NOW + 1000, now_ms=NOW)[0].id

    return make


def hold(conn, approval, key="1", event="{}", now_ms=NOW, channel="telegram"):
    with transaction(conn):
        return held_events.hold(conn, approval, channel, key, event, now_ms=now_ms)


def test_an_event_is_held_once_and_returned_as_it_was(conn, ask):
    first = ask()
    assert hold(conn, first, event='{"text": "hello"}')
    assert not hold(conn, first, event='{"text": "other"}', now_ms=NOW + 1)
    assert [each[1:] for each in held_events.of_approval(conn, first)] == [
        (first, "telegram", "1", '{"text": "hello"}', NOW)
    ]


def test_each_approval_has_its_own_held_events_oldest_first(conn, ask):
    first, second = ask(), ask()
    for key in ("2", "1", "3"):
        hold(conn, first, key)
    assert hold(conn, second, "1")
    assert [each.event_key for each in held_events.of_approval(conn, first)] == ["2", "1", "3"]
    assert (
        len(held_events.of_approval(conn, first)),
        len(held_events.of_approval(conn, second)),
        len(held_events.of_approval(conn, 99)),
    ) == (3, 1, 0)
    with transaction(conn):
        assert held_events.forget(conn, first) == 3
    assert held_events.of_approval(conn, first) == []
    assert len(held_events.of_approval(conn, second)) == 1


def test_held_events_are_deleted_with_the_approval(conn, ask):
    approval = ask()
    hold(conn, approval)
    with transaction(conn):
        rows(conn, "DELETE FROM approvals")
    assert column(conn, "SELECT count(*) FROM held") == [0]


def test_the_schema_refuses_invalid_json_and_an_unknown_approval(conn, ask):
    with pytest.raises(apsw.ConstraintError):
        hold(conn, ask(), event="{")
    with pytest.raises(apsw.ConstraintError):
        hold(conn, 99)
