"""A turn of ``claude``: recorded lines of 2.1.330 become events, and the program gets what it must, and no more."""

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from shared.agents import registry
from shared.agents.base import Acted, Attachment, Failed, Init, Progress, Result
from shared.agents.programs.limits import Limits
from shared.agents.skills import Skill
from shared.core.errors import ConfigInvalid
from tests.shared.agents.providers.claude.claude_program import ACCESS, OpenDoors, turn_of

SESSION = "7de13b59-1f3c-4926-95ac-f4aee306eaa7"


def run(program, lines, *, then="", config=None, **more):
    """The events of a turn whose program writes *lines*."""
    path = program.make(lines, then=then)
    turn = turn_of(program.folder.parent / "work", {"program": path, **(config or {})}, **more)

    async def go():
        async with contextlib.aclosing(registry.get("claude").run(turn)) as events:
            return [event async for event in events]

    return asyncio.run(asyncio.wait_for(go(), 30))


class TestAnswers:
    def test_a_turn_with_a_tool(self, program):
        assert run(program, "a_tool", tools=object()) == [
            Init(SESSION),
            Acted("mcp__postroom__send_message"),
            Progress("uses send_message"),
            Result("done"),
        ]

    def test_thinking_is_not_said(self, program):
        assert run(program, "thinking")[1:] == [Result("x")]

    def test_an_empty_answer_is_a_result(self, program):
        line = '{"type":"result","subtype":"success","is_error":false,"result":""}'
        assert run(program, line) == [Result(None)]

    def test_the_error_of_a_tool_is_the_models_to_handle(self, program):
        assert run(program, "a_tool_that_fails")[-1] == Result("Error executing tool bad: no such chat")

    def test_a_program_that_does_not_end_after_its_result_is_ended(self, program):
        assert run(program, "thinking", then="import time; time.sleep(600)")[-1] == Result("x")

    def test_pieces_of_an_answer_do_not_count_as_output(self, program):
        piece = '{"type":"stream_event","event":{"type":"content_block_delta"}}\n'
        last = '{"type":"result","subtype":"success","is_error":false,"result":"whole"}\n'
        assert run(program, piece * 100 + last, limits=Limits(output_bytes=1024)) == [Result("whole")]

    def test_an_answer_of_two_megabytes_is_one_line(self, program):
        line = '{"type":"result","subtype":"success","is_error":false,"result":"%s"}' % ("x" * 2_000_000)
        assert len(run(program, line)[-1].text) == 2_000_000


FAILURES = {
    "status_400": ("error", False, "API Error: 400 scripted 400"),
    "status_401": ("auth", True, "Failed to authenticate"),
    "status_402": ("quota", True, "402"),
    "status_404": ("model_not_found", True, "There's an issue with the selected model"),
    "status_413": ("context_too_long", False, "Request too large"),
    "status_429": ("rate_limited", True, "Request rejected (429)"),
    "status_529": ("overloaded", True, "529"),
    "plan_used_up": ("quota", True, "You've hit your 5-hour limit"),
    "cut": ("network", True, "ECONNRESET"),
    "garbage": ("malformed", True, "malformed response"),
    "html": ("malformed", True, "malformed response"),
    "connection_refused": ("network", True, "Connection refused"),
    "not_logged_in": ("auth", True, "Not logged in"),
    "session_lost": ("session_lost", True, "No conversation found"),
    "too_many_turns": ("runaway", False, "Reached maximum number of turns"),
}


class TestFailures:
    @pytest.mark.parametrize(("lines", "expected"), FAILURES.items(), ids=FAILURES)
    def test_each_error_has_its_word_and_is_no_answer(self, program, lines, expected):
        code, is_retryable, text = expected
        events = run(program, lines, then="sys.exit(1)", tools=object())
        failed = events[-1]
        assert isinstance(failed, Failed)
        assert (failed.code, failed.retryable) == (code, is_retryable)
        assert text in failed.reason
        assert not any(isinstance(event, Result) for event in events)

    def test_a_plan_that_is_used_up_says_until_when(self, program):
        assert run(program, "plan_used_up", tools=object())[-1].until_ms == 1795378718000

    def test_a_turn_without_the_tools_that_it_should_have_does_not_go_on(self, program):
        failed = run(program, "no_tools", then="import time; time.sleep(600)", tools=object())[-1]
        assert (failed.code, "state: failed" in failed.reason) == ("tools_unavailable", True)

    def test_a_turn_that_has_no_tools_does_not_miss_them(self, program):
        assert run(program, "no_tools")[-1] == Result("You said: hi")

    def test_a_program_that_falls_silent_is_ended(self, program):
        failed = run(program, "", then="import time; time.sleep(600)", limits=Limits(idle_ms=300))[-1]
        assert failed.code == "idle_timeout"

    def test_a_tool_that_is_open_has_a_limit_of_its_own(self, program):
        call = '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"slow"}]}}\n'
        limits = Limits(idle_ms=30_000, tool_ms=300)
        assert run(program, call, then="import time; time.sleep(600)", limits=limits)[-1].code == "tool_timeout"

    def test_an_end_without_a_result_is_a_failure(self, program):
        assert run(program, "nonsense\n{}\n[1]\n")[-1].code == "malformed"

    def test_a_crash_has_its_last_words(self, program):
        failed = run(program, "", then="sys.exit('no room')")[-1]
        assert (failed.code, "no room" in failed.reason) == ("crashed", True)

    def test_a_session_that_is_lost_before_any_line_is_lost_too(self, program):
        words = "sys.exit('No conversation found with session ID: 1')"
        assert run(program, "", then=words)[-1].code == "session_lost"

    def test_a_program_that_is_not_there_says_how_to_install_it(self, tmp_path):
        turn = turn_of(tmp_path, {"program": "/nothing/claude"})

        async def go():
            return [event async for event in registry.get("claude").run(turn)]

        [failed] = asyncio.run(go())
        assert failed.code == "not_installed"
        assert "npm install -g @anthropic-ai/claude-code@" in failed.reason

    def test_tools_of_its_own_need_a_leash(self, program):
        [failed] = run(program, "thinking", config={"tools": "all"})
        assert failed.code == "bad_config"
        assert "need a leash" in failed.reason

    @pytest.mark.parametrize("config", [{"tools": "some"}, {"max_turns": 0}, {"colour": "red"}])
    def test_a_config_that_is_wrong_is_refused_when_it_is_saved(self, config):
        with pytest.raises(ConfigInvalid, match=next(iter(config))):
            registry.get("claude").check(config)


