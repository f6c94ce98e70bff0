"""The error tree.

::

    PostroomError
    ├── ConfigInvalid            a setting, an agent or the template is wrong: says which, and how to correct it
    ├── DatabaseTooNew           a later release wrote the file
    ├── DatabaseRefused          the file is damaged, another program's, or changed by one
    ├── DatabaseUnavailable      the file can't be opened or written at the moment
    ├── InUse                    another instance holds this file or folder
    ├── SignatureInvalid         the platform did not sign the webhook (401)
    ├── PayloadInvalid           the webhook is signed, but not readable (200, kept as dropped)
    ├── UnknownName              no such channel or provider; lists the known ones
    ├── NotFound                 no such row (404)
    ├── WrongState               the row's state does not allow the change (409)
    │   └── MailRefused          agents wrote to each other too often (in ``queue.chains``)
    ├── NotAllowed               the caller may not do this (403)
    ├── NotReplicated            committed here, but not in the replica yet: must not be acknowledged (503)
    ├── RowInvalid               a row holds what no code of ours can use: only that row is set aside
    ├── NotFetched               a file that a person sent can't be had: the agent and the person are told
    ├── ClaimLost                the lease has another owner: nothing was written
    ├── RetryableError           another attempt may help, after ``retry_after_ms`` if given
    │   ├── RateLimited          the platform or the model asked to wait: costs no attempt
    │   ├── PlatformDown         the platform can't work: the channel waits, and no attempt is counted
    │   │   └── NotSent          nothing of the request left this machine
    │   ├── TokenRefused         the platform refuses our token: the channel pauses, and no attempt is counted
    │   ├── ChatMoved            the chat has a new id, which the error names: the row moves there
    │   └── OutcomeUnknown       no answer came: the request may have been carried out
    └── PermanentError           another attempt will not help
        ├── FileTooLarge         a file is larger than the platform or our limit allows
        ├── PartTooLong          the platform finds a part too long: it can be cut
        ├── FilesRefused         the platform refuses the files of a part: its text can go on
        ├── NotPossible          the channel can't do this at all
        ├── ChatGone             the chat is not there for our bot any more: it becomes inactive
        └── PlaceGone            the topic, thread or channel is closed or gone: an operator is told
"""

from collections.abc import Iterable
from typing import Literal


class PostroomError(Exception):
    """The root of the tree."""


class ConfigInvalid(PostroomError):
    """A setting, an agent or the template is wrong."""


class DatabaseTooNew(PostroomError):
    """A later release than this one wrote the database."""


class DatabaseRefused(PostroomError):
    """The database file is damaged, is another program's, or was changed by one.

    Args:
        file: its path.
        reason: what is wrong with it; ends the sentence that begins with the path.
        advice: what to do, as a sentence.
    """

    def __init__(self, file: object, reason: str, advice: str) -> None:
        super().__init__(f"{file} {reason}. {advice}")
        self.reason = reason


class DatabaseUnavailable(PostroomError):
    """The database file can't be opened or written at the moment: rights, a full disk, a lock."""


class InUse(PostroomError):
    """Another instance holds this file or folder."""


class SignatureInvalid(PostroomError):
    """The webhook does not carry its platform's signature."""


class PayloadInvalid(PostroomError):
    """The webhook is signed but can't be read; the message gives the reason and never the person's text."""


class UnknownName(PostroomError):
    """A name that no registry knows."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown {what} {name!r}; known: {', '.join(sorted(known))}")


class NotFound(PostroomError):
    """No such row exists."""


class WrongState(PostroomError):
    """The row's state does not allow the change; the message names the state."""


class NotAllowed(PostroomError):
    """The caller may not do this; the message says who may."""


class NotReplicated(PostroomError):
    """Committed on this disk, but not known to be in the replica; the message says why."""


class RowInvalid(PostroomError):
    """A row holds what no code of ours can use; the message names the column and what it holds."""


class ClaimLost(PostroomError):
    """The lease on this work has another owner; nothing was written."""


class NotFetched(PostroomError):
    """A file can't be had from its platform; the message is a part of a sentence for people, without an address."""


