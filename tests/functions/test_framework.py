"""Each function is imported without side effects and served by the stock framework."""

import json
import subprocess
import sys

import pytest

FUNCTIONS = ("ingest", "dispatch", "deliver", "sweep", "recurrence", "api")

_IMPORT = """
import json, sys, threading
made = []
def audit(event, args):
    if event in ("socket.__new__", "sqlite3.connect", "subprocess.Popen"):
        made.append(event)
import functions_framework.aio, httpx, apsw, croniter  # croniter runs the program 'file' to learn Python's word size
sys.addaudithook(audit)
import importlib
module = importlib.import_module(f"functions.{sys.argv[1]}")
import apsw
print(json.dumps([made, threading.active_count(), len(apsw.connections()), module.__name__]))
"""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_importing_a_function_opens_nothing(name):
    done = subprocess.run([sys.executable, "-c", _IMPORT, name], capture_output=True, text=True, timeout=180)
    assert (done.stderr, done.returncode) == ("", 0)
    assert json.loads(done.stdout) == [[], 1, 0, f"functions.{name}"]


_STOCK = """
import json, sys
import functions_framework.aio
from starlette.testclient import TestClient
name, method, path = sys.argv[1:4]
headers = json.loads(sys.argv[4])
app = functions_framework.aio.create_asgi_app(target=name, source=f"functions/{name}.py")
with TestClient(app, base_url="http://127.0.0.1:9000", client=("127.0.0.1", 50000)) as client:
    healthy = client.get("/healthz").json()
    answer = client.request(method, path, headers=headers, content=sys.argv[5].encode() or None)
    print(json.dumps([healthy, answer.status_code, answer.text]))
import os; sys.stdout.flush(); os._exit(0)
"""
TICK = {"x-postroom-tick": "tick-secret"}
TOKEN = {"authorization": "Bearer of-the-tests"}  # its server does not tell the user of a connection
TELEGRAM = {"x-telegram-bot-api-secret-token": "a-Secret_that-telegram-repeats"}
CALLS = {
    "ingest": ("POST", "/webhooks/telegram", TELEGRAM, "[]", 200),
    "dispatch": ("POST", "/tick", TICK, "", 202),
    "deliver": ("POST", "/tick", TICK, "", 202),
    "sweep": ("POST", "/tick", TICK, "", 200),
    "recurrence": ("POST", "/tick", TICK, "", 200),
    "api": ("POST", "/api/message", TOKEN, '{"message": "hello"}', 200),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_stock_framework_serves_each_function(name, monkeypatch):
    monkeypatch.setenv("POSTROOM_API_TOKEN", "of-the-tests")
    method, path, headers, body, status = CALLS[name]
    command = [sys.executable, "-c", _STOCK, name, method, path, json.dumps(headers), body]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    healthy, code, text = json.loads(done.stdout.splitlines()[-1])
    assert healthy == {"ok": True, "function": name}
    assert (code, "error" in text) == (status, False)


_WITHOUT_ASGI_OPTION = """
import sys
import functions_framework
for name in sys.argv[1:]:
    app = functions_framework.create_app(target=name, source=f"functions/{name}.py")
    print(name, type(app).__name__)
"""


def test_the_stock_framework_recognises_each_handler_as_asgi_even_without_its_option():
    """Only registered handlers: any other function would be served by Flask."""
    command = [sys.executable, "-c", _WITHOUT_ASGI_OPTION, *FUNCTIONS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.stdout.split("\n")[:-1] == [f"{name} Starlette" for name in FUNCTIONS], done.stderr
