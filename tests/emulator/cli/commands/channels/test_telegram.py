"""``emulator channel telegram`` against a server that plays Telegram."""

import fcntl
import json
import os
import shlex
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import apsw
import pytest
from typer.testing import CliRunner, Result

from emulator.base.state import StateFolder
from emulator.cli.app import app
from shared.channels import registry
from shared.channels.base import Registration
from shared.channels.telegram import webhooks
from shared.conversation.access import channel_watch
from shared.conversation.routing.commands import MENU
from shared.db.engine.connection import transaction
from shared.db.platforms import channel_watches
from tests.support import NOW

TOKEN = "7100200300:AAExampleExampleExampleExampleExample"
URL = "https://bot.example.org/webhooks/telegram"


class Server:
    """Telegram for one bot: its registration and its commands."""

    def __init__(self) -> None:
        self.webhook: dict[str, Any] = {"url": "", "pending_update_count": 2}
        self.commands: list[Any] = []
        self.paths: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.paths.append(self.path)
                answer = json.dumps({"ok": True, "result": outer.answer(self.path.rpartition("/")[2], body)}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._http = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def answer(self, method: str, body: dict[str, Any]) -> Any:
        match method:
            case "getMe":
                return {"id": 7100200300, "username": "aurora_helper_bot", "can_read_all_group_messages": False}
            case "getWebhookInfo":
                return self.webhook
            case "getMyCommands":
                return self.commands
            case "setWebhook":
                self.webhook = {"url": body["url"], "allowed_updates": body["allowed_updates"]}
            case "setMyCommands":
                self.commands = body["commands"]
        return True

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The bot's settings, in the environment as an operator has them."""
    made = Server()
    for prefix in ("TELEGRAM_", "TELEGRAM_SALES_"):
        monkeypatch.setenv(f"{prefix}BOT_TOKEN", TOKEN)
        monkeypatch.setenv(f"{prefix}WEBHOOK_SECRET", "a-Secret_that-telegram-repeats")
        monkeypatch.setenv(f"{prefix}BOT_USERNAME", "")
    monkeypatch.delenv("TELEGRAM_WEBHOOK_URL", raising=False)
    monkeypatch.setenv("TELEGRAM_API_BASE", made.url)
    registry.get.cache_clear()
    yield made
    registry.get.cache_clear()
    made.close()


def run(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["channel", "telegram", *arguments])
    assert done.exit_code == code, f"{done.exit_code}: {done.stdout}{done.stderr}{done.exception!r}"
    assert TOKEN not in done.stdout + done.stderr
    return done


def test_it_connects_and_says_what_it_did(server: Server) -> None:
    said = run("connect", "--url", "https://bot.example.org").stdout
    assert server.webhook == {"url": URL, "allowed_updates": list(webhooks.UPDATES)}
    assert f"@aurora_helper_bot is now connected: Telegram sends its updates to {URL}." in said
    assert "come now: 2." in said
    assert f"Commands: registered {', '.join(f'/{name}' for name in MENU)}." in said
    assert "In groups it hears commands, mentions and replies only." in said
    assert "Set TELEGRAM_BOT_USERNAME=aurora_helper_bot" in said
    assert f"Set TELEGRAM_WEBHOOK_URL={URL}" in said
    again = run("connect", "--url", "https://bot.example.org").stdout
    assert "@aurora_helper_bot was already connected" in again
    assert "Commands: unchanged." in again


def test_a_further_bot_has_its_own_address_and_settings(server: Server) -> None:
    run("connect", "--url", "https://bot.example.org", "--account", "sales")
    assert server.webhook["url"] == "https://bot.example.org/webhooks/telegram.sales"


def test_the_address_may_be_a_setting(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_WEBHOOK_URL", URL)
    said = run("connect", "--json").stdout
    facts = json.loads(said)
    assert (facts["webhook"], facts["isOurs"], facts["newCommands"]) == (URL, True, list(MENU))
    assert run("show").stdout.splitlines()[1] == f"webhook          {URL}"


def test_another_program_keeps_its_bot_unless_it_is_taken(server: Server) -> None:
    server.webhook["url"] = "https://other.example.org/hook"
    refused = run("connect", "--url", "https://bot.example.org", code=1).stderr
    assert "connected elsewhere: Telegram sends its updates to https://other.example.org/hook" in refused
    assert "channel telegram connect --url https://bot.example.org --take-over" in refused
    assert server.webhook["url"] == "https://other.example.org/hook"
    said = run("connect", "--url", "https://bot.example.org", "--take-over").stdout
    assert "It was taken over from https://other.example.org/hook, which gets nothing more." in said
    assert server.webhook["url"] == URL


MENDED = {
    "not_registered": {"url": ""},
    "elsewhere": {"url": "https://other.example.org/hook"},
    "kinds_missing": {"url": URL, "allowed_updates": ["message"]},
    "failing": {"url": URL, "pending_update_count": 2, "last_error_message": "502", "last_error_date": 2_000_000_000},
    "backlog": {"url": URL, "pending_update_count": 3},
}


@pytest.mark.parametrize(("code", "webhook"), MENDED.items())
@pytest.mark.parametrize("account", ["telegram", "telegram.sales"])
def test_connect_keeps_our_address_and_the_command_that_mends_runs_as_it_is_printed(
    server: Server,
    conn: apsw.Connection,
    db: Path,
    monkeypatch: pytest.MonkeyPatch,
    account: str,
    code: str,
    webhook: dict[str, Any],
) -> None:
    """Before any event came in: a bot that another program takes at once is known to be taken."""
    monkeypatch.setenv("POSTROOM_DB", str(db))
    base = {"allowed_updates": list(webhooks.UPDATES)}
    ours = URL.replace("/telegram", f"/{account}")
    said = run("connect", "--url", "https://bot.example.org", "--account", account).stdout
    assert "WEBHOOK_URL" not in said, "Postroom knows it by itself"
    earlier = webhooks.registration_of(base | {"url": ours, "pending_update_count": 1}, "")
    server.webhook = base | webhook | ({"url": ours} if webhook["url"] == URL else {})
    with transaction(conn):
        assert channel_watch.note(conn, account, earlier, now_ms=NOW - channel_watch.LOOK_EVERY_MS).state == "well"
        watch = channel_watch.note(conn, account, webhooks.registration_of(server.webhook, ""), now_ms=NOW)
    assert (watch.code, watch.known_url) == (code, ours)
    program, group, platform, *words = shlex.split(channel_watch.command(watch))
    assert (program, group, platform) == ("emulator", "channel", "telegram")
    run(*words)
    assert server.webhook == {"url": ours, "allowed_updates": list(webhooks.UPDATES)}


def test_beside_a_running_emulator_the_command_needs_no_settings_in_the_shell(
    server: Server, conn: apsw.Connection, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chat page shows it, and the emulator's bot has its token from the emulator alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTROOM_DB", "none")
    settings = {name: os.environ[name] for name in ("TELEGRAM_BOT_TOKEN", "TELEGRAM_WEBHOOK_SECRET")}
    for name in settings:
        monkeypatch.delenv(name)
    lacking = run("connect", "--url", "http://127.0.0.1:8080", code=78).stderr
    assert "Read the bot's settings into this shell first" in lacking
    with transaction(conn):
        channel_watches.note_ours(conn, "telegram", "http://127.0.0.1:8080/webhooks/telegram", now_ms=NOW)
        watch = channel_watch.note(conn, "telegram", Registration(None, URL), now_ms=NOW)
    state = StateFolder(tmp_path / ".emulator")
    state.prepare()
    state.instance_file.write_text(json.dumps({"environment": settings | {"POSTROOM_DB": str(db)}}))
    with (state.path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(*shlex.split(channel_watch.command(watch))[3:])
    assert server.webhook["url"] == watch.known_url


def test_what_does_not_come_here_is_shown_with_what_mends_it(server: Server) -> None:
    shown = run("show", "--url", URL, code=1).stdout
    assert "none: the bot receives nothing" in shown
    assert f"channel telegram connect --url {URL}" in shown
    assert {path.rpartition("/")[2] for path in server.paths} == {"getMe", "getWebhookInfo", "getMyCommands"}
    run("connect", "--url", URL)
    assert "To fix it" not in run("show", "--url", URL).stdout


def test_without_an_address_or_settings_it_says_what_is_missing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--url https://bot.example.com" in run("connect", code=64).stderr
    monkeypatch.delenv("TELEGRAM_BOT_TOKEN")
    registry.get.cache_clear()
    refused = run("connect", "--url", URL, code=78).stderr
    assert "TELEGRAM_BOT_TOKEN" in refused
    assert "set -a; . ./bot.env" in refused
    assert server.paths == []
