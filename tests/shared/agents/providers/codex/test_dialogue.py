"""A turn over the app-server: recorded lines of codex 0.169.0 in, steps out; our messages against its schema."""

import json
from pathlib import Path

import jsonschema
import pytest

from shared.agents.access import PermissionAnswer
from shared.agents.base import Failed, Init, Progress, Result
from shared.agents.providers.codex import approvals, dialogue
from shared.agents.providers.codex.config import CodexConfig
from shared.agents.providers.codex.dialogue import CodexAnswered, CodexSays, CodexTool, Dialogue
from shared.agents.providers.codex.settings import Reach, thread
from tests.shared.agents.providers.a_turn import make_turn

EVENTS = Path(__file__).parents[4] / "events/codex"
PROTOCOL = json.loads(Path(__file__).with_name("protocol.json").read_text())
REACH = Reach("http://127.0.0.1:8788/openai/v1", "http://127.0.0.1:8788/mcp", "token", ("send_message",))


def heard(name, continuation=None):
    talk = Dialogue({}, continuation, "hello")
    lines = (EVENTS / f"app_server_{name}.jsonl").read_bytes().splitlines()
    return [step for line in lines for step in talk.hear(line)]


def told(talk, *messages):
    return [step for message in messages for step in talk.hear(json.dumps(message).encode())]


def begun(continuation=None):
    """A dialogue whose turn runs."""
    talk = Dialogue({}, continuation, "hello")
    told(
        talk, {"id": 2, "result": {"thread": {"id": continuation or "t1"}}}, {"id": 3, "result": {"turn": {"id": "u1"}}}
    )
    return talk


def test_an_answer_is_the_last_text_and_its_pieces_are_progress():
    steps = heard("answer")
    assert [type(step) for step in steps] == [Init, CodexSays, *([Progress] * 2), Result]
    assert steps[-1] == Result("hi there")
    assert "".join(step.note for step in steps if isinstance(step, Progress)).strip() == "hi there"


def test_the_thread_is_known_before_the_turn_is_asked_for():
    init, start = heard("answer")[:2]
    assert start.message["params"]["threadId"] == init.continuation


def test_a_tool_call_has_a_beginning_and_an_end():
    tools = [step for step in heard("tool") if isinstance(step, CodexTool)]
    assert tools == [CodexTool(False, "send_message"), CodexTool(True, "send_message")]
    assert heard("tool")[-1] == Result("done")


@pytest.mark.parametrize(
    ("name", "code", "is_retryable"),
    [
        ("unauthorized", "auth", True),
        ("quota", "quota", True),
        ("overloaded", "overloaded", True),
        ("malformed", "malformed", True),
        ("refused", "error", False),
        ("not_found", "model_not_found", True),
        ("lost", "session_lost", True),
    ],
)
def test_each_recorded_error_becomes_its_failure_and_no_answer(name, code, is_retryable):
    steps = heard(name)
    assert (steps[-1].code, steps[-1].retryable) == (code, is_retryable)
    assert not any(isinstance(step, Result) for step in steps)


def test_a_new_thread_in_place_of_the_sessions_is_a_lost_session():
    (failed,) = told(Dialogue({}, "t1", "hello"), {"id": 2, "result": {"thread": {"id": "t2"}}})
    assert (failed.code, type(failed)) == ("session_lost", Failed)


def test_what_a_model_says_on_its_way_is_no_answer():
    talk = begun()
    items = [("a", "commentary", "I look."), ("b", "final_answer", "Found.")]
    messages = [{"type": "agentMessage", "id": key, "phase": phase, "text": text} for key, phase, text in items]
    steps = told(talk, *({"method": "item/completed", "params": {"item": item}} for item in messages))
    steps += told(talk, {"method": "turn/completed", "params": {"turn": {"id": "u1", "status": "completed"}}})
    assert steps == [Progress("I look."), Result("Found.")]


def test_the_end_of_another_turn_is_not_this_ones():
    over = {"method": "turn/completed", "params": {"turn": {"id": "u2", "status": "completed"}}}
    assert told(begun(), over) == []


def test_a_plan_that_is_used_up_names_the_instant_of_its_return():
    limits = {"primary": {"usedPercent": 100, "resetsAt": 1795263632}, "secondary": {"usedPercent": 40, "resetsAt": 1}}
    error = {"message": "no", "codexErrorInfo": "usageLimitExceeded"}
    turn = {"id": "u1", "status": "failed", "error": error}
    (failed,) = told(
        begun(),
        {"method": "account/rateLimits/updated", "params": {"rateLimits": limits}},
        {"method": "turn/completed", "params": {"turn": turn}},
    )
    assert (failed.code, failed.until_ms) == ("quota", 1795263632000)


def test_an_interrupted_turn_is_no_answer():
    over = {"method": "turn/completed", "params": {"turn": {"id": "u1", "status": "interrupted"}}}
    (failed,) = told(begun(), over)
    assert failed.code == "interrupted"


def test_a_running_turn_can_be_steered_and_interrupted_and_one_that_is_over_can_not():
    talk = begun()
    steer, stop = talk.steer("also this"), talk.interrupt()
    assert steer.message["params"]["expectedTurnId"] == stop.message["params"]["turnId"] == "u1"
    assert told(talk, {"id": steer.number, "result": {}}) == [CodexAnswered(steer.number, True)]
    assert told(talk, {"id": stop.number, "error": {"message": "no active turn"}}) == [
        CodexAnswered(stop.number, False)
    ]
    told(talk, {"method": "turn/completed", "params": {"turn": {"id": "u1", "status": "completed"}}})
    assert (talk.steer("late"), talk.interrupt()) == (None, None)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json\n",
        b"[1]\n",
        b"null\n",
        b'{"method": 7}\n',
        b'{"method": "new/thing", "params": []}\n',
        b"\xff\n",
    ],
)
def test_a_line_that_is_no_message_of_the_protocol_means_nothing(line):
    assert list(begun().hear(line)) == []


