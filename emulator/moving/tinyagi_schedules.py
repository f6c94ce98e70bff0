"""The schedules of TinyAGI (``schedules.json``) and of TinyClaw (lines of the crontab, and scripts)."""

import json
import re
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

from emulator.base import errors
from emulator.moving import clockwork
from emulator.moving.clockwork import CantBeTold
from emulator.moving.move_plan import MovePlan
from emulator.moving.options import MoveOptions
from emulator.moving.source import SourceFolder

_LINE = re.compile(r"(@\w+|(?:\S+\s+){4}\S+)\s+(.+?)\s+# tinyclaw-schedule:(\S+)\s*")
_JSON_OF_SCRIPT = re.compile(r'-d "(\{.*\})"', re.DOTALL)
_JSON_OF_LINE = re.compile(r"printf '\\''(\{.*?\})'\\''", re.DOTALL)
_BROKEN = "quotes in its text broke it, so it never worked"


def read(source: SourceFolder, data: str, plan: MovePlan, options: MoveOptions, agents: dict[str, str]) -> None:
    """Add the schedules to the plan. *agents*: ours by their id.

    Raises:
        EmulatorError: something must be said first.
    """
    reader = _Schedules(plan, options, agents)
    for each in source.json(f"{data}/schedules.json") or []:
        reader.add(str(each.get("label") or each.get("id")), each)
    scripts = {
        file.path.removesuffix(".sh"): source.text(f"{data}/schedule-jobs/{file.path}") or ""
        for file in source.files(f"{data}/schedule-jobs")
        if file.path.endswith(".sh")
    }
    _read_crontab(scripts, plan, options, reader)


def _read_crontab(scripts: dict[str, str], plan: MovePlan, options: MoveOptions, reader: "_Schedules") -> None:
    if options.crontab is None:
        plan.leave_counted(
            len(scripts),
            "schedules in schedule-jobs/",
            "their times are in the crontab",
            "crontab -l > crontab.txt there, and --crontab crontab.txt here",
        )
        return
    try:
        lines = options.crontab.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInput(f"{options.crontab} can't be read: {error}") from None
    seen = set()
    for line in lines:
        found = _LINE.fullmatch(line.strip())
        if found is None or line.lstrip().startswith("#"):
            continue
        when, command, label = found.groups()
        seen.add(label)
        is_script = "/schedule-jobs/" in command
        if is_script and label not in scripts:
            plan.leave(f"the schedule {label!r}", "its script is gone, so it failed each time")
            continue
        try:
            said = _said_in_script(scripts[label]) if is_script else _said_in_line(command)
        except CantBeTold as why:
            plan.leave(f"the schedule {label!r}", str(why), "emulator schedules add AGENT TEXT")
            continue
        to, _, text = str(said.get("message", "")).partition(" ")
        reader.add(label, {**said, "agentId": to.removeprefix("@"), "message": text, "cron": when})
    for label in scripts.keys() - seen:
        plan.leave(f"the schedule {label!r}", "no line of the crontab starts its script, so it never ran")


def _said_in_script(script: str) -> dict[str, Any]:
    """The message that a script posts: JSON in a shell string with double quotes."""
    found = _JSON_OF_SCRIPT.search(script)
    return _parsed(re.sub(r'\\(["\\$`])', r"\1", found[1]) if found else "")


def _said_in_line(command: str) -> dict[str, Any]:
    """The message that a line of the crontab writes by printf, which takes the backslash from a quote."""
    found = _JSON_OF_LINE.search(command)
    text = found[1].replace("%s000", "0").replace("\\%", "%") if found else ""
    return _parsed(re.sub(r'\\(["\\])', r"\1", text))


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise CantBeTold(_BROKEN) from None
    if not isinstance(found, dict):
        raise CantBeTold("it has no message")
    return found


class _Schedules:
    def __init__(self, plan: MovePlan, options: MoveOptions, agents: dict[str, str]) -> None:
        self._plan = plan
        self._options = options
        self._agents = agents

    def add(self, label: str, given: dict[str, Any]) -> None:
        """One schedule; what can't come along is told."""
        text = str(given.get("message") or "")
        try:
            self._add(label, given, text)
        except CantBeTold as why:
            self._plan.leave(f"the schedule {label!r}: {text!r}", str(why), "emulator schedules add AGENT TEXT")

    def _add(self, label: str, given: dict[str, Any], text: str) -> None:
        agent = self._agents.get(str(given.get("agentId")))
        if agent is None:
            raise CantBeTold(f"its agent {given.get('agentId')!r} does not come along")
        if not text:
            raise CantBeTold("it has no text")
        more: dict[str, Any] = {"enabled": given.get("enabled") is not False}
        zone = self._options.timezone
        if given.get("cron"):
            expression = clockwork.five_fields(str(given["cron"]))
            more |= {"cron": expression, "timezone": clockwork.zone_for(expression, zone)}
        else:
            at = clockwork.instant(str(given.get("runAt")), ZoneInfo(zone) if zone else UTC)
            if at <= self._options.now:
                missed = "was missed" if more["enabled"] else "has run"
                raise CantBeTold(f"it was for one time, {clockwork.iso(at)}, which is past; it {missed}")
            more |= {"runAt": clockwork.iso(at)}
        self._answer(label, given, agent, more)
        self._plan.add_schedule(label, agent, text, **more)

    def _answer(self, label: str, given: dict[str, Any], agent: str, more: dict[str, Any]) -> None:
        """Where the answer goes: TinyAGI's reached nobody, for no schedule names a person."""
        if self._options.answers is not None:
            channel, platform_id = self._options.answers
            is_group = channel == "telegram" and platform_id.startswith("-")
            more["chat"] = self._plan.add_chat(channel, platform_id, isGroup=is_group)
            self._plan.may_send(agent, more["chat"], "schedules")
            return
        why = (
            f"{given.get('sender')!r} is a name, and identifies nobody"
            if given.get("channel") != "schedule"
            else "no person is named"
        )
        self._plan.leave(
            f"who gets the answers of {label!r}",
            f"in TinyAGI they reached nobody ({why}), and so they do here",
            "--answers CHANNEL:ID names a chat",
        )
