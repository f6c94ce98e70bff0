"""The sessions of the fake Gateway: which events each gets, their numbers, and what a resume repeats.

Source: https://discord.com/developers/docs/events/gateway (intents, sequence numbers, resuming)
"""

import secrets
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from emulator.platforms.store import FakeChat

GUILDS, GUILD_MESSAGES, GUILD_REACTIONS = 1 << 0, 1 << 9, 1 << 10
DIRECT_MESSAGES, DIRECT_REACTIONS, MESSAGE_CONTENT = 1 << 12, 1 << 13, 1 << 15
PRIVILEGED = 1 << 1 | 1 << 8 | MESSAGE_CONTENT
ALL_INTENTS = (1 << 26) - 1
KEPT_EVENTS = 1000  # of each session, for a resume
_HIDDEN: Mapping[str, Any] = {"content": "", "embeds": [], "attachments": [], "components": []}

Send = Callable[[Mapping[str, Any]], None]


class GatewaySession(msgspec.Struct):
    """One session. *send* queues a payload on its connection; None while it has no connection."""

    id: str
    intents: int
    send: Send | None
    seq: int = 0
    kept: deque[dict[str, Any]] = msgspec.field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))

    def dispatch(self, name: str, data: Mapping[str, Any]) -> None:
        """Number an event, keep it, and send it if there is a connection."""
        self.seq += 1
        payload = {"op": 0, "s": self.seq, "t": name, "d": data}
        self.kept.append(payload)
        if self.send is not None:
            self.send(payload)

    def missed(self, seq: int) -> list[dict[str, Any]] | None:
        """The events after *seq*; None if some of them are no longer kept."""
        after = [payload for payload in self.kept if payload["s"] > seq]
        return after if len(after) == self.seq - seq else None


class GatewaySessions:
    """All sessions, in memory: a restart of the fake ends them, and clients identify again."""

    def __init__(self, application_id: str) -> None:
        self._application_id = application_id
        self._sessions: dict[str, GatewaySession] = {}

    def open(self, intents: int, send: Send) -> GatewaySession:
        session = GatewaySession(secrets.token_hex(16), intents, send)
        self._sessions[session.id] = session
        return session

    def get(self, session_id: str) -> GatewaySession | None:
        return self._sessions.get(session_id)

    def end(self, session: GatewaySession) -> None:
        self._sessions.pop(session.id, None)

    @property
    def all(self) -> list[GatewaySession]:
        return list(self._sessions.values())

    def publish(self, name: str, chat: FakeChat | None, data: Mapping[str, Any]) -> None:
        """An event of *chat* for every session that asked for it; None: for all sessions."""
        needed = _intent(name, chat)
        for session in tuple(self._sessions.values()):
            if needed == 0 or session.intents & needed:
                session.dispatch(name, self._visible(session, name, chat, data))

    def _visible(
        self, session: GatewaySession, name: str, chat: FakeChat | None, data: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Without the intent for contents, an app reads only direct messages, its own, and those that mention it."""
        if name not in ("MESSAGE_CREATE", "MESSAGE_UPDATE") or session.intents & MESSAGE_CONTENT:
            return data
        is_open = chat is None or chat.kind == "dm" or data["author"]["id"] == self._application_id
        if is_open or any(user["id"] == self._application_id for user in data["mentions"]):
            return data
        return {**data, **_HIDDEN}


def _intent(name: str, chat: FakeChat | None) -> int:
    """The intent that an event needs; 0: every session gets it."""
    is_dm = chat is not None and chat.kind == "dm"
    if name.startswith("MESSAGE_REACTION_"):
        return DIRECT_REACTIONS if is_dm else GUILD_REACTIONS
    if name.startswith("MESSAGE_"):
        return DIRECT_MESSAGES if is_dm else GUILD_MESSAGES
    return GUILDS if name.startswith(("GUILD_", "CHANNEL_", "THREAD_")) else 0
