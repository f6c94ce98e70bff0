"""What of a request goes on to a host of models. The bodies are those of the real programs, and of hostile ones."""

import json

import pytest

from shared.agents.host_access import Allowed, allowed
from shared.turns.gateway import allowed_requests
from shared.turns.gateway.allowed_requests import CHAT, MESSAGES, RESPONSES, why_not
from tests.shared.turns.gateway.model_host import EVENTS

RULES = {"messages": MESSAGES, "chat": CHAT, "responses": RESPONSES}


def user(*content):
    return [{"role": "user", "content": list(content)}]


def image(source):
    return {"messages": user({"type": "image", "source": source})}


TOOLS = [{"name": "send", "description": "d", "input_schema": {"type": "object", "properties": {"file_id": {}}}}]


@pytest.mark.parametrize(
    ("rules", "fields"),
    [
        (MESSAGES, {"model": "m", "max_tokens": 1, "system": "s", "tools": TOOLS, **image({"type": "base64"})}),
        (MESSAGES, {"tools": [{"type": "bash_20250124", "name": "bash"}, {"type": "custom", "name": "x"}]}),
        (MESSAGES, {"messages": user({"type": "tool_use", "input": {"source": {"type": "url"}, "file_id": "f"}})}),
        (MESSAGES, {"messages": user({"type": "text", "text": "see https://example.com/a.png"})}),
        (CHAT, {"messages": user({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}})}),
        (CHAT, {"store": False, "tools": [{"type": "function", "function": {"name": "x"}}]}),
        (RESPONSES, {"store": False, "previous_response_id": None, "input": "text", "include": ["reasoning"]}),
        (RESPONSES, {"input": user({"type": "input_image", "image_url": "data:image/png;base64,AA"})}),
    ],
)
def test_questions_answers_and_tools_of_the_program_go_on(rules, fields):
    assert why_not(rules, fields, Allowed()) is None


SERVER_SIDE = [
    (MESSAGES, {"mcp_servers": [{"type": "url", "url": "https://evil.example"}]}, "mcp"),
    (MESSAGES, {"container": {"id": "c"}}, "code_execution"),
    (MESSAGES, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search"),
    (MESSAGES, {"tools": [{"type": "web_search_20991231", "name": "web_search"}]}, "web_search"),
    (MESSAGES, {"tools": [*TOOLS, {"type": "web_fetch_20250910", "name": "web_fetch"}]}, "web_fetch"),
    (MESSAGES, {"tools": [{"type": "code_execution_20250825", "name": "x"}]}, "code_execution"),
    (MESSAGES, {"tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]}, "mcp"),
    (MESSAGES, image({"type": "url", "url": "https://evil.example/?secret"}), "urls"),
    (
        MESSAGES,
        {"messages": user({"type": "document", "source": {"type": "url", "url": "https://evil.example"}})},
        "urls",
    ),
    (MESSAGES, {"messages": user({"type": "tool_result", "content": image({"type": "url"})["messages"]})}, "urls"),
    (MESSAGES, image({"type": "file", "file_id": "file_1"}), "storage"),
    (CHAT, {"messages": user({"type": "image_url", "image_url": {"url": "https://evil.example"}})}, "urls"),
    (CHAT, {"messages": user({"type": "image_url", "Image_URL": "https://evil.example"})}, "urls"),
    (CHAT, {"messages": user({"type": "file", "file": {"file_id": "f"}})}, "storage"),
    (CHAT, {"web_search_options": {}}, "web_search"),
    (CHAT, {"store": True}, "storage"),
    (RESPONSES, {"tools": [{"type": "web_search"}]}, "web_search"),
    (RESPONSES, {"tools": [{"type": "web_search_preview_2025_03_11"}]}, "web_search"),
    (RESPONSES, {"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}, "file_search"),
    (RESPONSES, {"tools": [{"type": "code_interpreter"}]}, "code_execution"),
    (RESPONSES, {"tools": [{"type": "mcp", "server_url": "https://evil.example"}]}, "mcp"),
    (RESPONSES, {"tools": [{"type": "image_generation"}]}, "image_generation"),
    (RESPONSES, {"input": [{"type": "tool_search_output", "tools": [{"type": "mcp"}]}]}, "mcp"),
    (RESPONSES, {"input": user({"type": "input_image", "image_url": "https://evil.example"})}, "urls"),
    (RESPONSES, {"input": user({"type": "input_file", "file_url": "https://evil.example"})}, "urls"),
    (RESPONSES, {"input": [{"type": "item_reference", "id": "i"}]}, "storage"),
    (RESPONSES, {"previous_response_id": "resp_1"}, "storage"),
    (RESPONSES, {"background": True}, "storage"),
    (RESPONSES, {"prompt": {"id": "p"}}, "storage"),
]


@pytest.mark.parametrize(("rules", "fields", "setting"), SERVER_SIDE)
def test_what_the_host_would_do_beyond_an_answer_needs_its_setting(rules, fields, setting):
    assert f"name {setting!r} in server_tools of the agent's config" in why_not(rules, fields, Allowed())
    others = frozenset(setting for _, _, setting in SERVER_SIDE) - {setting}
    assert why_not(rules, fields, Allowed(others)) is not None
    assert why_not(rules, fields, allowed({"server_tools": [setting]})) is None


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"tools": [{"type": "teleport_20270101"}]}, "the tool of type 'teleport_20270101'"),
        ({"tools": {"0": {"type": "web_search_20250305"}}}, "tools that are no list"),
        ({"tools": ["web_search"]}, "the tool of type 'None'"),
        (image({"type": "elsewhere"}), "source of type 'elsewhere'"),
        ({"messages": json.loads("[" * 100 + "]" * 100)}, "nested deeper than 64"),
    ],
)
def test_what_nobody_knows_is_refused_whatever_the_config_says(fields, named):
    everything = Allowed(frozenset(setting for _, _, setting in SERVER_SIDE), frozenset({"tools"}))
    assert named in why_not(MESSAGES, fields, everything)


def test_a_field_of_a_newer_program_is_named_with_its_setting():
    why = why_not(RESPONSES, {"model": "m", "warp": 9}, Allowed())
    assert "the field 'warp'" in why
    assert "request_fields of the agent's config" in why
    assert why_not(RESPONSES, {"model": "m", "warp": 9}, allowed({"request_fields": ["warp"]})) is None
    assert why_not(RESPONSES, {"Mcp_Servers": []}, Allowed()) is not None


@pytest.mark.parametrize("path", sorted(EVENTS.glob("*_request.json")), ids=lambda path: path.stem)
def test_what_the_tested_programs_send_goes_on(path):
    """Recorded from the versions of ``infra/programs``, by their fields and tools."""
    recorded = json.loads(path.read_text())
    assert why_not(RULES[recorded["dialect"]], recorded["fields"], Allowed()) is None
    assert allowed_requests.why_not(RULES[recorded["dialect"]], {**recorded["fields"], "new": 1}, Allowed()) is not None
