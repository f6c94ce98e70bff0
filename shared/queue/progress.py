"""What an agent does while its turn runs, as one line in the chat: sent once, then changed, then removed.

Each is a response, in the order of its chat. The line is no answer: it is nobody's turn, and nothing is said by it. The
caller owns the transaction, and kicks ``deliver``.
"""

import apsw

from shared.db.engine.connection import rows
from shared.db.platforms import progress_lines
from shared.db.platforms.progress_lines import ProgressLine
from shared.db.queue import claims, responses
from shared.db.queue.claims import Claim
from shared.db.queue.message_row import Message
from shared.db.views import own_responses
from shared.queue.replies import beside


def show(conn: apsw.Connection, claim: Claim, person: Message, text: str, *, now_ms: int) -> bool:
    """Let the turn's line say *text* to *person*. False: its last change is still on its way, or the turn is over."""
    if not claims.is_held(conn, claim):
        return False
    line = progress_lines.of_turn(conn, claim.token)
    if line is None:
        row = responses.enqueue(conn, beside(person, text, {}), now_ms=now_ms)
        progress_lines.add(conn, ProgressLine(claim.token, claim.agent, claim.session_id, row, row))
        return True
    if not all(_is_sent(conn, row) for row in {line.response, line.changed_by}):
        return False
    row = responses.enqueue(conn, beside(person, text, {"edits": line.response}), now_ms=now_ms)
    progress_lines.change(conn, claim.token, row)
    return True


def _is_sent(conn: apsw.Connection, response: int) -> bool:
    return bool(rows(conn, "SELECT 1 FROM responses WHERE id = :id AND status = 'acked'", {"id": response}))


def remove_old(conn: apsw.Connection, *, now_ms: int) -> int:
    """Remove the lines of turns that are over, behind what those said at their ends; how many."""
    removed = 0
    for line, is_removed in progress_lines.over(conn):
        shown = None if is_removed else own_responses.get(conn, line.response)
        if shown is None:
            progress_lines.delete(conn, line.turn)
        else:
            row = responses.enqueue(conn, beside(shown, "", {"removes": line.response}), now_ms=now_ms)
            progress_lines.change(conn, line.turn, row)
            removed += 1
    return removed
