"""What ``receive`` reads of a message: commands, mentions, quotations, forwards, and what is malformed."""

import json

import pytest

from tests.shared.channels.telegram.receiving import receive, update


def test_a_group_event_carries_the_group_name(telegram):
    chat = {"id": -7, "type": "supergroup", "title": "Lunch\n group"}
    update = {"update_id": 1, "message": {"message_id": 2, "date": 0, "chat": chat, "text": "hi"}}
    update["message"]["from"] = {"id": 5, "is_bot": False, "first_name": "Ana"}
    event = receive(telegram, json.dumps(update).encode())
    assert (event.chat_name, event.place) == ("Lunch group", "Lunch group")
    update["message"]["chat"] = {"id": 5, "type": "private", "first_name": "Ana"}
    event = receive(telegram, json.dumps(update).encode())
    assert (event.chat_name, event.place) == ("", "Ana")


@pytest.mark.parametrize(
    ("message", "command", "args", "is_mention"),
    [
        ("/start@aurora_helper_bot CODE", "start", "CODE", True),
        ("/start@Aurora_Helper_Bot", "start", "", True),
        ("/start@another_bot CODE", None, None, False),
    ],
)
def test_a_command_is_for_the_bot_if_it_names_the_bot_or_no_bot(telegram, message, command, args, is_mention):
    entity = {"type": "bot_command", "offset": 0, "length": len(message.split(" ")[0])}
    event = receive(telegram, update(text=message, entities=[entity]))
    assert (event.command, event.command_args, event.is_mention) == (command, args, is_mention)


def test_messages_of_bots_are_ignored_but_not_those_of_anonymous_admins(telegram):
    bot = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    assert receive(telegram, update(text="x", **{"from": bot})).reason == "from_bot"
    anonymous = receive(
        telegram, update(text="x", sender_chat={"id": -100, "title": "Ops", "type": "supergroup"}, **{"from": bot})
    )
    assert (anonymous.kind, anonymous.sender_id, anonymous.sender) == ("message", "-100", "Ops")


def test_an_empty_service_object_is_still_a_service_message(telegram):
    assert receive(telegram, update(forum_topic_closed={})).reason == "service:forum_topic_closed"


def test_a_migration_seen_in_the_old_group_has_both_ids(telegram):
    event = receive(telegram, update(migrate_to_chat_id=-200))
    assert (event.kind, event.context) == ("migrate", {"old_platform_id": "-100", "new_platform_id": "-200"})


MALFORMED = {
    "an entity": {"entities": [{"type": "mention", "offset": "0", "length": 18}, 7, {"offset": 0}, None]},
    "all entities": {"entities": {"type": "mention"}},
    "the quotation": {"reply_to_message": {"message_id": "x"}, "quote": {"text": 7}},
    "a reply to another chat": {"external_reply": {"origin": "somebody"}},
    "a signature": {"author_signature": {"name": "x"}},
}


@pytest.mark.parametrize("broken", MALFORMED.values(), ids=MALFORMED)
def test_what_is_malformed_beside_the_text_costs_that_alone(telegram, broken):
    named = {"type": "mention", "offset": 3, "length": 18}
    found = broken.get("entities")
    entities = {"entities": [*found, named]} if isinstance(found, list) else {"entities": [named]} | broken
    event = receive(telegram, update(text="hi @aurora_helper_bot", **{**broken, **entities}))
    assert (event.kind, event.text, event.reply_to) == ("message", "hi @aurora_helper_bot", None)
    assert event.is_mention == (broken != MALFORMED["all entities"])


def test_a_malformed_origin_is_a_hidden_one(telegram):
    """A forwarded text must never count as the sender's own words."""
    event = receive(telegram, update(text="hm", forward_origin={"sender_user": 7}))
    assert event.forwarded == {"sender_id": None, "is_self": False}


@pytest.mark.parametrize("broken", [{"text": 7}, {"from": []}, {"sender_chat": 7}, {"chat": {"id": "x"}}])
def test_a_message_whose_words_or_sender_are_malformed_is_ignored(telegram, broken):
    assert receive(telegram, update(**{"text": "hm", **broken})).reason == "malformed"


