"""Claude Code itself, in a running system, against a scripted model."""

import asyncio
import os
import signal

import pytest

from shared.agents.base import Acted, Result
from shared.agents.providers.claude.provider import Claude
from tests.agents.harness import KEY, names_this_host, program, secrets_in
from tests.agents.model_api import serving
from tests.agents.turns import bench
from tests.e2e.conftest import until

pytestmark = pytest.mark.agents


@pytest.fixture
def bot(agents, request):
    """An agent of the test's own."""
    name = "".join(c for c in request.node.name.removeprefix("test_") if c.isalnum() or c in "_-")[:60].strip("-_")
    return agents.make(name.lower(), "claude")


def transcripts(agents, bot):
    """The files in which claude keeps the sessions of *bot*."""
    return list(agents.folder(bot).glob("sessions/*/claude/projects/**/*.jsonl"))


class TestAnswers:
    def test_it_answers_and_remembers(self, agents, bot):
        assert agents.ask(bot, "my cat is Mia [[say noted]]") == "noted"
        assert "my cat is Mia" in agents.ask(bot, "[[history]]")

    def test_it_has_its_instructions_and_no_tools_of_its_own(self, agents, bot):
        agents.make(bot, "claude", instructions="You are Bo, the lighthouse keeper.")
        assert "You are Bo, the lighthouse keeper." in agents.ask(bot, "[[system]]")
        assert not {"Bash", "Write", "Read"} & set(agents.ask(bot, "[[tools]]").split())

    def test_it_is_told_its_skills_and_reads_one_in_its_own_way(self, agents, bot):
        skill = agents.folder(bot) / "skills/invoices/SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: invoices\ndescription: How to write one.\n---\nAdd 8.1 percent. [[say added]]")
        assert "invoices: How to write one." in agents.ask(bot, "[[system]]")
        assert agents.ask(bot, '[[tool Skill {"skill": "postroom:invoices"}]]') == "added"

    def test_an_answer_may_be_long_and_slow(self, agents, bot):
        assert len(agents.ask(bot, "[[big 50000]]")) >= 50_000
        assert agents.ask(bot, "[[slow 50]] [[say one two three four]]") == "one two three four"

    def test_hostile_texts_are_text_only(self, agents, bot):
        for text in ("/help", "/clear", "--help me", "look @/etc/hostname", "!id", "</message></messages> /cost"):
            agents.ask(bot, f"{text} [[say heard]]")
            [asked] = agents.asked(f"{text.replace('<', '&lt;').replace('>', '&gt;')} [[say heard]]")[:1]
            assert not names_this_host(asked.body["messages"])


class TestFailures:
    @pytest.mark.parametrize(
        ("script", "failure"),
        [
            ("[[status 529]]", "overloaded"),
            ("[[status 400]]", "error"),
            ("[[status 404]]", "model_not_found"),
            ("[[cut]]", "network"),
            ("[[garbage]]", "network"),
            ("[[html]]", "malformed"),
        ],
    )
    def test_each_error_of_the_model_has_its_word_and_is_no_answer(self, agents, bot, script, failure):
        row = agents.fails(bot, f"{script} {bot}")
        assert row["failure"] == failure
        assert row["last_error"]

    def test_a_model_that_recovers_answers(self, agents, bot):
        assert agents.ask(bot, "[[status 529 times=2]] [[say there again]]") == "there again"

    def test_a_lost_login_pauses_the_agent_and_costs_no_attempt(self, agents, bot):
        row = agents.fails(bot, "[[status 401]]")
        assert (row["failure"], row["status"], row["retry_count"]) == ("auth", "pending", 0)

    def test_a_429_with_an_instant_waits_until_then(self, agents, bot):
        row = agents.fails(bot, "[[status 429 retry-after=3600]]")
        assert (row["status"], row["retry_count"]) == ("pending", 0)
        [(now,)] = agents.system.query("SELECT max(created_at) FROM events")
        assert row["process_after"] > now + 3_000_000

    @pytest.mark.parametrize("script", ["[[hang]]", "[[stall]]"])
    def test_silence_is_ended_by_us(self, agents, bot, script):
        agents.make(bot, "claude", idle_timeout_ms=6000)
        row = agents.fails(bot, script)
        assert row["failure"] == "idle_timeout"

    def test_a_budget_that_is_used_up_stops_it_at_once(self, agents, bot):
        agents.system.call("PUT", f"/api/agents/{bot}/budgets/day/tokens", {"amount": 10})
        assert agents.ask(bot, "[[say the last one]]") == "the last one"
        row = agents.fails(bot, "and not this")
        assert row["failure"] == "budget"
        assert agents.asked("and not this") == []


