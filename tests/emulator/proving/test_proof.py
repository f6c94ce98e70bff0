"""The rounds of a run: none begins where a full disk would break what it should not."""

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
