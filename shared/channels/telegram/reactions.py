"""The reactions that a bot can give on Telegram, and the nearest of them to any other emoji. Pure.

Source: https://core.telegram.org/bots/api (10.3): #reactiontypeemoji, #reactiontypecustomemoji, #chatfullinfo.
"""

import re
from collections.abc import Sequence
from typing import Any

from shared.channels import sanitize
from shared.core.errors import PermanentError

_ALLOWED = """
    ❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥
    🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨
    🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡
"""
ALLOWED = tuple(_ALLOWED.split())
_CUSTOM = re.compile(r"custom:[0-9]{1,20}")
_NO_MEANING = re.compile("[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")  # how it is drawn, and the colour of a skin

# An emoji that bots can't give, before the one that says nearly the same.
_LIKE: dict[str, str] = {
    other: allowed
    for allowed, others in {
        "👍": "✅ ☑ ✔ 🆗 👊 🤙 💪 🟢 ⬆",
        "👎": "❌ ✖ ❎ 🚫 ⛔ 🛑 🔴 ⬇ 🙅 🙅‍♂ 🙅‍♀",
        "❤": "🧡 💛 💚 💙 💜 🖤 🤍 🤎 💕 💖 💗 💓 💞 💝 ♥ 🫶 🩷 🩵 🩶",
        "😁": "😀 😃 😄 😆 😊 🙂 ☺ 😅 😉 😋 😺 😸",
        "🤣": "😂 😹",
        "🥰": "😻",
        "😢": "😞 😔 🙁 ☹ 😟 😥 😿 🥺 😓 😪 😣 😖 😩 😫",
        "😭": "😿",
        "😡": "😠 😤 💢 👿",
        "🤬": "🗯",
        "😱": "😲 😮 😯 😳 🙀",
        "😨": "😰 😧 😦 ⚠ ❗ ‼ 🚨",
        "🤔": "❓ ❔ 🧐 💭 😕 🫤",
        "👀": "👁 🔍 🔎 ⏳ ⌛ 🔄 ⏱ 🕐 🔜 📖",
        "✍": "📝 🖊 ✏ 🗒 📌",
        "👨‍💻": "💻 🖥 ⌨ 👩‍💻 🧑‍💻 🛠 🔧 ⚙",
        "🎉": "🥳 🎊 🎂 🎈 🎁 ✨ 🪩",
        "🤩": "🌟 ⭐ 💫",
        "🔥": "🚀 💥",
        "👏": "🙌",
        "🏆": "🥇 🏅 🎖 👑",
        "🙏": "🙇 🙇‍♂ 🙇‍♀",
        "🤗": "👋 🖐",
        "🤓": "🧠 📚 💡 🎓",
        "😎": "🕶",
        "👾": "🤖 🐛",
        "😴": "💤 🛌",
        "🥱": "😑",
        "😐": "😶 🙄 😬",
        "🫡": "🎯",
        "⚡": "🔋",
        "🍾": "🍻 🥂 🍺 🍷",
        "💩": "🗑",
        "☃": "⛄ ❄",
    }.items()
    for other in others.split()
}
# Reactions of one mind, the plainest first: a chat may allow a few of them only.
_MINDS = tuple(
    tuple(mind.split())
    for mind in (
        "👍 👌 ❤ 🔥 💯 👏 🎉 🙏 🤝 🫡 😁 🤩 ❤‍🔥 ⚡ 🏆 🆒 🥰 😍 😎 😇 🤗 💘 😘 💋 🍾 🦄 🕊",
        "👎 😢 💔 😭 😡 🤬 🤮 💩 🖕 😱 😨",
        "😁 🤣 🤪 🤡 🙈 🙉 🙊 😈 👻 🎃",
        "🤔 🤨 🤷 🤷‍♂ 🤷‍♀ 😐 🥱 😴 🥴 🗿 🌚",
        "👀 ✍ 👨‍💻 🤓 🫡 👌 👍",
        "🤯 😱 😨 😢",
    )
)


def nearest(emoji: str, allowed: Sequence[str] = ALLOWED) -> str:
    """*emoji*, or the first of *allowed* that says nearly the same.

    Raises:
        PermanentError: none does.
    """
    wanted = _NO_MEANING.sub("", emoji.strip())
    if allowed is ALLOWED and _CUSTOM.fullmatch(wanted):
        return wanted
    like = _LIKE.get(wanted, wanted)
    minds = (other for mind in _MINDS if like in mind for other in mind)
    found = next((each for each in (wanted, like, *minds) if each in allowed), None)
    if found is None:
        where = "Telegram" if allowed is ALLOWED else "this chat"
        raise PermanentError(f"{where} allows no reaction that is near to {sanitize.name(emoji)[:16]!r}")
    return found


def as_type(emoji: str) -> dict[str, str]:
    """The ``ReactionType`` of an emoji, or of ``custom:ID``."""
    if _CUSTOM.fullmatch(emoji):
        return {"type": "custom_emoji", "custom_emoji_id": emoji.removeprefix("custom:")}
    return {"type": "emoji", "emoji": emoji}


def allowed_in(chat: Any) -> Sequence[str]:
    """The reactions of a chat, by ``getChat``; a chat that names none allows every emoji."""
    listed = chat.get("available_reactions") if isinstance(chat, dict) else None
    if not isinstance(listed, list):
        return ALLOWED
    return tuple(
        str(each["emoji"]) if each.get("type") == "emoji" else f"custom:{each.get('custom_emoji_id')}"
        for each in listed
        if isinstance(each, dict) and (each.get("type") != "emoji" or "emoji" in each)
    )
