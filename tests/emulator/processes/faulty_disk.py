"""A disk that fails under the databases of this process."""

import json
from pathlib import Path

from emulator.base.faults import Fault, Faults, as_facts
from emulator.processes.disk_faults import DiskFaults
from shared.conversation.alerts import faults_by_hand
from shared.core.time import clock


class FaultyDisk:
    """The faults that a test sets, as the supervisor does."""

    def __init__(self, run: Path) -> None:
        self._file = faults_by_hand.path_in(run)
        self._book = Faults("disk", clock.machine_ms)
        self.faults = DiskFaults(self._file)

    def set(self, **given: object) -> None:
        self._book.add(Fault.parse("disk", given))
        self._tell()

    def lift(self) -> None:
        self._book.lift()
        self._tell()

    def _tell(self) -> None:
        self._file.write_text(json.dumps([as_facts(fault) for fault in self._book.standing()]))
        self.faults.read()
