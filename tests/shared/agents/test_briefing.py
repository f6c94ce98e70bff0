"""What an agent is told besides its instructions."""

from shared.agents import briefing
from shared.agents.memory import MemoryFile
from shared.agents.skills import Skill
from tests.shared.agents.providers.a_turn import make_turn


def test_its_own_instructions_come_last_and_whole():
    assert briefing.text(make_turn(instructions="Be short.\n")).endswith("\n\nBe short.")
    assert "<message>" in briefing.text(make_turn())


def test_an_agent_that_writes_files_is_told_where_they_are_sent_from():
    told = briefing.text(make_turn(session="session_a"), writes_files=True)
    assert "sessions/session_a/outbox" in told
    assert "`shared` in it is one for all of your conversations" in told
    assert "send_file" not in briefing.text(make_turn())


def test_its_skills_are_named_with_what_they_are_for():
    turn = make_turn(skills=(Skill("invoices", "How to write an invoice."), Skill("bare", "")))
    told = briefing.text(turn)
    assert told.endswith("- invoices: How to write an invoice.\n- bare")
    assert "read_skill" in told
    assert "skills/invoices/SKILL.md" not in told
    assert "skills/invoices/SKILL.md" in briefing.text(turn, writes_files=True)


def test_what_its_operator_wants_it_to_know_is_in_the_prompt():
    told = briefing.text(make_turn(instructions="Be short.", memory_file=MemoryFile("- Closed on Fridays.")))
    assert told.endswith("<memory>\n- Closed on Fridays.\n</memory>")


def test_a_cut_memory_says_so():
    assert "its last 300 bytes are left out" in briefing.text(make_turn(memory_file=MemoryFile("x", 300)))
