"""What one adds to Postroom is in one place, shown in a copy of the tree.

A channel, a provider, a tool and a job are one new file and one registry line. A setting of an agent or a wiring is its
column and its declaration.
"""

import contextlib
import difflib
import http.server
import json
import os
import queue
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.extending.additions import CHANNEL, JOB, KIT, PROVIDER, SETTING, SETTING_OF_A_WIRING, TOOL

pytestmark = [pytest.mark.long, pytest.mark.any_python]  # it shows in which files an addition stands
ROOT = Path(__file__).parents[2]
ROOMS = ("shared", "functions", "infra", "spark_jobs")
LIMIT_S = 60
ENTRY = re.compile(r'    "\w+": .*,$')  # a line of a registry


@pytest.fixture
def tree(tmp_path):
    """A copy of the product."""
    copy = tmp_path / "tree"
    for room in ROOMS:
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def extend(tree, path, text, registry, line):
    """Add the file, and its line as the last of its kind in the registry."""
    (tree / path).write_text(textwrap.dedent(text).lstrip())
    lines = (tree / registry).read_text().splitlines(keepends=True)
    last = max(number for number, each in enumerate(lines) if ENTRY.match(each))
    lines.insert(last + 1, f"    {line}\n")
    (tree / registry).write_text("".join(lines))


def changes(tree):
    """Each file of the copy that is new or differs, with the lines that were added to it and taken from it."""
    found = {}
    for path in sorted(each for room in ROOMS for each in (tree / room).rglob("*") if each.is_file()):
        name = path.relative_to(tree)
        if "__pycache__" in name.parts or ((ROOT / name).exists() and (ROOT / name).read_bytes() == path.read_bytes()):
            continue
        before = (ROOT / name).read_text().splitlines() if (ROOT / name).exists() else []
        marks = [line[0] for line in difflib.ndiff(before, path.read_text().splitlines())]
        found[str(name)] = (marks.count("+"), marks.count("-"))
    return found


def assert_only(tree, path, registry):
    """Nothing differs but the new file, and one new line of the registry."""
    found = changes(tree)
    assert found.keys() == {path, registry}
    assert found[registry] == (1, 0)


class Platform:
    """Pigeon itself: it keeps every request."""

    def __init__(self):
        self.sent = queue.Queue()
        platform = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                platform.sent.put((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                body = b'{"id": 7}'
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def platform():
    there = Platform()
    yield there
    there.close()


@contextlib.contextmanager
def running(tree, *names, **settings):
    """Run functions of the copy, each in its own process; the address of each."""
    with tempfile.TemporaryDirectory(prefix="pr-", dir="/tmp") as sockets, contextlib.ExitStack() as stack:
        environment = {
            "PATH": os.environ["PATH"],
            "POSTROOM_DB": str(tree / "postroom.db"),
            "POSTROOM_RUN_DIR": sockets,  # a socket's path is at most 107 bytes long
            "POSTROOM_AGENTS_DIR": str(tree / "agents"),
            "POSTROOM_NEW_CHATS": "wire",
            **settings,
        }
        urls = {}
        for name in names:
            sock = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            urls[name] = f"http://127.0.0.1:{sock.getsockname()[1]}"
            command = [sys.executable, "-m", "infra.runner", name, "--fd", str(sock.fileno())]
            process = subprocess.Popen(command, cwd=tree, env=environment, pass_fds=[sock.fileno()])
            stack.callback(process.wait, LIMIT_S)
            stack.callback(process.terminate)
        for url in urls.values():
            call("GET", f"{url}/healthz")
        yield urls


def call(method, url, body=None, **headers):
    """The JSON of the answer. The socket listens before its function does, so the first call waits."""
    content = json.dumps(body).encode() if body is not None else None
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, content, {"Content-Type": "application/json", **headers}, method=method)
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        found = answer.read()
    return json.loads(found) if found else None


def test_a_channel_is_one_file_and_one_line(tree, platform):
    line = '"pigeon": ("shared.channels.pigeon", Traits(has_threads=False, direct_by_sender=True, has_buttons=False)),'
    extend(tree, "shared/channels/pigeon.py", CHANNEL, "shared/channels/registry.py", line)
    assert_only(tree, "shared/channels/pigeon.py", "shared/channels/registry.py")
    settings = {"PIGEON_SECRET": "coo", "PIGEON_API_BASE": platform.url}
    with running(tree, "ingest", "dispatch", "deliver", **settings) as urls:
        note = {"id": "note-1", "loft": "loft-9", "from": "Ana", "text": "hello"}
        call("POST", f"{urls['ingest']}/webhooks/pigeon", note, X_Pigeon_Secret="coo")
        sent = platform.sent.get(timeout=LIMIT_S)
    assert sent == ("/send", {"loft": "loft-9", "text": "You said: hello"})


def test_it_gets_the_suite_of_all_channels_by_a_kit(tree):
    line = '"pigeon": ("shared.channels.pigeon", Traits(has_threads=False, direct_by_sender=True, has_buttons=False)),'
    extend(tree, "shared/channels/pigeon.py", CHANNEL, "shared/channels/registry.py", line)
    for each in ("__init__.py", "fake_client.py", "examples.py", "shared/channels", "events"):
        copy = shutil.copytree if (ROOT / "tests" / each).is_dir() else shutil.copy
        (tree / "tests" / each).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / "tests" / each, tree / "tests" / each)
    kit = tree / "tests/shared/channels/pigeon/kit.py"
    kit.parent.mkdir()
    kit.write_text(textwrap.dedent(KIT))
    suite = [f"tests/shared/channels/{each}.py" for each in ("test_conformance", "test_contract")]
    wanted = "(pigeon or from_the_list or need_no_settings) and not unsigned_request"  # Hypothesis begins slowly there
    command = [sys.executable, "-m", "pytest", "-q", "-k", wanted, *suite]
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"[1-9][0-9]+ passed", done.stdout)


