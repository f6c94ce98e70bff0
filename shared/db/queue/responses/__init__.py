"""Responses: what goes out to people, and its delivery.

::

    paused <──> pending ──claim──> delivering ──ack──> acked
    (series)       ^                   │
                   └─retry, rescue, ───┴──> dead ──delete──> deleted
                     release

Responses to one chat go out in order: only the head of a chat is ever claimed. A head that waits for a retry holds back
its own chat and no other.
"""

from shared.db.queue.responses.claiming import claim, delivering, readable
from shared.db.queue.responses.due import (
    HEADS,
    Head,
    WaitingResponse,
    due_heads,
    heads,
    next_due,
    sent_since,
    trial,
    waiting,
    waiting_since,
)
from shared.db.queue.responses.progress import (
    ack,
    fail,
    record_cut,
    record_left_out_files,
    record_part,
    release,
    sent_count,
    set_aside,
    unsent_since,
)
from shared.db.queue.responses.rows import FailureCode, NewResponse, Response, ResponseVerdict
from shared.db.queue.responses.storing import enqueue, enqueue_many, open_count, prune, sent_as, was_answered, was_said

__all__ = [
    "HEADS",
    "FailureCode",
    "Head",
    "NewResponse",
    "Response",
    "ResponseVerdict",
    "WaitingResponse",
    "ack",
    "claim",
    "delivering",
    "due_heads",
    "enqueue",
    "enqueue_many",
    "fail",
    "heads",
    "next_due",
    "open_count",
    "prune",
    "readable",
    "record_cut",
    "record_left_out_files",
    "record_part",
    "release",
    "sent_as",
    "sent_count",
    "sent_since",
    "set_aside",
    "trial",
    "unsent_since",
    "waiting",
    "waiting_since",
    "was_answered",
    "was_said",
]
