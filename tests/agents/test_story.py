"""One long story with the real programs: a team, its people, and a kill of everything in the middle of their work."""

import json
import os
import signal
import sys
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from emulator.proving import promises
from emulator.proving.witnesses import Witnesses, read_journal
from tests.agents.harness import KEY, AgentSystem, environment
from tests.agents.model_api import serving_beside
from tests.agents.test_voice import form
from tests.e2e.conftest import ROOT, System, until
from tests.e2e.crash import invariants
from tests.e2e.people import Person, card, code_for, hears, messages
from tests.emulator.harness import descendants

pytestmark = pytest.mark.agents

ANA, BEN = "5000000001", "5000000002"
SAYS = ("sendMessage", "sendVoice", "sendDocument")  # the methods that bring people something new to read
TO_ANA = [
    *("Which branch?", "I ask first", "You said: next", "planned", "I heard you", "and spoke", "both have it"),
    *("You said: re k 0001", "it is built", "You said: the fix is ready", "the report of the day", "the task is done"),
]
KIND = "multipart/form-data; boundary=voice-of-a-test"


def tool(name, **given):
    """A call in a script."""
    return f"[[tool {name} {json.dumps(given)}]]"


HEARD = f"by voice {tool('send_voice', text='I heard you')} [[say and spoke]]"


class Crew:
    """Claude leads Codex and a program of the operator's. Ana, an owner, writes to the leader, Ben to the program."""

    def __init__(self, folder, api):
        self.system = System(folder / "state", environment=environment(api))
        self.agents = AgentSystem(self.system, api)
        self.ana, self.ben = Person(self.system, ANA), Person(self.system, BEN)

    def begin(self):
        """Start, and make the team and the chats."""
        self.system.start()
        agents, call = self.agents, self.system.call
        voice = {"transcriber": f"echo '{HEARD}' {{sound}}", "speaker": "sh -c 'cat > /dev/null; printf OggS1234'"}
        agents.make("lead", "claude", config={"tools": "all", "ask": "shell"}, **voice)
        agents.make("coder", "codex", config={"tools": "files"})
        program = [sys.executable, "-I", "-S", str(ROOT / "emulator/proving/agent.py"), "shared", "1"]
        agents.make("keeper", "command", config={"command": program})
        call("PUT", "/api/teams/crew", {"agents": ["lead", "coder", "keeper"], "leader_agent": "lead"})
        for person, agent in ((self.ana, "lead"), (self.ben, "keeper")):
            made = {"channel": "telegram", "platformId": person.id, "senderPolicy": "public"}
            chat = call("POST", "/api/chats", made)["chat"]["id"]
            call("PUT", f"/api/chats/{chat}/wirings/{agent}", {"debounceMs": 0})
        self.ana.says(code_for(self.system, "owner"))
        hears(self.system, ANA, "owner")

    def kill_everything(self):
        """End every process at once, those of the agents too."""
        pids = descendants(self.system.get("/_emulator/status")[1]["pid"])
        self.system.kill()
        for pid in pids[1:]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for agent in ("lead", "coder", "keeper"):
            self.agents.until_alone(agent)

    def session(self):
        """The session of Ana's chat."""
        [(session,)] = self.system.query(
            "SELECT session_id FROM sessions WHERE agent = 'lead' AND chat_id IS NOT NULL AND status = 'active'"
        )
        return session

    def open_work(self):
        """The rows that are not finished; the next run of the daily task may wait."""
        return self.system.query(
            "SELECT message_id, agent, status FROM messages"
            " WHERE status NOT IN ('completed', 'cancelled') AND NOT (recurrence IS NOT NULL AND status = 'pending')"
            " UNION ALL SELECT id, agent, status FROM responses WHERE status NOT IN ('acked', 'deleted')"
        )

    def calls(self, *methods):
        """What the platform took by these methods, in order."""
        found = self.system.get("/control/telegram/calls", "platforms")[1]["calls"]
        return [each["params"] for each in found if each["method"] in methods and each["status"] == 200]

    def read(self):
        """What each person read of the agents' words, as often as the platform took it."""
        said = {text for (text,) in self.system.query("SELECT message FROM responses WHERE agent IS NOT NULL")}
        found = {}
        for each in self.calls(*SAYS):
            text = each.get("text") or each.get("caption")
            if text in said:
                found.setdefault(str(each["chat_id"]), Counter())[text] += 1
        return found

    def witnesses(self):
        """Two of the crash runs' witnesses: the rows, and the journal of the program."""
        record = self.agents.folder("keeper") / "shared"
        return Witnesses(self.system.state / "postroom.db", written={}, sends=(), turns=read_journal(record))


