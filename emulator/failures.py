"""What ends the emulator, each with its exit code (sysexits, so that none is mistaken for a command's own).

::

    EmulatorError            1     it ran and failed
    ├── NotReady             69    a function or service did not come up
    ├── Taken                73    the folder is in use
    ├── TooSlow              75    not ready in time: worth another try
    ├── Refused              77    not safe: a live token, a production address
    └── Misconfigured        78    the template or the environment is wrong
"""

from shared.errors import PostroomError


class EmulatorError(PostroomError):
    """It ran and failed; the message says what, where and what to do."""

    exit_code = 1


class NotReady(EmulatorError):
    """A function or a service did not come up."""

    exit_code = 69


class Taken(EmulatorError):
    """Another instance holds the folder."""

    exit_code = 73


class TooSlow(EmulatorError):
    """Not ready in time."""

    exit_code = 75


class Refused(EmulatorError):
    """Refused, because it could reach real people or real accounts."""

    exit_code = 77


class Misconfigured(EmulatorError):
    """The template or the environment is wrong."""

    exit_code = 78
