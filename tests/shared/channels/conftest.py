import pytest

from shared.channels import registry

TELEGRAM_SECRET = "a-Secret_that-telegram-repeats"
TELEGRAM_TOKEN = "7100200300:AAExampleExampleExampleExampleExample"
DISCORD_TOKEN = "MTI5MDAwMDAwMDAwMDAwMDAwMQ.Example.ExampleExampleExample"
DISCORD_KEY = "f7f2db88b74780161a2e67efa0afc95be6cc6dcd56e3f2a559b472fd9ed51dc9"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """The bot of the recorded events, and no setting of the machine the tests run on."""
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TELEGRAM_TOKEN)
    monkeypatch.setenv("TELEGRAM_WEBHOOK_SECRET", TELEGRAM_SECRET)
    monkeypatch.setenv("TELEGRAM_BOT_USERNAME", "aurora_helper_bot")
    monkeypatch.setenv("TELEGRAM_API_BASE", "http://127.0.0.1:1")
    monkeypatch.setenv("DISCORD_PUBLIC_KEY", DISCORD_KEY)
    monkeypatch.setenv("DISCORD_APPLICATION_ID", "1290000000000000001")
    monkeypatch.setenv("DISCORD_BOT_TOKEN", DISCORD_TOKEN)
    monkeypatch.setenv("DISCORD_API_BASE", "http://127.0.0.1:1/api/v10")
    registry.get.cache_clear()
    yield
    registry.get.cache_clear()


@pytest.fixture
def telegram():
    return registry.get("telegram")


@pytest.fixture
def discord():
    return registry.get("discord")
