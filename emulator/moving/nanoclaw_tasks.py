"""The tasks of NanoClaw 2: rows in the inbound database of each session."""

from datetime import UTC
from typing import Any

from emulator.base.errors import InvalidInput
from emulator.moving import clockwork
from emulator.moving.clockwork import CantBeTold
from emulator.moving.move_plan import MovePlan
from emulator.moving.options import MoveOptions
from emulator.moving.source import SourceFolder, rows
from emulator.moving.words import chat_address, content_of

_SESSIONS = "data/v2-sessions"
_LIVE = ("pending", "paused")
SCRIPT = "it has a script, which ran in NanoClaw's container; here one runs on the leash, without a network"


def read_tasks(
    source: SourceFolder,
    plan: MovePlan,
    options: MoveOptions,
    zone: str | None,
    agents: dict[str, str],
    sessions: set[tuple[str, str]],
) -> None:
    """Add the live tasks of all sessions to the plan, and tell what else waits there."""
    reader = _Tasks(source, plan, options, clockwork.known_zone(zone))
    for group in source.folders(_SESSIONS):
        for session in source.folders(f"{_SESSIONS}/{group}"):
            path = f"{_SESSIONS}/{group}/{session}"
            if not source.has(f"{path}/inbound.db"):
                continue
            if (group, session) not in sessions or group not in agents:
                plan.leave(path, "the database of NanoClaw has no such session or agent")
                continue
            try:
                reader.read(path, agents[group])
            except InvalidInput as error:
                plan.leave(path, str(error))
    reader.tell()


class _Tasks:
    def __init__(self, source: SourceFolder, plan: MovePlan, options: MoveOptions, zone: str | None) -> None:
        self._source = source
        self._plan = plan
        self._options = options
        self._zone = zone
        self._unanswered = 0
        self._files = [0, 0]

    def read(self, path: str, agent: str) -> None:
        """One session."""
        with self._source.database(f"{path}/inbound.db") as conn:
            found = rows(conn, "messages_in")
        if not found:
            self._plan.leave(f"{path}/inbound.db", "it has no rows, or is no database of NanoClaw")
        tasks = [each for each in found if each["kind"] == "task" and str(each["id"]).startswith("task-")]
        series: dict[str, list[dict[str, Any]]] = {}
        for each in tasks:
            series.setdefault(str(each["series_id"] or each["id"]), []).append(each)
        for name, of_series in series.items():
            self._add_series(name, sorted(of_series, key=lambda row: int(row["seq"] or 0)), agent)
        for each in found:
            if each["kind"] != "task" and each["status"] == "pending" and each.get("trigger", 1):
                self._unanswered += 1
                text = content_of(each["content"]).get("text")
                self._plan.texts.append(f"{agent}, perhaps not answered: {text}")
        for box in ("inbox", "outbox"):
            number, size = self._source.size(f"{path}/{box}")
            self._files[0] += number
            self._files[1] += size

    def tell(self) -> None:
        """What all sessions have that does not come along."""
        self._plan.leave_counted(
            self._unanswered,
            "messages that wait",
            "they are perhaps not answered; so may be some that NanoClaw marked as completed while it was stopped",
            "--show-texts shows them; ask the people to write again",
        )
        number, size = self._files
        self._plan.leave_counted(
            number, "files that people and agents sent", f"{size:,} bytes in inbox/ and outbox/", "copy what you want"
        )

    def _add_series(self, name: str, of_series: list[dict[str, Any]], agent: str) -> None:
        live = [each for each in of_series if each["status"] in _LIVE]
        if not live:
            if of_series[-1]["status"] == "failed":
                self._plan.leave(f"the task {name} of {agent}", "its last run failed, and NanoClaw ended it")
            return
        row = live[-1]
        content = content_of(row["content"])
        text = str(content.get("prompt") or "")
        try:
            if not text:
                raise CantBeTold("it has no text, or none that can be read")
            self._add(name, row, content, agent, text)
        except CantBeTold as why:
            self._plan.leave(f"the task {name} of {agent}: {text!r}", str(why), f"emulator schedules add {agent} TEXT")

    def _add(self, name: str, row: dict[str, Any], content: dict[str, Any], agent: str, text: str) -> None:
        channel = str(row["channel_type"])
        found = chat_address(channel, str(row["platform_id"]), is_group=True)
        if found is None:
            raise CantBeTold(f"its answers go to {channel}, and Postroom has no such channel")
        address = {"channel": channel, "platformId": found[0]}
        if not any(address.items() <= each.items() for each in self._plan.chats):
            raise CantBeTold(f"its answers go to {channel} {found[0]}, a chat that NanoClaw's database has not")
        more: dict[str, Any] = {"enabled": row["status"] == "pending", "chat": address}
        if row["recurrence"]:
            expression = clockwork.five_fields(str(row["recurrence"]))
            more |= {"cron": expression, "timezone": clockwork.zone_for(expression, self._zone)}
        else:
            at = clockwork.instant(str(row["process_after"]), UTC)
            if at <= self._options.now:
                raise CantBeTold(f"it was due once, at {clockwork.iso(at)}, which is past")
            more |= {"runAt": clockwork.iso(at)}
        if content.get("script"):
            more |= {"script": str(content["script"]), "enabled": False}
            self._plan.leave(f"the task {name} of {agent} is paused", SCRIPT, "read it, then emulator schedules resume")
        self._plan.may_send(agent, address, "tasks")
        self._plan.add_schedule(name, agent, text, **more)
