import apsw
import pytest

from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import transaction
from shared.db.platforms import channel_outages, channel_pauses, channel_watches
from shared.db.platforms.channel_outages import ChannelOutage
from shared.db.platforms.channel_watches import ChannelWatch
from shared.db.roster import accounts
from tests.support import NOW

PLATFORMS = ("discord", "telegram")


def test_the_first_account_of_each_platform_is_served_without_a_row(conn):
    assert accounts.served(conn, PLATFORMS) == ["discord", "telegram"]
    assert accounts.is_there(conn, "telegram")


def test_a_further_account_is_served_while_its_row_is_there(conn):
    with transaction(conn):
        accounts.add(conn, "telegram.sales", now_ms=NOW)
        accounts.add(conn, "pigeon.loft", now_ms=NOW)  # of a platform that this release does not have
    assert accounts.served(conn, PLATFORMS) == ["discord", "telegram", "telegram.sales"]
    assert accounts.is_there(conn, "telegram.sales")
    with transaction(conn):
        assert accounts.remove(conn, "telegram.sales")
        assert not accounts.remove(conn, "telegram.sales")
    assert accounts.served(conn, PLATFORMS) == ["discord", "telegram"]
    assert not accounts.is_there(conn, "telegram.sales")


def test_an_account_is_added_once(conn):
    with transaction(conn):
        accounts.add(conn, "telegram.sales", now_ms=NOW)
    with pytest.raises(WrongState, match=r"telegram\.sales"), transaction(conn):
        accounts.add(conn, "telegram.sales", now_ms=NOW)


def test_the_first_account_gets_its_row_with_its_agent(conn):
    with transaction(conn):
        accounts.set_agent(conn, "telegram", "assistant", now_ms=NOW)
    assert accounts.agent_of(conn, "telegram") == "assistant"
    with transaction(conn):
        accounts.set_agent(conn, "telegram", None, now_ms=NOW + 1)
    assert accounts.agent_of(conn, "telegram") is None
    assert accounts.agent_of(conn, "discord") is None


def test_an_unknown_account_is_named(conn):
    with pytest.raises(NotFound, match=r"telegram\.gone"):
        accounts.known(conn, "telegram.gone")


@pytest.mark.parametrize(
    "name",
    ["discord.sales", "telegramsales", "telegram.", "telegram.Sales", "telegram.a-b", "telegram.a.b", "telegram.1a"],
)
def test_the_schema_refuses_a_name_that_does_not_begin_with_its_platform(conn, name):
    with pytest.raises(apsw.ConstraintError), transaction(conn):
        conn.execute(
            "INSERT INTO accounts (name, platform, created_at, updated_at) VALUES (?, 'telegram', 1, 1)", (name,)
        )


def test_a_bot_of_another_managing_account_is_not_taken_again(conn):
    with transaction(conn):
        accounts.want(conn, "telegram.x", agent="assistant", manager="telegram", owner_id="5", now_ms=NOW)
        assert accounts.give(conn, "telegram", "5", bot_id="77", username="x_bot", now_ms=NOW) == "telegram.x"
        accounts.want(conn, "telegram.y", agent="assistant", manager="telegram.b", owner_id="5", now_ms=NOW)
        assert accounts.give(conn, "telegram.b", "5", bot_id="77", username="x_bot", now_ms=NOW) is None
        assert accounts.give(conn, "telegram.b", "5", bot_id="78", username="y_bot", now_ms=NOW) == "telegram.y"


def test_an_account_that_is_removed_leaves_no_trouble_behind(conn):
    with transaction(conn):
        for name in ("telegram.sales", "telegram.other"):
            accounts.add(conn, name, now_ms=NOW)
            channel_pauses.pause(conn, name, "refused", check_at=NOW, now_ms=NOW)
            channel_outages.begin(conn, ChannelOutage(name, NOW, "unreachable", "gone", NOW), now_ms=NOW)
            watch = ChannelWatch(name, NOW, None, None, None, "deaf", "not_registered", "no address", NOW)
            channel_watches.put(conn, watch)
        accounts.remove(conn, "telegram.sales")
    for every in (channel_pauses.every, channel_outages.every, channel_watches.every):
        assert list(every(conn)) == ["telegram.other"]