@pytest.mark.parametrize(
    "line", [b'{"method": "turn/completed", "params": {"turn": {"id": "u1"}}}', b'{"id": 2, "result": {}}']
)
def test_a_message_that_lacks_what_it_must_say_fails_the_turn(line):
    (failed,) = Dialogue({}, None, "hello").hear(line) if b"result" in line else begun().hear(line)
    assert isinstance(failed, Failed)


def test_a_request_that_nobody_serves_is_answered_with_an_error():
    (answer,) = told(begun(), {"id": 9, "method": "attestation/generate", "params": {}})
    assert answer.message["error"]["code"] == -32601


# -- our messages against the schema that codex wrote


def sent(config=None, continuation=None, images=()):
    """Every message of a turn, by method."""
    turn = make_turn(config=config or {})
    talk = Dialogue(thread(CodexConfig(**(config or {})), turn, REACH), continuation, "hello", images)
    messages = [*talk.begin(), *told(talk, {"id": 2, "result": {"thread": {"id": continuation or "t1"}}})]
    told(talk, {"id": 3, "result": {"turn": {"id": "u1"}}})
    messages += [talk.steer("more"), talk.interrupt()]
    return {each.message["method"]: each.message.get("params") for each in messages if isinstance(each, CodexSays)}


@pytest.mark.parametrize("config", [{}, {"tools": "files", "effort": "high"}, {"tools": "all"}])
@pytest.mark.parametrize("continuation", [None, "01a20476-aa0e-7481-be9c-37726e8f5e7a"])
def test_each_message_fits_the_schema_of_codex(config, continuation):
    messages = sent(config, continuation, [Path("/agent/inbox/a.png")])
    assert len(messages) == 6
    for method, params in messages.items():
        if method != "initialized":
            schema = PROTOCOL["requests"][method]
            jsonschema.validate(params, schema)
            assert set(params) <= set(schema["properties"])


ASKED = {
    "item/commandExecution/requestApproval": (
        {"itemId": "i2", "command": "touch /x", "cwd": "/home", "reason": "why", "availableDecisions": ["accept"]},
        "shell",
        {"command": "touch /x", "cwd": "/home"},
    ),
    "item/fileChange/requestApproval": (
        {"itemId": "i1", "grantRoot": "/x"},
        "apply_patch",
        {"changes": [{"path": "/x/a.md", "diff": "+a"}], "also_writes_in": "/x"},
    ),
    "mcpServer/elicitation/request": (
        {
            "serverName": "weather",
            "_meta": {"codex_approval_kind": "mcp_tool_call", "tool_name": "look", "tool_params": {"at": "Bern"}},
        },
        "weather.look",
        {"at": "Bern"},
    ),
}


@pytest.mark.parametrize("method", sorted(PROTOCOL["answers"]))
def test_each_request_of_codex_is_declined_in_the_form_of_its_schema(method):
    answer = approvals.answer(method, is_allowed=False)
    jsonschema.validate(answer, PROTOCOL["answers"][method])
    assert "accept" not in str(answer)


@pytest.mark.parametrize("method", sorted(ASKED))
def test_what_an_approver_allows_is_allowed_once_in_the_form_of_its_schema(method):
    answer = approvals.answer(method, is_allowed=True)
    jsonschema.validate(answer, PROTOCOL["answers"][method])
    assert "Session" not in str(answer)


@pytest.mark.parametrize("method", sorted(ASKED))
def test_codex_waits_for_the_decision_about_exactly_what_it_asked(method):
    talk = Dialogue({}, None, "hello")
    change = {"id": "i1", "type": "fileChange", "changes": [{"path": "/x/a.md", "diff": "+a"}]}
    list(talk.hear(json.dumps({"method": "item/started", "params": {"item": change}}).encode()))
    params, tool, arguments = ASKED[method]
    asks, *_ = talk.hear(json.dumps({"id": 7, "method": method, "params": params}).encode())
    assert (asks.asked.tool, asks.asked.arguments, asks.asked.call) == (tool, arguments, "7")
    assert asks.answer(PermissionAnswer(True)).message == {"id": 7, "result": approvals.answer(method, is_allowed=True)}


def test_a_change_of_files_that_codex_did_not_name_is_declined():
    talk = Dialogue({}, None, "hello")
    message = {"id": 7, "method": "item/fileChange/requestApproval", "params": {"itemId": "unknown"}}
    says, _ = talk.hear(json.dumps(message).encode())
    assert says.message == {"id": 7, "result": {"decision": "decline"}}


def test_the_names_that_the_dialogue_reads_are_in_the_schema():
    assert set(dialogue._TOOLS) <= set(PROTOCOL["itemTypes"])
    assert set(PROTOCOL["answers"]) <= set(PROTOCOL["asked"])
    assert {"turn", "threadId"} <= set(PROTOCOL["told"]["turn/completed"])
    assert "willRetry" in PROTOCOL["told"]["error"]
    assert "rateLimits" in PROTOCOL["told"]["account/rateLimits/updated"]
