"""Reactions, typing, drafts, downloads and the registration, against a function that plays Telegram."""

import asyncio
import json

import httpx
import pytest
import tdjson
from hypothesis import given
from hypothesis import strategies as st

from shared.channels import registry
from shared.channels.telegram import reactions, rendering, webhooks
from shared.channels.telegram.channel import TelegramChannel, TelegramSettings
from shared.core.errors import (
    ConfigInvalid,
    NotFetched,
    NotPossible,
    NotSent,
    OutcomeUnknown,
    PermanentError,
    PlatformDown,
    PostroomError,
    RateLimited,
    RetryableError,
    TokenRefused,
)
from shared.runtime.http_client import NoAnswer, RequestNotSent
from tests.examples import examples
from tests.fake_client import FakeClient
from tests.shared.channels.telegram.sending import NOW, Platform, outgoing, refusal

TOKEN = "7100200300:AAExampleExampleExampleExampleExample"
DONE = {"ok": True, "result": True}


# -- reactions --------------------------------------------------------------------------------------------------------


def react(adapter, emoji, platform, **changes):
    asyncio.run(adapter.react(emoji, "42", outgoing(**changes), FakeClient(platform)))


def test_a_reaction_is_set_and_taken_back(telegram):
    platform = Platform(DONE)
    react(telegram, "👀", platform, platform_id="-100")
    react(telegram, None, platform, platform_id="-100")
    usual = {"chat_id": -100, "message_id": 42}
    assert platform.calls == [
        ("setMessageReaction", {**usual, "reaction": [{"type": "emoji", "emoji": "👀"}]}),
        ("setMessageReaction", {**usual, "reaction": []}),
    ]


@pytest.mark.parametrize(
    ("emoji", "given"),
    [
        ("👍🏽", "👍"),
        ("❤️", "❤"),
        ("✅", "👍"),
        ("❌", "👎"),
        ("😂", "🤣"),
        ("⏳", "👀"),
        ("🚀", "🔥"),
        ("🤷🏻‍♂️", "🤷‍♂"),
        ("custom:5368324170671202286", "custom:5368324170671202286"),
    ],
)
def test_an_emoji_that_bots_cannot_give_becomes_the_nearest(emoji, given):
    assert reactions.nearest(emoji) == given


def test_every_nearest_reaction_is_one_that_telegram_takes():
    assert len(set(reactions.ALLOWED)) == 73
    others = [other for mind in reactions._MINDS for other in mind]
    assert {*reactions._LIKE.values(), *others} <= set(reactions.ALLOWED)
    assert not set(reactions._LIKE) & set(reactions.ALLOWED)


@pytest.mark.parametrize("emoji", ["🥑", "", "not an emoji", "custom:x"])
def test_an_emoji_that_is_near_to_none_is_refused_with_its_name(telegram, emoji):
    platform = Platform(DONE)
    with pytest.raises(PermanentError, match="Telegram allows no reaction that is near"):
        react(telegram, emoji, platform)
    assert platform.calls == []


def chat_with(*emoji):
    return {"ok": True, "result": {"id": -100, "available_reactions": [{"type": "emoji", "emoji": e} for e in emoji]}}


def test_a_chat_that_forbids_a_reaction_gets_the_nearest_that_it_allows(telegram):
    platform = Platform(refusal("Bad Request: REACTION_INVALID"), chat_with("👎", "🔥", "😢"), DONE)
    react(telegram, "✅", platform, platform_id="-100")
    assert [(called, body.get("reaction")) for called, body in platform.calls] == [
        ("setMessageReaction", [{"type": "emoji", "emoji": "👍"}]),
        ("getChat", None),
        ("setMessageReaction", [{"type": "emoji", "emoji": "🔥"}]),
    ]


