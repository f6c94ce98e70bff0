"""The options that choose rows of a list: by time, agent, chat, person and reason."""

from datetime import datetime
from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.cli.spans import span_ms
from shared.core.time import clock
from shared.core.time.durations import TooLong

Agent = Annotated[str | None, typer.Option("--agent", help="Only of this agent.")]
Chat = Annotated[int | None, typer.Option(min=1, help="Only in the chat with this number in `chats list`.")]
Person = Annotated[str | None, typer.Option(help="Only of the person with this id on the platform.")]
Channel = Annotated[str | None, typer.Option(help="Only on this channel.")]
Reason = Annotated[str | None, typer.Option(help="Only for this reason, such as agent_paused (`state` of --json).")]
Instant = Annotated[
    str | None, typer.Option(metavar="WHEN", help="Only from then on: 2027-01-31T09:00, or 30m, 24h, 7d ago.")
]
Until = Annotated[str | None, typer.Option(metavar="WHEN", help="Only before then, in the same form.")]
Before = Annotated[int | None, typer.Option(min=1, help="Only rows before this one: the next page.")]
Limit = Annotated[int, typer.Option(min=1, max=200, help="The maximum number of rows.")]


def given(
    agent: str | None,
    chat: int | None,
    person: str | None,
    channel: str | None,
    reason: str | None,
    since: str | None,
    until: str | None,
    before: int | None,
) -> dict[str, Any]:
    """The chosen filters, as REST takes them."""
    named = {"agent": agent, "chatId": chat, "senderId": person, "channel": channel, "reason": reason, "before": before}
    times = {"since": _instant("--since", since), "until": _instant("--until", until)}
    return {name: value for name, value in {**named, **times}.items() if value is not None}


def _instant(option: str, text: str | None) -> int | None:
    """Milliseconds since 1970: of an instant in the zone of this machine, or of a duration before now."""
    if text is None:
        return None
    try:
        return clock.now_ms() - span_ms(text)
    except TooLong as error:
        raise errors.InvalidInput(f"{option} {error}") from None
    except ValueError:
        return instant_ms(option, text, "2027-01-31T09:00, or 30m, 24h, 7d for so long ago")


def instant_ms(option: str, text: str, example: str) -> int:
    """Milliseconds since 1970 of an instant, in the zone of this machine where it names none.

    Raises:
        InvalidInput
    """
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise errors.InvalidInput(f"{option} {text!r} is no instant: write {example}") from None
