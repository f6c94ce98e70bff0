"""NanoClaw: which version wrote a folder, what both have in common, and the central database of version 2."""

from typing import Any

import apsw

from emulator.base import errors
from emulator.moving import nanoclaw_v1
from emulator.moving.move_plan import CHANNELS, TOKENS, MovePlan, destination_name
from emulator.moving.nanoclaw_tasks import read_tasks
from emulator.moving.options import MoveOptions
from emulator.moving.source import SourceFolder, rows
from emulator.moving.words import chat_address, engagement, leave_channels, one_line, policy_of

_DATABASE = "data/v2.db"
_OLD_DATABASE = "store/messages.db"
_KNOWN_MIGRATIONS = frozenset(
    {
        *("initial-v2-schema", "chat-sdk-state", "pending-approvals", "agent-destinations", "dropped-messages"),
        *("pending-approvals-title-options", "drop-pending-credentials", "engage-modes", "pending-sender-approvals"),
        *("channel-registration", "approval-render-metadata", "container-configs", "cli-scope"),
    }
)
_WRITTEN_ANEW = ("CLAUDE.md", "container.json", "CLAUDE.local.md")
_UNTAKEN = ("effort", "mcp_servers", "packages_apt", "packages_npm", "additional_mounts", "skills", "image_tag")
_EMPTY = (None, "", "{}", "[]", '"all"')


def read(source: SourceFolder, options: MoveOptions) -> MovePlan:
    """The plan for a checkout of NanoClaw, of version 2 or 1.

    Raises:
        EmulatorError: it is none, can't be read, or something must be said first.
    """
    env = read_env(source)
    if source.has(_DATABASE):
        version = str((source.json("package.json") or {}).get("version", "2"))
        plan = MovePlan("nanoclaw", version, options.prefix)
        if source.has(_OLD_DATABASE):
            plan.leave(_OLD_DATABASE, "the checkout was upgraded from version 1, and the newer database counts")
        _Reader(source, plan, options, env).read()
    elif source.has(_OLD_DATABASE):
        plan = nanoclaw_v1.read(source, options, env)
    else:
        raise errors.DoesNotExist(
            f"{source.root} is no checkout of NanoClaw: it has neither {_DATABASE} nor {_OLD_DATABASE}"
        )
    _tell_secrets(plan, env)
    return plan


def read_env(source: SourceFolder) -> dict[str, str]:
    """``.env``, by name. Only TZ of it is ever used or shown."""
    found = {}
    for line in (source.text(".env") or "").splitlines():
        name, is_set, value = line.strip().partition("=")
        if is_set and not name.startswith("#"):
            found[name.removeprefix("export ").strip()] = value.strip().strip("\"'")
    return found


def _tell_secrets(plan: MovePlan, env: dict[str, str]) -> None:
    plan.bots += [channel for channel, (name, _) in TOKENS.items() if env.get(name)]
    ours = {name for name, _ in TOKENS.values()} | {"DISCORD_PUBLIC_KEY"}
    given = sorted(ours & env.keys())
    if given:
        plan.leave(
            f"{', '.join(given)} in .env",
            "an import reads no secret",
            "give them to Postroom in its environment, under the same names (docs/channels)",
        )
    others = sorted(name for name in env if name not in ours and name not in ("TZ", "ASSISTANT_NAME"))
    if others:
        plan.leave(f"{', '.join(others)} in .env", "an import reads no secret", "check which of them are still wanted")