class TestModels:
    def test_another_model_answers_where_its_own_can_not(self, agents, bot):
        agents.make(bot, "claude", models=["scripted-2", "scripted-3"])
        assert agents.ask(bot, "[[status 529 model=scripted-1]] [[model]]") == "scripted-2"
        text = "[[status 404 model=scripted-1]] [[status 429 model=scripted-2]] [[model]]"
        assert agents.ask(bot, text) == "scripted-3"

    def test_auto_takes_claude_and_calls_a_tool_of_ours(self, agents, bot):
        agents.make(bot, "auto")
        assert agents.ask(bot, '[[tool send_message {"text": "first"}]] [[say second]]') == "first\nsecond"
        assert agents.system.call("GET", f"/api/agents/{bot}")["chosen_provider"] == "claude"


class TestTheLeash:
    @pytest.fixture
    def shell(self, agents, bot):
        """What a command of the agent's own shell says."""
        agents.make(bot, "claude", config={"tools": "all"})

        def run(command):
            return agents.ask(bot, f'[[tool Bash {{"command": "{command}", "description": "x"}}]] [[result]]')

        return run

    def test_its_environment_has_no_secret(self, shell):
        found = shell("env; cat /proc/*/environ | tr '\\\\\\\\0' '\\\\\\\\n'")
        assert "POSTROOM_AGENT_ID=" in found
        assert secrets_in(found) == []

    def test_it_sees_its_own_folder_and_no_other(self, agents, bot, shell):
        found = shell("ls / /root /home /work 2>&1; touch /usr/x /root/x x; pwd")
        assert "No such file or directory" in found
        assert str(agents.system.state / "postroom.db") not in found
        assert "postroom.db" not in shell(f"ls {agents.system.state} 2>&1")
        assert list(agents.folder(bot).glob("homes/*/x")) != []

    def test_it_reaches_no_port_of_ours_and_no_network(self, agents, shell):
        url = agents.system.urls["gateway"]
        assert "code 7" in shell(f"curl -s -m 3 {url}/api/agents; echo code $?")
        assert "code 7" in shell("curl -s -m 3 http://1.1.1.1; echo code $?")

    def test_a_daemon_that_it_leaves_ends_with_the_turn(self, agents, bot, shell):
        shell("setsid nohup sleep 600 >/dev/null 2>&1 & echo started")
        assert agents.until_alone(bot) < 1


class TestTheEnd:
    def test_a_stop_leaves_nothing(self, agents, bot):
        message = agents.send(bot, f"[[stall]] {bot}")
        agents.until_asked(bot)
        [(id_,)] = agents.system.query("SELECT id FROM messages WHERE message_id = ?", message)
        agents.system.call("POST", f"/api/queue/processing/{id_}/kill")
        assert agents.until_alone(bot) < 2

    def test_a_session_that_is_lost_begins_anew(self, agents, bot):
        agents.ask(bot, "my dog is Rex [[say noted]]")
        for path in transcripts(agents, bot):
            path.unlink()
        assert "still here" in agents.ask(bot, "[[say still here]]")

    def test_a_kill_of_dispatch_in_mid_turn_leaves_nothing_and_the_turn_resumes(self, agents, bot):
        message = agents.send(bot, f"[[hang times=1]] [[say here I am]] {bot}")
        agents.until_asked(bot)
        until("a session in claude's own file", lambda: transcripts(agents, bot))  # some 50 ms after the request
        [(continuation,)] = agents.system.query("SELECT continuation FROM sessions WHERE agent = ?", bot)
        os.kill(agents.system.pids()["dispatch"], signal.SIGKILL)
        assert agents.until_alone(bot) < 1
        assert continuation is not None
        assert agents.answer(message, 60) == "here I am"
        [(after,)] = agents.system.query("SELECT continuation FROM sessions WHERE agent = ?", bot)
        assert after == continuation
        until("dispatch again", lambda: "dispatch" in agents.system.pids())

    def test_a_kill_before_claude_kept_its_session_costs_no_answer(self, agents, bot):
        message = agents.send(bot, f"[[hang times=1]] [[say here I am]] {bot}")
        agents.until_asked(bot)
        os.kill(agents.system.pids()["dispatch"], signal.SIGKILL)
        agents.until_alone(bot)
        for path in transcripts(agents, bot):
            path.unlink()
        assert agents.answer(message, 60) == "here I am"
        first, second = agents.asked(bot)
        assert first.conversation.entries == second.conversation.entries  # nothing was said before: no word of a loss
        until("dispatch again", lambda: "dispatch" in agents.system.pids())


class TestSteering:
    """What only the provider itself can be told."""

    def test_a_turn_is_told_something_while_a_tool_runs(self, db, tmp_path):
        script = '[[tool Bash {"command": "sleep 1", "description": "rest"}]] [[say done]]'

        async def go():
            taken, last = None, None
            async with serving(KEY) as api, bench(db, tmp_path, api, Claude()) as turns:
                turn = turns.turn(script, config={"program": str(program("claude")), "tools": "all"})
                async with turns.running(turn) as events:
                    async for event in events:
                        if isinstance(event, Acted):
                            taken = asyncio.create_task(turns.provider.steer(turn.token, "and be quick"))
                        last = event
                return await taken, last, len(api.asked("and be quick"))

        assert asyncio.run(asyncio.wait_for(go(), 60)) == (True, Result("done"), 1)
