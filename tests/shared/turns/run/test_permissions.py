"""The program of a turn asks before it does something: one yes is for one call of one turn."""

import asyncio
import contextlib
import json

import pytest

from shared.agents.access import PermissionAsked
from shared.agents.base import Result
from shared.conversation.access import people
from shared.conversation.inbound import decisions
from shared.core.errors import WrongState
from shared.db.access import permissions
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims
from shared.turns.run.permissions import TurnPermissions
from tests.approval_requests import POLICY, event, person
from tests.serving import environment, leap
from tests.shared.turns.gateway.model_host import hosting, reply
from tests.shared.turns.run import scripted_provider
from tests.shared.turns.run.scripted_provider import dispatching
from tests.shared.turns.tools.calls import process_on
from tests.support import NOW, column, make_agent, make_chat, put, row, take, wire

__all__ = ["environment"]

ONCE, ALWAYS, NO = 0, 1, 2
COMMAND = {"command": "rm -r build", "cwd": "/home"}
SHELL = PermissionAsked("shell", COMMAND, "call-1")
FILE = PermissionAsked("Write", {"file_path": "a.md", "content": "# A\nb"}, "call-1", {"file_path": "a.md"}, "docs")


@pytest.fixture
def owner(conn):
    return person(conn, "1", "owner")


