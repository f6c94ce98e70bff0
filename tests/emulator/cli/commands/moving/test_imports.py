"""``emulator import`` against the real ``api``."""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.emulator.cli.commands.conftest import Postroom, serve, stop
from tests.emulator.moving.conftest import SAMPLES


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postroom]:
    """A Postroom with a token, so that agents of programs are taken on a machine without a leash."""
    process, served = serve(tmp_path_factory.mktemp("house"), POSTROOM_API_TOKEN="a-token-for-tests")
    yield served
    stop(process, served)


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch, bare: None) -> None:
    monkeypatch.setenv("POSTROOM_API_TOKEN", "a-token-for-tests")


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    for name in ("nanoclaw", "tinyagi"):
        with tarfile.open(SAMPLES / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path, filter="fully_trusted")  # noqa: S202 - our own
    return tmp_path


def test_a_dry_run_says_everything_and_changes_nothing(house: Postroom, sample: Path) -> None:
    before = house.column("SELECT count(*) FROM agents")
    said = house.run("import", "nanoclaw", str(sample / "nanoclaw"), "--dry-run").stdout
    assert house.column("SELECT count(*) FROM agents") == before
    assert "a dry run, nothing was changed" in said
    assert "would be made" in said
    assert "What does not come along as it was:" in said
    assert "telegram: stop nanoclaw before Postroom gets TELEGRAM_BOT_TOKEN" in said
    assert "INVENTED" not in said


def test_moving_in_twice_doubles_nothing(house: Postroom, sample: Path) -> None:
    first = house.run("import", "nanoclaw", str(sample / "nanoclaw"))
    assert first.stderr.startswith("note: telegram: stop nanoclaw"), "before anything is written"
    facts = house.json("import", "nanoclaw", str(sample / "nanoclaw"))
    assert {each["state"] for each in facts["items"]} == {"there"}
    assert facts["files"] == [
        {"agent": "dm-with-ana", "path": "memory/people.md", "state": "there", "note": ""},
        {"agent": "garage", "path": "notes/cars.md", "state": "there", "note": ""},
    ]
    assert facts["texts"] == []
    texts = house.json("import", "nanoclaw", str(sample / "nanoclaw"), "--show-texts", "--dry-run")["texts"]
    assert any("waits behind it" in each for each in texts)
    assert house.column("SELECT id FROM agents WHERE id <> 'assistant' ORDER BY id") == [
        *("cli-with-ana", "dm-with-ana", "family", "garage", "research-mate"),
    ]
    assert "Chloe prefers tea" in (house.db.parent / "agents/dm-with-ana/memory/people.md").read_text()


def test_a_prefix_keeps_a_second_checkout_apart(house: Postroom, sample: Path) -> None:
    """Its agents have the ids, folders and schedules of those that are here."""
    (sample / "nanoclaw/groups/garage/notes/diary.md").write_text("語" * 199_999)  # a MB with every character escaped
    facts = house.json("import", "nanoclaw", str(sample / "nanoclaw"), "--prefix", "old-")
    assert {each["state"] for each in facts["items"] if each["kind"] in ("agent", "schedule")} == {"made"}
    assert {each["state"] for each in facts["files"]} == {"made"}
    assert (house.db.parent / "agents/old-garage/notes/diary.md").stat().st_size == 3 * 199_999


def test_a_file_that_is_refused_keeps_no_other_from_being_written(house: Postroom, sample: Path) -> None:
    folder = house.db.parent / "agents/dm-with-ana"
    (folder / "memory/people.md").unlink()
    (folder / "memory").rmdir()
    (folder / "memory").symlink_to(sample)
    (house.db.parent / "agents/garage/notes/cars.md").unlink()
    said = house.run("import", "nanoclaw", str(sample / "nanoclaw"), code=1).stdout
    assert "can't be written" in next(line for line in said.splitlines() if "people.md" in line)
    assert " made" in next(line for line in said.splitlines() if "cars.md" in line)
    assert not (sample / "people.md").exists()


def test_a_refusal_changes_nothing_and_says_so(house: Postroom, sample: Path) -> None:
    home = str(sample / "home/user")
    assert "--timezone" in house.refused("import", "tinyagi", home, code=64)
    house.run("teams", "set", "coder", "--agents", "assistant")
    wrong = house.refused("import", "tinyagi", home, "--timezone", "Europe/Zurich", code=65)
    assert "a team has this id" in wrong
    assert wrong.endswith("Nothing was changed\n")
    assert house.column("SELECT count(*) FROM agents WHERE id = 'scout'") == [0]
    house.run(
        "import", "tinyagi", home, "--timezone", "Europe/Zurich", "--prefix", "t-", "--answers", "telegram:51000001"
    )
    assert house.column("SELECT count(*) FROM agents WHERE id LIKE 't-%'") == [5]
    assert house.refused("import", "tinyagi", str(sample / "no"), code=66)
    assert house.refused("import", "tinyagi", home, "--answers", "mail:x", code=64)
