"""What an agent is told besides its instructions."""

from shared.agents import briefing


def test_its_own_instructions_come_last_and_whole():
    assert briefing.text("Be short.\n").endswith("\n\nBe short.")
    assert "<message>" in briefing.text("")


def test_an_agent_that_writes_files_is_told_where_they_are_sent_from():
    told = briefing.text("", outbox="sessions/session_a/outbox")
    assert "sessions/session_a/outbox" in told
    assert "`shared` in it is one for all of your conversations" in told
    assert "send_file" not in briefing.text("")
