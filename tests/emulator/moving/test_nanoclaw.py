"""Each trap of a checkout of NanoClaw 2."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import apsw
import pytest

from emulator.base import errors
from emulator.moving import nanoclaw
from emulator.moving.move_plan import MovePlan
from emulator.moving.source import SourceFolder
from tests.emulator.moving.conftest import OPTIONS, Unpack
from tests.forks import FORKS, run_crew
from tests.other_user import become_nobody, needs_root

DATABASE = "data/v2.db"


@pytest.fixture
def checkout(unpack: Unpack) -> Path:
    return unpack("nanoclaw")


def read(checkout: Path, **options: Any) -> MovePlan:
    return nanoclaw.read(SourceFolder(checkout), OPTIONS._replace(**options))


def change(checkout: Path, *statements: str, database: str = DATABASE) -> None:
    """Change the sample's database, as another installation would have it."""
    conn = apsw.Connection(str(checkout / database))
    for sql in statements:
        conn.execute(sql)
    conn.close()


def told(plan: MovePlan, word: str) -> str:
    """The one line that names the word."""
    (found,) = [each for each in plan.left if word in f"{each.what} {each.why}"]
    return f"{found.what}: {found.why}"


def inbound(checkout: Path) -> str:
    """The database of the session that has the tasks."""
    return str(next(checkout.glob("data/v2-sessions/*/sess-1795333115058-*/inbound.db")).relative_to(checkout))


def test_what_only_the_log_beside_the_database_has_is_read(checkout: Path) -> None:
    assert (checkout / DATABASE).stat().st_size == 4096, "its rows are in the -wal"
    plan = read(checkout)
    assert plan.version == "2.0.64"
    assert list(plan.agents) == ["cli-with-ana", "dm-with-ana", "garage", "family", "research-mate"]
    assert plan.agents["garage"] == {
        "name": "Wrench", "provider": "claude", "model": "opus", "batch_size": 20, "timezone": "Europe/Berlin",
    }  # fmt: skip
    assert plan.agents["research-mate"]["instructions"] == "You look things up and say where you found them."


def test_the_folder_stays_as_it_was(checkout: Path) -> None:
    def state() -> dict[str, Any]:
        return {
            str(path): (path.lstat().st_mtime_ns, path.lstat().st_size, path.is_file() and digest(path))
            for path in [checkout, *checkout.rglob("*")]
        }

    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    before = state()
    read(checkout)
    assert state() == before


def test_the_prefix_of_an_id_is_cut_and_the_sign_says_what_a_group_is(checkout: Path) -> None:
    change(checkout, "UPDATE messaging_groups SET is_group = 1 WHERE platform_id = 'telegram:71000001'")
    chats = {(each["channel"], each["platformId"]): each for each in read(checkout).chats}
    assert [*chats] == [
        ("telegram", "71000001"),
        ("discord", "900000000000000200"),
        ("telegram", "-1001234500001"),
        ("telegram", "-1001234500002"),
    ]
    assert not chats["telegram", "71000001"]["isGroup"], "the program says 1 of everything"
    assert chats["telegram", "-1001234500002"]["refused"]
    assert chats["discord", "900000000000000200"]["senderPolicy"] == "public", "a person chose it there"


def test_a_chat_that_is_there_twice_is_one(checkout: Path) -> None:
    change(
        checkout,
        "INSERT INTO messaging_groups (id, channel_type, platform_id, is_group, created_at) "
        "VALUES ('mg-2', 'telegram', '71000001', 0, 'x')",
        "INSERT INTO messaging_group_agents (id, messaging_group_id, agent_group_id, created_at) "
        "SELECT 'mga-2', 'mg-2', id, 'x' FROM agent_groups WHERE folder = 'dm-with-ana'",
    )
    plan = read(checkout)
    assert sum(each["platformId"] == "71000001" for each in plan.chats) == 1
    assert sum(each["platformId"] == "71000001" for each in plan.wirings) == 1


