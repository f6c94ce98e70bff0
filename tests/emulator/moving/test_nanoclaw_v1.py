"""Each trap of a checkout of NanoClaw before version 2."""

import json
from pathlib import Path

import pytest

from emulator.base import errors
from emulator.moving import nanoclaw
from emulator.moving.move_plan import MovePlan
from emulator.moving.source import SourceFolder
from tests.emulator.moving.conftest import OPTIONS, Unpack
from tests.emulator.moving.test_nanoclaw import change, told

DATABASE = "store/messages.db"
GROUP = "tg:-1001234500009"


@pytest.fixture
def checkout(unpack: Unpack) -> Path:
    return unpack("nanoclaw-v1")


def read(checkout: Path, allowlist: Path | None = None) -> MovePlan:
    return nanoclaw.read(SourceFolder(checkout), OPTIONS._replace(allowlist=allowlist))


def test_a_group_is_an_agent_a_chat_and_a_wiring(checkout: Path) -> None:
    plan = read(checkout)
    assert plan.version == "1.2.53"
    assert list(plan.agents) == ["main", "whatsapp_family", "telegram_book-club", "discord_garage"]
    assert [(each["channel"], each["platformId"], each["isGroup"]) for each in plan.chats] == [
        ("telegram", "-1001234500009", True),
        ("discord", "930000000000000300", True),
    ]
    assert ": 2:" in told(plan, "chats of whatsapp")


def test_the_trigger_is_literal_text_in_any_case(checkout: Path) -> None:
    change(checkout, f"UPDATE registered_groups SET trigger_pattern = '@A.(x' WHERE jid = '{GROUP}'", database=DATABASE)
    wiring = read(checkout).wirings[0]
    assert (wiring["engageMode"], wiring["engagePattern"]) == ("pattern", r"(?i)^@A\.\(x\b")
    assert wiring["ignoredMessagePolicy"] == "accumulate"


def test_requires_trigger_of_nothing_counts_as_yes_and_of_no_never_means_everything_in_a_group(checkout: Path) -> None:
    change(checkout, "UPDATE registered_groups SET requires_trigger = NULL", database=DATABASE)
    assert {each["engageMode"] for each in read(checkout).wirings} == {"pattern"}
    change(checkout, "UPDATE registered_groups SET requires_trigger = 0", database=DATABASE)
    plan = read(checkout)
    assert {each["engageMode"] for each in plan.wirings} == {"mention"}
    assert sum("answers everything" in each.what for each in plan.left) == 2


def test_everybody_there_is_nobody_new_here(checkout: Path) -> None:
    plan = read(checkout, checkout.parent / ".config/nanoclaw/sender-allowlist.json")
    assert {each["senderPolicy"] for each in plan.chats} == {"request_approval"}
    assert not plan.users
    assert sum("everybody may talk" in each.what for each in plan.left) == 2


def test_a_list_of_senders_becomes_members(checkout: Path, tmp_path: Path) -> None:
    for mode, policy, scope in (("drop", "strict", "all"), ("trigger", "request_approval", "known")):
        listed = tmp_path / "list.json"
        listed.write_text(json.dumps({"chats": {GROUP: {"allow": ["tg:51000001"], "mode": mode}}}))
        plan = read(checkout, listed)
        assert (plan.chats[0]["senderPolicy"], plan.wirings[0]["senderScope"]) == (policy, scope)
        assert [(each["channel"], each["senderId"], each["memberOf"]) for each in plan.users] == [
            ("telegram", "51000001", ["telegram_book-club"])
        ]
    listed.write_text("{")
    with pytest.raises(errors.InvalidInput, match="no sender-allowlist"):
        read(checkout, listed)


def test_the_main_group_s_rights_go_to_nobody(checkout: Path) -> None:
    plan = read(checkout)
    assert not any(each["roles"] for each in plan.users)
    assert "emulator pair" in next(each.do for each in plan.left if "main group" in each.what)


def test_tasks_with_a_chat_of_ours_are_schedules(checkout: Path) -> None:
    change(
        checkout,
        f"UPDATE scheduled_tasks SET chat_jid = '{GROUP}'",
        "UPDATE scheduled_tasks SET schedule_value = '2027-01-15T09:00:00' WHERE schedule_type = 'once'",
        database=DATABASE,
    )
    plan = read(checkout)
    found = {
        each["message"]: (each["agentId"], each["enabled"], each.get("cron") or each["runAt"], each["isOwnSession"])
        for each in plan.schedules
    }
    assert found == {
        "Summarise the family chat": ("whatsapp_family", True, "0 8 * * 1-5", False),
        "Check the oven": ("main", False, "0 * * * *", True),
        "Passport": ("main", True, "2027-01-15T09:00:00.000Z", True),
        "Book club reminder": ("telegram_book-club", True, "30 19 * * 4#1", True),
        "with a script": ("main", False, "*/5 * * * *", True),
    }
    assert {each["timezone"] for each in plan.schedules if "cron" in each} == {"Europe/Lisbon"}
    assert {each["agent"] for each in plan.destinations} == {"whatsapp_family", "main"}, "they may send there"


def test_an_interval_without_a_grid_a_past_instant_and_a_foreign_folder_are_told(checkout: Path) -> None:
    change(
        checkout,
        f"UPDATE scheduled_tasks SET chat_jid = '{GROUP}'",
        "UPDATE scheduled_tasks SET schedule_value = '420000' WHERE schedule_type = 'interval'",
        "UPDATE scheduled_tasks SET next_run = '2026-11-22T09:00:00Z' WHERE schedule_type = 'once'",
        "UPDATE scheduled_tasks SET group_folder = 'gone' WHERE prompt LIKE 'Summarise%'",
        "UPDATE scheduled_tasks SET schedule_value = '30 0 19 * * 4' WHERE id = 'task-fixed-book'",
        database=DATABASE,
    )
    plan = read(checkout)
    assert [each["message"] for each in plan.schedules] == ["with a script"]
    assert "does not divide an hour" in told(plan, "Check the oven")
    assert "which is past" in told(plan, "Passport")
    assert "no group has the folder 'gone'" in told(plan, "Summarise")
    assert "seconds" in told(plan, "Book club")


def test_their_own_text_becomes_instructions_and_their_files_come_along(checkout: Path) -> None:
    (checkout / "groups/global/CLAUDE.md").write_text("Be kind to all.")
    (checkout / "groups/telegram_book-club/CLAUDE.md").write_text("You love books.")
    plan = read(checkout)
    assert plan.agents["telegram_book-club"]["instructions"] == "You love books.\n\nBe kind to all."
    assert "Be kind to all." not in plan.agents["main"]["instructions"]
    assert [(each.agent, each.path) for each in plan.files] == [("whatsapp_family", "recipes/soup.md")]


def test_what_was_not_answered_and_what_was_lost_is_counted(checkout: Path) -> None:
    plan = read(checkout)
    assert ": 1:" in told(plan, "after the last")
    assert ": 2:" in told(plan, "messages in data/ipc")
    assert plan.texts == ["dc:930000000000000300, perhaps not answered: FAIL please"]


def test_broken_settings_of_a_container_are_told_and_no_secret_comes_along(checkout: Path) -> None:
    change(
        checkout, "UPDATE registered_groups SET container_config = '{broken' WHERE folder = 'main'", database=DATABASE
    )
    plan = read(checkout)
    assert "no JSON" in told(plan, "container_config of main")
    assert "INVENTED" not in json.dumps([plan.body, plan.left, plan.files, plan.texts])
