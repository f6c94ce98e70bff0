"""``emulator channel discord register`` and ``connect``, against a server that plays Discord."""

import asyncio
import json
import re
import shlex
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from emulator.cli.commands.channels import channel
from shared.channels import registry
from shared.conversation.access import channel_watch
from shared.db.engine.connection import transaction
from shared.runtime.http1_client import HttpClient
from tests.support import NOW

APP = "1290000000000000001"


class FakeCommands(ThreadingHTTPServer):
    """The commands and the application of one app."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.commands, self.puts, self.endpoint, self.application, self.events = [], 0, None, APP, 1

    @property
    def facts(self):
        return {
            "id": self.application,
            "interactions_endpoint_url": self.endpoint,
            "event_webhooks_status": self.events,
        }


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        is_app = self.path.endswith("/@me")
        self._answer(self.server.facts if is_app else self.server.commands)

    def do_PUT(self):
        self.server.puts += 1
        self.server.commands = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(self.server.commands)

    def do_PATCH(self):
        changed = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.endpoint = changed["interactions_endpoint_url"]
        self.server.events = changed.get("event_webhooks_status", self.server.events)
        self._answer(self.server.facts)

    def _answer(self, found):
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def discord(monkeypatch):
    server = FakeCommands()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("DISCORD_PUBLIC_KEY", "f7" * 32)
    monkeypatch.setenv("DISCORD_APPLICATION_ID", APP)
    monkeypatch.setenv("DISCORD_BOT_TOKEN", "the.token")
    monkeypatch.setenv("DISCORD_API_BASE", f"http://127.0.0.1:{server.server_address[1]}/api/v10")
    registry.get.cache_clear()
    yield server
    registry.get.cache_clear()
    server.shutdown()
    server.server_close()
    thread.join()


def run(*arguments):
    return invoke("register", *arguments)


def invoke(*arguments):
    return CliRunner().invoke(channel.app, ["discord", *arguments])


def test_connect_registers_the_address_and_takes_another_program_over_only_when_asked(discord):
    discord.endpoint = "https://other.example/x"
    refused = invoke("connect", "--url", "https://bot.example.com")
    assert refused.exit_code != 0
    assert discord.endpoint == "https://other.example/x"
    told = invoke("connect", "--url", "https://bot.example.com", "--take-over")
    assert told.exit_code == 0, told.output
    assert "taken over from https://other.example/x" in told.output
    assert discord.endpoint == "https://bot.example.com/webhooks/discord"
    again = invoke("connect", "--url", "https://bot.example.com", "--json")
    assert json.loads(again.output)["changed"] is False


OURS = "https://bot.example.com/webhooks/discord"
MENDED = {
    "not_registered": {"endpoint": None},
    "elsewhere": {"endpoint": "https://other.example/x"},
    "kinds_missing": {"events": 3},
}


def look(conn, at_ms):
    """What the next look of ``sweep`` notes, with the settings of this shell."""
    registry.get.cache_clear()
    adapter = registry.get("discord")

    async def go():
        client = HttpClient()
        try:
            return await adapter.registration(client)
        finally:
            await client.close()

    with transaction(conn):
        return channel_watch.note(conn, "discord", asyncio.run(go()), now_ms=at_ms)


@pytest.mark.parametrize(("code", "changes"), MENDED.items())
def test_connect_keeps_our_address_and_the_command_that_mends_runs_as_it_is_printed(
    discord, conn, db, monkeypatch, code, changes
):
    """Before any interaction came in: an app that another program takes at once is known to be taken."""
    monkeypatch.setenv("POSTROOM_DB", str(db))
    said = invoke("connect", "--url", "https://bot.example.com").output
    assert "WEBHOOK_URL" not in said, "Postroom knows it by itself"
    for name, value in changes.items():
        setattr(discord, name, value)
    watch = look(conn, NOW)
    assert (watch.code, watch.known_url) == (code, OURS)
    program, group, platform, *words = shlex.split(channel_watch.command(watch))
    assert (program, group, platform) == ("emulator", "channel", "discord")
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    assert discord.endpoint == OURS
    assert look(conn, NOW + 1).state == "well"


def test_a_token_of_another_application_is_mended_by_the_setting_that_is_printed(discord, conn, db, monkeypatch):
    """No command can: connecting again was printed, and is refused for the same reason."""
    monkeypatch.setenv("POSTROOM_DB", str(db))
    monkeypatch.setenv("DISCORD_WEBHOOK_URL", OURS)
    discord.application, discord.endpoint = "42", OURS
    watch = look(conn, NOW)
    assert watch.code == "failing"
    sentence = channel_watch.sentence(watch)
    set_name, value = re.search(r"To fix it: set (\w+)=(\w+), and start Postroom again$", sentence).groups()
    assert set_name in invoke("connect").output
    monkeypatch.setenv(set_name, value)
    assert look(conn, NOW + 1).state == "well"


def test_the_address_may_be_a_setting_and_is_asked_for_where_nobody_knows_it(discord, monkeypatch):
    assert "DISCORD_WEBHOOK_URL" in invoke("connect").output
    registry.get.cache_clear()
    monkeypatch.setenv("DISCORD_WEBHOOK_URL", "https://bot.example.com/webhooks/discord")
    assert invoke("connect").exit_code == 0
    assert discord.endpoint == "https://bot.example.com/webhooks/discord"


def test_it_registers_once_and_says_what_is_missing_in_the_portal(discord):
    first = run()
    assert first.exit_code == 0, first.output
    assert "/ask" in first.output
    assert "Interactions Endpoint URL" in first.output
    discord.endpoint = "https://bot.example.com/webhooks/discord"
    second = run("--json")
    assert json.loads(second.output)["changed"] is False
    assert discord.puts == 1


def test_what_another_tool_registered_is_shown_and_stays(discord):
    discord.commands = [{"name": "ask", "type": 1, "description": "Theirs"}, {"name": "dice", "type": 1}]
    refused = run()
    assert refused.exit_code != 0
    assert "/ask" in refused.output
    assert "--overwrite" in refused.output
    assert discord.puts == 0
    assert run("--overwrite").exit_code == 0
    assert "dice" in [each["name"] for each in discord.commands]


def test_a_missing_setting_and_a_wrong_server_are_named(discord, monkeypatch):
    assert "number" in run("--guild", "home").output
    monkeypatch.delenv("DISCORD_BOT_TOKEN")
    registry.get.cache_clear()
    failed = run()
    assert failed.exit_code != 0
    assert "DISCORD_BOT_TOKEN" in failed.output
