"""A plan becomes rows in one step, or none of it does; what is there stays."""

from typing import Any

import pytest

from shared.conversation.access import people
from shared.db.access import users
from shared.db.engine.connection import rows, transaction
from shared.db.roster import agents, chats
from tests.api_client import call
from tests.support import NOW, column, dump, make_agent, make_chat, wire

ANA = {"channel": "telegram", "platformId": "4711"}
PLAN: dict[str, Any] = {
    "source": "nanoclaw",
    "agents": {"nova": {"name": "Nova", "instructions": "Be brief."}, "bolt": {"name": "Bolt"}},
    "teams": {"crew": {"name": "Crew", "agents": ["nova", "bolt"], "leader": "nova"}},
    "chats": [
        {**ANA, "name": "Ana"},
        {"channel": "telegram", "platformId": "-100", "isGroup": True, "senderPolicy": "request_approval"},
        {"channel": "telegram", "platformId": "-200", "isGroup": True, "refused": True},
    ],
    "wirings": [{**ANA, "agent": "nova", "engageMode": "pattern", "engagePattern": "."}],
    "users": [
        {
            "channel": "telegram",
            "senderId": "4711",
            "name": "Ana",
            "roles": [{"role": "owner"}],
            "memberOf": ["nova"],
            "directChat": ANA,
        }
    ],
    "destinations": [
        {"agent": "nova", "name": "home", "chat": ANA},
        {"agent": "nova", "name": "helper", "toAgent": "bolt"},
    ],
    "schedules": [
        {
            "label": "daily",
            "agentId": "nova",
            "message": "go",
            "cron": "0 9 * * *",
            "timezone": "Europe/Zurich",
            "chat": ANA,
        },
        {
            "label": "odd",
            "agentId": "bolt",
            "message": "look",
            "cron": "*/5 * * * *",
            "enabled": False,
            "script": "echo 1",
        },
    ],
    "heartbeats": {"bolt": {"content": "Look.", "interval": 7200}},
}


def send(serving, plan=PLAN, *, check=False, status=200):
    (reply,) = call(serving, ("POST", f"/api/imports{'?check=true' if check else ''}", {"json": plan}))
    assert reply.status_code == status, reply.text
    return reply.json()


def test_everything_of_a_plan_is_made(serving, conn):
    items = send(serving)["items"]
    assert {each["state"] for each in items} == {"made"}
    assert [each["kind"] for each in items] == [
        *("agent", "agent", "team", "chat", "chat", "chat", "wiring", "user", "destination", "destination"),
        *("schedule", "schedule", "heartbeat"),
    ]
    nova = agents.get(conn, "nova")
    assert nova is not None
    assert (nova.name, nova.instructions, nova.is_default) == ("Nova", "Be brief.", False)
    found = rows(
        conn, "SELECT platform_id, is_group, sender_policy, refused_at IS NOT NULL FROM chats ORDER BY id LIMIT 3"
    )
    assert found == [("4711", 0, "strict", 0), ("-100", 1, "request_approval", 0), ("-200", 1, "strict", 1)]
    assert rows(conn, "SELECT agent, engage_mode, engage_pattern FROM wirings") == [("nova", "pattern", ".")]
    assert rows(conn, "SELECT role, agent, granted_by FROM user_roles") == [("owner", None, "import from nanoclaw")]
    assert rows(conn, "SELECT agent, is_refused FROM members") == [("nova", 0)]
    assert rows(conn, "SELECT agent, name, target_agent FROM destinations ORDER BY name") == [
        ("nova", "helper", "bolt"),
        ("nova", "home", None),
    ]
    assert rows(conn, "SELECT agent, recurrence, status, script FROM messages ORDER BY id") == [
        ("nova", "0 9 * * *", "pending", ""),
        ("bolt", "*/5 * * * *", "paused", "echo 1"),
        ("bolt", "0 */2 * * *", "pending", ""),
    ]
    user = users.find(conn, "telegram", "4711")
    assert user is not None
    assert people.direct_chat(conn, user, now_ms=NOW) == 1


def test_a_second_time_nothing_is_doubled_and_nothing_changed(serving, conn):
    send(serving)
    before = dump(conn)
    items = send(serving)["items"]
    assert {(each["state"], each["note"]) for each in items} == {("there", "")}
    assert dump(conn) == before


def test_a_check_changes_nothing_and_says_the_same(serving, conn):
    before = dump(conn)
    checked = send(serving, check=True)["items"]
    assert dump(conn) == before
    assert checked == send(serving)["items"]


