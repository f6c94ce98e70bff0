"""The newest position of a prefix, in a bucket that others write to meanwhile."""

import pytest

from infra.litestream.standby.bucket_position import newest_position
from shared.db.replica.lease_record import ReplicaPrefix

EPOCH = ReplicaPrefix("epoch_1", "epoch_1", "owner_them", 1)


class BusyBucket:
    """A bucket in which the other host commits during each listing, as where it lists slowly."""

    newest_ltx_files = "0000/"

    def __init__(self, commits, *, during_a_listing=3):
        self.commits = commits
        self.pages = 0
        self._during_a_listing = during_a_listing

    def names(self, beginning, after="", *, limit):
        self.pages += 1
        assert self.pages < 100, "the listing does not end"
        names = (f"{beginning}{number:016x}-{number:016x}.ltx" for number in range(1, self.commits + 1))
        found = [name for name in names if name > after][:limit]
        self.commits += self._during_a_listing
        return found


@pytest.mark.parametrize(("commits", "pages"), [(0, 1), (3, 1), (999, 1), (2500, 3)])
def test_a_listing_ends_although_the_other_host_goes_on(commits, pages):
    bucket = BusyBucket(commits)
    assert int(newest_position(bucket, EPOCH, "") or "0", 16) >= commits
    assert bucket.pages == pages


def test_a_full_page_is_not_the_last():
    bucket = BusyBucket(1000, during_a_listing=0)
    assert (newest_position(bucket, EPOCH, ""), bucket.pages) == (f"{1000:016x}", 2)


def test_it_goes_on_from_what_is_known_and_never_back():
    bucket = BusyBucket(5, during_a_listing=0)
    assert newest_position(bucket, EPOCH, f"{3:016x}") == f"{5:016x}"
    assert newest_position(bucket, EPOCH, f"{9:016x}") == f"{9:016x}"
