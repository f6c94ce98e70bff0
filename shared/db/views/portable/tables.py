"""Each table of the database: taken out by an export, or named with the reason why not. Of those that are taken, which
rows belong to a person, and whether the person's being forgotten deletes them.

The rules have ``:platform`` and ``:sender_id``; a new table is in one of the two lists, or a test fails.
"""

from collections.abc import Mapping
from typing import NamedTuple

from shared.db.queue import forgotten_people
from shared.db.roster import memory_lines

_OF_PLATFORM = "(channel = :platform OR channel GLOB :platform || '.*')"
_USER = "(SELECT id FROM users WHERE channel = :platform AND sender_id = :sender_id)"
_WROTE = f"sender_id = :sender_id AND {_OF_PLATFORM}"
_DIRECT = f"""
    (SELECT chat_id FROM user_dms WHERE user_id IN {_USER}
      UNION
     SELECT id FROM chats
      WHERE {_OF_PLATFORM} AND is_group = 0 AND (platform_id = :sender_id OR opens_for = :sender_id))
"""
_SESSIONS = f"""
    (SELECT s.id FROM sessions s LEFT JOIN chats c ON c.id = s.chat_id
      WHERE s.chat_id IN {_DIRECT}
         OR (s.private_to = :sender_id AND (c.channel = :platform OR c.channel GLOB :platform || '.*')))
"""
_THEIR_MESSAGES = f"({_WROTE}) OR chat_id IN {_DIRECT} OR session_id IN {_SESSIONS}"
_MESSAGE_ROWS = f"(SELECT id FROM messages WHERE {_THEIR_MESSAGES})"
_MESSAGE_IDS = f"(SELECT message_id FROM messages WHERE {_THEIR_MESSAGES})"
_THEIR_RESPONSES = f"({_THEIR_MESSAGES} OR in_reply_to IN {_MESSAGE_ROWS})"
_RESPONSE_ROWS = f"(SELECT id FROM responses WHERE {_THEIR_RESPONSES})"
_APPROVAL_ROWS = f"(SELECT id FROM approvals WHERE user_id IN {_USER} OR approver IN {_USER})"
_SERIES = f"""
    (SELECT series_id FROM messages WHERE series_id IS NOT NULL AND ({_THEIR_MESSAGES})
      UNION
     SELECT series_id FROM responses WHERE series_id IS NOT NULL AND {_THEIR_RESPONSES})
"""


class PortableTable(NamedTuple):
    """A table that an export has.

    Args:
        says: what its rows are.
        person: which rows are a person's; empty: none is.
        is_forgotten: forgetting the person deletes these rows.
        left_out: columns that no export has: what proves something, or means nothing elsewhere.
    """

    name: str
    says: str
    person: str = ""
    is_forgotten: bool = False
    left_out: tuple[str, ...] = ()


