"""A hostile program as an agent: it tries each way out, beside a running Postroom with everything to reach."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from functions.dispatch import Dispatch
from shared.agents.programs import containment
from shared.core.settings import Settings
from tests.support import column, make_agent, put

SECRET = "a neighbour's secret"

# Each attempt says what it reached; what raises is refused.
HOSTILE = r"""
import http.client, json, os, socket, sqlite3, subprocess, sys
where = json.load(open(sys.argv[1]))
answered = []
where["own"] = "sessions/" + json.loads(sys.stdin.readline())["session"]

def owner():
    there = http.client.HTTPConnection("127.0.0.1", where["port"], timeout=5)
    there.request("PUT", "/api/users/telegram:666/roles/owner", b"{}", {"Content-Type": "application/json"})
    return there.getresponse().status

def gateway(path, token):
    there = http.client.HTTPConnection("127.0.0.1", 8787, timeout=5)
    there.request("POST", path, b"{}", {"Content-Type": "application/json", "Authorization": "Bearer " + token})
    status = there.getresponse().status
    answered.append(status)
    if status >= 400:
        raise OSError(status)
    return status

def tcp(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass

def datagram(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"k", path)

def stream(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)

def database():
    with sqlite3.connect(f"file:{where['db']}?mode=rw", uri=True) as conn:
        return conn.execute("SELECT count(*) FROM agents").fetchone()[0]

def write(path):
    with open(path, "w") as file:
        file.write("x")

def found(names):
    if not names:
        raise OSError("sees nothing")
    return names

def mounts(place, *words):
    # As root of a user namespace of its own.
    os.makedirs(place, exist_ok=True)
    line = " ".join(words) + "; find " + place + " -name letter.txt"
    return found(subprocess.run(["unshare", "-Urm", "sh", "-c", line], capture_output=True, text=True).stdout)

def processes():
    found = [open(f"/proc/{pid}/cmdline").read() for pid in os.listdir("/proc") if pid.isdigit()]
    if not any("infra.runner" in line for line in found):
        raise OSError("sees no process of Postroom")

def environment():
    for pid in os.listdir("/proc"):
        if pid.isdigit() and "POSTROOM_DB" in open(f"/proc/{pid}/environ").read():
            return pid
    raise OSError("sees no environment of Postroom")

attempts = {
    "make itself an owner over REST": owner,
    "reach a server of this machine": lambda: tcp(where["other_port"]),
    "reach REST by the gateway": lambda: gateway("/api/agents", os.environ["POSTROOM_TOKEN"]),
    "call tools with a made-up token": lambda: gateway("/mcp", "made-up"),
    "call tools without a token": lambda: gateway("/mcp", ""),
    "say nothing with its own token": lambda: gateway("/mcp", os.environ["POSTROOM_TOKEN"]),
    "call REST by its name": lambda: stream("\0" + where["abstract"]),
    "open the database": database,
    "copy the database": lambda: open(where["db"], "rb").read(10),
    "list the sockets": lambda: os.listdir(where["sockets"]),
    "kick a function": lambda: datagram(where["kick"]),
    "talk to Litestream": lambda: stream(where["litestream"]),
    "read the replica": lambda: os.listdir(where["replica"]),
    "read another session's folder": lambda: open(where["neighbour"]).read(),
    "list the folders of agents": lambda: os.listdir(os.path.dirname(os.getcwd())).remove("neighbour"),
    "write into another session's folder": lambda: write(where["neighbour"]),
    "list the sessions of its agent": lambda: found(set(os.listdir("sessions")) - {os.path.basename(where["own"])}),
    "read the inbox of another session": lambda: open("sessions/other/inbox/m1/letter.txt").read(),
    "read the outbox of another session": lambda: open("sessions/other/outbox/report.txt").read(),
    "read what Claude wrote in another session": lambda: open("sessions/other/claude/projects/a/1.jsonl").read(),
    "read what Codex wrote in another session": lambda: open("sessions/other/codex/sessions/1.jsonl").read(),
    "read what an API agent wrote in another session": lambda: open("sessions/other/api/api-1.json").read(),
    "put something into another session": lambda: os.makedirs("sessions/other/outbox"),
    "move the sessions away": lambda: os.rename("sessions", "moved"),
    "move its own session away": lambda: os.rename(where["own"], "moved"),
    "unmount what hides the sessions": lambda: mounts("sessions", "umount", "-l", "sessions"),
    "bind its folder without what hides the sessions": lambda: mounts("/tmp/bare", "mount", "--bind", ".", "/tmp/bare"),
    "write to the system": lambda: os.access("/usr", os.W_OK) or os.listdir("/no/such/folder"),
    "leave something in the shared /tmp": lambda: open(where["in_tmp"]).read(),
    "see our processes": processes,
    "read our environment": environment,
}
reached = {}
for name, attempt in attempts.items():
    try:
        reached[name] = repr(attempt())
    except Exception as error:
        pass
write("mine")
for beside in (os.path.dirname(os.getcwd()) + "/mine", "/tmp/" + where["abstract"]):
    try:
        write(beside)  # where its folder is below /tmp, this is its own one
    except OSError:
        pass
print(json.dumps({**reached, "statuses of the gateway": answered} if answered else reached))
"""


@pytest.fixture
def api(conn):
    """The function ``api`` on a loopback port, in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        words = [sys.executable, "-m", "infra.runner", "api", "--fd", str(sock.fileno())]
        with subprocess.Popen(words, pass_fds=[sock.fileno()], stdout=subprocess.DEVNULL) as process:
            port = sock.getsockname()[1]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60):
                yield port
            process.terminate()


