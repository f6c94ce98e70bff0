"""A function gets the variables of the template and of the project, and none of the shell."""

from pathlib import Path

import pytest

from emulator.base import environment
from emulator.base.environment import EnvSetting
from emulator.base.errors import Misconfigured, Unsafe
from shared.core import setting_places

SHELL = {
    "PATH": "/bin",
    "HOME": "/home/ada",
    "AWS_CA_BUNDLE": "/ca.pem",
    "AWS_PROFILE": "production",
    "AWS_SECRET_ACCESS_KEY": "real",
    "HTTPS_PROXY": "http://proxy",
    "TELEGRAM_BOT_TOKEN": "real",
    "POSTROOM_DB": "/var/lib/postroom.db",
}
TELEGRAM_LIKE = "8123456789:" + "AAFdEXAMPLEexampleEXAMPLEexample_-0"


def test_only_the_basic_variables_of_the_shell_reach_a_child() -> None:
    made = environment.for_function(SHELL, {}, {}, [], {})

    assert made == {"PATH": "/bin", "HOME": "/home/ada", "PYTHONUNBUFFERED": "1"}


def test_later_sources_win_and_the_emulators_own_variables_win_always() -> None:
    made = environment.for_function(
        {},
        {"A": "template", "B": "template", "C": "template", "D": "template"},
        {"B": "emulator", "C": "emulator", "D": "emulator"},
        [
            EnvSetting("C", "file", ".env:1"),
            EnvSetting("D", "file", ".env:2"),
            EnvSetting("AWS_REGION", "eu-west-1", ".env:3"),
        ],
        {"D": "own"},
    )

    places = setting_places.variable({"C": ".env:1"})  # of those that count
    assert made == {"A": "template", "B": "emulator", "C": "file", "D": "own", "PYTHONUNBUFFERED": "1", **places}


def test_choices_of_the_shell_win_over_files() -> None:
    made = environment.for_function(
        {"POSTROOM_DURABILITY": "replicated"},
        {"POSTROOM_DURABILITY": "local"},
        {},
        [EnvSetting("POSTROOM_DURABILITY", "local", ".env:1")],
        {},
    )

    assert made["POSTROOM_DURABILITY"] == "replicated"


