"""The rounds of a run: none begins where a full disk would break what it should not, and each has an end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.base.errors import NotReady
from emulator.proving.proof import Proof


@pytest.mark.parametrize("begin", [Proof.start, lambda proof: proof.run(1, None)], ids=["start", "round"])
def test_nothing_begins_on_a_disk_without_room(tmp_path: Path, begin: Callable[[Proof], None]) -> None:
    proof = Proof(tmp_path / "run", 1, room_mb=2**40)
    try:
        with pytest.raises(NotReady, match=r"MB are free on the disk of .*run, and a round needs .*: set TMPDIR"):
            begin(proof)
    finally:
        proof.close()
    assert proof.rounds == []


def test_an_error_that_is_not_ours_ends_a_round_with_a_sentence_and_its_place_in_the_log(tmp_path: Path) -> None:
    """A restore that took too long ended the whole run with a traceback, and without a receipt."""
    proof = Proof(tmp_path / "run", 1)
    try:
        proof.post.close()  # nobody listens, and there is no database
        proof.run(2, None)
    finally:
        proof.close()
    (only,) = proof.rounds
    assert only.problems[0].startswith("the run could not go on: OSError: ")
    assert proof.problems == list(only.problems)
    assert "Traceback" in (tmp_path / "run" / "host" / "prove.log").read_text()