def test_a_malformed_attachment_is_unsupported_and_the_others_are_parsed(telegram):
    event = receive(telegram, update(caption="look", document={"file_name": 7}, voice={"file_id": "v", "duration": 3}))
    assert event.text == "look"
    assert event.attachments == (
        {"kind": "unsupported", "type": "document"},
        {"kind": "voice", "file_id": "v", "duration": 3},
    )


def test_all_text_of_a_rich_message_is_parsed(telegram):
    """A table's caption is rich text; other captions are objects with a text and a credit."""
    bold = {"type": "bold", "text": "bold"}
    blocks = [
        {"type": "table", "cells": [[{"text": "a"}, {"text": ["b", bold]}]], "caption": "Prices"},
        {"type": "table", "cells": [[{"text": "c"}]], "caption": ["in ", bold]},
        {"type": "photo", "photo": [], "caption": {"text": "a view", "credit": "Ana"}},
        {"type": "pull_quotation", "text": "to be", "credit": ["Sha", "kespeare"]},
    ]
    event = receive(telegram, update(rich_message={"blocks": blocks}))
    assert event.text.split("\n") == ["a", "bbold", "Prices", "c", "in bold", "a view", "Ana", "to be", "Shakespeare"]


@pytest.mark.parametrize(
    ("part", "is_mention"),
    [
        ({"type": "mention", "text": "@Aurora_Helper_Bot", "username": "Aurora_Helper_Bot"}, True),
        ({"type": "mention", "text": "@another_bot", "username": "another_bot"}, False),
        ({"type": "text_mention", "text": "you", "user": {"id": 7100200300, "first_name": "Aurora"}}, True),
        ({"type": "text_mention", "text": "you", "user": {"id": 5, "first_name": "Bo"}}, False),
        ({"type": "code", "text": "@aurora_helper_bot"}, False),
    ],
)
def test_a_rich_message_mentions_the_bot(telegram, part, is_mention):
    """A rich message has no entities: mentions are parts of its nested text."""
    items = [{"blocks": [{"type": "paragraph", "text": ["look ", {"type": "bold", "text": [part]}]}]}]
    event = receive(telegram, update(rich_message={"blocks": [{"type": "list", "items": items}]}))
    assert event.is_mention == is_mention


ANA = {"id": 7, "first_name": "Ana"}
BOT = {"id": 7100200300, "is_bot": True, "first_name": "Aurora"}
GROUP = {"id": -100, "type": "supergroup", "title": "Ops"}
HERE = {"message_id": 3, "chat": GROUP, "from": ANA, "text": "we ship on Friday"}
BY_ANA = {"type": "user", "sender_user": ANA, "date": 1}
BY_BOT = {"type": "user", "sender_user": BOT, "date": 1}
HIDDEN = {"type": "hidden_user", "sender_user_name": "Ben", "date": 1}
QUOTE = {"text": "Friday\x00", "position": 11}
QUOTED = {
    "a message": ({"reply_to_message": HERE}, {"message_id": "3", "text": "we ship on Friday", "sender_id": "7"}),
    "a part of it": (
        {"reply_to_message": HERE, "quote": QUOTE},
        {"message_id": "3", "text": "Friday", "sender_id": "7"},
    ),
    "a forwarded message": (
        {"reply_to_message": {**HERE, "forward_origin": HIDDEN}},
        {"message_id": "3", "text": "we ship on Friday", "sender_id": "7", "origin_id": None},
    ),
    "a forwarded message of the bot": (
        {"reply_to_message": {**HERE, "forward_origin": BY_BOT}},
        {"message_id": "3", "text": "we ship on Friday", "sender_id": "7"},
    ),
    "a message of another chat": (
        {"external_reply": {"origin": BY_ANA, "message_id": 8}, "quote": QUOTE},
        {"message_id": "8", "text": "Friday", "sender_id": "7", "external": True},
    ),
    "a photo": (
        {"reply_to_message": {**HERE, "text": "", "photo": [{"file_id": "p"}]}},
        {"message_id": "3", "text": "(photo)", "sender_id": "7"},
    ),
    "files of another chat": (
        {"external_reply": {"origin": BY_ANA, "chat": GROUP, "document": {"file_id": "d", "file_name": "plan.pdf"}}},
        {"text": "(document plan.pdf)", "sender_id": "7", "external": True},
    ),
    "a poll": (
        {"reply_to_message": {**HERE, "text": "", "poll": {"question": "Ship?", "options": [{"text": "Yes"}]}}},
        {"message_id": "3", "text": "Ship?", "sender_id": "7"},
    ),
    "a hidden person in another chat": (
        {"external_reply": {"origin": HIDDEN}},
        {"text": "", "sender_id": None, "external": True},
    ),
}