def test_the_caller_names_what_else_is_taken_from_the_shell() -> None:
    shell = {"POSTROOM_OPENAI_API_KEY": "k", "POSTROOM_DURABILITY": "replicated", "POSTROOM_OTHER": "x"}
    made = environment.for_function(shell, {}, {}, [], {}, (*environment.FROM_SHELL, "POSTROOM_OPENAI_API_KEY"))

    assert made == {
        "POSTROOM_OPENAI_API_KEY": "k", "POSTROOM_DURABILITY": "replicated", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def test_the_relay_reads_the_files_and_the_emulators_own_variables_win() -> None:
    files = [EnvSetting("DISCORD_RELAY_CONTENT", "1", ".env:1"), EnvSetting("AWS_REGION", "eu-west-1", ".env:2")]
    files += [EnvSetting("DISCORD_BOT_TOKEN", "another", ".env:3")]
    made = environment.for_relay(SHELL, files, {"DISCORD_BOT_TOKEN": "fake"})

    shell = {"PATH": "/bin", "HOME": "/home/ada", "PYTHONUNBUFFERED": "1"}
    assert made == shell | {"DISCORD_RELAY_CONTENT": "1", "DISCORD_BOT_TOKEN": "fake"}


@pytest.mark.parametrize(
    "value",
    [
        "arn:aws:s3:::bucket",
        "https://queue.us-east-1.amazonaws.com/x",
        "${ReplicaBucket}",
        "{{resolve:secretsmanager:postroom}}",
    ],
)
def test_values_that_point_into_a_cloud_stay_in_the_template(value: str) -> None:
    assert "X" not in environment.for_function({}, {"X": value}, {}, [], {})


def test_settings_are_read_from_both_files_in_order(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# comment\n\nexport A=1\nB = 'two words'\nC=3 # why\n")
    (tmp_path / ".env.local").write_text('A="4"\n')

    found = environment.read_files(tmp_path)

    assert [(item.name, item.value, item.where) for item in found] == [
        ("A", "1", ".env:3"), ("B", "two words", ".env:4"), ("C", "3", ".env:5"), ("A", "4", ".env.local:1"),
    ]  # fmt: skip


def test_unreadable_lines_are_all_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\nwhat is this\n2=3\n")

    with pytest.raises(Misconfigured, match=r"\.env:2.*\n\.env:3") as refused:
        environment.read_files(tmp_path)
    assert refused.value.exit_code == 78


@pytest.mark.parametrize("line", [f"TELEGRAM_BOT_TOKEN={TELEGRAM_LIKE}", f"MY_NOTES='old: {TELEGRAM_LIKE}'"])
def test_a_live_looking_token_is_refused_and_not_repeated(tmp_path: Path, line: str) -> None:
    (tmp_path / ".env").write_text(f"A=1\n{line}\n")

    with pytest.raises(Unsafe) as refused:
        environment.read_files(tmp_path)

    assert ".env:2" in str(refused.value)
    assert TELEGRAM_LIKE not in str(refused.value)
    assert refused.value.exit_code == 77


def test_a_setting_without_effect_is_reported() -> None:
    (said,) = environment.ignored(
        [EnvSetting("POSTROOM_DB", "/x", ".env:7"), EnvSetting("A", "1", ".env:8")], {"POSTROOM_DB": ""}
    )

    assert said.startswith(".env:7: POSTROOM_DB")


def test_settings_of_the_shell_without_an_effect_are_told() -> None:
    known = {"POSTROOM_DB", "POSTROOM_TIMEZONE", "POSTROOM_NEW_CHATS", "TELEGRAM_*_BOT_TOKEN", "AWS_REGION"}
    effective = {"POSTROOM_DB": "/own.db", "POSTROOM_NEW_CHATS": "wire"}
    shell = {
        "POSTROOM_DURABILITY": "replicated",  # is taken
        "POSTROOM_NEW_CHATS": "wire",  # a file says the same
        "POSTROOM_URL": "http://127.0.0.1:3777",  # no setting of a function
        "AWS_REGION": "x",
        "HOME": "/home/ana",
    }
    assert environment.ignored_of_shell(shell, effective, known) == []
    shell |= {"POSTROOM_TIMEZONE": "Europe/Zurich", "TELEGRAM_SALES_BOT_TOKEN": "secret", "POSTROOM_DB": "/x"}
    (said,) = environment.ignored_of_shell(shell, effective, known | {"POSTROOM_DURABILITY"})
    assert said.startswith("of this shell POSTROOM_DB, POSTROOM_TIMEZONE, TELEGRAM_SALES_BOT_TOKEN have no effect here")
    assert "secret" not in said


def test_an_unknown_setting_is_told_with_the_nearest_known_name() -> None:
    known = {"POSTROOM_UNKNOWN_SENDS", "POSTROOM_TIMEZONE", "TELEGRAM_BOT_USERNAME"}
    files = [
        EnvSetting("POSTROOM_UNKOWN_SENDS", "hold", ".env:1"),
        EnvSetting("TIMEZONE", "UTC", ".env:2"),
        EnvSetting("postroom_timezone", "UTC", ".env:3"),
        EnvSetting("AWS_REGION", "x", ".env:4"),
        EnvSetting("COLOUR", "red", ".env.local:1"),
    ]

    assert environment.unknown(files, known) == [
        ".env:1: POSTROOM_UNKOWN_SENDS is no setting of a function, and nothing here reads it; did you mean "
        "POSTROOM_UNKNOWN_SENDS?",
        ".env:2: TIMEZONE is no setting of a function, and nothing here reads it; did you mean POSTROOM_TIMEZONE?",
        ".env.local:1: COLOUR is no setting of a function, and nothing here reads it",
    ]
