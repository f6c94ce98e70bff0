import pytest

from shared.conversation.routing.engagement import EngagementFacts, engages, sticks
from shared.db.roster.wirings import Wiring


def wiring(mode="mention", pattern=None):
    fields = dict.fromkeys(Wiring._fields)
    fields |= {"id": 1, "chat_id": 1, "agent": "a", "engage_mode": mode, "engage_pattern": pattern, "priority": 0}
    return Wiring(**fields)


def facts(*words, text="hello", thread=None):
    return EngagementFacts("mention" in words, "group" in words, text, thread, "stuck" in words)


MENTION, STICKY = wiring(), wiring("mention-sticky")
OPS, ALL = wiring("pattern", "(?i)^ops"), wiring("pattern", ".")
ENGAGES = {
    "mention: a direct message": (MENTION, facts(), True),
    "mention: a group, mentioned": (MENTION, facts("group", "mention"), True),
    "mention: a group, not mentioned": (MENTION, facts("group"), False),
    "mention: a thread where another mode would stick": (MENTION, facts("group", "stuck", thread="7"), False),
    "sticky: a direct message": (STICKY, facts(), True),
    "sticky: a group, mentioned": (STICKY, facts("group", "mention"), True),
    "sticky: a group, not mentioned": (STICKY, facts("group"), False),
    "sticky: a thread, mentioned now": (STICKY, facts("group", "mention", thread="7"), True),
    "sticky: a thread, mentioned before": (STICKY, facts("group", "stuck", thread="7"), True),
    "sticky: a thread, never mentioned": (STICKY, facts("group", thread="7"), False),
    "sticky: no thread, whatever a row says": (STICKY, facts("group", "stuck"), False),
    "pattern: it matches": (OPS, facts("group", text="Ops, please"), True),
    "pattern: it does not": (OPS, facts("group", text="to ops"), False),
    "pattern: a mention alone is none": (OPS, facts("group", "mention", text="hello"), False),
    "pattern: a direct message alone is none": (OPS, facts(text="hello"), False),
    "pattern: everything": (ALL, facts("group"), True),
    "pattern: everything but no text": (ALL, facts("group", text=""), False),
}


@pytest.mark.parametrize(("wired", "given", "expected"), ENGAGES.values(), ids=ENGAGES)
def test_when_a_wiring_engages(wired, given, expected):
    assert engages(wired, given) is expected


@pytest.mark.parametrize(
    "wired", [wiring("pattern", "("), wiring("pattern"), wiring("pattern", ""), wiring("always")], ids=str
)
def test_an_invalid_wiring_is_an_error_and_never_engages(wired):
    with pytest.raises(ValueError, match=r"missing|engage_mode"):
        engages(wired, facts("mention", text="("))


STICKS = {
    "mentioned in a thread of a group": (STICKY, facts("group", "mention", thread="7"), True),
    "stuck already": (STICKY, facts("group", "mention", "stuck", thread="7"), False),
    "engaged because it is stuck": (STICKY, facts("group", "stuck", thread="7"), False),
    "no thread": (STICKY, facts("group", "mention"), False),
    "a direct message": (STICKY, facts("mention", thread="7"), False),
    "another mode": (MENTION, facts("group", "mention", thread="7"), False),
}


@pytest.mark.parametrize(("wired", "given", "expected"), STICKS.values(), ids=STICKS)
def test_which_mentions_stick(wired, given, expected):
    assert sticks(wired, given) is expected