@pytest.mark.parametrize(("message", "expected"), QUOTED.values(), ids=QUOTED)
def test_a_quotation_names_all_its_authors(telegram, message, expected):
    event = receive(telegram, update(text="hm", **message))
    assert event.reply_to == {"is_self": False, **expected}
    assert (event.is_mention, event.context) == (False, {})


def test_a_reply_to_what_the_bot_said_in_another_chat_is_not_addressed_to_it(telegram):
    event = receive(telegram, update(text="hm", external_reply={"origin": BY_BOT}))
    assert (event.reply_to["is_self"], event.is_mention) == (True, False)


@pytest.mark.parametrize(
    ("origin", "forwarded"),
    [
        (BY_ANA, {"sender_id": "7", "is_self": False}),
        (BY_BOT, {"sender_id": "7100200300", "is_self": True}),
        (HIDDEN, {"sender_id": None, "is_self": False}),
        ({"type": "chat", "sender_chat": {"id": -5}, "date": 1}, {"sender_id": "-5", "is_self": False}),
        ({"type": "channel", "chat": {"id": -6}, "message_id": 2, "date": 1}, {"sender_id": "-6", "is_self": False}),
        (None, None),
    ],
)
def test_a_forwarded_message_names_its_first_sender(telegram, origin, forwarded):
    assert receive(telegram, update(text="hm", **({"forward_origin": origin} if origin else {}))).forwarded == forwarded


NAME = "@Aurora_Helper_Bot"
COMMANDS = {
    "behind the bot's name": (f"{NAME} /clear", [("mention", 18), ("bot_command", 6)], "clear", f"{NAME} "),
    "behind a comma": (f"{NAME}, /clear\nall", [("mention", 18), ("bot_command", 6)], "clear", f"{NAME}, "),
    "to the bot, behind its name": (f"{NAME} /ask{NAME} x", [("mention", 18), ("bot_command", 22)], "ask", f"{NAME} "),
    "to another bot": (f"{NAME} /ask@other_bot", [("mention", 18), ("bot_command", 14)], None, f"{NAME} "),
    "behind another word": (f"{NAME} do /clear", [("mention", 18), ("bot_command", 6)], None, f"{NAME} "),
    "behind another name": (f"@ben__ /clear {NAME}", [("mention", 6), ("bot_command", 6)], None, ""),
    "nothing": (NAME, [("mention", 18)], None, ""),
}


@pytest.mark.parametrize(("text", "entities", "command", "mention"), COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("of", ["text", "caption"])
def test_a_command_may_stand_behind_the_bots_name(telegram, of, text, entities, command, mention):
    (_, length), *others = entities
    found = [{"type": "mention", "offset": 0, "length": length}]
    found += [{"type": kind, "offset": text.index("/"), "length": size} for kind, size in others]
    event = receive(telegram, update(**{of: text, "entities" if of == "text" else "caption_entities": found}))
    assert (event.text, event.command, event.mention) == (text, command, mention)


def test_a_person_is_named_by_a_link_too(telegram):
    text = "🤖 bot: /clear"
    named = {"type": "text_mention", "offset": 0, "length": 6, "user": {"id": 7100200300, "first_name": "Aurora"}}
    event = receive(telegram, update(text=text, entities=[named, {"type": "bot_command", "offset": 8, "length": 6}]))
    assert (event.command, event.mention, event.is_mention) == ("clear", "🤖 bot: ", True)
