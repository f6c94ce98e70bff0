"""TinyAGI, and TinyClaw before it: agents, teams and people. Schedules and the queue have modules of their own."""

import re
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from emulator.base import errors
from emulator.moving import clockwork, tinyagi_queue, tinyagi_schedules
from emulator.moving.clockwork import CantBeTold
from emulator.moving.move_plan import CHANNELS, TOKENS, MovePlan
from emulator.moving.options import MoveOptions
from emulator.moving.source import SourceFolder
from emulator.moving.words import leave_channels, one_line

_NAMES = (".tinyagi", ".tinyclaw")
_PROVIDERS = {
    **{"anthropic": "claude", "openai": "codex", "opencode": "opencode"},
    **{"claude": "claude", "codex": "codex"},
}
_SUMMARY = re.compile(r"^summary:\s*(.+?)\s*$", re.MULTILINE)
_FRONT = re.compile(r"\A---\r?\n(.*?)\r?\n---", re.DOTALL)
_BUNDLED = (".agents", ".agent", ".claude", ".tinyagi", ".tinyclaw")
_THEIRS = ("AGENTS.md", "heartbeat.md", "reset_flag")


def read(source: SourceFolder, options: MoveOptions) -> MovePlan:
    """The plan for a home with ``.tinyagi`` or ``.tinyclaw`` in it, or for that folder itself.

    Raises:
        EmulatorError: it is none, can't be read, or something must be said first.
    """
    root = source.root.resolve()
    names: tuple[str, ...] = _NAMES
    if source.has("settings.json"):  # the folder itself; the agents' folders lie beside it
        source, names = SourceFolder(root.parent), (root.name,)
    found = [name for name in names if source.has(f"{name}/settings.json")]
    if not found:
        raise errors.DoesNotExist(f"{root} is no home of TinyAGI: it has no .tinyagi with a settings.json")
    settings = source.json(f"{found[0]}/settings.json")
    if not isinstance(settings, dict) or not settings.get("agents"):
        raise errors.InvalidInput(
            f"{source.root / found[0] / 'settings.json'} names no agents, as it does after two programs wrote it at "
            "once: put its last good copy there (settings.json.bak), and try again"
        )
    plan = MovePlan("tinyclaw" if found[0] == ".tinyclaw" else "tinyagi", "", options.prefix)
    for other in found[1:]:
        plan.leave(other, f"{found[0]} is newer, and counts")
    reader = _Reader(source, found[0], settings, plan, options)
    reader.read()
    default = reader.default
    if default is not None:
        plan.leave(
            f"that {default} answers where no agent is named",
            "the default agent here stays",
            f"emulator agents set {default} --default",
        )
    tinyagi_schedules.read(source, found[0], plan, options, reader.agents)
    tinyagi_queue.tell(source, found[0], plan)
    return plan


