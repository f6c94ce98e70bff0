"""Postroom's own tools, each called by each real program: its MCP client, the leash, the gateway, the database."""

import itertools
import json

import pytest

from shared.turns.tools import registry
from tests.e2e.conftest import until

pytestmark = pytest.mark.agents

PROVIDERS = {"claude": {}, "codex": {}, "opencode": {"models": "openai"}}
GIVES_IDS = ("claude", "codex")  # to its calls
BEFORE = {
    "send_message": {"text": "on my way"},
    "remember": {"text": "soup", "where": "here"},
    "schedule_task": {"prompt": "water the plants", "cron": "0 9 * * *"},
}

_people = itertools.count(8000000001)


class Conversation:
    """The direct chat of a person with an agent of *provider*, which may also write to an agent and to another chat."""

    def __init__(self, agents, provider, about):
        self.agents, self.provider, self.person = agents, provider, str(next(_people))
        self.agent = agents.make(f"{about}-{provider}", provider, config=PROVIDERS[provider])
        self.mate = agents.make(f"{about}-mate-of-{provider}", "echo")
        chats = [self._chat(self.person, False), self._chat(f"-{self.person}", True)]
        hello = {"chat": f"-{self.person}", "text": "hello everybody"}  # the group is there from then on
        agents.system.post(f"/control/telegram/users/{self.person}/message", hello, "platforms")
        self._call("PUT", f"/api/chats/{chats[0]}/wirings/{self.agent}", {})
        self._call("PUT", f"/api/agents/{self.agent}/destinations/den", {"chatId": chats[1]})
        self._call("PUT", f"/api/agents/{self.agent}/destinations/mate", {"toAgent": self.mate})
        self._call("PUT", "/api/tool-servers/clock", {"command": ["clock"], "tools": {"now": "The time."}})

    def _call(self, *given):
        return self.agents.system.call(*given)

    def _chat(self, platform_id, is_group):
        made = {"channel": "telegram", "platformId": platform_id, "isGroup": is_group, "senderPolicy": "public"}
        return self._call("POST", "/api/chats", made)["chat"]["id"]

    def turn(self, mark, calls):
        """One turn, in which the model makes these calls, one after another; the results as the model reads them."""
        script = " ".join(f"[[{word} {name} {json.dumps(given)}]]" for word, name, given in calls)
        body = {"text": f"{mark} {script} [[say done]]"}
        self.agents.system.post(f"/control/telegram/users/{self.person}/message", body, "platforms")
        sql = "SELECT message_id FROM messages WHERE agent = ? AND message = ?"
        [(message,)] = until("the message", lambda: self.rows(sql, self.agent, body["text"]))
        assert "done" in self.agents.answer(message)
        entries = self.agents.asked(mark)[-1].conversation.entries
        return [each for each in entries if each.role == "result"][-len(calls) :]

    def rows(self, sql, *parameters):
        return self.agents.system.query(sql, *parameters)

    def said(self):
        """What the agent sent by tools and answers, in order."""
        return [text for (text,) in self.rows("SELECT message FROM responses WHERE agent = ? ORDER BY id", self.agent)]


@pytest.fixture
def conversation(agents, provider, request):
    return Conversation(agents, provider, request.function.__name__.split("_")[1])


