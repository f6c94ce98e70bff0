"""Deliberate faults in the way from a webhook to the disk and the replica."""

from tests.simulation.mutants.mutant import Edit, Mutant

STORING = (
    # What was accepted is there, whatever dies.
    Mutant(
        "answers-before-the-commit",
        "functions/ingest.py",
        "        routed = await storing\n",
        "        asyncio.ensure_future(storing).add_done_callback(lambda done: done.exception())\n        return received.reply\n",
        "what was accepted is stored",
        needs=("kill in a write",),
        found=True,
    ),
    Mutant(
        "tells-before-the-commit",
        "shared/db/engine/group_commit.py",
        "            self._committer.do([asked.job for asked in group])\n            self._rest()\n",
        "            for asked in group:\n                if asked.job.repeatable:\n                    asked.loop.call_soon_threadsafe(settle, asked.future, [], None)\n"
        "            self._committer.do([asked.job for asked in group])\n            self._rest()\n",
        "what was accepted is stored",
        needs=("kill in a write",),
        found=True,
        seed=199,
    ),
    Mutant(
        "never-waits-for-the-disk",
        "shared/db/engine/jobs.py",
        'synchronous = "FULL" if any(job.durable for job in group) else "NORMAL"',
        'synchronous = "NORMAL"',
        "what was accepted survives a power cut",
        needs=("power",),
        found=True,
    ),
    Mutant(
        "accepts-without-the-replica",
        "functions/ingest.py",
        "        await self._confirm(channel, began_s)\n        return received.reply if total.is_answered",
        "        return received.reply if total.is_answered",
        "what was accepted survives the loss of a disk",
        needs=("lost disk", "away, then lost"),
        found=True,
    ),
    Mutant(
        "takes-a-silent-replica-for-a-yes",
        "shared/db/replica/sync.py",
        "        except TimeoutError:\n            problem = control_socket.too_slow(self.limit_s)\n",
        "        except TimeoutError:\n            problem = None\n",
        "what was accepted survives the loss of a disk",
        needs=("away, then lost",),
        found=True,
        seed=78,
    ),
    Mutant(
        "trusts-a-torn-log",
        "shared/db/replica/sync.py",
        "            if write_gate.is_torn(database):",
        "            if False:",
        "what is called replicated is in the replica",
        test="tests/shared/db/replica/test_sync.py::test_a_yes_after_a_death_in_a_commit_is_a_no_until_another_litestream_begins",
        why="the Litestream of a world reads rows, and not the log",
    ),
    Mutant(
        "leaves-no-mark-of-a-commit",
        "shared/db/engine/write_gate.py",
        '        self._write(_YES, _COMMITS)\n        try:\n            run("COMMIT")',
        '        try:\n            run("COMMIT")',
        "what is called replicated is in the replica",
        test="tests/shared/db/engine/test_write_gate.py::test_the_next_writer_reports_a_death_in_a_commit_while_litestream_runs",
        why="the Litestream of a world reads rows, and not the log",
    ),
    Mutant(
        "keeps-half-of-a-failed-work",
        "shared/db/engine/jobs.py",
        '        run("ROLLBACK TO job")\n',
        "",
        "a work that fails leaves nothing",
        also=(
            Edit(
                "shared/db/engine/connection.py",
                "            if kind is not None:\n                self._roll_back()\n        finally:\n",
                "            if kind is not None and self._conn.in_transaction:\n                self._gate.commit(self._run)\n        finally:\n",
            ),
        ),
        needs=("teams",),
        found=True,
        seed=48,
    ),
    # One row an event.
    Mutant(
        "forgets-the-key-of-an-event",
        "shared/conversation/routing/recipients.py",
        "        event_key=event.event_key,\n",
        '        event_key=event.event_key and f"{event.event_key} {now_ms}",\n',
        "an event that comes twice is stored once",
        found=True,
        seed=190,
    ),
    # The limits of senders.
    Mutant(
        "lets-a-clock-empty-buckets",
        "shared/db/access/rates.py",
        '_BACK = "max(ifnull(taken_at, 0) - :now, 0)"',
        '_BACK = "0"',
        "no message is dropped without need",
        needs=("clock",),
        found=True,
    ),
    Mutant(
        "counts-a-message-twice",
        "shared/db/access/rates.py",
        "VALUES (:key, :now + :interval, :now)\n    ON CONFLICT (key) DO UPDATE\n       SET full_at = max(full_at - {_BACK}, :now) + :interval, size",
        "VALUES (:key, :now + 60000, :now)\n    ON CONFLICT (key) DO UPDATE\n       SET full_at = max(full_at - {_BACK}, :now) + 30 * :interval, size",
        "no message is dropped without need",
        found=True,
        seed=196,
    ),
)
