"""What the check of jobs finds, and that the jobs of the product are those that it knows."""

import inspect
from types import SimpleNamespace

import pytest

from functions.deliver import Deliver
from functions.dispatch import Dispatch
from tests.simulation.machine.loop import Lane
from tests.simulation.machine.working import JOBS, OneWorks


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_a_coroutine_of_the_product_with_that_argument(name):
    of, _, method = name.partition(".")
    coroutine = getattr({"Dispatch": Dispatch, "Deliver": Deliver}[of], method)
    assert inspect.iscoroutinefunction(coroutine)
    assert JOBS[name].argument in inspect.signature(coroutine).parameters


class Turn:
    """A task of *lane* that runs a turn of *session*."""

    def __init__(self, lane, session):
        async def run(turn):
            pass

        run.__qualname__ = "Dispatch._run"
        self.lane, self.ended = lane, False
        self.coro = run(SimpleNamespace(claim=SimpleNamespace(session_id=session)))

    def get_coro(self):
        return self.coro

    def done(self):
        return self.ended


@pytest.fixture
def begin():
    """Begins a turn, which it returns with what is wrong with it."""
    problems, turns = [], []
    watch = OneWorks(problems.extend)

    def begin(lane, session):
        problems.clear()
        turns.append(Turn(lane, session))
        watch.look(turns[-1])
        return turns[-1], list(problems)

    yield begin
    for each in turns:
        each.coro.close()


def test_a_process_that_begins_a_turn_beside_another_process_is_found(begin):
    begin(Lane("dispatch.1"), 1)
    assert begin(Lane("dispatch.2"), 2)[1] == ["dispatch.2 began a turn of session 2 while dispatch.1 had one of 1"]


def test_a_session_with_two_turns_in_one_process_is_found(begin):
    lane = Lane("dispatch.1")
    assert [begin(lane, session)[1] for session in (1, 2)] == [[], []]
    assert begin(lane, 1)[1] == ["dispatch.1 began a turn of session 1 while dispatch.1 had one of 1"]


def test_turns_that_ended_or_died_with_their_process_are_not_beside_another(begin):
    dead, stopped = Lane("dispatch.1"), Lane("dispatch.2")
    begin(dead, 1)
    dead.is_dead = True
    turn, wrong = begin(stopped, 1)
    turn.ended = True
    assert (wrong, begin(Lane("dispatch.3"), 1)[1]) == ([], [])
