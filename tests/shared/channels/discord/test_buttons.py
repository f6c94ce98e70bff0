"""Buttons, edits and answers to a press, against a function that plays Discord."""

import json

import httpx
import pytest

from shared.channels.base import Button, Part
from shared.channels.discord import forms
from shared.channels.discord.channel import DiscordChannel
from shared.channels.discord.settings import DiscordSettings
from shared.core.errors import (
    OutcomeUnknown,
    PermanentError,
    RetryableError,
)
from shared.runtime.http_client import NoAnswer
from tests.shared.channels.discord.sending import BASE, BOT, TOKEN, WEBHOOK, Platform, ok, refusal, send

YES, NO = Button("Approve", "7.0"), Button("Refuse", "7.1")
ROWS = [
    {
        "type": 1,
        "components": [
            {"type": 2, "style": 2, "label": "Approve", "custom_id": "7.0"},
            {"type": 2, "style": 2, "label": "Refuse", "custom_id": "7.1"},
        ],
    }
]


def press(discord, **changes):
    """The context of a press of a button under message 55."""
    return {"sealed_token": discord.seal(TOKEN), "bot_is_there": True, "message_id": "55", **changes}


@pytest.mark.parametrize("changes", [{}, {"is_first": False}, {"context": {}}])
def test_buttons_are_sent_with_the_message(discord, changes):
    platform = Platform(ok())
    send(discord, platform, buttons=(YES, NO), **changes)
    assert platform.bodies[0]["components"] == ROWS


def test_a_row_holds_five_buttons(discord):
    platform = Platform(ok())
    send(discord, platform, buttons=tuple(Button(str(number), f"1.{number}") for number in range(7)))
    assert [len(row["components"]) for row in platform.bodies[0]["components"]] == [5, 2]


def test_an_edit_changes_the_message_and_removes_its_buttons(discord):
    platform = Platform(httpx.Response(200, json={"id": "55"}))
    assert send(discord, platform, context={}, edits="55") == "55"
    assert platform.calls == [f"PATCH {BASE}/channels/200/messages/55"]
    assert platform.bodies[0]["components"] == []
    assert "nonce" not in platform.bodies[0]
    assert platform.requests[0].headers["authorization"] == f"Bot {BOT}"


@pytest.mark.parametrize("code", [10008, 30046, 50005])
def test_a_message_that_cannot_be_edited_is_sent_as_a_new_one(discord, code):
    platform = Platform(refusal(404, code), ok())
    assert send(discord, platform, context={}, edits="55") == "4242"
    assert platform.calls[1] == f"POST {BASE}/channels/200/messages"
    assert platform.bodies[1]["enforce_nonce"] is True


def test_an_edit_without_an_answer_is_retried(discord):
    with pytest.raises(OutcomeUnknown) as caught:
        send(discord, Platform(NoAnswer("slow")), context={}, edits="55")
    assert caught.value.is_repeatable


def test_the_token_of_a_press_edits_the_message_with_the_button(discord):
    platform = Platform(httpx.Response(200, json={"id": "55"}))
    assert send(discord, platform, context={}, edits="55", click=press(discord)) == "55"
    assert platform.calls == [f"PATCH {WEBHOOK}/messages/@original"]
    assert platform.bodies[0]["components"] == []
    assert "flags" not in platform.bodies[0]


@pytest.mark.parametrize(("age_ms", "code"), [(3000, 10062), (3000, 50027), (900_000, None)])
def test_after_the_token_of_a_press_expires_the_bot_edits_the_message(discord, age_ms, code):
    platform = Platform(*([refusal(404, code)] if code else []), httpx.Response(200, json={"id": "55"}))
    assert send(discord, platform, context={}, edits="55", click=press(discord), age_ms=age_ms) == "55"
    assert platform.calls[-1] == f"PATCH {BASE}/channels/200/messages/55"


def test_a_press_of_one_message_can_change_another(discord):
    """@original is the message with the button, and no other."""
    platform = Platform(httpx.Response(200, json={"id": "54"}))
    assert send(discord, platform, context={}, edits="54", click=press(discord)) == "54"
    assert platform.calls == [f"PATCH {BASE}/channels/200/messages/54"]


