"""What a platform shows of a part that was sent without an answer, kept on the part's row."""

import apsw

from shared.channels.base import Evidence
from shared.db.platforms import unknown_sends
from shared.db.platforms.unknown_sends import EvidenceWord
from shared.db.queue.responses import Response


def settle(
    conn: apsw.Connection, response: Response, part: int, found: Evidence, *, now_ms: int
) -> tuple[EvidenceWord, str | None]:
    """Keep the evidence; the verdict, and the platform's id of the part where it arrived.

    A message that is known as a part of another response is no evidence of this one: people say the same thing twice.
    """
    verdict: EvidenceWord = found.verdict
    others = unknown_sends.are_of_other_responses(conn, response.chat_id, response.id, found.message_ids)
    ours = [id_ for id_ in found.message_ids if id_ not in others and id_ not in response.parts]
    if verdict == "arrived" and not ours:
        verdict = "absent"
    message_id = ours[0] if verdict == "arrived" else None
    unknown_sends.settle(conn, response.id, part, verdict, message_id, now_ms=now_ms)
    return verdict, message_id
