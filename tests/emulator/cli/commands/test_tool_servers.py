"""``emulator tool-servers``: the list of tool servers, and who has which."""

import sys
from pathlib import Path

from typer.testing import CliRunner, Result

from emulator.cli.app import app
from tests.emulator.cli.commands.conftest import Postroom

SERVER = str(Path(__file__).parents[3] / "agents/weather_server.py")


def add(postroom: Postroom, name: str, *words: str) -> Result:
    """Run ``emulator tool-servers add``, whose words end the command line."""
    return CliRunner().invoke(app, ["tool-servers", "add", name, "--url", postroom.url, "--", *words])


def test_a_server_is_added_with_the_tools_that_it_lists_and_given_and_taken(postroom: Postroom) -> None:
    postroom.run("agents", "set", "smith", "--provider", "claude")
    added = add(postroom, "weather", sys.executable, "-I", SERVER).stdout
    assert "weather is on the list, with look, change." in added
    [listed] = postroom.json("tool-servers", "list")
    assert listed["command"][1:] == ["-I", SERVER]
    assert listed["tools"] == {"look": "The weather of a town.", "change": "Changes the weather."}
    postroom.run("tool-servers", "give", "smith", "weather")
    changed = add(postroom, "weather", sys.executable, "-IS", SERVER).stdout
    assert "It changed, so it was taken from smith." in changed
    postroom.run("tool-servers", "give", "smith", "weather")
    assert "smith" in postroom.run("tool-servers", "list").stdout
    postroom.run("tool-servers", "take", "smith", "weather")
    postroom.run("tool-servers", "remove", "weather")
    assert "There is no tool server" in postroom.run("tool-servers", "list").stdout


def test_a_program_that_is_no_server_is_not_put_on_the_list(postroom: Postroom) -> None:
    before = postroom.json("tool-servers", "list")
    done = add(postroom, "none", sys.executable, "-c", "print('hello')")
    assert done.exit_code != 0
    assert "is no tool server" in done.stderr
    assert postroom.json("tool-servers", "list") == before