def test_a_direct_chat_on_discord_is_named_by_its_channel(checkout: Path) -> None:
    change(checkout, "UPDATE messaging_groups SET platform_id = 'discord:@me:77' WHERE channel_type = 'discord'")
    chat = next(each for each in read(checkout).chats if each["channel"] == "discord")
    assert (chat["platformId"], chat["isGroup"]) == ("77", False)


def test_a_group_on_discord_has_a_session_for_each_thread(checkout: Path) -> None:
    modes = {each["agent"]: each["sessionMode"] for each in read(checkout).wirings if each["channel"] == "discord"}
    assert modes == {"garage": "per-thread", "dm-with-ana": "per-thread"}


@pytest.mark.parametrize("pattern", ["(?=x)y", "(a)\\1", "([a-"])
def test_a_pattern_that_cant_be_becomes_a_mention_and_never_everything(checkout: Path, pattern: str) -> None:
    change(checkout, f"UPDATE messaging_group_agents SET engage_mode = 'pattern', engage_pattern = '{pattern}'")
    plan = read(checkout)
    assert {each["engageMode"] for each in plan.wirings} == {"mention"}
    assert sum("the pattern of" in each.what for each in plan.left) == len(plan.wirings)


def test_a_pattern_of_nothing_is_every_text_and_an_unknown_mode_a_mention(checkout: Path) -> None:
    change(
        checkout,
        "UPDATE messaging_group_agents SET engage_pattern = NULL",
        "UPDATE messaging_group_agents SET engage_mode = 'always' WHERE engage_mode = 'mention'",
    )
    plan = read(checkout)
    direct, group, _ = plan.wirings
    assert (direct["engageMode"], direct["engagePattern"]) == ("pattern", ".")
    assert group["engageMode"] == "mention"
    assert "'always'" in told(plan, "the mode")


def test_channels_that_are_not_here_are_counted_and_never_made(checkout: Path) -> None:
    plan = read(checkout)
    assert {each["channel"] for each in [*plan.chats, *plan.users]} == {"telegram", "discord"}
    assert ": 1:" in told(plan, "chats of whatsapp")
    assert ": 2:" in told(plan, "people of whatsapp")


def test_only_people_with_rights_come_along_and_each_grant_once(checkout: Path) -> None:
    change(checkout, "INSERT INTO user_roles SELECT * FROM user_roles WHERE role = 'owner'")
    plan = read(checkout)
    assert {(each["channel"], each["senderId"]): (each["roles"], each["memberOf"]) for each in plan.users} == {
        ("telegram", "71000001"): ([{"role": "owner", "agent": None}], ["dm-with-ana"]),
        ("discord", "80000000000000001"): ([{"role": "admin", "agent": "garage"}], []),
    }
    assert plan.users[0]["directChat"] == {"channel": "telegram", "platformId": "71000001"}
    assert ": 2:" in told(plan, "without a role")


def test_a_user_who_is_named_after_a_display_name_does_not_come_along(checkout: Path) -> None:
    change(
        checkout,
        "PRAGMA foreign_keys = 0",
        "UPDATE users SET id = 'telegram:owner' WHERE id = 'telegram:71000001'",
        "UPDATE user_roles SET user_id = 'telegram:owner' WHERE user_id = 'telegram:71000001'",
    )
    plan = read(checkout)
    assert [each["senderId"] for each in plan.users] == ["80000000000000001"]
    assert "'owner' is no id of telegram" in told(plan, "telegram:owner")


def test_destinations_are_named_as_postroom_takes_them(checkout: Path) -> None:
    change(
        checkout,
        "UPDATE agent_destinations SET local_name = 'Chat 7' WHERE local_name = 'wrench'",
        "UPDATE agent_destinations SET target_id = agent_group_id WHERE local_name = 'parent'",
    )
    plan = read(checkout)
    assert [each["name"] for each in plan.destinations if each.get("toAgent")] == ["to-chat-7", "research-mate"]
    assert ": 3:" in told(plan, "destinations"), "two of other channels, and one to itself"


