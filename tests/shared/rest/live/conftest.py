import pytest

from shared.db.engine.connection import transaction
from shared.db.queue import events
from shared.runtime.kick import Kicker


@pytest.fixture
def append(conn, environment):
    """Append events as another process does, with a kick."""
    kicker = Kicker(environment)

    def happen(*types):
        with transaction(conn):
            for type_ in types:
                events.append(conn, type_, now_ms=5, message_id="m", data={"fact": 1})
        kicker.kick("api")

    yield happen
    kicker.close()
