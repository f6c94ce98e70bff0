import pytest

from shared.db.engine.connection import rows
from tests.api_client import ask, get, post
from tests.support import column, make_agent

TEAM = {"name": "The Crew", "agents": ["coder", "writer"], "leader_agent": "writer"}


@pytest.fixture
def crew(serving, conn):
    make_agent(conn, "coder")
    make_agent(conn, "writer")
    assert ask(serving, "PUT", "/api/teams/crew", TEAM).json() == {"ok": True, "team": TEAM}
    return conn


def test_a_team_is_created_changed_and_deleted(serving, crew):
    assert get(serving, "/api/teams").json() == {"crew": TEAM}
    changed = {"name": "Crew", "agents": ["writer", "assistant", "writer"], "leader_agent": "assistant"}
    shown = {**changed, "agents": ["writer", "assistant"]}
    assert ask(serving, "PUT", "/api/teams/crew", changed).json()["team"] == shown
    assert get(serving, "/api/teams").json() == {"crew": shown}
    assert ask(serving, "DELETE", "/api/teams/crew").json() == {"ok": True}
    assert get(serving, "/api/teams").json() == {}
    gone = ask(serving, "DELETE", "/api/teams/crew")
    assert (gone.status_code, gone.json()) == (404, {"error": "team 'crew' not found; known: none"})


def test_a_change_of_a_team_leaves_the_other_fields(serving, crew):
    reply = ask(serving, "PUT", "/api/teams/crew", {"leader_agent": "coder"})
    assert reply.json()["team"] == {**TEAM, "leader_agent": "coder"}
    assert get(serving, "/api/teams/crew").json() == {**TEAM, "leader_agent": "coder"}
    assert get(serving, "/api/teams/none").status_code == 404


def test_a_new_team_needs_its_agents_only(serving, crew):
    reply = ask(serving, "PUT", "/api/teams/two", {"agents": ["coder"]})
    assert reply.json()["team"] == {"name": "two", "agents": ["coder"], "leader_agent": "coder"}


TEAMS = {
    "no members": ("a", {**TEAM, "agents": []}, "agents: "),
    "a stranger": ("a", {**TEAM, "agents": ["writer", "nobody"]}, "there is no agent nobody"),
    "a leader from elsewhere": ("a", {**TEAM, "leader_agent": "assistant"}, "its leader 'assistant' is not among"),
    "an agent's id": ("coder", TEAM, "an agent has this id"),
    "an id in capitals": ("Crew", TEAM, "a team's id is"),
    "no name": ("a", {**TEAM, "name": ""}, "name: "),
}


@pytest.mark.parametrize(("name", "body", "sentence"), TEAMS.values(), ids=TEAMS)
def test_an_invalid_team_is_refused(serving, crew, name, body, sentence):
    reply = ask(serving, "PUT", f"/api/teams/{name}", body)
    assert (reply.status_code, sentence in reply.json()["error"]) == (400, True)
    assert column(crew, "SELECT id FROM teams") == ["crew"]


@pytest.mark.parametrize("text", ["@crew help", "@CREW help"])
def test_a_text_for_a_team_goes_to_its_leader(serving, crew, text):
    post(serving, {"message": text})
    assert column(crew, "SELECT agent FROM messages") == ["writer"]


def test_the_leader_of_a_team_can_not_be_deleted(serving, crew):
    assert ask(serving, "DELETE", "/api/agents/writer").status_code == 409
    assert ask(serving, "DELETE", "/api/agents/coder").status_code == 200
    assert get(serving, "/api/teams").json()["crew"]["agents"] == ["writer"]


def test_a_line_in_the_room_reaches_every_member(serving, crew):
    reply = post(serving, {"message": "  hello all \n"}, "/api/chatroom/crew")
    assert reply.json() == {"ok": True, "id": 1}
    found = rows(crew, "SELECT agent, channel, sender, message, substr(message_id, 1, 5) FROM messages ORDER BY id")
    said = "[Chat room #crew — @user]:\nhello all"
    assert found == [(agent, "chatroom", "user", said, "chat_") for agent in ("coder", "writer")]
    (line,) = get(serving, "/api/chatroom/crew?limit=100&since=0").json()
    assert line | {"created_at": 0} == {
        **{"id": 1, "team_id": "crew", "from_agent": "user", "message": "hello all", "created_at": 0}
    }
    assert isinstance(line["created_at"], int)


def test_a_viewer_reads_on_from_its_last_line(serving, crew):
    for number in range(5):
        post(serving, {"message": f"m{number}"}, "/api/chatroom/crew")
    newest = get(serving, "/api/chatroom/crew?limit=2").json()
    after = [get(serving, f"/api/chatroom/crew?{name}=2&limit=2").json() for name in ("since", "since_id")]
    assert [each["message"] for each in newest] == ["m4", "m3"]
    assert [[each["message"] for each in found] for found in after] == [["m2", "m3"]] * 2


@pytest.mark.parametrize(("path", "body", "status"), [("none", {"message": "x"}, 404), ("crew", {"message": " "}, 400)])
def test_an_invalid_line_is_refused(serving, crew, path, body, status):
    reply = post(serving, body, f"/api/chatroom/{path}")
    assert reply.status_code == status
    assert reply.json()["error"] in ("team 'none' not found; known: crew", "message is required")
    assert column(crew, "SELECT id FROM messages") == []
