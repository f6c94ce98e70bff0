"""Applies a plan of ``POST /api/imports``: what is there stays as it is, and what is missing is made.

So a second import makes nothing twice, and one that was interrupted is simply repeated. No right that an operator took
away comes back: a refused chat gets no agent, and a refused person becomes no member.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import apsw
from starlette.exceptions import HTTPException
from typing_extensions import TypedDict

from shared.conversation.access import people, requests
from shared.conversation.inbound import decisions
from shared.core.errors import ConfigInvalid, PostroomError
from shared.core.policy import AccessPolicy
from shared.core.row_settings import camel
from shared.db.access import user_dms, users
from shared.db.access.users import User
from shared.db.roster import agents, chats, destinations, teams
from shared.db.roster import wirings as stored_wirings
from shared.db.roster.chats import Chat
from shared.db.roster.wirings import SETTINGS
from shared.queue import series
from shared.rest.http.service import Service
from shared.rest.resources import schedules
from shared.rest.resources.moving.plan import (
    ChatAddress,
    ImportBody,
    ImportedChat,
    ImportedDestination,
    ImportedSchedule,
    ImportedUser,
    ImportedWiring,
)
from shared.rest.resources.tinyagi import heartbeats
from shared.roster import agents_and_teams, wirings

_FIELDS = {camel(name): name for name in SETTINGS}
_CARDS_AT_ONCE = 250  # as many as one sweep sends

Part = TypeVar("Part")


class ImportedItem(TypedDict):
    """*state*: it was ``made``, or is ``there`` already and stayed as it is. *note*: what an operator should know."""

    kind: str
    name: str
    state: Literal["made", "there"]
    note: str


class PlanWork:
    """One application of a plan. The caller owns the transaction, and rolls it back when this fails."""

    def __init__(self, conn: apsw.Connection, plan: ImportBody, service: Service, *, now_ms: int) -> None:
        self._conn = conn
        self._plan = plan
        self._service = service
        self._now_ms = now_ms
        self._by = f"import from {plan.source}"
        self._items: list[ImportedItem] = []
        self._problems: list[str] = []

    def run(self) -> list[ImportedItem]:
        """Do everything, in an order in which every reference exists.

        Raises:
            ConfigInvalid: parts of the plan are invalid; the message says which, and why, of all of them.
        """
        plan = self._plan
        for id_ in plan.agents:
            self._do("agent", id_, self._agent, id_)
        for id_ in plan.teams:
            self._do("team", id_, self._team, id_)
        for chat in plan.chats:
            self._do("chat", f"{chat.channel} {chat.platformId}", self._chat, chat)
        for wiring in plan.wirings:
            self._do("wiring", f"{wiring.agent} in {wiring.channel} {wiring.platformId}", self._wiring, wiring)
        for user in plan.users:
            self._do("user", f"{user.channel} {user.senderId}", self._user, user)
        for sending in plan.destinations:
            self._do("destination", f"{sending.agent} {sending.name}", self._destination, sending)
        for each in plan.schedules:
            self._do("schedule", each.label, self._schedule, each)
        for id_ in plan.heartbeats:
            self._do("heartbeat", id_, self._heartbeat, id_)
        if self._problems:
            raise ConfigInvalid("; ".join(self._problems))
        requests.show_pending(self._conn, limit=_CARDS_AT_ONCE, now_ms=self._now_ms)
        return self._items

    def _do(self, kind: str, name: str, make: Callable[[Part], tuple[bool, str]], part: Part) -> None:
        try:
            is_made, note = make(part)
        except (PostroomError, HTTPException) as error:
            self._problems.append(f"{kind} {name}: {getattr(error, 'detail', error)}")
            return
        self._items.append({"kind": kind, "name": name, "state": "made" if is_made else "there", "note": note})

    def _agent(self, id_: str) -> tuple[bool, str]:
        change = self._plan.agents[id_].model_dump(exclude_unset=True)
        known = agents.get(self._conn, id_)
        if known is not None and known.name != change.get("name", id_) and not self._plan.sameAgents:
            raise ConfigInvalid(
                f"this id is taken here by {known.name!r}, and people would reach that agent: give the plan's agents "
                "other ids, or set sameAgents if it is the same one"
            )
        if known is not None:
            return False, _differs(change, agents.settings(known))
        zone = self._service.settings.timezone
        saved = agents_and_teams.save_agent(self._conn, id_, change, timezone=zone, now_ms=self._now_ms)
        return True, "" if saved.is_new else "it was retired here, and is back"

    def _team(self, id_: str) -> tuple[bool, str]:
        change = self._plan.teams[id_].model_dump(exclude_unset=True)
        known = teams.get(self._conn, id_)
        if known is not None:
            return False, _differs(change, {**known._asdict(), "agents": list(known.agents)})
        agents_and_teams.save_team(self._conn, id_, change, now_ms=self._now_ms)
        return True, ""

    def _chat(self, wanted: ImportedChat) -> tuple[bool, str]:
        known = chats.find(self._conn, wanted.channel, wanted.platformId)
        if known is not None:
            return False, _differs({"sender_policy": wanted.senderPolicy}, known._asdict())
        made = chats.ensure(
            self._conn,
            wanted.channel,
            wanted.platformId,
            is_group=wanted.isGroup,
            name=wanted.name or None,
            sender_policy=wanted.senderPolicy,
            now_ms=self._now_ms,
        )
        if wanted.refused:
            chats.refuse(self._conn, made.id, now_ms=self._now_ms)
        return True, ""

    def _wiring(self, wanted: ImportedWiring) -> tuple[bool, str]:
        change = {
            _FIELDS[name]: value for name, value in wanted.model_dump(exclude_unset=True).items() if name in _FIELDS
        }
        chat = self._known(ChatAddress(channel=wanted.channel, platformId=wanted.platformId))
        known = wirings.settings_now(self._conn, chat.id, wanted.agent)
        if known is not None:
            return False, _differs(change, known)
        if chat.refused_at is not None:
            return False, f"chat {chat.id} is refused here, so no agent answers there"
        wirings.connect(self._conn, chat.id, wanted.agent, change, now_ms=self._now_ms)
        others = [each.agent for each in stored_wirings.of_chat(self._conn, chat.id) if each.agent != wanted.agent]
        ours = [each for each in others if each not in self._plan.agents]
        return True, f"{' and '.join(ours)} answers in chat {chat.id} too" if ours else ""

    def _user(self, wanted: ImportedUser) -> tuple[bool, str]:
        known = users.find(self._conn, wanted.channel, wanted.senderId)
        user = known or users.ensure(self._conn, wanted.channel, wanted.senderId, name=wanted.name, now_ms=self._now_ms)
        refused_by = people.standing(self._conn, user.channel, user.sender_id).refused_by
        given = self._rights(user, wanted, refused_by)
        if wanted.directChat is not None and user_dms.get(self._conn, user.id) is None:
            people.remember_direct_chat(self._conn, user.id, self._known(wanted.directChat).id, self._now_ms)
        policy = AccessPolicy.of(self._service.settings)
        decisions.reconsider(self._conn, user.id, by=self._by, policy=policy, now_ms=self._now_ms)
        left = sorted(refused_by & {*wanted.memberOf, *(each.agent for each in wanted.roles)})
        return known is None or given, f"{' and '.join(left)} refuses this person here, and that stays" if left else ""

    def _rights(self, user: User, wanted: ImportedUser, refused_by: frozenset[str]) -> bool:
        """Give the roles and the memberships that no refusal stands against; whether one of them is new."""
        given = False
        for each in wanted.roles:
            if not refused_by or (each.agent is not None and each.agent not in refused_by):
                given |= people.grant(self._conn, user.id, each.role, each.agent, by=self._by, now_ms=self._now_ms)
        for agent in wanted.memberOf:
            if agent not in refused_by:
                given |= people.add_member(self._conn, user.id, agent, by=self._by, now_ms=self._now_ms)
        return given

    def _destination(self, wanted: ImportedDestination) -> tuple[bool, str]:
        agents_and_teams.known_agent(self._conn, wanted.agent)
        chat = self._known(wanted.chat).id if wanted.chat is not None else None
        known = destinations.find(self._conn, wanted.agent, chat=chat, target_agent=wanted.toAgent)
        is_ours = self._was_made(f"{wanted.agent} in ", wanted.chat)
        if known is not None and known.name == wanted.name:
            return is_ours, ""
        if destinations.get(self._conn, wanted.agent, wanted.name) is not None:
            return False, f"{wanted.agent} has another destination of this name, which stays"
        if known is not None and not is_ours:
            return False, f"{wanted.agent} has it as {known.name}, which stays"
        destinations.put(
            self._conn, wanted.agent, name=wanted.name, chat=chat, target_agent=wanted.toAgent, now_ms=self._now_ms
        )
        return True, ""

    def _was_made(self, of: str, chat: ChatAddress | None) -> bool:
        """Whether this plan wired the agent to the chat, which gave the destination a name of ours."""
        name = f"{of}{chat.channel} {chat.platformId}" if chat is not None else ""
        return any(
            each["kind"] == "wiring" and each["name"] == name and each["state"] == "made" for each in self._items
        )

    def _schedule(self, wanted: ImportedSchedule) -> tuple[bool, str]:
        known = series.every(self._conn, label=wanted.label)
        if known:
            plan = known[0]
            change = {"agent": wanted.agentId, "text": wanted.message, "recurrence": wanted.cron or None}
            return False, _differs(change, {"agent": plan.agent, "text": plan.message, "recurrence": plan.recurrence})
        body = schedules.NewScheduleBody(
            agentId=wanted.agentId,
            message=wanted.message,
            cron=wanted.cron,
            runAt=wanted.runAt,
            label=wanted.label,
            timezone=wanted.timezone,
            enabled=wanted.enabled,
            chatId=self._known(wanted.chat).id if wanted.chat is not None else None,
            session="own" if wanted.isOwnSession else "chat",
            script=wanted.script,  # type: ignore[call-arg]  # a setting of the schedule
        )
        schedules.schedule(self._conn, body, self._service, now_ms=self._now_ms)
        return True, "" if wanted.enabled else f"it is paused: `emulator schedules resume {wanted.label}` starts it"

    def _heartbeat(self, id_: str) -> tuple[bool, str]:
        wanted = self._plan.heartbeats[id_]
        agent = agents_and_teams.known_agent(self._conn, id_)
        if heartbeats.find(self._conn, id_) is not None:
            return False, ""
        change = heartbeats.HeartbeatChange(content=wanted.content or None, enabled=True, interval=wanted.interval)
        heartbeats.make(self._conn, id_, change, agent.timezone, now_ms=self._now_ms)
        return True, ""

    def _known(self, address: ChatAddress) -> Chat:
        found = chats.find(self._conn, address.channel, address.platformId)
        if found is None:
            raise ConfigInvalid(f"the plan names no chat {address.channel} {address.platformId}")
        return found


def _differs(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    """A note where what is there has other settings than the plan."""
    other = [name for name, value in wanted.items() if name in stored and stored[name] != value]
    return f"it has another {', '.join(other)} here, which stays" if other else ""
