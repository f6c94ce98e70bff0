import re
from pathlib import Path

import pytest

from shared.core.errors import ConfigInvalid
from shared.core.page_links import link
from shared.core.settings import Settings

PAGES = Path(__file__).parents[3] / "shared/rest/desk/page/main.js"


@pytest.mark.parametrize(
    ("asked", "address"),
    [
        (("message", "telegram_1a2b"), "https://post.example/#/m/telegram_1a2b"),
        (("chat", 7), "https://post.example/#/c/7"),
        (("queue", "dead"), "https://post.example/#/queue/dead"),
        (("agents",), "https://post.example/#/agents"),
        (("overview",), "https://post.example/#/"),
        (("message", "a/b c?#"), "https://post.example/#/m/a%2Fb%20c%3F%23"),
    ],
)
def test_a_link_is_the_address_of_a_page(asked, address):
    assert link("https://post.example", *asked) == link("https://post.example/", *asked) == address


def test_without_an_address_there_is_no_link():
    assert link("", "message", "telegram_1a2b") == ""


@pytest.mark.parametrize("name", ["m", "c", "queue", "agents", "schedules", "approvals", "dropped", "replica", ""])
def test_the_page_knows_the_names_in_links(name):
    """The page reads the first word of the fragment; a name that it lacks opens the overview."""
    assert re.search(rf'\["{name}", ', PAGES.read_text()), name


@pytest.mark.parametrize("wrong", ["post.example", "ftp://a.example", "https://", "https://a.example/?a=1", "x y"])
def test_the_setting_is_an_address(monkeypatch, wrong):
    monkeypatch.setenv("POSTROOM_PUBLIC_URL", wrong)
    with pytest.raises(ConfigInvalid, match="POSTROOM_PUBLIC_URL"):
        Settings.load()


def test_the_setting_may_have_a_path(monkeypatch):
    monkeypatch.setenv("POSTROOM_PUBLIC_URL", "https://post.example/room/")
    assert link(Settings.load().public_url, "message", 1) == "https://post.example/room/#/m/1"
