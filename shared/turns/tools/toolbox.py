"""The tools of one turn. Each call is one transaction: the fence, the effects, and the answer beside its key.

::

    call ──> checked ──> in a transaction: the turn holds its messages? ──no──> refused
                             │ yes
                             ├── the turn made this call before ──> the same answer, and nothing is done
                             └── run, keep the answer, commit durably ──> the answer

After an error nothing is kept, so a repeated call tries again. A second run of the turn has another token and other
keys; ``shared.queue.spoken`` decides what follows from the first run's messages.
"""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import apsw
import msgspec

from shared.agents.access import ToolAnswer, ToolSpec
from shared.agents.session_files import NotSendable
from shared.core import chance, ids, logs
from shared.core.errors import ClaimLost, NotFound, PostroomError, WrongState
from shared.core.policy import AccessPolicy
from shared.core.settings import Settings
from shared.core.text import redaction
from shared.core.time import clock
from shared.db.access import tool_calls
from shared.db.engine.connection import open_connection
from shared.db.queue import claims, sessions
from shared.db.queue.claims import Claim
from shared.db.roster import agents
from shared.queue.teamwork import chain_ends
from shared.queue.teamwork.chains import MailLimits, MailRefused
from shared.runtime.service import RowAccess
from shared.turns.tools import arguments, outbox_files, registry, spoken_files
from shared.turns.tools.base import Arguments, Speak, Tool, ToolCall
from shared.turns.tools.outbox_files import FilePlace

log = logs.get()

_OVER = "the turn has ended or was stopped, so its tools are closed: nothing was done; end your work"
_ENOUGH = "this turn has made its {most} tool calls, and no more are carried out: end your work with your answer now"
_DATABASE = "the database could not be used, and nothing was done: call the tool once more, or say that it failed"
_BROKEN = "the tool failed, and nothing was done; the operator's log says why. Go on without it"


class Caller(msgspec.Struct, frozen=True):
    """The session whose agent calls.

    Attributes:
        turn: a name for calls that belong together: their keys are unique.
        claim: of the turn; None: an operator calls as the agent, outside any turn.
    """

    agent: str
    session_id: int
    turn: str
    claim: Claim | None = None

    @classmethod
    def of(cls, claim: Claim) -> Self:
        """The turn of *claim*."""
        return cls(claim.agent, claim.session_id, claim.token, claim)


