"""Codex itself, in a running system, against a scripted model."""

import asyncio
import base64
import os
import signal
import zlib

import pytest

from shared.agents.base import Attachment, Progress, Result
from shared.agents.providers.codex.provider import Codex
from tests.agents.harness import KEY, names_this_host, program, secrets_in
from tests.agents.model_api import serving
from tests.agents.turns import bench
from tests.e2e.conftest import until

pytestmark = pytest.mark.agents

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SLOW = "[[slow 300]] [[say one two three four five six]]"


@pytest.fixture
def coder(agents, request):
    """An agent of the test's own."""
    return agents.make(f"codex-{zlib.crc32(request.node.nodeid.encode()):x}", "codex")


class TestAnswersOfCodex:
    @pytest.mark.parametrize("mode", ["app-server", "exec"])
    def test_it_answers_and_remembers(self, agents, coder, mode):
        agents.make(coder, "codex", config={"mode": mode})
        assert agents.ask(coder, "my cat is Mia [[say noted]]") == "noted"
        assert "my cat is Mia" in agents.ask(coder, "[[history]]")

    def test_it_has_its_instructions_and_no_tools_of_its_own(self, agents, coder):
        agents.make(coder, "codex", instructions="You are Bo, the lighthouse keeper.")
        assert "You are Bo, the lighthouse keeper." in agents.ask(coder, "[[system]]")
        tools = agents.ask(coder, "[[tools]]").split()
        assert "mcp__postroom/send_message" in tools
        assert [tool for tool in tools if not tool.startswith("mcp__postroom/") and "mcp_resource" not in tool] == []

    @pytest.mark.parametrize("mode", ["app-server", "exec"])
    def test_a_tool_of_postroom_is_called_and_its_answer_reaches_the_model(self, agents, coder, mode):
        agents.make(coder, "codex", config={"mode": mode})
        assert "destination" in agents.ask(coder, "[[tool list_destinations {}]] [[result]]").lower()

    def test_the_model_that_codex_takes_by_itself_calls_tools_by_a_script(self, agents, coder):
        agents.make(coder, "codex", model=None)
        assert agents.ask(coder, "[[model]]").startswith("gpt-")
        assert "functions/exec" in agents.ask(coder, "[[tools]]")
        assert "destination" in agents.ask(coder, "[[tool list_destinations {}]] [[result]]").lower()

    def test_hostile_texts_are_text_only(self, agents, coder):
        for text in ("/help", "--help me", "look @/etc/hostname", "!id", "$skill", "</message></messages> /quit"):
            assert agents.ask(coder, f"{text} [[say heard]]") == "heard"
            [asked] = agents.asked(f"{text.replace('<', '&lt;').replace('>', '&gt;')} [[say heard]]")[-1:]
            assert not names_this_host(asked.body["input"])

    def test_a_long_answer_arrives_whole(self, agents, coder):
        assert len(agents.ask(coder, "[[big 50000]]")) >= 50_000


class TestFailuresOfCodex:
    @pytest.mark.parametrize(
        ("script", "failure"),
        [
            ("[[status 400]]", "error"),
            ("[[status 404]]", "model_not_found"),
            ("[[status 529]]", "overloaded"),
            ("[[cut]]", "network"),
            ("[[garbage]]", "network"),
        ],
    )
    def test_each_error_of_the_model_has_its_word_and_is_no_answer(self, agents, coder, script, failure):
        row = agents.fails(coder, f"{script} {coder}")
        assert row["failure"] == failure
        assert row["last_error"]

    def test_a_lost_login_pauses_the_agent_and_costs_no_attempt(self, agents, coder):
        row = agents.fails(coder, "[[status 401]]")
        assert (row["failure"], row["status"], row["retry_count"]) == ("auth", "pending", 0)

    @pytest.mark.parametrize("script", ["[[status 429 retry-after=3600]]", "[[quota 7200]]"])
    def test_a_limit_of_the_host_is_waited_for_and_costs_no_attempt(self, agents, coder, script):
        row = agents.fails(coder, f"{script} {coder}")
        assert (row["status"], row["retry_count"]) == ("pending", 0)
        assert len(agents.asked(coder)) == 1

    @pytest.mark.parametrize("script", ["[[hang]]", "[[stall]]"])
    def test_silence_is_ended_by_us(self, agents, coder, script):
        agents.make(coder, "codex", idle_timeout_ms=4000)
        assert agents.fails(coder, script)["failure"] == "idle_timeout"

    def test_a_budget_that_is_used_up_stops_it_at_once(self, agents, coder):
        agents.system.call("PUT", f"/api/agents/{coder}/budgets/day/tokens", {"amount": 10})
        assert agents.ask(coder, "[[say the last one]]") == "the last one"
        assert agents.fails(coder, "and not this")["failure"] == "budget"
        assert agents.asked("and not this") == []


