import gc
import os
import shutil
from pathlib import Path

import hypothesis
import pytest

from shared.core.time import clock
from shared.db.engine import connection
from shared.db.engine.connection import open_connection
from shared.roster.new_database import prepare_database

MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder for its user there
ROOM = 4 << 30  # bytes that all tests together may need
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for a short life: Java compiles half as much
LONG = ("spark", "e2e")  # the marks of tests that start Spark or the whole system
SPARK = "tests/spark_jobs/"  # its tests share one session for each process
FIELD = "tests/field/"  # its scenarios share one running system for each process
WORLDS = "tests/simulation/test_worlds.py"
APART = (WORLDS, "tests/e2e/test_durability.py")  # their tests share nothing, and each takes long
FIRST = (SPARK, WORLDS, FIELD)  # none keeps a process for longer


def pytest_configure():
    """Put the tests' folders into memory, where there is room: half of their time is waiting for the disk.

    ``PYTEST_DEBUG_TEMPROOT=/tmp`` keeps them on the disk.
    """
    if has_room(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK_JAVA)


UMASK = os.umask(0o077)
os.umask(UMASK)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """No test leaves another umask to what follows in its process. Jobs of Spark and their session narrow it."""
    done = yield
    left, is_of_spark = os.umask(UMASK), item.nodeid.startswith(SPARK)
    if is_of_spark and nextitem is not None and nextitem.nodeid.startswith(SPARK):
        os.umask(left)
    elif left != UMASK and not is_of_spark:
        pytest.fail(f"it leaves the umask {left:03o}, and it was {UMASK:03o}")
    return done


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Let each of several processes begin to collect at another place of a folder.

    Each collects all files. In the same order all would compile the same file at the same time: pytest takes 25 s of
    CPU for all, and what one process has compiled, another finds.
    """
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker is not None and isinstance(collector, pytest.Directory):
        number = int(worker["workerid"].removeprefix("gw"))
        begin = len(report.result) * number // worker["workercount"]
        report.result = report.result[begin:] + report.result[:begin]
    return report


def pytest_collection_modifyitems(items):
    """Run what takes longest first: begun last, it would keep one process busy without work for others."""
    long = {item.path for item in items if any(map(item.get_closest_marker, LONG))}
    items.sort(key=lambda item: (not item.nodeid.startswith(FIRST), item.path not in long, item.path))


def pytest_collection(session):
    """Look for no garbage meanwhile, and then never again in the tests themselves: each time takes half a second."""
    gc.disable()


def pytest_collection_finish(session):
    # At its first test Hypothesis asks the collector who knows its generator of chance, and what is frozen is unseen.
    hypothesis.find(hypothesis.strategies.none(), lambda _: True)
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give the tests of Spark to one process, as if they were one file: its session takes ten seconds to start.

    So do the systems of the scenarios. Of some files each test may go to another process.
    """
    from xdist.scheduler import LoadFileScheduling

    class SharedStarts(LoadFileScheduling):
        def _split_scope(self, nodeid):
            if nodeid.startswith(APART):
                return nodeid
            shared = next((each for each in (SPARK, FIELD) if nodeid.startswith(each)), None)
            return shared or super()._split_scope(nodeid)

        def remove_node(self, node):
            """Give the next process all that is left of a file but the test that ended this process."""
            ended_by = super().remove_node(node)
            if ended_by is not None:
                self.workqueue[self._split_scope(ended_by)][ended_by] = True
            return ended_by

    return SharedStarts(config, log) if config.getvalue("dist") == "loadfile" else None


def has_room(folder):
    """Whether the folder takes the files of all tests, and programs can be started there."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK)


# A slow example on a busy machine is not a failure.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def fresh_database(tmp_path_factory):
    """A migrated file, made once; tests work on copies."""
    path = tmp_path_factory.mktemp("fresh") / "fresh.db"
    prepare_database(path)
    return path


@pytest.fixture
def db(fresh_database, tmp_path):
    """The path of a migrated database for one test."""
    path = tmp_path / "p.db"
    shutil.copy(fresh_database, path)
    yield path
    close_gate(path)


def close_gate(path):
    """A process keeps the gate of its database open; thousands of tests would run out of file descriptors."""
    gate = connection._gates.pop(str(path), None)
    if gate is not None:
        with gate._thread:
            gate.close()


@pytest.fixture
def conn(db):
    """A connection to ``db`` that can write."""
    connection = open_connection(db)
    yield connection
    connection.close()


@pytest.fixture
def day_ahead():
    """The clock of the rows is a day ahead of the machine's, as in an emulator whose clock was moved: the day in ms."""
    day_ms = 24 * 60 * 60 * 1000
    clock.move(lambda machine_ms: machine_ms + day_ms)
    yield day_ms
    clock.move(None)


@pytest.fixture
def other(db):
    """A second connection to ``db``."""
    connection = open_connection(db)
    yield connection
    connection.close()
