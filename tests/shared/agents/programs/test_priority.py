"""Programs give way to everything else on the machine, also in the groups in which the kernel counts by session."""

import json
import os
import subprocess
import sys

from tests.infra.processes import ROOT

# Three programs at once, started by a user who is not root: from all of those on the machine together, the kernel takes
# ten changes a second. Who gives root up may not look into the programs that it has just started, as if they were of
# another user, unless it says that others may look into it (PR_SET_DUMPABLE, 4); a start as that user says so.
STARTS = """
import asyncio, ctypes, json, os, pathlib, sys
from shared.agents.programs.holder import Holder
if os.getuid() == 0:
    os.setgid(65534), os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
os.setpriority(os.PRIO_PROCESS, 0, int(sys.argv[1]))

def group(holder):
    return pathlib.Path(f"/proc/{holder.pid}/autogroup").read_text().split(" nice ")[1].strip()

async def main():
    nothing = os.open(os.devnull, os.O_RDWR)
    words = ["/bin/sleep", "60"]
    holders = [Holder.start(words, {}, (nothing, nothing, nothing), lambda line: None) for _ in range(3)]
    async with asyncio.timeout(90):
        while {group(each) for each in holders} != {sys.argv[1]}:
            await asyncio.sleep(0.01)
    print(json.dumps([(os.getpriority(os.PRIO_PROCESS, each.pid), int(group(each))) for each in holders]))
    for each in holders:
        os.kill(each.pid, 9)
        await each.gone()

asyncio.run(main())
"""


def started_by(niceness):
    """The niceness of each of three programs, and that of its session, where dispatch has this *niceness*."""
    words = [sys.executable, "-c", STARTS, str(niceness)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_programs_and_their_sessions_have_the_niceness_of_dispatch():
    assert started_by(19) == [[19, 19]] * 3


def test_where_dispatch_does_not_give_way_programs_do_not_either():
    """Nobody but root may take niceness back, so this begins where the tests themselves are."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert started_by(own) == [[own, own]] * 3
