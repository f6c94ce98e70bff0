"""Sandboxes that serve one turn of a session after another: what they share, and what they never share."""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path

import pytest
import uvloop

from shared.agents.programs import containment
from shared.agents.programs.containment import ProgramCommand
from shared.agents.programs.process import Program
from shared.agents.programs.sandboxes import Sandboxes
from tests.containments import CONTAINMENTS
from tests.liveness import is_alive, opened, processes_naming

HELD = next(iter(CONTAINMENTS.values()))  # the best of this machine; without a leash each turn starts anew
ODD = 'it\'s "odd"\n$(echo no) `echo no` \\ \u00e9 * ;'

DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", sys.argv[1]], {})
    os._exit(0)
os.wait()
print("left")
"""


class Turns:
    """Runs programs as one session, or as several."""

    def __init__(self, folder, **options):
        self.folder = folder
        self.sandboxes = Sandboxes(folder / "sandboxes", **options)
        (folder / "agent").mkdir()

    def command(self, words, session="a", own=None, **environment):
        words = [sys.executable, "-I", "-c", words] if isinstance(words, str) else words
        shown = containment.readable_paths([sys.executable], [], {}, [])
        environment = {"PATH": os.environ["PATH"], **environment}
        agent = self.folder / "agent"
        hides = None if own is None else agent / "sessions" / own
        return ProgramCommand(words, agent, environment, shown, session=session, session_folder=hides)

    async def start(self, words, session="a", **environment):
        command = self.command(words, session, **environment)
        return await Program.start(command, HELD, line_limit=1_000_000, sandboxes=self.sandboxes)

    async def run(self, words, session="a", **environment):
        """The output, the exit code, and the process that held the program in."""
        program = await self.start(words, session, **environment)
        code = await program.wait()
        said = await program.stdout.read()
        await program.end()
        return said.decode(), code, program.pid


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def go(request, tmp_path):
    """Runs a function of ``Turns``."""

    def run(what, **options):
        async def within():
            turns = Turns(tmp_path, **options)
            try:
                async with asyncio.timeout(60):
                    return await what(turns)
            finally:
                await turns.sandboxes.close()

        return request.param(within())

    return run


def test_turns_of_a_session_use_one_sandbox_and_other_sessions_another(go):
    async def what(turns):
        return [(await turns.run(["echo", "x"], session))[2] for session in ("a", "b", "a", "b")]

    a, b, again, b_again = go(what)
    assert a != b
    assert (again == a, b_again == b) == (HELD.is_leash, HELD.is_leash)


def test_a_program_gets_its_words_and_its_environment_and_nothing_of_an_earlier_turn(go):
    source = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
    words = [sys.executable, "-I", "-c", source, ODD, "", "-n"]

    async def what(turns):
        await turns.run(words, FIRST="1", **{"odd-name": "2"})
        return await turns.run(words, SECOND=ODD, UID="7", IFS=":", **{"odd-name": ODD})

    said, code, _ = go(what)
    arguments, environment = json.loads(said)
    assert (arguments, code) == ([ODD, "", "-n"], 0)
    for name in ("PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"):  # of shells and of Python
        environment.pop(name, None)
    assert environment == {
        "PATH": os.environ["PATH"], "SECOND": ODD, "UID": "7", "IFS": ":", "odd-name": ODD,
    }  # fmt: skip


def test_a_program_can_read_no_words_of_an_earlier_turn(go):
    async def what(turns):
        await turns.run(["true"], TOKEN="secret" * 1000)
        return (await turns.run(["cat", "/.postroom/turn/words"]))[0]

    said = go(what)
    assert "secret" not in said
    assert ("exec cat" in said) == HELD.is_leash


def test_nothing_outlives_a_turn_whose_sandbox_stays(go, tmp_path):
    mark = f"{tmp_path}-daemon"

    async def what(turns):
        said, _, first = await turns.run([sys.executable, "-I", "-S", "-c", DAEMON, mark])
        alive = processes_naming(mark)
        return said, alive, first == (await turns.run(["echo", "x"]))[2]

    assert go(what) == ("left\n", [], HELD.is_leash)


def test_what_a_program_left_ends_with_it_before_its_turn_does(go, tmp_path):
    mark = f"{tmp_path}-daemon"

    async def what(turns):
        program = await turns.start([sys.executable, "-I", "-S", "-c", DAEMON, mark])
        await program.wait()
        while processes_naming(mark):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        said = await program.stdout.read()
        await program.end()
        return said

    assert go(what) == b"left\n"


def test_a_turn_finds_no_file_in_memory_of_the_turn_before(go):
    leave = (
        "import os\n"
        "for path in ('/tmp/.hidden/deep', '/tmp/own', '/dev/shm/own'): os.makedirs(path)\n"
        "os.symlink('/usr', '/tmp/link')"
    )
    look = "import os; print({'.hidden', 'own', 'link'} & {*os.listdir('/tmp'), *os.listdir('/dev/shm')})"

    async def what(turns):
        await turns.run(leave)
        return (await turns.run(look))[0]

    if not HELD.is_leash:
        assert_each_turn_starts_anew(go)
        return
    assert go(what) == "set()\n"


@pytest.mark.parametrize("memory", ["/tmp", "/dev/shm"])  # noqa: S108 - what a sandbox empties
def test_a_folder_in_memory_keeps_its_files_when_its_sandbox_is_emptied(memory):
    write = "import os; [open(n, 'w').close() for n in ('note', 'sessions/a/own', '/tmp/gone')]"
    look = (
        "import os; print([os.path.exists(n) for n in ('note', 'sessions/a/own', '/tmp/gone')], os.listdir('sessions'))"
    )

    async def what(folder):
        turns = Turns(folder)
        for session in ("a", "b"):
            (folder / "agent" / "sessions" / session).mkdir(parents=True)
        try:
            first, second = [await turns.run(words, own="a") for words in (write, look)]
        finally:
            await turns.sandboxes.close()
        return first[2] == second[2], second[0]

    with tempfile.TemporaryDirectory(dir=memory) as folder:
        is_same, said = asyncio.run(what(Path(folder)))
        assert (Path(folder) / "agent" / "note").exists()
    if HELD.is_leash:
        assert (is_same, said) == (True, "[True, True, False] ['a']\n")


def test_a_large_input_arrives_whole_and_its_end_too(go):
    size = 3_000_000

    async def what(turns):
        found = []
        for _ in range(2):
            program = await turns.start("import sys; print(len(sys.stdin.read()))")
            program.stdin.write(b"x" * size)
            program.stdin.close()
            await program.wait()
            found.append(await program.stdout.read())
            await program.end()
        return found

    assert go(what) == [b"%d\n" % size] * 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "kill -9 $$"], -9),
        (["sh", "-c", "kill -SEGV $$"], -11),
    ],
)
def test_each_end_has_its_code(go, words, code):
    async def what(turns):
        return [(await turns.run(words))[1] for _ in range(2)]

    assert go(what) == [code, code]


SELF_DEFENCE = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
reached = []
for pid in {pids}:
    if pid == 1:
        for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
            os.kill(1, number)
    if libc.ptrace(16, pid, 0, 0) == 0:
        reached.append(f"traces {{pid}}")
    for name in ("mem", "fd/3", "environ", "exe", "root"):
        try:
            os.open(f"/proc/{{pid}}/{{name}}", os.O_RDONLY)
            reached.append(f"opens {{name}} of {{pid}}")
        except OSError:
            pass
    if libc.syscall(438, libc.syscall(434, pid, 0), 3, 0) >= 0:
        reached.append(f"takes a descriptor of {{pid}}")
try:
    open("/.postroom/turn/words", "w")
    reached.append("writes words")
except OSError:
    pass
for name in ("/.postroom/sh", "/.postroom/turn/in"):
    try:
        os.unlink(name)
        reached.append("removes " + name)
    except OSError:
        pass
print(reached)
"""


