"""Agents that can't or must not work: their messages wait. An agent without a row works.

::

    (no row) ──pause──> paused ──try_again──> trying ──an hour without such a failure──> (no row)
                          ^  │                   │
                          │  └─resume──> (no row)│
                          └────────pause─────────┘   the same pause goes on: nobody is told a second time
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import apsw

from shared.db.engine.connection import rows
from shared.db.queue import events

PauseCode = Literal["auth", "quota", "budget", "bad_config", "not_installed", "model_not_found", "by_hand"]
CODES: Sequence[PauseCode] = get_args(PauseCode)

FIRST_CHECK_MS = 60_000
LONGEST_CHECK_WAIT_MS = 60 * 60_000
_TRIAL_MS = 60 * 60_000


class AgentPause(NamedTuple):
    """A row of ``agent_pauses``; instants in ms UTC.

    Attributes:
        state: ``trying``: it works again, but the pause is remembered.
        reason: for operators; no secret.
        paused_by: ``postroom`` or ``operator``.
        until: when it ends by itself; None: an operator ends it, or the provider when it can work again.
        check_at: when the provider is checked next; None: never.
        checks: how many pauses and checks in a row there were.
    """

    agent: str
    state: Literal["paused", "trying"]
    code: PauseCode
    reason: str
    paused_by: Literal["postroom", "operator"]
    since: int
    until: int | None
    check_at: int | None
    checks: int
    tried_at: int | None

    @property
    def is_paused(self) -> bool:
        """Whether the agent does not work now."""
        return self.state == "paused"


_SELECT = """
    SELECT agent, state, code, reason, paused_by, since, until, check_at, checks, tried_at
      FROM agent_pauses
"""


def every(conn: apsw.Connection) -> dict[str, AgentPause]:
    """All rows, by agent; those that are ``trying`` too."""
    return {row[0]: AgentPause(*row) for row in rows(conn, _SELECT + " ORDER BY agent")}


def paused(conn: apsw.Connection) -> dict[str, AgentPause]:
    """The agents that do not work now."""
    return {agent: pause for agent, pause in every(conn).items() if pause.is_paused}


def find(conn: apsw.Connection, agent: str) -> AgentPause | None:
    """The pause of the agent, if it does not work now."""
    found = rows(conn, _SELECT + " WHERE agent = :agent AND state = 'paused'", {"agent": agent})
    return AgentPause(*found[0]) if found else None


_PAUSE = """
    INSERT INTO agent_pauses (agent, state, code, reason, paused_by, since, until, check_at)
    VALUES (:agent, 'paused', :code, :reason, :by, :now, :until, :first_check)
    ON CONFLICT (agent) DO UPDATE
       SET state = 'paused', code = excluded.code, reason = excluded.reason, paused_by = excluded.paused_by,
           until = excluded.until, tried_at = NULL, checks = checks + 1,
           since = iif(code = excluded.code AND excluded.until IS NULL, since, excluded.since),
           check_at = iif(excluded.check_at IS NULL, NULL, :now + min(:first << min(checks + 1, 20), :longest))
     WHERE state = 'trying'
