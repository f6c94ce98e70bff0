"""Every error of ours.

::

    PostroomError
    ├── ConfigInvalid            a setting, an agent or the template is wrong: says which and how to mend it
    ├── DatabaseTooNew           the file was written by a later release
    ├── InUse                    another instance holds this file or folder
    ├── SignatureInvalid         a webhook that its platform did not sign (401)
    ├── PayloadInvalid           signed, but not readable (200, kept as dropped)
    ├── UnknownName              no such channel or provider; lists the known ones
    ├── NotFound                 no such row (404)
    ├── WrongState               the row's state does not allow it (409)
    ├── NotAllowed               somebody has no say in it (403)
    ├── NotReplicated            committed here, and not in the replica yet: not to be acknowledged (503)
    ├── ClaimLost                the lease went to somebody else: nothing was written
    ├── RetryableError           try again, after ``retry_after_ms`` if given
    │   ├── RateLimited          the platform or the model asked to wait: costs no attempt
    │   └── OutcomeUnknown       it may have happened: the answer never came
    └── PermanentError           trying again will not help
"""

from collections.abc import Iterable


class PostroomError(Exception):
    """The root of the tree."""


class ConfigInvalid(PostroomError):
    """A setting, an agent or the template is wrong."""


class DatabaseTooNew(PostroomError):
    """The database was written by a later release than this one."""


class InUse(PostroomError):
    """Another instance holds this file or folder."""


class SignatureInvalid(PostroomError):
    """The webhook does not carry its platform's signature."""


class PayloadInvalid(PostroomError):
    """The webhook is signed but can't be read; the message says why, never what the person wrote."""


class UnknownName(PostroomError):
    """A name that no registry knows."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown {what} {name!r}; known: {', '.join(sorted(known))}")


class NotFound(PostroomError):
    """There is no such row."""


class WrongState(PostroomError):
    """The row is in a state that does not allow the change; the message says which."""


class NotAllowed(PostroomError):
    """Whoever asks for it has no say in it; the message says who has."""


class NotReplicated(PostroomError):
    """Committed on this disk, and not known to be in the replica; the message says why."""


class ClaimLost(PostroomError):
    """The lease on this work went to somebody else; nothing was written."""


class RetryableError(PostroomError):
    """Worth another try.

    Args:
        reason: what went wrong, fit for an operator's eyes: no secrets, no person's text.
        retry_after_ms: the wait that the other side asked for, or None for the usual backoff.
    """

    def __init__(self, reason: str, retry_after_ms: int | None = None) -> None:
        super().__init__(reason)
        self.retry_after_ms = retry_after_ms


class RateLimited(RetryableError):
    """Asked to wait; costs no attempt."""


class OutcomeUnknown(RetryableError):
    """The request went out and no answer came: it may have been carried out."""


class PermanentError(PostroomError):
    """Trying again will not help."""
