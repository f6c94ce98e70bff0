"""``emulator chats``, ``wirings``, ``users``, ``destinations``: who may talk to whom, and where."""

import pytest

from shared.db.engine.connection import transaction
from shared.db.roster import chats
from tests.emulator.cli.commands.conftest import Postroom
from tests.support import NOW


@pytest.fixture(scope="module", autouse=True)
def coder(postroom: Postroom) -> None:
    postroom.run("agents", "set", "coder")


def chat(postroom: Postroom, platform_id: str, **facts: object) -> str:
    """The number of a chat with a message in it."""
    with transaction(postroom.conn):
        made = chats.ensure(postroom.conn, "telegram", platform_id, is_group=True, now_ms=NOW, **facts)  # type: ignore[arg-type]
    return str(made.id)


def user(postroom: Postroom, sender_id: str, name: str = "") -> str:
    """The number of a user."""
    return str(postroom.json("users", "add", "telegram", sender_id, "--name", name)["user"]["id"])


# -- chats and wirings


def test_a_group_is_added_wired_shown_and_unwired(postroom: Postroom) -> None:
    made = postroom.run("chats", "add", "telegram", "-100200", "--group", "--name", "Family")
    number = made.stdout.split()[1]
    assert made.stdout.startswith(f"Chat {number} is telegram -100200.")
    assert f"wirings set {number} AGENT" in made.stdout

    wired = postroom.run("wirings", "set", number, "coder")
    assert wired.stdout == (
        f"Agent coder answers in chat {number} (Family): when mention-sticky; to all; the rest drop; session "
        "per-thread; priority 0; while it works collect; debounce by its provider.\n"
    )
    changed = postroom.run(
        "wirings", "set", number, "coder", "--pattern", "^bug", "--scope", "known", "--priority", "-1"
    )
    assert "when pattern ^bug; to known; the rest drop; session per-thread; priority -1;" in changed.stdout

    shown = postroom.run("chats", "show", number).stdout.splitlines()
    assert shown[0].split() == ["chat", number]
    wiring = [number, "Family", "coder", "pattern", "^bug", "known", "drop", "per-thread", "collect", "-1"]
    assert shown[-1].split() == wiring
    assert postroom.json("chats", "show", number)["wirings"] == postroom.json("wirings", "list", "--chat", number)

    postroom.run("wirings", "delete", number, "coder")
    assert postroom.json("wirings", "list", "--agent", "coder") == []
    assert "wirings set CHAT AGENT" in postroom.run("wirings", "list", "--chat", number).stdout


def test_a_second_agent_of_a_chat_is_asked_about_and_a_chat_moves_in_one_step(postroom: Postroom) -> None:
    number = chat(postroom, "-6", name="Ops")
    postroom.run("wirings", "set", number, "assistant", "--scope", "known")
    said = postroom.refused("wirings", "set", number, "coder", code=1)
    assert said == (
        f"error: chat {number} has assistant, and with coder too each of them would answer: add --instead to let coder "
        "answer instead, or --also if you want them all\n"
    )
    assert postroom.json("wirings", "list", "--agent", "coder") == []

    both = postroom.run("wirings", "set", number, "coder", "--also").stdout.splitlines()
    assert both[1:] == ["Answering there too, each for itself: assistant."]
    assert postroom.run("wirings", "delete", number, "coder").stdout == (
        f"Agent coder no longer answers in chat {number}.\n"
    )

    moved = postroom.run("wirings", "set", number, "coder", "--instead").stdout.splitlines()
    assert moved[0].startswith(f"Agent coder answers in chat {number} (Ops): when mention-sticky; to known;")
    assert moved[1].startswith("Agent assistant no longer answers there;")
    assert [each["agent"] for each in postroom.json("wirings", "list", "--chat", number)] == ["coder"]
    last = postroom.run("wirings", "delete", number, "coder").stdout.splitlines()
    assert last[1].startswith("No agent does now, and the next message there counts as one of a new chat")
    assert f" chats delete {number} " in last[2]


