"""What TinyAGI's and TinyClaw's queue, history and other stores hold: told, and not moved in."""

from collections import Counter

from emulator.moving.move_plan import CHANNELS, MovePlan
from emulator.moving.source import SourceFolder, rows

_OPEN = ("pending", "queued", "processing")
_NAMELESS = "they have names and no ids, so nobody could say who may read them, or have them forgotten"
_ASK = "--show-texts shows them; ask the people to write again"
_NEVER = "nothing of the queue is moved in: it would talk to people again"


def tell(source: SourceFolder, data: str, plan: MovePlan) -> None:
    """Tell what does not come along."""
    for name in ("tinyagi.db", "tinyclaw.db"):
        if source.has(f"{data}/{name}"):
            _tell_database(source, f"{data}/{name}", plan)
    _tell_queue_of_files(source, data, plan)
    if source.has(f"{data}/tasks.db"):
        with source.database(f"{data}/tasks.db") as conn:
            for table in ("projects", "tasks", "comments"):
                plan.leave_counted(len(rows(conn, table)), table, "Postroom has no board of tasks")
    plan.leave_counted(len(source.json(f"{data}/tasks.json") or []), "tasks", "Postroom has no board of tasks")
    for folder, what, why in (
        ("files", "files that people and agents sent", "copy what you want"),
        ("plugins", "files of plugins", "they are code for TinyAGI alone"),
        ("chats", "hand-offs in chats/", "they are texts of conversations that end here"),
    ):
        number, size = source.size(f"{data}/{folder}")
        plan.leave_counted(number, what, f"{size:,} bytes in {data}/{folder}: {why}")
    plan.leave(
        "the agents' conversations", "a model's conversation can't move: agents keep their files, and start over"
    )


def _tell_database(source: SourceFolder, path: str, plan: MovePlan) -> None:
    with source.database(path) as conn:
        messages, responses = rows(conn, "messages"), rows(conn, "responses")
        history, room = len(rows(conn, "agent_messages")), len(rows(conn, "chat_messages"))
    waiting = [each for each in messages if each["status"] in _OPEN]
    dead = [each for each in messages if each["status"] == "dead"]
    plan.texts += [
        f"{each['channel']} {each['sender']} ({each['status']}): {each['message']}" for each in waiting + dead
    ]
    plan.leave_counted(
        len(waiting), "messages that wait or run", f"{_NEVER}; one that ran may be answered already", _ASK
    )
    plan.leave_counted(len(dead), "dead messages", _NEVER, _ASK)
    unsent = Counter(str(each["channel"]) for each in responses if each["status"] == "pending")
    for channel, number in sorted(unsent.items()):
        why = "they are never sent from here" if channel in CHANNELS else f"nobody fetches answers on {channel}"
        plan.leave_counted(number, f"answers on {channel} that nobody got", why)
    plan.leave_counted(history + room, "lines of history", _NAMELESS)


def _tell_queue_of_files(source: SourceFolder, data: str, plan: MovePlan) -> None:
    """TinyClaw 0.0.5 has a file for each message."""
    for folder, what in (
        ("incoming", "messages that wait"),
        ("processing", "messages that ran, and may be answered already"),
        ("outgoing", "answers that were not sent"),
    ):
        found = [source.json(f"{data}/queue/{folder}/{file.path}") for file in source.files(f"{data}/queue/{folder}")]
        plan.texts += [f"{each.get('channel')} {each.get('sender')}: {each.get('message')}" for each in found if each]
        plan.leave_counted(len(found), what, _NEVER, _ASK)
