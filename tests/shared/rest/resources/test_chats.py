"""Chats, their wirings and the destinations of agents over the API."""

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.roster import agents, chats, wirings
from tests.api_client import ask, call, get, made, post
from tests.support import NOW, dump, make_agent, make_chat, put, wire

# -- chats


def test_a_chat_can_be_added_and_wired_before_its_first_message(serving, conn):
    body = {"channel": "telegram", "platformId": "-100200", "isGroup": True, "name": "Family"}
    chat = made(post(serving, body, "/api/chats"))["chat"]
    assert {**chat, "createdAt": 0} == {
        **{"id": 1, "channel": "telegram", "platformId": "-100200", "name": "Family", "isGroup": True},
        **{"status": "active", "senderPolicy": "strict", "refusedAt": None, "opensFor": None, "notBefore": None},
        **{"createdAt": 0, "agents": []},
    }
    wiring = made(ask(serving, "PUT", "/api/chats/1/wirings/assistant", {}))["wiring"]
    assert {**wiring, "createdAt": 0} == {
        **{"id": 1, "chatId": 1, "channel": "telegram", "platformId": "-100200", "chatName": "Family"},
        **{"agent": "assistant", "engageMode": "mention-sticky", "engagePattern": None, "senderScope": "all"},
        **{"ignoredMessagePolicy": "drop", "sessionMode": "per-thread", "priority": 0, "createdAt": 0},
        **{"whileBusy": "collect", "debounceMs": None},
    }
    assert get(serving, "/api/chats/1").json()["agents"] == ["assistant"]
    (destination,) = get(serving, "/api/destinations?agent=assistant").json()
    assert (destination["name"], destination["chatId"], destination["toAgent"]) == ("family", 1, None)
    again = post(serving, body, "/api/chats")
    assert (again.status_code, again.json()) == (
        409,
        {"error": "telegram chat '-100200' is known already: it is chat 1"},
    )


def test_a_chat_is_found_by_its_platform_id(serving, conn):
    for channel, chat in (("telegram", "1"), ("telegram", "2"), ("discord", "2")):
        make_chat(conn, chat, channel)
    found = {
        query: [chat["id"] for chat in get(serving, f"/api/chats?{query}").json()]
        for query in ("", "channel=telegram", "channel=telegram&platformId=2", "platformId=2", "before=3&limit=1")
    }
    assert found == {
        **{"": [3, 2, 1], "channel=telegram": [2, 1], "channel=telegram&platformId=2": [2]},
        **{"platformId=2": [3, 2], "before=3&limit=1": [2]},
    }


CHAT_CHANGES = {
    "a name": ({"name": "Us"}, ("Us", "strict", "active", False)),
    "no name": ({"name": None}, (None, "strict", "active", False)),
    "a policy": ({"senderPolicy": "public"}, ("Old", "public", "active", False)),
    "a status": ({"status": "inactive"}, ("Old", "strict", "inactive", False)),
    "that it is refused": ({"refused": True}, ("Old", "strict", "active", True)),
    "nothing": ({}, ("Old", "strict", "active", False)),
}


@pytest.mark.parametrize(("change", "after"), CHAT_CHANGES.values(), ids=CHAT_CHANGES)
def test_a_change_of_a_chat_leaves_the_other_fields(serving, conn, change, after):
    make_chat(conn)
    rows(conn, "UPDATE chats SET name = 'Old'")
    shown = made(ask(serving, "PATCH", "/api/chats/1", change))["chat"]
    found = chats.get(conn, 1)
    stored = (found.name, found.sender_policy, found.status, found.refused_at is not None)
    assert stored == after == (shown["name"], shown["senderPolicy"], shown["status"], shown["refusedAt"] is not None)


def test_a_named_chat_renames_the_destinations_that_had_its_number(serving, conn):
    make_agent(conn, "coder")
    for agent in ("assistant", "coder"):
        wire(conn, make_chat(conn), agent)
    made(ask(serving, "PUT", "/api/agents/coder/destinations/home", {"chatId": 1}))
    made(ask(serving, "PATCH", "/api/chats/1", {"name": "The Family"}))
    assert rows(conn, "SELECT agent, name FROM destinations") == [("assistant", "the-family"), ("coder", "home")]


def test_a_refusal_keeps_its_first_instant_until_it_is_undone(serving, conn):
    make_chat(conn)
    first, again, back = call(
        serving, *(("PATCH", "/api/chats/1", {"json": {"refused": refused}}) for refused in (True, True, False))
    )
    assert first.json()["chat"]["refusedAt"] == again.json()["chat"]["refusedAt"] > 0
    assert back.json()["chat"]["refusedAt"] is None


def test_a_wired_chat_can_not_be_refused(serving, conn):
    wire(conn, make_chat(conn))
    reply = ask(serving, "PATCH", "/api/chats/1", {"refused": True})
    assert (reply.status_code, reply.json()) == (
        409,
        {"error": "chat 1 can't be refused: first delete the wirings of assistant"},
    )


def test_a_chat_is_deleted_or_retired(serving, conn):
    chat = make_chat(conn)
    assert made(ask(serving, "DELETE", f"/api/chats/{chat}")) == {"ok": True, "retired": False}
    assert get(serving, f"/api/chats/{chat}").status_code == 404
    wire(conn, make_chat(conn))
    put(conn)
    assert ask(serving, "DELETE", f"/api/chats/{chat}").status_code == 409
    rows(conn, "UPDATE messages SET status = 'completed'")
    assert made(ask(serving, "DELETE", f"/api/chats/{chat}")) == {"ok": True, "retired": True}
    shown = get(serving, f"/api/chats/{chat}").json()
    assert (shown["agents"], shown["status"], shown["refusedAt"] > 0) == ([], "inactive", True)