class SessionToolbox:
    """Implements ``Toolbox``. In a turn, every call after :meth:`close` is refused, and every call beyond the limit.

    Args:
        now_ms: the clock.
        speak: makes sound of text; None: nothing does.
    """

    def __init__(
        self,
        service: RowAccess,
        settings: Settings,
        caller: Caller,
        *,
        now_ms: Callable[[], int] = clock.now_ms,
        speak: Speak | None = None,
    ) -> None:
        self._service = service
        self._caller = caller
        self._settings = settings
        self._policy = AccessPolicy.of(settings)
        self._limits = MailLimits.of(settings)
        self._now_ms = now_ms
        self._speak = speak
        self._is_open = True
        self._most_calls = settings.tool_calls
        self._calls = 0
        self.has_acted = False

    def specs(self) -> Sequence[ToolSpec]:
        """The tools that this session may use."""
        return registry.specs()

    def close(self) -> None:
        """The turn is over."""
        self._is_open = False

    async def call(self, name: str, given: Mapping[str, Any], *, call_id: str | None = None) -> ToolAnswer:
        """Call a tool; a mistake of the model raises nothing. A second call with *call_id* repeats the answer."""
        try:
            if not self._is_open:
                return ToolAnswer(_OVER, is_error=True)
            self._count(name)
            tool = registry.get(name)
            checked = arguments.checked(tool, given)
            key = _key(tool, checked, call_id, is_in_turn=self._caller.claim is not None)
            if tool.reads_long:
                return ToolAnswer(await asyncio.to_thread(self._read_beside, tool, checked, key))
            return ToolAnswer(self._read(tool, checked, key) if tool.reads else await self._act(tool, checked, key))
        except ClaimLost:
            return ToolAnswer(_OVER, is_error=True)
        except MailRefused as refused:
            await self._tell_chain(refused)
            return ToolAnswer(str(refused), is_error=True)
        except PostroomError as error:
            return ToolAnswer(redaction.redact(str(error)), is_error=True)
        except Exception as error:  # the batch boundary: a tool that is broken must not end the turn
            log.exception("tool.failed", tool=name[:64], turn=self._caller.turn)
            return ToolAnswer(_DATABASE if isinstance(error, apsw.Error) else _BROKEN, is_error=True)

    def _count(self, name: str) -> None:
        """Count the call, even one that is refused: a model in a loop makes such calls.

        Raises:
            WrongState: the turn has made its last call.
        """
        self._calls += 1
        if self._calls <= self._most_calls:
            return
        if self._calls == self._most_calls + 1:
            log.warning("tool.too_many_calls", tool=name[:64], turn=self._caller.turn, most=self._most_calls)
        raise WrongState(_ENOUGH.format(most=self._most_calls))

    def _read(self, tool: Tool, checked: Arguments, key: str) -> str:
        return tool.run(self._fenced(self._service.reader, key), checked)

    def _read_beside(self, tool: Tool, checked: Arguments, key: str) -> str:
        with contextlib.closing(open_connection(self._settings.db, readonly=True)) as conn:
            return tool.run(self._fenced(conn, key), checked)

    async def _act(self, tool: Tool, checked: Arguments, key: str) -> str:
        brought = await self._brought(tool, checked, key)
        work = partial(self._once, tool=tool, checked=checked, key=key, brought=brought)
        try:
            answer = await self._service.writer.run(work)
        except Exception:
            if brought.file is not None:
                outbox_files.discard(brought.file)
            raise
        self.has_acted = True
        self._service.kick(*tool.kicks, "api")
        log.info("tool.called", tool=tool.name, turn=self._caller.turn, agent=self._caller.agent)
        return answer

    async def _brought(self, tool: Tool, checked: Arguments, key: str) -> spoken_files.Brought:
        """The file that the call sends: a copy out of the outbox, or sound; none where it sends none.

        Raises:
            ClaimLost: the turn is over.
            WrongState: the file can't be sent.
        """
        if tool.hands_over is None and tool.speaks is None:
            return spoken_files.NOTHING
        call = self._fenced(self._service.reader, key)
        if tool_calls.find(call.conn, self._caller.turn, key) is not None:
            return spoken_files.NOTHING  # it was made before, and nothing is done twice
        folder = self._settings.agents_dir / (call.agent.folder or call.agent.id)
        target = self._settings.files / (self._caller.claim.token if self._caller.claim else ids.new("tool"))
        place = FilePlace(folder, call.session.session_id, target)
        if tool.speaks is not None:
            return await spoken_files.make(tool.speaks(call, checked), self._speak, call.agent, target)
        assert tool.hands_over is not None  # noqa: S101 - one of the two is there
        handed = tool.hands_over(call, checked)
        if handed is None:
            return spoken_files.NOTHING
        try:
            file = await asyncio.to_thread(outbox_files.copy_file, handed.name, place, handed.taker)
        except NotSendable as error:
            raise WrongState(f"the file was not sent: {error}") from None
        return spoken_files.Brought(file)

    def _once(
        self, conn: apsw.Connection, *, tool: Tool, checked: Arguments, key: str, brought: spoken_files.Brought
    ) -> str:
        """Do the call and return its answer; a repeated call gets its earlier answer."""
        call = replace(self._fenced(conn, key), file=brought.file, why_no_sound=brought.why_no_sound)
        before = tool_calls.find(conn, self._caller.turn, key)
        if before is not None:
            return before
        answer = tool.run(call, checked)
        tool_calls.put(conn, self._caller.turn, key, tool.name, answer, now_ms=call.now_ms)
        return answer

    def _fenced(self, conn: apsw.Connection, key: str) -> ToolCall:
        """The call, if its turn still holds its messages.

        Raises:
            ClaimLost: it does not.
            NotFound: the agent or the session is gone.
        """
        caller = self._caller
        if caller.claim is not None and not claims.is_held(conn, caller.claim):
            raise ClaimLost(_OVER)
        agent, session = agents.get(conn, caller.agent), sessions.get(conn, caller.session_id)
        if agent is None or session is None:
            raise NotFound(f"agent {caller.agent!r} was deleted")
        asked = caller.claim.asked[0] if caller.claim is not None else None
        return ToolCall(
            conn,
            agent,
            session,
            caller.claim,
            asked,
            key,
            self._policy,
            self._limits,
            folder=self._settings.agents_dir / (agent.folder or agent.id),
            now_ms=self._now_ms(),
        )

    async def _tell_chain(self, refused: MailRefused) -> None:
        """Tell the others in the chain that a message between agents was refused, in a transaction of its own."""
        try:
            await self._service.writer.run(partial(chain_ends.tell, refused=refused, now_ms=self._now_ms()))
            self._service.kick("dispatch", "deliver")
        except apsw.Error:
            log.exception("tool.chain_not_told", turn=self._caller.turn)


def _key(tool: Tool, checked: Arguments, call_id: str | None, *, is_in_turn: bool) -> str:
    """The key of the call in its turn: the caller's own id, and what is called.

    Without an id, equal arguments are the same call: a client repeats a call without an answer, and nothing may be said
    twice. If equal arguments may mean another call (``is_repeatable``, or outside a turn), every call is new.
    """
    if call_id is None and (tool.is_repeatable or not is_in_turn):
        call_id = f"once_{chance.token_hex(8)}"
    what = json.dumps([tool.name, checked.model_dump(mode="json"), call_id], sort_keys=True)
    return hashlib.sha256(what.encode()).hexdigest()[:32]
