"""The faults of the bucket, in the process of S3. It reads them when it starts, and at each SIGUSR2."""

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.storage import s3_answers
from emulator.storage.s3_connections import CLOSE
from emulator.storage.s3_requests import Answer

if TYPE_CHECKING:
    from emulator.base.faults import Fault, Faults


class HungUp(ConnectionError):
    """The connection is to be closed without an answer."""


class BucketFaults:
    """What fails of the requests to S3.

    Args:
        file: where the supervisor writes the faults; None: there are none.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._faults: Faults | None = None
        self._lock = threading.RLock()  # each connection has a thread, and a signal may come while one is handled
        if file is not None and file.exists():
            self.read()

    def read(self, *_: object) -> None:
        """Read them again."""
        from emulator.base.faults import Fault, Faults  # late: most emulators have no fault
        from shared.conversation.alerts import faults_by_hand
        from shared.core.time import clock

        if self._file is None:
            return
        found = faults_by_hand.read(self._file, now_ms=clock.machine_ms())
        with self._lock:
            self._faults = self._faults or Faults("bucket", clock.machine_ms)
            self._faults.follow([Fault.from_facts(each) for each in found if each["target"] == "bucket"])

    def before(self, method: str, *, is_probe: bool = False) -> "Answer | Fault | None":
        """Let a request fail: an answer in place of the work, or the fault that its answer is to have.

        Args:
            is_probe: it is our own question whether S3 lives, which takes nothing of the number of a fault.

        Raises:
            HungUp: it gets no answer.
        """
        fault = self._take(method, is_probe=is_probe)
        if fault is None or fault.kind == "cut":
            return fault
        if fault.kind == "delay":
            threading.Event().wait(fault.delay_ms / 1000)
            return None
        if fault.kind == "drop":
            raise HungUp
        code = "SlowDown" if fault.status == 503 else "InternalError"
        return s3_answers.error(f"{fault.status} Fault", code, fault.description or "a fault is set by hand")

    def _take(self, method: str, *, is_probe: bool) -> "Fault | None":
        with self._lock:
            if self._faults is None:
                return None
            counted = {fault.id: fault.times for fault in self._faults.standing() if fault.times is not None}
            if is_probe and counted:
                return None
            fault = self._faults.take(method)
            if fault is not None and fault.times is not None:
                print(json.dumps({"event": "s3.fault_taken", "id": fault.id, "times": fault.times}), flush=True)  # noqa: T201
        return fault


def cut(answer: Answer) -> Answer:
    """The first half of the answer, after which the connection is closed.

    Raises:
        HungUp: it has nothing to be halved.
    """
    status, headers, body = answer
    whole = b"".join(body)
    if not whole:
        raise HungUp
    return status, [*headers, CLOSE], [whole[: len(whole) // 2]]
