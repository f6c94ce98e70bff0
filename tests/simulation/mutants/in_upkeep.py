"""Deliberate faults in what keeps a database small, in schedules, and where processes and machines follow each other."""

from tests.simulation.mutants.mutant import Edit, Mutant

_PRUNING = "shared/db/queue/messages/pruning.py"

UPKEEP = (
    # What is pruned.
    Mutant(
        "prunes-what-still-waits",
        _PRUNING,
        "           (status = 'completed' OR status = 'cancelled') AND recurrence IS NULL",
        "           (status != 'processing') AND recurrence IS NULL",
        "every message ends before it is pruned",
        needs=("pruning",),
        found=True,
        seed=195,
    ),
    Mutant(
        "forgets-the-keys-of-what-it-prunes",
        _PRUNING,
        "    event_keys.keep(conn, doomed, forgotten_ms=forgotten_ms)\n",
        "    event_keys.keep(conn, doomed[:0], forgotten_ms=forgotten_ms)\n",
        "an event that comes once more is known after its message was pruned",
        needs=("pruning",),
        found=True,
        seed=195,
    ),
    Mutant(
        "uses-an-id-again",
        _PRUNING,
        "     WHERE id > :after AND id < (SELECT max(id) FROM messages)\n",
        "     WHERE id > :after\n",
        "the id of a row is never used again",
        needs=("pruning",),
        found=True,
        seed=287,
    ),
    Mutant(
        "prunes-an-apology-that-is-still-needed",
        "functions/sweep.py",
        "        sent_ms = min(old_ms, now_ms - endings.LONGEST_WAIT_MS)  #",
        "        sent_ms = old_ms  #",
        "a command that was answered keeps its answer",
        also=(
            Edit(
                "shared/queue/endings.py",
                "       AND (m.status <> 'dead' OR EXISTS (SELECT 1 FROM responses r WHERE r.in_reply_to = m.id))  -- else pruned\n",
                "",
            ),
        ),
        needs=("pruning",),
        found=True,
        seed=174,
    ),
    Mutant(
        "forgets-what-a-running-turn-has-said",
        "shared/db/queue/spoken.py",
        "                     AND NOT EXISTS (SELECT 1\n"
        "                                       FROM messages\n"
        "                                      WHERE spoken = s.story AND (status = 'pending' OR status = 'processing'))\n",
        "",
        "what was said in a turn that failed is not said again",
        needs=("pruning",),
        found=True,
        seed=825149502,
    ),
    # Schedules.
    Mutant(
        "drops-runs-that-are-to-be-caught-up",
        "shared/core/time/cron.py",
        '    if misfire != "catch_up" and following <= now_ms:\n',
        "    if following <= now_ms:\n",
        "schedules that catch up run once for each instant",
        needs=("clock",),
        found=True,
        seed=79,
    ),
    # Processes and machines that follow each other.
    Mutant(
        "works-beside-another",
        "shared/runtime/worker.py",
        "            await self._lock.acquire()\n",
        "            self._lock.release()\n",
        "of two processes of a function, one works",
        needs=("reload",),
        found=True,
        seed=276,
    ),
    Mutant(
        "shares-a-question-that-was-asked-before",
        "shared/db/replica/shared_question.py",
        "        self._waiting.append(answer)\n",
        "        (self._asked if self._is_under_way else self._waiting).append(answer)\n",
        "what was accepted survives the loss of a disk",
        test="tests/shared/db/replica/test_shared_question.py::test_who_comes_while_a_question_is_under_way_is_not_told_its_answer",
        why="a commit and a loss would have to meet within milliseconds",
        found=True,
    ),
)
