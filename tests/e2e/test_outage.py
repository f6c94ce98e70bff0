"""An outage of both platforms on real processes: no answer is dead, and none is said twice."""

from typing import Any

import pytest

from tests.e2e.conftest import System, until
from tests.e2e.test_access_discord import ANA, ask
from tests.e2e.test_first_light import say

pytestmark = [pytest.mark.e2e, pytest.mark.long]

TEXTS = ("first", "second", "third")
PLATFORMS = ("telegram", "discord")


def calls(house: System, platform: str, method: str) -> list[dict[str, Any]]:
    _, found = house.get(f"/control/{platform}/calls", "platforms")
    return [call for call in found["calls"] if method in str(call["method"])]


def answers(house: System) -> list[tuple[Any, ...]]:
    return house.query(
        "SELECT channel, status, retry_count FROM responses WHERE message GLOB 'You said: *' ORDER BY id"
    )


def test_an_outage_of_both_platforms_makes_no_answer_dead_and_says_none_twice(system: System) -> None:
    for platform in PLATFORMS:
        system.post(f"/control/{platform}/faults", {"kind": "status", "status": 503, "times": 10**6}, "platforms")
    for text in TEXTS:
        say(system, f"{text} on Telegram")
        ask(system, ANA, f"{text} on Discord")
    until("every answer", lambda: len(answers(system)) == 2 * len(TEXTS))
    until("four probes of Telegram", lambda: len(calls(system, "telegram", "getMe")) >= 4)  # half a minute
    assert {status for _, status, _ in answers(system)} <= {"pending", "delivering"}
    status, told = system.get("/api/status", "api")
    assert (status, {name for name in PLATFORMS if told["channels"][name].get("outage")}) == (200, set(PLATFORMS))

    for platform in PLATFORMS:
        system._request(f"{system.urls['platforms']}/control/{platform}/faults", method="DELETE")
    until("every answer at its platform", lambda: {each for _, each, _ in answers(system)} == {"acked"})
    assert {count for _, _, count in answers(system)} == {0}
    for text in TEXTS:
        assert len([c for c in calls(system, "telegram", "sendMessage") if _went(c, f"{text} on Telegram")]) == 1
    assert system.query("SELECT * FROM channel_outages WHERE probe_at IS NOT NULL") == []


def _went(call: dict[str, Any], text: str) -> bool:
    return call["status"] == 200 and text in str(call["params"])