def test_a_program_can_neither_stop_nor_trace_nor_read_the_first_process(go):
    if not HELD.is_leash:
        assert_each_turn_starts_anew(go)
        return

    async def what(turns):
        first = await turns.run(SELF_DEFENCE.format(pids="(1, os.getppid())"))
        return first, await turns.run(["echo", "x"])

    first, second = go(what)
    assert first[:2] == ("[]\n", 0)
    assert second == ("x\n", 0, first[2])


def assert_each_turn_starts_anew(go):
    async def what(turns):
        return [(await turns.run(["echo", "x"]))[2] for _ in range(2)]

    first, second = go(what)
    assert first != second


def test_a_program_that_kills_what_waits_for_it_was_killed(go):
    source = "import os, signal, time; os.kill(os.getppid(), signal.SIGKILL); time.sleep(600)"

    async def what(turns):
        if not HELD.is_leash:
            return -9
        return (await turns.run(source))[1]

    assert go(what) == -9


def test_a_sandbox_that_waited_long_enough_ends(go, tmp_path):
    async def what(turns):
        _, _, pid = await turns.run(["echo", "x"])
        while is_alive(pid) or any((tmp_path / "sandboxes").glob("*")):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        return (await turns.run(["echo", "x"]))[0]

    assert go(what, idle_s=0.05) == "x\n"


