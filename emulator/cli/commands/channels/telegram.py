"""``emulator channel telegram``: connects a bot with this Postroom, and shows what Telegram knows of it.

It talks to Telegram itself, with the settings of this shell, so it needs no running Postroom.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, TypeVar, cast

import typer

from emulator.base.errors import EmulatorError, ExitCode, UsageError
from emulator.base.hints import command_line
from emulator.cli import output
from emulator.cli.commands.channels.adapters import adapter_of
from emulator.cli.commands.frame import Json, group, run_or_fail
from emulator.cli.output import CommandResult, FactList, result
from emulator.storage import own_address
from shared.channels.base import Registration
from shared.channels.telegram import connecting, webhooks
from shared.channels.telegram.channel import TelegramChannel
from shared.channels.telegram.connecting import BotState, Connected
from shared.conversation.routing import commands
from shared.core import accounts
from shared.core.errors import WrongState
from shared.core.settings import Settings
from shared.runtime.http1_client import HttpClient
from shared.runtime.http_client import Client

app = group("Connect a Telegram bot with this Postroom. The bot's settings come from the environment.")

T = TypeVar("T")
Account = Annotated[str, typer.Option("--account", metavar="NAME", help="A further bot, such as sales.")]
Address = Annotated[
    str | None,
    typer.Option(
        "--url", help="Where Telegram reaches this host, such as https://bot.example.com; or TELEGRAM_WEBHOOK_URL."
    ),
]
TakeOver = Annotated[bool, typer.Option("--take-over", help="Even if another program has the bot.")]
_LIMIT_S = 60.0


@app.command("connect")
def connect(
    url: Address = None, account: Account = "telegram", take_over: TakeOver = False, as_json: Json = False
) -> None:
    """Let Telegram send the bot's messages here. Safe to repeat; a bot of another program stays with it."""
    _write(lambda: _connect(account, url, take_over=take_over), as_json=as_json)


@app.command("show")
def show(url: Address = None, account: Account = "telegram", as_json: Json = False) -> None:
    """Show what is registered at Telegram. Changes nothing; ends with 1 if the bot receives nothing here."""
    _write(lambda: _shown(account, url), as_json=as_json)


def _write(work: Callable[[], CommandResult], *, as_json: bool) -> None:
    found = run_or_fail(work)
    output.write(found, as_json=as_json)
    raise typer.Exit(found.code)


def _connect(word: str, url: str | None, *, take_over: bool) -> CommandResult:
    account, channel = _channel(word)
    address = connecting.address_of(url or channel.webhook_url or _no_address(account), account)

    async def work(client: Client) -> Connected:
        return await connecting.connect(channel, client, url=address, take_over=take_over, menu=commands.MENU)

    try:
        done = _with_client(work)
    except WrongState as error:
        mend = command_line(f"channel telegram connect{_options(account, url)} --take-over")
        raise EmulatorError(f"{error}. If this Postroom should have it: {mend}") from None
    facts = _facts(done.before, done.registration) | {"newCommands": done.new_commands}
    return result(facts, *_told(account, channel, address, done))


def _told(account: str, channel: TelegramChannel, address: str, done: Connected) -> Iterator[str]:
    before, bot = done.before, done.before.bot
    was = "was already" if before.registration.is_ours else "is now"
    yield f"@{bot.username} {was} connected: Telegram sends its updates to {address}."
    if connecting.is_elsewhere(before.registration):
        yield f"It was taken over from {before.registration.url}, which gets nothing more."
    if before.registration.backlog:
        yield f"Updates that waited at Telegram, and come now: {before.registration.backlog}."
    if before.registration.is_ours and before.registration.missing:
        yield f"Kinds of updates that were missing, and come from now on: {', '.join(before.registration.missing)}."
    names = ", ".join(f"/{name}" for name in done.new_commands)
    yield f"Commands: registered {names}." if names else "Commands: unchanged."
    if not bot.can_read_all_group_messages:
        yield "In groups it hears commands, mentions and replies only. For all messages: @BotFather, /setprivacy."
    prefix = accounts.prefix_of(account)
    if channel.bot_username.lower() != bot.username.lower():
        yield f"Set {prefix}BOT_USERNAME={bot.username}, so that it hears its name in groups."
    is_kept = own_address.keep(Settings.load().db, account, webhooks.shown(address))
    if channel.webhook_url != address and not is_kept:
        yield f"Set {prefix}WEBHOOK_URL={address}, so that Postroom says when another program takes the bot."


def _shown(word: str, url: str | None) -> CommandResult:
    account, channel = _channel(word)
    ours = url or channel.webhook_url
    address = connecting.address_of(ours, account) if ours else ""
    found = _with_client(lambda client: connecting.look(channel, client, url=address))
    registered = found.registration
    lines: dict[str, object] = {
        "bot": f"@{found.bot.username} ({found.bot.id})",
        "webhook": registered.url or "none: the bot receives nothing",
        "is ours": {True: "yes", False: "no", None: "not known: TELEGRAM_WEBHOOK_URL is not set"}[registered.is_ours],
        "waiting updates": registered.backlog,
        "missing kinds": ", ".join(registered.missing),
        "last failure": registered.last_error,
        "at": registered.last_error_at_ms,
        "commands": ", ".join(f"/{name}" for name in found.commands),
        "in groups": "hears everything" if found.bot.can_read_all_group_messages else "hears what is addressed to it",
    }
    mend = command_line(f"channel telegram connect{_options(account, url)}")
    if is_well(registered):
        return result(_facts(found, registered), FactList(lines))
    return result(_facts(found, registered), FactList(lines), f"To fix it: {mend}", code=ExitCode.FAILED)


def is_well(registered: Registration) -> bool:
    """Whether the bot's updates come here, all kinds of them, as far as that can be known."""
    return registered.url is not None and registered.is_ours is not False and not registered.missing


def _facts(state: BotState, registered: Registration) -> dict[str, object]:
    return {
        "bot": {"id": str(state.bot.id), "username": state.bot.username},
        "webhook": registered.url,
        "isOurs": registered.is_ours,
        "backlog": registered.backlog,
        "missing": list(registered.missing),
        "lastError": registered.last_error,
        "lastErrorAt": registered.last_error_at_ms,
        "before": webhooks.shown(state.registration.url or "") or None,
        "commands": sorted(state.commands),
    }


def _channel(word: str) -> tuple[str, TelegramChannel]:
    account = accounts.name_of("telegram", word)
    return account, cast(TelegramChannel, adapter_of(account))  # the registry's adapter of this platform


def _no_address(account: str) -> str:
    name = f"{accounts.prefix_of(account)}WEBHOOK_URL"
    raise UsageError(f"say where Telegram reaches this host: --url https://bot.example.com, or set {name}")


def _options(account: str, url: str | None) -> str:
    further = f" --account {account.partition('.')[2]}" if accounts.is_further(account) else ""
    return further + (f" --url {url}" if url else "")


def _with_client(work: Callable[[Client], Awaitable[T]]) -> T:
    async def go() -> T:
        client = HttpClient()
        try:
            async with asyncio.timeout(_LIMIT_S):
                return await work(client)
        finally:
            await client.close()

    return asyncio.run(go())
