"""Opens the past: a replica at one position becomes the database of a state folder, migrated and marked.

The replica is only read: no lease, no object. The copy gets its name last, so that a start that dies on its way leaves
no database, and the next one begins anew. ``shared/db/engine/past.py`` has what the mark means.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from emulator.base.errors import AlreadyInUse, DoesNotExist, InvalidInput, NotADatabase, NotReady, WrongFolder
from emulator.base.hints import command_line
from emulator.base.past_question import PastQuestion
from emulator.base.state import StateFolder
from infra.litestream import restore_prefix
from shared.core import durability
from shared.core.errors import DatabaseRefused, DatabaseTooNew, PostroomError
from shared.db.engine import meta, past, schema
from shared.db.engine.connection import open_connection, transaction
from shared.db.engine.migrate import migrate
from shared.db.engine.past import Past
from shared.db.replica import positions
from shared.db.replica.positions import Pin

_LIMIT_S = 3600.0


def find(question: PastQuestion) -> Pin:
    """The position that the question means. It only asks the replica.

    Raises:
        EmulatorError: there is no such replica or position, or it does not answer; the message says which there are.
    """
    with _explained():
        return positions.resolve(
            question.replica, txid=question.txid, timestamp=question.timestamp, epoch=question.epoch
        )


def opened_in(state: StateFolder) -> Past | None:
    """The past that the folder holds, if it holds one."""
    try:
        return past.of_file(state.database)
    except apsw.Error:  # the start says what is wrong with the file
        return None


def answer_in(state: StateFolder, question: PastQuestion, pin: Pin | None) -> Past | None:
    """The past that is asked for, if the folder holds it; None: the folder is free to take it.

    Args:
        pin: the position, if the question alone does not name it.

    Raises:
        WrongFolder: it holds something else.
    """
    found = opened_in(state)
    at, prefix = (pin.txid, pin.epoch) if pin else ("", "")
    asked = Past(positions.shown(question.replica), question.asked, at, "", prefix)
    if found is not None:
        if found.is_same_as(asked):
            return found
        raise WrongFolder(
            f"{state.path} holds another past: {found.replica} at {found.timestamp} (position {found.txid}). To open "
            f"that one: `{command_line('run', state.path)}`. For this one name another folder with --state"
        )
    if not state.is_blank:
        raise WrongFolder(
            f"{state.path} holds the database or the bucket of an emulator: the past needs a folder of its own. Name a "
            f"new one with --state, or leave --state out; nothing was changed"
        )
    return None


async def open_past(state: StateFolder, question: PastQuestion) -> Past:
    """Make the position the database of the folder, unless it is there already; returns its mark.

    Raises:
        WrongFolder: the folder holds something else.
        EmulatorError: the position can't be restored or used; the folder has no database then.
    """
    pin = None if question.asked else await asyncio.to_thread(find, question)
    found = await asyncio.to_thread(answer_in, state, question, pin)
    if found is not None:
        return found
    position = await asyncio.to_thread(find, question) if pin is None else pin
    fresh = state.database.with_name(f"{state.database.name}.opening")
    try:
        with _explained():
            await _restore(position, fresh)
            return await asyncio.to_thread(_finish, fresh, state.database, question, position)
    finally:
        for left in fresh.parent.glob(f"{fresh.name}*"):
            left.unlink(missing_ok=True)


async def _restore(pin: Pin, fresh: Path) -> None:
    environment = positions.environment_of(pin.source)
    if await restore_prefix(pin.source, fresh, environment, _LIMIT_S, "-txid", pin.txid) is None:
        raise DoesNotExist(
            f"position {pin.txid} of {positions.shown(pin.url)} has just been compacted away: try again, and the "
            f"nearest one is found"
        )


def _finish(fresh: Path, database: Path, question: PastQuestion, pin: Pin) -> Past:
    """Migrate and mark the copy, then give it its name."""
    with schema.explained(fresh):
        conn = open_connection(fresh)
        try:
            version = schema.inspect(conn, fresh)
        finally:
            conn.close()
        _check_version(version, pin)
        migrate(fresh)
        conn = open_connection(fresh)
        try:
            marked = Past(
                positions.shown(question.replica),
                question.asked,
                pin.txid,
                pin.timestamp,
                prefix=pin.epoch,
                epoch=meta.get(conn, "epoch") or "",
                schema=version,
                newest_session=past.newest_session(conn),
            )
            with transaction(conn):
                past.mark(conn, marked)
        finally:
            conn.close()  # the last connection: all of the log is in the file now
    durability.sync(fresh)
    fresh.replace(database)
    return marked


def _check_version(version: int, pin: Pin) -> None:
    newest = max(schema.migrations())
    if version > newest:
        raise DatabaseTooNew(
            f"{positions.shown(pin.url)} has schema {version} at {pin.timestamp}, and this release knows up to "
            f"{newest}: open it with the release that wrote it, or a newer one; nothing was made"
        )
    if version == 0:
        raise NotADatabase(f"{positions.shown(pin.url)} has no table at {pin.timestamp}: name a later position")


@contextmanager
def _explained() -> Iterator[None]:
    """Turn the errors of replicas into those of this command."""
    try:
        yield
    except (positions.ReplicaMissing, positions.PositionMissing) as error:
        raise DoesNotExist(str(error)) from None
    except positions.ReplicaInvalid as error:
        raise InvalidInput(str(error)) from None
    except positions.ReplicaUnreachable as error:
        raise NotReady(str(error)) from None
    except DatabaseTooNew as error:
        raise NotADatabase(str(error)) from None
    except DatabaseRefused as error:
        raise NotADatabase(f"what the replica restores to {error.reason}; nothing was made") from None
    except (AlreadyInUse, DoesNotExist, NotADatabase, WrongFolder):
        raise
    except PostroomError as error:
        raise NotReady(str(error)) from None
