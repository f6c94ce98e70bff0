import json
import threading

import pytest

from shared.db import approvals
from shared.db.connection import open_connection, transaction
from shared.errors import NotFound, WrongState
from tests.support import NOW, column, plan, row

LATER = NOW + 60_000


def request(conn, expires_at=LATER):
    with transaction(conn):
        return approvals.request(
            conn, "tool", {"tool": "create_agent", "name": "bob"}, agent="assistant", expires_at=expires_at, now_ms=NOW
        )


def decide(conn, id_, yes=True, now_ms=NOW + 1, by="telegram:5"):
    with transaction(conn):
        return approvals.decide(conn, id_, is_approved=yes, decided_by=by, now_ms=now_ms)


def expire(conn, now_ms, limit=9):
    with transaction(conn):
        return approvals.expire(conn, limit=limit, now_ms=now_ms)


def types(conn):
    return column(conn, "SELECT type FROM events ORDER BY id")


@pytest.mark.parametrize(("yes", "status"), [(True, "approved"), (False, "refused")])
def test_a_decision_is_made_and_tells_what_it_is_about(conn, yes, status):
    id_ = request(conn)
    assert id_.startswith("approval_")
    assert approvals.get(conn, id_).status == "pending"
    decided = decide(conn, id_, yes)
    assert decided == approvals.get(conn, id_)
    assert (decided.status, decided.kind, decided.agent, decided.decided_by) == (
        status,
        "tool",
        "assistant",
        "telegram:5",
    )
    assert decided.payload == {"tool": "create_agent", "name": "bob"}
    assert types(conn) == ["approval_requested", f"approval_{status}"]
    assert json.loads(row(conn, "events")["data"]) == {"approval": id_, "kind": "tool"}


def test_the_first_decision_holds(conn):
    id_ = request(conn)
    decide(conn, id_, yes=False)
    with pytest.raises(WrongState, match=f"{id_} is refused"):
        decide(conn, id_, yes=True, by="telegram:6")
    assert approvals.get(conn, id_)[4:6] == ("refused", "telegram:5")


def test_nobody_decides_what_was_not_requested(conn):
    with pytest.raises(NotFound, match="no approval 'approval_x'"):
        decide(conn, "approval_x")


def test_its_time_is_over_at_the_instant_even_before_anybody_sweeps(conn):
    id_ = request(conn)
    with pytest.raises(WrongState, match=f"{id_} is too old"):
        decide(conn, id_, now_ms=LATER)
    decide(conn, id_, now_ms=LATER - 1)


def test_what_nobody_decided_in_time_expires_oldest_first_a_batch_at_a_time(conn):
    ids = [request(conn, LATER + step) for step in range(4)]
    decide(conn, ids[0])
    assert expire(conn, LATER - 1) == 0
    assert expire(conn, LATER + 2, limit=1) == 1
    assert expire(conn, LATER + 2) == 1
    assert [approvals.get(conn, id_).status for id_ in ids] == ["approved", "expired", "expired", "pending"]
    assert types(conn)[-2:] == ["approval_expired"] * 2


def test_of_people_who_decide_at_once_one_wins(conn, db):
    requested = [request(conn) for _ in range(40)]
    won = {True: [], False: []}
    start = threading.Barrier(2)

    def person(yes):
        mine = open_connection(db)
        start.wait()
        for id_ in requested if yes else reversed(requested):
            try:
                decide(mine, id_, yes)
                won[yes].append(id_)
            except WrongState:
                pass
        mine.close()

    threads = [threading.Thread(target=person, args=(yes,)) for yes in won]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(won[True] + won[False]) == sorted(requested)
    assert {approvals.get(conn, id_).status for id_ in won[True]} <= {"approved"}
    assert {approvals.get(conn, id_).status for id_ in won[False]} <= {"refused"}


def test_what_expires_is_found_by_its_index(conn):
    lines = plan(conn, approvals.EXPIRE, now=NOW, limit=9)
    assert any("approvals_pending (expires_at<?)" in line for line in lines), lines
    assert not any("SCAN" in line or "TEMP" in line for line in lines), lines
