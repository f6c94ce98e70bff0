import pytest

from shared.channels import registry
from shared.core.errors import ConfigInvalid
from shared.core.settings import Settings, known_variables


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No settings of this machine."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"POSTROOM_{name.upper()}", raising=False)


WRONG = {
    "a word for a number": {"POSTROOM_BATCH_SIZE": "hunter2"},
    "a number out of range": {"POSTROOM_LEASE_MS": "7"},
    "a word that is none of the allowed": {"POSTROOM_NEW_CHATS": "hunter2"},
    "two at once": {"POSTROOM_UNKNOWN_SENDS": "hunter2", "POSTROOM_MAX_ATTEMPTS": "0"},
}


@pytest.mark.parametrize("environment", WRONG.values(), ids=WRONG)
def test_every_wrong_variable_is_named_and_no_value_is_shown(monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigInvalid) as refused:
        Settings.load()
    assert all(name in str(refused.value) for name in environment)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_our_own_words_about_a_variable_have_no_prefix(monkeypatch):
    """Pydantic says "Value error, unknown time zone"."""
    monkeypatch.setenv("POSTROOM_TIMEZONE", "Mars")
    with pytest.raises(ConfigInvalid, match=r"^settings: POSTROOM_TIMEZONE: unknown time zone; use a name such as"):
        Settings.load()


def test_the_known_variables_are_those_of_all_models():
    registry.import_all()
    assert {"POSTROOM_DB", "POSTROOM_TIMEZONE", "TELEGRAM_BOT_TOKEN", "DISCORD_PUBLIC_KEY"} <= known_variables()


def test_secrets_are_in_no_repr(monkeypatch):
    monkeypatch.setenv("POSTROOM_TICK_SECRET", "hunter2")
    monkeypatch.setenv("POSTROOM_API_TOKEN", "hunter2")
    settings = Settings.load()
    assert settings.tick_secret.get_secret_value() == "hunter2"
    assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"


def test_an_empty_variable_is_not_set(monkeypatch):
    """An empty secret would let every caller in."""
    monkeypatch.setenv("POSTROOM_TICK_SECRET", "")
    monkeypatch.setenv("POSTROOM_API_TOKEN", "")
    settings = Settings.load()
    assert (settings.tick_secret, settings.api_token) == (None, None)


def test_the_sockets_are_beside_the_database_by_default(monkeypatch):
    monkeypatch.setenv("POSTROOM_DB", "/srv/p.db")
    assert str(Settings.load().sockets) == "/srv/p.db.run"
    monkeypatch.setenv("POSTROOM_RUN_DIR", "/run/p")
    assert str(Settings.load().sockets) == "/run/p"
