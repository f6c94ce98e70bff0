import pytest

from infra.litestream.standby.decisions import CopyFacts, CopyStep, FollowerProgress, next_copy_step
from shared.db.replica.lease_record import ReplicaPrefix

ONE, TWO = "0000000000000001", "0000000000000002"
FIRST = ReplicaPrefix("epoch_1", "epoch_1", "them", 0)
SECOND = ReplicaPrefix("epoch_2", "epoch_1", "them", 0)


def copy(prefix=FIRST, txid=ONE, **facts):
    return CopyFacts(prefix.path, txid, **facts)


@pytest.mark.parametrize(
    ("wanted", "kept", "coming", "step"),
    [
        (None, None, None, CopyStep.WAIT),
        (FIRST, None, None, CopyStep.BEGIN),
        (FIRST, None, copy(txid=None), CopyStep.WAIT),
        (FIRST, None, copy(), CopyStep.SWAP),
        (FIRST, copy(), None, CopyStep.WAIT),
        (SECOND, copy(), None, CopyStep.BEGIN),
        (SECOND, copy(), copy(SECOND, None), CopyStep.WAIT),
        (SECOND, copy(), copy(SECOND), CopyStep.SWAP),
        (FIRST, copy(), copy(SECOND), CopyStep.DROP),
        (FIRST, copy(has_ended=True), None, CopyStep.BEGIN),
        (FIRST, copy(stands_still=True), None, CopyStep.BEGIN),
        (FIRST, copy(), copy(txid=None, has_ended=True), CopyStep.DROP),
        (FIRST, copy(), copy(stands_still=True), CopyStep.DROP),
        (None, copy(), None, CopyStep.WAIT),
    ],
)
def test_what_is_done_about_the_copies(wanted, kept, coming, step):
    assert next_copy_step(wanted, kept, coming) is step


def test_a_follower_that_does_not_come_on_while_the_bucket_does_stands_still():
    progress = FollowerProgress().saw(ONE, ONE, 10.0).saw(ONE, TWO, 15.0)

    assert not progress.stands_still(39.9, 30)
    assert progress.stands_still(40.0, 30)
    assert not progress.saw(TWO, TWO, 40.0).stands_still(90.0, 30)


def test_a_follower_has_more_time_where_the_bucket_lists_slowly():
    """It lists too, before each step: another one that restores anew would be no quicker, and so on for ever."""
    progress = FollowerProgress().saw(ONE, ONE, 10.0, listing_s=20.0).saw(ONE, TWO, 15.0, listing_s=0.5)
    assert not progress.stands_still(119.9, 30)
    assert progress.stands_still(120.0, 30)


def test_a_follower_of_a_bucket_in_which_nothing_happens_does_not_stand_still():
    progress = FollowerProgress().saw(ONE, ONE, 10.0).saw(ONE, ONE, 900.0)

    assert not progress.stands_still(2000.0, 30)


def test_a_follower_that_comes_on_slowly_does_not_stand_still():
    progress = FollowerProgress().saw(ONE, "0000000000000009", 10.0).saw(TWO, "0000000000000009", 39.0)

    assert not progress.stands_still(60.0, 30)
    assert progress.commits_behind == 7
    assert progress.level_s is None


def test_a_copy_that_is_not_whole_yet_does_not_stand_still():
    assert not FollowerProgress().saw(None, TWO, 10.0).stands_still(3600.0, 30)


def test_a_follower_of_a_busy_host_was_level_when_the_listing_before_was_made():
    first = FollowerProgress().saw("0000000000000005", "0000000000000007", 100.0)
    assert first.level_s is None

    second = first.saw("0000000000000039", "000000000000003a", 105.0)
    assert second.level_s == 100.0, "it has all that the bucket had then"
    third = second.saw("0000000000000039", "0000000000000050", 110.0)
    assert third.level_s == 100.0, "it lacks what the bucket had at 105"
    assert third.saw("0000000000000039", "0000000000000050", 140.0).stands_still(140.0)
