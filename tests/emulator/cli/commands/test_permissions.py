"""``emulator permissions``: what agents' own programs may do without another question."""

from shared.db.access import permissions
from shared.db.engine.connection import transaction
from tests.emulator.cli.commands.conftest import Postroom
from tests.support import make_chat


def test_a_permission_is_listed_with_its_owner_and_revoked_once(postroom: Postroom) -> None:
    chat = make_chat(postroom.conn)
    with transaction(postroom.conn):
        kept = permissions.put(
            postroom.conn, agent="assistant", chat_id=chat, tool="Write", arguments={"file_path": "a.md"},
            granted_by=None, granted_name="operator", now_ms=1,
        )  # fmt: skip
    line = next(line for line in postroom.run("permissions", "list").stdout.splitlines() if kept in line)
    assert "Write" in line
    assert '{"file_path": "a.md"}' in line
    assert "operator" in line
    assert kept in postroom.run("permissions", "revoke", kept).stdout
    assert "There is no permission" in postroom.run("permissions", "list").stdout
    assert f"no permission '{kept}'" in postroom.refused("permissions", "revoke", kept, code=66)
