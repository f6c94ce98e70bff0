"""The database that an upgrade or a rollback is about, on the machine that has it.

That of the emulator's state folder, or the one that ``POSTROOM_DB`` names.
"""

import os
import pwd
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from emulator.base import errors
from emulator.base.hints import STATE, relative
from emulator.base.state import StateFolder, describe_use, find_running
from emulator.cli.commands.replica.hosts import users_of
from shared.core.errors import DatabaseRefused, DatabaseTooNew, DatabaseUnavailable

T = TypeVar("T")


def find(state: Path | None, environ: Mapping[str, str]) -> Path:
    """
    Raises:
        DoesNotExist: there is no database.
        Unsafe: it belongs to another user.
    """
    own = environ.get("POSTROOM_DB")
    is_own = state is None and own is not None and "EMULATOR_STATE" not in environ
    folder = StateFolder((state or Path(environ.get("EMULATOR_STATE", STATE))).resolve())
    database = Path(own).absolute() if is_own and own else folder.database
    if not database.exists() or database.stat().st_size == 0:
        raise errors.DoesNotExist(f"there is no database {relative(database)}: name another --state, or POSTROOM_DB")
    _check_owner(database)
    return database


def _check_owner(database: Path) -> None:
    """
    Raises:
        Unsafe: files that this user makes beside the database could not be opened by the functions.
    """
    owner = database.stat().st_uid
    if owner != os.getuid():
        try:
            name = pwd.getpwuid(owner).pw_name
        except KeyError:
            name = f"#{owner}"
        raise errors.Unsafe(
            f"{relative(database)} belongs to the user {name}, which could not open what this command makes beside "
            f"it: run it as that user, such as with `sudo -u {name}`; nothing was changed"
        )


def refuse_use(database: Path) -> None:
    """
    Raises:
        AlreadyInUse: a process has the database open.
    """
    folder = StateFolder(database.parent)
    if database == folder.database and find_running(folder) is not None:
        raise errors.AlreadyInUse(f"stop the emulator first: {describe_use(folder)}")
    if pids := users_of(database):
        raise errors.AlreadyInUse(
            f"{relative(database)} is open in the processes {', '.join(map(str, pids))}: stop the functions and "
            f"infra.replicate first (systemctl stop 'postroom-*'); nothing was changed"
        )


def told(work: Callable[[], T]) -> T:
    """What *work* returns; the database's errors with the exit codes of this command.

    Raises:
        EmulatorError
    """
    try:
        return work()
    except (DatabaseRefused, DatabaseTooNew) as error:
        raise errors.NotADatabase(str(error)) from None
    except DatabaseUnavailable as error:
        raise errors.NotReady(str(error)) from None