@pytest.mark.parametrize("allowed", [(), ("👎", "😢")])
def test_a_chat_that_allows_nothing_near_is_told(telegram, allowed):
    platform = Platform(refusal("Bad Request: REACTION_INVALID"), chat_with(*allowed))
    with pytest.raises(PermanentError, match="this chat allows no reaction that is near to '👍'"):
        react(telegram, "👍", platform, platform_id="-100")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal("Bad Request: message to react not found"), PermanentError),
        (refusal("Bad Request: MESSAGE_ID_INVALID"), PermanentError),
        (refusal("Too Many Requests", 429, retry_after=3), RateLimited),
        (refusal("Unauthorized", 401), TokenRefused),
        (httpx.Response(502), PlatformDown),
        (NoAnswer("ReadTimeout"), OutcomeUnknown),
        (RequestNotSent("ConnectError"), NotSent),
    ],
)
def test_each_failure_of_a_reaction_has_its_error(telegram, answer, error):
    with pytest.raises(error) as caught:
        react(telegram, "👍", Platform(answer))
    assert type(caught.value) is error
    if error is OutcomeUnknown:
        assert caught.value.is_repeatable, "the same reaction again does no harm"


# -- typing and drafts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("thread", "topic"), [(None, {}), ("17", {"message_thread_id": 17}), ("1", {})])
def test_typing_is_shown_in_the_topic(telegram, thread, topic):
    platform = Platform(DONE)
    asyncio.run(telegram.typing(outgoing(platform_id="-100", thread_id=thread), FakeClient(platform)))
    assert platform.calls == [("sendChatAction", {"chat_id": -100, "action": "typing", **topic})]


@pytest.mark.parametrize("changes", [{"thread_id": "dm:9"}, {"context": {"receiver_user_id": "6"}}])
def test_typing_is_not_shown_where_others_would_see_it_or_telegram_cannot(telegram, changes):
    platform = Platform(DONE)
    with pytest.raises(NotPossible):
        asyncio.run(telegram.typing(outgoing(platform_id="-100", **changes), FakeClient(platform)))
    assert platform.calls == []


def draft(adapter, text, platform, **changes):
    asyncio.run(adapter.draft(text, 31337, outgoing(**changes), FakeClient(platform)))


def test_a_draft_has_a_button_that_stops_the_turn(telegram):
    platform = Platform(DONE)
    draft(telegram, "so **far", platform, thread_id="4242")
    assert platform.calls == [
        (
            "sendMessageDraft",
            {
                "chat_id": 5000000001,
                "draft_id": 31337,
                "can_stop": True,
                "message_thread_id": 4242,
                "text": "so **far",
                "parse_mode": "HTML",
            },
        )
    ]


def test_a_draft_without_words_is_telegrams_own_placeholder(telegram):
    platform = Platform(DONE)
    draft(telegram, "", platform)
    assert platform.calls[0][1]["text"] == ""


def test_a_draft_shows_the_end_of_a_long_answer():
    text = "\n\n".join(f"paragraph {number}" for number in range(3000))
    part = rendering.draft_of(text)
    assert part.text.endswith("paragraph 2999")
    assert len(part.text) <= rendering.PART_UNITS


def test_a_draft_whose_markup_is_refused_is_plain(telegram):
    platform = Platform(refusal("Bad Request: can't parse entities: x"), DONE)
    draft(telegram, "**x**", platform)
    assert (platform.calls[1][1]["text"], "parse_mode" in platform.calls[1][1]) == ("x", False)


def test_a_group_has_no_drafts(telegram):
    platform = Platform(DONE)
    with pytest.raises(NotPossible, match="direct chats"):
        draft(telegram, "x", platform, platform_id="-100")
    assert platform.calls == []


def execute(**request):
    return json.loads(tdjson.td_execute(json.dumps(request).encode()))