def test_chats_are_listed_with_their_policy_and_their_agents(postroom: Postroom) -> None:
    number = chat(postroom, "-1")
    head, *lines = postroom.run("chats", "list", "--channel", "telegram", "--platform-id", "-1").stdout.splitlines()
    assert head.split("  ")[0] == "chat"
    assert [line.split() for line in lines] == [[number, "telegram", "-1", "group", "strict", "(none)"]]
    assert "A chat appears when a person writes" in postroom.run("chats", "list", "--channel", "icq").stdout


def test_set_changes_only_the_named_settings_of_a_chat(postroom: Postroom) -> None:
    number = chat(postroom, "-2", name="Before")
    assert postroom.run("chats", "set", number, "--policy", "public").stdout == (
        f"Chat {number} (Before): strangers: public, active.\n"
    )
    assert "refused: no agent may answer" in postroom.run("chats", "set", number, "--refused").stdout
    assert "refused" not in postroom.run("chats", "set", number, "--not-refused", "--name", "After").stdout
    assert postroom.column("SELECT name || sender_policy FROM chats WHERE id = :id", id=int(number)) == ["Afterpublic"]


def test_a_chat_is_deleted_or_retired(postroom: Postroom) -> None:
    number = chat(postroom, "-5")
    assert postroom.run("chats", "delete", number).stdout.startswith(f"Chat {number} is deleted.")
    assert "there is no chat" in postroom.refused("chats", "delete", number, code=66)
    number = chat(postroom, "-5")
    postroom.conn.execute(
        "INSERT INTO sessions (session_id, agent, chat_id, created_at, last_active) VALUES ('s', 'assistant', ?, 1, 1)",
        (int(number),),
    )
    said = postroom.run("chats", "delete", number).stdout
    assert said.startswith(
        f"Chat {number} is retired: no agent answers there, and its history stays. To bring it back: "
    )
    assert postroom.run("chats", "list", "--platform-id", "-5").stdout.splitlines()[1].endswith("  retired")


# -- users


def test_a_user_is_added_and_roles_are_granted_and_revoked(postroom: Postroom) -> None:
    number = user(postroom, "4711", "Ana")
    who = f"User {number} (telegram 4711, Ana): "
    for arguments, may in (
        (["grant", number, "admin", "--agent", "coder"], "admin of coder"),
        (["grant", number, "admin"], "admin of coder, admin of everything"),
        (["revoke", number, "admin", "--agent", "coder"], "admin of everything"),
        (["grant", number, "owner"], "owner, admin of everything"),
        (["revoke", number, "admin"], "owner"),
        (["grant", number, "member", "--agent", "coder"], "owner, member of coder"),
        (["revoke", number, "member", "--agent", "coder"], "owner"),
        (["revoke", number, "owner", "--force"], "no more than a stranger"),
        (["refuse", number, "--agent", "coder"], "refused by coder"),
        (["revoke", number, "member", "--agent", "coder"], "no more than a stranger"),
    ):
        said = postroom.run("users", *arguments).stdout.removeprefix(who).removesuffix(".\n")
        assert sorted(said.split(", ")) == sorted(may.split(", ")), arguments


def test_an_admin_can_not_be_refused_before_the_role_is_revoked(postroom: Postroom) -> None:
    number = user(postroom, "4713", "Ana")
    postroom.run("users", "grant", number, "admin", "--agent", "coder")
    said = postroom.refused("users", "refuse", number, "--agent", "coder", code=1)
    assert said.startswith(
        f"error: user {number} is an admin of coder, who may talk to agent coder, so a refusal would "
    )
    assert "emulator users revoke USER ROLE --url http://" in said
    postroom.run("users", "revoke", number, "admin", "--agent", "coder")
    assert "refused by coder" in postroom.run("users", "refuse", number, "--agent", "coder").stdout


def test_a_user_is_shown_with_the_roles_and_who_granted_them(postroom: Postroom) -> None:
    number = user(postroom, "4712", "\x1b[2JEve")
    postroom.run("users", "grant", number, "member", "--agent", "coder")
    lines = postroom.run("users", "show", number).stdout.splitlines()
    assert ["name", r"\x1b[2JEve"] in [line.split() for line in lines]
    assert lines[-1].split()[:4] == ["member", "of", "coder", "operator"]

    (listed,) = postroom.json("users", "list", "--sender-id", "4712")
    assert listed["id"] == int(number)
    assert postroom.run("users", "list", "--sender-id", "4712").stdout.splitlines()[-1].endswith("member of coder")

    assert postroom.run("users", "forget", number).stdout == f"User {number} is a stranger again.\n"
    assert "To make the first owner: " in postroom.run("users", "list", "--sender-id", "4712").stdout


