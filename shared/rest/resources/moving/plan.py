"""What another program's folder becomes here, as ``POST /api/imports`` takes it."""

from typing import ClassVar

from pydantic import Field

from shared.core.policy import SenderPolicy
from shared.db.access.user_roles import RoleName
from shared.rest.http.endpoint import Body
from shared.rest.resources.channels.chats import WiringChangeBody
from shared.rest.resources.messages import ChannelName, ChannelOrAccount
from shared.roster import agents_and_teams

_MOST = 1000
_AGENT = Field(min_length=1, max_length=64)


class ImportedAgent(agents_and_teams.AgentChange):
    """An agent; what is left out has its default."""


class ImportedTeam(agents_and_teams.TeamChange):
    """A team; what is left out has its default."""


class ChatAddress(Body):
    """A chat, as its platform names it."""

    channel: ChannelOrAccount
    platformId: str = Field(min_length=1, max_length=200)


class ImportedChat(ChatAddress):
    """A chat. *refused*: no agent is wanted there."""

    isGroup: bool = False
    name: str | None = Field(default=None, max_length=200)
    senderPolicy: SenderPolicy = "strict"
    refused: bool = False


class ImportedWiring(WiringChangeBody):
    """An agent that answers in a chat of the plan."""

    channel: ChannelOrAccount
    platformId: str = Field(min_length=1, max_length=200)
    agent: str = _AGENT


class ImportedRole(Body):
    """*agent*: the role is for this agent; without it, for everything."""

    role: RoleName
    agent: str | None = Field(default=None, max_length=64)


class ImportedUser(Body):
    """A person. *memberOf*: agents that they may talk to; *directChat*: where they are reached."""

    channel: ChannelName
    senderId: str = Field(min_length=1, max_length=200)
    name: str = Field(default="", max_length=200)
    roles: list[ImportedRole] = Field(default=[], max_length=_MOST)
    memberOf: list[str] = Field(default=[], max_length=_MOST)
    directChat: ChatAddress | None = None


class ImportedDestination(Body):
    """Where an agent may send, under *name*: the chat, or the agent *toAgent*."""

    agent: str = _AGENT
    name: str = Field(min_length=1, max_length=64)
    chat: ChatAddress | None = None
    toAgent: str | None = Field(default=None, max_length=64)


class ImportedSchedule(Body):
    """A schedule, known by its *label*. *chat*: what gets the answers; without it, a client fetches them."""

    label: str = Field(min_length=1, max_length=200)
    agentId: str = _AGENT
    message: str = Field(min_length=1)
    cron: str | None = Field(default=None, max_length=200)
    runAt: str | None = Field(default=None, max_length=100)
    timezone: str | None = Field(default=None, max_length=100)
    enabled: bool = True
    chat: ChatAddress | None = None
    isOwnSession: bool = False
    script: str = Field(default="", max_length=20_000)


class ImportedHeartbeat(Body):
    """A heartbeat: *interval* in seconds."""

    content: str = Field(default="", max_length=100_000)
    interval: int = Field(ge=60, le=86_400)


class ImportBody(Body):
    """Agents and teams by id, heartbeats by agent. *source*: the program that they come from.

    *sameAgents*: an agent that has an id here is the same one, also where it has another name.
    """

    sentences: ClassVar = {"source": "source: the program that this comes from"}

    source: str = Field(min_length=1, max_length=64)
    sameAgents: bool = False
    agents: dict[str, ImportedAgent] = Field(default={}, max_length=_MOST)
    teams: dict[str, ImportedTeam] = Field(default={}, max_length=_MOST)
    chats: list[ImportedChat] = Field(default=[], max_length=_MOST)
    wirings: list[ImportedWiring] = Field(default=[], max_length=_MOST)
    users: list[ImportedUser] = Field(default=[], max_length=_MOST)
    destinations: list[ImportedDestination] = Field(default=[], max_length=_MOST)
    schedules: list[ImportedSchedule] = Field(default=[], max_length=_MOST)
    heartbeats: dict[str, ImportedHeartbeat] = Field(default={}, max_length=_MOST)