def test_a_folder_that_leads_out_is_not_followed(checkout: Path) -> None:
    (checkout / "secret.md").write_text("INVENTED-OUTSIDE")
    change(checkout, "UPDATE agent_groups SET folder = '../' WHERE folder = 'garage'")
    (checkout / "groups/family/link.md").symlink_to(checkout / "secret.md")
    (checkout / "groups/dm-with-ana/notes").symlink_to(checkout)
    plan = read(checkout)
    assert "leads out of groups/" in told(plan, "the folder '../'")
    assert [(each.agent, each.path) for each in plan.files] == [("dm-with-ana", "memory/people.md")]
    assert "it is a link" in told(plan, "groups/family/link.md")
    assert "it is a link" in told(plan, "groups/dm-with-ana/notes")


def test_files_that_cant_be_sent_are_told_before_anything_is_written(checkout: Path) -> None:
    folder = checkout / "groups/garage"
    (folder / "notes/CLAUDE.md").write_text("x")
    (folder / ".env").write_text("INVENTED-HIDDEN")
    (folder / "large.md").write_text("x" * 200_001)
    (folder / "huge.bin").write_bytes(b"\xff" * 900_000)
    (folder / "photo.jpg").write_bytes(b"\xff\xd8")
    plan = read(checkout)
    assert [each.path for each in plan.files if each.agent == "garage"] == ["notes/cars.md"]
    for name, why in {
        "notes/CLAUDE.md": "by themselves",
        "garage/.env": "hidden",
        "large.md": "200,000 characters",
        "huge.bin": "200,000 characters",
        "photo.jpg": "no text",
    }.items():
        assert why in told(plan, name)


def test_no_secret_is_in_the_plan_nor_what_a_stranger_wrote(checkout: Path) -> None:
    plan = read(checkout)
    everything = json.dumps([plan.body, plan.left, plan.files, plan.texts, plan.bots])
    assert "INVENTED" not in everything
    assert "may I come in" not in everything
    assert "TELEGRAM_BOT_TOKEN" in everything
    assert "mcp_servers" in told(plan, "of garage")
    assert plan.bots == ["telegram", "discord"]


def test_the_live_row_of_each_series_is_a_schedule(checkout: Path) -> None:
    found = {each["message"]: each for each in read(checkout).schedules}
    zone = {"timezone": "Europe/Berlin"}
    assert {text: (each["enabled"], each.get("cron"), each.get("runAt")) for text, each in found.items()} == {
        "Summarise my calendar": (True, "30 8 * * 1-5", None),
        "Water the plants": (False, "0 18 * * 0", None),
        "Renew the passport": (True, None, "2027-01-15T08:00:00.000Z"),
        "Look for new mail": (False, "*/15 * * * *", None),
    }
    assert zone.items() <= found["Summarise my calendar"].items()
    assert found["Look for new mail"]["script"].startswith("echo"), "paused, because it has a script"
    assert {each["chat"]["platformId"] for each in found.values()} == {"71000001"}


def test_a_dead_series_a_past_instant_and_a_broken_rhythm_are_told(checkout: Path) -> None:
    change(
        checkout,
        "UPDATE messages_in SET status = 'failed' WHERE content LIKE '%calendar\",\"script%'",
        "UPDATE messages_in SET process_after = '2026-11-22T08:00:00.000Z' WHERE content LIKE '%passport\",\"script%'",
        "UPDATE messages_in SET recurrence = '0 25 * * *' WHERE content LIKE '%plants\",\"script%'",
        database=inbound(checkout),
    )
    plan = read(checkout)
    assert [each["message"] for each in plan.schedules] == ["Look for new mail"]
    assert "NanoClaw ended it" in told(plan, "its last run failed")
    assert "2026-11-22T08:00:00.000Z" in told(plan, "which is past")
    assert "0 25" in told(plan, "Water the plants")


def test_without_a_zone_nothing_is_guessed(checkout: Path) -> None:
    (checkout / ".env").write_text("A=1\n")
    with pytest.raises(errors.UsageError, match="--timezone"):
        read(checkout)
    assert {each.get("timezone") for each in read(checkout, timezone="Asia/Tokyo").schedules} == {"Asia/Tokyo", None}


