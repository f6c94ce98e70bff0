import apsw
import pytest

from shared.db.access import pairings, users
from shared.db.engine.connection import transaction
from shared.db.roster import agents
from tests.forks import race
from tests.support import NOW, column, make_agent, plan, row

LATER = NOW + 900_000
USE = """
from shared.db.access import pairings
with transaction(conn):
    print(pairings.use(conn, 1, int(sys.argv[2]), 1))
"""


def add(conn, code_hash="h1", grants="owner", agent=None, expires_at=LATER):
    with transaction(conn):
        return pairings.add(conn, code_hash=code_hash, grants=grants, agent=agent, expires_at=expires_at, now_ms=NOW)


@pytest.fixture
def ana(conn):
    with transaction(conn):
        return users.ensure(conn, "telegram", "5", name="Ana", now_ms=NOW).id


def test_an_open_pairing_is_found_by_its_hash_until_it_ends(conn):
    made = add(conn)
    assert made[2:] == ("owner", None, "open", None, LATER, NOW)
    assert made.pairing_id.startswith("pairing_")
    assert pairings.find_open(conn, "h1", LATER - 1) == made == pairings.get(conn, made.pairing_id)
    assert pairings.find_open(conn, "h1", LATER) is None
    assert pairings.find_open(conn, "h2", NOW) is None


def test_it_is_used_once(conn, ana):
    made = add(conn)
    with transaction(conn):
        assert pairings.use(conn, made.id, ana, NOW + 5)
        assert not pairings.use(conn, made.id, ana, NOW + 6)
    assert pairings.find_open(conn, "h1", NOW) is None
    found = row(conn, "pairings")
    assert (found["status"], found["used_by"], found["updated_at"]) == ("used", ana, NOW + 5)


ENDS = {
    "its time is over": lambda conn, made: None,
    "revoked": lambda conn, made: pairings.revoke(conn, made.pairing_id, now_ms=NOW),
    "expired by the sweep": lambda conn, made: pairings.expire(conn, limit=9, now_ms=LATER),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_ended_pairing_can_not_be_used_or_revoked(conn, ana, end):
    made = add(conn)
    with transaction(conn):
        end(conn, made)
        assert not pairings.use(conn, made.id, ana, LATER)
        assert not pairings.revoke(conn, made.pairing_id, now_ms=LATER)
    assert pairings.find_open(conn, "h1", LATER) is None


def test_pairings_expire_oldest_first_a_batch_at_a_time(conn):
    for name, expires_at in (("a", LATER), ("b", LATER - 1), ("c", LATER + 1)):
        add(conn, name, expires_at=expires_at)
    with transaction(conn):
        assert pairings.expire(conn, limit=1, now_ms=LATER) == 1
    assert column(conn, "SELECT code_hash FROM pairings WHERE status = 'expired'") == ["b"]
    with transaction(conn):
        assert pairings.expire(conn, limit=9, now_ms=LATER) == 1
    assert column(conn, "SELECT code_hash FROM pairings WHERE status = 'open'") == ["c"]
    assert all("SCAN" not in line for line in plan(conn, pairings.EXPIRE, now=LATER, limit=9))


def test_a_used_pairing_outlives_its_user_and_is_deleted_with_its_agent(conn, ana):
    make_agent(conn, "second")
    kept, gone = add(conn, "a"), add(conn, "b", "chat", "second")
    with transaction(conn):
        pairings.use(conn, kept.id, ana, NOW)
        users.delete(conn, ana)
        agents.delete(conn, "second")
    assert pairings.get(conn, gone.pairing_id) is None
    assert pairings.get(conn, kept.pairing_id).used_by is None


def test_the_user_of_a_pairing_is_found_by_the_hash(conn, ana):
    made = add(conn)
    assert not pairings.is_used_by(conn, "h1", ana)
    with transaction(conn):
        pairings.use(conn, made.id, ana, NOW)
    assert pairings.is_used_by(conn, "h1", ana)
    assert not pairings.is_used_by(conn, "h1", ana + 1)
    assert not pairings.is_used_by(conn, "h2", ana)


def test_old_ended_pairings_are_pruned_a_batch_at_a_time_and_open_ones_never(conn, ana):
    made = [add(conn, code_hash) for code_hash in "abcd"]
    with transaction(conn):
        for number, pairing in enumerate(made[:3]):
            pairings.use(conn, pairing.id, ana, NOW + number)
        assert pairings.prune(conn, older_than_ms=NOW + 2, limit=1) == 1
        assert pairings.prune(conn, older_than_ms=NOW + 2, limit=9) == 1
    assert column(conn, "SELECT code_hash FROM pairings ORDER BY id") == ["c", "d"]


ILLEGAL = {
    "the same code twice": {"code_hash": "taken"},
    "an owner of one agent": {"grants": "owner", "agent": "assistant"},
    "a member of nothing": {"grants": "member"},
    "a chat without an agent": {"grants": "chat"},
    "what can't be granted": {"grants": "king"},
    "an agent that does not exist": {"grants": "admin", "agent": "ghost"},
}


@pytest.mark.parametrize("fields", ILLEGAL.values(), ids=ILLEGAL)
def test_the_schema_refuses(conn, fields):
    add(conn, "taken")
    with pytest.raises(apsw.ConstraintError):
        add(conn, **fields)


def test_of_eight_processes_at_once_one_uses_the_pairing(conn, db, ana):
    add(conn, expires_at=10)
    assert sorted(race(db, USE, [[ana]] * 8)) == ["False"] * 7 + ["True"]
