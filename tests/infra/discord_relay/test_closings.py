"""What follows each end of a connection."""

import pytest

from infra.discord_relay import closings


@pytest.mark.parametrize(
    ("code", "following"),
    [
        *((code, "resume") for code in (None, 1000, 1001, 1006, 4000, 4001, 4002, 4003, 4005, 4008, 4999)),
        *((code, "identify") for code in (4007, 4009)),
        *((code, "stop") for code in (4004, 4010, 4011, 4012, 4013, 4014)),
    ],
)
def test_a_close_code_says_what_follows(code, following):
    assert closings.after_close(code) == following
    if following == "stop":
        assert len(closings.sentence(code)) > 40


def test_our_own_code_keeps_the_session():
    assert closings.OURS not in (1000, 1001)
    assert closings.after_close(closings.OURS) == "resume"
