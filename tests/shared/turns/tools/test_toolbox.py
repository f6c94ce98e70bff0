import asyncio
import json
import signal
import subprocess
import sys

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy
from shared.turns.tools import registry
from tests.shared.turns.tools.calls import Process, Running, running
from tests.support import NOW, column, dump, put, take

SAID = "SELECT message FROM responses ORDER BY id"
POLICY = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=0.0)


@pytest.fixture
def turn(conn, db):
    with running(conn, db) as turn:
        yield turn


def test_the_issues_tools_are_all_there():
    assert sorted(spec.name for spec in registry.specs()) == [
        *(
            "add_reaction",
            "ask_user_question",
            "cancel_task",
            "change_instructions",
            "change_wiring",
            "consume_messages",
            "create_agent",
            "create_topic",
        ),
        *(
            "edit_message",
            "forget_memory",
            "install_tool_server",
            "list_destinations",
            "list_tasks",
            "list_team",
            "pause_task",
            "read_skill",
            "read_thread",
            "register_agent_group",
            "remember",
            "reset_session",
            "resume_task",
        ),
        *(
            "schedule_task",
            "search_history",
            "send_card",
            "send_file",
            "send_message",
            "send_poll",
            "send_sticker",
            "send_to_agent",
        ),
        *("send_voice", "update_task"),
    ]


@pytest.mark.parametrize("spec", registry.specs(), ids=lambda spec: spec.name)
def test_a_schema_is_one_that_every_model_takes(spec):
    """An object with plain properties: some models take no references, and titles only cost tokens."""
    text = json.dumps(spec.schema)
    assert spec.schema["type"] == "object"
    assert spec.schema["additionalProperties"] is False
    assert "$ref" not in text
    assert "pydantic" not in text
    assert len(spec.description) > 20


# Of all tools in a request to a model, some 4,560 tokens. That an answer comes later stands in the description of a
# tool, and not in what it answers, which people may see.
MOST_BYTES = 18_260


def test_what_the_tools_add_to_each_prompt_does_not_creep():
    """A new tool costs each turn of each agent: shorten another, or raise the bound with a reason."""
    tools = [
        {"name": each.name, "description": each.description, "input_schema": each.schema} for each in registry.specs()
    ]
    sizes = {each["name"]: len(json.dumps(each, separators=(",", ":"), ensure_ascii=False).encode()) for each in tools}
    total = sum(sizes.values())
    largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:5]
    print(f"{len(tools)} tools, {total} bytes, some {total // 4} tokens; the largest: {largest}")
    assert total <= MOST_BYTES, f"{total} bytes; the largest: { {name: sizes[name] for name in largest} }"


def test_a_schema_says_what_a_model_needs_and_a_limit_that_is_left_out_holds_all_the_same(turn):
    schemas = {each.name: each.schema["properties"] for each in registry.specs()}
    assert "maxLength" not in schemas["schedule_task"]["prompt"]
    assert "argument 'prompt'" in turn.refusal("schedule_task", prompt="x" * 20_001, cron="0 9 * * *")
    assert schemas["ask_user_question"]["options"]["items"] == {"maxLength": 60, "type": "string"}
    assert schemas["schedule_task"]["cron"]["description"].startswith("five fields")
    assert schemas["update_task"]["cron"] == {"anyOf": [{"maxLength": 200, "type": "string"}, {"type": "null"}]}
    assert schemas["update_task"]["task"]["description"] == "from schedule_task or list_tasks"


def test_what_a_tool_said_is_committed_before_it_answers(turn, other):
    assert turn.say("send_message", text="on my way") == "Sent to this conversation as message 1."
    assert column(other, SAID) == ["on my way"]
    assert "deliver" in turn.process.kicked


# -- repeats ----------------------------------------------------------------------------------------------------------


def test_a_call_with_the_same_id_does_nothing_twice_and_gets_the_same_answer(turn, conn):
    first = turn.use("send_message", "call-1", text="once")
    assert turn.use("send_message", "call-1", text="once") == first
    assert column(conn, SAID) == ["once"]


def test_the_same_text_twice_on_purpose_is_two_calls_where_the_client_gives_ids(turn, conn):
    turn.use("send_message", "call-1", text="knock")
    turn.use("send_message", "call-2", text="knock")
    assert column(conn, SAID) == ["knock", "knock"]


