"""What the relay reads from the environment, for the first account and for further ones."""

import pytest

from infra.discord_relay.settings import RelaySettings
from shared.core.errors import ConfigInvalid


def test_a_further_account_has_variables_of_its_own(monkeypatch):
    monkeypatch.setenv("DISCORD_SALES_RELAY_TARGET", "http://127.0.0.1:9009/webhooks/discord.sales")
    assert RelaySettings.of("discord.sales").target == "http://127.0.0.1:9009/webhooks/discord.sales"
    assert RelaySettings.of("discord").target is None


@pytest.mark.parametrize("target", ["", "127.0.0.1:9001", "ftp://x/", "http://x/?a=b"])
def test_an_invalid_target_is_refused(monkeypatch, target):
    monkeypatch.setenv("DISCORD_RELAY_TARGET", target)
    with pytest.raises(ConfigInvalid, match="DISCORD_RELAY_TARGET"):
        RelaySettings.of("discord")
