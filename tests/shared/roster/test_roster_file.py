"""The operator's file: what a new database takes from it, and what is said when the two don't agree."""

from pathlib import Path

import pytest

from shared.core.errors import ConfigInvalid
from shared.core.settings import Settings
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.roster import accounts, agents, teams
from shared.roster import roster_file
from shared.roster.new_database import prepare_database
from shared.roster.roster_file import Roster, RosterDifference
from tests.forks import FORKS, run_crew
from tests.support import NOW, dump, make_agent

FILE = """
default = "reviewer"

[agents.coder]
name = "Coder"
model = "big"
folder = "code"
instructions = '''
Write code.
'''
config = {deep = {deeper = [1, 2]}}
concurrency = 3
timezone = "Europe/Zurich"
turn_timeout_ms = 60_000
batch_size = 4

[agents.reviewer]

[teams.dev]
name = "Developers"
leader = "reviewer"
agents = ["coder", "reviewer"]
"""


@pytest.fixture
def file(tmp_path):
    """Writes the file."""

    def write(text=FILE):
        path = tmp_path / "postroom.toml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def bare(conn):
    """A database that has no agent yet."""
    with transaction(conn):
        rows(conn, "DELETE FROM agents")
    return conn


def begin(conn, path, timezone="Asia/Tokyo"):
    with transaction(conn):
        roster_file.create_first_agents(conn, path, timezone=timezone, now_ms=NOW)


# -- the beginning


def test_a_new_database_gets_the_agents_of_the_file(bare, file):
    begin(bare, file())

    coder, reviewer = agents.every(bare)
    assert (coder.name, coder.model, coder.folder, coder.instructions) == ("Coder", "big", "code", "Write code.\n")
    assert (coder.config, coder.concurrency) == ({"deep": {"deeper": [1, 2]}}, 3)
    assert (coder.timezone, coder.turn_timeout_ms, coder.batch_size) == ("Europe/Zurich", 60_000, 4)
    assert (reviewer.name, reviewer.provider, reviewer.is_default) == ("reviewer", "echo", True)
    assert reviewer.timezone == "Asia/Tokyo", "where the settings say, as it names none"
    assert teams.every(bare) == [teams.Team("dev", "Developers", "reviewer", ("coder", "reviewer"))]


def test_the_first_agent_of_the_file_is_the_default_where_none_is_named(bare, file):
    begin(bare, file("[agents.zoe]\n[agents.ada]\n"))
    assert agents.default(bare).id == "zoe"


def test_a_new_database_gets_the_accounts_of_the_file(bare, file):
    begin(bare, file(f'{FILE}\n[accounts."telegram.code"]\nagent = "coder"\n[accounts.discord]\n'))
    assert [(each.name, each.agent) for each in accounts.every(bare)] == [("discord", None), ("telegram.code", "coder")]


@pytest.mark.parametrize("text", [None, "", "# nothing yet\n"])
def test_without_a_file_or_with_an_empty_one_the_echo_agent_is_created(bare, file, text):
    begin(bare, None if text is None else file(text))
    assert [(agent.id, agent.provider, agent.is_default) for agent in agents.every(bare)] == [
        ("assistant", "echo", True)
    ]


WRONG = {
    "no TOML": ("[agents.coder\n", "is not valid TOML: .*line 1"),
    "one table twice": ("[agents.a]\n[agents.a]\n", "is not valid TOML: .*line 2"),
    "an unknown table": ("[agent.coder]\n", r": agent: there is no such setting; known: default, \[agents.ID\]"),
    "an unknown key": ("[agents.a]\nprovidr = 'echo'\n", r": \[agents.a\] providr: .*known: name, provider"),
    "an unknown key of a team": ("[teams.a]\nlead = 'x'\n", r": \[teams.a\] lead: .*known: name, agents, leader"),
    "text for a number": ("[agents.a]\nconcurrency = '3'\n", r": \[agents.a\] concurrency: should be"),
    "a number out of range": ("[agents.a]\nbatch_size = 0\n", r": \[agents.a\] batch_size: should be"),
    "no table at all": ("agents = 3\n", r": agents: should be"),
    "a word for an agent": ("[agents]\na = 'echo'\n", r": \[agents.a\]: should be"),
    "an unknown default": ("default = 'b'\n[agents.a]\n", r": default: there is no table \[agents.b\]"),
    "a default in its table": ("[agents.a]\ndefault = true\n", r": \[agents.a\] default: say it at the top"),
    "an unknown provider": ("[agents.a]\nprovider = 'x'\n", r": \[agents.a\] .*unknown provider 'x'; known: "),
    "an unknown time zone": ("[agents.a]\ntimezone = 'Mars'\n", r": \[agents.a\] .*Mars"),
    "a folder outside": ("[agents.a]\nfolder = '../b'\n", r": \[agents.a\] folder: "),
    "one folder for two": ("[agents.a]\n[agents.b]\nfolder = 'a'\n", r": \[agents.b\] folder: .*agent 'a'"),
    "an id that can be none": ("[agents.Ana]\n", r": \[agents.Ana\] an agent's id is 1 to 64"),
    "an id of people": ("[agents.user]\n", r": \[agents.user\] .*people"),
    "an unknown member": ("[agents.a]\n[teams.t]\nleader = 'a'\nagents = ['a', 'z']\n", r": \[teams.t\] .*no agent z"),
    "a leader from outside": ("[agents.a]\n[teams.t]\nleader = 'z'\nagents = ['a']\n", r": \[teams.t\] .*leader 'z'"),
    "a team called like an agent": ("[agents.a]\n[teams.a]\nagents = ['a']\n", r": \[teams.a\] .*@a"),
    "a date, which JSON has not": ("[agents.a]\nconfig = {x = 2027-01-01}\n", r": \[agents.a\] config: .*dates"),
    "an unknown platform": ("[agents.a]\n[accounts.'pigeon.x']\n", r": \[accounts.pigeon.x\] there is no platform"),
    "a token in the file": (
        "[accounts.'telegram.x']\nbot_token = '1:a'\n",
        r"\[accounts.telegram.x\] bot_token: .*agent",
    ),
    "an account of nobody": ("[agents.a]\n[accounts.'telegram.x']\nagent = 'z'\n", r": \[accounts.telegram.x\] .*'z'"),
    "what is no UTF-8": ("[agents.a]\nname = '\udcff'\n", "is not UTF-8"),
    "half a character": ('[agents.a]\nname = "\\ud83d"\n', "is not valid TOML: .*scalar value"),
}


