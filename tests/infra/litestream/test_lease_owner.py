"""Which machine an owner of the lease is, and at which place: clones of one disk are two."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from infra.litestream.lease_owner import BOOT_ID, LeaseOwner, new_token, owner_of, place_of
from shared.db.replica.lease_record import NO_RECORD


@pytest.fixture
def boots(tmp_path: Path) -> tuple[Path, Path]:
    """What the kernels of two machines say."""
    one, two = tmp_path / "boot-1", tmp_path / "boot-2"
    one.write_text("5b0a9a4e-0000-4000-8000-000000000001\n")
    two.write_text("5b0a9a4e-0000-4000-8000-000000000002\n")
    return one, two


def took(owner: LeaseOwner, by: LeaseOwner) -> bool:
    return owner.took(replace(NO_RECORD, owner=by.id, token=new_token(by)))


def test_a_process_that_is_started_again_is_the_same_owner_at_the_same_place(tmp_path: Path) -> None:
    first, again = (owner_of(tmp_path / "owner", tmp_path / "x.db") for _ in range(2))

    assert again == first
    assert took(again, by=first)


def test_a_machine_keeps_its_id_over_a_reboot_and_does_not_know_its_lease(
    tmp_path: Path, boots: tuple[Path, Path]
) -> None:
    """A clone of the disk with the same inodes looks the same from inside: another kernel."""
    before, after = (owner_of(tmp_path / "owner", tmp_path / "x.db", boot) for boot in boots)

    assert after.id == before.id
    assert not took(after, by=before)
    assert not took(before, by=after)


def test_a_copy_of_the_file_is_another_owner(tmp_path: Path) -> None:
    first = owner_of(tmp_path / "owner", tmp_path / "x.db")
    (tmp_path / "copy").write_bytes((tmp_path / "owner").read_bytes())

    other = owner_of(tmp_path / "copy", tmp_path / "x.db")

    assert other.id != first.id
    assert other.place != first.place


def test_two_clones_of_a_volume_on_one_machine_are_two_places(boots: tuple[Path, Path]) -> None:
    def file(device: int, inode: int) -> os.stat_result:
        return os.stat_result((0o100600, inode, device, 1, 0, 0, 0, 0, 0, 0))

    places = {place_of(file(device, inode), boot) for device in (1, 2) for inode in (7, 8) for boot in boots}

    assert len(places) == 8
    assert place_of(file(1, 7), boots[0]) == place_of(file(1, 7), boots[0])


def test_without_a_boot_id_an_owner_knows_the_lease_of_its_own_process_only(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    first, second = (owner_of(tmp_path / "owner", tmp_path / "x.db", absent) for _ in range(2))

    assert took(second, by=first)
    assert not took(owner_of(tmp_path / "owner", tmp_path / "x.db"), by=first)


def test_the_place_tells_nobody_the_boot_id(tmp_path: Path) -> None:
    assert BOOT_ID.read_text().strip() not in new_token(owner_of(tmp_path / "owner", tmp_path / "x.db"))


def test_an_owner_file_that_cannot_be_read_is_replaced(tmp_path: Path) -> None:
    first = owner_of(tmp_path / "owner", tmp_path / "x.db")
    (tmp_path / "owner").write_text("{}")
    assert owner_of(tmp_path / "owner", tmp_path / "x.db").id != first.id
