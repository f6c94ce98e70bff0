"""What an agent is told besides its instructions."""

from shared.agents import briefing


def test_its_own_instructions_come_last_and_whole():
    assert briefing.text("Be short.\n").endswith("\n\nBe short.")
    assert "<message>" in briefing.text("")