@examples(200)
@given(
    st.lists(
        st.sampled_from(
            ["**b", "*i*", "`c", "```py\n", "[l](http", "[x](https://e.org)", "<b>", "> q", "\n\n", "a ", "é😀"]
        ),
        max_size=12,
    ).map("".join)
)
def test_a_text_that_ends_anywhere_is_a_draft_that_telegram_accepts(text):
    part = rendering.draft_of(text)
    if part is not None:
        mode = {"@type": "textParseModeHTML"}
        read = execute(**{"@type": "parseTextEntities", "text": part.html, "parse_mode": mode})
        assert read["@type"] == "formattedText"


# -- files in ---------------------------------------------------------------------------------------------------------

PHOTO = {"kind": "photo", "file_id": "AgAC", "size": 5}
MIB = 1 << 20


def fetch(adapter, platform, attachment=PHOTO, limit=20 * MIB):
    return asyncio.run(adapter.fetch(attachment, FakeClient(platform), limit_bytes=limit))


def at(path="photos/file_1.jpg", **facts):
    return {"ok": True, "result": {"file_id": "AgAC", "file_unique_id": "x", "file_path": path, **facts}}


def test_a_file_is_asked_for_and_then_downloaded(telegram):
    platform = Platform(at(file_size=5), httpx.Response(200, content=b"12345"))
    assert fetch(telegram, platform) == b"12345"
    assert platform.calls[0] == ("getFile", {"file_id": "AgAC"})
    assert platform.urls[1] == f"http://127.0.0.1:1/file/bot{TOKEN}/photos/file_1.jpg"


def test_the_path_of_a_file_stays_a_path(telegram):
    platform = Platform(at("documents/a b?x#y.pdf"), httpx.Response(200, content=b"1"))
    fetch(telegram, platform, {"kind": "document", "file_id": "B"})
    assert platform.urls[1].endswith("/documents/a%20b%3Fx%23y.pdf")


CANNOT = {
    "too large, by the message": ({**PHOTO, "size": 20 * MIB + 1}, [], "it is larger than 20 MiB"),
    "too large for us": ({**PHOTO, "size": 3 * MIB}, [], "it is larger than 2 MiB"),
    "without an id": ({"kind": "photo"}, [], "no id"),
    "too large, by Telegram": (
        {"file_id": "A"},
        [refusal("Bad Request: file is too big")],
        "it is larger than 2 MiB",
    ),
    "gone": (
        PHOTO,
        [refusal("Bad Request: wrong file_id or the file is temporarily unavailable")],
        "no longer has it",
    ),
    "without a path": (PHOTO, [{"ok": True, "result": {"file_id": "AgAC"}}], "does not say where"),
    "on another disk": (PHOTO, [at("/var/lib/telegram/x.jpg")], "without --local"),
    "outside the folder": (PHOTO, [at("../../bot1:X/getMe")], "odd path"),
    "longer than promised": (PHOTO, [at(file_size=5), httpx.Response(200, content=b"123456")], "than the platform had"),
    "longer than the limit": (
        {"file_id": "A"},
        [at(), httpx.Response(200, content=b"x" * (2 * MIB + 1))],
        "it is larger than 2 MiB",
    ),
    "elsewhere": (PHOTO, [at(), httpx.Response(302, headers={"location": "http://10.0.0.1/"})], "no longer there"),
}


@pytest.mark.parametrize(("attachment", "answers", "why"), CANNOT.values(), ids=CANNOT)
def test_a_file_that_cannot_be_had_is_told_in_plain_words(telegram, attachment, answers, why):
    platform = Platform(*(answers or [DONE]))
    with pytest.raises(NotFetched, match=why) as caught:
        fetch(telegram, platform, attachment, limit=20 * MIB if "20 MiB" in why else 2 * MIB)
    assert "AAEx" not in repr(caught.value)
    assert len(platform.calls) == len(answers)


