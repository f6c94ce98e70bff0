"""The doctor's checks of what makes text of voice messages, and sound of text."""

import pytest

from emulator.cli.checks import installation, sounds
from emulator.cli.checks.installation import StoredAgent
from shared.core.settings import Settings
from shared.turns.gateway.upstreams import GatewaySettings

OF_AN_AGENT = {
    "a program that is here": ("cat {sound}", {}, "ok", "the transcriber of bot: cat {sound}"),
    "a program that is missing": ("no-such {sound}", {}, "problem", "the program 'no-such' is not installed"),
    "a model with its key": ("openai/whisper-1", {"openai_api_key": "sk-x"}, "ok", "openai/whisper-1"),
    "a model without": ("speech/base", {}, "problem", "no key or address of 'speech' is set (POSTROOM_SPEECH_URL)"),
    "a row that a hand has changed": ("openai/", {}, "problem", "write HOST/MODEL"),
}


@pytest.mark.parametrize(("setting", "models", "level", "says"), OF_AN_AGENT.values(), ids=OF_AN_AGENT)
def test_the_one_of_an_agent(setting, models, level, says):
    agents = [StoredAgent("bot", "echo", {}, transcriber=setting, speaker="none"), StoredAgent("other", "echo", {})]
    (found,) = sounds.findings(Settings(), GatewaySettings(**models), agents)
    assert (found.level, says in found.says) == (level, True)


def test_the_ones_of_the_environment():
    chosen = Settings(transcriber="speech/base", speaker="cat")
    models = GatewaySettings(speech_url="http://127.0.0.1:8910/v1")
    found = [(each.level, each.says) for each in sounds.findings(chosen, models, [])]
    assert found == [("ok", "POSTROOM_TRANSCRIBER: speech/base"), ("ok", "POSTROOM_SPEAKER: cat")]


def test_a_database_of_an_older_release_has_agents_without_them(db, conn):
    conn.execute("ALTER TABLE agents DROP COLUMN transcriber")
    conn.execute("UPDATE agents SET speaker = 'cat'")
    _, (agent,) = installation.database(db)
    assert (agent.id, agent.transcriber, agent.speaker) == ("assistant", None, "cat")
