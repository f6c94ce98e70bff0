"""Deliberate faults in the turns of agents."""

from tests.simulation.mutants.mutant import Edit, Mutant

_CLAIMS = "shared/db/queue/claims"
_READY = "shared/db/queue/ready_sessions.py"

TURNS = (
    # Turns: one at a time, oldest first, each with a claim.
    Mutant(
        "claims-beside-a-turn",
        f"{_CLAIMS}/batch.py",
        "status = 'processing')\n       AND (process_after IS NULL OR process_after <= :now OR failure IS NOT NULL OR status = 'processing')\n       AND NOT EXISTS",
        "status = 'pending')\n       AND (process_after IS NULL OR process_after <= :now OR failure IS NOT NULL)\n       AND NOT EXISTS",
        "no turn of a session runs beside another",
        also=(
            Edit(
                _READY,
                "(m.status = 'pending' OR m.status = 'processing')\n                          AND (m.process_after",
                "(m.status = 'pending' OR m.status = 'pending')\n                          AND (m.process_after",
            ),
            Edit(_READY, "        if session_id in held:\n            continue\n", ""),
        ),
        found=True,
        seed=39,
    ),
    Mutant(
        "claims-for-no-time",
        f"{_CLAIMS}/claiming.py",
        '"lease": now_ms + lease_ms, "now": now_ms})\n    check_all',
        '"lease": now_ms, "now": now_ms})\n    check_all',
        "a turn that runs is not rescued",
        needs=("calm",),
        found=True,
        seed=259,
    ),
    Mutant(
        "never-renews-a-lease",
        f"{_CLAIMS}/claiming.py",
        "           SET lease = :lease\n",
        "           SET lease = max(lease, :lease - :lease)\n",
        "a turn that runs is not rescued",
        needs=("calm",),
        found=True,
        seed=94,
    ),
    Mutant(
        "takes-the-newest-first",
        f"{_CLAIMS}/batch.py",
        "       AND NOT EXISTS (SELECT 1 FROM agent_pauses p WHERE p.agent = :agent AND p.state = 'paused')\n     ORDER BY status DESC, id\n",
        "       AND NOT EXISTS (SELECT 1 FROM agent_pauses p WHERE p.agent = :agent AND p.state = 'paused')\n     ORDER BY status DESC, id DESC\n",
        "the messages of a session run in order",
        found=True,
    ),
    Mutant(
        "overtakes-a-retry",
        f"{_CLAIMS}/batch.py",
        "process_after <= :now OR failure IS NOT NULL OR status = 'processing')\n       AND NOT EXISTS",
        "process_after <= :now OR status = 'processing')\n       AND NOT EXISTS",
        "the messages of a session run in order",
        also=(
            Edit(
                _READY,
                "m.process_after <= :now OR m.failure IS NOT NULL\n",
                "m.process_after <= :now\n",
            ),
        ),
        found=True,
        seed=190,
    ),
    Mutant(
        "settles-without-a-claim",
        f"{_CLAIMS}/rows.py",
        "    if changed != size:\n",
        "    if changed > size:\n",
        "a turn that lost its claim says nothing",
        needs=("freeze",),
    ),
    Mutant(
        "completes-what-another-holds",
        f"{_CLAIMS}/endings.py",
        "last_error = NULL, failure = NULL, updated_at = :now\n     WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'processing' AND claimed_by = :token\n",
        "last_error = NULL, failure = NULL, updated_at = :now\n     WHERE id IN (SELECT value FROM json_each(:ids)) AND (:token IS NOT NULL)\n",
        "a turn that lost its claim says nothing",
        needs=("freeze",),
    ),
    Mutant(
        "counts-no-attempt",
        f"{_CLAIMS}/endings.py",
        "       SET status = :status, retry_count = :retry_count, process_after = :process_after, last_error = :reason,\n"
        "           failure = :failure, waits_since",
        "       SET status = :status, retry_count = 0 * :retry_count, process_after = :process_after, last_error = :reason,\n"
        "           failure = :failure, waits_since",
        "every message ends",
        seed=190,
    ),
    Mutant(
        "dies-without-a-reason",
        f"{_CLAIMS}/endings.py",
        "process_after = :process_after, last_error = :reason,\n           failure = :failure, waits_since",
        "process_after = :process_after, last_error = nullif(:reason, :reason),\n           failure = :failure, waits_since",
        "what died says why",
        seed=190,
    ),
    Mutant(
        "dies-without-an-apology",
        "shared/queue/turns/failing.py",
        "            _apologise(conn, message, APOLOGY, now_ms=now_ms + place)\n",
        "            pass\n",
        "the sender of a dead message is told",
        found=True,
    ),
    Mutant(
        "blames-the-message-for-a-kill",
        "shared/queue/turns/verdicts.py",
        "_CERTAIN = 20 * LOST_DISPATCH",
        "_CERTAIN = LOST_DISPATCH",
        "a kill ends no message",
        needs=("kill", "kill at a call"),
        found=True,
    ),
    Mutant(
        "gives-up-after-one-attempt",
        "shared/queue/turns/verdicts.py",
        'case "retry" if attempts < policy.max_attempts:',
        'case "retry" if attempts < 2:',
        "a message whose agent answers in the end is answered",
        seed=190,
    ),
    Mutant(
        "rescues-no-turn",
        "shared/queue/turns/failing.py",
        "lost = [claim for claim, lease in claims.running(conn) if everything or lease < now_ms]",
        "lost = [claim for claim, lease in claims.running(conn) if everything and lease < 0]",
        "every message ends, though its process died",
        needs=("kill",),
    ),
    Mutant(
        "runs-a-finished-turn-again",
        f"{_CLAIMS}/endings.py",
        "    _complete(conn, claim, now_ms=now_ms)\n    pass_over(conn, claim, now_ms=now_ms)\n",
        "    check_all(claim, len(claim.held))\n    pass_over(conn, claim, now_ms=now_ms)\n",
        "a message is answered once",
        needs=("calm",),
    ),
    Mutant(
        "settles-and-answers-apart",
        "shared/queue/turns/settling.py",
        "    responses.enqueue_many(conn, news, now_ms=now_ms)\n    for each in turn_replies:",
        '    conn.execute("COMMIT")\n    conn.execute("BEGIN IMMEDIATE")\n    responses.enqueue_many(conn, news, now_ms=now_ms)\n    for each in turn_replies:',
        "a completed message has its answers",
        needs=("kill in a write",),
        found=True,
    ),
    Mutant(
        "loses-the-second-answer",
        "shared/queue/turns/settling.py",
        "    responses.enqueue_many(conn, news, now_ms=now_ms)\n    for each in turn_replies:",
        "    responses.enqueue_many(conn, news[:1], now_ms=now_ms)\n    for each in turn_replies:",
        "a completed message has its answers",
        found=True,
    ),
)
