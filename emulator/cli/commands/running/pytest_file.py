"""The pytest of a recorded request: ``emulator requests export`` writes it."""

import json
import pprint
from collections.abc import Mapping
from typing import Any

_TEST = '''"""{title}

It sends the webhook again through the fake Telegram, and is red until the fault is fixed. Run it against an emulator:

    emulator exec -- pytest {{this file}}
"""

import json
import os
import time
import urllib.request

UPDATE = {update}
ACCOUNT, METHOD, CHAT = {account!r}, {method!r}, {chat!r}
LIMIT_S = 60


def ask(path, body=None):
    """The answer of the emulator's fake platforms."""
    base = os.environ["TELEGRAM_API_BASE"].removesuffix("/telegram") + ACCOUNT + "/control"
    headers = {{"Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("EMULATOR_TOKEN", "")}}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(base + path, data, headers), timeout=30) as answer:
        return json.load(answer)


def wait_for(look):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.1)
    raise AssertionError(f"nothing came within {{LIMIT_S}} s; an update of the chat before it may be tried again still")


def attempts(update):
    listed = ask("/requests?platform=telegram&limit=1000")["requests"]
    return [each for each in listed if each.get("ref") == str(update)]


{test}'''
_OF_WEBHOOK = """def test_the_bot_takes_this_webhook():
    update = ask("/telegram/updates", UPDATE)["update_id"]
    first = wait_for(lambda: attempts(update))[0]
    assert first["status"] is not None and 200 <= first["status"] < 300, first
"""
_OF_CALL = """def test_the_platform_takes_this_call():
    before = max([each["seq"] for each in ask(f"/telegram/calls?method={METHOD}")["calls"]], default=0)
    ask("/telegram/updates", UPDATE)
    first = wait_for(lambda: ask(f"/telegram/calls?method={METHOD}&chat={CHAT}&after={before}")["calls"])[0]
    assert 200 <= first["status"] < 300, first["answer"]
"""


def written(request: Mapping[str, Any], update: Mapping[str, Any], account: str | None) -> str:
    """The text of the test for *request*; *update* is the webhook that it sends, and gets a new number."""
    is_call = "params" in request
    body = {key: value for key, value in update.items() if key != "update_id"}
    status = request["status"] or "no status"
    title = f"Request {request['id']}: {request['what']} of Telegram was answered with {status}."
    return _TEST.format(
        title=title,
        update=pprint.pformat(json.loads(json.dumps(body)), width=110, sort_dicts=False),
        account=f"/accounts/{account}" if account else "",
        method=request["what"] if is_call else None,
        chat=request["chat"],
        test=_OF_CALL if is_call else _OF_WEBHOOK,
    )
