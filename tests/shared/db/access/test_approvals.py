import json
import threading

import pytest

from shared.conversation.access import people
from shared.core.errors import NotFound, WrongState
from shared.db.access import approvals, users
from shared.db.access.approvals import NewApproval
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import responses
from tests.support import NOW, answer, column, make_chat, plan, row

LATER = NOW + 60_000
ASKED = NewApproval("tool", {"tool": "create_agent", "name": "bob"}, agent="assistant", options=("Yes", "No"))


def ask(conn, expires_at=LATER, **fields):
    with transaction(conn):
        return approvals.request(conn, ASKED._replace(**fields), expires_at=expires_at, now_ms=NOW)


def request(conn, expires_at=LATER, **fields):
    return ask(conn, expires_at, **fields)[0].approval_id


def decide(conn, id_, choice=0, now_ms=NOW + 1, by="telegram 5", **more):
    with transaction(conn):
        return approvals.decide(conn, id_, choice=choice, decided_by=by, now_ms=now_ms, **more)


def expire(conn, now_ms, limit=9):
    with transaction(conn):
        return [each.approval_id for each in approvals.expire(conn, limit=limit, now_ms=now_ms)]


def types(conn):
    return column(conn, "SELECT type FROM events WHERE type LIKE 'approval%' ORDER BY id")


def test_a_request_is_stored_as_it_was_given(conn):
    chat = make_chat(conn)
    with transaction(conn):
        user = users.ensure(conn, "telegram", "5", name="Ana", now_ms=NOW)
    made, is_new = ask(conn, subject="[1]", chat_id=chat, user_id=user.id, title="Ana wants to talk")
    assert is_new
    assert made == approvals.get(conn, made.approval_id)
    assert made.approval_id.startswith("approval_")
    assert made[2:8] == ("tool", "[1]", "assistant", chat, user.id, None)
    assert made[8:12] == ("Ana wants to talk", ASKED.payload, ("Yes", "No"), "pending")
    assert made[12:] == (None, None, None, None, LATER, NOW, NOW)


@pytest.mark.parametrize(
    ("options", "choice", "status"),
    [
        (("Yes", "No"), 0, "approved"),
        (("Yes", "No"), 1, "refused"),
        (("a", "b", "None"), 1, "approved"),
        (("a", "b", "None"), 2, "refused"),
    ],
)
def test_the_last_of_the_options_refuses_and_every_other_approves(conn, options, choice, status):
    id_ = request(conn, options=options)
    decided = decide(conn, id_, choice)
    assert decided == approvals.get(conn, id_)
    assert (decided.status, decided.choice, decided.decided_by) == (status, choice, "telegram 5")
    assert (decided.payload, decided.updated_at) == (ASKED.payload, NOW + 1)
    assert types(conn) == ["approval_requested", f"approval_{status}"]
    assert json.loads(row(conn, "events")["data"]) == {"approval": id_, "kind": "tool"}


def test_the_deciding_event_is_stored(conn):
    id_ = request(conn)
    assert decide(conn, id_, click='["telegram","9"]').payload == {**ASKED.payload, "click": '["telegram","9"]'}


def test_the_first_decision_holds(conn):
    id_ = request(conn)
    decide(conn, id_, 1)
    with pytest.raises(WrongState, match=f"{id_} is refused already, by telegram 5$"):
        decide(conn, id_, 0, by="telegram 6")
    assert (approvals.get(conn, id_).status, approvals.get(conn, id_).decided_by) == ("refused", "telegram 5")


def test_an_unknown_approval_can_not_be_decided(conn):
    with pytest.raises(NotFound, match="no approval 'approval_x'"):
        decide(conn, "approval_x")


@pytest.mark.parametrize("choice", [-1, 2])
def test_a_choice_that_was_not_offered_decides_nothing(conn, choice):
    id_ = request(conn)
    with pytest.raises(WrongState, match=f"has no choice {choice}: choose 0 to 1"):
        decide(conn, id_, choice)
    assert approvals.get(conn, id_).status == "pending"


