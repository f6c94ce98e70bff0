"""A running turn with its tools, on a real database: each call is its own transaction, as in dispatch."""

import asyncio
import contextlib

from shared.core.settings import Settings
from shared.db.engine.connection import open_connection, transaction
from shared.db.engine.group_commit import Writer
from shared.db.roster import destinations
from shared.turns.tools.toolbox import Caller, SessionToolbox
from tests.support import NOW, make_agent, make_chat, put, take, wire


class Process:
    """What a toolbox needs of dispatch; it notes the kicks."""

    def __init__(self, db):
        self.writer = Writer(db)
        self.reader = open_connection(db, readonly=True)
        self.kicked = set()

    def kick(self, *names):
        self.kicked.update(names)

    def close(self):
        self.writer.close()
        self.reader.close()


class Running:
    """The turn: ``use`` calls one tool and returns its answer."""

    def __init__(self, process, db, claim, now_ms=NOW, **settings):
        self.process = process
        self.claim = claim
        self.now_ms = now_ms
        self.box = SessionToolbox(process, Settings(db=db, **settings), Caller.of(claim), now_ms=lambda: self.now_ms)

    def use(self, tool, call_id=None, **given):
        return asyncio.run(self.box.call(tool, given, call_id=call_id))

    def say(self, tool, **given):
        """As ``use``, where the tool must not refuse; the text."""
        answer = self.use(tool, **given)
        assert not answer.is_error, answer.text
        return answer.text

    def refusal(self, tool, **given):
        """As ``use``, where the tool must refuse; the text."""
        answer = self.use(tool, **given)
        assert answer.is_error, answer.text
        return answer.text


@contextlib.contextmanager
def process_on(db):
    """A process on this database."""
    process = Process(db)
    try:
        yield process
    finally:
        process.close()


@contextlib.contextmanager
def running(conn, db, *, agent="assistant", chat="100", text="do it", **fields):
    """A turn of *agent* about a message in *chat*, where it is wired."""
    wire(conn, make_chat(conn, chat), agent)
    put(conn, text, agent=agent, chat=chat, **fields)
    claim = take(conn, agent=agent, chat=chat, thread=fields.get("thread"))
    with process_on(db) as process:
        yield Running(process, db, claim)


def let_send(conn, agent="assistant", **target):
    """Give *agent* a destination; its name."""
    with transaction(conn):
        return destinations.put(conn, agent, now_ms=NOW, **target).name


def team_mate(conn, name="bob", of="assistant"):
    """Another agent, to which *of* may send."""
    make_agent(conn, name)
    return let_send(conn, of, target_agent=name)
