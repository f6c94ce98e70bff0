from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from infra.litestream.standby.decisions import FollowerProgress
from infra.litestream.standby.status import StandbyFacts, StatusServer, report, trouble

LEVEL = FollowerProgress("0000000000000007", "0000000000000007", 100.0, 100.0)
BEHIND = FollowerProgress("0000000000000007", "000000000000000a", 60.0, 60.0)


def standby(**facts):
    return StandbyFacts(
        **{"part": "standby", "now_s": 101.0, "part_since_s": 1.0, "following": "s3://b/e1", "progress": LEVEL} | facts
    )


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (standby(), None),
        (standby(part="active", following=None), None),
        (standby(following=None), "there is no warm copy yet"),
        (standby(is_usable=False), "of an earlier prefix, or its follower ended"),
        (standby(progress=BEHIND), "behind by 3 commits"),
        (standby(progress=FollowerProgress("0000000000000007", "000000000000000a", 99.0, 99.0)), None),
        (standby(progress=replace(BEHIND, listing_s=3.0)), None),
        (standby(progress=replace(BEHIND, listing_s=2.0)), "behind by 3 commits"),
        (standby(stuck="non-contiguous ltx files"), "another one can't be restored: non-contiguous ltx files"),
        (standby(problem="it timed out"), "the bucket does not answer: it timed out"),
    ],
)
def test_a_host_says_in_a_sentence_why_it_could_not_do_its_part(facts, said):
    found = trouble(facts)
    assert found is None if said is None else said in found


def test_the_report_has_the_prefix_the_position_and_how_old_each_fact_is():
    said = report(standby(progress=BEHIND, following_since_s=11.0, holder="host-1", lease_seen_s=100.5))

    assert said["since_s"] == 100.0
    assert said["copy"] == {
        "replica": "s3://b/e1", "since_s": 90.0, "txid": "0000000000000007", "commits_behind": 3, "level_s_ago": 41.0,
    }  # fmt: skip
    assert said["lease"] == {"holder": "host-1", "unchanged_s": 0.5}


@pytest.mark.parametrize(("facts", "status"), [(standby(), 200), (standby(following=None), 503)])
def test_healthz_answers_200_when_a_takeover_would_be_quick(facts, status):
    with TestClient(StatusServer(lambda: facts).config.app) as client:
        answer = client.get("/healthz")
        assert (answer.status_code, answer.json()["part"]) == (status, "standby")
        assert client.get("/other").status_code == 404