def test_without_an_id_the_same_arguments_and_place_are_the_same_call(turn, conn):
    first = turn.use("send_message", text="once")
    turn.use("send_message", text="another")
    assert turn.use("send_message", text="once", to=None) == first
    assert column(conn, SAID) == ["once", "another"]


def test_an_id_that_comes_again_with_other_arguments_is_another_call(turn, conn):
    turn.use("send_message", "call-1", text="one")
    turn.use("send_message", "call-1", text="two")
    assert column(conn, SAID) == ["one", "two"]


def test_two_copies_of_a_call_at_once_are_one_call(turn, conn):
    async def both():
        calls = (turn.box.call("send_message", {"text": "once"}, call_id="call-1") for _ in range(5))
        return await asyncio.gather(*calls)

    assert len(set(asyncio.run(both()))) == 1
    assert column(conn, SAID) == ["once"]


def test_an_error_is_not_kept_so_a_repeated_call_tries_again(turn, conn):
    turn.refusal("send_message", call_id="call-1", text="hello", to="family")
    assert column(conn, "SELECT count(*) FROM tool_calls") == [0]
    rows(conn, "UPDATE destinations SET name = 'family'")
    assert not turn.use("send_message", "call-1", text="hello", to="family").is_error


def test_the_answer_outlives_the_process_in_the_same_turn(turn, conn, db):
    first = turn.use("send_message", "call-1", text="once")
    again = Process(db)
    assert Running(again, db, turn.claim).use("send_message", "call-1", text="once") == first
    again.close()
    assert column(conn, SAID) == ["once"]


def test_another_turn_has_calls_of_its_own(turn, conn, db):
    turn.use("send_message", "call-1", text="once")
    with transaction(conn):
        turns.settle(conn, turn.claim, [], None, now_ms=NOW)
    put(conn, "again")
    later = Running(turn.process, db, take(conn, token="turn_b"))
    later.use("send_message", "call-1", text="once")
    assert column(conn, SAID).count("once") == 2


# -- after the end ----------------------------------------------------------------------------------------------------


def stop(conn, turn):
    with transaction(conn):
        claims.release(conn, turn.claim, now_ms=NOW)


def fail(conn, turn):
    with transaction(conn):
        turns.fail(conn, turn.claim, Failure("it broke"), POLICY, now_ms=NOW)


def settle(conn, turn):
    with transaction(conn):
        turns.settle(conn, turn.claim, [], None, now_ms=NOW)


def end(conn, turn):
    turn.box.close()


GIVEN = {
    "add_reaction": {"message": "m1", "emoji": "x"},
    "ask_user_question": {"question": "?"},
    "create_agent": {"name": "Bob", "instructions": ""},
    "edit_message": {"message": 1, "text": "x"},
    "read_thread": {},
    "read_skill": {"name": "x"},
    "search_history": {"words": "x"},
    "remember": {"text": "x", "where": "here"},
    "forget_memory": {"line": "memory_1"},
    "register_agent_group": {"agent": "bob", "chat": "family"},
    "schedule_task": {"prompt": "x", "cron": "0 9 * * *"},
    "send_card": {"title": "x"},
    "send_file": {"path": "x"},
    "send_message": {"text": "x"},
    "send_to_agent": {"agent": "bob", "text": "x"},
    "send_voice": {"text": "x"},
    "send_poll": {"question": "x", "options": ["y", "z"]},
    "send_sticker": {"message": "x"},
    "create_topic": {"name": "x", "text": "y"},
    "update_task": {"task": "x", "prompt": "y"},
    "pause_task": {"task": "x"},
    "resume_task": {"task": "x"},
    "cancel_task": {"task": "x"},
    "consume_messages": {},
    "list_destinations": {},
    "list_tasks": {},
    "list_team": {},
}


@pytest.mark.parametrize("over", [stop, fail, settle, end])
@pytest.mark.parametrize("tool", sorted(GIVEN))
def test_after_the_turn_every_tool_is_refused_and_nothing_is_stored(turn, conn, over, tool):
    over(conn, turn)
    before = dump(conn)
    assert turn.refusal(tool, **GIVEN[tool]).startswith("the turn has ended or was stopped")
    assert dump(conn) == before


# -- what a model does wrong ------------------------------------------------------------------------------------------