def test_a_provider_is_one_file_and_one_line(tree):
    line = '"shout": "shared.agents.providers.shout",'
    extend(tree, "shared/agents/providers/shout.py", PROVIDER, "shared/agents/registry.py", line)
    assert_only(tree, "shared/agents/providers/shout.py", "shared/agents/registry.py")
    with running(tree, "dispatch", "api") as urls:
        call("PUT", f"{urls['api']}/api/agents/assistant", {"provider": "shout"})
        posted = call("POST", f"{urls['api']}/api/message", {"message": "hello"})
        story = call("GET", f"{urls['api']}/api/messages/{posted['messageId']}?wait=30")
    assert [each["message"] for each in story["responses"]] == ["HELLO"]


def test_a_tool_is_one_file_and_one_line(tree):
    extend(
        tree, "shared/turns/tools/dice.py", TOOL, "shared/turns/tools/registry.py", '"dice": "shared.turns.tools.dice",'
    )
    assert_only(tree, "shared/turns/tools/dice.py", "shared/turns/tools/registry.py")
    with running(tree, "api") as urls:
        names = [each["name"] for each in call("GET", f"{urls['api']}/api/tools")]
        where = f"{urls['api']}/api/agents/assistant/tools/roll_dice"
        rolled = call("POST", where, {"arguments": {"sides": 6}})
        wrong = call("POST", where, {"arguments": {"sides": "many"}})
    assert names[-1] == "roll_dice"
    assert rolled == {"ok": True, "text": "assistant rolled 4.", "isError": False}
    assert wrong["text"].startswith("argument 'sides': should be a valid integer")


def declare(tree, table, column, path, text, before):
    """Add the column and the declaration of a setting to the copy."""
    number = 1 + max(int(each.name[:4]) for each in (tree / "shared/db/migrations").glob("*.sql"))
    migration = f"shared/db/migrations/{number:04}_more.sql"
    (tree / migration).write_text(f"ALTER TABLE {table} ADD COLUMN {column};\n")
    rows = (tree / path).read_text()
    assert rows.count(before) == 1
    (tree / path).write_text(rows.replace(before, f"{text.lstrip()}{before}"))
    assert changes(tree) == {migration: (1, 0), path: (len(text.strip().splitlines()), 0)}
    shutil.copytree(ROOT / "emulator", tree / "emulator", ignore=shutil.ignore_patterns("__pycache__"))


