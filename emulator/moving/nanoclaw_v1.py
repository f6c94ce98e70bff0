"""NanoClaw before version 2: a group is chat, agent and folder in one, and its tasks stand in the same database."""

import json
import re
from datetime import UTC
from typing import Any

import apsw

from emulator.base import errors
from emulator.moving import clockwork
from emulator.moving.clockwork import CantBeTold
from emulator.moving.move_plan import CHANNELS, MovePlan, destination_name
from emulator.moving.nanoclaw_tasks import SCRIPT
from emulator.moving.options import MoveOptions
from emulator.moving.source import SourceFolder, rows
from emulator.moving.words import content_of, leave_channels, one_line

DATABASE = "store/messages.db"
_PREFIXES = {"tg": "telegram", "dc": "discord", "slack": "slack", "gmail": "gmail", "sig": "signal"}
_NOT_THEIRS = ("logs", "conversations")


def read(source: SourceFolder, options: MoveOptions, env: dict[str, str]) -> MovePlan:
    """The plan for a checkout of version 1.

    Raises:
        EmulatorError: it can't be read, or something must be said first.
    """
    version = str((source.json("package.json") or {}).get("version", "1"))
    plan = MovePlan("nanoclaw", version, options.prefix)
    _Reader(source, plan, options, options.timezone or env.get("TZ") or None).read()
    return plan