def test_an_unknown_tool_is_answered_with_the_names_of_the_tools(turn):
    assert "there is no tool 'sendmessage'; the tools are: add_reaction" in turn.refusal("sendmessage", text="x")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "argument 'text' is missing"),
        ({"text": ""}, "argument 'text': should have at least 1 character"),
        ({"text": "  \n"}, "argument 'text': it is empty; write what the person is to read"),
        ({"text": 5}, "argument 'text': should be a valid string"),
        ({"text": None}, "argument 'text': should be a valid string"),
        ({"text": "x" * 50_001}, "argument 'text': should have at most 50000 characters"),
        ({"text": "x", "chat": 7}, "there is no argument 'chat'; the arguments of send_message are: text, to"),
        ({"text": "x", "to": ""}, "argument 'to': should have at least 1 character"),
        ({"text": "x", "to": {"$ne": 1}}, "argument 'to': should be a valid string"),
    ],
)
def test_wrong_arguments_are_named_and_nothing_is_stored(turn, conn, given, sentence):
    before = dump(conn)
    assert turn.refusal("send_message", **given) == sentence
    assert dump(conn) == before


def test_pydantics_own_text_never_reaches_the_model(turn):
    for tool in GIVEN:
        text = turn.use(tool, **{"nonsense" * 40: [1], "text": {"a": 1}, "task": []}).text
        assert "pydantic" not in text
        assert "http" not in text
        assert len(text) < 1000


def test_arguments_that_are_no_json_are_an_error_and_no_exception(turn):
    answer = asyncio.run(turn.box.call("send_message", {"text": object()}))
    assert (answer.is_error, answer.text) == (True, "the arguments are no JSON object that can be read")
    deep = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert asyncio.run(turn.box.call("send_message", deep)).is_error


def test_half_characters_are_mended_as_at_every_other_door(turn, conn):
    turn.say("send_message", text="cut \ud83d here")
    assert column(conn, SAID) == ["cut \ufffd here"]


def test_a_database_that_can_not_be_used_is_a_sentence_for_the_model(turn, conn):
    rows(conn, "DROP TABLE tool_calls")
    assert turn.refusal("send_message", text="x").startswith("the database could not be used, and nothing was done")
    assert column(conn, SAID) == []


def test_an_agent_that_was_deleted_meanwhile_has_no_tools(turn, conn):
    rows(conn, "UPDATE agents SET retired_at = 1 WHERE id = 'assistant'")
    assert turn.refusal("list_tasks") == "agent 'assistant' was deleted"


# -- how many ---------------------------------------------------------------------------------------------------------


def test_a_turn_without_end_is_told_to_end_and_does_nothing_more(turn, conn, db):
    limited = Running(turn.process, db, turn.claim, tool_calls=3)
    limited.say("send_message", text="one")
    limited.say("list_tasks")
    limited.refusal("send_message", to="nowhere", text="a call that is refused counts")
    for _ in range(2):
        assert limited.refusal("send_message", text="two") == (
            "this turn has made its 3 tool calls, and no more are carried out: end your work with your answer now"
        )
    assert column(conn, SAID) == ["one"]


# -- a kill between the commit and the answer -------------------------------------------------------------------------

KILLED = """
import asyncio, os, pathlib, signal, sys
from shared.core.settings import Settings
from shared.db.engine.connection import open_connection, transaction
from shared.db.engine.group_commit import Writer
from shared.db.queue import claims
from shared.turns.tools.toolbox import Caller, SessionToolbox

class Host:
    def __init__(self, db):
        self.writer, self.reader = Writer(db), open_connection(db, readonly=True)

    def kick(self, *names):  # the first thing after the commit
        os.kill(os.getpid(), signal.SIGKILL)

db = pathlib.Path(sys.argv[1])
(claim, _), = claims.running(open_connection(db, readonly=True))
box = SessionToolbox(Host(db), Settings(db=db), Caller.of(claim), now_ms=lambda: int(sys.argv[2]))
print(asyncio.run(box.call("send_message", {"text": "half of it"}, call_id="call-1")).text)
"""


def test_after_a_kill_between_commit_and_answer_nothing_is_said_twice(turn, conn, db):
    died = subprocess.run([sys.executable, "-c", KILLED, str(db), str(NOW)], capture_output=True, text=True, timeout=60)
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, "")
    assert column(conn, SAID) == ["half of it"]
    assert turn.use("send_message", "call-1", text="half of it").text == "Sent to this conversation as message 1."
    with transaction(conn):
        turns.rescue(conn, POLICY, now_ms=NOW + 1, everything=True)
    assert column(conn, "SELECT status FROM messages") == ["dead"]  # it has spoken: no second run says it again
    assert column(conn, SAID).count("half of it") == 1
