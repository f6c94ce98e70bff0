"""How the message of an alert stands, in words."""

import pytest

from shared.conversation.alerts import words
from shared.db.alerts.alert_routes import WEBHOOK
from shared.db.views import why
from tests.support import NOW, answer


@pytest.mark.parametrize(
    ("channel", "change", "state", "reason"),
    [
        ("telegram", "status = 'pending'", "answer_due", "The alert, response 1, goes out within seconds."),
        (WEBHOOK, "status = 'pending'", "answer_retry", "The alert, response 1, is posted to the webhook each minute"),
        (
            *("telegram", "status = 'dead', last_error = 'chat not found'", "answer_dead"),
            "The alert, response 1, could not be sent: chat not found. Send it again, or discard it.",
        ),
        ("telegram", "status = 'acked', acked_at = 1", "answered", "Response 1 was sent."),
        ("telegram", "status = 'deleted'", "gone", "The message of the alert is deleted."),
    ],
    ids=["due", "webhook", "dead", "sent", "deleted"],
)
def test_the_message_of_an_alert_says_how_it_stands(conn, channel, change, state, reason):
    row = answer(conn, "It fills", channel=channel)
    conn.execute(f"UPDATE responses SET {change}")
    found = words.delivery(why.response(conn, row, now_ms=NOW), now_ms=NOW)
    assert found.state == state
    assert found.reason.startswith(reason)


def test_a_message_that_was_pruned_is_gone():
    assert words.delivery(None, now_ms=NOW).state == "gone"