def calls_of_all(conversation):
    """Arguments for each tool, and a part of its answer. What changes something needs ids of an earlier turn."""
    conversation.turn("first of all", [("tool", name, given) for name, given in BEFORE.items()])
    [(said,)] = conversation.rows(
        "SELECT id FROM responses WHERE agent = ? AND message = 'on my way'", conversation.agent
    )
    [(asked, session)] = conversation.rows(
        "SELECT m.message_id, s.session_id FROM messages m JOIN sessions s ON s.id = m.session_id"
        " WHERE m.agent = ? AND m.message LIKE 'first of all%'",
        conversation.agent,
    )
    menu = conversation.agents.folder(conversation.agent) / "sessions" / session / "outbox" / "menu.txt"
    menu.write_text("leek soup")
    skill = conversation.agents.folder(conversation.agent) / "skills/soups/SKILL.md"
    skill.parent.mkdir(parents=True, exist_ok=True)
    skill.write_text("Leeks first.")
    [(line,)] = conversation.rows("SELECT line_id FROM memory_lines WHERE agent = ?", conversation.agent)
    [(task,)] = conversation.rows(
        "SELECT series_id FROM messages WHERE agent = ? AND kind = 'task'", conversation.agent
    )
    return {
        "send_message": ({"text": "hello den", "to": "den"}, "Sent to den as message"),
        "send_card": ({"title": "Menu", "fields": [{"name": "soup", "value": "leek"}]}, "Sent to this conversation"),
        "edit_message": ({"message": said, "text": "I am here"}, f"Message {said} will show the new text"),
        "send_file": ({"path": "menu.txt", "text": "today"}, "Sent menu.txt to this conversation"),
        "send_voice": ({"text": "good morning"}, "as text alone: nothing speaks for you here"),
        "send_poll": ({"question": "Soup?", "options": ["yes", "no"]}, "Sent to this conversation as message"),
        "send_sticker": ({"message": asked}, "brought no sticker"),
        "create_topic": ({"name": "Soups", "text": "Which?"}, "The topic 'Soups' begins in this conversation"),
        "add_reaction": ({"message": asked, "emoji": "👍"}, "Reacted with 👍"),
        "ask_user_question": ({"question": "Tea?", "options": ["yes", "no"]}, "Asked in this conversation as"),
        "schedule_task": ({"prompt": "feed the cat", "cron": "0 8 * * *"}, "Planned as"),
        "list_tasks": ({}, "water the plants"),
        "update_task": ({"task": task, "prompt": "water the roses"}, f"Changed {task}"),
        "pause_task": ({"task": task}, f"Paused {task}"),
        "resume_task": ({"task": task}, f"{task} goes on"),
        "cancel_task": ({"task": task}, f"Cancelled {task}"),
        "send_to_agent": ({"agent": "mate", "text": "all is well", "kind": "status"}, "Sent to agent mate"),
        "consume_messages": ({}, "No message of another agent waits"),
        "list_destinations": ({}, "mate: agent"),
        "read_thread": ({}, "first of all"),
        "read_skill": ({"name": "soups"}, "Leeks first."),
        "search_history": ({"words": "first"}, "first of all"),
        "remember": ({"text": "leeks", "where": "here"}, "Remembered as memory_"),
        "forget_memory": ({"line": line}, f"Forgot {line}."),
        "create_agent": ({"name": "Cook", "instructions": "Cook."}, "Asked for approval as"),
        "register_agent_group": ({"agent": "mate", "chat": "den"}, "Asked for approval as"),
        "change_wiring": ({"chat": "den", "settings": {"engage_mode": "mention"}}, "Asked for approval as"),
        "reset_session": ({}, "Asked for approval as"),
        "list_team": ({}, "team"),
        "install_tool_server": ({"server": "clock"}, "Asked for approval as"),
        "change_instructions": ({"instructions": "Be brief."}, "Asked for approval as"),
    }


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_tool_of_postroom_is_called_and_its_rows_are_right(conversation):
    wanted = calls_of_all(conversation)
    names = [spec.name for spec in registry.specs()]
    assert sorted(wanted) == sorted(names), "a new tool needs a line in calls_of_all"
    names.sort(key=list(wanted).index)
    results = conversation.turn("all of them", [("tool", name, wanted[name][0]) for name in names])
    for name, result in zip(names, results, strict=True):
        assert wanted[name][1] in result.text, name

    card, question = "**Menu**\n\n- **soup**: leek", "Tea?"
    agent, said = conversation.agent, conversation.said()
    assert said == [
        "on my way",
        "done",
        "hello den",
        card,
        "I am here",
        "today",
        "good morning",
        "Soup?\n- yes\n- no",
        "Which?",
        "👍",
        question,
        "done",
    ]
    sent = "SELECT json_extract(files, '$[0].name') FROM responses WHERE agent = ? AND message = 'today'"
    assert conversation.rows(sent, agent) == [("menu.txt",)]
    tasks = "SELECT message, status FROM messages WHERE agent = ? AND kind = 'task' ORDER BY id"
    assert conversation.rows(tasks, agent) == [("water the roses", "cancelled"), ("feed the cat", "pending")]
    mail = "SELECT message FROM messages WHERE agent = ? AND from_agent = ?"
    assert conversation.rows(mail, conversation.mate, agent) == [("all is well",)]
    asked = "SELECT q.question, q.status FROM questions q JOIN sessions s ON s.id = q.session_id WHERE s.agent = ?"
    assert conversation.rows(asked, agent) == [("Tea?", "open")]
    approvals = conversation.agents.system.get("/api/approvals")[1]
    assert len([each for each in approvals if each["agent"] == agent]) == 6


@pytest.mark.parametrize("provider", PROVIDERS)
def test_refusals_of_tools_reach_the_model_as_errors_and_leave_nothing(conversation, provider):
    calls = {
        "you have no destination 'nowhere'": ("send_message", {"text": "lost", "to": "nowhere"}),
        "argument 'text' is missing": ("send_message", {}),
        "task_1_strange": ("cancel_task", {"task": "task_1_strange"}),
        "there is no such file in the outbox": ("send_file", {"path": "outbox/none.pdf"}),
    }
    results = conversation.turn("to be refused", [("tool", *call) for call in calls.values()])
    for words, result in zip(calls, results, strict=True):
        assert words in result.text
    assert [each.is_error for each in results] == [provider == "claude"] * len(calls)
    assert conversation.said() == ["done"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_repeated_calls_say_it_once(conversation, provider):
    """By the id of the call; a program that gives none is taken to repeat the same words."""
    hello, more = ("send_message", {"text": "hello"}), ("send_message", {"text": "and more"})
    results = conversation.turn("once", [("tool", *hello), ("again", *hello)])
    assert len({each.text.partition("Sent to")[2] for each in results}) == 1
    assert conversation.said() == ["hello", "done"]
    conversation.turn("twice", [("tool", *more), ("tool", *more)])
    assert conversation.said()[2:] == ["and more"] * (2 if provider in GIVES_IDS else 1) + ["done"]
