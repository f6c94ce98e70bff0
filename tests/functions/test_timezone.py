"""``POSTROOM_TIMEZONE``: the zone of agents and schedules without their own."""

import asyncio

import pytest

from functions import api
from shared.core.errors import ConfigInvalid
from shared.core.settings import Settings
from shared.db.engine.connection import open_connection
from shared.roster.new_database import prepare_database
from tests.support import column


@pytest.fixture(autouse=True)
def zone(monkeypatch):
    monkeypatch.setenv("POSTROOM_TIMEZONE", "Asia/Tokyo")


def send(serving, method, path, body):
    async def go():
        async with serving(api) as client:
            return await client.request(method, path, json=body)

    return asyncio.run(go())


@pytest.mark.parametrize(("named", "used"), [({}, "Asia/Tokyo"), ({"timezone": "Europe/Zurich"}, "Europe/Zurich")])
def test_a_schedule_uses_the_timezone_setting_unless_it_names_its_own(serving, conn, named, used):
    assert send(serving, "POST", "/api/message", {"message": "x", "recurrence": "0 9 * * *", **named}).is_success
    assert column(conn, "SELECT timezone FROM messages") == [used]


@pytest.mark.parametrize(("named", "used"), [({}, "Asia/Tokyo"), ({"timezone": "Europe/Zurich"}, "Europe/Zurich")])
def test_a_new_agent_uses_the_timezone_setting_unless_it_names_its_own(serving, conn, named, used):
    assert send(serving, "PUT", "/api/agents/a", named).is_success
    assert column(conn, "SELECT timezone FROM agents WHERE id = 'a'") == [used]


def test_the_first_agent_of_a_new_database_uses_the_timezone_setting(tmp_path):
    prepare_database(tmp_path / "new.db", timezone=Settings.load().timezone)
    conn = open_connection(tmp_path / "new.db")
    assert column(conn, "SELECT timezone FROM agents") == ["Asia/Tokyo"]
    conn.close()


@pytest.mark.parametrize("name", ["Mars/Olympus", "../../etc/passwd", "/etc/localtime"])
def test_an_unknown_time_zone_is_refused_at_the_start(monkeypatch, name):
    monkeypatch.setenv("POSTROOM_TIMEZONE", name)
    with pytest.raises(ConfigInvalid, match=r"POSTROOM_TIMEZONE: .*such as 'Europe/Zurich'"):
        Settings.load()