def test_it_ends_at_its_instant_even_before_a_sweep(conn):
    id_ = request(conn)
    with pytest.raises(WrongState, match=f"{id_} has expired"):
        decide(conn, id_, now_ms=LATER)
    decide(conn, id_, now_ms=LATER - 1)


def test_pending_approvals_expire_oldest_first_a_batch_at_a_time(conn):
    ids = [request(conn, LATER + step) for step in range(4)]
    decide(conn, ids[0])
    assert expire(conn, LATER - 1) == []
    assert expire(conn, LATER + 2, limit=1) == [ids[1]]
    assert expire(conn, LATER + 2) == [ids[2]]
    assert [approvals.get(conn, id_).status for id_ in ids] == ["approved", "expired", "expired", "pending"]
    assert types(conn)[-2:] == ["approval_expired"] * 2


def test_the_same_request_is_pending_once_and_can_be_made_again_afterwards(conn):
    first, _ = ask(conn, subject="[1]")
    assert ask(conn, subject="[1]", title="again") == (first, False)
    assert ask(conn, subject="[2]")[1]
    assert ask(conn, subject="[1]", kind="action")[1]
    assert ask(conn)[1]
    assert ask(conn)[1], "without a subject each is another one"
    assert types(conn) == ["approval_requested"] * 5
    decide(conn, first.approval_id)
    assert ask(conn, subject="[1]")[1]


