"""Every process reads the same of the faults in an emulator's file."""

import json
from pathlib import Path

from shared.conversation.alerts import faults_by_hand

NOW = 1_795_168_000_000


def test_a_fault_is_told_until_it_is_over(tmp_path: Path) -> None:
    assert faults_by_hand.sentences(tmp_path, now_ms=NOW) == [], "no emulator has written a file"
    rows = [
        {"target": "bucket", "sentence": "answers 503 to any call", "until_ms": None},
        {"target": "telegram", "sentence": "answers 429 to any call", "until_ms": NOW + 1},
    ]
    faults_by_hand.path_in(tmp_path).write_text(json.dumps(rows))
    bucket = "a fault is set by hand: bucket answers 503 to any call. To lift it: emulator fault lift bucket"
    assert faults_by_hand.sentences(tmp_path, now_ms=NOW)[0] == bucket
    assert len(faults_by_hand.sentences(tmp_path, now_ms=NOW)) == 2
    assert faults_by_hand.sentences(tmp_path, now_ms=NOW + 1) == [bucket]
