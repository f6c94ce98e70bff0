"""Frames of Discord's Gateway, as the relay forwards and signs them, against their expectations."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.channels import standard_webhooks
from shared.channels.base import WebhookRequest
from shared.channels.discord.channel import DiscordChannel
from shared.channels.discord.settings import DiscordSettings
from shared.core.errors import ConfigInvalid, PayloadInvalid, SignatureInvalid
from tests.examples import examples
from tests.shared.channels.discord.test_receive import CASES, EVENTS, NOW
from tests.shared.channels.expected import seen

SECRET = "whsec_eGW35rnSQddE0zDuw7Og/k+dNq912WKR"
RELAYED = [case for case in CASES if "_relay_" in case["file"]]


@pytest.fixture(autouse=True)
def relay(environment, monkeypatch):
    monkeypatch.setenv("DISCORD_RELAY_SECRET", SECRET)


def relayed(body, webhook_id="gateway:session:41"):
    return WebhookRequest("POST", {}, standard_webhooks.sign(SECRET, webhook_id, body, now_ms=NOW), body)


def event_of(frame, **options):
    (event,) = DiscordChannel(DiscordSettings.load()).receive(relayed(json.dumps(frame).encode()), now_ms=NOW).events
    return event


def frame_of(name):
    return json.loads((EVENTS / name).read_bytes())


@pytest.mark.parametrize("case", RELAYED, ids=lambda case: case["file"])
def test_reads_a_recorded_frame(case):
    received = DiscordChannel(DiscordSettings.load()).receive(relayed((EVENTS / case["file"]).read_bytes()), now_ms=NOW)
    (event,) = received.events
    assert (received.reply.status, received.reply.body, received.not_taken) == (200, b"", None)
    expected = dict(case["expect"])
    if event.kind in case.get("or_kind", ()):
        expected = {"kind": event.kind}
    expected = {
        {"reactions_added": "added", "reactions_removed": "removed"}.get(name, name): value
        for name, value in expected.items()
    }
    actual = seen(event, "discord", ("added", "removed"))
    assert {name: actual[name] for name in expected} == expected
    json.dumps(event.context)


def test_there_are_frames_of_every_event_that_the_relay_forwards():
    assert {frame_of(case["file"])["t"] for case in RELAYED} >= {
        "MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE",
    }  # fmt: skip


def test_an_edit_has_both_its_dates():
    frame = frame_of("090_relay_update.json")
    event = event_of(frame)
    assert event.edited
    assert event.first_sent_at_ms == (int(frame["d"]["id"]) >> 22) + 1_420_070_400_000
    assert event.sent_at_ms == 1_795_168_860_000  # 2026-11-20T10:01:00Z


def test_a_link_preview_is_no_edit():
    event = event_of(frame_of("222_relay_update_preview.json"))
    assert (event.kind, event.reason) == ("ignore", "not_edited")


def test_a_resumed_session_repeats_events_under_the_same_keys_and_two_edits_have_two():
    create, edit = frame_of("080_relay_mention.json"), frame_of("090_relay_update.json")
    assert event_of(create).event_key == event_of({**create, "s": 999}).event_key
    later = {**edit, "d": {**edit["d"], "edited_timestamp": "2026-11-20T10:02:00.000000+00:00"}}
    assert len({event_of(each).event_key for each in (create, edit, later)}) == 3


def test_a_reaction_given_taken_back_and_given_again_is_three_events():
    reaction = json.dumps(frame_of("092_relay_reaction_add.json")).encode()
    adapter = DiscordChannel(DiscordSettings.load())
    keys = [adapter.receive(relayed(reaction, f"gateway:s:{n}"), now_ms=NOW).events[0].event_key for n in (1, 2, 1)]
    assert (keys[0] != keys[1], keys[0] == keys[2]) == (True, True)


def test_our_own_reaction_tells_nothing():
    frame = frame_of("092_relay_reaction_add.json")
    frame["d"]["user_id"] = "1290000000000000001"
    assert (event_of(frame).kind, event_of(frame).reason) == ("ignore", "from_bot")


@pytest.mark.parametrize(
    ("text", "mention"),
    [
        ("<@1290000000000000001> /clear", "<@1290000000000000001> "),
        ("<@!1290000000000000001>\n/clear", "<@!1290000000000000001>\n"),
        ("<@80000000000000002> /clear", ""),
        ("ask <@1290000000000000001>", ""),
    ],
)
def test_a_text_that_begins_with_the_bot_says_so(text, mention):
    frame = frame_of("080_relay_mention.json")
    frame["d"]["content"] = text
    assert event_of(frame).mention == mention


def test_the_user_of_an_old_application_has_another_id(monkeypatch):
    monkeypatch.setenv("DISCORD_BOT_TOKEN", "ODAwMDAwMDAwMDAwMDAwMDE.Example.Example")  # 80000000000000001
    frame = frame_of("080_relay_mention.json")
    frame["d"]["mentions"] = [{"id": "80000000000000001"}]
    assert event_of(frame).is_mention


def test_a_forwarded_message_is_read_as_somebody_elses():
    frame = frame_of("081_relay_dm.json")
    frame["d"] |= {
        "content": "",
        "message_reference": {"type": 1, "message_id": "7", "channel_id": "8"},
        "message_snapshots": [
            {"message": {"content": "look", "attachments": [{"url": "https://x/", "filename": "a"}]}}
        ],
    }
    event = event_of(frame)
    assert (event.text, len(event.attachments), event.reply_to) == ("look", 1, None)
    assert event.forwarded == {"sender_id": None, "is_self": False}


def test_a_frame_is_taken_only_from_the_relay(monkeypatch):
    body = (EVENTS / "081_relay_dm.json").read_bytes()
    request = relayed(body)
    adapter = DiscordChannel(DiscordSettings.load())
    with pytest.raises(SignatureInvalid):
        adapter.receive(WebhookRequest("POST", {}, request.headers, body + b" "), now_ms=NOW)
    monkeypatch.delenv("DISCORD_RELAY_SECRET")
    with pytest.raises(SignatureInvalid, match="DISCORD_RELAY_SECRET"):
        DiscordChannel(DiscordSettings.load()).receive(request, now_ms=NOW)


def test_the_relay_can_send_frames_alone():
    """Its secret does not let anybody press a button or use a command in another person's name."""
    body = (EVENTS / "011_slash_dm.json").read_bytes()
    with pytest.raises(PayloadInvalid, match="frame"):
        DiscordChannel(DiscordSettings.load()).receive(relayed(body), now_ms=NOW)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_short", "eGW35rnSQddE0zDuw7Og/k+dNq912WK"])
