"""``receive`` of the Telegram adapter: recorded updates against their expectations."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from shared.channels.base import WebhookRequest
from shared.channels.telegram.channel import TelegramChannel, TelegramSettings
from shared.core.errors import ConfigInvalid, PayloadInvalid, SignatureInvalid
from tests.examples import examples
from tests.shared.channels.expected import seen

EVENTS = Path(__file__).parents[3] / "events" / "telegram"
CASES = json.loads((EVENTS / "expected.json").read_text())["cases"]
SECRET = "a-Secret_that-telegram-repeats"
NOW = 1_795_168_000_000
IN_CONTEXT = (
    "forwarded_from", "callback_id", "status", "old_status", "ephemeral_message_id", "old_platform_id",
    "new_platform_id", "draft_id",
)  # fmt: skip


def request(body, secret=SECRET):
    return WebhookRequest("POST", {}, {"x-telegram-bot-api-secret-token": secret}, body)


def receive(adapter, body):
    received = adapter.receive(request(body), now_ms=NOW)
    assert (received.reply.status, received.reply.body) == (200, b"")
    (event,) = received.events
    return event


def of_kind(*kinds):
    chosen = [case for case in CASES if case["expect"]["kind"] in kinds and "account" not in case]
    assert chosen
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case["file"])


def test_a_group_event_carries_the_group_name(telegram):
    chat = {"id": -7, "type": "supergroup", "title": "Lunch\n group"}
    update = {"update_id": 1, "message": {"message_id": 2, "date": 0, "chat": chat, "text": "hi"}}
    update["message"]["from"] = {"id": 5, "is_bot": False, "first_name": "Ana"}
    event = receive(telegram, json.dumps(update).encode())
    assert (event.chat_name, event.place) == ("Lunch group", "Lunch group")
    update["message"]["chat"] = {"id": 5, "type": "private", "first_name": "Ana"}
    event = receive(telegram, json.dumps(update).encode())
    assert (event.chat_name, event.place) == ("", "Ana")


READ = ("message", "edit", "callback", "reaction", "membership", "migrate", "stop", "ignore")
NEWS_OF_BOTS = [case for case in CASES if "account" in case]


@of_kind(*READ)
def test_reads_a_recorded_update(telegram, case):
    body = (EVENTS / case["file"]).read_bytes()
    expected = {name: value for name, value in case["expect"].items() if name != "duplicate_of"}
    if "update_id" not in json.loads(body) or not isinstance(json.loads(body)["update_id"], int):
        with pytest.raises(PayloadInvalid, match="update_id"):  # a redelivery could not be recognised
            receive(telegram, body)
        return

    event = receive(telegram, body)

    actual = seen(event, "telegram", IN_CONTEXT)
    assert {name: actual[name] for name in expected} == expected
    assert event.event_key == f"7100200300:{json.loads(body)['update_id']}"
    assert event.edited == (event.kind == "edit")
    assert event.asks_for_a_turn == (event.kind == "message")
    if "command" not in expected:
        assert event.command is None


@pytest.mark.parametrize("case", NEWS_OF_BOTS, ids=lambda case: case["file"])
def test_news_of_a_managed_bot_name_its_owner(telegram, case):
    """The update and the service message tell the same: either may come first, or alone."""
    event = receive(telegram, (EVENTS / case["file"]).read_bytes())
    told = {"username": case["account"]["bot_username"], **case["account"]}
    del told["bot_username"]
    assert (event.kind, event.context, event.reason) == ("account", told, None)
    assert (event.sender_id, event.platform_id, event.asks_for_a_turn) == (told["owner_id"], told["owner_id"], False)


@of_kind("reject")
def test_an_unreadable_body_is_refused_with_a_reason(telegram, case):
    with pytest.raises(PayloadInvalid):
        receive(telegram, (EVENTS / case["file"]).read_bytes())


@of_kind("any", "ignore_or_reject")
def test_an_ambiguous_body_is_parsed_or_refused(telegram, case):
    try:
        receive(telegram, (EVENTS / case["file"]).read_bytes())
    except PayloadInvalid as error:
        assert str(error)  # noqa: PT017


def test_every_recorded_update_is_tested():
    kinds = {*READ, "reject", "any", "ignore_or_reject"}
    assert {case["expect"]["kind"] for case in CASES} <= kinds
    assert {case["file"] for case in CASES} == {path.name for path in EVENTS.iterdir()} - {"expected.json"}


def test_half_a_character_costs_itself_and_not_the_update(telegram):
    body = json.loads((EVENTS / "001_private_text.json").read_bytes())
    body["message"]["text"] = "cut \ud83d"
    body["message"]["from"]["first_name"] = "Ana \ud83d"
    event = receive(telegram, json.dumps(body).encode())
    assert (event.text, event.sender.partition(" R")[0]) == ("cut \ufffd", "Ana \ufffd")


def test_a_redelivery_has_the_same_key(telegram):
    first, again = (
        receive(telegram, (EVENTS / name).read_bytes()) for name in ("202_duplicate_a.json", "203_duplicate_b.json")
    )
    assert first == again


@pytest.mark.parametrize("secret", ["", "wrong", SECRET + "x", SECRET[:-1], SECRET.upper(), "ünïcode", "\udcff"])
def test_a_wrong_secret_is_refused_before_the_body_is_parsed(telegram, secret):
    with pytest.raises(SignatureInvalid):
        telegram.receive(request(b"not even JSON", secret), now_ms=NOW)


def test_a_request_without_the_secret_is_refused(telegram):
    with pytest.raises(SignatureInvalid):
        telegram.receive(WebhookRequest("POST", {}, {}, b"{}"), now_ms=NOW)


@pytest.mark.parametrize("name", ["TELEGRAM_BOT_TOKEN", "TELEGRAM_WEBHOOK_SECRET"])
@pytest.mark.parametrize("value", [None, "", "spaces are wrong"])
def test_a_missing_secret_is_an_error_that_names_it(monkeypatch, name, value):
    monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    with pytest.raises(ConfigInvalid, match=name) as caught:
        TelegramSettings.load()
    assert not value or value not in str(caught.value)


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary() | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["update_id", "message", "chat", "id", "from", "text", "photo", "poll", "x"]), inner),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_a_signed_random_body_is_refused_or_ignored(body):
    adapter = TelegramChannel(TelegramSettings.load())
    try:
        event = receive(adapter, body)
    except PayloadInvalid:
        return
    assert event.reason or event.kind in READ


@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=st.sampled_from([case for case in CASES if case["file"].endswith(".json")]), data=st.data())
def test_a_recorded_update_with_one_value_replaced_raises_no_unexpected_error(case, data):
    """Telegram's types change. An unexpected object may cost one event, never an error with a day of redeliveries."""
    update = json.loads((EVENTS / case["file"]).read_bytes())
    paths = list(_paths(update))
    path = data.draw(st.sampled_from(paths))
    surprise = data.draw(st.sampled_from([None, True, -1, 2**70, 1.5, "", "x", [], {}, [None], {"id": "?"}]))
    node = update
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = surprise
    try:
        receive(TelegramChannel(TelegramSettings.load()), json.dumps(update).encode())
    except PayloadInvalid as error:
        assert str(error)  # noqa: PT017