async def until(condition):
    """Wait until another task has done something."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - no event announces a change of rows
            await asyncio.sleep(0.002)


def asked(conn):
    """The newest approval, as a row."""
    return row(conn, "approvals") if column(conn, "SELECT count(*) FROM approvals")[0] else None


def payload(conn):
    return json.loads(asked(conn)["payload"])


def decide(conn, choice, by=decisions.OPERATOR):
    with transaction(conn):
        made = asked(conn)
        return decisions.decide(conn, made["approval_id"], choice, by, policy=POLICY, now_ms=made["created_at"] + 5)


def press(conn, choice, sender="1", key="c1"):
    pressed = event(key, sender, sender, kind="callback", text=f"{asked(conn)['approval_id']}.{choice}")
    with transaction(conn):
        return decisions.click(conn, "telegram", pressed, policy=POLICY, now_ms=asked(conn)["created_at"] + 5)


def cards(conn):
    """What approvers read, in order."""
    return [
        text.replace("\\", "") for text in column(conn, "SELECT message FROM responses WHERE agent IS NULL ORDER BY id")
    ]


class Turns:
    """A dispatch whose agent asks what a test says; ``heard`` are the answers."""

    def __init__(self, conn, service):
        self.conn, self.service, self.heard = conn, service, []

    async def until_asked(self, count=1):
        await until(lambda: column(self.conn, "SELECT count(*) FROM approvals")[0] == count)
        [turn] = self.service.running_turns.values()
        await until(lambda: turn.permissions._waiting)  # the row is there a moment before the turn knows

    async def end(self):
        """As after a kick, until no turn runs."""
        while self.service.worker.running:
            await self.service.claim_and_start()
            await asyncio.sleep(0.005)


def run(conn, monkeypatch, work, questions=(SHELL,), limit_s=60):
    async def go():
        async with hosting(reply(500)) as host, dispatching() as service:
            turns = Turns(conn, service)

            async def script(turn):
                turns.token = turn.token
                for question in questions:
                    turns.heard.append(await turn.permissions.ask(question))
                yield Result("done")

            scripted_provider.use(monkeypatch, conn, script, host)
            await service.claim_and_start()
            await work(turns)

    asyncio.run(asyncio.wait_for(go(), limit_s))


def test_what_no_card_can_show_is_answered_by_a_no(conn, owner, monkeypatch):
    half = PermissionAsked("shell", {"command": "echo \ud83d"}, "call-1", {"command": "echo \ud83d"})

    async def work(turns):
        await turns.end()
        assert [each.is_allowed for each in turns.heard] == [False]

    run(conn, monkeypatch, work, [half])
    assert asked(conn) is None


def test_a_yes_is_used_up_by_its_call_and_the_card_shows_every_argument(conn, owner, monkeypatch):
    async def work(turns):
        await turns.until_asked()
        assert "rm -r build" in cards(conn)[0]
        assert "Agent coder asks to use shell, for a direct chat on telegram" in cards(conn)[0]
        assert json.loads(asked(conn)["options"]) == ["Allow once", "Refuse"]
        assert press(conn, 0).stored == 1
        await turns.until_asked(2)
        assert payload(conn)["arguments"] == COMMAND
        decide(conn, 0)
        await turns.end()
        assert [answer.is_allowed for answer in turns.heard] == [True, True]

    run(conn, monkeypatch, work, (SHELL, SHELL._replace(call="call-2")))
    used = column(conn, "SELECT payload ->> 'used_at' IS NOT NULL FROM approvals")
    assert used == [1, 1]
    assert column(conn, "SELECT status FROM messages") == ["completed"]  # and no message about the decision
    assert any("Allowed by telegram 1 (N1)." in text for text in cards(conn))


def test_a_no_reaches_the_program_with_what_to_do_now(conn, owner, monkeypatch):
    async def work(turns):
        await turns.until_asked()
        press(conn, 1)
        await turns.end()
        assert turns.heard == [(False, "An approver refused it. Go on without it, and in no other way.")]

    run(conn, monkeypatch, work)


def test_a_person_who_may_not_decide_allows_nothing(conn, owner, monkeypatch):
    person(conn, "5")

    async def work(turns):
        await turns.until_asked()
        press(conn, 0, sender="5")
        await turns.service.claim_and_start()
        assert (asked(conn)["status"], turns.heard) == ("pending", [])
        press(conn, 1, key="c2")
        await turns.end()

    run(conn, monkeypatch, work)
    assert column(conn, "SELECT reason FROM dropped") == ["not_approver"]


def test_the_time_of_the_turn_stands_still_while_a_person_decides(conn, owner, monkeypatch):
    async def work(turns):
        await turns.until_asked()
        leap(10_000)
        await asyncio.sleep(0.01)
        decide(conn, 0)
        await turns.end()
        assert turns.heard[0].is_allowed

    run(conn, monkeypatch, work, limit_s=100_000)
    assert column(conn, "SELECT status, failure FROM messages")[0] == "completed"


def test_to_allow_always_covers_what_the_card_says_here_and_no_more(conn, owner, monkeypatch):
    other_file = FILE._replace(call="call-3", covers={"file_path": "b.md"})
    same_file = FILE._replace(call="call-2", arguments={"file_path": "a.md", "content": "other"})

    async def work(turns):
        await turns.until_asked()
        assert "To allow it always covers, in this chat:" in cards(conn)[0]
        assert "  | # A\n  | b" in cards(conn)[0]
        press(conn, ALWAYS)
        await turns.until_asked(2)  # the second question is covered, the third is not
        assert len(turns.heard) == 2
        assert payload(conn)["covers"] == {"file_path": "b.md"}
        decide(conn, NO)
        await turns.end()
        assert [answer.is_allowed for answer in turns.heard] == [True, True, False]

    run(conn, monkeypatch, work, (FILE, same_file, other_file))
    [kept] = permissions.listed(conn, agent="coder", before=10, limit=9)
    assert (kept.tool, kept.arguments, kept.granted_by, kept.uses, kept.holds) == (
        "Write", {"file_path": "a.md"}, owner.id, 1, True,
    )  # fmt: skip
    assert any(f"emulator permissions revoke {kept.permission_id}" in text for text in cards(conn))
    assert column(conn, "SELECT data ->> 'permission' FROM events WHERE type = 'permission_used'") == [
        kept.permission_id
    ]


def test_a_stop_of_the_turn_ends_its_question_and_a_late_press_says_so(conn, owner, monkeypatch):
    async def work(turns):
        await turns.until_asked()
        [turn] = turns.service.running_turns.values()
        turns.service._end_early(turn, "stopped by a test")
        await until(lambda: not turns.service.worker.running)

    run(conn, monkeypatch, work)
    assert asked(conn)["status"] == "expired"
    assert "Too late: its turn is over, and nothing was done." in cards(conn)[-1]
    press(conn, 0)
    assert cards(conn)[-1] == "Too late: its turn is over, and nothing was done."
    assert column(conn, "SELECT reason FROM dropped") == ["decided_already"]


# -- without a running dispatch ----------------------------------------------------------------------------------------


class Killed(Exception):
    """Stands for a kill of dispatch: nothing after it is written."""


@pytest.fixture
def claim(conn, owner):
    make_agent(conn, "coder")
    wire(conn, make_chat(conn), "coder")
    put(conn, agent="coder")
    return take(conn, agent="coder")


class Clock:
    """A literal clock."""

    now_ms = NOW

    def __call__(self):
        return self.now_ms


def open_question(db, claim, then, question=SHELL):
    """Ask, let *then* happen, and look; the answer, or None where dispatch was killed there."""
    clock = Clock()

    async def go():
        with process_on(db) as process:
            asking = TurnPermissions(process, claim, wait_ms=60_000, now_ms=clock)
            task = asyncio.create_task(asking.ask(question))
            await until(lambda: column(process.reader, "SELECT count(*) FROM approvals") == [1])
            try:
                then(clock)
            except Killed:
                asking._leave = asyncio.sleep  # a killed process writes nothing
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                return None
            asking.look()
            return await task

    return asyncio.run(asyncio.wait_for(go(), 30))


def kill(clock):
    raise Killed


def test_nobody_in_time_is_a_no_and_the_card_says_so(conn, db, claim):
    def pass_time(clock):
        clock.now_ms += 60_000

    answer = open_question(db, claim, pass_time)
    assert answer == (False, "Nobody allowed it within 60 s. Go on without it, and say that it is not done.")
    assert asked(conn)["status"] == "expired"
    assert "Too late: nobody decided in time, and nothing was done." in cards(conn)[-1]


def test_a_turn_that_lost_its_messages_is_allowed_nothing(conn, db, claim):
    def lose(_):
        decide(conn, 0)
        rows(conn, "UPDATE messages SET claimed_by = 'turn_b'")

    assert not open_question(db, claim, lose).is_allowed
    assert "used_at" not in payload(conn)


def test_a_yes_is_not_for_another_call_under_the_same_name(conn, db, claim):
    other = SHELL._replace(arguments={"command": "rm -r /"})

    def ask_more(_):
        refused = pytest.raises(WrongState, match="something else under the name of this call")
        with process_on(db) as process, transaction(conn), refused:
            TurnPermissions(process, claim, wait_ms=60_000, now_ms=Clock())._begin(conn, other)
        decide(conn, 0)

    assert open_question(db, claim, ask_more).is_allowed


def test_a_kill_of_dispatch_leaves_a_question_that_nobody_can_allow(conn, db, claim):
    assert open_question(db, claim, kill) is None
    run_again(conn)
    assert asked(conn)["status"] == "expired"
    assert "Too late: its turn is over" in cards(conn)[-1]
    with pytest.raises(WrongState, match="expired already"):
        decide(conn, 0)


def test_a_yes_that_came_before_the_kill_allows_the_next_run_nothing(conn, db, claim):
    def allow(clock):
        decide(conn, 0)
        kill(clock)

    assert open_question(db, claim, allow) is None
    run_again(conn)
    assert "Allowed by operator, but its turn is over, and nothing was done." in cards(conn)[-1]
    rows(conn, "UPDATE messages SET process_after = NULL")
    again = take(conn, agent="coder", token="turn_b", now_ms=NOW + 10**7)
    with process_on(db) as process, transaction(conn):
        begun = TurnPermissions(process, again, wait_ms=60_000, now_ms=lambda: NOW + 10**7)._begin(conn, SHELL)
    assert (begun.status, begun.payload["turn"]) == ("pending", "turn_b")


def run_again(conn):
    """Dispatch starts anew, and settles what the killed one left."""

    async def go():
        async with dispatching() as service:
            await service.repair()

    asyncio.run(asyncio.wait_for(go(), 30))


def test_a_yes_between_the_kill_and_the_next_start_is_refused_by_the_rescued_turn(conn, db, claim):
    assert open_question(db, claim, kill) is None
    with transaction(conn):
        claims.release(conn, claim, now_ms=NOW)
    with pytest.raises(WrongState, match="its turn is over, and nothing was done"):
        decide(conn, 0)
    press(conn, 0)
    assert cards(conn)[-1] == "Not done: its turn is over, and nothing was done."


def test_a_request_that_no_card_can_show_whole_is_refused_and_nobody_is_asked(conn, db, claim):
    long = SHELL._replace(arguments={"command": "x" * 12_000})
    with process_on(db) as process:
        answer = asyncio.run(TurnPermissions(process, claim, wait_ms=60_000, now_ms=Clock()).ask(long))
    assert not answer.is_allowed
    assert "an approver reads at most 12,000" in answer.reason
    assert asked(conn) is None


def test_a_permission_ends_with_the_role_of_its_owner_or_when_it_is_revoked(conn, db, claim, owner):
    def grant(of=owner):
        return permissions.put(
            conn, agent="coder", chat_id=claim.asked[0].chat_id, tool="Write", arguments=FILE.covers,
            granted_by=of.id, granted_name="N1", now_ms=NOW,
        )  # fmt: skip

    def is_allowed(chat_id=claim.asked[0].chat_id):
        with transaction(conn):
            used = permissions.use(
                conn, agent="coder", chat_id=chat_id, tool="Write", arguments=dict(FILE.covers), now_ms=NOW
            )
        return used is not None

    kept = grant()
    assert is_allowed()
    assert not is_allowed(None)
    assert grant() == kept
    second = person(conn, "2", "owner")
    with transaction(conn):
        people.revoke(conn, owner.id, "owner", None)
    assert not is_allowed()
    [listed] = permissions.listed(conn, agent=None, before=10, limit=9)
    assert (listed.holds, listed.uses) == (False, 1)
    grant(second)
    assert is_allowed()
    assert permissions.revoke(conn, kept)
    assert not permissions.revoke(conn, kept)
    assert not is_allowed()
