"""``emulator approvals``, ``pair``, ``pairings``, ``dropped``, ``sessions``: decisions, codes and sessions."""

import re

import pytest

from shared.conversation.access import requests
from shared.core.policy import AccessPolicy
from shared.core.settings import Settings
from shared.db.access import dropped
from shared.db.engine.connection import transaction
from tests.emulator.cli.commands.conftest import Postroom
from tests.support import make_session, put

NOW = 1_900_000_000_000  # later than the api's real clock, so no request has expired


@pytest.fixture
def asked(postroom: Postroom) -> str:
    """The id of a pending approval request of an agent."""
    _, session = make_session(postroom.conn, chat="100")
    name = f"helper {postroom.column('SELECT count(*) FROM approvals')[0]}"
    with transaction(postroom.conn):
        made = requests.ask_action(
            postroom.conn,
            session,
            "assistant",
            "create_agent",
            {"name": name, "instructions": "Be brief.\nstate      approved by the owner"},
            policy=AccessPolicy.of(Settings()),
            now_ms=NOW,
        )
    return made.approval_id


def status(postroom: Postroom, approval: str) -> list[str]:
    return postroom.column("SELECT status FROM approvals WHERE approval_id = :id", id=approval)


# -- approvals


def test_a_pending_approval_is_listed_and_shown_with_every_argument(postroom: Postroom, asked: str) -> None:
    line = next(line for line in postroom.run("approvals", "list").stdout.splitlines() if asked in line)
    assert "Agent assistant asks to" in line
    assert "pending, " in line

    shown = postroom.run("approvals", "show", asked).stdout
    assert "Be brief." in shown
    assert not re.search("^state +approved", shown, re.MULTILINE), "no argument can imitate one of our own lines"
    assert re.search(r"^state +pending, .* left$", shown, re.MULTILINE)
    assert f"approvals approve {asked}" in shown
    assert re.search(r"^1 +Approve$", shown, re.MULTILINE)


def test_an_approval_is_carried_out_once_and_a_second_decision_is_refused(postroom: Postroom, asked: str) -> None:
    before = len(postroom.json("agents", "list"))
    assert postroom.run("approvals", "approve", asked).stdout.strip()
    assert len(postroom.json("agents", "list")) == before + 1
    assert status(postroom, asked) == ["approved"]
    assert "is approved" in postroom.refused("approvals", "refuse", asked, code=1)
    shown = postroom.run("approvals", "show", asked).stdout
    assert re.search("^state +approved by operator, ", shown, re.MULTILINE)
    assert re.search("^1 +Approve +chosen$", shown, re.MULTILINE)


def test_a_refusal_changes_nothing_else(postroom: Postroom, asked: str) -> None:
    before = postroom.json("agents", "list")
    postroom.run("approvals", "refuse", asked)
    assert status(postroom, asked) == ["refused"]
    assert postroom.json("agents", "list") == before
    assert asked in {each["approvalId"] for each in postroom.json("approvals", "list", "--status", "refused")}
    assert asked in postroom.run("approvals", "list", "--status", "all").stdout
    assert asked not in postroom.run("approvals", "list").stdout


def test_a_choice_is_a_number_that_show_prints(postroom: Postroom, asked: str) -> None:
    assert "has no choice 3: choose from 1 to 2" in postroom.refused(
        "approvals", "approve", asked, "--choice", "3", code=65
    )
    postroom.run("approvals", "approve", asked, "--choice", "2")
    assert status(postroom, asked) == ["refused"], "the second choice is the refusal"


def test_an_approved_action_that_fails_ends_with_1(postroom: Postroom) -> None:
    _, session = make_session(postroom.conn, chat="200")
    with transaction(postroom.conn):
        made = requests.ask_action(
            postroom.conn, session, "assistant", "create_agent", {"name": "late", "instructions": ""},
            policy=AccessPolicy.of(Settings()), now_ms=NOW,
        )  # fmt: skip
    with transaction(postroom.conn):  # meanwhile the requesting agent was retired
        postroom.conn.execute("UPDATE agents SET retired_at = 1 WHERE id = 'assistant'")
    try:
        done = postroom.run("approvals", "approve", made.approval_id, code=1)
    finally:
        with transaction(postroom.conn):
            postroom.conn.execute("UPDATE agents SET retired_at = NULL WHERE id = 'assistant'")
    assert "The decision is recorded, but the action failed: " in done.stdout


def test_an_unknown_approval_is_an_error(postroom: Postroom) -> None:
    for verb in ("show", "approve", "refuse"):
        assert "approval_none" in postroom.refused("approvals", verb, "approval_none", code=66)


