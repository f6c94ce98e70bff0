"""The words for the ends of programs, added to a file of an earlier release."""

from typing import get_args

import apsw
import pytest

from shared.core.failures import ENDED_BY, FailureCode
from shared.db.engine.connection import rows
from shared.db.engine.migrate import migrate
from tests.support import column, make_agent, put

BEFORE = "0014"


def test_each_word_and_no_other_is_accepted_after_the_migration(before):
    path, conn = before
    migrate(path)
    make_agent(conn, "assistant")
    put(conn)
    for word in get_args(FailureCode):
        rows(conn, "UPDATE messages SET failure = :word", {"word": word})
    with pytest.raises(apsw.ConstraintError):
        rows(conn, "UPDATE messages SET failure = 'bored'")
    assert column(conn, "PRAGMA integrity_check") == ["ok"]


def test_every_word_says_who_ended_the_attempt():
    assert ENDED_BY.keys() == set(get_args(FailureCode))
