"""Attachments through the adapters of their channels: patiently, within limits, and with a clear word where not."""

import asyncio

import httpx
import pytest

from shared.channels import registry
from shared.core.errors import NotFetched
from shared.core.settings import Settings
from shared.roster.served_accounts import ServedAccounts
from shared.runtime.http_client import NoAnswer
from shared.turns.run.files.channel_files import ChannelFiles
from tests.fake_client import FakeClient
from tests.shared.turns.tools.calls import process_on

FILE = {"kind": "document", "url": "https://cdn.discordapp.com/attachments/1/2/a.txt?ex=1", "size": 2}


def fetch(db, *script, channel="discord", attachment=FILE, limit_bytes=1000):
    """What comes, and how often the platform was asked."""
    asked = []

    def platform(request):
        asked.append(str(request.url))
        answer = script[min(len(asked), len(script)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def go(process):
        files = ChannelFiles(process.reader, ServedAccounts(Settings.load()), FakeClient(platform), (0.0, 0.0))
        return await files.fetch(channel, attachment, limit_bytes)

    with process_on(db) as process:
        try:
            return asyncio.run(go(process)), len(asked)
        except NotFetched as error:
            return error, len(asked)


def test_the_bytes_come_through_the_adapter_of_the_channel(db):
    assert fetch(db, httpx.Response(200, content=b"42")) == (b"42", 1)


@pytest.mark.parametrize("trouble", [httpx.Response(503), NoAnswer("ReadTimeout")], ids=str)
def test_trouble_that_passes_costs_only_time(db, trouble):
    assert fetch(db, trouble, trouble, httpx.Response(200, content=b"42")) == (b"42", 3)


def test_trouble_that_stays_is_said_after_three_attempts(db):
    error, asked = fetch(db, httpx.Response(503))
    assert (str(error), asked) == ("Discord answered 503 instead of the file", 3)


def test_what_is_gone_is_not_asked_for_again(db):
    error, asked = fetch(db, httpx.Response(404))
    assert ("no longer there" in str(error), asked) == (True, 1)


@pytest.mark.parametrize("limit_bytes", [1, 0])
def test_the_limit_of_the_caller_holds(db, limit_bytes):
    error, _ = fetch(db, httpx.Response(200, content=b"42"), limit_bytes=limit_bytes)
    assert isinstance(error, NotFetched)


def test_an_address_of_another_host_is_not_asked(db):
    error, asked = fetch(db, httpx.Response(200), attachment={**FILE, "url": "http://169.254.169.254/latest"})
    assert (isinstance(error, NotFetched), asked) == (True, 0)


@pytest.mark.parametrize("channel", ["matrix", "api", "internal"])
def test_a_channel_without_files_says_so(db, channel):
    error, asked = fetch(db, channel=channel)
    assert (str(error), asked) == ("Postroom can't fetch files of this channel", 0)


def test_an_account_that_is_not_set_up_any_more_says_so(db, monkeypatch):
    monkeypatch.delenv("DISCORD_BOT_TOKEN")
    registry.get.cache_clear()
    error, asked = fetch(db)
    assert (str(error), asked) == ("the channel is no longer set up on this host", 0)


@pytest.mark.parametrize("attachment", [{"kind": "photo"}, {"kind": "photo", "url": 7}, {"url": "x" * 10**6}, {}])
def test_a_broken_attachment_is_a_word_and_no_crash(db, attachment):
    for channel in registry.PLATFORMS:
        error, _ = fetch(db, httpx.Response(400, json={"ok": False}), channel=channel, attachment=attachment)
        assert isinstance(error, NotFetched)
