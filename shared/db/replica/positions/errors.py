"""What can go wrong with a replica.

::

    PostroomError
    ├── ConfigInvalid
    │   ├── ReplicaInvalid       the URL, the position or the cache folder is not usable as given
    │   └── LitestreamMissing    the program is not installed (of shared/db/replica)
    ├── PermanentError
    │   ├── ReplicaMissing       nothing has been replicated there
    │   ├── PositionMissing      the replica has no such position, or has it no more
    │   └── RestoreFailed        the program refused, with its own words
    └── RetryableError
        └── ReplicaUnreachable   no answer
"""

from shared.core.errors import ConfigInvalid, PermanentError, RetryableError


class ReplicaInvalid(ConfigInvalid):
    """The URL, the position or the cache folder is not usable as given."""


class ReplicaMissing(PermanentError):
    """Nothing has been replicated to this place."""


class PositionMissing(PermanentError):
    """The replica is there, and has no such position, or has it no more."""


class RestoreFailed(PermanentError):
    """The ``litestream`` program refused; the message has its own words."""


class ReplicaUnreachable(RetryableError):
    """The endpoint gave no answer in time."""
