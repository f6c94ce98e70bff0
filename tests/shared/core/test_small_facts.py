"""Backoff, durations, ids, settings and logs."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core import ids
from shared.core.backoff import delay_ms
from shared.core.durations import parse_ms
from shared.core.errors import ConfigInvalid
from shared.core.settings import Settings

# -- backoff


def test_waits_double_up_to_the_cap_and_jitter_only_shortens():
    def waits(jitter):
        return [delay_ms(attempt, base_ms=5000, cap_ms=60_000, jitter=jitter) for attempt in range(1, 7)]

    assert waits(0.0) == [2500, 5000, 10_000, 20_000, 30_000, 30_000]
    assert waits(0.999999) == [4999, 9999, 19_999, 39_999, 59_999, 59_999]


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**9), st.floats(0, 1, exclude_max=True))
def test_a_wait_is_never_longer_than_the_cap(attempt, base, cap, jitter):
    assert 0 <= delay_ms(attempt, base_ms=base, cap_ms=cap, jitter=jitter) <= cap


# -- durations


@pytest.mark.parametrize(("text", "ms"), [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("24h", 86_400_000)])
def test_a_duration_is_a_whole_number_and_its_unit(text, ms):
    assert parse_ms(text) == ms


@pytest.mark.parametrize("text", ["", "10", "0s", "1.5s", "-1s", "10 s", "1d", "1000000000ms"])
def test_any_other_duration_is_refused_with_the_form(text):
    with pytest.raises(ValueError, match=r"write a whole number and ms, s, m or h"):
        parse_ms(text)


# -- ids


def test_ids_are_a_prefix_and_eight_of_their_alphabet():
    made = {ids.new("telegram") for _ in range(1000)}
    assert len(made) == 1000
    assert all(len(each) == len("telegram_") + 8 and set(each[9:]) <= set(ids.ALPHABET) for each in made)


# -- settings


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No settings of this machine."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"POSTROOM_{name.upper()}", raising=False)


WRONG = {
    "a word for a number": {"POSTROOM_BATCH_SIZE": "hunter2"},
    "a number out of range": {"POSTROOM_LEASE_MS": "7"},
    "a word that is none of the allowed": {"POSTROOM_NEW_CHATS": "hunter2"},
    "two at once": {"POSTROOM_UNKNOWN_SENDS": "hunter2", "POSTROOM_MAX_ATTEMPTS": "0"},
}


@pytest.mark.parametrize("environment", WRONG.values(), ids=WRONG)
def test_every_wrong_variable_is_named_and_no_value_is_shown(monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigInvalid) as refused:
        Settings.load()
    assert all(name in str(refused.value) for name in environment)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_secrets_are_in_no_repr(monkeypatch):
    monkeypatch.setenv("POSTROOM_TICK_SECRET", "hunter2")
    monkeypatch.setenv("POSTROOM_API_TOKEN", "hunter2")
    settings = Settings.load()
    assert settings.tick_secret.get_secret_value() == "hunter2"
    assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"


def test_an_empty_variable_is_not_set(monkeypatch):
    """An empty secret would let every caller in."""
    monkeypatch.setenv("POSTROOM_TICK_SECRET", "")
    monkeypatch.setenv("POSTROOM_API_TOKEN", "")
    settings = Settings.load()
    assert (settings.tick_secret, settings.api_token) == (None, None)


def test_the_sockets_are_beside_the_database_by_default(monkeypatch):
    monkeypatch.setenv("POSTROOM_DB", "/srv/p.db")
    assert str(Settings.load().sockets) == "/srv/p.db.run"
    monkeypatch.setenv("POSTROOM_RUN_DIR", "/run/p")
    assert str(Settings.load().sockets) == "/run/p"


# -- logs

_LOGGING = """
import logging, pathlib, threading
from shared.core import logs
log = logs.get()
logs.configure("ingest")
log.info("noun.verb", stored=2)
logging.getLogger("some.library").warning("careful with %s", "that")
logging.getLogger("httpx").info("GET https://api.telegram.org/botTOKEN/getMe")
def fail():
    token = "hunter2"
    raise ValueError("no")
try:
    fail()
except ValueError:
    log.exception("noun.failed")
thread = threading.Thread(target=lambda: log.warning("from.thread"))
thread.start(); thread.join()
log.debug("not.shown")
log.info("odd.facts", folder=pathlib.Path("/x"), half=chr(0xD800), error=ValueError("no"))
"""


@pytest.fixture(scope="module")
def lines():
    done = subprocess.run([sys.executable, "-c", _LOGGING], capture_output=True, text=True, check=True, timeout=180)
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_line_is_json_and_names_the_function(lines):
    assert [line["event"] for line in lines] == [
        *("noun.verb", "careful with that", "noun.failed", "from.thread", "odd.facts")
    ]
    assert {line["function"] for line in lines} == {"ingest"}
    assert (lines[0]["stored"], lines[0]["level"]) == (2, "info")


def test_any_value_can_be_logged(lines):
    assert [lines[4][name] for name in ("folder", "half", "error")] == ["/x", "\ud800", "no"]


def test_tracebacks_hold_the_error_and_no_local_variable(lines):
    assert "ValueError: no" in lines[2]["exception"]
    assert "hunter2" not in json.dumps(lines)


def test_addresses_that_carry_tokens_are_not_logged(lines):
    assert "TOKEN" not in json.dumps(lines)
