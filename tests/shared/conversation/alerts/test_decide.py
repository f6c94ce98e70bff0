"""Which route says what now."""

import pytest

from shared.conversation.alerts import decide
from shared.conversation.alerts.decide import MOST
from shared.db.alerts.alert_routes import AlertRoute
from shared.db.alerts.alerts import Alert, Trouble
from shared.db.alerts.tellings import AlertTelling
from tests.support import NOW  # 08:00 in UTC

MINUTE, HOUR = 60_000, 3_600_000
OPS = AlertRoute("ops", 1, NOW - 24 * HOUR)
AT_NIGHT = AlertRoute("ops", 1, NOW - 24 * HOUR, quiet_hours="22:00-07:00")
THREE = NOW - 5 * HOUR
SEVEN = NOW - HOUR


def alert(id_=1, kind="dead", *, at=NOW, over_at=None, channel=None):
    trouble = Trouble(f"{kind} {id_}", kind, "It is not well", "So it is.", "Mend it.", at, channel=channel)
    return Alert(id_, trouble, at, over_at, over_at)


def told(id_=1, route="ops", *, said_by=None, over=None):
    return AlertTelling(id_, route, said_by or route, NOW - HOUR, 7, over, None if over is None else 8)


def plan(alerts, *tellings, routes=(OPS,), silent=(), said=None, now=NOW):
    found = decide.plan(routes, alerts, tellings, silent=silent, said=said or {}, timezone="UTC", now_ms=now)
    return [(each.route, each.form, [(news.alert.id, news.phase) for news in each.news]) for each in found]


def one(id_, phase="began", route="ops"):
    return (route, "one", [(id_, phase)])


def test_a_thing_is_told_once_and_once_when_it_is_over():
    assert plan([alert()]) == [one(1)]
    assert plan([alert()], told()) == []
    assert plan([alert(over_at=NOW)], told()) == [one(1, "ended")]
    assert plan([alert(over_at=NOW)], told(over=NOW)) == []


@pytest.mark.parametrize(("minutes", "expected"), [(60, []), (61, [one(1, "again")])])
def test_what_happened_again_an_hour_after_it_was_told_is_told_again(minutes, expected):
    again = alert(at=THREE)
    again = again._replace(trouble=again.trouble._replace(latest=NOW - HOUR + minutes * MINUTE))
    assert plan([again], told()) == expected
    assert plan([again._replace(gone_at=NOW)], told()) == []
    assert plan([again], told(), routes=(AT_NIGHT,), now=NOW + 15 * HOUR) == [], "it waits as others do"


def test_a_thing_that_a_look_did_not_find_is_neither_begun_nor_over():
    gone = alert()._replace(gone_at=NOW)
    assert plan([gone]) == plan([gone], told()) == []


def test_each_route_is_told_of_its_own_kinds():
    money = AlertRoute("boss", 2, NOW, kinds=["money"])
    found = plan([alert(1), alert(2, "money")], routes=(money, OPS))
    assert found == [one(2, route="boss"), one(1), one(2)]


def test_what_was_over_before_a_route_was_made_is_not_told():
    assert plan([alert(at=THREE, over_at=SEVEN)], routes=(AlertRoute("new", 1, NOW),)) == []


def test_in_quiet_hours_only_what_is_urgent_is_told():
    night = [alert(1, at=THREE), alert(2, "disk", at=THREE)]
    assert plan(night, routes=(AT_NIGHT,), now=THREE) == [one(2)]
    over = [alert(2, "disk", at=THREE - HOUR, over_at=THREE)]
    assert plan(over, told(2), routes=(AT_NIGHT,), now=THREE) == [], "an end wakes nobody"


def test_after_quiet_hours_one_digest_tells_what_waited():
    found = [alert(1, at=THREE), alert(2, at=THREE, over_at=THREE + HOUR), alert(3, at=SEVEN + MINUTE)]
    waited = [alert(4, "disk", at=THREE, over_at=THREE + HOUR)]
    sayings = plan([*found, *waited], told(4), routes=(AT_NIGHT,), now=SEVEN + MINUTE)
    assert sayings == [("ops", "digest", [(1, "began"), (2, "passed"), (4, "ended")]), one(3)]


def test_a_digest_is_one_of_the_few_messages():
    now = SEVEN + MINUTE
    begun = [alert(1, at=THREE), *(alert(number, at=now) for number in range(2, MOST + 2))]
    sayings = plan(begun, routes=(AT_NIGHT,), now=now)
    assert [form for _, form, _ in sayings] == ["digest", *["one"] * (MOST - 2), "number"]


@pytest.mark.parametrize(("zone", "is_told"), [("UTC", True), ("America/New_York", False)])
def test_quiet_hours_are_those_of_the_routes_time_zone(zone, is_told):
    route = AlertRoute("ops", 1, NOW - 24 * HOUR, quiet_hours="01:00-07:00", timezone=zone)
    assert bool(plan([alert()], routes=(route,))) is is_told


def test_a_digest_comes_so_often_and_what_is_urgent_does_not_wait_for_it():
    route = AlertRoute("ops", 1, NOW - 24 * HOUR, digest_at=NOW - HOUR, digest_ms=2 * HOUR)
    both = [alert(1), alert(2, "disk")]
    assert plan(both, routes=(route,)) == [one(2)]
    assert plan(both, told(2), routes=(route,), now=NOW + HOUR) == [("ops", "digest", [(1, "began")])]
    back = plan(both, told(2), routes=(route,), now=NOW - 5 * HOUR)
    assert back == [("ops", "digest", [(1, "began")])], "a clock that was set back makes no digest later"


def test_a_storm_is_a_few_messages_and_one_that_counts_the_rest():
    storm = [alert(number) for number in range(1, 21)]
    rest = [(number, "began") for number in range(MOST, 21)]
    assert plan(storm) == [*(one(number) for number in range(1, MOST)), ("ops", "number", rest)]
    assert plan(storm, said={"ops": MOST - 1}) == [("ops", "number", [(number, "began") for number in range(1, 21)])]
    assert plan(storm, said={"ops": MOST}) == [], "the rest waits until ten minutes have passed"


def test_a_route_whose_channel_is_silent_is_told_by_another():
    spare = AlertRoute("spare", 2, NOW, kinds=["money"])
    assert plan([alert()], routes=(OPS, spare), silent={"ops"}) == [one(1, route="spare")]
    assert plan([alert()], routes=(OPS,), silent={"ops"}) == [], "it is kept, and said later"
    assert plan([alert()], routes=(OPS,)) == [one(1)]
    over = [alert(over_at=NOW)]
    assert plan(over, told(said_by="spare"), routes=(OPS, spare)) == [one(1, "ended", route="spare")]


def test_two_routes_that_one_tells_are_told_by_one_message():
    routes = (OPS, AlertRoute("spare", 2, NOW), AlertRoute("third", 3, NOW))
    (saying,) = decide.plan(routes, [alert()], [], silent={"ops", "third"}, said={}, timezone="UTC", now_ms=NOW)
    assert (saying.route, saying.news[0].duties) == ("spare", ("ops", "spare", "third"))


def test_what_began_and_ended_while_a_channel_was_silent_is_told_as_over():
    assert plan([alert(over_at=NOW)]) == [one(1, "passed")]
