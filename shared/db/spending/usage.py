"""What each turn took from models: one row a turn, or one for each model where a turn uses several.

There are four kinds of tokens, and none is counted twice: ``input`` has no tokens of the cache.
"""

import json
from typing import Literal, NamedTuple

import apsw

from shared.db.engine.connection import insert_into, rows

KEPT_MS = 32 * 24 * 60 * 60 * 1000  # at least: the budget of a month counts it
_FOR_EVER_MS = 2**62
PaidBy = Literal["plan", "key"]


class Tokens(NamedTuple):
    """The tokens of one request or of many; *input* without tokens that were read from or written to the cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        """All four kinds."""
        return self.input + self.output + self.cache_read + self.cache_write


class TurnName(NamedTuple):
    """The turn that used a model: the token of its claim, its agent, its session's public id, and what it answers.

    Attributes:
        messages: the public ids of the messages that asked for the turn.
        origin: the origin of the first message's chain, see ``core.hops``; None: not known.
    """

    turn: str
    agent: str
    session: str
    messages: tuple[str, ...] = ()
    origin: str | None = None


class Spent(NamedTuple):
    """A sum. *money* in micro-dollars; *unpriced*: the tokens, paid by a key, whose price is not known."""

    money: int = 0
    tokens: int = 0
    unpriced: int = 0


_ADDED = (
    *("turn", "agent", "session", "messages", "origin", "model", "paid_by", "requests"),
    *("input", "output", "cache_read", "cache_write", "cost", "created_at", "updated_at"),
)
# A cost that is not known stays so: a sum with an unknown part would look like a price.
ADD = f"""
    {insert_into("usage", _ADDED)}
    ON CONFLICT (turn, model, paid_by) DO UPDATE
       SET requests = requests + 1,
           input = input + excluded.input,
           output = output + excluded.output,
           cache_read = cache_read + excluded.cache_read,
           cache_write = cache_write + excluded.cache_write,
           cost = cost + excluded.cost,
           updated_at = excluded.updated_at
"""  # noqa: S608

CORRECT = """
    UPDATE usage
       SET requests = requests + :requests,
           input = max(0, input + :input),
           output = max(0, output + :output),
           cache_read = max(0, cache_read + :cache_read),
           cache_write = max(0, cache_write + :cache_write),
           cost = max(0, cost + :cost),
           updated_at = :now
     WHERE turn = :turn AND model = :model AND paid_by = :paid_by
"""
WITHDRAW_THE_ONLY_ONE = """
    DELETE FROM usage WHERE turn = :turn AND model = :model AND paid_by = :paid_by AND requests = 1
"""

_SUMS = """
    SELECT ifnull(sum(cost), 0),
           ifnull(sum(input + output + cache_read + cache_write), 0),
           ifnull(sum(iif(cost IS NULL AND paid_by = 'key', input + output + cache_read + cache_write, 0)), 0)
      FROM usage
"""
SPENT_IN_ALL = _SUMS + " WHERE created_at >= :since AND created_at < :until"
SPENT_ON = _SUMS + " WHERE origin = :origin AND origin IS NOT NULL"
SPENT_BY_AGENT = _SUMS + " WHERE agent = :agent AND created_at >= :since AND created_at < :until"


def add(
    conn: apsw.Connection, name: TurnName, model: str, paid_by: PaidBy, tokens: Tokens, cost: int | None, *, now_ms: int
) -> None:
    """Add the tokens of one request to its turn's row. *cost*: in micro-dollars, or None where no price is known."""
    named = (name.turn, name.agent, name.session, json.dumps(name.messages), name.origin)
    conn.execute(ADD, (*named, model, paid_by, 1, *tokens, cost, now_ms, now_ms))


def correct(
    conn: apsw.Connection, name: TurnName, model: str, paid_by: PaidBy, tokens: Tokens, cost: int | None, *, now_ms: int
) -> None:
    """Add the difference between what a request used and its estimate; it is negative if the estimate was too high."""
    _correct(conn, name, model, paid_by, tokens, cost, requests=0, now_ms=now_ms)


def withdraw(
    conn: apsw.Connection, name: TurnName, model: str, paid_by: PaidBy, tokens: Tokens, cost: int | None, *, now_ms: int
) -> None:
    """Take back the estimate of a request that was refused or not sent."""
    conn.execute(WITHDRAW_THE_ONLY_ONE, {"turn": name.turn, "model": model, "paid_by": paid_by})
    if conn.changes() == 0:
        less = Tokens(*(-each for each in tokens))
        less_cost = None if cost is None else -cost
        _correct(conn, name, model, paid_by, less, less_cost, requests=-1, now_ms=now_ms)


def _correct(
    conn: apsw.Connection,
    name: TurnName,
    model: str,
    paid_by: PaidBy,
    tokens: Tokens,
    cost: int | None,
    *,
    requests: int,
    now_ms: int,
) -> None:
    known = {"turn": name.turn, "model": model, "paid_by": paid_by, "requests": requests, "cost": cost, "now": now_ms}
    conn.execute(CORRECT, {**tokens._asdict(), **known})


def spent(conn: apsw.Connection, agent: str | None, *, since_ms: int, until_ms: int = _FOR_EVER_MS) -> Spent:
    """What the agent has spent from then on, and before *until_ms*; None: all agents together."""
    statement = SPENT_IN_ALL if agent is None else SPENT_BY_AGENT
    return Spent(*rows(conn, statement, {"agent": agent, "since": since_ms, "until": until_ms})[0])


def spent_on(conn: apsw.Connection, origin: str) -> Spent:
    """What all agents have spent because of one message, or another origin of ``core.hops``."""
    return Spent(*rows(conn, SPENT_ON, {"origin": origin})[0])


def unpriced(conn: apsw.Connection, agent: str) -> list[str]:
    """The models, paid by a key, that the agent has used without a known price since it was last changed."""
    found = rows(
        conn,
        """
        SELECT DISTINCT u.model
          FROM agents a
          JOIN usage u ON u.agent = a.id AND u.created_at >= a.updated_at
         WHERE a.id = :agent AND u.cost IS NULL AND u.paid_by = 'key'
         ORDER BY u.model
        """,
        {"agent": agent},
    )
    return [row[0] for row in found]


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete up to *limit* rows of turns whose first request was before then; how many."""
    conn.execute(
        """
        DELETE FROM usage
         WHERE id IN (SELECT id FROM usage WHERE created_at < :cutoff ORDER BY created_at LIMIT :limit)
        """,
        {"cutoff": older_than_ms, "limit": limit},
    )
    return conn.changes()
