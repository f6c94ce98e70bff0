"""Users, approvals, pairings and dropped messages over the API."""

from dataclasses import replace

import pytest

from shared.conversation.access import drops
from shared.db.access import dropped
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats
from tests.api_client import ask, call, get, made, post
from tests.approval_requests import ask_sender, event, person
from tests.support import NOW, column, dump, make_agent, make_chat, put, wire

# -- users


def test_a_user_gets_roles_and_loses_them_one_by_one(serving, conn):
    make_agent(conn, "coder")
    body = {"channel": "telegram", "senderId": "4711", "name": "Ana"}
    user = made(post(serving, body, "/api/users"))["user"]
    assert {**user, "createdAt": 0} == {**body, "id": 1, "createdAt": 0, "roles": [], "members": [], "directChat": None}
    replies = call(
        serving,
        ("PUT", "/api/users/1/roles/owner", {}),
        ("PUT", "/api/users/1/roles/admin?agent=coder", {}),
        ("PUT", "/api/users/1/roles/admin?agent=coder", {}),
        ("DELETE", "/api/users/1/roles/owner?force=true", {}),
        ("DELETE", "/api/users/1/roles/admin", {}),
    )
    roles = [[(role["role"], role["agent"]) for role in reply.json()["user"]["roles"]] for reply in replies[:4]]
    owner, admin = ("owner", None), ("admin", "coder")
    assert roles == [[owner], [owner, admin], [owner, admin], [admin]]
    assert (replies[4].status_code, replies[4].json()) == (404, {"error": "user 1 is no admin of everything"})
    assert column(conn, "SELECT granted_by FROM user_roles") == ["operator"]


@pytest.mark.parametrize("query", ["agnet=coder", "agent="])
def test_a_mistyped_query_name_makes_no_admin_of_everything(serving, conn, query):
    person(conn, "5")
    for method in ("PUT", "DELETE"):
        assert ask(serving, method, f"/api/users/1/roles/admin?{query}").status_code == 400
    assert rows(conn, "SELECT * FROM user_roles") == []


def test_one_identity_is_one_user_with_the_newest_name(serving, conn):
    body = {"channel": "telegram", "senderId": "4711"}
    for name, expected in (("Ana", "Ana"), ("", "Ana"), ("Ana Li", "Ana Li")):
        assert made(post(serving, {**body, "name": name}, "/api/users"))["user"]["name"] == expected
    made(post(serving, {**body, "channel": "discord"}, "/api/users"))
    assert rows(conn, "SELECT channel, name FROM users") == [("telegram", "Ana Li"), ("discord", "")]


def test_users_are_found_by_identity_and_by_agent(serving, conn):
    make_agent(conn, "coder")
    person(conn, "1", "owner")
    person(conn, "2", "admin", "coder")
    person(conn, "3", "admin", "assistant")
    person(conn, "4")
    person(conn, "4", channel="discord")
    made(ask(serving, "PUT", "/api/users/4/members/coder", {}))
    queries = ("", "agent=coder", "channel=telegram&senderId=4", "channel=telegram", "before=3&limit=1")
    found = {query: [user["id"] for user in get(serving, f"/api/users?{query}").json()] for query in queries}
    assert found == {
        **{"": [5, 4, 3, 2, 1], "agent=coder": [4, 2, 1], "channel=telegram&senderId=4": [4]},
        **{"channel=telegram": [4, 3, 2, 1], "before=3&limit=1": [2]},
    }


def test_a_membership_admits_or_refuses_a_user_and_can_be_deleted(serving, conn):
    person(conn, "5")
    replies = call(
        serving,
        ("PUT", "/api/users/1/members/assistant", {"json": {}}),
        ("PUT", "/api/users/1/members/assistant", {"json": {"isRefused": True}}),
        ("DELETE", "/api/users/1/members/assistant", {}),
        ("DELETE", "/api/users/1/members/assistant", {}),
    )
    members = [[each["isRefused"] for each in reply.json()["user"]["members"]] for reply in replies[:3]]
    assert members == [[False], [True], []]
    assert replies[3].status_code == 404


def test_a_missing_user_is_a_404_and_not_another_user(serving, conn):
    person(conn, "5")
    for id_ in ("2", "9223372036854775807"):
        assert get(serving, f"/api/users/{id_}").status_code == 404


def test_a_user_is_deleted_with_all_rights_unless_an_approval_is_pending(serving, conn):
    wire(conn, make_chat(conn))
    owner = person(conn, "9", "owner")
    asked = ask_sender(conn, event())
    about = asked.approval.user_id
    reply = ask(serving, "DELETE", f"/api/users/{about}")
    assert (reply.status_code, f"{asked.approval.approval_id} asks about user {about}" in reply.text) == (409, True)
    assert ask(serving, "DELETE", f"/api/users/{owner.id}?force=true").status_code == 200
    made(post(serving, {"approve": False}, f"/api/approvals/{asked.approval.approval_id}/decide"))
    assert ask(serving, "DELETE", f"/api/users/{about}").status_code == 200
    for table in ("users", "user_roles", "members", "user_dms"):
        assert rows(conn, f"SELECT * FROM {table}") == []
    assert rows(conn, "SELECT user_id, approver, status FROM approvals") == [(None, None, "refused")]


