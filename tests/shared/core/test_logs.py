import json
import subprocess
import sys

import pytest

_LOGGING = """
import logging, pathlib, threading
from pydantic import SecretStr
from shared.core import logs, page_links
from shared.core.text import redaction
from shared.core.settings import FromEnvironment

class Platform(FromEnvironment):
    token: SecretStr

Platform(token="7100:AAExample-Example")
redaction.register_brief("interaction-token")
log = logs.get()
logs.configure("ingest")
log.info("noun.verb", stored=2)
logging.getLogger("some.library").warning("careful with %s", "that")
logging.getLogger("httpx").info("GET https://api.telegram.org/botTOKEN/getMe")
def fail():
    token = "hunter2"
    raise ValueError("no https://x/bot7100%3AAAExample-Example/getMe and /webhooks/1/interaction-token")
try:
    fail()
except ValueError:
    log.exception("noun.failed")
thread = threading.Thread(target=lambda: log.warning("from.thread"))
thread.start(); thread.join()
log.debug("not.shown")
log.info("odd.facts", folder=pathlib.Path("/x"), half=chr(0xD800), error=ValueError("no"))
log.warning("send.failed", reason="Not Found: /bot7100:AAExample-Example/sendMessage")
logging.getLogger("some.library").warning("GET /bot%s/getMe", "7100:AAExample-Example")
page_links.serve_at("https://post.example")
log.warning("turn.failed", message_id="telegram_1a")
log.info("turn.done", message_id="telegram_1a")
log.warning("agent.paused", agent="coder")
logging.getLogger("some.library").warning("careful")
"""


@pytest.fixture(scope="module")
def lines():
    done = subprocess.run([sys.executable, "-c", _LOGGING], capture_output=True, text=True, check=True, timeout=180)
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_line_is_json_and_names_the_function(lines):
    assert [line["event"] for line in lines] == [
        *(
            "noun.verb",
            "careful with that",
            "noun.failed",
            "from.thread",
            "odd.facts",
            "send.failed",
            "GET /bot***/getMe",
            "turn.failed",
            "turn.done",
            "agent.paused",
            "careful",
        )
    ]
    assert {line["function"] for line in lines} == {"ingest"}
    assert (lines[0]["stored"], lines[0]["level"]) == (2, "info")


def test_any_value_can_be_logged(lines):
    assert [lines[4][name] for name in ("folder", "half", "error")] == ["/x", "\ud800", "no"]


def test_tracebacks_hold_the_error_and_no_local_variable(lines):
    assert "ValueError: no https://x/bot***/getMe and /webhooks/1/***" in lines[2]["exception"]
    assert "hunter2" not in json.dumps(lines)


def test_addresses_that_carry_tokens_are_not_logged(lines):
    assert "TOKEN" not in json.dumps(lines)


def test_our_secrets_are_in_no_line(lines):
    assert lines[5]["reason"] == "Not Found: /bot***/sendMessage"
    assert lines[6]["event"] == "GET /bot***/getMe"
    assert "AAExample" not in json.dumps(lines)


def test_warnings_about_a_message_name_its_page(lines):
    assert {line["event"]: line["page"] for line in lines if "page" in line} == {
        "turn.failed": "https://post.example/#/m/telegram_1a"
    }
