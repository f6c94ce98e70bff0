"""The story of a message as text for people: events at their instants, and at each position what was true there."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from spark_jobs.copies import INSTANTS
from spark_jobs.history.diff_text import as_word
from spark_jobs.history.spans import named
from spark_jobs.history.story.sighting import PastEvent, RowKey, Sighting
from spark_jobs.history.story.walk import PastStory
from spark_jobs.replicas import shown

_INDENT = " " * 26
_SHOWN = 300


def as_story(story: PastStory) -> str:
    """The whole text."""
    return "\n".join([*_head(story), "", *_timeline(story), "", *_end(story)]) + "\n"


def _head(story: PastStory) -> Iterator[str]:
    message = story.message
    place = f"{message.channel} {as_word(message.platform_id)}" if message.platform_id else message.channel
    yield f"{message.message_id}: a message on {place} for agent {message.agent}"
    yield (
        f"from {shown(story.url)}: {len(story.sightings)} of {story.there_are} positions were read, which reach "
        f"from {story.oldest.timestamp} to {story.newest.timestamp}"
    )
    if story.failures:
        yield f"{len(story.failures)} could not be restored and are left out; the last of them: {story.failures[-1]}"


def _timeline(story: PastStory) -> Iterator[str]:
    """Events and positions in the order of time. A position comes after the events that it has."""
    moments = [(event.at_ms, 0, [_event_line(event)]) for event in _events(story.sightings)]
    before: Sighting | None = None
    for each in story.sightings:
        moments.append((each.at_ms, 1, list(_position(each, before))))
        before = each
    for _, _, lines in sorted(moments, key=lambda moment: moment[:2]):
        yield from lines


def _events(sightings: Sequence[Sighting]) -> list[PastEvent]:
    """All events of all positions, each once; a restore may give an id to another one."""
    return list({(event.id, event.at_ms, event.type): event for each in sightings for event in each.events}.values())


def _event_line(event: PastEvent) -> str:
    about = "" if event.response_id is None else f" of response {event.response_id}"
    facts = ", ".join(f"{name} {_value(name, value)}" for name, value in event.data.items())
    return f"{_instant(event.at_ms)}  {event.type}{about}" + (f": {facts}" if facts else "")


def _position(each: Sighting, before: Sighting | None) -> Iterator[str]:
    is_new_epoch = before is not None and before.epoch != each.epoch
    restored = f" (a new history, epoch {each.epoch or 'without a name'})" if is_new_epoch else ""
    yield f"{_instant(each.at_ms)}  AT {named(each.pin)} of {each.pin.timestamp}{restored}"
    yield _INDENT + (each.why or _absence(before))
    for line in _changes({} if before is None else before.rows, each.rows):
        yield _INDENT + line


def _absence(before: Sighting | None) -> str:
    if before is None or not before.has_message:
        return "There is no row of the message."
    return "The row of the message is gone."


def _changes(before: Mapping[RowKey, Mapping[str, Any]], after: Mapping[RowKey, Mapping[str, Any]]) -> Iterator[str]:
    """What the rows of the message have become since the position before."""
    for key, row in after.items():
        old = before.get(key)
        if old is None:
            facts = [f"{name} {_value(name, value)}" for name, value in row.items() if value not in (None, "", "[]")]
            yield f"+ {_row(key)}: {', '.join(facts)}"
        elif old != row:
            facts = [
                f"{name} {_value(name, old.get(name))} -> {_value(name, value)}"
                for name, value in row.items()
                if old.get(name) != value
            ]
            yield f"  {_row(key)}: {', '.join(facts)}"
    for key in before:
        if key not in after:
            yield f"- {_row(key)} is gone"


def _end(story: PastStory) -> Iterator[str]:
    """Where the row of the message can still be read."""
    having = [number for number, each in enumerate(story.sightings) if each.has_message]
    last = story.sightings[having[-1]]
    if having[-1] == len(story.sightings) - 1:
        yield "The row of the message is still there at the newest position that was read."
        return
    lacking = story.sightings[having[-1] + 1]
    there, gone = named(last.pin), named(lacking.pin)
    yield f"The row was there at {there} of {last.pin.timestamp}, and not at {gone} of {lacking.pin.timestamp}:"
    yield _reason(last, lacking, story.message.row)
    epoch = f'.option("epoch", "{last.pin.epoch}")' if last.pin.epoch else ""
    yield f'To read it as it was: .option("txid", "{last.pin.txid}"){epoch} with spark.read, or'
    yield f"  python -m spark_jobs diff --replica {shlex.quote(story.url)} --from {there} --to {gone} --rows"


def _reason(last: Sighting, lacking: Sighting, row: int) -> str:
    if last.epoch != lacking.epoch:
        return "a restore lies in between, and its history does not have the row."
    if any(event.type == "message_deleted" for event in lacking.events):
        return "it was deleted by hand."
    status = last.rows.get(("messages", row), {}).get("status")
    if status in ("completed", "cancelled"):
        return "it had ended, and was pruned after its retention."
    return f"it was {status} when it was last seen; it ended and was pruned in between, or it was deleted."


def _row(key: RowKey) -> str:
    table, first = key
    return f"{table} {as_word(first) if isinstance(first, int) else first}"


def _value(name: str, value: object) -> str:
    is_instant = name.endswith("_at") or name in INSTANTS
    if is_instant and isinstance(value, int):
        return _instant(value)
    return as_word(value, most=_SHOWN)


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
