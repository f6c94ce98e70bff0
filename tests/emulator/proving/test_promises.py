"""Each promise notices its own breach, and nothing else is wrong with a run that went well."""

from collections.abc import Callable

import pytest

from emulator.proving import promises
from emulator.proving.ledger import balance
from emulator.proving.platform import OK, Send
from tests.emulator.proving.conftest import World
from tests.support import answer, make_chat, make_session


def lose(world: World) -> None:
    world.accept("c100 0009")


def lose_a_row(world: World) -> None:
    world.conn.execute("DELETE FROM messages WHERE message = 'c100 0001 | ok'")


def store_twice(world: World) -> None:
    world.set("messages", "message = 'c100 0000 | ok'", _id(world, 1))


def leave_open(world: World) -> None:
    world.store("c100 0003")


def die_silently(world: World) -> None:
    world.set("messages", "status = 'dead', last_error = NULL", _id(world, 1))


def run_without_a_claim(world: World) -> None:
    world.run(_id(world, 2), claims=0)


def run_the_older_one_last(world: World) -> None:
    world.run(_id(world, 0))


def overlap(world: World) -> None:
    world.turns.append({**world.turns[-1], "what": "overlap", "of": "session"})


def run_two_at_once(world: World) -> None:
    for line in world.turns[:2]:
        world.turns.append({**line, "session": "t", "run": "beside", "ids": [], "at_ns": world.turns[-2]["at_ns"]})
    world.turns[-1]["at_ns"] += 1


def answer_twice(world: World) -> None:
    answer(world.conn, "re c100 0000", message_id=_id(world, 0))


def answer_nothing(world: World) -> None:
    answer(world.conn, "re c100 0000", message_id="telegram_nobody")


def forget_a_line(world: World) -> None:
    world.conn.execute("DELETE FROM agent_messages WHERE message_id = ?", (_id(world, 0),))


def arrive_twice(world: World) -> None:
    world.arrive("re c100 0002")


def not_arrive(world: World) -> None:
    world.sends.pop()


def arrive_out_of_order(world: World) -> None:
    world.sends.reverse()


def say_what_no_row_says(world: World) -> None:
    world.arrive("hello")


def drop_without_need(world: World) -> None:
    world.drop("c100 0009", "rate_limited")


def refuse_a_person_who_may_write(world: World) -> None:
    world.drop("c100 0009", "sender_unknown")


def let_a_stranger_in(world: World) -> None:
    world.conn.execute("UPDATE chats SET sender_policy = 'strict'")


def answer_in_another_chat(world: World) -> None:
    world.sends.append(Send("200", "re c100 0000", True, OK, world.tick()))


def tell_an_agent_of_another_chat(world: World) -> None:
    make_session(world.conn, chat="200")
    ((session,),) = world.conn.execute("SELECT session_id FROM sessions ORDER BY id DESC LIMIT 1").fetchall()
    world.turns.append({**world.turns[0], "session": session, "texts": ["c100 0000 | ok"]})


def _id(world: World, number: int) -> str:
    ((id_,),) = world.conn.execute(
        "SELECT message_id FROM messages WHERE message = ?", (f"c100 {number:04} | ok",)
    ).fetchall()
    return str(id_)


BREACHES = {
    "stored": [lose, lose_a_row, store_twice],
    "refused": [drop_without_need, refuse_a_person_who_may_write, let_a_stranger_in],
    "ended": [leave_open, die_silently],
    "turns": [run_without_a_claim, run_the_older_one_last, overlap, run_two_at_once],
    "answered": [answer_twice, answer_nothing, forget_a_line],
    "sent": [arrive_twice, not_arrive, arrive_out_of_order, say_what_no_row_says],
    "private": [answer_in_another_chat, tell_an_agent_of_another_chat],
}


def test_a_run_that_went_well_breaks_no_promise(world: World):
    assert promises.problems_of(world.witnesses()) == []


@pytest.mark.parametrize(
    ("name", "breach"), [(name, breach) for name, breaches in BREACHES.items() for breach in breaches]
)
def test_a_breach_is_seen_by_its_promise(world: World, name: str, breach: Callable[[World], None]):
    breach(world)
    assert getattr(promises, name)(world.witnesses())


def test_a_stranger_who_is_refused_breaks_no_promise(world: World):
    world.conn.execute("UPDATE chats SET sender_policy = 'strict' WHERE id = ?", (make_chat(world.conn, "190"),))
    world.drop("c190 0000", "sender_unknown", chat="190")
    assert promises.refused(world.witnesses()) == []


def test_a_database_that_can_t_be_read_breaks_promises_and_loses_everything(world: World):
    world.conn.close()
    for path in world.db.parent.glob(f"{world.db.name}*"):
        path.write_bytes(b"nonsense" * 1000)
    problems = promises.problems_of(world.witnesses())
    assert len(problems) == len(promises.PROMISES)
    assert all(each.startswith("the database can't be read: ") for each in problems)
    found = balance(world.witnesses())
    assert (found.accepted, set(found.lost)) == (3, set(world.written))


def test_a_second_arrival_with_a_recorded_doubt_is_allowed(world: World):
    response = world.complete("c100 0003 | ok")
    world.arrive("re c100 0003")
    world.doubt(response, "no answer")
    assert promises.sent(world.witnesses()) == []


def test_after_a_lost_disk_a_turn_runs_again_and_no_more_often(world: World):
    """Its claim was on the disk that was lost, and so were rows of which nobody was told."""
    world.turns.insert(0, {**world.turns[0], "run": "gone", "ids": ["telegram_gone"], "at_ns": 1})
    lost_ns = world.tick()
    world.run(_id(world, 0), claims=0)
    assert promises.turns(world.witnesses()) != []
    assert promises.turns(world.witnesses(lost_ns)) == []

    world.run(_id(world, 0), claims=0)
    assert promises.turns(world.witnesses(lost_ns)) == [f"{_id(world, 0)} had 3 turns and 2 claims"]


def test_a_file_that_is_damaged_is_not_sound(world: World):
    world.conn.execute("PRAGMA foreign_keys = off")
    world.conn.execute("UPDATE messages SET session_id = 99")
    assert promises.sound(world.witnesses())[0].startswith("foreign key: ('messages'")


def test_databases_that_differ_in_a_row_differ(world: World, tmp_path):
    other = tmp_path / "other.db"
    world.conn.execute("VACUUM INTO ?", (str(other),))
    assert promises.differing_tables(world.db, other) == []
    world.conn.execute("UPDATE messages SET retry_count = 1 WHERE message = 'c100 0001 | ok'")
    assert promises.differing_tables(world.db, other) == ["messages"]
