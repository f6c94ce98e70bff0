"""The rows of ``responses``, as they are stored and as delivery reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from shared.core import content
from shared.core.content import ResponseContent
from shared.db.queue.events import EventData

FailureCode = Literal["error", "rate_limited", "outcome_unknown", "unreadable"]


class NewResponse(NamedTuple):
    """A response to store, by the columns of its table. ``content``, ``files`` and ``metadata`` are JSON texts."""

    message_id: str
    channel: str
    sender: str
    message: str
    in_reply_to: int | None = None
    chat_id: int | None = None
    platform_id: str | None = None
    thread_id: str | None = None
    session_id: int | None = None
    sender_id: str | None = None
    original_message: str = ""
    agent: str | None = None
    content: str = "{}"
    kind: str = "chat"
    files: str = "[]"
    metadata: str = "{}"
    deliver_after: int | None = None
    recurrence: str | None = None
    timezone: str | None = None
    scheduled_at: int | None = None
    series_id: str | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A claimed row, as delivery needs it.

    Attributes:
        opens_for: the person of a direct chat that the platform has not opened yet.
        is_inactive: the bot was blocked in that chat or removed from it.
        unsent_since: the first of its last failures in which nothing left this machine, in ms UTC; None: there is none.
        cuts: see ``record_cut``.
        failure: of the last attempt; None: none failed.
        files: as stored.
        unsent_files: see ``record_left_out_files``.
    """

    id: int
    message_id: str
    in_reply_to: int | None
    channel: str
    chat_id: int
    platform_id: str
    thread_id: str | None
    agent: str | None
    message: str
    content: ResponseContent
    retry_count: int
    parts: tuple[str | None, ...]
    created_at: int
    unsent_since: int | None
    deliver_after: int | None
    cuts: tuple[int, ...]
    session_id: int | None
    files: tuple[Any, ...]
    unsent_files: tuple[Any, ...]
    failure: FailureCode | None
    token: str
    opens_for: str | None = None
    is_inactive: bool = False


@dataclass(frozen=True, slots=True)
class ResponseVerdict:
    """What a failed delivery does to a response: a retry from *deliver_after* on, or the end. The caller decides.

    Attributes:
        reason: for people; no statement reads it.
        unsent_since: see ``Response``.
    """

    dead: bool
    retry_count: int
    deliver_after: int | None
    reason: str
    failure: FailureCode = "error"
    unsent_since: int | None = None

    @property
    def status(self) -> str:
        """The state that the response goes to."""
        return "dead" if self.dead else "pending"

    @property
    def outcome(self) -> EventData:
        """What its event says."""
        return {
            "reason": self.reason,
            "failure": self.failure,
            "retry_count": self.retry_count,
            "deliver_after": self.deliver_after,
        }


COLUMNS = (
    *("id", "message_id", "in_reply_to", "channel", "chat_id", "platform_id", "thread_id", "agent", "message"),
    *("content", "retry_count", "parts", "created_at", "unsent_since", "deliver_after"),
    *("cuts", "session_id", "files", "unsent_files", "failure"),
)


COLUMNS_SQL = ", ".join(COLUMNS)


def claimed_row(row: Sequence[Any], token: str, opens_for: str | None, *, is_inactive: bool = False) -> Response:
    """From the columns of ``COLUMNS``.

    Raises:
        RowInvalid: its content, or what says which parts were sent, can't be read.
    """
    values = dict(zip(COLUMNS, row, strict=True))
    values["content"] = content.decode(values["content"])
    values["parts"] = tuple(content.decode_list(values["parts"]))
    values["cuts"] = _list(values["cuts"])
    values["files"] = _list(values["files"])
    values["unsent_files"] = _list(values["unsent_files"])
    return Response(**values, token=token, opens_for=opens_for, is_inactive=is_inactive)


def _list(text: str | None) -> tuple[Any, ...]:
    return tuple(content.decode_list(text)) if text and text != "[]" else ()


def readable_row(row: Sequence[Any], token: str, opens_for: str | None) -> Response:
    """As ``claimed_row``, for those who end the attempt: what can't be read is empty."""
    values = dict(zip(COLUMNS, row, strict=True))
    values["content"] = content.readable(values["content"])
    values["parts"] = tuple(content.readable_list(values["parts"]))
    for name in ("cuts", "files", "unsent_files"):
        values[name] = tuple(content.readable_list(values[name] or "[]"))
    return Response(**values, token=token, opens_for=opens_for)
