"""Edits, deletions and reactions that the relay forwards from Discord, as recorded."""

import json
from pathlib import Path

import pytest

from shared.channels.discord import gateway_frames
from shared.db.engine.connection import rows
from tests.shared.conversation.inbound.test_events import take
from tests.shared.conversation.routing.router.kit import make_chat, wire
from tests.support import column

FRAMES = Path(__file__).parents[3] / "events" / "discord"
AT = 1_795_168_010_000  # seconds after the recorded message
BOT = ("1290000000000000001",)


def frame(file, **changes):
    """The event of a recorded frame. *changes*: of its data."""
    recorded = json.loads((FRAMES / file).read_text())
    data = {**recorded["d"], **changes}
    key = f"{recorded['t']}:{recorded['s']}:{sorted(changes)}"
    return gateway_frames.event_of(recorded["t"], data, recorded.get("x_parent_id"), key, BOT)


@pytest.fixture
def message(conn):
    """A recorded direct message that waits for its turn."""
    sent = frame("081_relay_dm.json")
    chat = make_chat(conn, sent.platform_id, channel="discord")
    wire(conn, chat)
    assert take(conn, sent, channel="discord", at=AT).stored == 1
    return sent


def test_a_deletion_cancels_what_waits(conn, message):
    gone = frame("220_relay_delete.json", id=message.platform_message_id, channel_id=message.platform_id)
    assert take(conn, gone, channel="discord", at=AT).changed == 1
    assert column(conn, "SELECT status FROM messages") == ["cancelled"]


def test_an_edit_replaces_what_waits_and_the_preview_of_a_link_does_nothing(conn, message):
    same = {"id": message.platform_message_id, "channel_id": message.platform_id, "guild_id": None}
    author = json.loads((FRAMES / "081_relay_dm.json").read_text())["d"]["author"]
    edit = frame("090_relay_update.json", **same, author=author, content="other words")
    assert edit.first_sent_at_ms == message.sent_at_ms
    assert take(conn, edit, channel="discord", at=AT).changed == 1
    take(conn, frame("222_relay_update_preview.json", **same, author=author), channel="discord", at=AT)
    assert rows(conn, "SELECT message, trigger, status FROM messages") == [("other words", 1, "pending")]


def test_a_reaction_is_context(conn, message):
    thumb = frame(
        "221_relay_reaction_dm.json", message_id=message.platform_message_id, channel_id=message.platform_id,
        user_id=message.sender_id,
    )  # fmt: skip
    assert take(conn, thumb, channel="discord", at=AT).stored == 1
    (said,) = column(conn, "SELECT message FROM messages WHERE trigger = 0")
    assert said.startswith("(reacted with ")