def test_messages_that_wait_are_counted_and_shown_only_when_asked(checkout: Path) -> None:
    plan = read(checkout)
    assert ": 2:" in told(plan, "messages that wait"), "context is not among them"
    assert [text.rpartition(": ")[2] for text in plan.texts] == ["HANG on this one", "and this waits behind it"]


def test_a_prefix_keeps_folders_and_schedules_apart_too(checkout: Path) -> None:
    plan = read(checkout, prefix="old-")
    assert list(plan.agents)[:2] == ["old-cli-with-ana", "old-dm-with-ana"]
    assert not any("folder" in agent for agent in plan.agents.values()), "it is the one of the new id"
    assert all(each["label"].startswith("old-task-") for each in plan.schedules)
    assert not any("no agent of the database" in each.why for each in plan.left)


def test_a_task_without_a_text_is_told(checkout: Path) -> None:
    change(
        checkout,
        "UPDATE messages_in SET content = '{broken' WHERE content LIKE '%plants\",\"script%'",
        database=inbound(checkout),
    )
    assert "none that can be read" in told(read(checkout), "has no text")


def test_a_database_from_before_the_modes_of_wirings_lets_nobody_more_in(checkout: Path) -> None:
    names = ("engage_mode", "engage_pattern", "sender_scope", "ignored_message_policy")
    change(checkout, *(f"ALTER TABLE messaging_group_agents DROP COLUMN {name}" for name in names))
    change(checkout, "ALTER TABLE messaging_groups DROP COLUMN denied_at")
    assert {(each["engageMode"], each["senderScope"]) for each in read(checkout).wirings} == {("mention", "known")}


@needs_root
def test_what_this_user_may_not_read_is_told_and_of_all_refused(checkout: Path) -> None:
    (checkout / "groups/garage/notes").chmod(0o700)
    hidden = FORKS.Process(target=read_as_nobody, args=(checkout, "notes: this user may not read it"))
    assert run_crew([hidden]) == [0]
    (checkout / f"{DATABASE}-wal").chmod(0o600)
    refused = FORKS.Process(target=read_as_nobody, args=(checkout, "v2.db-wal can't be read (Permission denied)"))
    assert run_crew([refused]) == [0]


def read_as_nobody(checkout: Path, said: str) -> None:
    os.chdir(checkout)  # the folders above are root's alone
    become_nobody()
    try:
        found = [f"{each.what}: {each.why}" for each in read(Path()).left]
    except errors.InvalidInput as error:
        found = [str(error)]
    assert any(said in each for each in found), found


def test_a_torn_database_of_a_session_is_told_and_of_all_refused(checkout: Path) -> None:
    (checkout / inbound(checkout)).write_bytes(b"")
    other = next(checkout.glob("data/v2-sessions/*/sess-1795333119242-*/inbound.db"))
    other.write_bytes(other.read_bytes()[:5000])
    plan = read(checkout)
    assert not plan.schedules
    assert "has no rows" in told(plan, "sess-1795333115058")
    assert "can't be read" in told(plan, "sess-1795333119242")
    for end in ("", "-wal"):
        (checkout / f"{DATABASE}{end}").write_bytes(b"nonsense" * 1000)
    with pytest.raises(errors.InvalidInput, match="copy the folder again"):
        read(checkout)


def test_a_newer_version_says_so(checkout: Path) -> None:
    change(checkout, "INSERT INTO schema_version (version, name, applied) VALUES (14, 'tasks-of-tomorrow', 'x')")
    assert "tasks-of-tomorrow" in told(read(checkout), "since 2.0.64")


def test_of_an_upgraded_checkout_the_newer_database_counts(checkout: Path) -> None:
    (checkout / "store").mkdir()
    (checkout / "store/messages.db").write_bytes(b"")
    plan = read(checkout)
    assert len(plan.agents) == 5
    assert "the newer database counts" in told(plan, "store/messages.db")


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.DoesNotExist, match="no checkout of NanoClaw"):
        read(tmp_path)