def test_an_invalid_secret_is_an_error_that_names_the_setting(monkeypatch, secret):
    monkeypatch.setenv("DISCORD_RELAY_SECRET", secret)
    with pytest.raises(ConfigInvalid, match="DISCORD_RELAY_SECRET"):
        DiscordSettings.load()


@examples(200)
@given(case=st.sampled_from(RELAYED), data=st.data())
def test_a_frame_with_one_value_replaced_raises_no_unexpected_error(case, data):
    frame = frame_of(case["file"])
    name = data.draw(st.sampled_from(sorted(frame["d"])))
    frame["d"][name] = data.draw(
        st.sampled_from([None, True, -1, 2**70, "", "x", [], {}, [None], {"id": 7}, [{"message": 1}]])
    )
    assert event_of(frame)


def test_a_mention_begins_a_thread_where_the_operator_wants_that(monkeypatch):
    assert event_of(frame_of("080_relay_mention.json")).thread_id is None
    monkeypatch.setenv("DISCORD_THREADS", "1")
    event = event_of(frame_of("080_relay_mention.json"))
    assert (event.platform_id, event.thread_id) == ("1290000000000000200", event.platform_message_id)
    assert event.context["makes_thread"] == "bo's question"
    in_thread = event_of(frame_of("223_relay_private_thread.json"))
    assert (in_thread.thread_id, "makes_thread" in in_thread.context) == ("1290000000000000310", False)
    for name in ("081_relay_dm.json", "098_relay_role_mention.json", "090_relay_update.json", "220_relay_delete.json"):
        assert event_of(frame_of(name)).thread_id is None, name


def test_the_name_of_a_thread_is_within_discords_limit_and_holds_no_text(monkeypatch):
    """A notice to a refused sender keeps the context, and must hold nothing of what that person wrote."""
    monkeypatch.setenv("DISCORD_THREADS", "1")
    frame = frame_of("080_relay_mention.json")
    frame["d"]["member"]["nick"] = "n" * 500
    name = event_of(frame).context["makes_thread"]
    assert len(name) <= 100
    assert "status" not in name