def test_a_setting_of_an_agent_is_its_column_and_its_declaration(tree):
    declare(
        tree,
        "agents",
        "motto TEXT NOT NULL DEFAULT ''",
        "shared/db/roster/agents.py",
        SETTING,
        "is_default: bool = False",
    )
    (tree / "postroom.toml").write_text('[agents.coder]\nmotto = "from the file"\n')
    with running(tree, "api") as urls:
        api = f"{urls['api']}/api"
        seeded = call("GET", f"{api}/agents/coder")["motto"]
        put = call("PUT", f"{api}/agents/coder", {"motto": "by REST"})["agent"]["motto"]
        difference = emulator(tree, urls["api"], "diff", code=1)
        emulator(tree, urls["api"], "agents", "set", "coder", "--motto", "by option")
        shown = emulator(tree, urls["api"], "agents", "show", "coder")
        emulator(tree, urls["api"], "seed", "--apply")
        applied = call("GET", f"{api}/agents/coder")["motto"]
        schemas = call("GET", f"{api}/openapi.json")["components"]["schemas"]
        with pytest.raises(urllib.error.HTTPError, match="400") as refused:
            call("PUT", f"{api}/agents/coder", {"motto": "m" * 81})
        refused.value.close()  # Python 3.14 warns of an answer that nobody has closed
    assert (seeded, put, applied) == ("from the file", "by REST", "from the file")
    assert re.search(r"agents\.coder\.motto +from the file +by REST", difference)
    assert re.search(r"^motto +by option$", shown, re.MULTILINE)
    asked = {"description": "said before the first answer", "maxLength": 80, "title": "Motto", "type": "string"}
    assert [schemas[name]["properties"]["motto"] for name in ("AgentBody", "RosterAgent")] == [asked] * 2
    assert schemas["Agent"]["properties"]["motto"] == {"title": "Motto", "type": "string"}
    assert "What it says first of all." in emulator(tree, "", "agents", "set", "--help")
    page = run(tree, "shared.roster.agents_page")
    assert "| `motto` | `--motto` | silence | text, at most 80 characters | What it says first of all. |" in page


def test_a_setting_of_a_wiring_is_its_column_and_its_declaration(tree):
    column, path = "mood TEXT NOT NULL DEFAULT 'calm'", "shared/db/roster/wirings.py"
    declare(tree, "wirings", column, path, SETTING_OF_A_WIRING, "priority: Annotated[")
    with running(tree, "api") as urls:
        api = f"{urls['api']}/api"
        call("POST", f"{api}/chats", {"channel": "telegram", "platformId": "1"})
        made = call("PUT", f"{api}/chats/1/wirings/assistant", {})["wiring"]["mood"]
        put = call("PUT", f"{api}/chats/1/wirings/assistant", {"mood": "merry"})["wiring"]["mood"]
        emulator(tree, urls["api"], "wirings", "set", "1", "assistant", "--mood", "calm")
        shown = call("GET", f"{api}/chats/1/wirings/assistant")["mood"]
        schemas = call("GET", f"{api}/openapi.json")["components"]["schemas"]
    assert (made, put, shown) == ("calm", "merry", "calm")
    words = {"enum": ["calm", "merry"], "title": "Mood", "type": "string"}
    assert [schemas[name]["properties"]["mood"] for name in ("WiringChangeBody", "Wiring")] == [words] * 2


def emulator(tree, url, *arguments, code=0):
    """What a command of the copy's command line prints about the Postroom at *url*."""
    return run(tree, "emulator", *arguments, code=code, POSTROOM_URL=url, COLUMNS="200")


def run(tree, module, *arguments, code=0, **environment):
    """What a program of the copy prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=tree,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.spark
def test_a_job_is_one_file_and_one_line(tree, tmp_path):
    line = '"senders": "spark_jobs.jobs.senders",'
    extend(tree, "spark_jobs/jobs/senders.py", JOB, "spark_jobs/__main__.py", line)
    assert_only(tree, "spark_jobs/jobs/senders.py", "spark_jobs/__main__.py")
    source = tmp_path / "messages.parquet"
    parquet.write_table(pa.table({"sender": ["Ana", "Ben", "Ana"]}), source)
    command = [sys.executable, "-m", "spark_jobs", "senders", str(source)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (0, "Ana 2\nBen 1\n"), done.stderr
