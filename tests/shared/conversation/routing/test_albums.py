import random

from shared.conversation.routing import albums
from tests.shared.conversation.routing.router.kit import event


def piece(number, text="", **fields):
    return event(text, event_key=f"e{number}", platform_message_id=str(number), group_key="g", **fields)


def test_pieces_are_joined_in_the_order_of_their_numbers():
    """As numbers: 9 is before 10."""
    pieces = [piece(number, f"t{number}", attachments=({"kind": "photo", "file_id": number},)) for number in (8, 9, 10)]
    for _ in range(5):
        random.Random(1).shuffle(pieces)
        joined = albums.join(pieces)
        assert (joined.text, joined.platform_message_id, joined.event_key) == ("t8\nt9\nt10", "8", "e8")
        assert [each["file_id"] for each in joined.attachments] == [8, 9, 10]
        assert [each["text"] for each in joined.pieces] == ["t8", "t9", "t10"]
        assert joined.group_key is None


def test_a_command_counts_where_it_begins_the_words():
    of_command = {"kind": "command", "command": "ask", "command_args": "now", "mention": "@bot "}
    joined = albums.join([piece(1), piece(2, "@bot /ask now", **of_command), piece(3, "more")])
    assert (joined.kind, joined.command, joined.command_args, joined.mention) == ("command", "ask", "now", "@bot ")
    joined = albums.join([piece(1, "more"), piece(2, "/ask now", **of_command)])
    assert (joined.kind, joined.command) == ("message", None)


def test_the_bot_is_meant_if_one_piece_says_so():
    aside = {"is_mention": False, "is_group": True}
    assert albums.join([piece(1, **aside), piece(2, is_group=True)]).is_mention
    assert not albums.join([piece(1, **aside), piece(2, **aside)]).is_mention
    assert albums.join([piece(1, **aside)], is_mention=True).is_mention


def test_a_reply_or_a_forward_of_one_piece_counts_for_all():
    quoted, origin = {"text": "before"}, {"sender_id": "7", "is_self": False}
    joined = albums.join([piece(1), piece(2, reply_to=quoted, forwarded=origin)])
    assert (joined.reply_to, joined.forwarded) == (quoted, origin)
