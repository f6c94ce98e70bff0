import pytest

from shared.db.engine.connection import transaction
from shared.db.roster import teams
from tests.shared.conversation.routing.router.kit import make_chat, wire
from tests.support import NOW


@pytest.fixture
def two(conn):
    """A direct chat and a group, in each of which two agents answer; and a team that one of them leads."""
    for chat, is_group in (("100", False), ("200", True)):
        chat_id = make_chat(conn, chat, is_group=is_group)
        wire(conn, chat_id)
        wire(conn, chat_id, "coder")
    with transaction(conn):
        teams.save(conn, teams.Team("build", "Builders", "coder", ("coder",)), now_ms=NOW)
