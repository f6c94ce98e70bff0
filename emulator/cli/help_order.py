"""The groups of ``emulator --help``, by what a person wants to do, and the order in them."""

from collections.abc import Mapping
from typing import Any

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Run it": ("run", "chat", "exec", "wait", "stop", "doctor", "validate", "version"),
    "Look after it": ("status", "top", "why", "alerts", "search", "logs", "queue", "dropped", "usage", "budgets"),
    "Agents and people": (
        *("agents", "teams", "accounts", "channel", "chats", "wirings", "users", "pair", "pairings"),
        *("destinations", "memory", "tool-servers", "approvals", "permissions", "seed", "diff", "tools"),
    ),
    "Work": ("messages", "responses", "sessions", "schedules"),
    "Try it out": ("requests", "invoke", "cron", "clock", "fault", "prove", "replay"),
    "Data": ("data", "db", "import", "export", "replica", "verify", "upgrade", "rollback"),
}


def in_order(commands: Mapping[str, Any]) -> list[str]:
    """The names of all commands, group by group; each command (of click) learns its group, which typer prints."""
    grouped = [(title, name) for title, names in GROUPS.items() for name in names if name in commands]
    for title, name in grouped:
        commands[name].rich_help_panel = title
    ordered = [name for _, name in grouped]
    return [*ordered, *(name for name in commands if name not in ordered)]
