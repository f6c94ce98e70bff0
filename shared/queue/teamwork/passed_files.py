"""Files that go from agent to agent: copies on this host, which the row of the message names as attachments.

The copy is on the disk before its row is. The turn of the other agent writes it into the inbox of its session, like a
file that a person sent (``turns.run.files``). What waits for an agent is limited as its inboxes are.
"""

import json
from collections.abc import Sequence

import apsw

from shared.agents.session_files import LARGEST_RECEIVED_BYTES
from shared.channels.base import OutgoingFile
from shared.channels.downloads import megabytes
from shared.core.errors import WrongState
from shared.db.queue import mailbox
from shared.db.roster import agents

MOST_FILES = 20  # of one message: its inbox takes no more


def checked(conn: apsw.Connection, recipients: Sequence[str], files: Sequence[OutgoingFile], limit_mb: int) -> str:
    """The text for the column ``files``.

    Args:
        limit_mb: of what an agent's inboxes hold, where the agent has no limit of its own.

    Raises:
        WrongState: the agents can't be given these files, or one of them has too many waiting.
    """
    if not files:
        return "[]"
    if len(files) > MOST_FILES:
        raise WrongState(f"{len(files)} files are too many: {MOST_FILES} is the most of one message")
    for file in files:
        if file.size > LARGEST_RECEIVED_BYTES:
            most = megabytes(LARGEST_RECEIVED_BYTES)
            raise WrongState(f"the file {file.name} is larger than {most}, the most for an agent")
    size = sum(file.size for file in files)
    for recipient in recipients:
        agent = agents.get(conn, recipient)
        limit = ((agent.files_limit_mb if agent is not None else None) or limit_mb) * 1024**2
        if mailbox.waiting_bytes(conn, recipient) + size > limit:
            raise WrongState(
                f"agent {recipient!r} may have {megabytes(limit)} of files waiting, and these are too many"
            )
    return json.dumps([
        {
            "kind": each.kind,
            "name": each.name,
            "mime": each.media_type,
            "size": each.size,
            "file_id": f"{each.path.parent.name}/{each.path.name}",
        }
        for each in files
    ])  # fmt: skip


def with_answer(
    conn: apsw.Connection, recipients: Sequence[str], text: str, files: Sequence[OutgoingFile], limit_mb: int
) -> tuple[str, str]:
    """The answer and the text for the column ``files``. What can't go along is told in the answer: that always goes."""
    try:
        return text, checked(conn, recipients, files, limit_mb)
    except WrongState as error:
        return "\n\n".join(filter(str.strip, [text, f"(Its files were not sent: {error}.)"])), "[]"
