"""Moves a database file away that another host has gone on without. It may have rows that exist nowhere else."""

from pathlib import Path

from infra.litestream import local_state

_BESIDE = ("-wal", "-shm")


def set_aside(database: Path) -> Path:
    """Move the file, and its log, to a name that was free; the new path. Litestream's local state goes."""
    target = _free_name(database)
    for suffix in (*_BESIDE, ""):  # the log first: alone it is nothing, and the file without it would be an older state
        here = database.with_name(database.name + suffix)
        if here.exists():
            here.rename(target.with_name(target.name + suffix))
    local_state.remove(database)
    return target


def _free_name(database: Path) -> Path:
    number = 1
    while (target := database.with_name(f"{database.name}.left-{number}")).exists():
        number += 1
    return target
