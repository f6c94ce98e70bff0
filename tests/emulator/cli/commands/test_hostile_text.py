"""No command lets text from outside act on the terminal, whatever it shows, and none is forgotten."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from emulator.cli.app import app
from emulator.cli.client import find
from shared.conversation.inbound import events
from shared.db.access import approvals, dropped, permissions
from shared.db.access.approvals import NewApproval
from shared.db.alerts import alerts
from shared.db.alerts.alerts import Trouble
from shared.db.engine.connection import transaction
from shared.db.queue import agent_messages
from shared.db.queue.agent_messages import AgentMessage
from shared.db.roster import chats, tool_servers
from shared.db.roster.tool_servers import ListedServer
from tests.emulator.cli.commands.conftest import Postroom
from tests.shared.conversation.routing.router.kit import OPEN, event, make_chat, wire
from tests.support import NOW, answer, put, take

HOSTILE = "\x1b[2J\x9b31m\u202eevil\r\nerror: forged\x07\u2066"
SEEN, SEEN_IN_JSON = r"\x1b[2J", r"\u001b[2J"  # of the hostile text, as people and as programs see it

# Each command, with arguments that show a hostile row, or lead to an error that quotes one.
COMMANDS = {
    "agents list": [],
    "agents show": ["coder"],
    "agents set": ["coder", "--model", HOSTILE],
    "agents delete": [HOSTILE],
    "agents pause": ["coder", "--reason", HOSTILE],
    "agents resume": ["coder"],
    "teams list": [],
    "teams show": ["crew"],
    "teams set": ["crew", "--agents", "coder", "--leader", "coder"],
    "teams delete": [HOSTILE],
    "accounts list": [],
    "accounts show": ["telegram.sales"],
    "accounts add": ["telegram", HOSTILE],
    "accounts set": ["telegram.sales", "--agent", HOSTILE],
    "accounts remove": [HOSTILE],
    "chats list": [],
    "chats show": ["1"],
    "chats set": ["1", "--policy", "public"],
    "chats add": ["telegram", HOSTILE],
    "chats delete": ["99"],
    "wirings list": [],
    "wirings set": ["1", "coder", "--also"],
    "wirings delete": ["1", HOSTILE],
    "users list": [],
    "users show": ["1"],
    "users add": ["telegram", HOSTILE],
    "users forget": ["99"],
    "users grant": ["1", "member", "--agent", "coder"],
    "users revoke": ["1", "member", "--agent", "coder"],
    "users refuse": ["1", "--agent", HOSTILE],
    "destinations list": [],
    "destinations set": ["coder", HOSTILE, "--chat", "1"],
    "destinations delete": ["coder", HOSTILE],
    "usage": [],
    "alerts list": [],
    "alerts add": ["evil", "--chat", "1"],
    "alerts remove": [HOSTILE],
    "budgets list": [],
    "budgets set": ["day", "--dollars", HOSTILE],
    "budgets delete": ["day", "money", "--agent", HOSTILE],
    "approvals list": [],
    "approvals show": ["APPROVAL"],
    "approvals approve": [HOSTILE],
    "approvals refuse": [HOSTILE],
    "tool-servers list": [],
    "tool-servers remove": [HOSTILE],
    "tool-servers give": ["coder", HOSTILE],
    "tool-servers take": ["coder", HOSTILE],
    "permissions list": [],
    "permissions revoke": [HOSTILE],
    "pairings list": [],
    "pairings revoke": [HOSTILE],
    "pair": [],
    "sessions list": [],
    "sessions show": ["SESSION"],
    "sessions reset": [HOSTILE],
    "sessions replay": [HOSTILE],
    "replay": ["SESSION"],
    "replica status": [],
    "queue": [],
    "messages list": [],
    "messages show": ["m_dead"],
    "messages retry": [HOSTILE],
    "messages discard": [HOSTILE],
    "messages cancel": [HOSTILE],
    "responses list": [],
    "responses show": ["RESPONSE"],
    "responses retry": ["9999"],
    "responses discard": ["9999"],
    "schedules list": [],
    "schedules show": ["SCHEDULE"],
    "schedules add": ["coder", HOSTILE, "--daily", "9:00", "--chat", "1", "--label", HOSTILE],
    "schedules history": ["SCHEDULE"],
    "schedules set": ["SCHEDULE", "--text", HOSTILE, "--label", HOSTILE],
    "schedules pause": [HOSTILE],
    "schedules resume": [HOSTILE],
    "schedules cancel": [HOSTILE],
    "memory show": ["coder"],
    "memory forget": ["coder", HOSTILE],
    "top": [],
    "dropped": [],
    "search": ["forged"],
    "why": ["--sender", "5"],
    "import nanoclaw": [HOSTILE],
    "import tinyagi": [HOSTILE],
    "diff": [],
    "seed": [],
}
SHOWN = {  # commands that show hostile rows, so that a table without them does not pass
    "accounts list", "accounts show",
    "agents list", "agents show", "teams list", "teams show", "chats list", "chats show", "wirings list", "users list",
    "users show", "approvals list", "approvals show", "permissions list", "tool-servers list", "alerts list",
    "messages list", "messages show",
    "responses list", "responses show", "schedules list", "schedules show", "dropped", "search", "why", "sessions show",
    "memory show", "top",
}  # fmt: skip
MORE = {  # further rows of some commands
    "messages list": [["--status", "pending"], ["--status", "processing"]],
    "approvals list": [["--status", "all"]],
    "why": [["m_dead"], ["held_1"], ["dropped_1"]],
}
# These print no rows of the database: they start, stop or check things on this machine. test_main, test_console and
# test_chat hold them; what "channel" shows, the tests of the folder channels. "tools" speaks MCP with a program,
# and not with a terminal. "requests" shows what an emulator's fake platforms recorded: test_run has one.
ELSEWHERE = {"run", "exec", "chat", "status", "doctor", "tools", "validate", "version", "data reset", "verify"}
ELSEWHERE |= {  # test_run_detached, test_logs and test_database
    *("stop", "wait", "logs", "invoke", "cron list", "cron next", "cron run", "db"),
    *("clock show", "clock jump", "clock freeze", "clock resume", "clock speed", "clock reset"),
    *("fault add", "fault list", "fault lift", "fault kill", "fault hang"),
    *("data snapshot", "data restore", "data seed", "data list", "export"),
    "tool-servers add",
    *("upgrade", "rollback", "prove"),
    "replica drill",
    "channel discord connect",
    "channel discord register",
    "channel telegram connect",
    "channel telegram show",
    "requests list",
    "requests show",
    "requests replay",
    "requests export",
}


def paths(command: Any, prefix: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command below *command*."""
    if hasattr(command, "commands"):
        for name, each in command.commands.items():
            yield from paths(each, (*prefix, name))
    else:
        yield " ".join(prefix)


