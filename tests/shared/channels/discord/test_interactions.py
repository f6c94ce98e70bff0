"""What our own commands and forms mean: typed words, the agent asked for, a form and what is written in it."""

import json

import pytest

from shared.channels.discord import forms
from shared.channels.discord.channel import DiscordChannel
from shared.channels.discord.settings import DiscordSettings
from tests.shared.channels.discord.test_receive import EVENTS, NOW, signed


def received(body):
    return DiscordChannel(DiscordSettings.load()).receive(signed(json.dumps(body).encode()), now_ms=NOW)


def body_of(name, **changes):
    return {**json.loads((EVENTS / name).read_bytes()), **changes}


def slash(name, **options):
    given = [{"name": key, "type": 3, "value": value} for key, value in options.items()]
    return body_of("011_slash_dm.json", data={"id": "1", "name": name, "type": 1, "options": given})


@pytest.mark.parametrize(
    ("name", "options", "text", "args"),
    [
        ("clear", {}, "/clear", ""),
        ("stop", {}, "/stop", ""),
        ("start", {"code": "7KQ2-M4XN"}, "/start 7KQ2-M4XN", "7KQ2-M4XN"),
        ("ask", {"prompt": "hi", "agent": "coder"}, "@coder hi", None),
        ("ask", {"agent": "coder", "prompt": "hi"}, "@coder hi", None),
        ("ask", {"prompt": "hi"}, "hi", None),
    ],
)
def test_a_command_of_ours_is_what_a_person_may_also_type(name, options, text, args):
    (event,) = received(slash(name, **options)).events
    assert (event.text, event.command, event.command_args, event.asks_for_a_turn) == (text, name, args, True)


def test_a_command_of_another_application_is_not_taken_as_ours():
    found = received(body_of("011_slash_dm.json", application_id="42"))
    (event,) = found.events
    assert (event.kind, event.reason) == ("ignore", "other_application")
    assert "DISCORD_APPLICATION_ID" in json.loads(found.reply.body)["data"]["content"]


def test_a_reply_button_opens_a_form_and_its_text_and_files_ask_the_agent():
    press = body_of("040_button.json")
    press["data"]["custom_id"] = forms.REPLY
    opened = received(press)
    form = json.loads(opened.reply.body)
    assert (form["type"], form["data"]["custom_id"], opened.is_answered) == (9, forms.REPLY, True)

    sent = body_of("206_modal_two_files.json", message=press["message"])
    sent["data"]["custom_id"] = form["data"]["custom_id"]
    (event,) = received(sent).events
    assert (event.text, len(event.attachments), event.asks_for_a_turn) == ("it breaks at start", 2, True)
    assert event.reply_to["is_self"]


def test_a_command_on_a_person_asks_about_that_person():
    opened = json.loads(received(body_of("213_user_command_group_dm.json")).reply.body)
    sent = body_of("050_modal_label.json")
    sent["data"]["custom_id"] = opened["data"]["custom_id"]
    (event,) = received(sent).events
    assert event.text.startswith("About Dee (<@80000000000000003>): please use blue")


@pytest.mark.parametrize("name", ["A", "n" * 300, "x\n\x00y"])
def test_a_form_keeps_to_discords_limits(name):
    form = forms.about("8" * 20, name)["data"]
    assert len(form["custom_id"]) <= 100
    assert len(form["title"]) <= 45
    assert 1 <= len(form["components"]) <= 5
    assert all(len(row["label"]) <= 45 for row in form["components"])


def test_a_form_carries_the_interaction_that_answers_it():
    adapter = DiscordChannel(DiscordSettings.load())
    body = body_of("050_modal_label.json")
    (event,) = received(body).events
    assert adapter.unseal(event.context["sealed_token"]) == body["token"]
