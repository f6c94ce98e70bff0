import pytest

from shared.db.engine.connection import transaction
from shared.db.roster import teams
from shared.db.roster.teams import Team
from tests.support import NOW, make_agent, make_chat, wire


@pytest.fixture
def team(conn):
    """Assistant, which Ana writes to in chat 100, leads bob."""
    make_agent(conn, "bob")
    wire(conn, make_chat(conn))
    with transaction(conn):
        teams.save(conn, Team("dev", "Dev", "assistant", ("assistant", "bob")), now_ms=NOW)
