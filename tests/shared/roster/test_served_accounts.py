"""The adapters that a function sends through."""

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