def test_a_plan_with_a_fault_is_refused_whole_and_each_fault_is_told(serving, conn):
    before = dump(conn)
    wrong = {
        **PLAN,
        "agents": {**PLAN["agents"], "Ünsafe": {}},
        "wirings": [
            *PLAN["wirings"],
            {**ANA, "agent": "ghost"},
            {"channel": "telegram", "platformId": "9", "agent": "nova"},
        ],
        "schedules": [{"label": "x", "agentId": "nova", "message": "go", "cron": "0 25 * * *"}],
    }
    error = send(serving, wrong, status=400)["error"]
    for part in ("agent Ünsafe", "no agent 'ghost'", "no chat telegram 9", "schedule x", "0 25 * * *"):
        assert part in error
    assert dump(conn) == before


def test_an_agent_that_is_here_with_other_settings_stays(serving, conn):
    make_agent(conn, "nova", instructions="Mine.")
    note = send(serving)["items"][0]
    assert (note["state"], note["note"]) == ("there", "it has another instructions here, which stays")
    (kept,) = column(conn, "SELECT instructions FROM agents WHERE id = 'nova'")
    assert kept == "Mine."


def test_an_agent_with_another_name_is_another_one_unless_it_is_said_to_be_the_same(serving, conn):
    make_agent(conn, "nova")
    with transaction(conn):
        rows(conn, "UPDATE agents SET name = 'Novak' WHERE id = 'nova'")
    before = dump(conn)
    assert "taken here by 'Novak'" in send(serving, status=400)["error"]
    assert dump(conn) == before
    assert send(serving, {**PLAN, "sameAgents": True})["items"][0]["state"] == "there"


def test_a_right_that_was_taken_here_does_not_come_back(serving, conn):
    make_agent(conn, "nova")
    chat = make_chat(conn, "4711")
    with transaction(conn):
        user = users.ensure(conn, "telegram", "4711", name="", now_ms=NOW)
        people.refuse(conn, user.id, "nova", by="a test", now_ms=NOW)
        chats.refuse(conn, chat, now_ms=NOW)
    plan = {**PLAN, "destinations": [], "schedules": [], "users": [{**PLAN["users"][0], "roles": [{"role": "owner"}]}]}
    notes = {each["kind"]: each["note"] for each in send(serving, plan)["items"]}
    assert "is refused here" in notes["wiring"]
    assert "refuses this person here" in notes["user"]
    assert column(conn, "SELECT count(*) FROM wirings") == [0]
    assert column(conn, "SELECT count(*) FROM user_roles") == [0]
    assert column(conn, "SELECT is_refused FROM members") == [1]


def test_another_agent_that_answers_there_is_told(serving, conn):
    make_agent(conn, "old")
    wire(conn, make_chat(conn, "4711"), "old")
    wiring = next(each for each in send(serving)["items"] if each["kind"] == "wiring")
    assert wiring["note"] == "old answers in chat 1 too"


def test_a_large_plan_is_taken_whole(serving, conn):
    instructions = {f"a{number}": {"instructions": "x" * 90_000} for number in range(20)}
    assert len(send(serving, {"source": "tinyagi", "agents": instructions})["items"]) == 20


def put(serving, path, text="hello", agent="nova"):
    (reply,) = call(serving, ("PUT", f"/api/agents/{agent}/files", {"json": {"path": path, "text": text}}))
    return reply.status_code, reply.json()


def test_a_file_is_written_once_and_another_text_stays(serving, conn, tmp_path):
    make_agent(conn, "nova")
    assert put(serving, "memory/people.md") == (200, {"ok": True, "state": "made"})
    assert put(serving, "memory/people.md") == (200, {"ok": True, "state": "there"})
    assert put(serving, "memory/people.md", "new") == (200, {"ok": True, "state": "other"})
    file = tmp_path / "agents/nova/memory/people.md"
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("hello", 0o600)
    assert put(serving, "a.md", agent="ghost")[0] == 404


@pytest.mark.parametrize(
    "path", ["../x.md", "/x.md", "a//b.md", ".claude/settings.json", "a/.x", "CLAUDE.md", "a/agents.md"]
)
def test_a_file_that_leads_out_is_hidden_or_instructs_programs_is_refused(serving, conn, path):
    make_agent(conn, "nova")
    status, answer = put(serving, path)
    assert status == 400, answer


def test_no_link_is_followed(serving, conn, tmp_path):
    make_agent(conn, "nova")
    folder = tmp_path / "agents/nova"
    folder.mkdir(parents=True)
    (folder / "memory").symlink_to(tmp_path)
    assert put(serving, "memory/x.md")[0] == 409
    (folder / "x.md").symlink_to(tmp_path / "y")
    assert put(serving, "x.md")[0] == 409
    assert not (tmp_path / "x.md").exists()
    assert not (tmp_path / "y").exists()
