"""A start whose database does not become ready says what happened and what to do."""

import asyncio
from pathlib import Path

import pytest

from emulator.base.errors import NotReady
from emulator.storage import database


class Forks:
    """A fork server whose one process prints *lines* and ends with *code*; None: it still runs at the limit."""

    def __init__(self, code, *lines):
        self._code = code
        self._lines = lines

    def fork(self, *_, on_line):
        for line in self._lines:
            on_line(line, False)
        return self

    async def wait_ended(self, timeout_s):
        return self._code


def prepared(*ending):
    return asyncio.run(database.prepare(Forks(*ending), Path("p.db"), {}))


def test_a_database_that_is_not_ready_in_time_is_no_code():
    with pytest.raises(NotReady) as told:
        prepared(None)
    assert str(told.value) == (
        "p.db is not ready after 600 s, and the process that prepares it still works. The machine is too busy, or its "
        "disk too slow. Nothing is lost: stop what keeps it busy, and start again"
    )


@pytest.mark.parametrize(("code", "end"), [(-9, "was killed by signal 9"), (1, "ended with code 1")])
def test_a_process_that_ends_badly_is_told_with_its_last_lines(code, end):
    with pytest.raises(NotReady, match=f"because the process that does so {end}") as told:
        prepared(code, "Traceback", "OSError: no space")
    assert str(told.value).endswith("Start again\n    Traceback\n    OSError: no space")


def test_the_facts_are_the_last_line():
    assert prepared(0, "a warning", '{"schema": 1}') == {"schema": 1}
