"""The doctor's checks of what is set up."""

import os
from pathlib import Path

import apsw
import pytest

from emulator.base.environment import EnvSetting
from emulator.cli.checks import installation
from emulator.cli.checks.finding import Finding
from emulator.cli.checks.installation import StoredAgent
from shared.core import setting_places
from shared.core.settings import Settings
from shared.roster.new_database import prepare_database


def test_a_line_that_nothing_reads_is_told_with_its_place_and_the_nearest_name():
    (found,) = installation.settings([EnvSetting("POSTROOM_LEESH", "off", ".env:3")])
    assert found.level == "warning"
    assert ".env:3: POSTROOM_LEESH" in found.says
    assert "POSTROOM_LEASH" in found.says


def test_a_setting_of_the_relay_is_no_unknown_one():
    (found,) = installation.settings([EnvSetting("DISCORD_RELAY_CONTENT", "1", ".env:1")])
    assert found.level == "ok"


def test_a_wrong_value_is_a_problem_and_leaves_the_environment_as_it_was():
    before = dict(os.environ)
    found = installation.load({"POSTROOM_LEASH": "loose"})
    assert isinstance(found, Finding)
    assert found.level == "problem"
    assert "POSTROOM_LEASH" in found.says
    assert dict(os.environ) == before


def test_durability_without_a_replica_contradicts_itself_outside_the_emulator():
    chosen = Settings(durability="replicated")
    (found,) = installation.contradictions(chosen, of_emulator=False)
    assert (found.level, "POSTROOM_LITESTREAM_SOCKET" in found.says) == ("problem", True)
    assert list(installation.contradictions(chosen, of_emulator=True)) == []


def test_a_database_is_judged_by_its_schema_and_its_readers(tmp_path: Path):
    path = tmp_path / "postroom.db"
    assert installation.database(path)[0].level == "ok", "it will be made"
    prepare_database(path)
    about, agents = installation.database(path)
    assert (about.level, "for its owner only" in about.says) == ("ok", True)
    assert [each.id for each in agents]
    path.chmod(0o644)
    assert installation.database(path)[0] == Finding(
        "database", "problem", f"{path} can be read by other users (644)", f"chmod 600 {path}"
    )


def test_a_newer_or_a_foreign_database_is_a_problem(tmp_path: Path):
    path = tmp_path / "postroom.db"
    prepare_database(path)
    conn = apsw.Connection(str(path))
    conn.execute("UPDATE meta SET value = '9999' WHERE key = 'schema_version'")
    conn.close()
    assert installation.database(path)[0].mend == "start the newer release again"
    other = tmp_path / "other.db"
    other.write_text("no database at all, " * 100)
    assert installation.database(other)[0].level == "problem"


@pytest.mark.parametrize(
    ("agent", "level", "word"),
    [
        (StoredAgent("a", "echo", {}), "ok", "a: echo"),
        (StoredAgent("a", "command", {"command": ["/bin/echo"]}), "ok", "a: command"),
        (StoredAgent("a", "command", {"command": ["no-such-program"]}), "problem", "is not installed"),
        (StoredAgent("a", "command", {}), "problem", "config"),
        (StoredAgent("a", "nobody", {}), "problem", "nobody"),
        (StoredAgent("a", "claude", {"program": "/no/such/claude"}), "problem", "/no/such/claude"),
    ],
)
def test_an_agent_whose_provider_can_not_work_here_is_a_problem(agent: StoredAgent, level: str, word: str):
    (found,) = installation.agents([agent])
    assert found.level == level
    assert word in found.says


@pytest.mark.parametrize(
    ("agent", "mend"),
    [
        (
            StoredAgent("a", "command", {"command": ["no-such-program"]}),
            "install the program, or name it in the config",
        ),
        (StoredAgent("a", "command", {}), "emulator agents set a --config JSON"),
        (StoredAgent("a", "nobody", {}), "emulator agents set a --provider NAME"),
    ],
)
def test_what_mends_an_agent_follows_from_what_is_wrong(agent: StoredAgent, mend: str):
    """Every agent was once to be made an ``echo``."""
    (found,) = installation.agents([agent])
    assert (found.mend or "").startswith(mend)


def test_a_wrong_setting_is_named_with_its_file_its_line_and_the_words_that_are_allowed():
    found = installation.load({"POSTROOM_NEW_CHATS": "x", **setting_places.variable({"POSTROOM_NEW_CHATS": ".env:7"})})
    assert isinstance(found, Finding)
    assert found.says == "settings: .env:7: POSTROOM_NEW_CHATS is none of the words 'refuse', 'ask' or 'wire'"
    of_shell = installation.load({"POSTROOM_NEW_CHATS": "y"})
    assert isinstance(of_shell, Finding)
    assert of_shell.says == "settings: POSTROOM_NEW_CHATS is none of the words 'refuse', 'ask' or 'wire'"


def test_a_program_without_a_leash_needs_the_token_of_the_api():
    agents = [StoredAgent("a", "command", {"command": ["/bin/echo"]})]
    found = installation.token(Settings(leash="off"), agents)
    assert (found.level, "the API refuses everybody" in found.says) == ("problem", True)
    assert installation.token(Settings(leash="off", api_token="x"), agents).level == "ok"
    assert installation.token(Settings(leash="off"), []).level == "ok"


def test_no_replica_is_a_warning_outside_the_emulator(tmp_path: Path):
    assert installation.replica(Settings(), None, is_running=False, url=None).level == "warning"
    assert installation.replica(Settings(), None, is_running=False, url="s3://b/p").level == "ok"
    assert installation.replica(Settings(), tmp_path, is_running=True, url=None).says.endswith("with the database")
