"""``receive`` of the Discord adapter: recorded interactions and webhook events against their expectations."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import SigningKey

from shared.channels.base import WebhookRequest
from shared.channels.discord.channel import DiscordChannel
from shared.channels.discord.settings import DiscordSettings
from shared.core import chance
from shared.core.errors import ConfigInvalid, PayloadInvalid, SignatureInvalid
from tests.examples import examples
from tests.shared.channels.expected import replace_one_value, seen

EVENTS = Path(__file__).parents[3] / "events" / "discord"
CASES = json.loads((EVENTS / "expected.json").read_text())["cases"]
SIGNATURES = json.loads((EVENTS / "signatures.json").read_text())
VECTORS = {vector["file"].removeprefix("discord/"): vector for vector in SIGNATURES["vectors"]}
KEY = SigningKey(bytes.fromhex(SIGNATURES["test_private_seed"]))
NOW = 1_795_168_000_000
IN_CONTEXT = ("options", "target_user_id", "focused", "value", "values", "fields", "custom_id", "status", "guild_id")

RELAYED = tuple(case["file"] for case in CASES if "_relay_" in case["file"])
# The table expects "thinking" (5) for every command. Nothing follows "thinking" where no agent is asked. So these get
# an immediate answer (4) that only the sender sees, as the text of 027 says.
TOLD_AT_ONCE = (
    "014_slash_subcommand_group.json", "015_slash_all_option_types.json", "023_slash_no_options.json",
    "027_slash_unknown_command.json",
)  # fmt: skip
# A command on a person says nothing yet: it opens a form (9), and what is written there asks the agent.
OPENS_A_FORM = ("032_user_command.json", "213_user_command_group_dm.json")


def signed(body, timestamp="1795168000", key=KEY):
    signature = key.sign(timestamp.encode() + body).signature.hex()
    return WebhookRequest("POST", {}, {"x-signature-ed25519": signature, "x-signature-timestamp": timestamp}, body)


def recorded(name):
    """The recorded request, with the signature from the vectors."""
    vector = VECTORS[name]
    headers = {"x-signature-ed25519": vector["signature"], "x-signature-timestamp": vector["timestamp"]}
    return WebhookRequest("POST", {}, headers, (EVENTS / name).read_bytes())


def cases(*kinds):
    chosen = [case for case in CASES if case["expect"]["kind"] in kinds and case["file"] not in RELAYED]
    assert chosen
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case["file"])


@cases("any")
def test_half_a_character_costs_itself_and_not_the_command(discord, case):
    (event,) = discord.receive(recorded(case["file"]), now_ms=NOW).events
    assert (event.text, event.command) == ("h\ufffdllo", "ask")


READ = ("command", "callback", "autocomplete", "modal", "membership", "ignore")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("015_slash_all_option_types.json", "general"),
        ("012_slash_user_install_group_dm.json", "trio"),
        ("017_slash_in_thread.json", ""),  # the thread's name is not the channel's name
        ("024_slash_minimal_legacy.json", ""),
        ("011_slash_dm.json", ""),
    ],
)
def test_a_group_event_carries_the_group_name(discord, file, name):
    (event,) = discord.receive(recorded(file), now_ms=NOW).events
    assert event.chat_name == name


@cases(*READ)
def test_reads_a_recorded_interaction(discord, case):
    received = discord.receive(recorded(case["file"]), now_ms=NOW)

    (event,) = received.events
    expected = dict(case["expect"])
    reply = json.loads(received.reply.body) if received.reply.body else None
    told_at_once = case["file"] in TOLD_AT_ONCE
    if "respond" in expected:
        respond = expected.pop("respond")
        instead = {**dict.fromkeys(TOLD_AT_ONCE, 4), **dict.fromkeys(OPENS_A_FORM, 9)}
        assert reply == respond or reply["type"] == instead[case["file"]]
        assert received.reply.content_type == "application/json"
    if "respond_type" in expected:
        assert reply["type"] == expected.pop("respond_type")
    expected.pop("duplicate_of", None)
    actual = seen(event, "discord", IN_CONTEXT)
    assert {name: actual[name] for name in expected} == expected
    asks = event.kind == "modal" or (event.kind == "command" and event.command in ("ask", "Ask Aurora"))
    assert event.asks_for_a_turn == asks
    assert received.is_answered == (case["file"] in OPENS_A_FORM)
    assert (received.suggest is not None) == (event.kind == "autocomplete")
    assert event.asks_for_a_turn or event.kind == "membership" or event.reason
    assert (received.not_taken is not None) == event.asks_for_a_turn
    if event.asks_for_a_turn:  # "thinking" would stay forever where routing finds no agent
        refusal = json.loads(received.not_taken.body)
        assert (refusal["type"], refusal["data"]["flags"]) == (4, 64)
    if told_at_once:
        assert reply["data"]["flags"] == 64
        assert reply["data"]["allowed_mentions"] == {"parse": [], "replied_user": False}
        assert "/ask" in reply["data"]["content"]


@cases("ping")
def test_answers_a_ping(discord, case):
    received = discord.receive(recorded(case["file"]), now_ms=NOW)
    assert received.events == ()
    if "respond" in case["expect"]:
        assert (received.reply.status, json.loads(received.reply.body)) == (200, case["expect"]["respond"])
        assert received.reply.content_type == "application/json"
    else:
        assert (received.reply.status, received.reply.body) == (case["expect"]["respond_status"], b"")


@cases("reject")
def test_an_unreadable_signed_body_is_refused_with_a_reason(discord, case):
    with pytest.raises(PayloadInvalid, match=r"."):
        discord.receive(recorded(case["file"]), now_ms=NOW)


@pytest.mark.parametrize("name", RELAYED)
def test_a_gateway_frame_that_the_relay_did_not_sign_is_ignored(discord, name):
    (event,) = discord.receive(recorded(name), now_ms=NOW).events
    assert (event.kind, event.reason) == ("ignore", "relay")


def test_every_recorded_body_is_tested():
    kinds = {*READ, "ping", "reject", "any"}
    assert {case["expect"]["kind"] for case in CASES if case["file"] not in RELAYED} <= kinds
    recorded_files = {path.name for path in EVENTS.iterdir()} - {"expected.json", "signatures.json"}
    assert {case["file"] for case in CASES} == recorded_files == set(VECTORS)
    assert set(TOLD_AT_ONCE) | set(OPENS_A_FORM) <= recorded_files


def test_a_redelivery_has_the_same_key(discord):
    keys = {
        discord.receive(recorded(name), now_ms=NOW).events[0].event_key
        for name in ("067_duplicate_a.json", "068_duplicate_b.json")
    }
    assert keys == {"1573273367614586945"}


def test_the_interaction_token_is_stored_encrypted(discord, monkeypatch):
    """A token lets its holder write as the bot for 15 minutes, so a copy of the database must not hold one."""
    body = (EVENTS / "011_slash_dm.json").read_bytes()
    token = json.loads(body)["token"]
    (event,) = discord.receive(signed(body), now_ms=NOW).events
    assert token not in repr(event)
    json.dumps(event.context)
    assert discord.unseal(event.context["sealed_token"]) == token

    monkeypatch.setenv("DISCORD_BOT_TOKEN", "another")
    assert DiscordChannel(DiscordSettings.load()).unseal(event.context["sealed_token"]) is None


def test_a_seal_draws_from_the_one_source_of_chance(discord, monkeypatch):
    monkeypatch.setattr(chance, "_draw", chance._draw)
    seals = []
    for seed in (1, 1, 2):
        chance.draw_from(random.Random(seed).randbytes)
        seals.append(discord.seal("token"))
    assert seals[0] == seals[1] != seals[2]


@pytest.mark.parametrize("sealed", [None, "", "!", "AAAA", "é", 7, ["x"]])
def test_an_invalid_sealed_token_is_no_token(discord, sealed):
    assert discord.unseal(sealed) is None


# -- signatures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", SIGNATURES["vectors"], ids=lambda vector: vector["file"])
def test_signature_vectors(discord, vector):
    request = recorded(vector["file"].removeprefix("discord/"))
    assert vector["valid"]
    try:
        discord.receive(request, now_ms=NOW)
    except PayloadInvalid:
        assert "raw" in vector["file"]


@examples(300)
@given(
    name=st.sampled_from(sorted(VECTORS)),
    which=st.sampled_from(["body", "timestamp", "signature"]),
    at=st.integers(0, 10**6),
    flip=st.integers(1, 255),
)
def test_any_mutated_byte_is_refused(name, which, at, flip):
    request = recorded(name)
    body, headers = request.body, dict(request.headers)
    if which == "body":
        changed = bytearray(body or b"\0")
        changed[at % len(changed)] ^= flip
        body = bytes(changed)
    elif which == "timestamp":
        changed = bytearray(headers["x-signature-timestamp"].encode())
        changed[at % len(changed)] ^= flip
        headers["x-signature-timestamp"] = changed.decode("latin-1")
    else:
        changed = bytearray(bytes.fromhex(headers["x-signature-ed25519"]))
        changed[at % len(changed)] ^= flip
        headers["x-signature-ed25519"] = changed.hex()
    with pytest.raises(SignatureInvalid):
        DiscordChannel(DiscordSettings.load()).receive(WebhookRequest("POST", {}, headers, body), now_ms=NOW)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x-signature-ed25519", None),
        ("x-signature-ed25519", ""),
        ("x-signature-ed25519", "zz" * 64),
        ("x-signature-ed25519", "00" * 63),
        ("x-signature-ed25519", "00" * 65),
        ("x-signature-ed25519", "0 " * 64),
        ("x-signature-ed25519", "\u0660" * 128),
        ("x-signature-timestamp", None),
        ("x-signature-timestamp", ""),
        ("x-signature-timestamp", "١٧٩٥١٦٨٠٠٠"),
        ("x-signature-timestamp", "1795168000\n"),
        ("x-signature-timestamp", "-1795168000"),
        ("x-signature-timestamp", "9" * 5000),
    ],
)
def test_malformed_headers_are_refused(discord, header, value):
    request = recorded("001_ping.json")
    headers = {**request.headers, header: value}
    if value is None:
        del headers[header]
    with pytest.raises(SignatureInvalid):
        discord.receive(WebhookRequest("POST", {}, headers, request.body), now_ms=NOW)


def test_another_key_is_refused(discord):
    with pytest.raises(SignatureInvalid):
        discord.receive(signed(b'{"type":1}', key=SigningKey.generate()), now_ms=NOW)


@pytest.mark.parametrize(
    ("drift_ms", "is_fresh"), [(300_000, True), (300_001, False), (-300_000, True), (-300_001, False)]
)
def test_a_captured_request_cannot_be_replayed_later(discord, drift_ms, is_fresh):
    request = recorded("001_ping.json")
    if is_fresh:
        assert discord.receive(request, now_ms=NOW + drift_ms).reply.status == 200
    else:
        with pytest.raises(SignatureInvalid, match="clock"):
            discord.receive(request, now_ms=NOW + drift_ms)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["id", "type", "token", "data", "name", "options", "value", "member", "user", "event",
                         "resolved", "messages", "components", "component", "custom_id", "message", "t", "op"]), inner),
)  # fmt: skip


@examples(300)
@given(body=st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_a_signed_random_body_is_refused_or_ignored(body):
    try:
        DiscordChannel(DiscordSettings.load()).receive(signed(body), now_ms=NOW)
    except PayloadInvalid as error:
        assert str(error)  # noqa: PT017


@examples(300)
@given(case=st.sampled_from([case for case in CASES if case["file"].endswith(".json")]), data=st.data())
def test_a_recorded_body_with_one_value_replaced_raises_no_unexpected_error(case, data):
    body = json.loads((EVENTS / case["file"]).read_bytes())
    replace_one_value(body, data)
    try:
        received = DiscordChannel(DiscordSettings.load()).receive(signed(json.dumps(body).encode()), now_ms=NOW)
    except PayloadInvalid as error:
        assert str(error)  # noqa: PT017
    else:
        json.dumps([event.context for event in received.events])


@pytest.mark.parametrize("name", ["DISCORD_PUBLIC_KEY", "DISCORD_APPLICATION_ID", "DISCORD_BOT_TOKEN"])
@pytest.mark.parametrize("value", [None, "", "not it!"])
def test_a_missing_setting_is_an_error_that_names_it(monkeypatch, name, value):
    monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
    with pytest.raises(ConfigInvalid, match=name) as caught:
        DiscordSettings.load()
    assert not value or value not in str(caught.value)


@pytest.mark.parametrize("name", ["040_button.json", "042_button_thread.json", "043_button_on_ephemeral.json"])
def test_a_press_carries_the_message_with_the_button_and_the_context_to_answer_it(discord, name):
    pressed = json.loads((EVENTS / name).read_bytes())
    (event,) = discord.receive(recorded(name), now_ms=NOW).events
    assert event.context["message_id"] == pressed["message"]["id"]
    assert discord.unseal(event.context["sealed_token"]) == pressed["token"]


def test_an_interaction_has_the_date_that_its_id_says(discord):
    (event,) = discord.receive(recorded("067_duplicate_a.json"), now_ms=NOW).events
    assert event.sent_at_ms == (1573273367614586945 >> 22) + 1_420_070_400_000