@pytest.mark.parametrize("path", ["/api/users/1", "/api/users/1/roles/owner"])
def test_the_last_owner_stays_without_force(serving, conn, path):
    person(conn, "9", "owner")
    before = dump(conn)
    for refused in ("", "?force=false"):
        reply = ask(serving, "DELETE", path + refused)
        assert (reply.status_code, "the last owner" in reply.json()["error"]) == (409, True)
    assert dump(conn) == before
    assert ask(serving, "DELETE", f"{path}?force=true").status_code == 200
    assert rows(conn, "SELECT * FROM user_roles") == []


# -- approvals


@pytest.fixture
def held(conn):
    """A held message of a stranger, without an approver who could get the card."""
    wire(conn, make_chat(conn))
    return ask_sender(conn, event()).approval


def test_a_pending_approval_shows_every_argument_and_no_held_text(serving, conn, held):
    (shown,) = get(serving, "/api/approvals?status=pending").json()
    assert get(serving, f"/api/approvals/{held.approval_id}").json() == shown
    names = ("approvalId", "kind", "agent", "chatId", "userId", "options", "status", "held", "choice", "approver")
    assert [shown[name] for name in names] == [
        *(held.approval_id, "sender", "assistant", 1, held.user_id, list(held.options), "pending", 1, None, None)
    ]
    assert "text of 1" not in str(shown)
    assert get(serving, "/api/approvals?status=approved").json() == []
    assert get(serving, "/api/approvals?before=1").json() == []


def test_an_approval_admits_the_person_and_delivers_the_held_messages_once(serving, conn, held):
    path = f"/api/approvals/{held.approval_id}/decide"
    reply, again = call(serving, *(("POST", path, {"json": {"approve": True}}) for _ in range(2)))
    told = made(reply)
    assert (told["approval"]["status"], told["approval"]["choice"], told["problem"]) == ("approved", 0, None)
    assert (told["approval"]["decidedBy"], told["approval"]["held"]) == ("operator", 0)
    assert "operator" in told["sentence"]
    assert column(conn, "SELECT message FROM messages WHERE kind = 'chat'") == ["text of 1"]
    assert rows(conn, "SELECT agent, is_refused FROM members") == [("assistant", 0)]
    assert (again.status_code, "is approved" in again.json()["error"]) == (409, True)


def test_a_refusal_chooses_the_last_option(serving, conn, held):
    told = made(post(serving, {"approve": False}, f"/api/approvals/{held.approval_id}/decide"))
    assert (told["approval"]["status"], told["approval"]["choice"]) == ("refused", len(held.options) - 1)
    assert column(conn, "SELECT reason FROM dropped") == ["sender_refused"]


DECISIONS = {
    "neither": ({}, 400, "send either choice"),
    "both": ({"choice": 0, "approve": True}, 400, "send either choice"),
    "an unknown option": ({"choice": 7}, 409, "no choice 7: choose 0 to 1"),
    "a negative option": ({"choice": -1}, 400, "choice: "),
}


@pytest.mark.parametrize(("body", "status", "sentence"), DECISIONS.values(), ids=DECISIONS)
def test_an_invalid_decision_changes_nothing(serving, conn, held, body, status, sentence):
    reply = post(serving, body, f"/api/approvals/{held.approval_id}/decide")
    assert (reply.status_code, sentence in reply.json()["error"]) == (status, True)
    assert column(conn, "SELECT status FROM approvals") == ["pending"]


def test_a_membership_given_by_hand_decides_the_pending_approval(serving, conn, held):
    made(ask(serving, "PUT", f"/api/users/{held.user_id}/members/assistant", {}))
    assert column(conn, "SELECT status FROM approvals") == ["approved"]
    assert column(conn, "SELECT message FROM messages") == ["text of 1"]


def test_a_new_owner_gets_the_cards_that_had_no_approver(serving, conn, held):
    body = {"channel": "telegram", "senderId": "9"}
    owner = made(post(serving, body, "/api/users"))["user"]
    assert column(conn, "SELECT id FROM responses") == []
    shown = made(ask(serving, "PUT", f"/api/users/{owner['id']}/roles/owner"))["user"]
    assert column(conn, "SELECT platform_id FROM responses") == ["9"]
    assert shown["directChat"] == chats.find(conn, "telegram", "9").id
    assert get(serving, f"/api/approvals/{held.approval_id}").json()["approver"] == owner["id"]


# -- pairings


def test_a_pairing_code_is_shown_once_and_stored_nowhere(serving, conn):
    told = made(post(serving, {}, "/api/pairings"))
    assert told["say"] == f"/start {told['code']}"
    (shown,) = get(serving, "/api/pairings").json()
    assert (shown["pairingId"], shown["grants"], shown["agent"], shown["status"]) == (
        *(told["pairingId"], "owner", None, "open"),
    )
    assert shown["expiresAt"] == told["expiresAt"] == shown["createdAt"] + 15 * 60 * 1000
    everything = str(dump(conn)) + str(shown)
    assert told["code"] not in everything
    assert told["code"].replace("-", "") not in everything


