"""The failures of the ``emulator`` command, each with its exit code from sysexits.h.

Such a code can't be mistaken for the exit code of a command that ``emulator exec`` runs.

::

    EmulatorError            1     it ran and failed
    ├── UsageError           64    the command line contradicts itself or lacks something
    ├── WrongFolder          64    --state names a folder that is not the emulator's
    ├── InvalidInput         65    an id, a pattern or a file is invalid
    ├── NotADatabase         65    the database file is no database
    ├── DoesNotExist         66    there is no such thing
    ├── NotReady             69    a function or a service did not become ready
    ├── AlreadyInUse         73    another emulator uses the folder or the replica
    ├── TimedOut             75    not ready in time; a later attempt may succeed
    ├── Unsafe               77    a live token, or an address that is not local
    └── Misconfigured        78    the template or the environment is wrong
"""

import os

from shared.core.errors import PostroomError


def first_reason(error: BaseException) -> BaseException:
    """The first error of our own in a group, which says most; else the first of all."""
    flat: list[BaseException] = []

    def unfold(each: BaseException) -> None:
        if isinstance(each, BaseExceptionGroup):
            for inner in each.exceptions:
                unfold(inner)
        else:
            flat.append(each)

    unfold(error)
    return next((each for each in flat if isinstance(each, EmulatorError)), flat[0])


class EmulatorError(PostroomError):
    """The command ran and failed; the message says what happened, where, and what to do."""

    exit_code = 1


class UsageError(EmulatorError):
    """The command line contradicts itself or lacks something."""

    exit_code = os.EX_USAGE


class WrongFolder(EmulatorError):
    """``--state`` names a folder with other content; the emulator deletes in its state folder."""

    exit_code = os.EX_USAGE


class InvalidInput(EmulatorError):
    """An id, a pattern or a file is invalid."""

    exit_code = os.EX_DATAERR


class NotADatabase(EmulatorError):
    """The database file is no database."""

    exit_code = os.EX_DATAERR


class DoesNotExist(EmulatorError):
    """There is no such thing."""

    exit_code = os.EX_NOINPUT


class NotReady(EmulatorError):
    """A function or a service did not become ready."""

    exit_code = os.EX_UNAVAILABLE


class AlreadyInUse(EmulatorError):
    """Another emulator uses the folder or the replica."""

    exit_code = os.EX_CANTCREAT


class TimedOut(EmulatorError):
    """Not ready in time; a later attempt may succeed."""

    exit_code = os.EX_TEMPFAIL


class Unsafe(EmulatorError):
    """It could reach real people or real accounts, or it would expose a secret."""

    exit_code = os.EX_NOPERM


class Misconfigured(EmulatorError):
    """The template or the environment is wrong."""

    exit_code = os.EX_CONFIG