class _Reader:
    """Reads the settings and the folders of agents into the plan. *agents*: ours by their id."""

    def __init__(
        self, source: SourceFolder, data: str, settings: dict[str, Any], plan: MovePlan, options: MoveOptions
    ) -> None:
        self._source = source
        self._data = data
        self._settings = settings
        self._plan = plan
        self._options = options
        self.agents: dict[str, str] = {}
        where = str((settings.get("workspace") or {}).get("path") or f"{data.removeprefix('.')}-workspace")
        self._workspace = where.rstrip("/").rpartition("/")[2]
        self._home = where.rstrip("/").rpartition("/")[0]

    def read(self) -> None:
        if not self._source.is_folder(self._workspace):
            self._plan.leave(
                f"AGENTS.md, memory and heartbeats of all agents, in {self._workspace}",
                f"{self._source.root} has no such folder",
                "copy it there before you import: agents that are here already get no instructions later",
            )
        for id_, agent in self._settings["agents"].items():
            self._add_agent(str(id_), agent)
        self._tell_souls()
        for id_, team in (self._settings.get("teams") or {}).items():
            self._add_team(str(id_), team)
        self._add_people()
        for id_ in self.agents:
            self._add_heartbeat(id_, self._settings["agents"][id_])
        self._tell_secrets()
        if self._source.has(f"{self._data}/{self._data.removeprefix('.')}.pid"):
            self._plan.leave(
                f"{self._data}/{self._data.removeprefix('.')}.pid", "it may still run", "stop it before you import"
            )

    def _add_agent(self, id_: str, given: dict[str, Any]) -> None:
        provider, model = self._provider(id_, given)
        if provider is None:
            return
        ours = self._plan.fit_id(id_)
        self.agents[id_] = ours
        agent: dict[str, Any] = {"name": one_line(given.get("name")) or ours, "provider": provider}
        if model:
            agent["model"] = str(model)
        if self._options.timezone:
            agent["timezone"] = self._options.timezone
        if instructions := self._instructions(id_, given):
            agent["instructions"] = instructions
        self._plan.agents[ours] = agent
        self._add_files(id_, ours, given)

    def _provider(self, id_: str, given: dict[str, Any]) -> tuple[str | None, Any]:
        """The provider and the model; no provider where Postroom has none for it: then the agent stays behind."""
        name = str(given.get("provider") or (self._settings.get("models") or {}).get("provider") or "anthropic")
        kind, _, custom = name.partition(":")
        model = given.get("model")
        if kind == "custom":
            known = (self._settings.get("custom_providers") or {}).get(custom)
            if not isinstance(known, dict):
                self._plan.leave(f"the agent {id_!r}", f"its provider {name!r} is gone", f"emulator agents set {id_}")
                return None, None
            name = str(known.get("harness") or "claude")
            model = model or known.get("model")
            host = urlsplit(str(known.get("base_url") or "")).hostname
            self._plan.leave(
                f"the model server {host} of {id_!r}, and its key",
                f"the agent is of {_PROVIDERS.get(name, name)} here, which asks its own models",
                f"emulator agents set {id_} --provider, --model",
            )
        if name not in _PROVIDERS:
            self._plan.leave(
                f"the agent {id_!r}", f"Postroom has no provider {name!r}", f"emulator agents set {id_} --provider NAME"
            )
            return None, None
        return _PROVIDERS[name], model

    def _instructions(self, id_: str, given: dict[str, Any]) -> str:
        """All that exist, in the order in which TinyAGI's prompt has them."""
        folder = f"{self._workspace}/{id_}"
        own = (self._source.text(f"{folder}/AGENTS.md") or "").strip()
        if own == (self._source.text(f"{folder}/.claude/CLAUDE.md") or "").strip():
            own = ""  # TinyClaw's own, which it wrote to both
        more = str(given.get("system_prompt") or "").strip()
        if given.get("prompt_file"):
            inside = self._inside(str(given["prompt_file"]))
            text = self._source.text(inside) if inside is not None else None
            if text is None:
                self._plan.leave(f"the prompt_file of {id_!r}", f"{given['prompt_file']} is not in the folder")
            more = (text or more).strip()
        return "\n\n".join(part for part in (own, more) if part)

    def _inside(self, path: str) -> str | None:
        """A path of the machine where it ran, in the folder; None: it is elsewhere."""
        if path.startswith("/"):
            return path.removeprefix(f"{self._home}/") if path.startswith(f"{self._home}/") else None
        return path

    def _add_files(self, id_: str, ours: str, given: dict[str, Any]) -> None:
        folder = f"{self._workspace}/{id_}"
        index, others = [], [0, 0]
        for file in self._source.files(folder):
            if file.path.startswith("memory/") and (file.problem or file.path.endswith(".md")):
                self._plan.copy_file(self._source, file, folder, ours)
                front = _FRONT.match(self._source.text(f"{folder}/{file.path}") or "")
                if front and (summary := _SUMMARY.search(front[1])):
                    index.append(f"- {file.path}: {summary[1].strip(chr(34))}")
            elif file.path not in _THEIRS and file.path.split("/")[0] not in _BUNDLED:
                others[0] += 1
                others[1] += file.size
        if index:
            self._plan.add_file(ours, "MEMORY.md", "\n".join(["What you know:", *index, ""]), folder)
        self._plan.leave_counted(
            others[0], f"files in {folder}", f"{others[1]:,} bytes; only memory/ comes along", "copy what you want"
        )
        where = str(given.get("working_directory") or "").rstrip("/")
        if where and where != f"{self._home}/{self._workspace}/{id_}":
            self._plan.leave(
                f"the working directory {where} of {id_!r}",
                "nothing outside its own folder is copied",
                "copy what you want",
            )

    def _tell_souls(self) -> None:
        """The bundled text is what most agents have; another is the user's."""
        paths = {
            id_: next(
                (
                    path
                    for path in (f"{self._workspace}/{id_}/{name}/SOUL.md" for name in _NAMES)
                    if self._source.has(path)
                ),
                None,
            )
            for id_ in self.agents
        }
        texts = {id_: self._source.read(path) for id_, path in paths.items() if path is not None}
        bundled = Counter(texts.values()).most_common(1)
        for id_, text in texts.items():
            if len(texts) > 1 and text != bundled[0][0]:
                self._plan.leave(
                    f"SOUL.md of {id_!r}", "it differs from the others", "add it to the agent's instructions"
                )

    def _add_team(self, id_: str, given: dict[str, Any]) -> None:
        members = [self.agents[each] for each in given.get("agents") or [] if each in self.agents]
        leader = self.agents.get(str(given.get("leader_agent")))
        if not members:
            self._plan.leave(f"the team {id_!r}", "none of its agents comes along")
            return
        if len(members) < len(given.get("agents") or []) or leader not in members:
            self._plan.leave(
                f"members of the team {id_!r}",
                "they are no agents; the first that is left leads where the leader is gone",
            )
        ours = self._plan.fit_id(id_, taken=self._plan.teams)
        self._plan.teams[ours] = {
            "name": one_line(given.get("name")) or ours,
            "agents": members,
            "leader": leader if leader in members else members[0],
        }

    def _add_people(self) -> None:
        pairing = self._source.json(f"{self._data}/pairing.json") or {}
        elsewhere: dict[str, int] = {}
        for each in pairing.get("approved") or []:
            channel, sender_id = str(each.get("channel")), str(each.get("senderId"))
            if channel not in CHANNELS:
                elsewhere[channel] = elsewhere.get(channel, 0) + 1
                continue
            agent = self._default_for(sender_id)
            user = self._plan.add_user(channel, sender_id, one_line(each.get("sender")))
            if agent is not None and agent not in user["memberOf"]:
                user["memberOf"].append(agent)
            if channel == "telegram":
                chat = self._plan.add_chat(channel, sender_id, name=one_line(each.get("sender")) or None)
                user["directChat"] = chat
                if agent is not None:
                    self._plan.add_wiring(chat, agent)
            else:
                self._plan.leave(
                    f"the direct chat of {user['name'] or sender_id} on Discord",
                    "TinyAGI stores the person, and Discord names the chat when they write",
                    f"when they have written: emulator wirings set CHAT {agent}",
                )
        leave_channels(self._plan, elsewhere, "people")
        self._plan.leave_counted(
            len(pairing.get("pending") or []), "people who wait for a pairing", "their codes end here"
        )
        if self._plan.users:
            self._plan.leave(
                "that people may write to every agent",
                "an import lets them reach their own default agent",
                "emulator users grant USER member --agent AGENT",
            )
        self._plan.leave("an owner", "TinyAGI has none", "emulator pair")

    @property
    def default(self) -> str | None:
        """The agent that answers where nobody is named."""
        return self._default_for("")

    def _default_for(self, sender_id: str) -> str | None:
        """The agent of a person: their default, a team's leader, or the default agent of all."""
        chosen = ((self._settings.get("channels") or {}).get("defaults") or {}).get(sender_id)
        chosen = chosen.get("agentId") if isinstance(chosen, dict) else chosen
        if chosen in (self._settings.get("teams") or {}):
            chosen = self._settings["teams"][chosen].get("leader_agent")
        for name in (chosen, "tinyagi", "default", *self.agents):
            if name in self.agents:
                return self.agents[name]
        return None

    def _add_heartbeat(self, id_: str, given: dict[str, Any]) -> None:
        own = given.get("heartbeat") or {}
        every = own.get("interval") or (self._settings.get("monitoring") or {}).get("heartbeat_interval") or 3600
        if own.get("enabled") is False:
            return
        ours = self.agents[id_]
        try:
            clockwork.of_interval(float(every))
        except (CantBeTold, ValueError, TypeError) as why:
            self._plan.leave(f"the heartbeat of {ours}", str(why), f"emulator schedules add {ours} TEXT --cron")
            return
        text = (self._source.text(f"{self._workspace}/{id_}/heartbeat.md") or "").strip()
        self._plan.heartbeats[ours] = {"content": text, "interval": int(every)}

    def _tell_secrets(self) -> None:
        channels, models = self._settings.get("channels") or {}, self._settings.get("models") or {}
        self._plan.bots += [name for name in TOKENS if (channels.get(name) or {}).get("bot_token")]
        for name in self._plan.bots:
            self._plan.leave(
                f"the bot_token of {name}",
                "an import reads no secret",
                f"give it to Postroom in its environment as {TOKENS[name][0]} (docs/channels/{name}.md)",
            )
        keys = [
            f"models.{name}.{key}"
            for name, each in models.items()
            if isinstance(each, dict)
            for key in ("api_key", "oauth_token")
            if each.get(key)
        ]
        if keys:
            self._plan.leave(
                ", ".join(keys), "an import reads no secret", "emulator doctor says which login is missing"
            )
