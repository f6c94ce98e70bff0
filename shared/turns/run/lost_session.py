"""A session that its provider has lost begins again, with our own history.

The provider's session is a cache; ``agent_messages`` has the truth. If the provider fails with ``session_lost``, or the
agent has another provider now, the turn runs in a fresh session. Its prompt has the newest messages of the old session
before the batch. That costs no attempt.
"""

import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

import apsw

from shared.agents import prompt
from shared.agents.base import Failed, Provider, ProviderEvent, Text, Turn
from shared.agents.prompt import EarlierMessage
from shared.core import logs
from shared.db.queue import agent_messages
from shared.db.queue.claims import Claim

log = logs.get()

HISTORY_CHARACTERS = 20_000
MOST_LINES = 200

Earlier = Callable[[], list[EarlierMessage]]
"""Reads the history of the session, oldest first; called only if it is needed."""


class SessionStory:
    """How the provider's session began.

    Attributes:
        begun_anew: the provider had lost the session that it should continue.
        is_memory_lost: the lost session had texts; a session without any is lost by a kill in its first turn.
        told: the texts of the earlier session that the fresh one was given.
        provider_before: whose session was left, because the agent has another provider now; None: nobody's.
    """

    def __init__(self) -> None:
        self.begun_anew = False
        self.is_memory_lost = False
        self.told: list[str] = []
        self.provider_before: str | None = None


async def run(
    provider: Provider, turn: Turn, earlier: Earlier, story: SessionStory
) -> AsyncGenerator[ProviderEvent, None]:
    """Run *turn* with *provider*; again in a fresh session if the provider has lost the session and said nothing."""
    has_said = False
    async with contextlib.aclosing(provider.run(turn)) as provider_events:
        async for event in provider_events:
            if isinstance(event, Failed) and event.code == "session_lost" and turn.continuation and not has_said:
                log.warning("session.lost", agent=turn.agent, session=turn.session, reason=event.reason)
                break
            has_said = has_said or isinstance(event, Text)
            yield event
        else:
            return
    said_before = earlier()
    story.begun_anew, story.is_memory_lost = True, bool(said_before)
    async with contextlib.aclosing(provider.run(begin_afresh(turn, said_before, story))) as provider_events:
        async for event in provider_events:
            yield event


def begin_afresh(turn: Turn, earlier: list[EarlierMessage], story: SessionStory) -> Turn:
    """The same turn in a fresh session; its prompt has what was said before."""
    story.told += [each.text for each in earlier if each.sender is not None]
    return replace(
        turn,
        continuation=None,
        prompt=prompt.with_history(turn.prompt, earlier, timezone=turn.timezone, most=HISTORY_CHARACTERS),
    )


def history(conn: apsw.Connection, claim: Claim) -> list[EarlierMessage]:
    """What was said in the session of *claim* before its batch, oldest first, within a limit."""
    batch = {message.message_id for message in claim.batch}
    found = agent_messages.of_session(conn, claim.agent, claim.session_id, limit=MOST_LINES)
    return [
        EarlierMessage(
            line.message_id, None if line.role == "assistant" else line.sender, line.content, line.created_at
        )
        for line in found
        if line.message_id not in batch
    ]
