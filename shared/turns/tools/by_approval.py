"""Tools whose effect an owner or admin approves first: each asks, and returns at once.

The decision comes as a message of its own, in a new turn.
"""

from typing import Annotated, Any

from pydantic import Field

from shared.conversation.access import cards, requests
from shared.turns.tools import places
from shared.turns.tools.base import Arguments, Tool, ToolCall
from shared.turns.tools.speaking import Line

Why = Annotated[str, Field(max_length=500, description="your reason, which the approver reads")]


class CreateAgent(Arguments):
    name: Annotated[str, Field(min_length=1, max_length=60)]
    instructions: Annotated[str, Field(max_length=20_000, description="what the new agent reads before each turn")]
    own_bot: Annotated[
        str, Field(max_length=40, description="telegram: it gets a bot of its own there, which a person makes by a tap")
    ] = ""
    why: Why = ""


def _create_agent(call: ToolCall, given: CreateAgent) -> str:
    arguments = {"name": given.name, "instructions": given.instructions}
    own_bot = {"own_bot": given.own_bot} if given.own_bot else {}
    return _request(call, "create_agent", arguments | own_bot, given.why)


class RegisterAgentGroup(Arguments):
    agent: Annotated[str, Field(min_length=1, max_length=64, description="the destination's name of the agent")]
    chat: Annotated[
        str, Field(min_length=1, max_length=64, description="the destination's name of the chat where it is to answer")
    ]
    why: Why = ""


def _register_agent_group(call: ToolCall, given: RegisterAgentGroup) -> str:
    for name in (given.agent, given.chat):
        places.destination(call, name)
    return _request(call, "register_agent_group", {"agent": given.agent, "chat": given.chat}, given.why)


class ChangeWiring(Arguments):
    chat: Annotated[str, Field(min_length=1, max_length=64, description="the destination's name of the chat")]
    agent: Annotated[
        str, Field(max_length=64, description="the destination's name of the agent that answers; empty: you")
    ] = ""
    settings: Annotated[
        dict[str, str | int | None], Field(max_length=20, description='such as {"engage_mode": "mention"}')
    ] = Field(default={})
    why: Why = ""


def _change_wiring(call: ToolCall, given: ChangeWiring) -> str:
    for name in filter(None, (given.chat, given.agent)):
        places.destination(call, name)
    other = {"agent": given.agent} if given.agent else {}
    return _request(call, "change_wiring", {"chat": given.chat, **other, "settings": given.settings}, given.why)


class ResetSession(Arguments):
    why: Why = ""


def _reset_session(call: ToolCall, given: ResetSession) -> str:
    return _request(call, "reset_session", {"session": call.session.session_id}, given.why)


class ChangeInstructions(Arguments):
    instructions: Annotated[str, Field(max_length=20_000, description="all of them, as they are to be")]
    why: Why = ""


def _change_instructions(call: ToolCall, given: ChangeInstructions) -> str:
    return _request(call, "change_instructions", {"instructions": given.instructions}, given.why)


class InstallToolServer(Arguments):
    server: Annotated[str, Field(max_length=64, description="its name; another text lists the servers")]
    why: Why = ""


def _install_tool_server(call: ToolCall, given: InstallToolServer) -> str:
    return _request(call, "install_tool_server", {"server": given.server}, given.why)


def _request(call: ToolCall, action: str, arguments: dict[str, Any], why: Line) -> str:
    asked = requests.ask_action(
        call.conn,
        call.session.id,
        call.agent.id,
        action,
        arguments,
        policy=call.policy,
        why=why,
        now_ms=call.now_ms,
    )
    return (
        f"Asked for approval as {asked.approval_id}: an owner or admin decides until {cards.when(asked.expires_at)}. "
        "Nothing is done before that. The decision comes as a message of its own."
    )


TOOLS = (
    Tool(
        "create_agent",
        "Ask an owner to create another agent like you, with instructions of its own. Once it is approved, you can "
        "write to it with send_to_agent. The decision comes as a message: don't wait for it.",
        CreateAgent,
        _create_agent,
        permission="approval",
        kicks=("deliver",),
    ),
    Tool(
        "register_agent_group",
        "Ask an owner to let one of your destination agents answer in one of your destination chats, where it is "
        "mentioned. The decision comes as a message: don't wait for it.",
        RegisterAgentGroup,
        _register_agent_group,
        permission="approval",
        kicks=("deliver",),
    ),
    Tool(
        "change_wiring",
        "Ask an owner to let you, or a destination agent, answer in one of your destination chats, or to change when: "
        "settings are engage_mode (mention, mention-sticky, pattern), engage_pattern, sender_scope (all, known), "
        "ignored_message_policy (drop, accumulate), session_mode (shared, per-thread, agent-shared), priority, "
        "while_busy, debounce_ms. The decision comes as a message: don't wait for it.",
        ChangeWiring,
        _change_wiring,
        permission="approval",
        kicks=("deliver",),
    ),
    Tool(
        "reset_session",
        "Ask an approver to start this conversation over, without what was said in it. The decision comes as a "
        "message.",
        ResetSession,
        _reset_session,
        permission="approval",
        kicks=("deliver",),
    ),
    Tool(
        "change_instructions",
        "Ask an approver to replace your instructions by a text of yours. The decision comes as a message: "
        "don't wait for it.",
        ChangeInstructions,
        _change_instructions,
        permission="approval",
        kicks=("deliver",),
    ),
    Tool(
        "install_tool_server",
        "Ask an approver for the tools of a server on the operator's list. The decision comes as a message; after a "
        "yes you have them from your next turn on.",
        InstallToolServer,
        _install_tool_server,
        permission="approval",
        kicks=("deliver",),
    ),
)
