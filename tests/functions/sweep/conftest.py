import apsw
import pytest


@pytest.fixture
def written():
    """The number of rows that each transaction changes, on connections that open from now on."""
    counts = []

    def watch(connection):
        changed = 0

        def update(*_):
            nonlocal changed
            changed += 1

        def commit():
            nonlocal changed
            counts.append(changed)
            changed = 0
            return False

        connection.set_update_hook(update)
        connection.set_commit_hook(commit)

    apsw.connection_hooks.append(watch)
    yield counts
    apsw.connection_hooks.remove(watch)
