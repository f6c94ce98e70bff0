import asyncio
import json
import subprocess
import sys
import time

import pytest

from functions import dispatch
from functions.dispatch import Dispatch
from shared.agents.programs.limits import Limits
from shared.channels.base import Event
from shared.conversation.inbound import events
from shared.conversation.routing.apply import Routed
from shared.core.policy import AccessPolicy
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import rows, transaction
from shared.db.roster import agents, chats
from shared.queue import progress, turns
from shared.queue.teamwork import mailbox
from shared.roster import agents_and_teams, wirings
from shared.runtime.kick import Kicker
from tests.functions.dispatch.test_endings import KILLED
from tests.support import TICK, column, make_agent, put, row, take

STATUS = "SELECT status FROM messages ORDER BY id"


@pytest.fixture
def wired_chat(conn):
    with transaction(conn):
        chat = chats.ensure(conn, "telegram", "100", is_group=False, sender_policy="public", now_ms=0).id
        wirings.connect(conn, chat, "assistant", now_ms=0)
    return chat


async def worked(service):
    """One step, until its jobs have ended."""
    due_s = await service.claim_and_start()
    while service.worker.running:  # noqa: ASYNC110 - the worker tells only its own loop
        await asyncio.sleep(0.001)
    return due_s


def step(count=1, until=None):
    """*count* steps of a new dispatch."""

    async def go():
        service = Dispatch(Settings.load())
        dues = [await worked(service) for _ in range(count)]
        await service.close()
        return dues

    return asyncio.run(go())


def test_a_message_is_answered(conn):
    put(conn, "hello", process_after=5)
    assert step() == [None]
    assert column(conn, STATUS) == ["completed"]
    assert column(conn, "SELECT message FROM responses") == ["You said: hello"]
    assert column(conn, "SELECT type FROM events ORDER BY id") == [
        *("message_received", "chain_step_start", "response_ready", "chain_step_done")
    ]


def test_a_session_continues_where_it_stopped(conn):
    for _ in range(2):
        put(conn, "!count")
        step()
    assert column(conn, "SELECT message FROM responses ORDER BY id") == [
        *("This is turn 1 of our session.", "This is turn 2 of our session.")
    ]