def _paths(node, prefix=()):
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*prefix, key)
        if len(prefix) < 8:
            yield from _paths(value, (*prefix, key))


def update(**message):
    chat = {"id": -100, "type": "supergroup", "title": "Ops"}
    base = {"message_id": 1, "chat": chat, "from": {"id": 5, "first_name": "Bo"}, "date": 1}
    return json.dumps({"update_id": 9, "message": {**base, **message}}).encode()


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


@pytest.mark.parametrize("name", ["101_callback_query_topic.json", "102_callback_inaccessible_message.json"])
def test_a_press_carries_the_message_with_the_button(telegram, name):
    """The answer may have to edit that message, long after we sent it."""
    body = (EVENTS / name).read_bytes()
    pressed = json.loads(body)["callback_query"]["message"]["message_id"]
    assert receive(telegram, body).context["message_id"] == str(pressed)


PRESSES = [case["file"] for case in CASES if case["file"].startswith(("10", "342")) and "callback" in case["file"]]


@pytest.mark.parametrize("name", PRESSES)
def test_a_press_that_nothing_takes_is_answered_all_the_same(telegram, name):
    """Telegram shows a progress bar on the button until its press is answered."""
    body = (EVENTS / name).read_bytes()
    received = telegram.receive(request(body), now_ms=NOW)
    press = json.loads(body)["callback_query"]["id"]
    assert json.loads(received.not_taken.body) == {"method": "answerCallbackQuery", "callback_query_id": press}
    assert received.not_taken.content_type == "application/json"
    assert received.reply.body == b""


def test_no_other_update_is_answered_with_a_call(telegram):
    """Telegram executes what a reply names as a method."""
    for case in CASES:
        if case["file"].endswith(".json") and case["file"] not in PRESSES and case["expect"]["kind"] not in ("any",):
            try:
                received = telegram.receive(request((EVENTS / case["file"]).read_bytes()), now_ms=NOW)
            except PayloadInvalid:
                continue
            assert (received.reply.body, received.not_taken) == (b"", None), case["file"]


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


DATED = {
    "a message": ({"message": {"message_id": 1, "chat": {"id": 1, "type": "private"}, "date": 1_800_000_000}}),
    "an edit, by its own date": (
        {
            "edited_message": {
                "message_id": 1,
                "chat": {"id": 1, "type": "private"},
                "date": 1_700_000_000,
                "edit_date": 1_800_000_000,
            }
        }
    ),
    "news about a chat": (
        {
            "my_chat_member": {
                "chat": {"id": 1, "type": "group"},
                "from": {"id": 2},
                "date": 1_800_000_000,
                "old_chat_member": {"status": "member"},
                "new_chat_member": {"status": "kicked"},
            }
        }
    ),
}


@pytest.mark.parametrize("update", DATED.values(), ids=DATED)
def test_an_event_has_the_platforms_own_date(telegram, update):
    event = receive(telegram, json.dumps({"update_id": 1, **update}).encode())
    assert event.sent_at_ms == 1_800_000_000_000


def test_a_press_has_none_because_the_date_is_of_the_message_with_the_button(telegram):
    message = {"message_id": 1, "chat": {"id": 1, "type": "private"}, "date": 1_800_000_000}
    press = {"id": "5", "from": {"id": 2}, "message": message, "data": "x"}
    assert receive(telegram, json.dumps({"update_id": 1, "callback_query": press}).encode()).sent_at_ms is None