class RetryableError(PostroomError):
    """Another attempt may help.

    Args:
        reason: what went wrong, for the operator: no secrets, no person's text.
        retry_after_ms: the wait that the other side asked for; None: the usual backoff.
    """

    def __init__(self, reason: str, retry_after_ms: int | None = None) -> None:
        super().__init__(reason)
        self.retry_after_ms = retry_after_ms


class RateLimited(RetryableError):
    """The platform or the model asked to wait; costs no attempt."""


class PlatformDown(RetryableError):
    """The platform can't work, whatever the request: its channel waits, and no attempt is counted.

    Args:
        code: ``unreachable``, ``server_error`` (it answers 5xx) or ``no_answer``.
        may_have_arrived: the platform may have carried out the request, and a repetition would do so twice.
    """

    def __init__(
        self,
        reason: str,
        code: Literal["unreachable", "server_error", "no_answer"] = "server_error",
        *,
        may_have_arrived: bool = False,
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.may_have_arrived = may_have_arrived


class NotSent(PlatformDown):
    """Nothing of the request left this machine, because the platform can't be reached."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, "unreachable")


class TokenRefused(RetryableError):
    """The platform refuses our token, whatever the request; costs no attempt."""


class ChatMoved(RetryableError):
    """Nothing was sent: the platform gave the chat a new id.

    Args:
        reason: as the platform says it.
        new_platform_id: the new id.
    """

    def __init__(self, reason: str, new_platform_id: str) -> None:
        super().__init__(reason, retry_after_ms=0)
        self.new_platform_id = new_platform_id


class OutcomeUnknown(RetryableError):
    """The request left and no answer came: it may have been carried out.

    Args:
        is_repeatable: a repetition has no second effect.
        no_evidence: the platform was asked, and shows nothing either way.
    """

    def __init__(self, reason: str, *, is_repeatable: bool = False, no_evidence: bool = False) -> None:
        super().__init__(reason)
        self.is_repeatable = is_repeatable
        self.no_evidence = no_evidence


class PermanentError(PostroomError):
    """Another attempt will not help."""


class FileTooLarge(PermanentError):
    """A file has more bytes than the platform or our own limit allows.

    Args:
        limit_bytes: the limit.
    """

    def __init__(self, limit_bytes: int) -> None:
        size = f"{limit_bytes / 2**20:.3g} MiB" if limit_bytes >= 2**20 else f"{limit_bytes} bytes"
        super().__init__(f"the file is larger than {size}")
        self.limit_bytes = limit_bytes


class SoundFailed(PostroomError):
    """No text was made of a sound, or no sound of a text; the message says why, as a part of a sentence for people.

    Args:
        is_brief: another attempt may succeed at once.
    """

    def __init__(self, reason: str, *, is_brief: bool = False) -> None:
        super().__init__(reason)
        self.is_brief = is_brief


class PartTooLong(PermanentError):
    """The platform finds this part of a response too long; smaller pieces of it may be sent."""


class FilesRefused(PermanentError):
    """The platform refuses the files of this part, or they are gone here: nothing was sent.

    The message is a part of a sentence for people, such as ``photos may have 10 MB``; it names no path of this host.
    """


class NotPossible(PermanentError):
    """The channel has no such operation; nothing was done."""


class ChatGone(PermanentError):
    """Our bot was blocked or removed, or the chat was deleted: nothing can be sent there until news say otherwise."""


class PlaceGone(PermanentError):
    """The topic, thread or channel is closed or gone; the answer goes nowhere else."""


OF_ONE_ROW = (RowInvalid, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""The errors that come from what one row holds: other rows go on. Any other error concerns all of them: a full disk, a
lock, a lost claim."""


def describe(error: Exception) -> str:
    """The error for people: our own errors say what happened; of any other, its type, and the log says the rest."""
    return str(error) if isinstance(error, PostroomError) else f"{type(error).__name__} (the log says where)"


def unexpected(error: Exception) -> Exception | None:
    """The error, if it is not one of ours: then the log needs its traceback."""
    return None if isinstance(error, PostroomError) else error
