"""Which past the options of `emulator run` ask for."""

from datetime import UTC, datetime

import pytest

from emulator.base import past_question
from emulator.base.errors import InvalidInput, UsageError
from emulator.base.past_question import PastQuestion

NOW = datetime(2026, 11, 23, 1, 0, 0, tzinfo=UTC)
URL = "s3://b/p"


def test_without_a_replica_no_past_is_asked_for():
    assert past_question.check(None, None, None, None, now=NOW) is None


@pytest.mark.parametrize(
    ("options", "error", "part"),
    [
        ((None, "2026-11-20", None, None), UsageError, "name it with --from-replica"),
        ((None, None, "11", None), UsageError, "name it with --from-replica"),
        ((None, None, None, "epoch_a"), UsageError, "name it with --from-replica"),
        ((URL, "2026-11-20", "11", None), UsageError, "leave one of them out"),
        ((URL, "yesterday", None, None), InvalidInput, "write it like 2026-03-01T12:00:00Z"),
        ((URL, "2026-11-23T01:00:01Z", None, None), InvalidInput, "is in the future: it is 2026-11-23T01:00:00Z now"),
        ((URL, "2026-11-23T01:00:01", None, None), InvalidInput, "is in the future"),  # UTC
        ((URL, "2026-11-23T01:30:00+00:00", None, None), InvalidInput, "is in the future"),
    ],
)
def test_options_that_name_no_past_are_refused(options, error, part):
    with pytest.raises(error) as refused:
        past_question.check(*options, now=NOW)
    assert part in str(refused.value)


def test_an_instant_of_another_zone_may_be_past():
    found = past_question.check(URL, "2026-11-23T01:30:00+01:00", None, None, now=NOW)
    assert found == PastQuestion(URL, "2026-11-23T01:30:00+01:00")


def test_each_question_has_a_folder_of_its_own():
    folders = [
        PastQuestion(URL, "2026-11-23T00:00:00Z").folder(""),
        PastQuestion("s3://b/q", "2026-11-23T00:00:00Z").folder(""),
        PastQuestion(URL, "2026-11-23T00:00:00Z", epoch="epoch_a").folder(""),
        PastQuestion(URL, txid="11").folder(""),
        PastQuestion(URL).folder("0000000000000012"),
    ]
    assert len(set(folders)) == len(folders)
    assert {folder.parent.name for folder in folders} == {".emulator-past"}
    assert PastQuestion(URL, "../../x").folder("").parent.name == ".emulator-past"
