"""Whether a run of a schedule asks the agent: it may wait for news, and its script may say that there is nothing to do.

A run that asks no model takes no request and no token, and is told in the history of its schedule.
"""

from dataclasses import replace
from typing import NamedTuple

import apsw

from shared.agents import prompt, task_script
from shared.agents.base import Turn
from shared.agents.task_script import ScriptFailed
from shared.core.time import clock
from shared.db.queue.claims import Claim
from shared.db.queue.message_row import Message
from shared.db.queue.schedules import news
from shared.queue.turns import Failure

NO_NEWS = "nothing has come for the agent since the run before"
HEARTBEAT_FILE = "HEARTBEAT.md"
WROTE = "The script of this task wrote:"


class Spared(NamedTuple):
    """The agent need not be asked. *reason*: for the history."""

    reason: str


async def look(reader: apsw.Connection, claim: Claim, turn: Turn) -> Turn | Spared | Failure:
    """The turn with what its script wrote; or why the agent is not asked; or how the script failed."""
    message = claim.asked[0]
    if not message.is_gated:
        return turn
    if message.wake == "news" and not _has_news(reader, message, turn):
        return Spared(NO_NEWS)
    if not message.script:
        return turn
    try:
        verdict = await task_script.run(turn, message.script)
    except ScriptFailed as error:
        return Failure(str(error), code=error.code)
    if verdict.why_not is not None:
        return Spared(verdict.why_not)
    return _with_text(turn, message, verdict.text)


def _has_news(reader: apsw.Connection, message: Message, turn: Turn) -> bool:
    since_ms = news.since(
        reader, message.series_id or "", message.message_id, made_ms=message.created_at, without=(NO_NEWS,)
    )
    return news.has_come(reader, turn.agent, since_ms=since_ms) or _is_changed(turn, since_ms)


def _is_changed(turn: Turn, since_ms: int) -> bool:
    """Whether the list of what the agent is to look after has changed."""
    try:
        written_ns = (turn.folder / HEARTBEAT_FILE).lstat().st_mtime_ns
    except OSError:
        return False
    return clock.of_machine(-(-written_ns // 1_000_000)) > since_ms


def _with_text(turn: Turn, task: Message, text: str) -> Turn:
    if not text:
        return turn
    messages = tuple(
        replace(each, text=f"{each.text}\n\n{WROTE}\n{text}") if each.message_id == task.message_id else each
        for each in turn.messages
    )
    return replace(turn, messages=messages, prompt=prompt.build(messages, timezone=turn.timezone))