@pytest.mark.parametrize(("text", "sentence"), WRONG.values(), ids=WRONG)
def test_an_error_names_file_table_and_key_and_nothing_is_created(bare, tmp_path, text, sentence):
    path = tmp_path / "postroom.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = dump(bare)

    with pytest.raises(ConfigInvalid, match=sentence) as refused:
        begin(bare, path)

    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)
    assert dump(bare) == before


def test_every_error_of_the_file_is_reported_at_once(file):
    with pytest.raises(ConfigInvalid, match=r"\[agents.a\] x: .*; .*\[agents.b\] y: "):
        roster_file.read(file("[agents.a]\nx = 1\n[agents.b]\ny = 1\n"))


MANY = """
default = "nobody"
colour = "red"
[agents.Ana]
[agents.ben]
provider = "oracle"
[agents.cleo]
concurrency = "3"
[agents.dan]
default = true
[agents.eve]
config = {day = 2027-01-01}
[agents.fay]
[teams.all]
agents = ["ben", "fay", "zoe"]
[teams.fay]
agents = ["fay"]
[teams.good]
agents = ["cleo", "fay"]
leader = "cleo"
"""


def test_all_problems_of_a_file_are_told_at_once(bare, file):
    """One at a time, a person starts it as often as there are problems."""
    path = file(MANY)
    before = dump(bare)
    with pytest.raises(ConfigInvalid) as refused:
        begin(bare, path)
    problems = [each.partition(": ")[2] for each in str(refused.value).split(f"; {path}")]
    problems[0] = str(refused.value).removeprefix(f"{path}: ").split(f"; {path}: ")[0]
    wanted = (
        *("colour: there is no such setting", "[agents.cleo] concurrency: ", "[agents.dan] default: say it at the top"),
        *("[agents.eve] config: ", "default: there is no table [agents.nobody]", "[agents.Ana] an agent's id is"),
        *(
            "[agents.ben] unknown provider 'oracle'",
            "[teams.all] there is no agent zoe",
            "[teams.fay] an agent has this",
        ),
    )
    assert len(problems) == len(wanted), problems
    for start in wanted:
        assert [each for each in problems if each.startswith(start)], (start, problems)
    assert dump(bare) == before


