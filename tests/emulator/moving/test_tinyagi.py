"""Each trap of a home of TinyAGI, and of TinyClaw before it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from emulator.base import errors
from emulator.moving import tinyagi
from emulator.moving.move_plan import MovePlan
from emulator.moving.source import SourceFolder
from tests.emulator.moving.conftest import OPTIONS, Unpack
from tests.emulator.moving.test_nanoclaw import told


@pytest.fixture
def home(unpack: Unpack) -> Path:
    return unpack("tinyagi")


def read(home: Path, zone: str | None = "Europe/Zurich", **options: Any) -> MovePlan:
    return tinyagi.read(SourceFolder(home), OPTIONS._replace(timezone=zone, **options))


def settings(home: Path, **changes: Any) -> None:
    """Change the settings of the sample."""
    path = home / ".tinyagi/settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def schedules(home: Path, *given: dict[str, Any]) -> None:
    (home / ".tinyagi/schedules.json").write_text(json.dumps(given))


def test_the_home_and_the_folder_in_it_are_the_same(home: Path) -> None:
    assert read(home) == read(home / ".tinyagi")
    assert len(read(home).files) == 6


def test_agents_keep_their_texts_in_the_order_of_the_prompt(home: Path) -> None:
    found = json.loads((home / ".tinyagi/settings.json").read_text())
    found["agents"]["coder"]["system_prompt"] = "From the settings."
    found["agents"]["writer"] |= {"system_prompt": "no", "prompt_file": "/home/user/tinyagi-workspace/style.md"}
    found["agents"]["tinyagi"]["prompt_file"] = "/etc/hostname"
    settings(home, **found)
    (home / "tinyagi-workspace/style.md").write_text("Style.")
    plan = read(home)
    texts = {id_: agent.get("instructions") for id_, agent in plan.agents.items()}
    assert texts["coder"] == "You are a careful programmer.\nWrite tests first.\n\nFrom the settings."
    assert texts["writer"] == "You write short, plain English.\n\nStyle."
    assert texts["tinyagi"] is None
    assert "/etc/hostname is not in the folder" in told(plan, "the prompt_file of 'tinyagi'")


def test_ids_are_made_to_fit_and_told(home: Path) -> None:
    found = json.loads((home / ".tinyagi/settings.json").read_text())
    settings(home, agents={"Büro 1": {}, "buro-1": {}, "..": {}, "user": {}, **found["agents"]})
    plan = read(home)
    assert list(plan.agents)[:4] == ["buro-1", "buro-1-2", "agent", "user-2"]
    assert "'buro-1'" in told(plan, "the id 'Büro 1'")


def test_a_prefix_keeps_ids_apart_from_those_that_are_here(home: Path) -> None:
    plan = read(home, prefix="old-")
    assert list(plan.agents) == ["old-tinyagi", "old-coder", "old-writer", "old-researcher", "old-scout"]
    assert plan.teams["old-dev"]["agents"] == ["old-coder", "old-writer"]
    assert plan.schedules[0]["label"] == "old-daily-summary"
    assert told(plan, "the id 'dev'") == "the id 'dev': it is 'old-dev' here"


def test_a_provider_that_is_not_here_is_never_silently_another(home: Path) -> None:
    settings(home, agents={"a": {"provider": "gemini"}, "b": {"provider": "custom:gone"}, "c": {}})
    plan = read(home)
    assert list(plan.agents) == ["c"]
    assert "no provider 'gemini'" in told(plan, "the agent 'a'")
    assert "'custom:gone' is gone" in told(plan, "the agent 'b'")


def test_a_model_server_of_one_s_own_is_told_without_its_key(home: Path) -> None:
    plan = read(home)
    assert (plan.agents["researcher"]["provider"], plan.agents["researcher"]["model"]) == ("claude", "qwen-14b")
    assert "127.0.0.1" in told(plan, "the model server")


def test_memory_comes_along_with_an_index_and_nothing_outside_is_copied(home: Path) -> None:
    found = json.loads((home / ".tinyagi/settings.json").read_text())
    found["agents"]["coder"]["working_directory"] = "/home/user/projects/site"
    settings(home, **found)
    workspace = home / "tinyagi-workspace"
    (workspace / "writer/memory/people/plain.md").write_text("no front matter, and still the user's\n")
    (workspace / "writer/memory/link.md").symlink_to("/etc/hostname")
    plan = read(home)
    files = {(each.agent, each.path): each.text for each in plan.files}
    assert list(files) == [
        ("coder", "memory/projects/website.md"),
        ("coder", "MEMORY.md"),
        ("writer", "memory/people/ben.md"),
        ("writer", "memory/people/plain.md"),
        ("writer", "MEMORY.md"),
        ("researcher", "memory/topics/trains/night.md"),
        ("researcher", "MEMORY.md"),
    ]
    assert files["writer", "MEMORY.md"] == (
        'What you know:\n- memory/people/ben.md: Ben likes short mails & "quotes".\n'
    )
    assert "/home/user/projects/site" in told(plan, "the working directory")
    assert "it is a link" in told(plan, "memory/link.md")


def test_folders_of_agents_that_are_elsewhere_are_told(home: Path) -> None:
    shutil.rmtree(home / "tinyagi-workspace")
    plan = read(home)
    assert not plan.files
    assert "has no such folder" in told(plan, "in tinyagi-workspace")


def test_another_soul_is_told_and_the_bundled_one_is_not(home: Path) -> None:
    assert not any("SOUL" in each.what for each in read(home).left)
    (home / "tinyagi-workspace/writer/.tinyagi/SOUL.md").write_text("I am Writer.")
    assert "it differs" in told(read(home), "SOUL.md of 'writer'")


def test_teams_lose_members_that_are_gone_and_take_no_id_of_an_agent(home: Path) -> None:
    settings(
        home,
        teams={
            "coder": {"name": "C", "agents": ["coder"], "leader_agent": "coder"},
            "half": {"name": "H", "agents": ["ghost", "writer"], "leader_agent": "ghost"},
            "none": {"name": "N", "agents": ["ghost"], "leader_agent": "ghost"},
        },
    )
    plan = read(home)
    assert {id_: (team["agents"], team["leader"]) for id_, team in plan.teams.items()} == {
        "coder-2": (["coder"], "coder"),
        "half": (["writer"], "writer"),
    }
    assert "none of its agents" in told(plan, "the team 'none'")


def test_people_reach_their_own_agent_and_a_discord_user_has_no_chat_yet(home: Path) -> None:
    found = json.loads((home / ".tinyagi/settings.json").read_text())["channels"]
    settings(home, channels={**found, "defaults": {"51000001": "press"}})
    plan = read(home)
    assert [(each["channel"], each["senderId"], each["memberOf"], each["roles"]) for each in plan.users] == [
        ("telegram", "51000001", ["writer"], []),
        ("discord", "80000000000000001", ["tinyagi"], []),
        ("discord", "80000000000000013", ["tinyagi"], []),
    ]
    assert plan.chats == [{"channel": "telegram", "platformId": "51000001", "name": "Ana Keller"}]
    assert plan.wirings == [{"channel": "telegram", "platformId": "51000001", "agent": "writer"}]
    assert ": 1:" in told(plan, "people of whatsapp")
    assert "emulator pair" in next(each.do for each in plan.left if each.what == "an owner")
    assert sum("on Discord" in each.what for each in plan.left) == 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"enabled": True, "interval": 7200}, 7200),
        ({"enabled": False, "interval": 7200}, None),
        ({}, 1800),
        ({"interval": 420}, None),
        ({"interval": 90}, None),
    ],
)
def test_a_heartbeat_is_on_unless_it_is_off_and_only_on_a_grid(
    home: Path, given: dict[str, Any], expected: int | None
) -> None:
    settings(home, agents={"a": {"heartbeat": given}}, monitoring={"heartbeat_interval": 1800})
    plan = read(home)
    assert plan.heartbeats.get("a", {}).get("interval") == expected
    assert any("the heartbeat of" in each.what for each in plan.left) is (given.get("interval") in (420, 90))


def test_schedules_are_told_in_five_fields_or_not_at_all(home: Path) -> None:
    def each(label: str, cron: str) -> dict[str, Any]:
        return {"label": label, "cron": cron, "agentId": "coder", "message": "go", "channel": "schedule"}

    schedules(
        home,
        each("six", "0 */15 6-22 * * *"),
        each("seven", "0 0 9 * * 1 *"),
        each("daily", "@daily"),
        each("either", "0 9 1 * 1"),
        each("seconds", "*/15 * * * * *"),
        each("years", "0 0 9 * * 1 2027"),
        each("last weekday", "0 17 LW * *"),
    )
    plan = read(home)
    assert {each["label"]: each["cron"] for each in plan.schedules} == {
        "six": "*/15 6-22 * * *",
        "seven": "0 9 * * 1",
        "daily": "@daily",
        "either": "0 9 1 * 1",
    }
    assert "seconds" in told(plan, "'seconds'")
    assert "years" in told(plan, "'years'")
    assert "can't be used" in told(plan, "'last weekday'")


def test_what_is_past_is_told_and_not_run_and_an_agent_that_is_gone_too(home: Path) -> None:
    plan = read(home)
    assert [each["label"] for each in plan.schedules] == [
        *("daily-summary", "monthly-deps", "friday-ping", "every-15s", "staging-deploy"),
    ]
    assert not plan.schedules[1]["enabled"]
    assert plan.schedules[4]["runAt"] == "2027-01-15T09:00:00.000Z"
    assert "it has run" in told(plan, "'fired-once'")
    assert "'ghost'" in told(plan, "'orphan'")
    schedules(home, {"label": "missed", "runAt": "2026-11-22T10:00:00+01:00", "agentId": "coder", "message": "go"})
    assert "2026-11-22T09:00:00.000Z, which is past; it was missed" in told(read(home), "'missed'")


def test_without_a_zone_only_schedules_that_need_none_are_taken(home: Path) -> None:
    with pytest.raises(errors.UsageError, match="--timezone"):
        read(home, zone=None)
    schedules(home, {"label": "twice a day", "cron": "0 */12 * * *", "agentId": "coder", "message": "go"})
    with pytest.raises(errors.UsageError, match="--timezone"):
        read(home, zone=None)
    schedules(home, {"label": "often", "cron": "*/30 * * * *", "agentId": "coder", "message": "go"})
    assert read(home, zone=None).schedules[0]["timezone"] == "UTC"


def test_answers_reach_nobody_unless_a_chat_is_named(home: Path) -> None:
    plan = read(home)
    assert not any("chat" in each for each in plan.schedules)
    assert "identifies nobody" in told(plan, "who gets the answers of 'friday-ping'")
    plan = read(home, answers=("telegram", "51000001"))
    assert {each["chat"]["platformId"] for each in plan.schedules} == {"51000001"}
    assert {each["agent"] for each in plan.destinations} == {"writer", "tinyagi", "scout"}, (
        "coder answers there already"
    )
    assert not any("who gets the answers" in each.what for each in plan.left)


def test_nothing_of_the_queue_is_moved_in_and_everything_is_counted(home: Path) -> None:
    plan = read(home)
    assert ": 4:" in told(plan, "messages that wait or run")
    assert ": 1:" in told(plan, "dead messages")
    assert "never sent" in told(plan, "answers on discord")
    assert ": 48:" in told(plan, "lines of history")
    assert "third" in "".join(plan.texts)
    assert {each["label"] for each in plan.schedules} <= {each["label"] for each in plan.body["schedules"]}


def test_no_secret_is_in_the_plan(home: Path) -> None:
    plan = read(home)
    everything = json.dumps([plan.body, plan.left, plan.files, plan.texts, plan.bots])
    assert "INVENTED" not in everything
    assert "MFZLEKZ4" not in everything, "a pairing code"
    assert plan.bots == ["telegram", "discord"]
    assert "models.anthropic.oauth_token, models.openai.api_key" in told(plan, "oauth_token")
    assert "it may still run" in told(plan, "tinyagi.pid")


def test_settings_without_agents_or_that_are_no_json_are_not_an_empty_house(home: Path) -> None:
    path = home / ".tinyagi/settings.json"
    path.write_text("{}")
    with pytest.raises(errors.InvalidInput, match="names no agents"):
        read(home)
    path.write_text("{broken")
    with pytest.raises(errors.InvalidInput, match="is not JSON"):
        read(home)
    path.unlink()
    with pytest.raises(errors.DoesNotExist, match="no home of TinyAGI"):
        read(home)


def test_of_an_updated_home_the_newer_folder_counts(home: Path) -> None:
    shutil.copytree(home / ".tinyagi", home / ".tinyclaw")
    plan = read(home)
    assert plan.source == "tinyagi"
    assert "is newer" in told(plan, ".tinyclaw")


@pytest.mark.parametrize("version", ["0.0.7", "0.0.5"])
def test_tinyclaw_s_schedules_are_in_the_crontab(unpack: Unpack, version: str) -> None:
    home = unpack(f"tinyclaw-{version}")
    plan = read(home, "Asia/Kolkata", crontab=home / "crontab.txt")
    assert plan.source == "tinyclaw"
    assert [(each["label"], each["agentId"], each["message"], each["cron"]) for each in plan.schedules] == [
        ("metrics", "reviewer", "Check metrics", "*/30 * * * *")
    ]
    assert "it never worked" in told(plan, "'daily-tests'"), "of its quotes"
    assert "'ghost'" in told(plan, "'new-year'")
    assert plan.agents["coder"]["instructions"] == "You write code.", "AGENTS.md is the program's own"
    assert plan.wirings[0]["agent"] == "default"
    assert plan.heartbeats["coder"]["interval"] == 3600
    assert ": 1:" in told(plan, "wait for a pairing")


def test_without_the_crontab_tinyclaw_s_schedules_are_told(unpack: Unpack) -> None:
    home = unpack("tinyclaw-0.0.7")
    plan = read(home, "Asia/Kolkata")
    assert not plan.schedules
    assert ": 3:" in told(plan, "schedule-jobs")


def test_a_line_without_a_script_and_a_script_without_a_line_are_told(unpack: Unpack) -> None:
    home = unpack("tinyclaw-0.0.7")
    (home / ".tinyclaw/schedule-jobs/metrics.sh").rename(home / ".tinyclaw/schedule-jobs/other.sh")
    (home / "crontab.txt").write_text(
        (home / "crontab.txt").read_text() + "@reboot /x/schedule-jobs/other2.sh # nothing\n"
    )
    plan = read(home, "Asia/Kolkata", crontab=home / "crontab.txt")
    assert "its script is gone" in told(plan, "'metrics'")
    assert "never ran" in told(plan, "'other'")


def test_the_queue_of_files_of_the_oldest_version_is_counted(unpack: Unpack) -> None:
    plan = read(unpack("tinyclaw-0.0.5"), "Asia/Kolkata")
    assert ": 7:" in told(plan, "messages that wait")
    assert ": 1:" in told(plan, "messages that ran")