def test_every_command_is_tested() -> None:
    assert set(paths(typer.main.get_command(app))) == set(COMMANDS) | ELSEWHERE
    assert {*SHOWN, *MORE} <= set(COMMANDS)


@pytest.fixture(scope="module")
def names(postroom: Postroom) -> dict[str, str]:
    """A Postroom with hostile text in every place where text may stand; the ids of its rows."""
    conn = postroom.conn
    postroom.run("agents", "set", "coder")
    api = find(None, postroom.url)
    api.put("teams", "crew", body={"name": "x", "agents": ["coder"], "leader_agent": "coder"})
    with transaction(conn):
        chats.ensure(conn, "telegram", "100", is_group=True, name=HOSTILE, sender_policy="request_approval", now_ms=NOW)
    wire(conn, 1, "assistant", engage_mode="pattern", engage_pattern="x")
    with transaction(conn):
        events.handle(conn, "telegram", event("x", sender=HOSTILE, is_group=True), OPEN, now_ms=NOW)
        dropped.record(
            conn, channel="telegram", reason="poll", detail=HOSTILE, platform_id=HOSTILE, sender_id="5", sender=HOSTILE,
            event_key="d", platform_message_id=HOSTILE, now_ms=NOW,
        )  # fmt: skip
        asked, _ = approvals.request(
            conn,
            NewApproval(
                "tool", {"tool": HOSTILE, "arguments": {HOSTILE: HOSTILE}}, title=HOSTILE, options=(HOSTILE, "No")
            ),
            expires_at=NOW,
            now_ms=NOW,
        )
        tool_servers.put(conn, ListedServer("evil", (HOSTILE,), {HOSTILE: HOSTILE}), now_ms=NOW)
        alerts.note(conn, [Trouble(HOSTILE, "deaf", HOSTILE, HOSTILE, HOSTILE, NOW)], now_ms=NOW)
        permissions.put(
            conn, agent="coder", chat_id=1, tool=HOSTILE, arguments={HOSTILE: HOSTILE}, granted_by=None,
            granted_name=HOSTILE, now_ms=NOW,
        )  # fmt: skip
        agent_messages.append(
            conn, [AgentMessage("coder", "user", "telegram", HOSTILE, HOSTILE, f"forged {HOSTILE}", NOW)]
        )
    make_chat(conn, "200")
    put(conn, HOSTILE, given_id="m_dead", chat="200", sender=HOSTILE, sender_id="5")
    put(conn, HOSTILE, given_id="m_running", chat="300", sender=HOSTILE)
    take(conn, chat="300")
    put(conn, HOSTILE, given_id="m_waiting", chat="400", sender=HOSTILE)
    response = answer(conn, HOSTILE, sender=HOSTILE, agent="coder")
    planned = {"agentId": "coder", "message": HOSTILE, "label": HOSTILE, "cron": "0 9 * * *", "sender": HOSTILE}
    schedule = api.post("schedules", body=planned)["schedule"]["id"]
    for sql in (
        "UPDATE messages SET status = 'dead', last_error = :text, failure = 'error' WHERE message_id = 'm_dead'",
        "UPDATE messages SET last_error = :text WHERE message_id = 'm_waiting'",
        "UPDATE responses SET status = 'dead', last_error = :text, failure = 'error'",
        "UPDATE agents SET name = :text, model = :text, instructions = :text",
        "UPDATE teams SET name = :text",
        "UPDATE users SET name = :text",
        "UPDATE wirings SET engage_pattern = :text",
        "INSERT INTO accounts (name, platform, username, created_at, updated_at) "
        "VALUES ('telegram.sales', 'telegram', :text, 0, 0)",
        "INSERT INTO memory_lines (line_id, agent, text, with_strangers, is_shared, session_id, people, created_at) "
        "SELECT 'memory_1', 'coder', :text, 0, 1, min(id), json_array(json_array('a', '5', :text)), 0 FROM sessions",
    ):
        conn.execute(sql, {"text": HOSTILE} if ":text" in sql else {})
    (session,) = postroom.column(
        "SELECT s.session_id FROM sessions s JOIN messages m ON m.session_id = s.id WHERE m.message_id = 'm_dead'"
    )
    return {"APPROVAL": asked.approval_id, "SESSION": session, "RESPONSE": str(response), "SCHEDULE": schedule}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_acts_on_the_terminal(
    postroom: Postroom, names: dict[str, str], command: str, as_json: bool
) -> None:
    said, failures = "", 0
    for arguments in (COMMANDS[command], *MORE.get(command, [])):
        given = [names.get(each, each) for each in arguments]
        done = CliRunner().invoke(app, [*command.split(), *given, "--url", postroom.url, *(["--json"] * as_json)])
        assert isinstance(done.exception, SystemExit | None), done.exception
        said += done.stdout + done.stderr
        failures += done.stderr != ""
    assert said.replace("\n", "").isprintable()
    assert sum(line.startswith("error:") for line in said.splitlines()) == failures
    if command in SHOWN:
        assert (SEEN_IN_JSON if as_json else SEEN) in said
        assert failures == 0
