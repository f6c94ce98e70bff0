"""Tool servers of an agent, as its program is told of them."""

import pytest

from shared.agents import tool_servers
from shared.agents.access import ProgramAccess
from shared.agents.programs import containment
from shared.agents.providers.claude import config as claude_config
from shared.agents.providers.claude import invocation
from shared.agents.providers.codex import settings as codex
from shared.agents.providers.codex.config import CodexConfig
from shared.agents.providers.codex.settings import Reach
from shared.agents.providers.opencode import launch as opencode
from shared.agents.providers.opencode.config import OpencodeConfig
from shared.agents.tool_servers import ToolServer
from shared.core.errors import ConfigInvalid
from tests.shared.agents.providers.claude.claude_program import ACCESS, turn_of

WEATHER = ToolServer("weather", ("/opt/weather", "--metric"), ("look", "forecast"))


def turn(folder, **more):
    return turn_of(folder, {}, tool_servers=(WEATHER,), model="m", **more)


@pytest.mark.parametrize(
    ("config", "mode", "allowed"),
    [
        ({}, "default", "mcp__weather__look,mcp__weather__forecast"),
        ({"ask": "never"}, "dontAsk", "mcp__weather__look,mcp__weather__forecast"),
        ({"ask": "changes"}, "default", None),
    ],
)
def test_claude_may_call_the_tools_that_were_shown_and_asks_about_all_others(tmp_path, config, mode, allowed):
    words = invocation._words(claude_config.read(config), turn(tmp_path), ACCESS)
    assert words[words.index("--permission-mode") + 1] == mode
    assert (words[words.index("--allowedTools") + 1] if "--allowedTools" in words else None) == allowed
    served = words[words.index("--mcp-config") + 1]
    assert '"weather": {"type": "stdio", "command": "/opt/weather", "args": ["--metric"]}' in served


@pytest.mark.parametrize(
    ("ask", "mode", "policy"), [("beyond", "approve", "on-request"), ("changes", "prompt", "untrusted")]
)
def test_codex_sees_the_tools_that_were_shown_and_no_others(tmp_path, ask, mode, policy):
    found = codex.thread(CodexConfig(ask=ask, tools="files"), turn(tmp_path), Reach("http://a", "http://b", "t"))
    server = found["config"]["mcp_servers"]["weather"]
    assert (server["command"], server["args"], server["enabled_tools"]) == (
        "/opt/weather", ["--metric"], ["look", "forecast"],
    )  # fmt: skip
    assert (server["default_tools_approval_mode"], found["approvalPolicy"]) == (mode, policy)
    assert "postroom" in found["config"]["mcp_servers"]


@pytest.mark.parametrize("tools", ["none", "files", "all"])
def test_opencode_may_call_the_tools_that_were_shown_and_no_others(tmp_path, tools):
    access = ProgramAccess(tmp_path, "http://127.0.0.1:1", "/local/v1", "/mcp", "token", False)
    found = opencode.settings(OpencodeConfig(tools=tools), turn(tmp_path), access)
    assert found["mcp"]["weather"]["command"] == ["/opt/weather", "--metric"]
    rules = list(found["permission"].items())
    of_server = [rule for rule in rules if rule[0].startswith("weather_")]
    assert of_server == [("weather_*", "deny"), ("weather_look", "allow"), ("weather_forecast", "allow")]
    assert rules[-3:] == of_server  # the last rule that fits counts


def test_servers_want_a_leash():
    held = containment.available("off")
    with pytest.raises(ConfigInvalid, match=r"its tool servers \(weather\) run on a leash only"):
        tool_servers.check_leash((WEATHER,), held)
    tool_servers.check_leash((), held)