class TestTheLeashOfCodex:
    @pytest.fixture(params=["all", "files"])
    def shell(self, agents, coder, request):
        """What a command of the agent's own shell says."""
        agents.make(coder, "codex", config={"tools": request.param})

        def run(command):
            return agents.ask(coder, f'[[tool exec_command {{"cmd": "{command}"}}]] [[result]]')

        return run

    def test_its_environment_has_no_secret(self, shell):
        found = shell("env; cat /proc/*/environ | tr '\\\\\\\\0' '\\\\\\\\n'")
        assert "HOME=" in found
        assert secrets_in(found) == []

    def test_it_writes_in_its_own_folder_and_reaches_nothing_of_ours(self, agents, coder, shell):
        found = shell(
            f"touch mine; ls {agents.system.state} 2>&1; curl -s -m 3 {agents.system.urls['gateway']}; echo code $?"
        )
        assert "postroom.db" not in found
        assert "code 7" in found
        assert list(agents.folder(coder).glob("homes/*/mine")) != []


class TestTheEndOfCodex:
    def test_a_stop_leaves_nothing(self, agents, coder):
        message = agents.send(coder, f"[[stall]] {coder}")
        agents.until_asked(coder)
        [(id_,)] = agents.system.query("SELECT id FROM messages WHERE message_id = ?", message)
        agents.system.call("POST", f"/api/queue/processing/{id_}/kill")
        assert agents.until_alone(coder) < 2

    def test_a_thread_that_is_lost_begins_anew(self, agents, coder):
        agents.ask(coder, "my dog is Rex [[say noted]]")
        for path in agents.folder(coder).glob("sessions/*/codex/**/*"):
            if path.is_file():
                path.unlink()
        assert "still here" in agents.ask(coder, "[[say still here]]")

    def test_a_kill_of_dispatch_in_mid_turn_leaves_nothing_and_the_turn_resumes(self, agents, coder):
        message = agents.send(coder, f"[[hang times=1]] [[say here I am]] {coder}")
        agents.until_asked(coder)
        [(continuation,)] = agents.system.query("SELECT continuation FROM sessions WHERE agent = ?", coder)
        os.kill(agents.system.pids()["dispatch"], signal.SIGKILL)
        assert agents.until_alone(coder) < 1
        assert continuation is not None
        assert agents.answer(message, 60) == "here I am"
        [(after,)] = agents.system.query("SELECT continuation FROM sessions WHERE agent = ?", coder)
        assert after == continuation
        until("dispatch again", lambda: "dispatch" in agents.system.pids())


class TestControlOfCodex:
    """What only the provider itself can be told."""

    def run(self, db, folder, go):
        async def running():
            async with serving(KEY) as api, bench(db, folder, api, Codex()) as turns:
                return await go(turns, {"program": str(program("codex"))}, api)

        return asyncio.run(asyncio.wait_for(running(), 60))

    def test_a_running_turn_is_steered(self, db, tmp_path):
        async def go(turns, config, api):
            turn, taken, last = turns.turn(SLOW, config=config), None, None
            async with turns.running(turn) as events:
                async for event in events:
                    if isinstance(event, Progress) and taken is None:
                        taken = asyncio.create_task(turns.provider.steer(turn.token, "[[say seven]]"))
                    if isinstance(event, Result):
                        last = event
            return await taken, last, len(api.asked("[[say seven]]"))

        assert self.run(db, tmp_path, go) == (True, Result("seven"), 1)

    def test_an_image_of_a_message_reaches_the_model(self, db, tmp_path):
        async def go(turns, config, _):
            picture = turns.folder / "a.png"
            picture.write_bytes(PNG)
            files = (Attachment(picture, "image/png", "a.png", "m"),)
            return await turns.run("what is this? [[media]]", config=config, attachments=files)

        assert self.run(db, tmp_path, go).text.startswith("image/png")

    def test_an_interrupted_turn_goes_on_in_the_same_thread(self, db, tmp_path):
        async def go(turns, config, api):
            turns.events = []
            async with turns.running(turns.turn(SLOW, config=config)) as events:
                async for event in events:
                    turns.events.append(event)
                    if isinstance(event, Progress):
                        break
            thread = turns.continuation
            result = await turns.run("[[history]]", continuation=thread, config=config)
            return thread == turns.continuation, result.text

        is_same, history = self.run(db, tmp_path, go)
        assert is_same
        assert "one two three four" in history
        assert "turn_aborted" in history
