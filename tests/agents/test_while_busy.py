"""What people write while real programs work: lines in a row, and messages that are steered into a turn."""

import itertools
import os
import signal

import pytest

from tests.e2e.conftest import until

pytestmark = pytest.mark.agents

_people = itertools.count(7001)
SLOW = {
    "claude": ({"tools": "all"}, '[[tool Bash {"command": "sleep 2", "description": "rest"}]] [[say done]]'),
    "codex": ({}, "[[slow 400]] [[say one two three four five six]]"),
}
LAST = {"claude": "done", "codex": "seven"}  # claude reads what it is told as a note beside the result of its tool


class Chat:
    """The direct chat of a person with an agent of *provider*."""

    def __init__(self, agents, provider, about, **wiring):
        self.agents, self.person = agents, str(next(_people))
        self.agent = agents.make(f"{about}-{provider}", provider, config=SLOW[provider][0])
        made = {"channel": "telegram", "platformId": self.person, "senderPolicy": "public"}
        chat = agents.system.call("POST", "/api/chats", made)["chat"]["id"]
        agents.system.call("PUT", f"/api/chats/{chat}/wirings/{self.agent}", wiring)

    def write(self, *lines):
        for line in lines:
            path = f"/control/telegram/users/{self.person}/message"
            self.agents.system.post(path, {"text": line}, "platforms")

    def rows(self, sql):
        return self.agents.system.query(sql, self.agent)

    def until_ended(self, count):
        sql = "SELECT count(*) FROM messages WHERE agent = ? AND status = 'completed'"
        until(f"{count} completed messages", lambda: self.rows(sql) == [(count,)])

    def until_steered(self):
        sql = "SELECT message_id FROM events WHERE agent = ? AND type = 'message_steered'"
        return until("a message that is steered", lambda: self.rows(sql))[0][0]

    def answers(self):
        sql = "SELECT message FROM responses WHERE agent = ? AND message <> '' ORDER BY id"
        return [text for (text,) in self.rows(sql)]


@pytest.mark.parametrize("provider", SLOW)
def test_three_lines_in_a_row_get_one_answer(agents, provider):
    chat = Chat(agents, provider, "burst")
    chat.write("burst-a", "burst-b", f"burst-c-{provider} [[say all three]]")
    chat.until_ended(3)
    assert chat.answers() == ["all three"]


@pytest.mark.parametrize("provider", SLOW)
def test_a_message_reaches_the_turn_that_runs_and_one_answer_is_for_both(agents, provider):
    chat = Chat(agents, provider, "steer", whileBusy="steer", debounceMs=0)
    mark = f"steered-{chat.person}"
    chat.write(f"{mark} {SLOW[provider][1]}")
    agents.until_asked(mark)
    chat.write(f"besides-{chat.person} [[say seven]]")
    steered = chat.until_steered()
    chat.until_ended(2)
    assert chat.answers() == [LAST[provider]]
    assert agents.asked(f"besides-{chat.person}")
    why = agents.system.get(f"/api/messages/{steered}/why")[1]
    assert why["state"] == "answered_with", why


@pytest.mark.parametrize("provider", SLOW)
def test_a_kill_of_dispatch_after_that_loses_nothing_and_answers_nothing_twice(agents, provider):
    chat = Chat(agents, provider, "killed", whileBusy="steer", debounceMs=0)
    mark = f"killed-{chat.person}"
    chat.write(f"{mark} {SLOW[provider][1]}")
    agents.until_asked(mark)
    chat.write(f"besides-{chat.person} [[say after the kill]]")
    chat.until_steered()
    os.kill(agents.system.pids()["dispatch"], signal.SIGKILL)
    chat.until_ended(2)
    assert len(chat.answers()) == 1
    until("dispatch again", lambda: "dispatch" in agents.system.pids())


@pytest.mark.parametrize("provider", SLOW)
def test_a_message_interrupts_the_turn_and_both_are_answered_together(agents, provider):
    chat = Chat(agents, provider, "interrupt", whileBusy="interrupt", debounceMs=0)
    mark = f"interrupted-{chat.person}"
    chat.write(f"{mark} {SLOW[provider][1]}")
    agents.until_asked(mark)
    chat.write(f"besides-{chat.person} [[say together]]")
    chat.until_ended(2)
    (answer,) = chat.answers()
    assert "together" in answer
    states = chat.rows("SELECT retry_count, failure FROM messages WHERE agent = ?")
    assert states == [(0, None)] * 2


def test_a_line_tells_what_the_agent_does_and_is_gone_with_the_answer(agents):
    chat = Chat(agents, "claude", "progress", debounceMs=0)
    agents.make(chat.agent, "claude", config={"tools": "all"}, progress=True)
    chat.write(f'progress-{chat.person} [[tool Bash {{"command": "sleep 6", "description": "rest"}}]] [[say done]]')
    chat.until_ended(1)
    sql = "SELECT message, content, status FROM responses WHERE platform_id = ? ORDER BY id"

    def sent():
        found = agents.system.query(sql, chat.person)
        return found if len(found) == 3 and {each[2] for each in found} == {"acked"} else None

    line, answer, removal = until("a line, an answer and a removal", sent)
    assert (line[0], answer[0], removal[0]) == ("running a command …", "done", "")
    assert "removes" in removal[1]