OF_ANOTHER_SESSION = (
    *("inbox/m1/letter.txt", "outbox/report.txt", "claude/projects/a/1.jsonl", "codex/sessions/1.jsonl"),
    "api/api-1.json",
)


@pytest.fixture
def other_session(tmp_path):
    """What another session of the same agent keeps."""
    for name in OF_ANOTHER_SESSION:
        path = tmp_path / "agents" / "hostile" / "sessions" / "other" / name
        path.parent.mkdir(parents=True)
        path.write_text(SECRET)


@pytest.fixture
def surroundings(api, db, tmp_path, environment, other_session):
    """What there is to reach, as the program's file names it."""
    neighbour = tmp_path / "agents" / "neighbour"
    replica = tmp_path / "replica"
    for folder in (neighbour, replica):
        folder.mkdir(parents=True)
    (neighbour / "note").write_text(SECRET)
    in_tmp = environment / "in_tmp"
    in_tmp.write_text(SECRET)
    listening = {"litestream": str(environment / "litestream.sock"), "abstract": f"postroom-test-{os.getpid()}"}
    servers = [socket.socket(socket.AF_UNIX) for _ in listening]
    servers[0].bind(listening["litestream"])
    servers[1].bind("\0" + listening["abstract"])
    for server in servers:
        server.listen()
    kick = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    kick.bind(str(environment / "target.sock"))
    other = socket.create_server(("127.0.0.1", 0))  # as a fake platform of the emulator
    yield {
        "other_port": other.getsockname()[1],
        **{"port": api, "db": str(db), "sockets": str(environment), "kick": str(environment / "target.sock")},
        **{"replica": str(replica), "neighbour": str(neighbour / "note"), "in_tmp": str(in_tmp), **listening},
    }
    for sock in (*servers, kick, other):
        sock.close()


def reached(conn, tmp_path, surroundings, **config):
    """What the program reached in its turn."""
    program, facts = tmp_path / "hostile.py", tmp_path / "where.json"
    program.write_text(HOSTILE)
    facts.write_text(json.dumps(surroundings))
    config |= {"command": [sys.executable, "-I", str(program), str(facts)]}
    make_agent(conn, "hostile", provider="command", config=config)
    put(conn, "attack", agent="hostile")

    async def go():
        service = Dispatch(Settings.load())
        await service.claim_and_start()
        while service.worker.running:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await service.close()

    asyncio.run(asyncio.wait_for(go(), 120))
    assert column(conn, "SELECT last_error FROM messages") == [None]
    return json.loads(column(conn, "SELECT message FROM responses")[0])


IN_TMP = Path("/tmp")  # noqa: S108 - where the program writes, whatever TMPDIR says
OWNERS = "SELECT count(*) FROM user_roles"


def test_a_hostile_program_reaches_nothing_on_its_leash_and_never_makes_itself_an_owner(conn, tmp_path, surroundings):
    """On a host without bubblewrap the disk is not protected, as docs/agents/leash.md says; REST still refuses."""
    found = reached(conn, tmp_path, surroundings)
    beside = [tmp_path / "agents" / "mine", IN_TMP / surroundings["abstract"]]
    if containment.available().is_leash:
        assert found == {}
        assert not any(path.exists() for path in beside)
    else:
        assert found["make itself an owner over REST"] == "401"
        (IN_TMP / surroundings["abstract"]).unlink()
    assert column(conn, OWNERS) == [0]
    assert [path.name for path in (tmp_path / "agents" / "hostile").rglob("mine")] == ["mine"]


def test_with_the_gateway_it_reaches_nothing_more(conn, tmp_path, surroundings):
    found = reached(conn, tmp_path, surroundings, mcp=True)
    if containment.available().is_leash:
        # Its own token is known: only the request, which says nothing, is refused.
        assert found == {"statuses of the gateway": [404, 401, 401, 406]}
    assert column(conn, OWNERS) == [0]


@pytest.fixture
def without_leash(monkeypatch):
    monkeypatch.setenv("POSTROOM_LEASH", "off")


def test_without_a_leash_rest_refuses_the_program_that_would_make_itself_an_owner(
    without_leash, conn, tmp_path, surroundings
):
    found = reached(conn, tmp_path, surroundings)
    assert found["make itself an owner over REST"] == "401"
    assert column(conn, OWNERS) == [0]
    (IN_TMP / surroundings["abstract"]).unlink()
