"""The adapters that a function sends through."""

import json
import os
import subprocess
import sys

from structlog.testing import capture_logs

from shared.core.settings import Settings
from shared.db.engine.connection import transaction
from shared.db.roster import accounts
from shared.roster.served_accounts import ServedAccounts
from tests.support import NOW


def test_an_account_that_lacks_a_setting_is_off_and_its_setting_is_named_once(conn, db, monkeypatch):
    """Deliver and dispatch both look, so the event names neither of them."""
    monkeypatch.setenv("POSTROOM_DB", str(db))
    with transaction(conn):
        accounts.add(conn, "telegram.sales", now_ms=NOW)
    served = ServedAccounts(Settings.load())
    with capture_logs() as lines:
        assert "telegram.sales" not in served.look(conn)
        served.look(conn)
    (off,) = [line for line in lines if line.get("channel") == "telegram.sales"]
    assert off["event"] == "channel.off"
    assert "TELEGRAM_SALES_BOT_TOKEN" in off["reason"]


TELEGRAM = {"TELEGRAM_BOT_TOKEN": "7100200300:AAExample", "TELEGRAM_WEBHOOK_SECRET": "secret"}
IMPORTING = """
import asyncio, concurrent.futures.thread, json, sys, threading
from shared.core.settings import Settings
from shared.db.engine.connection import open_connection
from shared.roster.served_accounts import ServedAccounts

class Seen:
    def find_spec(self, name, *_):
        found.append([name, threading.current_thread() is threading.main_thread()])

async def find():
    served = ServedAccounts(Settings.load())
    conn = open_connection(Settings.load().db, readonly=True)
    sys.meta_path.insert(0, Seen())
    return [each.name for each in await asyncio.gather(*(served.find(conn, "telegram") for _ in range(2)))]

found = []
print(json.dumps([asyncio.run(find()), found]))
"""


def test_the_event_loop_goes_on_while_the_first_adapter_is_imported(conn, db):
    """Dispatch imports them in its first turn that a person waits for, while other agents answer."""
    environment = {**os.environ, "POSTROOM_DB": str(db), **TELEGRAM}
    words = [sys.executable, "-c", IMPORTING]
    said = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
    accounts, imported = json.loads(said.splitlines()[-1])
    assert accounts == ["telegram", "telegram"]
    assert "shared.channels.telegram.channel" in [name for name, _ in imported]
    assert [name for name, is_by_the_loop in imported if is_by_the_loop] == []