NESTED = {
    "lists": "x = " + "[" * 50_000 + "]" * 50_000,
    "tables": "x = " + "{a = " * 50_000 + "1" + "}" * 50_000,
    "lists that Python can read": "x = " + "[" * 200 + "]" * 200,
    "keys": "[agents.a.config." + ".".join("b" * 200) + "]",
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_values_that_are_nested_without_end_are_refused(file, text):
    with pytest.raises(ConfigInvalid, match="nested more than 100 deep"):
        roster_file.read(file(text))


def test_values_that_are_nested_a_little_are_read(file):
    text = "[agents.a]\nconfig = {x = " + "[" * 50 + "]" * 50 + "}"
    assert list(roster_file.read(file(text)).agents) == ["a"]


# -- migrate


def ids(path):
    conn = open_connection(path, readonly=True)
    try:
        return [agent.id for agent in agents.every(conn)]
    finally:
        conn.close()


def test_a_first_start_reads_the_file_and_no_later_one_does(tmp_path, file):
    prepare_database(tmp_path / "p.db", agents_file=file())
    prepare_database(tmp_path / "p.db", agents_file=file("[agents.other]\n"))
    prepare_database(tmp_path / "p.db", agents_file=file("this is not valid TOML"))
    assert ids(tmp_path / "p.db") == ["coder", "reviewer"]


def test_the_file_is_found_in_the_working_directory(tmp_path, file, monkeypatch):
    monkeypatch.delenv("POSTROOM_CONFIG", raising=False)
    file("[agents.here]\n")
    monkeypatch.chdir(tmp_path)
    prepare_database(tmp_path / "p.db", agents_file=Settings.load().agents_file)
    assert ids(tmp_path / "p.db") == ["here"]
    monkeypatch.setenv("POSTROOM_CONFIG", "elsewhere.toml")
    assert Settings.load().agents_file == Path("elsewhere.toml"), (
        "what is named and not there is no reason to take another"
    )


def test_an_invalid_file_ends_the_first_start_and_a_valid_one_repairs_it(tmp_path, file):
    with pytest.raises(ConfigInvalid, match="batch_size"):
        prepare_database(tmp_path / "p.db", agents_file=file("[agents.a]\n[agents.b]\nbatch_size = 0\n"))
    assert ids(tmp_path / "p.db") == []
    prepare_database(tmp_path / "p.db", agents_file=file("[agents.a]\n[agents.b]\n"))
    assert ids(tmp_path / "p.db") == ["a", "b"]


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(ConfigInvalid, match=r"nowhere.toml does not exist: .*POSTROOM_CONFIG"):
        roster_file.read(tmp_path / "nowhere.toml")


def test_six_processes_that_start_at_once_create_the_agents_once(tmp_path, file):
    path, agents_file = tmp_path / "p.db", file()
    crew = [FORKS.Process(target=prepare_database, args=(path,), kwargs={"agents_file": agents_file}) for _ in range(6)]
    assert run_crew(crew) == [0] * 6
    assert ids(path) == ["coder", "reviewer"]


# -- the comparison


def test_a_new_database_does_not_differ_from_its_file(bare, file):
    path = file()
    begin(bare, path)
    assert roster_file.differences(roster_file.read(path), roster_file.read_database(bare)) == []


def test_a_folder_named_like_its_agent_is_no_difference(bare, file):
    path = file("[agents.a]\nfolder = 'a'\n")
    begin(bare, path)
    assert roster_file.differences(roster_file.read(path), roster_file.read_database(bare)) == []


def test_share_folder_is_no_difference(bare, file):
    path = file("[agents.a]\n[agents.b]\nfolder = 'a'\nshare_folder = true\n")
    begin(bare, path)
    assert [agent.folder for agent in agents.every(bare)] == [None, "a"]
    assert roster_file.differences(roster_file.read(path), roster_file.read_database(bare)) == []


def test_an_empty_model_is_none(bare, file):
    path = file("[agents.a]\nmodel = ''\n")
    begin(bare, path)
    assert agents.get(bare, "a").model is None
    make_agent(bare, "a", model="big")
    assert roster_file.differences(roster_file.read(path), roster_file.read_database(bare)) == [
        RosterDifference("agents.a", "model", None, "big")
    ]


def test_what_the_file_does_not_name_is_not_compared(bare, file):
    path = file("[agents.a]\nname = 'Ada'\n")
    begin(bare, path)
    make_agent(bare, "a", concurrency=9, instructions="changed over REST")
    assert roster_file.differences(roster_file.read(path), roster_file.read_database(bare)) == [
        RosterDifference("agents.a", "name", "Ada", "A")
    ]


def test_an_agent_or_team_in_only_one_of_the_two_is_a_difference(bare, file):
    path = file()
    begin(bare, path)
    make_agent(bare, "late")
    (found,) = roster_file.differences(roster_file.read(path), roster_file.read_database(bare))
    assert (found.where, found.field, found.file, found.database["name"]) == ("agents.late", "", None, "Late")

    with transaction(bare):
        teams.delete(bare, "dev")
    assert [(each.where, each.database) for each in _missing(path, bare)] == [("teams.dev", None)]


def _missing(path, conn):
    return [
        each
        for each in roster_file.differences(roster_file.read(path), roster_file.read_database(conn))
        if each.file is not None
    ]


def test_another_default_and_another_order_in_a_team_are_differences():
    team = {"leader": "a", "agents": ["a", "b"]}
    file = Roster({"a": {}, "b": {}}, {"t": team}, "a")
    database = Roster({"a": {}, "b": {}}, {"t": {**team, "name": "T", "agents": ["b", "a"]}}, "b")
    assert [(each.where, each.file, each.database) for each in roster_file.differences(file, database)] == [
        ("teams.t.agents", ["a", "b"], ["b", "a"]),
        ("default", "a", "b"),
    ]


def test_a_file_without_agents_names_no_default():
    assert roster_file.differences(Roster({}, {}, None), Roster({}, {}, "a")) == []


def test_the_example_file_is_valid(bare):
    begin(bare, Path(__file__).parents[3] / "postroom.example.toml")
    assert len(agents.every(bare)) > 1
    assert teams.every(bare)