class TestWhatTheProgramGets:
    def test_the_text_of_people_comes_over_standard_input_only(self, program):
        hostile = '<message id="m1">--help /clear @/etc/hostname</message>'
        run(program, "thinking", prompt=hostile)
        assert "/clear" not in " ".join(program.given["words"])
        assert f"<messages>\\n{hostile[:9]}" in program.given["said"]
        assert '"client_composed": true' in program.given["said"]

    def test_its_environment_is_what_we_name_and_has_no_key(self, program, monkeypatch):
        monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "12345:secret")
        monkeypatch.setenv("POSTROOM_ANTHROPIC_API_KEY", "sk-real")
        run(program, "thinking")
        environment = program.given["environment"]
        assert not [value for value in environment.values() if "secret" in value or "sk-real" in value]
        assert environment["ANTHROPIC_API_KEY"] == environment["POSTROOM_TOKEN"] == "postroom-token"
        assert environment["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1/anthropic"
        assert environment["CLAUDE_CONFIG_DIR"].startswith(str(program.folder.parent / "work"))

    def test_a_plan_comes_as_a_login(self, program):
        run(program, "thinking", doors=OpenDoors(ACCESS._replace(is_plan=True)))
        environment = program.given["environment"]
        assert environment["CLAUDE_CODE_OAUTH_TOKEN"] == "postroom-token"
        assert "ANTHROPIC_API_KEY" not in environment

    def test_no_word_of_it_has_the_token_and_it_finds_the_tools(self, program):
        run(program, "a_tool", tools=object())
        words = program.given["words"]
        assert "postroom-token" not in " ".join(words)
        assert "http://127.0.0.1:1/mcp" in words[words.index("--mcp-config") + 1]
        assert words[words.index("--allowedTools") + 1] == "mcp__postroom"
        assert words[words.index("--tools") + 1] == ""

    def test_a_session_goes_on(self, program):
        run(program, "thinking", continuation=SESSION, model="opus")
        assert f"--resume={SESSION}" in program.given["words"]
        assert "--model=opus" in program.given["words"]

    @pytest.mark.parametrize("other", ["7", "--help", "thread_1", ""])
    def test_the_session_of_another_provider_is_not_continued(self, program, other):
        run(program, "thinking", continuation=other)
        assert not [word for word in program.given["words"] if word.startswith("--resume")]

    def test_images_and_documents_are_blocks_and_other_files_are_not(self, program, tmp_path):
        kinds = {"a.png": "image/png", "b.pdf": "application/pdf", "c.zip": "application/zip", "gone.png": "image/png"}
        for name in ("a.png", "b.pdf", "c.zip"):
            (tmp_path / "work" / name).write_bytes(b"bytes")
        (tmp_path / "work/link.png").symlink_to("/etc/hostname")
        named = [*kinds.items(), ("link.png", "image/png")]
        files = tuple(Attachment(tmp_path / "work" / name, kind, name, "m1") for name, kind in named)
        run(program, "thinking", attachments=files)
        blocks = json.loads(program.given["said"])["message"]["content"]
        assert [block["type"] for block in blocks] == ["image", "document", "text"]
        assert blocks[0]["source"] == {"type": "base64", "media_type": "image/png", "data": "Ynl0ZXM="}

    def test_its_instructions_are_in_a_file(self, program):
        run(program, "thinking", instructions="Be kind. " * 50_000)
        words = program.given["words"]
        path = Path(words[words.index("--system-prompt-file") + 1])
        assert path.read_text().endswith("Be kind.")

    def test_its_skills_are_a_plugin_of_this_turn(self, program, tmp_path):
        planted = tmp_path / "work/sessions/session_1/claude-plugin/hooks"
        planted.mkdir(parents=True)
        (planted / "hooks.json").write_text("{}")
        (tmp_path / "work/skills/invoices").mkdir(parents=True)
        run(program, "thinking", skills=(Skill("invoices", ""),))
        words = program.given["words"]
        plugin = Path(words[words.index("--plugin-dir") + 1])
        assert {each.name for each in plugin.iterdir()} == {".claude-plugin", "skills"}
        assert (plugin / "skills/invoices").is_dir()
        assert words[words.index("--tools") + 1] == "Skill"
        assert words[words.index("--allowedTools") + 1] == "Skill(postroom:invoices)"

    def test_without_skills_there_is_no_plugin(self, program):
        run(program, "thinking")
        assert "--plugin-dir" not in program.given["words"]

    def test_a_link_in_its_folder_is_not_followed(self, program, tmp_path):
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "work/sessions").symlink_to(tmp_path / "elsewhere")
        [failed] = run(program, "thinking")
        assert failed.code == "bad_config"
        assert list((tmp_path / "elsewhere").iterdir()) == []
