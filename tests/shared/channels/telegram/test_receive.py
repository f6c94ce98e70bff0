"""``receive`` of the Telegram adapter: recorded updates against their expectations."""

import json

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from shared.channels.base import WebhookRequest
from shared.channels.telegram.channel import TelegramChannel, TelegramSettings
from shared.core.errors import ConfigInvalid, PayloadInvalid, SignatureInvalid
from tests.examples import examples
from tests.shared.channels.expected import replace_one_value, seen
from tests.shared.channels.telegram.receiving import (
    CASES,
    EVENTS,
    IN_CONTEXT,
    NOW,
    READ,
    SECRET,
    receive,
    request,
)


def of_kind(*kinds):
    chosen = [case for case in CASES if case["expect"]["kind"] in kinds and "account" not in case]
    assert chosen
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case["file"])


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
    replace_one_value(update, data)
    try:
        receive(TelegramChannel(TelegramSettings.load()), json.dumps(update).encode())
    except PayloadInvalid as error:
        assert str(error)  # noqa: PT017


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
