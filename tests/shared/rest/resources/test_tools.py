"""The tools of agents over the API."""

from shared.db.engine.connection import rows
from shared.turns.tools import registry
from tests.api_client import ask, get, made, post
from tests.support import column, dump, make_chat, wire

SAID = "SELECT message FROM responses ORDER BY id"


def use(serving, tool, agent="assistant", **body):
    return made(post(serving, body, f"/api/agents/{agent}/tools/{tool}"))


def test_the_tools_are_listed_with_their_schemas(serving):
    found = {each["name"]: each for each in get(serving, "/api/tools").json()}
    assert set(found) == {spec.name for spec in registry.specs()}
    assert found["send_message"]["schema"]["required"] == ["text"]


def test_an_operator_uses_a_tool_as_the_agent(serving, conn):
    chat = make_chat(conn, "-200", is_group=True)
    wire(conn, chat)
    answer = use(serving, "send_message", arguments={"text": "hello", "to": f"chat-{chat}"})
    assert answer == {"ok": True, "text": f"Sent to chat-{chat} as message 1.", "isError": False}
    assert rows(conn, "SELECT agent, platform_id, message FROM responses") == [("assistant", "-200", "hello")]


def test_in_a_chat_the_tools_act_in_that_conversation(serving, conn):
    chat = make_chat(conn)
    wire(conn, chat)
    use(serving, "send_message", chatId=chat, arguments={"text": "hello"})
    planned = use(serving, "schedule_task", chatId=chat, arguments={"prompt": "water", "cron": "0 9 * * *"})
    assert planned["text"].startswith("Planned as series_")
    assert "water" in use(serving, "list_tasks", chatId=chat)["text"]
    assert use(serving, "list_tasks")["text"] == "No task is planned in this conversation."
    assert rows(conn, "SELECT chat_id, kind FROM messages") == [(chat, "task")]


def test_outside_a_turn_the_same_words_are_said_again_unless_the_call_has_an_id(serving, conn):
    chat = make_chat(conn)
    wire(conn, chat)
    for call_id in (None, None, "c1", "c1"):
        use(serving, "send_message", chatId=chat, callId=call_id, arguments={"text": "hello"})
    assert column(conn, SAID) == ["hello"] * 3


def test_what_a_tool_refuses_is_an_answer_that_says_so(serving, conn):
    refused = use(serving, "send_message", arguments={"text": "hello"})
    assert (refused["isError"], refused["text"][:33]) == (True, "there is no conversation here: na")
    assert use(serving, "send_message", arguments={})["text"] == "argument 'text' is missing"
    assert use(serving, "no_such_tool", arguments={})["isError"]
    assert column(conn, SAID) == []


def test_the_conversation_must_be_one_of_the_agents_destinations(serving, conn):
    chat = make_chat(conn, "-300")
    before = dump(conn)
    for other in (chat, 99):
        reply = post(serving, {"chatId": other, "arguments": {"text": "x"}}, "/api/agents/assistant/tools/send_message")
        assert reply.status_code == 404
        assert "among its destinations" in reply.json()["error"]
    assert ask(serving, "POST", "/api/agents/nobody/tools/send_message", {}).status_code == 404
    assert dump(conn) == before
