"""Whether a program of an agent could call the API as well as its operator: where this host has no leash for it.

Such a program runs as our user on this machine. Without a token it could make itself an owner, so everybody needs one.
"""

from collections.abc import Collection

import apsw

from shared.agents import registry
from shared.agents.programs import containment
from shared.core.settings import Settings
from shared.db.roster import agents


def why_token(conn: apsw.Connection, settings: Settings) -> str | None:
    """Why each caller needs a token although none is set; None: no program runs here, or all are on a leash."""
    return None if settings.api_token else _why(settings, {each.provider: each.id for each in agents.every(conn)})


def why_refused(settings: Settings, providers: Collection[str]) -> str | None:
    """Why agents with these *providers* can't be saved: without a token nobody could call any more."""
    return None if settings.api_token else _why(settings, dict.fromkeys(providers, "that you save"))


def _why(settings: Settings, agents_by_provider: dict[str, str]) -> str | None:
    found = next((agent for name, agent in agents_by_provider.items() if name in registry.PROGRAMS), None)
    if found is None or settings.leash == "required":  # then no program starts without a leash
        return None
    held = containment.available(settings.leash)
    if held.is_leash:
        return None
    return (
        f"the agent {found} runs a program that could call this API, because {held.why_no_leash}: set "
        "POSTROOM_API_TOKEN, restart, and send 'Authorization: Bearer <token>'; "
        "or install bubblewrap (docs/agents/leash.md)"
    )