@pytest.mark.parametrize(
    "answers",
    [
        [refusal("Too Many Requests", 429, retry_after=3)],
        [httpx.Response(502)],
        [NoAnswer("ReadTimeout")],
        [RequestNotSent("ConnectError")],
        [at(), httpx.Response(503)],
        [at(), NoAnswer("ReadTimeout")],
    ],
)
def test_a_file_that_cannot_be_had_now_is_asked_for_again(telegram, answers):
    with pytest.raises(RetryableError) as caught:
        fetch(telegram, Platform(*answers))
    assert "AAEx" not in repr(caught.value)


# -- the registration -------------------------------------------------------------------------------------------------

OURS = "https://bot.example.org/webhooks/telegram"
INFO = {"url": OURS, "pending_update_count": 3, "allowed_updates": list(webhooks.UPDATES)}


def registered(monkeypatch, ours=OURS, **info):
    monkeypatch.setenv("TELEGRAM_WEBHOOK_URL", ours)
    adapter = TelegramChannel(TelegramSettings.load())
    platform = Platform({"ok": True, "result": {**INFO, **info}})
    found = asyncio.run(adapter.registration(FakeClient(platform)))
    assert platform.calls == [("getWebhookInfo", {})]
    return found


def test_what_is_registered_is_ours_and_whole(monkeypatch):
    found = registered(monkeypatch, last_error_date=1_795_168_000, last_error_message="Connection refused")
    assert (found.is_ours, found.url, found.backlog, found.missing) == (True, OURS, 3, ())
    assert (found.last_error, found.last_error_at_ms) == ("Connection refused", NOW)


@pytest.mark.parametrize(
    ("info", "is_ours", "url"),
    [
        ({"url": ""}, False, None),
        ({"url": "https://other.example.org/x"}, False, "https://other.example.org/x"),
        ({"url": "https://a:b@other.example.org/x?token=SECRET#y"}, False, "https://other.example.org/x"),
        ({"url": f"https://other.example.org/{TOKEN}"}, False, "https://other.example.org/…"),
        ({"url": "https://[x"}, False, None),
    ],
)
def test_another_registration_is_named_without_its_secrets(monkeypatch, info, is_ours, url):
    found = registered(monkeypatch, **info)
    assert found.is_ours is is_ours
    assert found.url == url or (url and url.endswith("…") and "AAEx" not in found.url)


def test_without_an_address_of_our_own_nothing_is_compared(monkeypatch):
    assert registered(monkeypatch, ours="").is_ours is None


@pytest.mark.parametrize(
    ("allowed", "missing"),
    [
        (None, ("message_reaction",)),
        ([], ("message_reaction",)),
        (["message", "callback_query"], tuple(set(webhooks.UPDATES) - {"message", "callback_query"})),
        ([*webhooks.UPDATES, "poll"], ()),
    ],
)
def test_the_kinds_of_updates_that_are_missing(monkeypatch, allowed, missing):
    """An absent list is Telegram's default, which has no reactions."""
    info = {"allowed_updates": allowed}
    assert set(registered(monkeypatch, **info).missing) == set(missing)


def test_an_address_of_our_own_is_a_whole_one(monkeypatch):
    monkeypatch.setenv("TELEGRAM_WEBHOOK_URL", "bot.example.org")
    with pytest.raises(ConfigInvalid, match="TELEGRAM_WEBHOOK_URL"):
        TelegramSettings.load()


@pytest.mark.parametrize("status", [401, 429, 500])
def test_a_registration_that_cannot_be_asked_for_is_an_error(telegram, status):
    with pytest.raises(TokenRefused if status == 401 else PostroomError):
        asyncio.run(telegram.registration(FakeClient(Platform(httpx.Response(status)))))


def test_the_abilities_are_known_without_settings():
    traits = registry.traits("telegram")
    assert (traits.has_edits, traits.has_reactions, traits.reactions) == (True, True, reactions.ALLOWED)
    assert (traits.typing_every_ms, traits.fetch_bytes, traits.files.most_in_album) == (4000, 20 * MIB, 10)
    assert traits.files.most("photo") == traits.files.most_bytes == 50_000_000