def test_of_the_same_requests_at_once_one_is_stored(conn, db):
    start = threading.Barrier(4)
    made = []

    def asker():
        mine = open_connection(db)
        start.wait()
        made.extend([ask(mine, subject=str(subject)) for subject in range(20)])
        mine.close()

    threads = [threading.Thread(target=asker) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(made) == 80
    assert sum(is_new for _, is_new in made) == 20
    assert column(conn, "SELECT count(*) FROM approvals") == [20]
    assert {each.approval_id for each, _ in made} == set(column(conn, "SELECT approval_id FROM approvals"))


def test_of_decisions_at_once_one_wins(conn, db):
    requested = [request(conn) for _ in range(40)]
    won = {0: [], 1: []}
    start = threading.Barrier(2)

    def person(choice):
        mine = open_connection(db)
        start.wait()
        for id_ in reversed(requested) if choice else requested:
            try:
                decide(mine, id_, choice)
                won[choice].append(id_)
            except WrongState:
                pass
        mine.close()

    threads = [threading.Thread(target=person, args=(choice,)) for choice in won]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(won[0] + won[1]) == sorted(requested)
    assert {approvals.get(conn, id_).status for id_ in won[0]} <= {"approved"}
    assert {approvals.get(conn, id_).status for id_ in won[1]} <= {"refused"}


# -- cards


def show(conn, id_, response):
    with transaction(conn):
        user = users.ensure(conn, "telegram", "5", name="Ana", now_ms=NOW)
        people.grant(conn, user.id, "admin", None, by="test", now_ms=NOW)
        approvals.set_card(conn, approvals.get(conn, id_).id, approver=user.id, card=response)


def test_a_card_is_found_by_its_response(conn):
    id_ = request(conn)
    assert approvals.card_of(conn, approvals.get(conn, id_)) is None
    show(conn, id_, answer(conn, chat="5"))
    assert approvals.card_of(conn, approvals.get(conn, id_)) == (make_chat(conn, "5"), "pending", NOW)


def test_an_approval_is_unseen_without_a_card_or_with_a_dead_one(conn):
    chat = make_chat(conn)
    none, dead, seen, pruned, decided = (request(conn, chat_id=chat) for _ in range(5))
    for id_ in (dead, seen, pruned):
        show(conn, id_, answer(conn, chat="5"))
    rows(conn, "UPDATE responses SET status = 'dead' WHERE id = 1")
    rows(conn, "DELETE FROM responses WHERE id = 3")
    decide(conn, decided)

    def unseen(**which):
        return [each.approval_id for each in approvals.unseen(conn, limit=9, **which)]

    assert unseen() == [none, dead, pruned]
    assert unseen(chat_id=chat, kind="tool") == [none, dead, pruned]
    assert unseen(chat_id=chat + 1) == unseen(kind="chat") == []
    assert unseen(after_id=approvals.get(conn, none).id) == [dead, pruned]
    assert [each.approval_id for each in approvals.pending_of_chat(conn, chat)] == [none, dead, seen, pruned]
    assert approvals.pending_of_channel(conn, "tool", "telegram") == (4, 1)
    assert approvals.pending_of_channel(conn, "tool", "discord") == (0, 0)
    assert approvals.pending_of_channel(conn, "chat", "telegram") == (0, 0)
    assert approvals.is_card_open(conn, chat)
    rows(conn, "UPDATE responses SET status = 'dead'")
    assert not approvals.is_card_open(conn, chat)


def test_the_card_of_a_pending_approval_is_not_pruned(conn):
    """After a week the card still has to be found, to say that the approval expired."""
    id_ = request(conn)
    show(conn, id_, answer(conn, chat="5"))
    answer(conn, chat="5")
    answer(conn, chat="5")
    rows(conn, "UPDATE responses SET status = 'acked', acked_at = 1, created_at = 1")
    for left in ([1, 3], [3]):
        with transaction(conn):
            responses.prune(conn, after_id=0, older_than_ms=NOW, limit=9)
        assert column(conn, "SELECT id FROM responses") == left
        if left == [1, 3]:
            decide(conn, id_)


def test_old_ended_approvals_are_pruned_a_batch_at_a_time(conn):
    old, older, late, pending = (request(conn) for _ in range(4))
    decide(conn, older, now_ms=NOW + 1)
    decide(conn, old, now_ms=NOW + 2)
    decide(conn, late, now_ms=NOW + 9)

    def prune(limit=9):
        with transaction(conn):
            return approvals.prune(conn, older_than_ms=NOW + 9, limit=limit)

    assert prune(limit=1) == 1
    assert approvals.get(conn, older) is None
    assert prune() == 1
    assert column(conn, "SELECT approval_id FROM approvals ORDER BY id") == [late, pending]


PLANS = {
    "expire": (approvals.EXPIRE, {"now": NOW, "limit": 9}, "approvals_pending (expires_at<?)"),
    "prune": (approvals.PRUNE, {"cutoff": NOW, "limit": 9}, "approvals_ended (updated_at<?)"),
    "of a chat": (approvals.PENDING_OF_CHAT, {"chat": 1}, "approvals_of_chat (chat_id=?)"),
    "is a card open": (approvals.CARD_OPEN, {"chat": 1}, "approvals_of_chat (chat_id=?)"),
    "of a person": (approvals.PENDING_OF_USER, {"user": 1}, "approvals_pending"),
    "of a session": (approvals.OF_SESSION, {"session": 1}, "approvals_pending"),
    "of a channel": (approvals.OF_CHANNEL, {"kind": "chat", "channel": "telegram"}, "approvals_pending"),
    "unseen": (
        approvals.UNSEEN,
        {"kind": None, "chat": None, "channel": None, "after": 0, "limit": 9},
        "approvals_pending",
    ),
}


@pytest.mark.parametrize(("sql", "values", "index"), PLANS.values(), ids=PLANS)
def test_reads_use_the_indexes_of_pending_and_ended_approvals(conn, sql, values, index):
    lines = plan(conn, sql, **values)
    assert any(index in line for line in lines), lines
    assert [line for line in lines if line.startswith("SCAN") and index not in line] in ([], ["SCAN CONSTANT ROW"])
