"""Reactions and edits over the API."""

import json

import pytest

from shared.db.engine.connection import rows, transaction
from tests.api_client import post
from tests.support import answer, column, put, row


def content(conn):
    return json.loads(row(conn, "responses")["content"])


def asked_on_discord(conn):
    put(conn, "hi", platform_message_id="77")
    with transaction(conn):
        rows(conn, "UPDATE messages SET channel = 'discord'")
    return column(conn, "SELECT message_id FROM messages")[0]


def test_a_reaction_to_a_message_goes_out_as_its_agent(serving, conn):
    asked = asked_on_discord(conn)
    assert post(serving, {"emoji": "👀"}, f"/api/messages/{asked}/reaction").status_code == 200
    assert content(conn)["reaction"] == {"emoji": "👀", "message_id": "77", "row": None}
    found = row(conn, "responses")
    assert (found["agent"], found["channel"], found["status"]) == ("assistant", "discord", "pending")


def test_null_takes_it_back(serving, conn):
    asked = asked_on_discord(conn)
    assert post(serving, {"emoji": None}, f"/api/messages/{asked}/reaction").status_code == 200
    assert content(conn)["reaction"]["emoji"] is None


def test_a_reaction_to_what_an_agent_said(serving, conn):
    said = answer(conn, "hello", channel="discord", chat="300", agent="assistant")
    assert post(serving, {"emoji": "🎉"}, f"/api/responses/{said}/reaction").status_code == 200
    assert content(conn)["reaction"] == {"emoji": "🎉", "message_id": None, "row": said}


def test_an_edit_replaces_the_text_in_its_chat(serving, conn):
    said = answer(conn, "one", channel="discord", chat="300", thread_id="5", agent="assistant")
    assert post(serving, {"message": "two"}, f"/api/responses/{said}/edit").status_code == 200
    found = row(conn, "responses")
    assert (content(conn), found["message"], found["platform_id"], found["thread_id"]) == (
        {"edits": said},
        "two",
        "300",
        "5",
    )


REFUSED = {
    "no such message": ("/api/messages/telegram_aaaaaaaa/reaction", {"emoji": "👀"}, 404),
    "no such response": ("/api/responses/99/reaction", {"emoji": "👀"}, 404),
    "nothing to edit": ("/api/responses/99/edit", {"message": "x"}, 404),
    "no emoji": ("/api/responses/1/reaction", {}, 400),
    "a long emoji": ("/api/responses/1/reaction", {"emoji": "x" * 33}, 400),
    "an empty text": ("/api/responses/1/edit", {"message": ""}, 400),
    "no reactions there": ("/api/responses/1/reaction", {"emoji": "👀"}, 409),
    "no edits there": ("/api/responses/1/edit", {"message": "x"}, 409),
    "too long": ("/api/responses/2/edit", {"message": "x" * 1901}, 409),
    "a file": ("/api/responses/3/edit", {"message": "x"}, 409),
    "a reaction": ("/api/responses/4/edit", {"message": "x"}, 409),
    "what never arrived": ("/api/responses/5/edit", {"message": "x"}, 409),
    "what one person sees": ("/api/responses/6/edit", {"message": "x"}, 409),
}


@pytest.mark.parametrize(("path", "body", "status"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_possible_is_refused_and_stores_nothing(serving, conn, path, body, status):
    answer(conn, "one", channel="matrix")
    answer(conn, "two", channel="discord")
    answer(conn, "three", channel="discord", files='["/x"]')
    answer(conn, "👀", channel="discord", content={"reaction": {"emoji": "👀", "message_id": "1", "row": None}})
    answer(conn, "five", channel="discord")
    answer(conn, "six", channel="discord", content={"context": {"receiver_user_id": "5"}})
    with transaction(conn):
        rows(conn, "UPDATE responses SET status = 'dead' WHERE id = 5")
    reply = post(serving, body, path)
    assert reply.status_code == status, reply.text
    assert len(column(conn, "SELECT id FROM responses")) == 6
