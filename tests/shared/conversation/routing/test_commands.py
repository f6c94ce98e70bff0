import pytest

from shared.channels.base import Event
from shared.conversation.access.rules import STRANGER, Standing
from shared.conversation.routing.commands import ADMIN, FILTERED, behind_mention, decide, parse


def event(text, command=None, mention=""):
    return Event("message", "1", text=text, command=command, mention=mention)


COMMANDS = {
    "alone": (event("/clear"), "clear"),
    "with words after it": (event("/clear all of it"), "clear"),
    "on a line of its own": (event("/clear\nnow"), "clear"),
    "after blanks": (event("  \n/clear"), "clear"),
    "in capitals": (event("/CLEAR"), "clear"),
    "a longer word": (event("/clearance sale"), "clearance"),
    "with a mark": (event("/clear!"), "clear!"),
    "with an underscore": (event("/remote-control on"), "remote-control"),
    "to us": (event("/clear@our_bot now", "clear"), "clear"),
    "to us, in capitals": (event("/Clear@Our_Bot", "Clear"), "clear"),
    "behind the bot's name": (event("@our_bot /clear now", mention="@our_bot "), "clear"),
    "behind the name, to us": (event("@our_bot, /clear@our_bot", "clear", mention="@our_bot, "), "clear"),
    "behind the name, to another bot": (event("@our_bot /clear@other_bot", mention="@our_bot "), None),
    "behind the name and a word": (event("@our_bot please /clear", mention="@our_bot "), None),
    "a longer word behind the name": (event("@our_bot /clearance", mention="@our_bot "), "clearance"),
    "behind another name": (event("@ben /clear"), None),
    "to another bot": (event("/clear@other_bot"), None),
    "to another bot, after a command of the platform's own": (event("/clear@other_bot", "ask"), None),
    "as the text of a command of the platform's own": (event("/clear", "ask"), "clear"),
    "an empty bot": (event("/clear@"), None),
    "in the middle": (event("please /clear"), None),
    "a slash": (event("/"), None),
    "a path": (event("/etc/passwd"), "etc/passwd"),
    "no text": (event(""), None),
    "blanks": (event("   "), None),
    "no slash": (event("clear", "clear"), None),
}


@pytest.mark.parametrize(("given", "expected"), COMMANDS.values(), ids=COMMANDS)
def test_a_command_is_the_whole_first_token(given, expected):
    assert parse(given) == expected


def test_a_command_is_found_behind_a_prefix():
    assert parse(event("@coder /clear"), "/clear") == "clear"


@pytest.mark.parametrize("text", ["!fail 2 later", "/cost", "!"])
def test_a_command_reaches_the_agent_without_the_bots_name(text):
    """In a group the name stands before it, and the echo agent repeated "@our_bot !fail"."""
    assert behind_mention(event(f"@our_bot {text}", mention="@our_bot ")) == text


@pytest.mark.parametrize("text", ["@our_bot hello", "@our_bot well !fail", "!fail", "@ben !fail"])
def test_any_other_text_reaches_the_agent_whole(text):
    mention = "@our_bot " if text.startswith("@our_bot") else ""
    assert behind_mention(event(text, mention=mention)) == text


OWNER, ADMIN_OF_ALL = Standing(1, is_owner=True), Standing(1, is_admin=True)
SCOPED, OF_ANOTHER = Standing(1, admin_of=frozenset({"a"})), Standing(1, admin_of=frozenset({"b"}))
MEMBER = Standing(1, member_of=frozenset({"a"}))
EVERYBODY = (OWNER, ADMIN_OF_ALL, SCOPED, OF_ANOTHER, MEMBER, STRANGER)

# What an owner, an admin, an admin of this agent, one of another, a member and a stranger get.
OUTCOMES = {
    **dict.fromkeys(sorted(FILTERED), ("drop",) * 6),
    **dict.fromkeys(("clear", "why"), ("do", "do", "do", "refuse", "refuse", "refuse")),
    **dict.fromkeys(sorted(ADMIN - {"clear", "why"}), ("pass", "pass", "pass", "refuse", "refuse", "refuse")),
    "start": ("pass",) * 6,
    "clearance": ("pass",) * 6,
    "clear!": ("pass",) * 6,
    "helpme": ("pass",) * 6,
    None: ("pass",) * 6,
}


@pytest.mark.parametrize(("command", "expected"), OUTCOMES.items(), ids=str)
def test_what_becomes_of_a_command(command, expected):
    assert tuple(decide(command, standing, "a") for standing in EVERYBODY) == expected


def test_the_lists_are_these():
    assert {"help", "login", "logout", "doctor", "config", "remote-control"} == FILTERED
    assert {"clear", "why", "compact", "context", "cost", "files"} == ADMIN