@pytest.fixture
def crew(tmp_path):
    with serving_beside(KEY) as api:
        crew = Crew(tmp_path, api)
        try:
            crew.begin()
            yield crew
        finally:
            crew.system.stop()


def test_a_team_works_through_a_day_and_a_kill_of_everything(crew):
    system, ana, ben = crew.system, crew.ana, crew.ben

    # A question, answered by a button.
    ana.says(f"{tool('ask_user_question', question='Which branch?', options=['main', 'next'])} [[say I ask first]]")
    ana.presses(card(system, "Which branch?"), "next")
    hears(system, ANA, "You said: next")

    # A daily task, whose result is a file. Its instant comes while the rest goes on.
    due = datetime.now(UTC) + timedelta(seconds=70)
    write = tool("Write", file_path=f"sessions/{crew.session()}/outbox/report.md", content="All is green.")
    send = tool("send_file", path="report.md", text="the report of the day")
    daily = {"prompt": f"{write} {send} [[say the task is done]]", "cron": f"{due.minute} {due.hour} * * *"}
    ana.says(f"{tool('schedule_task', **daily, timezone='UTC')} [[say planned]]")
    hears(system, ANA, "planned")
    # The lead asks before each command, so its operator gives the script. The run has a turn of its own then.
    [task] = system.get("/api/schedules?agent=lead")[1]
    system.call("PUT", f"/api/schedules/{task['id']}", {"script": "echo 3 builds"})

    # A stop: nothing of it is said.
    ana.says("never mind this [[hang]]")
    crew.agents.until_asked("never mind this")
    ana.says("/stop")
    hears(system, ANA, "Stopped")

    # A voice message, answered by one.
    spoken = form(person=ANA, chat=ANA, text="", kinds=json.dumps(["voice"]))
    status, answer = system.post("/chat/telegram/say", spoken, "platforms", {"Content-Type": KIND})
    assert status == 201, answer
    hears(system, ANA, "and spoke")

    # Two things are handed over, Claude waits for a permission, the program works for Ben: then all of it is killed.
    fix = f"fix it [[hang times=1]] {tool('exec_command', cmd='echo fixed > fix.txt')} [[say the fix is ready]]"
    to_coder = tool("send_to_agent", agent="coder", text=fix, within="30m")
    to_keeper = tool("send_to_agent", agent="keeper", text="k 0001")
    ana.says(f"{to_coder} {to_keeper} [[say both have it]]")
    hears(system, ANA, "You said: re k 0001")
    crew.agents.until_asked("fix it")
    ana.says(f"{tool('Bash', command='touch built', description='build')} [[say it is built]]")
    first = card(system, "touch built")
    ben.says("b 0001 | hang ok")
    until("Ben's turn", lambda: "b 0001" in str(crew.witnesses().turns))
    crew.kill_everything()
    assert list(crew.agents.folder("lead").glob("homes/*/built")) == []

    # A fresh start: the turns run again, and Claude asks anew.
    system.start()
    hears(system, BEN, "re b 0001")

    def asked_anew():
        found = card(system, "touch built")
        return found if found["id"] != first["id"] else None

    ana.presses(until("a new card", asked_anew), "Allow once")
    hears(system, ANA, "it is built")
    hears(system, ANA, "You said: the fix is ready")
    hears(system, ANA, "the task is done")
    until(f"the end of all work: {crew.open_work()}", lambda: not crew.open_work())

    invariants.hold(crew.witnesses(), [promises.turns, promises.sound])
    assert crew.read() == {ANA: Counter(TO_ANA), BEN: Counter(["re b 0001"])}  # each of it once
    assert [len(crew.calls(method)) for method in ("sendDocument", "sendVoice")] == [1, 1]
    assert "report.md" in json.dumps(messages(system, ANA))
    assert len(list(crew.agents.folder("lead").glob("homes/*/built"))) == 1
    assert len(list(crew.agents.folder("coder").glob("homes/*/fix.txt"))) == 1
    [task] = system.get("/api/schedules?agent=lead")[1]
    [run] = system.get(f"/api/schedules/{task['id']}/runs")[1]
    assert "the task is done" in run["words"]
    ends = dict(system.query("SELECT status, count(*) FROM approvals GROUP BY status"))
    assert ends == {"expired": 1, "approved": 1}
    deadline = "SELECT status FROM messages WHERE kind = 'system' AND message LIKE 'Agent coder has not answered%'"
    assert system.query(deadline) == [("cancelled",)]
