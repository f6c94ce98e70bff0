"""Which containment a policy takes, and what a program may be shown."""

import pytest

from shared.agents.programs import containment
from shared.core.errors import ConfigInvalid


@pytest.fixture
def without_bubblewrap(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for cached in (containment.available, containment.why_no_leash):
        cached.cache_clear()
    yield
    for cached in (containment.available, containment.why_no_leash):
        cached.cache_clear()


def test_a_leash_that_is_required_and_missing_starts_no_program(without_bubblewrap):
    assert containment.available("auto").kind != "bubblewrap"
    with pytest.raises(ConfigInvalid, match="POSTROOM_LEASH is 'required', and bubblewrap is not installed"):
        containment.available("required")


def test_a_leash_that_is_required_and_there_is_taken():
    there = containment.why_no_leash("auto") is None
    assert not there or containment.available("required").is_leash


@pytest.fixture
def host(tmp_path):
    """A disk with our folder, another one whose name begins alike, and links to them from elsewhere."""
    (tmp_path / "data" / "agents" / "coder").mkdir(parents=True)
    (tmp_path / "data" / "agents-of-old").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "to-data").symlink_to(tmp_path / "data")
    (tmp_path / "links" / "to-come").symlink_to(tmp_path / "data" / "agents" / "to-come")
    (tmp_path / "links" / "to-coder").symlink_to(tmp_path / "data" / "agents" / "coder")
    return tmp_path


@pytest.mark.parametrize(
    "private", ["data/agents", "links/to-data/agents", "links/to-data/agents-of-old/../agents", "links/to-come"]
)
@pytest.mark.parametrize(
    ("named", "is_refused"),
    [
        ("data/agents", True),
        ("data", True),
        ("links/to-data", True),
        ("data/agents-of-old/../agents", True),
        ("/", True),
        ("data/agents-of-old", False),
        ("links", False),
    ],
)
def test_no_folder_is_shown_that_holds_what_is_private(host, private, named, is_refused):
    shown = [str(host / named)]
    if not is_refused:
        assert containment.readable_paths(["/bin/sh"], shown, {}, [host / private])[0] == host / named
        return
    with pytest.raises(ConfigInvalid, match="can't be shown"):
        containment.readable_paths(["/bin/sh"], shown, {}, [host / private])


@pytest.mark.parametrize("private", ["data/agents", "links/to-data/agents", "links/to-data/../data/agents"])
@pytest.mark.parametrize("named", ["data/agents/coder", "links/to-coder", "links/../data/agents/coder"])
def test_no_folder_is_shown_that_lies_in_what_is_private(host, private, named):
    with pytest.raises(ConfigInvalid, match="can't be shown"):
        containment.readable_paths(["/bin/sh"], [str(host / named)], {}, [host / private])


@pytest.mark.parametrize("private", ["data/to-come.db", "links/to-data/to-come.db", "none/x", "none/../data/x"])
@pytest.mark.parametrize(("named", "is_refused"), [("data", True), ("links/to-data", True), ("links", False)])
def test_what_is_private_need_not_be_there_yet(host, private, named, is_refused):
    is_refused = is_refused and not private.startswith("none/x")
    if not is_refused:
        assert containment.readable_paths(["/bin/sh"], [str(host / named)], {}, [host / private])
        return
    with pytest.raises(ConfigInvalid, match="can't be shown"):
        containment.readable_paths(["/bin/sh"], [str(host / named)], {}, [host / private])


def test_a_program_may_lie_beside_what_is_private_but_its_environment_may_not_hold_it(host):
    program = host / "data" / "agents" / "coder" / "bin" / "agent"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    words, private = [str(program)], [host / "data" / "agents"]
    assert containment.readable_paths(words, [], {}, private) == (program, program)
    (program.parent.parent / "pyvenv.cfg").touch()
    with pytest.raises(ConfigInvalid, match="can't be shown"):
        containment.readable_paths(words, [], {}, [host / "data" / "agents" / "coder" / "memory"])