def test_a_message_that_is_gone_for_the_bot_is_not_retried(discord):
    """Only a call with the token of the press can be too early for Discord."""
    platform = Platform(refusal(404, 10008), ok())
    assert send(discord, platform, context={}, edits="54", click=press(discord), age_ms=100) == "4242"
    assert platform.calls[1] == f"POST {WEBHOOK}"


def test_only_the_person_who_pressed_sees_the_answer_to_a_press(discord):
    platform = Platform(ok())
    assert send(discord, platform, context={}, click=press(discord)) == "4242"
    assert platform.calls == [f"POST {WEBHOOK}"]
    assert platform.bodies[0]["flags"] & 64


LINK = Part("See https://example.com/?what-an-agent-knows")
SUPPRESS_EMBEDS = 4


@pytest.mark.parametrize(
    "changes",
    [
        {},  # in place of "thinking"
        {"is_first": False, "part_index": 1},
        {"age_ms": 900_000},
        {"context": {}},
    ],
)
def test_discord_fetches_no_link_of_an_answer_unless_the_account_wants_previews(monkeypatch, discord, changes):
    """An address may carry what the agent knows, and a preview fetches it without a click."""
    platform = Platform(ok())
    send(discord, platform, part=LINK, **changes)
    assert platform.bodies[0]["flags"] & SUPPRESS_EMBEDS

    monkeypatch.setenv("DISCORD_LINK_PREVIEWS", "1")
    send(DiscordChannel(DiscordSettings.load()), platform, part=LINK, **changes)
    assert not platform.bodies[1]["flags"] & SUPPRESS_EMBEDS


def test_a_message_that_takes_the_place_of_one_that_is_gone_has_no_preview_either(discord):
    platform = Platform(refusal(404, 10008), ok())
    send(discord, platform, part=LINK, context={}, edits="54", click=press(discord), age_ms=100)
    assert ["flags" in body for body in platform.bodies] == [False, True]
    assert platform.bodies[1]["flags"] & SUPPRESS_EMBEDS


@pytest.mark.parametrize(("age_ms", "calls"), [(3000, 1), (900_000, 0)])
def test_in_a_guild_only_the_token_of_a_press_answers_it(discord, age_ms, calls):
    """A message of the bot would be read by everybody in the channel."""
    platform = Platform(refusal(404, 10015), ok())
    with pytest.raises(PermanentError, match="only the person who pressed may read this"):
        send(discord, platform, context={}, click=press(discord, guild_id="1"), age_ms=age_ms)
    assert len(platform.calls) == calls


def test_in_a_direct_chat_the_bot_answers_a_press_after_its_token_has_expired(discord):
    platform = Platform(refusal(404, 10015), ok())
    assert send(discord, platform, context={}, click=press(discord)) == "4242"
    assert platform.calls[1] == f"POST {BASE}/channels/200/messages"


def test_an_answer_to_a_press_that_discord_does_not_know_yet_is_retried(discord):
    with pytest.raises(RetryableError) as caught:
        send(discord, Platform(refusal(404, 10015)), context={}, click=press(discord), age_ms=100)
    assert caught.value.retry_after_ms == 250


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({}, ["Reply"]),
        ({"is_first": False, "part_index": 1}, ["Reply"]),
        ({"is_last": False}, None),
        ({"buttons": (Button("Yes", "y"),)}, ["Yes"]),
        ({"context": {"guild_id": "1"}}, None),  # typed by a person, who can type on
        ({"edits": "5"}, []),
    ],
)
def test_a_reply_button_stands_under_the_end_of_an_answer_where_it_is_wanted(monkeypatch, discord, changes, labels):
    context = {"sealed_token": discord.seal(TOKEN), "bot_is_there": True, "interaction_id": "1"}
    platform = Platform(ok())
    send(discord, platform, **{"context": context, **changes})
    assert "Reply" not in json.dumps(platform.bodies)

    monkeypatch.setenv("DISCORD_REPLY_BUTTON", "1")
    send(DiscordChannel(DiscordSettings.load()), platform, **{"context": context, **changes})
    rows = platform.bodies[1].get("components")
    assert (rows if rows is None else [key["label"] for row in rows for key in row["components"]]) == labels
    if labels == ["Reply"]:
        assert rows[0]["components"][0]["custom_id"] == forms.REPLY
