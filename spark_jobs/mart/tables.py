"""Which tables a mart holds, how each one grows, and which of its columns hold what people wrote, or who they are."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MartTable:
    """One table of the mart.

    Args:
        by: the column with the instant that decides the day; empty: the table is small and is written whole each time.
        open_states: states of rows that may change without an event.
        has_updates: rows change, and ``updated_at`` says when. With neither, a row never changes once it is written.
        text: columns with what people or agents wrote.
        people: columns that tell who a person is.
        left_out: columns that no mart holds.
    """

    name: str
    by: str = "created_at"
    open_states: tuple[str, ...] = ()
    has_updates: bool = False
    text: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


ALL = (
    MartTable("events"),
    MartTable(
        "messages",
        open_states=("pending", "processing", "paused"),
        text=("message", "content", "files", "script", "last_error"),
        people=("sender", "sender_id", "platform_id"),
        left_out=("claimed_by", "event_key"),
    ),
    MartTable(
        "responses",
        open_states=("pending", "delivering", "paused"),
        text=("message", "original_message", "content", "files", "metadata", "last_error", "also", "unsent_files"),
        people=("sender", "sender_id", "platform_id"),
        left_out=("claimed_by",),
    ),
    MartTable("agent_messages", text=("content",), people=("sender", "sender_id")),
    MartTable("chat_messages", text=("message",), people=("sender_id",)),
    MartTable("schedule_runs", by="started_at"),
    MartTable("missed_runs", by="noted_at"),
    MartTable("usage", has_updates=True),
    MartTable("agents", by="", text=("instructions",), left_out=("config", "transcriber", "speaker")),
    MartTable("agent_pauses", by="", text=("reason",)),
    MartTable("budgets", by=""),
    MartTable("sessions", by="", people=("private_to",), left_out=("continuation",)),
    MartTable("chats", by="", text=("name",), people=("platform_id",), left_out=("opens_for",)),
    MartTable("users", by="", people=("sender_id", "name")),
    MartTable("user_dms", by=""),
    MartTable("teams", by=""),
    MartTable("team_members", by=""),
)
BY_NAME = {table.name: table for table in ALL}