"""


def pause(
    conn: apsw.Connection,
    agent: str,
    code: PauseCode,
    reason: str,
    *,
    until: int | None = None,
    by_operator: bool = False,
    now_ms: int,
) -> bool:
    """Pause the agent. False: it is paused already, or does not exist, and nothing changes.

    Only a pause by Postroom without an end is checked: a minute from now, and later after each trial. A pause with an
    end counts from one again after each trial, because the earlier pause ended as planned.
    The reason is stored without its full stop, because it becomes a part of other sentences.
    """
    reason = reason.removesuffix(".")
    before = every(conn).get(agent)
    if not rows(conn, "SELECT 1 FROM agents WHERE id = :agent", {"agent": agent}):
        return False
    values = {"agent": agent, "code": code, "reason": reason, "until": until, "now": now_ms}
    values |= {"by": "operator" if by_operator else "postroom", "first": FIRST_CHECK_MS}
    values |= {"longest": LONGEST_CHECK_WAIT_MS}
    values["first_check"] = now_ms + FIRST_CHECK_MS if until is None and not by_operator else None
    conn.execute(_PAUSE, values)
    if conn.changes() == 0:
        return False
    if before is not None and before.code != code:
        conn.execute("DELETE FROM agent_pause_notices WHERE agent = :agent", {"agent": agent})
    events.append(conn, "agent_paused", now_ms=now_ms, agent=agent, data={"reason": reason, "code": code})
    return True


def pause_by_hand(conn: apsw.Connection, agent: str, reason: str, *, now_ms: int) -> bool:
    """Pause the agent until an operator resumes it, whatever paused it before. False: an operator paused it already."""
    before = find(conn, agent)
    if before is not None and before.paused_by == "operator":
        return False
    conn.execute("DELETE FROM agent_pauses WHERE agent = :agent", {"agent": agent})
    return pause(conn, agent, "by_hand", reason, by_operator=True, now_ms=now_ms)


def try_again(conn: apsw.Connection, agent: str, *, now_ms: int) -> bool:
    """The agent works again, on trial: its pause is over, or its cause is gone. False: it was not paused."""
    conn.execute(
        """
        UPDATE agent_pauses
           SET state = 'trying', tried_at = :now, until = NULL, check_at = NULL
         WHERE agent = :agent AND state = 'paused'
        """,
        {"agent": agent, "now": now_ms},
    )
    return _record_resume(conn, agent, now_ms=now_ms)


def resume(conn: apsw.Connection, agent: str, *, now_ms: int) -> bool:
    """The agent works again, by an operator; people are told about a later pause. False: it was not paused."""
    conn.execute("DELETE FROM agent_pauses WHERE agent = :agent AND state = 'paused'", {"agent": agent})
    return _record_resume(conn, agent, now_ms=now_ms)


def resume_mended(conn: apsw.Connection, agent: str, *, now_ms: int) -> bool:
    """As ``resume``, after a change of the agent's settings: an operator's own pause stays."""
    conn.execute(
        "DELETE FROM agent_pauses WHERE agent = :agent AND state = 'paused' AND paused_by = 'postroom'",
        {"agent": agent},
    )
    return _record_resume(conn, agent, now_ms=now_ms)


def try_at_start(conn: apsw.Connection, *, now_ms: int) -> None:
    """Dispatch has started, perhaps with other settings or another program: these agents work again, on trial."""
    for name, each in paused(conn).items():
        if each.paused_by == "postroom" and each.until is None:
            try_again(conn, name, now_ms=now_ms)


def try_all(conn: apsw.Connection, code: PauseCode, *, now_ms: int) -> list[str]:
    """The cause of these agents' pauses has changed: they work again, on trial. Returns their ids."""
    found = [name for name, each in paused(conn).items() if each.code == code]
    return [name for name in found if try_again(conn, name, now_ms=now_ms)]


def _record_resume(conn: apsw.Connection, agent: str, *, now_ms: int) -> bool:
    if conn.changes() == 0:
        return False
    events.append(conn, "agent_resumed", now_ms=now_ms, agent=agent)
    return True


def check_again(conn: apsw.Connection, agent: str, reason: str, *, check_at: int | None) -> None:
    """The provider can't work yet, for this *reason*: ask it again at *check_at*; None: never."""
    conn.execute(
        "UPDATE agent_pauses SET reason = :reason, check_at = :at WHERE agent = :agent AND state = 'paused'",
        {"agent": agent, "reason": reason, "at": check_at},
    )


def is_trial_over(pause: AgentPause, *, now_ms: int) -> bool:
    """Whether the agent has worked for an hour since its pause."""
    return pause.tried_at is not None and pause.tried_at <= now_ms - _TRIAL_MS


def forget_trials(conn: apsw.Connection, *, now_ms: int) -> int:
    """Forget the pauses of agents that have worked for an hour since; how many."""
    conn.execute(
        "DELETE FROM agent_pauses WHERE state = 'trying' AND tried_at <= :before", {"before": now_ms - _TRIAL_MS}
    )
    return conn.changes()


def told(conn: apsw.Connection) -> set[tuple[str, str]]:
    """Which places were told about which agent's pause, as (agent, place)."""
    return {(agent, place) for agent, place in rows(conn, "SELECT agent, place FROM agent_pause_notices")}


def mark_told(conn: apsw.Connection, agent: str, place: str) -> bool:
    """Record that this place was told. False: it was told before, or the agent is not paused any more."""
    conn.execute(
        """
        INSERT INTO agent_pause_notices (agent, place)
        SELECT agent, :place FROM agent_pauses WHERE agent = :agent AND state = 'paused'
        ON CONFLICT DO NOTHING
        """,
        {"agent": agent, "place": place},
    )
    return conn.changes() == 1
