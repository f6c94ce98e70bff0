from dataclasses import replace

from infra.litestream.lease_owner import LeaseOwner
from infra.litestream.standby.lease_watch import LeaseWatch, NextStep, next_step
from shared.db.replica.lease_record import NO_RECORD
from shared.db.replica.stored_objects import ReplicaObject

HELD = replace(NO_RECORD, owner="owner_them", token="there.1", ttl_ms=5000)
US = LeaseOwner("owner_us", "host-2", "/data/postroom.db", "here")
THEM = LeaseOwner("owner_them", "host-1", "/data/postroom.db", "there")
THEIR_CLONE = replace(THEM, place="elsewhere")


def version(record, tag="v1", written_at_s=1_700_000_000.0):
    return ReplicaObject(record.dump(), tag, written_at_s)


def watch_of(record, at_s=100.0):
    return LeaseWatch().saw(version(record), at_s)


def test_a_replica_without_a_lease_is_free_at_once():
    assert LeaseWatch().saw(None, 100.0).is_free(US, 100.0)


def test_a_lease_that_is_held_is_free_when_it_has_not_changed_for_as_long_as_it_lasts():
    watch = watch_of(HELD, 100.0)
    later = watch.saw(version(HELD), 104.0)

    assert not later.is_free(US, 104.9)
    assert not later.is_free(US, 105.0), "the two clocks may differ in speed"
    assert later.is_free(US, 105.1)


def test_a_renewal_begins_the_wait_anew():
    renewed = watch_of(HELD, 100.0).saw(version(replace(HELD, newest_event_id=7), "v2"), 104.0)

    assert not renewed.is_free(US, 108.9)
    assert renewed.is_free(US, 109.1)


def test_a_renewal_that_wrote_the_same_bytes_is_seen_by_the_instant_of_its_writing():
    again = watch_of(HELD, 100.0).saw(version(HELD, written_at_s=1_700_000_004.0), 104.0)

    assert not again.is_free(US, 105.1)


def test_a_lease_that_was_given_back_or_was_ours_is_free_at_once():
    assert watch_of(replace(HELD, is_released=True)).is_free(US, 100.0)
    assert watch_of(HELD).is_free(THEM, 100.0)
    assert not watch_of(HELD).is_free(US, 100.0)


def test_a_lease_is_overdue_when_its_holder_has_missed_a_renewal():
    watch = watch_of(HELD, 100.0)

    assert not watch.is_overdue(US, 102.4)
    assert watch.is_overdue(US, 102.5)
    assert not watch.is_overdue(US, 105.1), "it is free then"
    assert not watch.saw(version(HELD, "v2"), 102.6).is_overdue(US, 102.7)


def test_the_next_look_is_soon_and_not_later_than_the_end_of_the_lease():
    watch = watch_of(HELD, 100.0)

    assert watch.pause_s(100.0) == 0.25
    assert round(watch.pause_s(105.05), 6) == 0.05
    assert watch.pause_s(106.0) == 0
    assert watch_of(replace(HELD, ttl_ms=60_000)).pause_s(100.0) == 1.0


def test_a_host_takes_a_free_lease_and_follows_where_another_holds_it():
    watch = watch_of(HELD, 100.0)

    assert next_step(watch, US, 101.0, has_file=False) is NextStep.FOLLOW
    assert next_step(watch, US, 105.1, has_file=False) is NextStep.TAKE
    assert next_step(watch, THEM, 101.0, has_file=True) is NextStep.TAKE


def test_a_file_that_another_host_has_gone_on_without_is_found_before_the_takeover():
    assert next_step(watch_of(HELD, 100.0), US, 101.0, has_file=True) is NextStep.SET_ASIDE


def test_a_clone_of_the_holder_waits_as_any_other_host_does():
    watch = watch_of(HELD, 100.0)

    assert not watch.is_free(THEIR_CLONE, 100.0)
    assert watch.is_overdue(THEIR_CLONE, 102.5)
    assert watch.is_free(THEIR_CLONE, 105.1)
    assert next_step(watch, THEIR_CLONE, 101.0, has_file=False) is NextStep.FOLLOW


def test_the_file_of_a_host_that_may_only_have_been_rebooted_is_set_aside_when_the_holder_renews():
    watch = watch_of(HELD, 100.0)
    assert next_step(watch, THEIR_CLONE, 101.0, has_file=True) is NextStep.WAIT

    renewed = watch.saw(version(replace(HELD, renewed_at=1), "v2"), 101.2)
    assert next_step(renewed, THEIR_CLONE, 101.2, has_file=True) is NextStep.SET_ASIDE
    assert next_step(renewed.saw(renewed.found, 101.5), THEIR_CLONE, 101.5, has_file=True) is NextStep.SET_ASIDE

    taken = watch.saw(version(replace(HELD, token="there.2"), "v2"), 101.2)
    assert next_step(taken, THEIR_CLONE, 101.2, has_file=True) is NextStep.WAIT, "no renewal was seen yet"


def test_a_lease_of_an_earlier_release_does_not_say_where_it_was_taken():
    assert not watch_of(replace(HELD, token="0123456789abcdef")).is_free(THEM, 100.0)