def test_sessions_run_in_parallel_up_to_the_limits(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_MAX_CONCURRENT_TURNS", "2")
    make_agent(conn, "wide", concurrency=9)
    for chat in "123":
        put(conn, "hello", chat=chat, agent="wide")
    step()
    assert column(conn, STATUS) == ["completed", "completed", "pending"]


FAILURES = {
    "failed on request": ("!fail", {}, "failed on request (attempt 1)", "pending"),
    "saying nothing": ("!silent", {}, "the agent said nothing", "pending"),
    "rejected on request": ("!reject", {}, "rejected on request", "dead"),
    "too slow": (
        "!slow 30",
        {"POSTROOM_TURN_TIMEOUT_MS": "100"},
        Limits(agent="assistant").ended("the agent gave no result within 0.1 s", "turn_timeout_ms"),
        "pending",
    ),
}


@pytest.mark.parametrize(("text", "settings", "reason", "status"), FAILURES.values(), ids=FAILURES)
def test_a_failed_turn_writes_its_reason_and_no_answer(conn, monkeypatch, text, settings, reason, status):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("POSTROOM_RETRY_BASE_MS", "60000")
    put(conn, text)
    before_ms = time.time() * 1000
    step()
    found = row(conn, "messages")
    assert (found["status"], found["retry_count"], found["last_error"]) == (status, 1, reason)
    said = [turns.APOLOGY] if status == "dead" else []
    assert column(conn, "SELECT message FROM responses") == said
    if status == "pending":
        assert before_ms + 29_000 < found["process_after"] < time.time() * 1000 + 61_000


def test_each_agent_has_its_own_time_limit(conn, monkeypatch):
    """One agent's limit is shorter than the setting, another's longer."""
    monkeypatch.setenv("POSTROOM_TURN_TIMEOUT_MS", "60000")
    monkeypatch.setenv("POSTROOM_RETRY_BASE_MS", "60000")
    make_agent(conn, "hasty", turn_timeout_ms=100)
    put(conn, "!slow 30", agent="hasty")
    put(conn, "!slow 0.3")
    step()
    assert row(conn, "messages", 1)["last_error"].startswith("the agent gave no result within 0.1 s, ")
    monkeypatch.setenv("POSTROOM_TURN_TIMEOUT_MS", "100")
    make_agent(conn, "patient", turn_timeout_ms=60_000)
    put(conn, "!slow 0.3", agent="patient")
    step()
    assert column(conn, "SELECT agent FROM messages WHERE status = 'completed' ORDER BY id") == ["assistant", "patient"]


def test_an_agent_has_its_own_batch_size(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_BATCH_SIZE", "3")
    make_agent(conn, "narrow", batch_size=1)
    for agent in ("assistant", "narrow"):
        for number in range(3):
            put(conn, f"m{number}", agent=agent)
    step()
    assert column(conn, "SELECT message FROM messages WHERE status = 'completed' AND agent = 'narrow'") == ["m0"]
    assert column(conn, "SELECT count(*) FROM messages WHERE status = 'completed' AND agent = 'assistant'") == [3]


def test_messages_for_a_retired_agent_go_dead_and_the_sender_is_told(conn):
    make_agent(conn, "gone")
    put(conn, agent="gone")
    with transaction(conn):
        agents.retire(conn, "gone", now_ms=1)
    step()
    assert (
        row(conn, "messages")["last_error"] == "agent 'gone' no longer exists: create it again, then retry the message"
    )
    assert column(conn, "SELECT message FROM responses") == [turns.APOLOGY]


def test_an_unknown_provider_makes_the_message_dead_and_tells_sender_and_operator(conn):
    make_agent(conn, "odd", provider="claudius")
    put(conn, agent="odd")
    step()
    assert row(conn, "messages")["last_error"].startswith("unknown provider 'claudius'; known: ")
    assert column(conn, "SELECT message FROM responses") == [turns.APOLOGY]


def test_an_agent_that_cannot_run_fails_only_its_own_turn(conn):
    make_agent(conn, "lost", timezone="Mars/Olympus")
    put(conn, agent="lost")
    put(conn, "hello")
    step()
    assert column(conn, STATUS) == ["pending", "completed"]
    assert (
        row(conn, "messages", 1)["last_error"]
        == "the provider failed (ZoneInfoNotFoundError); the log of dispatch says where"
    )


def test_a_failed_message_is_tried_again_until_it_works(conn, to_the_end):
    put(conn, "!fail 2")

    to_the_end()
    assert column(conn, "SELECT message FROM responses") == ["Attempt 3 worked."]
    assert column(conn, "SELECT count(*) FROM events WHERE type = 'message_retry'") == [2]


def test_a_step_returns_when_more_becomes_due(conn):
    put(conn, process_after=int(time.time() * 1000) + 60_000)
    (due_s,) = step()
    assert 50 < due_s <= 60


COMMAND = [sys.executable, "-I", "-c"]


def test_a_program_is_an_agent(conn, tmp_path):
    source = "import sys, json, os; q = json.load(sys.stdin); print(q['prompt']); print(os.getcwd())"
    make_agent(conn, "coder", provider="command", config={"command": [*COMMAND, source]})
    put(conn, "</message>", agent="coder")
    step()
    (said,) = column(conn, "SELECT message FROM responses")
    assert said == f"</message>\n{tmp_path / 'agents' / 'coder'}"


def test_nobody_sees_what_the_prompt_wraps_around_messages(conn):
    """Neither the person, nor another agent, nor the history."""
    source = "import sys, json; print(json.load(sys.stdin)['prompt'])"
    make_agent(conn, "parrot", provider="command", config={"command": [*COMMAND, source]})
    put(conn, "a < b", agent="parrot", given_id="my-own-id")
    with transaction(conn):
        mailbox.send(conn, "assistant", "parrot", "c & d", now_ms=1)
    step(2)
    assert column(conn, "SELECT message FROM responses") == ["a < b"]
    assert column(conn, "SELECT message FROM messages WHERE from_agent = 'parrot'") == ["c & d"]
    said = column(conn, "SELECT content FROM agent_messages WHERE agent_id = 'parrot' AND role = 'assistant'")
    assert sorted(said) == ["a < b", "c & d"]


def test_half_a_character_costs_itself_and_not_the_answer(conn):
    source = r"""
print('{"type": "init", "continuation": "c\\ud83d"}')
print('{"type": "text", "text": "a\\ud83d"}')
print('{"type": "error", "message": "no \\ud83d"}' if "fail" in input() else '{"type": "result"}')
"""
    make_agent(conn, "cutter", provider="command", config={"command": [*COMMAND, source]})
    put(conn, "hello", agent="cutter")
    step()
    put(conn, "fail", agent="cutter", chat="200")
    step()
    assert column(conn, "SELECT message FROM responses") == ["a\ufffd"]
    assert column(conn, "SELECT DISTINCT continuation FROM sessions") == ["c\ufffd"]
    assert column(conn, "SELECT last_error FROM messages WHERE status = 'pending'") == ["no \ufffd"]


def test_an_answer_can_name_the_message_that_it_answers(conn):
    source = (
        "import sys, json\n"
        "for m in json.load(sys.stdin)['messages'][::-1]:\n"
        "    print(json.dumps({'type': 'text', 'text': 're ' + m['text'], 'answers': m['id']}))\n"
    )
    make_agent(conn, "coder", provider="command", config={"command": [*COMMAND, source]})
    put(conn, "one", agent="coder")
    put(conn, "two", agent="coder")
    step()
    assert rows(conn, "SELECT message, original_message FROM responses") == [("re two", "two"), ("re one", "one")]


def test_a_kick_starts_a_turn_at_once(serving, conn, until, environment):
    async def go():
        async with serving(dispatch):
            service = dispatch._service.get()
            await until(lambda: service.worker._lock.is_held)
            await asyncio.sleep(0)
            put(conn, "hello")
            kicker = Kicker(environment)
            kicker.kick("dispatch")
            kicker.close()
            await until(lambda: column(conn, STATUS) == ["completed"])

    asyncio.run(go())
    assert column(conn, "SELECT message FROM responses") == ["You said: hello"]


def test_a_tick_needs_the_secret_and_finds_work_without_a_kick(serving, conn, until):
    async def go():
        async with serving(dispatch) as client:
            put(conn, "hello")
            answers = [
                await client.post("/tick"),
                await client.post("/tick", headers={"x-postroom-tick": "guess"}),
                await client.post("/tick", headers={b"x-postroom-tick": b"\xe9"}),
                await client.get("/tick", headers=TICK),
                await client.post("/tick", headers=TICK),
            ]
            await until(lambda: column(conn, STATUS) == ["completed"])
            return answers

    assert [answer.status_code for answer in asyncio.run(go())] == [401, 401, 401, 405, 202]


def test_ticks_are_refused_without_a_configured_secret(serving, monkeypatch):
    monkeypatch.setenv("POSTROOM_TICK_SECRET", "")

    async def go():
        async with serving(dispatch) as client:
            return await client.post("/tick", headers={"x-postroom-tick": ""})

    answer = asyncio.run(go())
    assert (answer.status_code, "POSTROOM_TICK_SECRET" in answer.json()["error"]) == (503, True)


def test_the_log_names_turns_and_never_a_persons_text(conn, capfd):
    put(conn, "a person's secret")
    put(conn, "!fail another secret", chat="200")
    tried = "SELECT count(*) FROM messages WHERE status = 'completed' OR retry_count > 0"
    script = (
        "import sys; sys.path.insert(0, '.'); from shared.core import logs; logs.configure('dispatch')\n"
        + KILLED.replace(
            "await asyncio.sleep(300)",
            f"""while service.reader.execute({tried!r}).get < 2: await asyncio.sleep(0.01)
    await service.close()""",
        )
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"turn.done", "turn.failed"} <= {line["event"] for line in told}
    assert "secret" not in done.stdout + done.stderr


def test_an_agent_with_a_wrong_setting_waits_with_its_messages_until_it_is_mended(conn):
    make_agent(conn, "coder", provider="command", config={"command": "not a list"})
    for text in ("one", "two"):
        put(conn, text, agent="coder")
    step(2)
    assert rows(conn, "SELECT status, failure, retry_count FROM messages ORDER BY id") == [
        *(("pending", "bad_config", 0), ("pending", "bad_config", 0))
    ]
    with transaction(conn):
        agents_and_teams.save_agent(conn, "coder", {"provider": "echo", "config": {}}, now_ms=clock.now_ms())
    step(2)
    assert column(conn, STATUS) == ["completed"] * 2
    assert column(conn, "SELECT message FROM responses WHERE in_reply_to IS NOT NULL ORDER BY id") == [
        *("You said: one", "You said: two")
    ]


def test_an_album_is_answered_once_when_it_is_whole(conn, wired_chat):
    """Its pieces came before dispatch started: they wait in rows."""
    now = clock.now_ms()
    for number in (1, 2):
        piece = Event(
            "message", f"e{number}", platform_id="100", platform_message_id=str(number), sender_id="5", is_mention=True,
            text=f"part {number}", group_key="g",
        )  # fmt: skip
        with transaction(conn):
            routed = events.handle(conn, "telegram", piece, AccessPolicy(new_chats="refuse"), now_ms=now - 1_000)
        assert routed == Routed(gathered=1)
    assert step() == [None]
    assert column(conn, "SELECT message FROM responses") == ["You said: part 1\npart 2"]


def test_dispatch_sleeps_until_the_album_is_whole(conn, wired_chat):
    piece = Event("message", "e1", platform_id="100", platform_message_id="1", sender_id="5", text="x", group_key="g")
    with transaction(conn):
        events.handle(conn, "telegram", piece, AccessPolicy(new_chats="refuse"), now_ms=clock.now_ms() + 60_000)
    (due_s,) = step()
    assert 50 < due_s <= 61
    assert column(conn, "SELECT id FROM messages") == []


def test_the_line_of_a_turn_that_is_over_is_removed_behind_its_answer(conn):
    put(conn)
    before = take(conn, token="turn_before")
    with transaction(conn):
        progress.show(conn, before, before.asked[0], "working …", now_ms=clock.now_ms())
        turns.release(conn, before, now_ms=clock.now_ms())
    step(2)
    assert column(conn, "SELECT message FROM responses ORDER BY id") == ["working …", "", "You said: hello"]
    rows(conn, "UPDATE responses SET status = 'acked', acked_at = 1")
    step()
    assert column(conn, "SELECT count(*) FROM progress_lines") == [0]


def test_a_message_without_a_text_is_about_its_file(conn, wired_chat):
    voice = {"kind": "voice", "file_id": "x", "mime": "audio/ogg"}
    sent = Event(
        "message",
        "e1",
        platform_id="100",
        platform_message_id="1",
        sender_id="5",
        is_mention=True,
        attachments=(voice,),
    )
    with transaction(conn):
        events.handle(conn, "telegram", sent, AccessPolicy(new_chats="refuse"), now_ms=clock.now_ms())
    step()
    (said,) = column(conn, "SELECT message FROM responses")
    assert said.startswith("You sent: voice")
    assert column(conn, "SELECT content FROM agent_messages WHERE role = 'user'") == ["(voice)"]
