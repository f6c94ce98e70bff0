"""The end of a turn: settled whole, or failed with a verdict on each message. Each verb needs one transaction."""

from shared.queue.turns.failing import (
    ANOTHER_CAME,
    APOLOGY,
    CUT_OFF,
    HOST_LOST,
    PROCESS_GONE,
    STOPPED,
    end_others,
    fail,
    release,
    rescue,
    set_aside,
)
from shared.queue.turns.settling import leave_out, settle
from shared.queue.turns.turn_replies import TurnReply
from shared.queue.turns.verdicts import LONGEST_WAITS_MS, NO_REASON, NOTHING, Failure, RetryPolicy, Said, judge

__all__ = [
    "ANOTHER_CAME",
    "APOLOGY",
    "CUT_OFF",
    "HOST_LOST",
    "LONGEST_WAITS_MS",
    "NOTHING",
    "NO_REASON",
    "PROCESS_GONE",
    "STOPPED",
    "Failure",
    "RetryPolicy",
    "Said",
    "TurnReply",
    "end_others",
    "fail",
    "judge",
    "leave_out",
    "release",
    "rescue",
    "set_aside",
    "settle",
]