@pytest.mark.parametrize("words", [["revoke", "owner"], ["forget"]])
def test_the_last_owner_stays_unless_force_is_given(postroom: Postroom, words: list[str]) -> None:
    number = user(postroom, f"last to {words[0]}", "Ana")
    postroom.run("users", "grant", number, "owner")
    command = ["users", words[0], number, *words[1:]]
    said = postroom.refused(*command, code=1)
    assert said.startswith(f"error: user {number} is the last owner, ")
    assert said.endswith("or add --force if you mean it\n")
    postroom.run(*command, "--force")
    assert postroom.column("SELECT role FROM user_roles WHERE role = 'owner'") == []


# -- destinations


def test_destinations_are_set_listed_and_deleted(postroom: Postroom) -> None:
    number = chat(postroom, "-3")
    said = postroom.run("destinations", "set", "coder", "boss", "--to", "assistant").stdout
    assert said == "Agent coder may send to agent assistant by the name boss.\n"
    postroom.run("destinations", "set", "coder", "room", "--chat", number)
    lines = postroom.run("destinations", "list", "coder").stdout.splitlines()[1:]
    assert len(lines) == 2, "the destination of a deleted wiring is deleted too"
    assert [line.split() for line in lines] == [
        ["coder", "boss", "agent", "assistant"],
        ["coder", "room", "chat", number],
    ]
    postroom.run("destinations", "delete", "coder", "room")
    assert [each["name"] for each in postroom.json("destinations", "list", "coder")] == ["boss"]


# -- refusals

REFUSED = {
    "no such chat": (["chats", "show", "9999"], 66, "there is no chat 9999"),
    "a chat that is there": (["chats", "add", "telegram", "-777"], 1, "is known already: it is chat "),
    "a change of nothing": (["chats", "set", "1"], 64, "name at least one setting to change in chat 1"),
    "no such agent to wire": (["wirings", "set", "1", "zoe"], 66, "zoe"),
    "a pattern that is none": (["wirings", "set", "1", "coder", "--pattern", "("], 65, "("),
    "a pattern mode without one": (["wirings", "set", "1", "coder", "--mode", "pattern"], 65, "pattern"),
    "instead and also": (["wirings", "set", "1", "coder", "--instead", "--also"], 64, "only one of --instead, --also"),
    "not wired": (["wirings", "delete", "1", "coder"], 66, "is not wired to chat 1"),
    "no such user": (["users", "show", "9999"], 66, "there is no user 9999"),
    "no such user to grant": (["users", "grant", "9999", "admin"], 66, "9999"),
    "a role they have not": (["users", "revoke", "1", "owner"], 66, "is no owner"),
    "nothing to take back": (["users", "revoke", "1", "member", "--agent", "coder"], 66, "neither a member"),
    "an owner of one agent": (["users", "grant", "1", "owner", "--agent", "coder"], 65, "owner"),
    "a member of nobody": (["users", "grant", "1", "member"], 64, "name the agent with --agent"),
    "refused by nobody": (["users", "refuse", "1"], 64, "name the agent with --agent"),
    "two targets": (
        ["destinations", "set", "coder", "x", "--chat", "1", "--to", "assistant"],
        64,
        "by either --chat NUMBER or --to AGENT",
    ),
    "no target": (["destinations", "set", "coder", "x"], 64, "by either --chat NUMBER or --to AGENT"),
    "a name that can be none": (["destinations", "set", "coder", "No!", "--to", "assistant"], 65, "a-z"),
    "no such destination": (["destinations", "delete", "coder", "nowhere"], 66, "nowhere"),
}


@pytest.mark.parametrize(("arguments", "code", "sentence"), REFUSED.values(), ids=REFUSED)
def test_an_impossible_command_is_one_sentence(
    postroom: Postroom, arguments: list[str], code: int, sentence: str
) -> None:
    chat(postroom, "-777")
    user(postroom, "777")
    said = postroom.refused(*arguments, code=code)
    assert sentence in said
    assert said.count("\n") == 1
