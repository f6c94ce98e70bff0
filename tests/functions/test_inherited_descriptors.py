"""A leashed program of the runner's dispatch, which a service manager hands a socket: the program has no part of it."""

import os
import socket
import subprocess
import sys
import urllib.request

from tests.infra.processes import until
from tests.support import column, make_agent, put

LIST = """
import json, os
links = ["/proc/self/fd/" + each for each in os.listdir("/proc/self/fd")]
print(json.dumps(sorted(int(os.path.basename(each)) for each in links if os.path.islink(each))))
"""


def test_a_program_has_no_socket_that_the_function_was_handed(conn, environment):
    make_agent(conn, "lister", provider="command", config={"command": [sys.executable, "-I", "-c", LIST]})
    put(conn, "list", agent="lister")
    with socket.create_server(("127.0.0.1", 0)) as sock:
        address = f"http://127.0.0.1:{sock.getsockname()[1]}"
        words = [sys.executable, "-m", "infra.runner", "dispatch", "--fd", str(sock.fileno())]
        own = {**os.environ, "POSTROOM_TICK_SECRET": "of the test"}
        with subprocess.Popen(words, pass_fds=[sock.fileno()], env=own, stdout=subprocess.DEVNULL) as process:
            try:
                tick = urllib.request.Request(f"{address}/tick", b"", {"X-Postroom-Tick": "of the test"})
                with urllib.request.urlopen(tick, timeout=60):
                    until(lambda: column(conn, "SELECT message FROM responses"), "the program answered")
            finally:
                process.terminate()
    assert column(conn, "SELECT message FROM responses") == ["[0, 1, 2]"]
