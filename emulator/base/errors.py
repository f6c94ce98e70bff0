"""What ends the emulator, each with its exit code (sysexits, so that none is mistaken for a command's own).

::

    EmulatorError            1     it ran and failed
    ├── UsageError                64    the command line can't be meant so
    ├── WrongFolder          64    --state names a folder that is not the emulator's
    ├── InvalidInput              65    what was given can't be so
    ├── NotADatabase         65    the file where the database should be is none
    ├── DoesNotExist             66    what was named does not exist
    ├── NotReady             69    a function or service did not come up
    ├── AlreadyInUse                73    the folder is in use
    ├── TimedOut              75    not ready in time: worth another try
    ├── Unsafe              77    not safe: a live token, a production address
    └── Misconfigured        78    the template or the environment is wrong
"""

import os

from shared.core.errors import PostroomError


class EmulatorError(PostroomError):
    """It ran and failed; the message says what, where and what to do."""

    exit_code = 1


class UsageError(EmulatorError):
    """The command line can't be meant so."""

    exit_code = os.EX_USAGE


class WrongFolder(EmulatorError):
    """``--state`` names a folder with other things in it: what is in a state folder, the emulator deletes."""

    exit_code = os.EX_USAGE


class InvalidInput(EmulatorError):
    """What was given can't be so: an id, a pattern, a file."""

    exit_code = os.EX_DATAERR


class NotADatabase(EmulatorError):
    """The file where the database should be is none."""

    exit_code = os.EX_DATAERR


class DoesNotExist(EmulatorError):
    """What was named does not exist."""

    exit_code = os.EX_NOINPUT


class NotReady(EmulatorError):
    """A function or a service did not come up."""

    exit_code = os.EX_UNAVAILABLE


class AlreadyInUse(EmulatorError):
    """Another instance holds the folder."""

    exit_code = os.EX_CANTCREAT


class TimedOut(EmulatorError):
    """Not ready in time."""

    exit_code = os.EX_TEMPFAIL


class Unsafe(EmulatorError):
    """Unsafe, because it could reach real people or real accounts."""

    exit_code = os.EX_NOPERM


class Misconfigured(EmulatorError):
    """The template or the environment is wrong."""

    exit_code = os.EX_CONFIG
