"""``emulator replica drill``: what it refuses before anything is killed."""

import asyncio
import http.server
import json
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from typer.testing import CliRunner

from emulator.base.errors import NotReady
from emulator.cli.app import app
from emulator.cli.commands.replica import hosts
from emulator.cli.commands.replica.drill import _describe_drill
from emulator.system.writer_death import WriterDeath, routes
from infra.litestream import DrillResult
from infra.litestream.comparison.row_differences import RowDifferences

SECONDS = {"kill": 0.1, "back": 2.0, "total": 9.0}
EQUAL = DrillResult(
    "equal", "s3://b/db/epoch_1", "000000000000000a", 40, 1000, 5_000_000, (), 0, (), 1.25, 0.5, 0.25
)  # fmt: skip
BEHIND = DrillResult(
    "behind", "s3://b/db/epoch_1", "000000000000000a", 40, 1000, 5_000_000,
    (RowDifferences("messages", 9, 7, 2, 1, 0, "8"),), 179, ("telegram_1", "telegram_2"), 1.25, 0.5, 0.25,
)  # fmt: skip
DAMAGED = DrillResult("damaged", "s3://b/db/epoch_1", "", 0, 0, 5, (), 0, (), 1.0, 0.0, 0.0, "files are missing")
NO_LOAD = {"sent": 0, "accepted": 0, "refused": 0}


@pytest.fixture
def production(tmp_path, monkeypatch):
    """A folder without an emulator, and the settings of a production host."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EMULATOR_STATE", raising=False)
    for name in ("DB", "REPLICA_URL", "LITESTREAM_SOCKET"):
        monkeypatch.setenv(f"POSTROOM_{name}", f"{tmp_path}/{name.lower()}")


def run(*arguments):
    return CliRunner().invoke(app, ["replica", "drill", *arguments])


def test_a_production_host_is_not_killed_without_a_flag_of_its_own(production):
    refused = run("--yes")
    assert refused.exit_code == 77
    assert "use --no-kill, which also proves the replica and disturbs no one" in refused.stderr
    unconfirmed = run("--kill-production")
    assert unconfirmed.exit_code == 64
    assert "confirm with --yes" in unconfirmed.stderr


def test_a_comparison_that_can_not_be_made_kills_nothing_and_is_told(production):
    refused = run("--no-kill")
    assert refused.exit_code == 69
    assert "the drill could not compare: there is no database" in refused.stderr


def test_without_an_emulator_and_without_settings_it_says_what_to_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("POSTROOM_DB", "EMULATOR_STATE"):
        monkeypatch.delenv(name, raising=False)
    assert run("--yes").exit_code == 69


def test_the_processes_that_have_the_database_open_are_found(tmp_path):
    database = tmp_path / "p.db"
    database.touch()
    assert hosts.users_of(database) == []
    program = "import sys; file = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"open\n"
        with database.open():
            assert hosts.users_of(database) == [process.pid], "this process is none of them"
        process.stdin.close()


def text_of(command_result):
    return json.dumps([str(part) for part in command_result.parts])


def test_what_was_lost_is_told_in_numbers():
    told = _describe_drill(BEHIND, SECONDS, {"sent": 9, "accepted": 8, "refused": 1})
    assert told.code == 0
    assert "2 rows of the last 179 ms; messages telegram_1, telegram_2" in text_of(told)
    assert "8 messages accepted, 1 refused" in text_of(told)
    assert told.facts["seconds"] == {
        "kill": 0.1,
        "restore": 1.25,
        "check": 0.5,
        "compare": 0.25,
        "back": 2.0,
        "total": 9.0,
    }
    assert told.facts["differences"][0]["lost"] == 2


@pytest.mark.parametrize(
    ("found", "code", "said"),
    [
        (EQUAL, 0, "the bucket had everything"),
        (DAMAGED, 65, "does NOT restore: files are missing"),
        (
            DrillResult(**{name: getattr(BEHIND, name) for name in BEHIND.__slots__} | {"outcome": "differs"}),
            65,
            "is NOT",
        ),
    ],
)
def test_the_exit_code_tells_whether_the_replica_can_be_relied_on(found, code, said):
    told = _describe_drill(found, SECONDS, NO_LOAD)
    assert (told.code, said in told.parts[0]) == (code, True)


class Death:
    """Kills nothing; *refuses*: the reason."""

    def __init__(self, refuses=None):
        self.refuses, self.killed = refuses, 0

    async def kill(self):
        if self.refuses:
            raise NotReady(self.refuses)
        self.killed += 1
        return {"functions": [1], "litestream": os.getpid()}

    async def revive(self):
        return {"replica": "s3://b"}


@pytest.mark.parametrize(
    ("headers", "refuses", "status", "killed"),
    [
        ({}, None, 401, 0),
        ({"Authorization": "Bearer wrong"}, None, 401, 0),
        ({"Authorization": "Bearer s3cret"}, None, 200, 1),
        ({"Authorization": "Bearer s3cret"}, "another drill", 503, 0),
    ],
)
def test_only_those_who_know_the_secret_of_the_ticks_kill(headers, refuses, status, killed):
    """A page in a browser can send a POST to an address of this machine."""
    death = Death(refuses)

    async def go():
        application = web.Application()
        application.add_routes(routes(death, "s3cret"))
        async with (
            TestClient(TestServer(application)) as client,
            client.post("/_emulator/drill/kill", headers=headers) as got,
        ):
            return got.status

    assert asyncio.run(go()) == status
    assert death.killed == killed


class Processes:
    """Functions and Litestream of an emulator, of which one process does not end; *revived* counts."""

    def __init__(self, ends):
        self.ends, self.revived = ends, 0

    async def _kill(self):
        if not self.ends:
            await asyncio.Event().wait()
        return [1]

    def components(self):
        def revive():
            self.revived += 1

        functions = SimpleNamespace(kill=self._kill, revive=revive)
        return SimpleNamespace(functions=functions, litestream=SimpleNamespace(kill=lambda: 2, revive=lambda: None))


@pytest.mark.parametrize("ends", [False, True], ids=["a process does not end", "the drill is never heard of again"])
def test_functions_never_stay_dead_because_of_a_drill(ends):
    processes = Processes(ends)

    async def go():
        console = SimpleNamespace(event=lambda *_, **__: None)
        death = WriterDeath(processes.components(), console, kill_limit_s=0.05, held_limit_s=0.05 if ends else 30)
        if ends:
            assert await death.kill() == {"litestream": 2, "functions": [1]}
            with pytest.raises(NotReady, match="another drill keeps"):
                await death.kill()
        else:
            with pytest.raises(NotReady, match="everything is brought back"):
                await death.kill()
            assert processes.revived == 1
        deadline = time.monotonic() + 30
        while not processes.revived:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        processes.ends = True
        assert await death.kill(), "the next drill may begin"

    asyncio.run(go())


def test_a_kill_without_an_answer_is_followed_by_a_revival(tmp_path):
    asked = []
    answered = threading.Event()

    class Deaf(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.path)
            if self.path.endswith("kill"):
                answered.wait(30)
                return
            text = b'{"replica": "s3://b"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Deaf) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        gateway = f"http://127.0.0.1:{server.server_port}"
        host = hosts.EmulatorHost(
            tmp_path / "p.db", "s3://b", tmp_path / "l.sock", None, {}, gateway, "s3cret", kill_limit_s=0.2
        )
        with pytest.raises(NotReady, match="brings everything back within a minute"):
            host.kill()
        answered.set()
        server.shutdown()

    assert asked == ["/_emulator/drill/kill", "/_emulator/drill/revive"]