class _Reader:
    def __init__(self, source: SourceFolder, plan: MovePlan, options: MoveOptions, zone: str | None) -> None:
        self._source = source
        self._plan = plan
        self._options = options
        self._zone = clockwork.known_zone(zone)
        self._agents: dict[str, str] = {}  # their folder: ours
        self._chats: dict[str, dict[str, str]] = {}  # their jid: the address
        self._allowed = self._allowlist()

    def read(self) -> None:
        with self._source.database(DATABASE) as conn:
            known = {str(each["jid"]): each for each in rows(conn, "chats")}
            elsewhere: dict[str, int] = {}
            for group in rows(conn, "registered_groups"):
                self._add_group(group, known.get(str(group["jid"]), {}), elsewhere)
            leave_channels(self._plan, elsewhere, "chats")
            for task in rows(conn, "scheduled_tasks"):
                self._add_task(task)
            self._tell_unanswered(conn)
            self._plan.leave_counted(
                len(rows(conn, "sessions")),
                "sessions",
                "a model's conversation can't move: agents keep their files, and start over",
            )
        piped = [
            each.path
            for folder in self._source.folders("data/ipc")
            for each in self._source.files(f"data/ipc/{folder}/input")
        ]
        self._plan.leave_counted(
            len(piped), "messages in data/ipc", "they went to a run that was stopped, and are lost"
        )

    def _add_group(self, group: dict[str, Any], chat: dict[str, Any], elsewhere: dict[str, int]) -> None:
        folder, jid = str(group["folder"]), str(group["jid"])
        id_ = self._plan.fit_id(folder)
        self._agents[folder] = id_
        self._plan.agents[id_] = self._agent(group, id_, folder)
        prefix, is_named, rest = jid.partition(":")
        channel = _PREFIXES.get(prefix, prefix) if is_named else "whatsapp"
        if channel not in CHANNELS:
            elsewhere[channel] = elsewhere.get(channel, 0) + 1
            return
        is_group = rest.startswith("-") if channel == "telegram" else bool(chat.get("is_group", 1))
        allow, mode = self._allowed.get(jid, self._allowed.get("", ("*", "trigger")))
        address = self._plan.add_chat(
            channel,
            rest,
            isGroup=is_group,
            name=one_line(group["name"]) or None,
            senderPolicy="strict" if isinstance(allow, list) and mode == "drop" else "request_approval",
        )
        self._chats[jid] = address
        if isinstance(allow, list):
            for sender in allow:
                self._plan.add_user(channel, str(sender).removeprefix(f"{prefix}:"))["memberOf"].append(id_)
        else:
            self._plan.leave(
                f"that everybody may talk to {id_} in {channel} {rest}",
                "strangers need an approval here",
                f"emulator chats set CHAT --policy public, or emulator pair --member --agent {id_}",
            )
        self._plan.add_wiring(
            address,
            id_,
            **self._engagement(group, is_group, id_, f"{channel} {rest}"),
            ignoredMessagePolicy="accumulate",
            senderScope="known" if isinstance(allow, list) and mode == "trigger" else "all",
        )

    def _engagement(self, group: dict[str, Any], is_group: bool, id_: str, place: str) -> dict[str, Any]:
        """The trigger is literal text at the beginning of a message, in any case."""
        if not group.get("is_main") and group.get("requires_trigger") in (1, None):
            trigger = str(group["trigger_pattern"] or "").strip()
            if trigger:
                return {"engageMode": "pattern", "engagePattern": rf"(?i)^{re.escape(trigger)}\b"}
        elif is_group:
            self._plan.leave(
                f"that {id_} answers everything in the group {place}",
                "here it answers to mentions",
                f"emulator wirings set CHAT {id_} --mode pattern --pattern .",
            )
        return {"engageMode": "mention"}

    def _agent(self, group: dict[str, Any], id_: str, folder: str) -> dict[str, Any]:
        agent: dict[str, Any] = {"name": one_line(group["name"]) or id_, "provider": "claude"}
        if self._zone:
            agent["timezone"] = self._zone
        if group.get("is_main"):
            self._plan.leave(
                f"the rights of the main group {folder}", "they belonged to a chat, and here to people", "emulator pair"
            )
        if group.get("container_config"):
            is_json = bool(content_of(group["container_config"]))
            why = "its mounts are of NanoClaw's containers" if is_json else "it is no JSON"
            self._plan.leave(f"container_config of {id_}", why)
        if "/" in folder or folder in ("", ".", ".."):
            self._plan.leave(f"the folder {folder!r} of {id_}", "it leads out of groups/, and nothing outside is read")
            return agent
        own = (self._source.text(f"groups/{folder}/CLAUDE.md") or "").strip()
        common = (self._source.text("groups/global/CLAUDE.md") or "").strip()
        both = own if group.get("is_main") or common in own else f"{own}\n\n{common}"
        if both.strip():
            agent["instructions"] = both.strip()
            self._plan.leave(
                f"CLAUDE.md of {id_}",
                "it is the agent's instructions now, and speaks of NanoClaw's own tools",
                f"read it through: emulator agents show {id_}",
            )
        for file in self._source.files(f"groups/{folder}"):
            if file.path != "CLAUDE.md" and file.path.split("/")[0] not in _NOT_THEIRS:
                self._plan.copy_file(self._source, file, f"groups/{folder}", id_)
        return agent

    def _add_task(self, task: dict[str, Any]) -> None:
        name, text = str(task["id"]), str(task["prompt"])
        if task["status"] not in ("active", "paused"):
            return
        try:
            self._plan_task(task, name, text)
        except CantBeTold as why:
            self._plan.leave(f"the task {name}: {text!r}", str(why), "emulator schedules add AGENT TEXT")

    def _plan_task(self, task: dict[str, Any], name: str, text: str) -> None:
        agent, address = self._agents.get(str(task["group_folder"])), self._chats.get(str(task["chat_jid"]))
        if agent is None:
            raise CantBeTold(f"no group has the folder {task['group_folder']!r}")
        if address is None:
            raise CantBeTold(f"its answers go to {task['chat_jid']}, which does not come along")
        more: dict[str, Any] = {
            "enabled": task["status"] == "active",
            "chat": address,
            "isOwnSession": task.get("context_mode") != "group",
            **self._time(task),
        }
        if task.get("script"):
            more |= {"script": str(task["script"]), "enabled": False}
            self._plan.leave(f"the task {name} is paused", SCRIPT, "read it, then emulator schedules resume")
        self._plan.may_send(agent, address, destination_name(name, "tasks"))
        self._plan.add_schedule(name, agent, text, **more)

    def _time(self, task: dict[str, Any]) -> dict[str, Any]:
        kind, value = task["schedule_type"], str(task["schedule_value"])
        if kind == "once":
            at = clockwork.instant(str(task["next_run"] or value), UTC)  # of the value, no file says the zone
            if at <= self._options.now:
                raise CantBeTold(f"it was due once, at {clockwork.iso(at)}, which is past")
            return {"runAt": clockwork.iso(at)}
        if kind == "interval":
            if not value.isdecimal():
                raise CantBeTold(f"its interval {value!r} is no number")
            return {"cron": clockwork.of_interval(int(value) / 1000), "timezone": self._zone or "UTC"}
        expression = clockwork.five_fields(value)
        return {"cron": expression, "timezone": clockwork.zone_for(expression, self._zone)}

    def _tell_unanswered(self, conn: apsw.Connection) -> None:
        state = {each["key"]: each["value"] for each in rows(conn, "router_state")}
        seen = content_of(state.get("last_agent_timestamp"))
        waiting = [
            each
            for each in rows(conn, "messages")
            if not each.get("is_bot_message") and str(each["timestamp"]) > str(seen.get(str(each["chat_jid"]), ""))
        ]
        self._plan.texts += [f"{each['chat_jid']}, perhaps not answered: {each['content']}" for each in waiting]
        self._plan.leave_counted(
            len(waiting),
            "messages after the last that an agent saw",
            "they are perhaps not answered",
            "--show-texts shows them; ask the people to write again",
        )

    def _allowlist(self) -> dict[str, tuple[Any, str]]:
        """Who may talk, by jid; of all others under the empty name."""
        if self._options.allowlist is None:
            return {}
        try:
            found = json.loads(self._options.allowlist.read_bytes())
            named = {"": found.get("default") or {}, **(found.get("chats") or {})}
            return {jid: (each.get("allow", "*"), each.get("mode", "trigger")) for jid, each in named.items()}
        except (OSError, ValueError, AttributeError) as error:
            raise errors.InvalidInput(f"{self._options.allowlist} is no sender-allowlist.json: {error}") from None
