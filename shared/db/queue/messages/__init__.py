"""Messages: what came in, and what people and programs do to it. ``claims`` has what turns do to it.

::

                 paused ── resume (series) ──┐
                   ^                         │
                   └── pause (series) ──┐    v
    enqueue ────────────────────────> pending ── cancel ──> cancelled
                                        │  ^                    ^
                                  claim │  │ retry, release     │
                                        v  │                    │
                                     processing ── cancel: the turn loses its claim
                                        │  └── fail ──> dead ── retry by hand ──> pending
                                        └── settle ──> completed

Each change is one UPDATE that names the expected state. Storing a message writes its row and nothing else; ``announce``
writes the events of arrival, many at once.
"""

from shared.db.queue.messages.by_hand import (
    DEAD_AFTER,
    MessageRef,
    cancel,
    cancel_running,
    cancel_waiting,
    delete,
    replace,
    retry,
    retry_many,
)
from shared.db.queue.messages.gathering import END, GO_ON, end_burst, go_on_burst
from shared.db.queue.messages.looking import (
    PLANNED,
    counts,
    files,
    find,
    id_of,
    known,
    planned_by_agent,
    statuses,
    unknown,
)
from shared.db.queue.messages.pruning import prune
from shared.db.queue.messages.storing import (
    HAS_EVENT,
    NewMessage,
    announce,
    enqueue,
    has_event,
    is_unannounced,
)

__all__ = [
    "DEAD_AFTER",
    "END",
    "GO_ON",
    "HAS_EVENT",
    "PLANNED",
    "MessageRef",
    "NewMessage",
    "announce",
    "cancel",
    "cancel_running",
    "cancel_waiting",
    "counts",
    "delete",
    "end_burst",
    "enqueue",
    "files",
    "find",
    "go_on_burst",
    "has_event",
    "id_of",
    "is_unannounced",
    "known",
    "planned_by_agent",
    "prune",
    "replace",
    "retry",
    "retry_many",
    "statuses",
    "unknown",
]