# -- wirings


def test_a_change_of_a_wiring_leaves_the_other_fields(serving, conn):
    make_chat(conn)
    first = {"engageMode": "pattern", "engagePattern": "^bot", "senderScope": "known", "priority": 3}
    rest = {"ignoredMessagePolicy": "accumulate", "sessionMode": "agent-shared"}
    made(ask(serving, "PUT", "/api/chats/1/wirings/assistant", {**first, **rest}))
    changed = made(ask(serving, "PUT", "/api/chats/1/wirings/assistant", {"priority": 7}))["wiring"]
    assert {name: changed[name] for name in (*first, *rest)} == {**first, **rest, "priority": 7}
    assert get(serving, "/api/chats/1/wirings/assistant").json() == changed
    stored = wirings.get(conn, 1, "assistant")
    assert stored[4:] == ("pattern", "^bot", "known", "accumulate", "agent-shared", 7, "collect", None)


WIRINGS = {
    "an unknown mode": ({"engageMode": "always"}, 400, "engageMode: "),
    "an invalid pattern": ({"engageMode": "pattern", "engagePattern": "("}, 400, "("),
    "no pattern": ({"engageMode": "pattern"}, 400, "needs an engage_pattern"),
    "an unknown field": ({"colour": "red"}, 400, "colour: "),
}


@pytest.mark.parametrize(("body", "status", "sentence"), WIRINGS.values(), ids=WIRINGS)
def test_an_invalid_wiring_is_refused_and_stores_nothing(serving, conn, body, status, sentence):
    make_chat(conn)
    before = dump(conn)
    reply = ask(serving, "PUT", "/api/chats/1/wirings/assistant", body)
    assert (reply.status_code, sentence in reply.json()["error"]) == (status, True)
    assert dump(conn) == before


def test_wirings_of_a_chat_are_listed_by_priority_and_all_wirings_newest_first(serving, conn):
    make_agent(conn, "coder")
    for chat in "12":
        wire(conn, make_chat(conn, chat))
        wire(conn, make_chat(conn, chat), "coder", priority=5)
    here = get(serving, "/api/chats/2/wirings").json()
    assert [(wiring["chatId"], wiring["agent"]) for wiring in here] == [(2, "coder"), (2, "assistant")]
    everywhere = get(serving, "/api/wirings?agent=coder").json()
    assert [(wiring["chatId"], wiring["agent"]) for wiring in everywhere] == [(2, "coder"), (1, "coder")]
    assert [wiring["id"] for wiring in get(serving, "/api/wirings?before=3").json()] == [2, 1]


def test_an_unwired_agent_neither_answers_nor_sends_there(serving, conn):
    wire(conn, make_chat(conn))
    assert made(ask(serving, "DELETE", "/api/chats/1/wirings/assistant")) == {"ok": True}
    assert get(serving, "/api/destinations").json() == get(serving, "/api/wirings").json() == []
    reply = ask(serving, "DELETE", "/api/chats/1/wirings/assistant")
    assert (reply.status_code, reply.json()) == (
        404,
        {"error": "agent 'assistant' is not wired to chat 1; wired agents: none"},
    )


def test_a_retired_agent_has_no_wirings(serving, conn):
    make_chat(conn)
    make_agent(conn, "coder")
    with transaction(conn):
        agents.retire(conn, "coder", now_ms=NOW)
    assert ask(serving, "PUT", "/api/chats/1/wirings/coder", {}).status_code == 404


# -- destinations


def test_an_agent_gets_a_destination_which_is_then_renamed(serving, conn):
    make_agent(conn, "coder")
    path = "/api/agents/coder/destinations"
    made(ask(serving, "PUT", f"{path}/boss", {"toAgent": "assistant"}))
    told = made(ask(serving, "PUT", f"{path}/chief", {"toAgent": "assistant"}))["destination"]
    assert (told["name"], told["toAgent"], told["chatId"]) == ("chief", "assistant", None)
    assert get(serving, "/api/destinations").json() == [told]
    assert made(ask(serving, "DELETE", f"{path}/chief")) == {"ok": True}
    reply = ask(serving, "DELETE", f"{path}/chief")
    assert (reply.status_code, reply.json()["error"]) == (
        404,
        "agent 'coder' has no destination 'chief'; it has: none",
    )


DESTINATIONS = {
    "both": ("x", {"toAgent": "coder", "chatId": 1}, 400),
    "neither": ("x", {}, 400),
    "itself": ("x", {"toAgent": "assistant"}, 400),
    "nobody": ("x", {"toAgent": "nobody"}, 404),
    "no chat": ("x", {"chatId": 7}, 404),
    "an invalid name": ("X", {"toAgent": "coder"}, 400),
}


@pytest.mark.parametrize(("name", "body", "status"), DESTINATIONS.values(), ids=DESTINATIONS)
def test_an_invalid_destination_is_refused(serving, conn, name, body, status):
    make_agent(conn, "coder")
    assert ask(serving, "PUT", f"/api/agents/assistant/destinations/{name}", body).status_code == status
    assert rows(conn, "SELECT * FROM destinations") == []
