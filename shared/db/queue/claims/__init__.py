"""Claims: a turn's hold on a batch of one session's messages.

A claim is a token on the rows, with a lease. A turn that lost its lease changes nothing, because every statement names
the token. Writers are serialised (``connection.transaction``), so what a claim reads is still true when it writes.
"""

from shared.db.queue.claims.batch import CLAIMED, DUE, URGENT, WAITING, has_urgent_message, is_due, may_join, would_gain
from shared.db.queue.claims.claiming import ABOUT_BATCH, CONTEXT, claim, join, next_to_tell, renew
from shared.db.queue.claims.endings import (
    OLDEST_CONTEXT,
    acquit,
    complete,
    fail,
    has_older_context,
    leave_out,
    pass_over,
    release,
    set_aside,
)
from shared.db.queue.claims.holders import (
    FILES,
    READABLE,
    RUNNING,
    files,
    holding,
    is_held,
    keep_files,
    of_turn,
    readable,
    running,
)
from shared.db.queue.claims.rows import Claim, MessageVerdict

__all__ = [
    "ABOUT_BATCH",
    "CLAIMED",
    "CONTEXT",
    "DUE",
    "FILES",
    "OLDEST_CONTEXT",
    "READABLE",
    "RUNNING",
    "URGENT",
    "WAITING",
    "Claim",
    "MessageVerdict",
    "acquit",
    "claim",
    "complete",
    "fail",
    "files",
    "has_older_context",
    "has_urgent_message",
    "holding",
    "is_due",
    "is_held",
    "join",
    "keep_files",
    "leave_out",
    "may_join",
    "next_to_tell",
    "of_turn",
    "pass_over",
    "readable",
    "release",
    "renew",
    "running",
    "set_aside",
    "would_gain",
]
