"""Sessions of the fake Gateway: which events are kept for a resume."""

from emulator.platforms.discord.gateway.sessions import KEPT_EVENTS, GatewaySessions


def test_events_beyond_those_kept_can_not_be_resumed():
    sent = []
    session = GatewaySessions("1").open(0, sent.append)
    for number in range(KEPT_EVENTS + 1):
        session.dispatch("TEST", {"number": number})
    assert len(sent) == session.seq == KEPT_EVENTS + 1
    assert session.missed(0) is None
    assert [payload["s"] for payload in session.missed(session.seq - 2)] == [session.seq - 1, session.seq]
    assert session.missed(session.seq) == []


def test_an_event_for_all_needs_no_intent():
    sessions = GatewaySessions("1")
    everybody = []
    sessions.open(0, everybody.append)
    sessions.publish("INTERACTION_CREATE", None, {"id": "1"})
    sessions.publish("GUILD_CREATE", None, {"id": "2"})
    assert [payload["t"] for payload in everybody] == ["INTERACTION_CREATE"]