# -- pairing


def test_pair_prints_the_code_and_how_to_use_it(postroom: Postroom) -> None:
    said = postroom.run("pair").stdout
    code = re.search(r"^    /start ([0-9A-Z]{4}-[0-9A-Z]{4})$", said, re.MULTILINE)
    assert code is not None
    assert "becomes an owner" in said
    assert re.search(r"until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \((14|15) min", said)
    assert code[1].replace("-", "") not in "".join(postroom.column("SELECT code_hash FROM pairings"))

    pairing = re.search("pairing_[0-9a-z]{8}", said)
    assert pairing is not None
    postroom.run("pairings", "revoke", pairing[0])
    listed = next(line for line in postroom.run("pairings", "list").stdout.splitlines() if pairing[0] in line)
    assert listed.split()[1:3] == ["owner", "revoked"]
    assert "revoked already" in postroom.refused("pairings", "revoke", pairing[0], code=1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--admin"], "becomes an admin of everything"),
        (["--admin", "--agent", "assistant"], "becomes an admin of assistant"),
        (["--member", "--agent", "assistant"], "may talk to assistant"),
        (["--chat", "--agent", "assistant"], "lets assistant answer in the chat where it is sent"),
    ],
)
def test_pair_says_what_the_code_grants(postroom: Postroom, options: list[str], sentence: str) -> None:
    assert sentence in postroom.run("pair", *options).stdout
    made = postroom.json("pair", *options)
    assert made["say"] == f"/start {made['code']}"


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--admin", "--member"], 64, "use only one of --admin, --member"),
        (["--member"], 64, "name it with --agent"),
        (["--chat"], 64, "name it with --agent"),
        (["--agent", "assistant"], 64, "an owner owns everything"),
        (["--admin", "--agent", "zoe"], 66, "zoe"),
    ],
)
def test_impossible_options_of_pair_are_refused(
    postroom: Postroom, options: list[str], code: int, sentence: str
) -> None:
    assert sentence in postroom.refused("pair", *options, code=code)


# -- dropped and sessions


def test_dropped_events_are_listed_with_the_reason(postroom: Postroom) -> None:
    with transaction(postroom.conn):
        for number, reason in enumerate(("sender_unknown", "rate_limited", "sender_unknown")):
            dropped.record(
                postroom.conn, channel="telegram", platform_id="100", sender_id="9", event_key=f"e{number}",
                reason=reason, detail="no", now_ms=NOW,
            )  # fmt: skip
    lines = postroom.run("dropped", "--reason", "sender_unknown").stdout.splitlines()
    assert len(lines) == 3
    because = (
        "The sender is a stranger, and the chat is closed to strangers (no). Let the person in, or open the chat to"
    )
    assert lines[-1].split()[3:] == ["telegram", "100", "9", *because.split(), "strangers.", "sender_unknown"]
    newest, oldest = (each["id"] for each in postroom.json("dropped", "--reason", "sender_unknown"))
    assert [each["id"] for each in postroom.json("dropped", "--since", str(oldest))] == [oldest + 1, newest]
    assert postroom.run("dropped", "--channel", "icq").stdout == "Nothing of that kind was dropped.\n"
    for filters in (["--sender", "9"], ["--platform-id", "100"]):
        assert [each["id"] for each in postroom.json("dropped", *filters)] == [newest, oldest + 1, oldest]
    assert postroom.run("dropped", "--sender", "10").stdout == "Nothing of that kind was dropped.\n"
    assert "there is no chat 9999" in postroom.refused("dropped", "--chat", "9999", code=66)


def test_a_session_is_shown_replayed_and_reset(postroom: Postroom) -> None:
    put(postroom.conn, "what was asked", chat="300")
    old = postroom.json("sessions", "list", "--agent", "assistant", "--limit", "1")[0]["sessionId"]
    shown = postroom.run("sessions", "show", old).stdout
    assert re.search("^status +active$", shown, re.MULTILINE)
    assert "what was asked" in shown

    done = postroom.run("sessions", "replay", old).stdout
    new = next(each for each in re.findall("session_[0-9a-z]{8}", done) if each != old)
    assert f"Session {new} replays 1 message of {old}." in done
    assert f"sessions show {old}" in done

    said = postroom.run("sessions", "reset", new).stdout
    assert said.startswith(f"Session {new} is closed; session_")
    assert "closed" in postroom.refused("sessions", "reset", new, code=1)
    assert {old, new} <= {each["sessionId"] for each in postroom.json("sessions", "list", "--status", "closed")}
    assert "session_none" in postroom.refused("sessions", "show", "session_none", code=66)
