import pytest

from shared.channels.discord.channel import DiscordChannel
from shared.channels.discord.settings import DiscordSettings
from shared.channels.telegram.channel import TelegramChannel, TelegramSettings
from shared.conversation.access import cards
from shared.db.access.approvals import Approval
from tests.support import NOW

TELEGRAM = TelegramChannel(TelegramSettings(bot_token="1:a", webhook_secret="x"))
DISCORD = DiscordChannel(DiscordSettings(public_key="0" * 64, application_id="1", bot_token="a.b.c"))
RIGHT_TO_LEFT = "\u202e"


def asked(title="telegram 5 (Ana) wants to talk", **fields):
    values = {"id": 1, "approval_id": "approval_0000000a", "kind": "sender", "payload": {}, "title": title}
    values |= {"expires_at": NOW, "created_at": NOW, "updated_at": NOW, "status": "pending", **fields}
    return Approval(**{**dict.fromkeys(Approval._fields), **values})


def plain(markdown):
    """What a person sees of it on Telegram."""
    return "\n".join(part.text for part in TELEGRAM.render(markdown))


HOSTILE = [
    "*bold* _it_ `code` ~~gone~~ [link](http://evil) ![i](http://evil) <b>&amp;</b>",
    "# heading",
    "1. one",
    "- one",
    "> quoted",
    "``` fence",
    "| a | b |",
    "\\*",
    "@everyone <@5> <#6>",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_from_outside_is_shown_as_text(text):
    assert plain(cards.escape(text)) == text
    (part,) = TELEGRAM.render(cards.escape(text))
    assert part.html is not None
    assert not set("<>") & set(part.html.replace("&lt;", "").replace("&gt;", ""))


@pytest.mark.parametrize("text", ["plain", "` ``` ```` `", "a\n```\n**b**", "~~~"])
def test_text_can_not_end_its_code_block(text):
    for channel in (TELEGRAM, DISCORD):
        (part,) = channel.render(f"{cards.block(text)}\n\nours")
        assert part.text.endswith("ours")
    assert plain(cards.block(text) + "\n\nours") == f"{text}\n\nours"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\ntwo\r\n\tthree", "one two three"),
        (f"a{RIGHT_TO_LEFT}b", "a b"),
        ("zero\u200bwidth\u2028line", "zero width line"),
        ("x" * 12, "xxxxxxxxxx… (+2 characters)"),
        ("  ", ""),
    ],
)
def test_a_line_has_no_invisible_characters_and_says_what_is_cut(text, shown):
    assert cards.line(text, 10 if set(text) == {"x"} else 300) == shown


def test_every_argument_is_shown_on_its_own_line_with_nothing_invisible():
    given = {"name": "bob", "nested": {"a": [1, None, True]}, "text": f"a\tb{RIGHT_TO_LEFT}c", "ünï": "é"}
    assert cards.arguments(given).splitlines() == [
        '"name": "bob"',
        '"nested": {"a": [1, null, true]}',
        '"text": "a\\tb\\u202ec"',
        '"ünï": "é"',
    ]


def test_the_card_cuts_long_arguments_and_says_where_to_read_them():
    short = asked(payload={"arguments": {"a": 1}})
    assert "cut" not in cards.question(short)
    long = asked(payload={"arguments": {"a" * 70: "x" * 20_700, "last": 1}})
    text = plain(cards.question(long))
    assert "(+702 characters)" in text
    assert "(+12 characters)" in text
    assert '"last": 1' in text
    assert "emulator approvals show approval_0000000a" in text


def test_a_text_of_several_lines_is_shown_as_such_and_every_character_of_it_can_be_told():
    given = {"content": f"# A\n\\u202e{RIGHT_TO_LEFT}\n```"}
    assert cards.arguments(given).splitlines() == ['"content": ', "  | # A", "  | \\\\u202e\\u202e", "  | ```"]


@pytest.mark.parametrize("count", [1, 60])
def test_a_card_shows_the_last_argument_as_well_as_the_first(count):
    given = {f"argument{number}": "`" * 200 for number in range(count)}
    text = plain(cards.question(asked(payload={"arguments": given})))
    assert all(f'"argument{number}"' in text for number in range(count))


def test_held_text_is_quoted_and_cut():
    text = plain(cards.question(asked(), ["```\n**Approved by Bo**" + "x" * 300, "more", "again"]))
    assert "They wrote (and 2 more):" in text
    assert "``` **Approved by Bo**xxx" in text
    assert "more\n" not in text
    assert "They wrote" not in cards.question(asked(), [""])


def test_a_card_names_its_approval_and_its_expiry():
    assert plain(cards.question(asked())).splitlines()[-1] == "Until 15 Jan 2027 08:00 UTC. approval_0000000a"


def test_a_name_can_not_forge_the_outcome():
    text = cards.closed(asked(title="**x**"), "Refused by telegram 1 (*Bo*\n)")
    assert plain(text) == "**x**\n\nRefused by telegram 1 (*Bo* )"
