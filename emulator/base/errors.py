"""The exit codes of the ``emulator`` command, and its failures, each with its code.

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

import errno
from enum import IntEnum

from shared.core.errors import PostroomError


class ExitCode(IntEnum):
    """How a command ends. From 64 on as in sysexits.h: no command that ``exec`` runs ends so by chance.

    Attributes:
        meaning: for the table in docs/cli.md.
    """

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "ExitCode":
        made = int.__new__(cls, value)
        made._value_, made.meaning = value, meaning
        return made

    DONE = 0, "done; `emulator run`: it was stopped, by Ctrl-C for example, and nothing is left behind"
    FAILED = (
        1,
        "not possible in the present state: for example, the approval is already decided, or messages wait for the "
        "agent; a question was answered with no; `emulator diff`: they differ; `emulator status`, `emulator replica "
        "status`, `emulator doctor`, `emulator channel telegram show`: there is a problem; `emulator invoke`, "
        "`emulator replay`: the answer is an error; `emulator prove`: a promise is broken",
    )
    UNKNOWN_WORD = 2, "there is no such command, option or choice"
    USAGE = 64, "the options contradict each other, or one is missing"
    INVALID = (
        65,
        "a value is invalid: an id, a pattern, a provider; `emulator verify`, `emulator replica drill`: they differ",
    )
    MISSING = 66, "there is no such thing"
    UNAVAILABLE = 69, "nothing runs there, or it does not answer; `emulator verify`: the comparison failed"
    OS_ERROR = 71, "the operating system refused: the reason is in the sentence"
    IN_USE = 73, "another emulator uses the state folder or the replica"
    TRY_AGAIN = 75, "not ready: it is still starting, or it did not answer in time; try again"
    REFUSED = (
        77,
        "refused: the token is missing, the address is not allowed, or it is (or is not) [the past](past.md); "
        "`emulator replica drill`: it would kill on a production host",
    )
    MISCONFIGURED = 78, "`postroom.toml`, `template.yaml` or a setting is wrong"


def table() -> str:
    """The exit codes, as a table of Markdown."""
    rows = [(str(int(code)), code.meaning) for code in ExitCode]
    return "\n".join(f"| {' | '.join(row)} |" for row in (("exit code", "meaning"), ("---", "---"), *rows))


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


_AFTER_REFUSAL = {
    errno.ENOSPC: "delete other files on its disk",
    errno.EROFS: "its disk can only be read; after an error of the disk, the kernel's log (`dmesg`) has the reason",
    errno.EACCES: "run it as the user that owns this file",
    errno.EPERM: "run it as the user that owns this file",
}


def what_was_refused(error: OSError) -> str:
    """What the operating system refused, where, and what to do, as far as it is known."""
    where = f": {error.filename}" if error.filename else ""
    advice = _AFTER_REFUSAL.get(error.errno or 0)
    return f"{error.strerror or str(error) or type(error).__name__}{where}{f': {advice}' if advice else ''}"


class EmulatorError(PostroomError):
    """The command ran and failed; the message says what happened, where, and what to do."""

    exit_code: ExitCode = ExitCode.FAILED


class UsageError(EmulatorError):
    """The command line contradicts itself or lacks something."""

    exit_code = ExitCode.USAGE


class WrongFolder(EmulatorError):
    """``--state`` names a folder with other content; the emulator deletes in its state folder."""

    exit_code = ExitCode.USAGE


class InvalidInput(EmulatorError):
    """An id, a pattern or a file is invalid."""

    exit_code = ExitCode.INVALID


class NotADatabase(EmulatorError):
    """The database file is no database."""

    exit_code = ExitCode.INVALID


class DoesNotExist(EmulatorError):
    """There is no such thing."""

    exit_code = ExitCode.MISSING


class NotReady(EmulatorError):
    """A function or a service did not become ready."""

    exit_code = ExitCode.UNAVAILABLE


class AlreadyInUse(EmulatorError):
    """Another emulator uses the folder or the replica."""

    exit_code = ExitCode.IN_USE


class TimedOut(EmulatorError):
    """Not ready in time; a later attempt may succeed."""

    exit_code = ExitCode.TRY_AGAIN


class Unsafe(EmulatorError):
    """It could reach real people or real accounts, or it would expose a secret."""

    exit_code = ExitCode.REFUSED


class Misconfigured(EmulatorError):
    """The template or the environment is wrong."""

    exit_code = ExitCode.MISCONFIGURED
