"""The words of NanoClaw and TinyAGI for chats, people and engagement, in Postroom's."""

import json
from typing import Any

from emulator.moving.move_plan import CHANNELS, MovePlan
from shared.core.errors import ConfigInvalid
from shared.core.text import patterns

_MODES = ("pattern", "mention", "mention-sticky")


def chat_address(channel: str, platform_id: str, *, is_group: bool) -> tuple[str, bool] | None:
    """The platform's own id of a chat of ours, and whether it is a group; None: Postroom has not this channel."""
    if channel not in CHANNELS:
        return None
    own = platform_id.removeprefix(f"{channel}:")
    if channel == "telegram":
        return own, own.startswith("-")
    guild, _, rest = own.partition(":")
    return (rest.split(":")[0], guild != "@me") if rest else (own, is_group)


def engagement(plan: MovePlan, mode: str | None, pattern: str | None, who: str) -> dict[str, Any]:
    """When an agent answers. What Postroom can't say becomes ``mention``, and never everything."""
    if mode not in _MODES:
        plan.leave(f"the mode {mode!r} of {who}", "Postroom has none of this name; the agent answers to mentions")
        return {"engageMode": "mention"}
    if mode != "pattern":
        return {"engageMode": mode}
    try:
        patterns.check(pattern or ".")
    except ConfigInvalid as error:
        plan.leave(
            f"the pattern of {who}",
            f"{error}; the agent answers to mentions",
            "emulator wirings set CHAT AGENT --pattern",
        )
        return {"engageMode": "mention"}
    return {"engageMode": "pattern", "engagePattern": pattern or "."}


def policy_of(word: str | None) -> str:
    """The policy for strangers; an unknown word is the strictest."""
    return word if word in ("strict", "request_approval", "public") else "strict"


def leave_channels(plan: MovePlan, counted: dict[str, int], what: str) -> None:
    """Tell of chats or people of channels that Postroom has not."""
    for channel, number in sorted(counted.items()):
        plan.leave_counted(number, f"{what} of {channel}", f"Postroom has no channel {channel}")


def one_line(text: Any) -> str:
    """A name as Postroom takes it: visible characters, no blanks around."""
    return "".join(part if part.isprintable() else " " for part in str(text or "")).strip()[:200]


def content_of(text: Any) -> dict[str, Any]:
    """The JSON object of a row; empty where it is none."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
