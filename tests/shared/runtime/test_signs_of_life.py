"""Of a function that hangs only the age of a file tells."""

import os
import threading

from shared.core.time import clock
from shared.runtime import kick
from shared.runtime.kick import SILENT_MS, Kicker, Listener, SignsOfLife

LONG_MS = 51 * 3_600_000 + 1_800_000


def grow_silent(run, name, for_ms):
    """The function's last sign of life was so long ago."""
    (run / f"{name}.alive").touch()
    os.utime(run / f"{name}.alive", ns=((clock.machine_ms() - for_ms) * 1_000_000,) * 2)


class LiteralClocks(clock.MachineClocks):
    ms = 0

    def wall_ms(self):
        return self.ms


def give(run, name):
    signs = SignsOfLife(run, name)
    signs.give()
    signs.join()


def test_a_sign_ends_the_silence_and_is_for_its_owner_alone(tmp_path):
    run = tmp_path / "run"
    give(run, "deliver")
    assert kick.silent_ms(run, "deliver") == 0
    assert (run / "deliver.alive").stat().st_mode & 0o777 == 0o600

    grow_silent(run, "deliver", LONG_MS)
    assert kick.silent_ms(run, "deliver") >= LONG_MS
    give(run, "deliver")
    assert kick.silent_ms(run, "deliver") == 0


def test_a_process_that_was_asked_to_end_is_not_missed(tmp_path):
    signs = SignsOfLife(tmp_path, "recurrence")
    signs.end()
    signs.give()
    signs.end()
    assert list(tmp_path.iterdir()) == []
    assert kick.silent(tmp_path) == {}


def test_a_sign_from_before_the_clock_was_set_back_is_old(tmp_path):
    grow_silent(tmp_path, "sweep", -SILENT_MS * 2)
    assert list(kick.silent(tmp_path)) == ["sweep"]


def test_a_short_silence_is_none(tmp_path):
    grow_silent(tmp_path, "deliver", SILENT_MS // 2)
    assert kick.silent_ms(tmp_path, "deliver") == 0


def test_a_sign_just_after_another_writes_nothing(tmp_path):
    signs = SignsOfLife(tmp_path, "deliver")
    signs.give()
    signs.join()
    (tmp_path / "deliver.alive").unlink()
    signs.give()
    signs.join()
    assert not (tmp_path / "deliver.alive").exists()


def test_a_disk_that_stands_still_holds_one_thread_and_not_the_event_loop(tmp_path):
    """Of the signs that were due meanwhile none is made up for: the file has the instant of the first one."""
    goes_on, written = threading.Event(), []

    def touch(file, now_ms):
        goes_on.wait()
        written.append(now_ms)

    signs, clocks = SignsOfLife(tmp_path, "deliver", touch), LiteralClocks()
    clock.run_on(clocks)
    try:
        for clocks.ms in (LONG_MS, LONG_MS + 5000, LONG_MS + 10_000):
            signs.give()
        goes_on.set()
        signs.join()
        signs.give()
        signs.join()
    finally:
        clock.run_on(clock.MachineClocks())
    assert written == [LONG_MS, LONG_MS + 10_000]


def test_a_function_goes_on_where_no_sign_can_be_given(tmp_path):
    (tmp_path / "run").touch()
    give(tmp_path / "run", "deliver")


def test_a_function_whose_process_hangs_is_not_heard_though_it_listens(tmp_path):
    """Another server than our runner gives no signs: its function is heard while it listens."""
    kicker, listener = Kicker(tmp_path), Listener(tmp_path, "deliver")
    assert kicker.is_heard("deliver")
    grow_silent(tmp_path, "deliver", LONG_MS)
    assert (kicker.has_listener("deliver"), kicker.is_heard("deliver")) == (True, False)
    give(tmp_path, "deliver")
    assert kicker.is_heard("deliver")
    listener.close()
    assert not kicker.is_heard("deliver")
    kicker.close()
