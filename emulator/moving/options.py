"""What a person says about a folder that is moved in, because no file in it does."""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple


class MoveOptions(NamedTuple):
    """*now*: earlier instants are past. *answers*: the chat (channel, id) for schedules whose answers reached nobody.

    *same_agents*: an agent that has an id here is the same one, whatever its name.
    *crontab*, *allowlist*: files that the other program keeps outside its folder.
    """

    now: datetime
    timezone: str | None = None
    prefix: str = ""
    same_agents: bool = False
    answers: tuple[str, str] | None = None
    crontab: Path | None = None
    allowlist: Path | None = None
