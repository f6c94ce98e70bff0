import pytest

from spark_jobs.streaming.errors import OffsetInvalid
from spark_jobs.streaming.offsets import Offset


@pytest.mark.parametrize("crossed_at", [None, 0, 7])
def test_an_offset_comes_back_from_the_checkpoint_as_it_was(crossed_at):
    offset = Offset("epoch_one", "000000000000000a@2026-03-01T12:00:00Z@first", 9, crossed_at, "events")
    assert Offset.load(offset.dump(), "events") == offset


@pytest.mark.parametrize("kept", [{}, {"id": 5}, {"epoch": "e", "position": "p", "row": "many"}])
def test_an_offset_of_another_source_is_refused(kept):
    with pytest.raises(OffsetInvalid, match="checkpointLocation"):
        Offset.load(kept, "events")


def test_a_checkpoint_of_another_table_is_refused():
    kept = Offset("epoch_one", "000000000000000a@2026-03-01T12:00:00Z", 9, table="events").dump()
    with pytest.raises(OffsetInvalid, match="belongs to a stream of the table 'events', and this one follows 'agent_m"):
        Offset.load(kept, "agent_messages")


def test_a_checkpoint_that_names_no_table_goes_on():
    kept = Offset("epoch_one", "000000000000000a@2026-03-01T12:00:00Z", 9).dump()
    assert "table" not in kept
    assert Offset.load(kept, "events").row == 9