class _Reader:
    """Reads the central database of version 2 into the plan."""

    def __init__(self, source: SourceFolder, plan: MovePlan, options: MoveOptions, env: dict[str, str]) -> None:
        self._source = source
        self._plan = plan
        self._options = options
        self._zone = options.timezone or env.get("TZ") or None
        self._agents: dict[str, str] = {}  # their id: ours
        self._chats: dict[str, dict[str, str]] = {}  # their id: the address
        self._is_group: dict[str, bool] = {}

    def read(self) -> None:
        with self._source.database(_DATABASE) as conn:
            self._check_version(conn)
            self._read_agents(conn)
            self._read_chats(conn)
            self._read_wirings(conn)
            self._read_people(conn)
            self._read_destinations(conn)
            self._tell_rest(conn)
            sessions = {(each["agent_group_id"], each["id"]) for each in rows(conn, "sessions")}
            known = {"main", *(str(each["folder"]) for each in rows(conn, "agent_groups"))}
        read_tasks(self._source, self._plan, self._options, self._zone, self._agents, sessions)
        for name in self._source.folders("groups"):
            if name not in known:
                self._plan.leave(f"groups/{name}", "no agent of the database has this folder", "copy what you want")

    def _check_version(self, conn: apsw.Connection) -> None:
        newer = sorted({str(each["name"]) for each in rows(conn, "schema_version")} - _KNOWN_MIGRATIONS)
        if newer:
            self._plan.leave(
                f"what NanoClaw added since 2.0.64 ({', '.join(newer)})",
                "this import does not know these tables and columns",
                "compare the agents and schedules with NanoClaw's own before you stop it",
            )

    def _read_agents(self, conn: apsw.Connection) -> None:
        configs = {each["agent_group_id"]: each for each in rows(conn, "container_configs")}
        for each in sorted(rows(conn, "agent_groups"), key=lambda row: str(row["created_at"])):
            folder = str(each["folder"])
            config = configs.get(each["id"], {})
            if not config:
                self._plan.leave(f"the settings of {folder}", "NanoClaw has none; the defaults are taken")
            id_ = self._plan.fit_id(folder)
            self._agents[each["id"]] = id_
            self._plan.agents[id_] = self._agent(each, config, id_, folder)
            self._tell_config(id_, config)

    def _agent(self, row: dict[str, Any], config: dict[str, Any], id_: str, folder: str) -> dict[str, Any]:
        provider = config.get("provider") or row.get("agent_provider") or "claude"
        agent: dict[str, Any] = {
            "name": one_line(config.get("assistant_name") or row["name"]) or id_,
            "provider": provider,
            "batch_size": max(1, min(int(config.get("max_messages_per_prompt") or 10), 1000)),
        }
        if config.get("model"):
            agent["model"] = str(config["model"])
        if self._zone:
            agent["timezone"] = self._zone
        if provider not in ("claude", "codex", "opencode"):
            agent["provider"] = "claude"
            self._plan.leave(
                f"the provider {provider!r} of {id_}",
                "Postroom has none of this name; it is claude here",
                f"emulator agents set {id_} --provider NAME",
            )
        if "/" in folder or folder in ("", ".", ".."):
            self._plan.leave(f"the folder {folder!r} of {id_}", "it leads out of groups/, and nothing outside is read")
            return agent
        if instructions := (self._source.text(f"groups/{folder}/CLAUDE.local.md") or "").strip():
            agent["instructions"] = instructions
        for file in self._source.files(f"groups/{folder}"):
            if file.path not in _WRITTEN_ANEW and not file.path.startswith(".claude-"):
                self._plan.copy_file(self._source, file, f"groups/{folder}", id_)
        return agent

    def _tell_config(self, id_: str, config: dict[str, Any]) -> None:
        other = [name for name in _UNTAKEN if config.get(name) not in _EMPTY]
        if other:
            self._plan.leave(
                f"{', '.join(other)} of {id_}",
                "they are of NanoClaw's containers, and may hold secrets, so their values are not shown",
                "emulator tool-servers add NAME -- COMMAND" if "mcp_servers" in other else "",
            )

    def _read_chats(self, conn: apsw.Connection) -> None:
        elsewhere: dict[str, int] = {}
        for each in rows(conn, "messaging_groups"):
            channel = str(each["channel_type"])
            found = chat_address(channel, str(each["platform_id"]), is_group=bool(each["is_group"]))
            if found is None:
                elsewhere[channel] = elsewhere.get(channel, 0) + 1
                continue
            platform_id, is_group = found
            self._is_group[each["id"]] = is_group
            self._chats[each["id"]] = self._plan.add_chat(
                channel,
                platform_id,
                isGroup=is_group,
                name=one_line(each["name"]) or None,
                senderPolicy=policy_of(each["unknown_sender_policy"]),
                refused=each.get("denied_at") is not None,
            )
        leave_channels(self._plan, elsewhere, "chats")

    def _read_wirings(self, conn: apsw.Connection) -> None:
        elsewhere = 0
        for each in rows(conn, "messaging_group_agents"):
            address, agent = self._chats.get(each["messaging_group_id"]), self._agents.get(each["agent_group_id"])
            if address is None or agent is None:
                elsewhere += 1
                continue
            is_group = self._is_group[each["messaging_group_id"]]
            session_mode = str(each["session_mode"])
            if session_mode == "shared" and is_group and address["channel"] == "discord":
                session_mode = "per-thread"  # as NanoClaw does there, whatever the row says
            self._plan.add_wiring(
                address,
                agent,
                **engagement(
                    self._plan, each.get("engage_mode"), each.get("engage_pattern"), f"{agent} in {_place(address)}"
                ),
                senderScope="all" if each.get("sender_scope") == "all" else "known",
                ignoredMessagePolicy="accumulate" if each.get("ignored_message_policy") == "accumulate" else "drop",
                sessionMode=session_mode,
                priority=int(each["priority"] or 0),
            )
        self._plan.leave_counted(elsewhere, "wirings", "their chat or their agent does not come along")

    def _read_people(self, conn: apsw.Connection) -> None:
        roles, members = rows(conn, "user_roles"), rows(conn, "agent_group_members")
        dms = {each["user_id"]: each["messaging_group_id"] for each in rows(conn, "user_dms")}
        wanted = {each["user_id"] for each in roles + members} | dms.keys()
        elsewhere: dict[str, int] = {}
        strangers = 0
        for each in rows(conn, "users"):
            channel, _, sender_id = str(each["id"]).partition(":")
            if channel not in CHANNELS:
                elsewhere[channel] = elsewhere.get(channel, 0) + 1
            elif each["id"] not in wanted:
                strangers += 1
            elif not sender_id.isdecimal():
                self._plan.leave(f"the user {each['id']}", f"{sender_id!r} is no id of {channel}", "emulator pair")
            else:
                user = self._plan.add_user(channel, sender_id, one_line(each["display_name"]))
                user["roles"] = self._roles([role for role in roles if role["user_id"] == each["id"]], each["id"])
                user["memberOf"] = [
                    self._agents[member["agent_group_id"]]
                    for member in members
                    if member["user_id"] == each["id"] and member["agent_group_id"] in self._agents
                ]
                if (direct := self._chats.get(dms.get(each["id"], ""))) is not None:
                    user["directChat"] = direct
        leave_channels(self._plan, elsewhere, "people")
        self._plan.leave_counted(strangers, "people without a role or a membership", "they are strangers here too")

    def _roles(self, found: list[dict[str, Any]], user: str) -> list[dict[str, Any]]:
        """The roles, each once: NanoClaw may have one for everything twice."""
        made: list[dict[str, Any]] = []
        for each in found:
            agent = self._agents.get(each["agent_group_id"]) if each["agent_group_id"] is not None else None
            if each["role"] not in ("owner", "admin") or (each["agent_group_id"] is not None and agent is None):
                self._plan.leave(f"the role {each['role']!r} of {user}", "its agent is gone, or Postroom has none such")
                continue
            role = {"role": each["role"], "agent": None if each["role"] == "owner" else agent}
            if role not in made:
                made.append(role)
        return made

    def _read_destinations(self, conn: apsw.Connection) -> None:
        gone = 0
        for each in rows(conn, "agent_destinations"):
            agent = self._agents.get(each["agent_group_id"])
            is_agent = each["target_type"] == "agent"
            target = (self._agents if is_agent else self._chats).get(each["target_id"])
            if agent is None or target is None or target == agent:
                gone += 1
                continue
            name = destination_name(str(each["local_name"]), "target")
            there = {"toAgent": target} if is_agent else {"chat": target}
            self._plan.destinations.append({"agent": agent, "name": name, **there})
        self._plan.leave_counted(
            gone, "destinations", "their target is gone, is the agent itself, or does not come along"
        )

    def _tell_rest(self, conn: apsw.Connection) -> None:
        for table, what in (
            ("pending_questions", "questions that wait for an answer"),
            ("pending_approvals", "approvals that wait"),
            ("pending_sender_approvals", "strangers who wait for an approval"),
            ("pending_channel_approvals", "chats that wait for an approval"),
        ):
            self._plan.leave_counted(len(rows(conn, table)), what, "decide them there, or they are asked again here")
        self._plan.leave_counted(
            len(rows(conn, "sessions")),
            "sessions",
            "a model's conversation can't move: agents keep their files, and start over",
        )


def _place(address: dict[str, str]) -> str:
    return f"{address['channel']} {address['platformId']}"