def test_a_pairing_code_expires_after_the_set_time(serving, conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_PAIRING_LIFE_MS", "60000")
    made(post(serving, {"grants": "admin"}, "/api/pairings"))
    assert column(conn, "SELECT expires_at - created_at FROM pairings") == [60_000]


def test_a_pairing_code_is_revoked_once(serving, conn):
    id_ = made(post(serving, {"grants": "chat", "agent": "assistant"}, "/api/pairings"))["pairingId"]
    first, again = call(serving, *[("DELETE", f"/api/pairings/{id_}", {})] * 2)
    assert (first.status_code, again.status_code) == (200, 409)
    assert again.json() == {"error": f"pairing {id_} is revoked already: its code no longer works"}


def test_an_expired_pairing_code_is_shown_as_expired_before_the_sweep(serving, conn):
    made(post(serving, {}, "/api/pairings"))
    rows(conn, "UPDATE pairings SET expires_at = 1")
    (shown,) = get(serving, "/api/pairings").json()
    assert shown["status"] == "expired"
    reply = ask(serving, "DELETE", f"/api/pairings/{shown['pairingId']}")
    assert (reply.status_code, "is expired already" in reply.json()["error"]) == (409, True)


# -- dropped messages


def test_dropped_messages_are_filtered_by_reason_and_channel_and_read_on_from_a_row(serving, conn):
    with transaction(conn):
        for channel, reason in (("telegram", "a"), ("discord", "a"), ("telegram", "b"), ("telegram", "a")):
            dropped.record(conn, channel=channel, reason=reason, now_ms=NOW)
    queries = ("", "reason=a", "reason=a&channel=telegram", "channel=discord", "before=3", "since_id=2")
    queries += ("since_id=1&reason=a", "reason=a&before=4&limit=1", "reason=none")
    found = {query: [each["id"] for each in get(serving, f"/api/dropped?{query}").json()] for query in queries}
    assert found == {
        **{"": [4, 3, 2, 1], "reason=a": [4, 2, 1], "reason=a&channel=telegram": [4, 1], "channel=discord": [2]},
        **{"before=3": [2, 1], "since_id=2": [3, 4], "since_id=1&reason=a": [2, 4]},
        **{"reason=a&before=4&limit=1": [2], "reason=none": []},
    }


def test_a_dropped_message_has_a_sentence_and_its_word(serving, conn):
    with transaction(conn):
        dropped.record(conn, channel="telegram", reason="rate_limited", detail="chat", now_ms=NOW)
    (found,) = get(serving, "/api/dropped").json()
    assert (found["code"], found["detail"]) == ("rate_limited", "chat")
    assert found["reason"].startswith("It was over the limit per minute (chat). The person may write")


def test_dropped_messages_are_filtered_by_sender_and_chat_and_have_names(serving, conn):
    person(conn, "8")
    with transaction(conn):
        chats.ensure(conn, "telegram", "-100", is_group=True, name="Ops", now_ms=NOW)
        for key, channel, chat, sender, name in (
            ("1", "telegram", "-100", "9", "Ana\x1b"),
            ("2", "telegram", "-200", "9", "Ana"),
            ("3", "discord", "-100", "9", ""),
            ("4", "telegram", "-100", "8", ""),
        ):
            what = replace(event(key, sender, chat), sender=name)
            drops.keep(conn, channel, what, "sender_unknown", now_ms=NOW)
    queries = ("senderId=9", "senderId=9&channel=telegram", "chatId=1", "platformId=-200", "chatId=1&senderId=9")
    found = {query: get(serving, f"/api/dropped?{query}").json() for query in queries}
    assert {query: [each["id"] for each in rows_] for query, rows_ in found.items()} == {
        **{"senderId=9": [3, 2, 1], "senderId=9&channel=telegram": [2, 1], "chatId=1": [4, 1]},
        **{"platformId=-200": [2], "chatId=1&senderId=9": [1]},
    }
    names = [(each["sender"], each["chatName"], each["messageId"]) for each in found["senderId=9"] + found["chatId=1"]]
    assert names == [
        *(("", None, "m3"), ("Ana", None, "m2"), ("Ana\x1b", "Ops", "m1")),
        *(("N8", "Ops", "m4"), ("Ana\x1b", "Ops", "m1")),
    ]
    missing = get(serving, "/api/dropped?chatId=99")
    assert (missing.status_code, missing.json()["error"][:22]) == (404, "there is no chat 99; G")


def test_a_message_for_a_retired_agent_is_refused_at_once(serving, conn):
    make_agent(conn, "coder")
    put(conn, agent="coder")
    rows(conn, "UPDATE messages SET status = 'completed'")
    made(ask(serving, "DELETE", "/api/agents/coder"))
    plan = {"agentId": "coder", "message": "x", "cron": "0 9 * * *"}
    replies = [post(serving, {"message": "x", "agent": "coder"}), post(serving, plan, "/api/schedules")]
    assert [reply.status_code for reply in replies] == [404, 404]
