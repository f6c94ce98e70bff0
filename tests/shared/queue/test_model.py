"""The store against a model: hypothesis makes up the verbs, the order in which they come, and what the clock says.

After every step the rows, the new events and every question that can be asked must be what ``model`` says. Several
workers hold claims, and come back with them long after they have lost them. A failure prints the steps that lead to it,
shortest first found.
"""

import random
import time

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from tests.shared.queue.model.message_rules import BY_HAND, KINDS, MISFIRES, SERIES, TURN_ENDS, MessageRules
from tests.shared.queue.model.response_rules import SEND_ENDS, ResponseRules
from tests.shared.queue.model.rows import GRID
from tests.shared.queue.model.store import DAY, LEASE, STEPS, numbers

KEEPING = ["told", "none", "anew", "turns", "sends", "all turns", "lost host", "all sends", "old", "older"]
# What happens: how often, and with which arguments.
ANY = range(100)
PLACES = [0, 0, 0, 1, 2, 3, 4, 4, 5, 5]
LIFE = [
    (
        6,
        "a_message_comes",
        {
            "place": PLACES,
            "kind": [*["plain"] * 6, *["context"] * 4, *KINDS, "urgent", "later"],
            "event": [None, None, None, None, "e1"],
        },
    ),
    (6, "a_worker_takes_a_turn", {"which": ANY, "still": [()]}),
    (6, "a_worker_comes_back", {"which": ANY, "deed": [*["settles", "breaks"] * 6, *TURN_ENDS]}),
    (4, "time_passes", {"step": [*[LEASE, 5000, 5000, GRID] * 5, *STEPS]}),
    (4, "a_sender_takes_a_head", {"which": ANY, "still": [()]}),
    (4, "a_sender_comes_back", {"which": ANY, "deed": [*["is done"] * 6, *SEND_ENDS]}),
    (1, "a_series_begins", {"place": PLACES, "series": SERIES, "misfire": MISFIRES}),
    (3, "somebody_changes_a_message", {"which": ANY, "verb": [*BY_HAND, "retry", "delete"]}),
    (1, "something_is_to_be_said", {"chat": ["1"], "kind": ["plain", "later", "recurring"]}),
    (1, "the_house_is_kept", {"what": KEEPING, "limit": [1, 3, 100], "after": [0]}),
]
WEIGHTS = [weight for weight, *_ in LIFE]


class Store(MessageRules, ResponseRules):
    """A whole life of the store."""

    @rule(what=st.sampled_from(KEEPING), limit=st.sampled_from([100, 3, 1]), after=st.just(0) | numbers)
    def the_house_is_kept(self, what, limit, after):
        deeds = {
            "told": self.arrivals_are_told,
            "none": self.a_worker_takes_a_turn_that_is_not_there,
            "anew": self.the_process_starts_anew,
            "turns": lambda: self.the_turns_of_the_dead_are_failed(everything=False),
            "sends": lambda: self.the_sends_of_the_dead_are_failed(everything=False),
            "all turns": lambda: self.the_turns_of_the_dead_are_failed(everything=True),
            "lost host": lambda: self.the_turns_of_the_dead_are_failed(everything=True, is_host_lost=True),
            "all sends": lambda: self.the_sends_of_the_dead_are_failed(everything=True),
            "old": lambda: (self.old_messages_are_forgotten(0, limit, after), self.old_responses_are_forgotten(0)),
            "older": lambda: (self.old_messages_are_forgotten(DAY, limit, 0), self.old_responses_are_forgotten(DAY)),
        }
        deeds[what]()

    @rule(seed=numbers, count=st.integers(1, 60))
    def a_busy_hour(self, seed, count):
        for told in self.lives(random.Random(seed), count):
            note(told)

    def lives(self, chance, count):
        """*count* steps by plain chance, as likely as life has them; each is told before it is done."""
        for _ in range(count):
            ((_, verb, choices),) = chance.choices(LIFE, WEIGHTS)
            arguments = {name: chance.choice(values) for name, values in choices.items()}
            yield f"{verb}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
            getattr(self, verb)(**arguments)
            self.the_rows_are_what_the_model_says()
            self.every_change_has_its_event()
            self.one_turn_a_session_and_no_more_of_an_agent_than_it_may()


def by_hypothesis(fresh_database, **profile):
    Store.fresh = fresh_database
    profile |= {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
    run_state_machine_as_test(Store, settings=settings(**profile))


def by_chance(fresh_database, seed, count):
    """A full house, which hypothesis is slow to come to."""
    Store.fresh = fresh_database
    store = Store()
    told = [f"seed {seed}"]
    try:
        told.extend(store.lives(random.Random(seed), count))
        store.nothing_is_there_twice()
        store.every_question_has_its_answer()
    except BaseException:
        print("\n".join(told))
        raise
    finally:
        store.teardown()


def test_the_store_does_what_the_model_says(fresh_database):
    """The same steps every time; a failure is made short."""
    by_hypothesis(fresh_database, derandomize=True, max_examples=20, stateful_step_count=25)


@pytest.mark.parametrize("seed", range(6))
def test_the_store_does_what_the_model_says_in_a_full_house(fresh_database, seed):
    by_chance(fresh_database, seed, 500)


@pytest.mark.long
def test_the_store_does_what_the_model_says_at_length(fresh_database):
    """Other steps every time; a failure prints how to repeat it."""
    by_hypothesis(fresh_database, print_blob=True, max_examples=100, stateful_step_count=50)


@pytest.mark.long
def test_the_store_does_what_the_model_says_in_many_full_houses(fresh_database):
    """Other steps every time; a failure prints its seed."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        by_chance(fresh_database, random.randrange(10**9), 500)
