"""What the witnesses of a small run saw, row by row."""

import itertools
from pathlib import Path
from typing import Any

import apsw
import pytest

from emulator.proving.platform import OK, TAKES, Send, Written
from emulator.proving.witnesses import Witnesses, key_of
from shared.db.access import dropped
from shared.db.engine.connection import transaction
from shared.db.queue import agent_messages, events
from shared.db.queue.agent_messages import AgentMessage
from tests.support import NOW, answer, column, make_agent, make_chat, put


class World:
    """Messages of chat 100 that went as they should, until a test spoils one."""

    def __init__(self, db: Path, conn: apsw.Connection) -> None:
        self.db, self.conn = db, conn
        self.written: dict[str, Written] = {}
        self.sends: list[Send] = []
        self.turns: list[dict[str, Any]] = []
        self._ticks = itertools.count(1000)
        make_agent(conn, "assistant")
        conn.execute("UPDATE chats SET sender_policy = 'public' WHERE id = ?", (make_chat(conn),))

    def witnesses(self, *lost_disks_ns: int) -> Witnesses:
        return Witnesses(self.db, self.written, self.sends, self.turns, lost_disks_ns)

    def tick(self) -> int:
        return next(self._ticks)

    def accept(self, text: str, *, chat: str = "100") -> Written:
        """A person writes, and gets a 200."""
        self.written[text] = Written(len(self.written) + 1, chat, text, accepted=True, statuses=[200])
        return self.written[text]

    def store(self, text: str) -> str:
        """It is stored; the message's id."""
        self.accept(text)
        id_ = put(self.conn, text, event_key=self.written[text].event[1])
        return str(column(self.conn, "SELECT message_id FROM messages WHERE id = :id", id=id_)[0])

    def run(self, id_: str, *, run: str | None = None, claims: int = 1) -> None:
        """A turn of it begins and ends; rows have so many claims."""
        line = {"run": run or f"run{self.tick()}", "session": "s", "agent": "assistant", "ids": [id_]}
        for _ in range(claims):
            with transaction(self.conn):
                for kind in ("chain_step_start", "chain_step_done"):
                    events.append(self.conn, kind, now_ms=NOW, session_id=1, message_id=id_, data={"batch": [id_]})
                heard = AgentMessage("assistant", "user", "telegram", "Ada", id_, "a line", NOW)
                agent_messages.append(self.conn, [heard])
        self.turns.append({**line, "what": "start", "at_ns": self.tick()})
        self.turns.append({**line, "what": "end", "act": "ok", "at_ns": self.tick()})

    def complete(self, text: str) -> int:
        """It is stored, had its turn, and its answer arrived; the response's id."""
        id_ = self.store(text)
        self.run(id_)
        self.set("messages", "status = 'completed'", id_)
        response = answer(self.conn, f"re {key_of(text)}", message_id=id_)
        self.set("responses", f"status = 'acked', acked_at = {NOW}", id_)
        self.arrive(f"re {key_of(text)}")
        return response

    def arrive(self, text: str, how: str = OK) -> None:
        self.sends.append(Send("100", text, how in TAKES, how, self.tick()))

    def set(self, table: str, values: str, id_: str) -> None:
        with transaction(self.conn):
            self.conn.execute(f"UPDATE {table} SET {values} WHERE message_id = ?", (id_,))

    def doubt(self, response: int, reason: str) -> None:
        """A send whose outcome its sender did not learn."""
        with transaction(self.conn):
            events.append(self.conn, "response_outcome_unknown", now_ms=NOW, response_id=response, data={"part": 0})
            events.append(self.conn, "response_retry", now_ms=NOW, response_id=response, data={"reason": reason})

    def drop(self, text: str, reason: str, *, chat: str = "100") -> None:
        written = self.accept(text, chat=chat)
        with transaction(self.conn):
            dropped.record(
                self.conn,
                channel="telegram",
                reason=reason,
                platform_id=chat,
                event_key=written.event[1],
                now_ms=NOW,
            )


@pytest.fixture
def world(db: Path, conn: apsw.Connection) -> World:
    """Three messages that were accepted, ran and were answered."""
    made = World(db, conn)
    for number in range(3):
        made.complete(f"c100 {number:04} | ok")
    return made
