from shared.core.policy import AccessPolicy
from shared.core.settings import Settings


def test_a_policy_is_what_the_settings_say(monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(f"POSTROOM_{name.upper()}", raising=False)
    assert AccessPolicy.of(Settings.load()) == AccessPolicy()
    for name, value in (
        ("NEW_CHATS", "wire"),
        ("SENDER_LIMIT", "1"),
        ("CHAT_LIMIT", "2"),
        ("APPROVAL_LIFE_MS", "60000"),
        ("SENDER_BYTES", "3"),
    ):
        monkeypatch.setenv(f"POSTROOM_{name}", value)
    assert AccessPolicy.of(Settings.load()) == AccessPolicy("wire", 1, 2, 60_000, 3)
