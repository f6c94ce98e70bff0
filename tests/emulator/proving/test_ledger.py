"""The ledger balances, or says which message it has no column for."""

from emulator.proving.ledger import balance
from emulator.proving.platform import LOST, TAKEN_LOST
from tests.emulator.proving.conftest import World


def test_each_end_has_its_column_and_its_reason(world: World):
    world.set("messages", "status = 'dead', last_error = 'planned end'", world.store("c100 0003 | dead"))
    world.set("messages", "status = 'cancelled', last_error = 'by Ana'", world.store("c100 0004"))
    world.store("c100 0005")
    world.drop("c100 0006", "refused")

    found = balance(world.witnesses())
    assert found.accepted == 7
    assert found.ends == {"answered": 3, "dead": 1, "dropped": 1, "waiting": 1, "cancelled": 1}
    assert sum(found.ends.values()) + len(found.lost) == found.accepted
    assert found.facts()["reasons"] == {
        "dead": {"planned end": 1},
        "cancelled": {"by Ana": 1},
        "waiting": {"nothing failed": 1},
        "dropped": {"refused": 1},
    }


def test_an_answer_that_did_not_arrive_is_no_answer(world: World):
    ids = [world.store(f"c100 {number:04}") for number in (3, 4)]
    for id_ in ids:
        world.run(id_)
        world.set("messages", "status = 'completed'", id_)
        world.doubt(0, "no response")
    world.conn.execute("UPDATE responses SET status = 'pending', acked_at = NULL WHERE message = 're c100 0000'")
    world.conn.execute(
        "UPDATE responses SET status = 'dead', acked_at = NULL, last_error = 'blocked' WHERE message = 're c100 0001'"
    )

    found = balance(world.witnesses())
    assert found.ends == {"answered": 1, "dead": 1, "dropped": 0, "waiting": 1, "cancelled": 0}
    assert found.reasons["dead"] == {"the answer was not delivered: blocked": 1}
    assert found.lost == dict.fromkeys(["c100 0003", "c100 0004"], "its turn ended without an answer")


def test_what_was_accepted_and_has_no_row_is_lost(world: World):
    world.accept("c100 0003")
    refused = world.accept("c100 0004")
    refused.accepted = False

    found = balance(world.witnesses())
    assert (found.accepted, found.lost) == (4, {"c100 0003": "it is not stored"})


def test_what_arrived_twice_stands_with_its_recorded_doubts(world: World):
    response = world.complete("c100 0003")
    world.arrive("re c100 0003", TAKEN_LOST)
    world.arrive("re c100 0003", LOST)  # nobody got that one
    world.doubt(response, "no answer within 10 s")
    world.arrive("re c100 0000")

    doubled = {each.text: (each.arrivals, each.doubts) for each in balance(world.witnesses()).doubled}
    assert doubled == {"re c100 0003": (2, ("no answer within 10 s",)), "re c100 0000": (2, ())}
