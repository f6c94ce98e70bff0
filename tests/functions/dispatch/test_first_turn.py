"""The first turn of a dispatch, for which modules are imported and the leash is tried: other agents go on meanwhile."""

import json
import os
import subprocess
import sys

from shared.db.engine.connection import rows
from tests.support import make_agent, put

# Says what the thread of the event loop imported, and which programs it waited for.
DISPATCH = """
import asyncio, concurrent.futures.thread, json, subprocess, sys, threading
from functions.dispatch import Dispatch
from shared.core.settings import Settings

by_the_loop = []

def note(what):
    if threading.current_thread() is threading.main_thread():
        by_the_loop.append(str(what))

class Imports:
    def find_spec(self, name, *_):
        note(name)

run = subprocess.run

def seen(words, **options):
    note(words)
    return run(words, **options)

async def go():
    service = Dispatch(Settings.load())
    sys.meta_path.insert(0, Imports())
    subprocess.run = seen
    await service.claim_and_start()
    while service.worker.running:
        await asyncio.sleep(0.005)
    said, by_the_loop[:] = list(by_the_loop), []
    await service.close()
    return said

print(json.dumps(asyncio.run(go())))
"""


def test_the_event_loop_imports_nothing_for_the_first_turn_and_waits_for_no_program(conn, db, tmp_path):
    make_agent(conn, "coder", provider="command", config={"command": ["/bin/echo", "done"]})
    put(conn, agent="coder")
    environment = {**os.environ, "POSTROOM_DB": str(db), "POSTROOM_AGENTS_DIR": str(tmp_path / "agents")}
    words = [sys.executable, "-c", DISPATCH]
    said = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
    assert rows(conn, "SELECT message FROM responses") == [("done",)]
    assert json.loads(said.splitlines()[-1]) == []