def test_no_more_sandboxes_wait_than_allowed_and_the_oldest_ends(go):
    async def what(turns):
        pids = [(await turns.run(["echo", "x"], session))[2] for session in "abc"]
        while is_alive(pids[0]):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        return [is_alive(pid) for pid in pids], pids[1] == (await turns.run(["echo"], "b"))[2]

    alive, is_same = go(what, at_most=2)
    assert (alive[1:], is_same) == ([HELD.is_leash] * 2, HELD.is_leash)


def test_a_killed_sandbox_is_not_used_again(go, tmp_path):
    async def what(turns):
        _, _, pid = await turns.run(["echo", "x"])
        if HELD.is_leash:
            os.kill(pid, 9)
        while is_alive(pid) or any((tmp_path / "sandboxes").glob("*")):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        return await turns.run(["echo", "y"])

    assert go(what)[:2] == ("y\n", 0)


@pytest.mark.parametrize("generation", [1, 2], ids=["what waits for its end", "what becomes the program"])
def test_a_sandbox_that_lost_the_process_for_its_next_turn_is_not_used_again(go, tmp_path, generation):
    async def what(turns):
        _, _, pid = await turns.run(["echo", "x"])
        if HELD.is_leash:
            (waiting,) = children(pid)  # the first process
            for _ in range(generation):
                while not (found := children(waiting)):  # noqa: ASYNC110 - nobody tells that it is there
                    await asyncio.sleep(0.001)
                (waiting,) = found
            os.kill(waiting, 9)
            while any((tmp_path / "sandboxes").glob("*")):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)
        return (await turns.run(["echo", "y"]))[:2]

    assert go(what) == ("y\n", 0)


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_nothing_waits_for_the_next_turn_while_a_program_runs(go):
    look = "import os; print(*sorted(int(each) for each in os.listdir('/proc') if each.isdigit()), os.getpid())"

    async def what(turns):
        return [(await turns.run(look))[0].split() for _ in range(2)]

    for seen in go(what):
        if HELD.is_leash:
            first, _, program, itself = seen  # between them: what waits for the program's end
            assert (first, program) == ("1", itself)


@pytest.mark.parametrize("steps", range(1, 5))
def test_a_start_that_is_cancelled_leaves_nothing_of_its_sandbox(go, tmp_path, steps):
    async def what(turns):
        await turns.run(["echo", "x"])
        starting = asyncio.create_task(turns.start(["sleep", "600"]))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await starting).end()
        folder = tmp_path / "sandboxes"
        while any(folder.glob("*")) or any("/words" in each for each in opened(os.getpid()).values()):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        return (await turns.run(["echo", "y"]))[0]

    assert go(what) == "y\n"


def test_a_turn_that_is_stopped_ends_its_sandbox(go, tmp_path):
    mark = f"{tmp_path}-long"

    async def what(turns):
        program = await turns.start([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)", mark])
        await program.end()
        return processes_naming(mark), is_alive(program.pid)

    assert go(what) == ([], False)
