"""How long one send may take; ``tests/functions/deliver/test_deliver.py`` has the sends themselves."""

import pytest

from shared.conversation.delivery.sender import send_limit_s


@pytest.mark.parametrize(
    ("lease_ms", "uploads", "limit_s"),
    [(600_000, False, 60), (600_000, True, 360), (10_000, False, 6), (10_000, True, 6)],
)
def test_an_upload_has_longer_than_a_text_and_no_send_outlasts_its_lease(lease_ms, uploads, limit_s):
    assert send_limit_s(lease_ms, uploads=uploads) == limit_s