TABLES: tuple[PortableTable, ...] = (
    PortableTable("agents", "Agents with their settings. `retired_at`: since when one is only named by older rows."),
    PortableTable("teams", "Teams and their leaders."),
    PortableTable("team_members", "The agents of each team, in order."),
    PortableTable("accounts", "Bots and apps of platforms, without their tokens, which are in the environment."),
    PortableTable("chats", "Chats, with their policy for strangers.", f"id IN {_DIRECT}"),
    PortableTable("wirings", "Which agent answers in which chat, and when."),
    PortableTable("sticky_threads", "Threads in which an agent answers without a mention."),
    PortableTable("destinations", "Where each agent may send, by its own names."),
    PortableTable(
        "users", "People, each by platform and id there.", "channel = :platform AND sender_id = :sender_id", True
    ),
    PortableTable("user_roles", "Owners and admins.", f"user_id IN {_USER}", True),
    PortableTable("members", "Who may talk to which agent, and who is refused.", f"user_id IN {_USER}", True),
    PortableTable("user_dms", "The direct chat of each person.", f"user_id IN {_USER}", True),
    PortableTable("pairings", "Pairing codes, without the codes.", f"used_by IN {_USER}", left_out=("code_hash",)),
    PortableTable("sessions", "Sessions of agents.", f"id IN {_SESSIONS}", left_out=("continuation",)),
    PortableTable(
        "messages",
        "What came in, and tasks. Rows with a `series_id` are schedules: the live one is `pending` or `paused`.",
        _THEIR_MESSAGES,
        left_out=("claimed_by", "lease", "event_key"),
    ),
    PortableTable(
        "responses",
        "What agents answered and sent, and reminders. Rows with a `series_id` are schedules too.",
        _THEIR_RESPONSES,
        left_out=("claimed_by", "lease"),
    ),
    PortableTable(
        "events",
        "The story of each message and response.",
        f"message_id IN {_MESSAGE_IDS} OR response_id IN {_RESPONSE_ROWS}",
    ),
    PortableTable("schedule_runs", "The runs of schedules.", f"series_id IN {_SERIES}"),
    PortableTable("missed_runs", "Runs of schedules that did not happen, and why.", f"series_id IN {_SERIES}"),
    PortableTable("agent_messages", "The history of each agent.", forgotten_people.OF_PERSON, True),
    PortableTable("memory_lines", "What agents wrote down to remember.", memory_lines.OF_PERSON, True),
    PortableTable("chat_messages", "What was said in teams' rooms.", _WROTE),
    PortableTable(
        "approvals",
        "Questions to approvers, and how they were decided.",
        f"user_id IN {_USER} OR approver IN {_USER}",
        True,
    ),
    PortableTable("held", "Messages that wait for an approval.", f"approval_id IN {_APPROVAL_ROWS}", True),
    PortableTable("permissions", "What agents' programs may do without a question.", f"granted_by IN {_USER}", True),
    PortableTable(
        "questions",
        "Questions of agents, and the answers.",
        f"session_id IN {_SESSIONS} OR chat_id IN {_DIRECT} OR message_id IN {_MESSAGE_IDS}",
    ),
    PortableTable("dropped", "Messages that no agent got, and why, without their text.", _WROTE),
    PortableTable("albums", "Albums, of which each has several files.", _WROTE),
    PortableTable("album_pieces", "The pieces of albums.", f"album_id IN (SELECT id FROM albums WHERE {_WROTE})"),
    PortableTable("spoken", "What agents sent while their turns ran.", f"response IN {_RESPONSE_ROWS}"),
    PortableTable(
        "usage",
        "The tokens and the cost (in millionths of a dollar) of each turn.",
        f"EXISTS (SELECT 1 FROM json_each(usage.messages) WHERE value IN {_MESSAGE_IDS})",
    ),
    PortableTable("budgets", "What agents may spend."),
    PortableTable("agent_pauses", "Agents that do not work now, and why."),
    PortableTable("tool_servers", "Tool servers that agents may have."),
    PortableTable("agent_tool_servers", "Which agent has which tool server."),
    PortableTable("alerts", "Problems that were found."),
    PortableTable("alert_routes", "Which routes are notified of problems."),
    PortableTable("alert_tellings", "Which problems were reported, by which route."),
)

_WORK = "it is about work under way, and means nothing elsewhere"
_PLATFORM = "it is what this machine knows of a platform at the moment"

NOT_TAKEN: Mapping[str, str] = {
    "agent_pause_notices": _WORK,
    "call_buckets": _PLATFORM,
    "call_holds": _PLATFORM,
    "chain_agents": _WORK,
    "chains": _WORK,
    "channel_outages": _PLATFORM,
    "channel_pauses": _PLATFORM,
    "channel_watches": _PLATFORM,
    "conversations": _WORK,
    "drafts": _WORK,
    "event_keys": "it only keeps an event of a platform from being taken twice",
    "event_totals": "it only counts the rows of events, also those that are deleted",
    "forgotten_people": "it names people whose rows are being deleted",
    "meta": "it names this database to its replica; the manifest has the number of the schema",
    "polled_channels": _WORK,
    "progress_lines": _WORK,
    "rates": "it only counts how fast somebody writes, for minutes",
    "refused_calls": _PLATFORM,
    "restore_proofs": "it describes the replica of this machine",
    "tool_calls": "it only keeps a tool call from being done twice in one turn",
    "unknown_sends": _WORK,
}
