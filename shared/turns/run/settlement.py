"""Writes how turns ended, and keeps what could not be written until it can be."""

import contextlib
from collections.abc import Sequence
from functools import partial

import apsw
import msgspec

from shared.core import logs
from shared.core.errors import ClaimLost
from shared.core.time import clock
from shared.db.queue import claims
from shared.db.queue.claims import Claim
from shared.queue import turns
from shared.queue.teamwork.chains import MailLimits
from shared.queue.turns import Failure, RetryPolicy
from shared.runtime import retries
from shared.runtime.worker_service import WorkerService
from shared.turns.run.agent_run import AgentAnswer, Outcome
from shared.turns.run.gate.task_gate import Spared

log = logs.get()

UNWRITTEN_PAUSE_S = 1.0  # until the next attempt to write what could not be written

_PAUSES_S = (0.1, 0.5, 2.0, 5.0)  # a full disk or a long lock must not throw the turn's work away at once
_MOST_ATTEMPTS = 300


class Unwritten(msgspec.Struct):
    """A turn that has ended, and whose rows don't say so yet: how it failed, or None where it was interrupted."""

    claim: Claim
    failure: Failure | None
    attempts: int = 0
    why: str = turns.STOPPED


class Settlement:
    """Settles, fails or gives back turns, through the writer of *service*."""

    def __init__(self, service: WorkerService) -> None:
        self._service = service
        self.unwritten: list[Unwritten] = []

    async def end(self, claim: Claim, outcome: Outcome) -> None:
        """Settle or fail the turn, durably.

        Raises:
            ClaimLost: the lease has another owner.
            apsw.Error: it could not be written; ``write_unwritten`` fails the turn as soon as that can be written.
        """
        try:
            await self._write(claim, outcome, _PAUSES_S)
        except ClaimLost:
            raise
        except Exception as error:
            failure = Failure(
                f"the outcome of the turn could not be written ({type(error).__name__}); the log of dispatch says why"
            )
            self.unwritten.append(Unwritten(claim, failure))
            raise

    async def give_back(self, claim: Claim, why: str) -> None:
        """Make the messages of an interrupted turn pending again; costs no attempt. One that has spoken has failed.

        Args:
            why: what interrupted it.

        Raises:
            apsw.Error: it could not be written; ``write_unwritten`` tries again.
        """
        try:
            await self._release(claim, why)
        except Exception:
            self.unwritten.append(Unwritten(claim, None, why=why))
            raise

    async def write_unwritten(self) -> bool:
        """Free the messages of turns whose end could not be written; whether any were freed.

        Otherwise their leases would hold them for minutes. What such a turn said is lost, and the turn counts as an
        attempt: its answer may be what can't be written.
        """
        unwritten, self.unwritten = self.unwritten, []
        is_any_free = False
        for each in unwritten:
            try:
                if each.failure is None:
                    await self._release(each.claim, each.why)
                else:
                    await self._write(each.claim, each.failure, ())
                is_any_free = True
            except ClaimLost:
                continue
            except Exception:  # the others continue; after the last attempt, the end of the lease frees it
                log.exception("turn.not_freed", turn=each.claim.token)
                each.attempts += 1
                if each.attempts < _MOST_ATTEMPTS:
                    self.unwritten.append(each)
        return is_any_free

    async def _write(self, claim: Claim, outcome: Outcome, pauses_s: Sequence[float]) -> None:
        writer = self._service.writer

        def work(conn: apsw.Connection) -> None:
            now_ms = clock.now_ms()
            if isinstance(outcome, AgentAnswer):
                turns.settle(
                    conn,
                    claim,
                    outcome.said,
                    outcome.continuation,
                    provider=outcome.provider,
                    begun_anew=outcome.begun_anew,
                    provider_before=outcome.provider_before,
                    limits=MailLimits.of(self._service.settings),
                    now_ms=now_ms,
                )
            elif isinstance(outcome, Spared):
                turns.leave_out(conn, claim, outcome.reason, now_ms=now_ms)
            else:
                turns.fail(conn, claim, outcome, RetryPolicy.of(self._service.settings), now_ms=now_ms)

        is_alone = self._service.worker.running <= 1
        await retries.write(writer, work, alone=is_alone, pauses_s=pauses_s, event="turn.not_settled", turn=claim.token)
        self._service.kick("deliver", "api")
        if isinstance(outcome, AgentAnswer) and any(reply.tags for reply in outcome.said):
            self._service.kick("dispatch")
        if isinstance(outcome, AgentAnswer):
            while claims.has_older_context(self._service.reader, claim):
                await writer.run(partial(claims.pass_over, claim=claim, now_ms=clock.now_ms()), durable=False)

    async def _release(self, claim: Claim, why: str) -> None:
        with contextlib.suppress(ClaimLost):
            await self._service.writer.run(
                lambda conn: turns.release(conn, claim, why=why, now_ms=clock.now_ms()), durable=False
            )
        self._service.kick("deliver", "api")
