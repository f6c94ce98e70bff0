"""``emulator channel discord``: connects an app with this Postroom, and registers its commands at Discord.

It talks to Discord itself, with the settings of this shell, so it needs no running Postroom.
"""

import asyncio
from collections.abc import Iterator
from typing import Annotated, cast

import typer

from emulator.base.errors import AlreadyInUse, Misconfigured, UsageError
from emulator.base.hints import command_line
from emulator.cli import output
from emulator.cli.commands.channels.adapters import adapter_of
from emulator.cli.commands.frame import Json, group, run_or_fail
from emulator.cli.output import CommandResult, result
from emulator.storage import own_address
from shared.channels.base import Registration
from shared.channels.discord import command_list, connecting
from shared.channels.discord.channel import DiscordChannel
from shared.channels.discord.command_list import CommandRegistration
from shared.core import accounts
from shared.core.errors import WrongState
from shared.core.settings import Settings
from shared.runtime.http1_client import HttpClient

app = group("Connect a Discord app with this Postroom. The app's settings come from the environment.")

Account = Annotated[str, typer.Option("--account", metavar="NAME", help="A further app, such as sales.")]
Guild = Annotated[
    str | None, typer.Option("--guild", metavar="ID", help="Only in this server, where they appear at once.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Also change commands that somebody else registered.")]
Address = Annotated[
    str | None,
    typer.Option("--url", help="Where Discord reaches this host: https://bot.example.com; or DISCORD_WEBHOOK_URL."),
]
TakeOver = Annotated[bool, typer.Option("--take-over", help="Even if another program has the app.")]
_LIMIT_S = 60.0


@app.command("connect")
def connect(
    url: Address = None, account: Account = "discord", take_over: TakeOver = False, as_json: Json = False
) -> None:
    """Let Discord send the app's interactions here. Safe to repeat; an app of another program stays with it."""
    found = run_or_fail(lambda: _connect(account, url, take_over=take_over))
    output.write(found, as_json=as_json)


def _connect(word: str, url: str | None, *, take_over: bool) -> CommandResult:
    channel = _channel(accounts.name_of("discord", word))
    address = connecting.address_of(url or channel.webhook_url or _no_address(channel.name), channel.name)

    async def go() -> Registration:
        client = HttpClient()
        try:
            async with asyncio.timeout(_LIMIT_S):
                return await connecting.connect(channel.api, client, url=address, take_over=take_over)
        finally:
            await client.close()

    try:
        before = asyncio.run(go())
    except WrongState as error:
        mend = command_line(f"channel discord connect{_options(word, None)} --url {address} --take-over")
        raise AlreadyInUse(f"{error}. If this Postroom should have it: {mend}") from None
    facts = {"url": address, "before": before.url, "changed": before.url != address or bool(before.missing)}
    was = "is now" if before.url != address else "was already"
    lines = [f"The app {was} connected: Discord sends its interactions to {address}."]
    if before.url not in (None, address):
        lines.append(f"It was taken over from {before.url}, which gets nothing more.")
    if before.missing:
        lines.append("Discord had switched its webhook events off; they are on again.")
    if not own_address.keep(Settings.load().db, channel.name, address) and channel.webhook_url != address:
        name = f"{accounts.prefix_of(channel.name)}WEBHOOK_URL"
        lines.append(f"Set {name}={address}, so that Postroom says when another program takes the app.")
    return result(facts, *lines)


@app.command("register")
def register(
    guild: Guild = None, account: Account = "discord", overwrite: Overwrite = False, as_json: Json = False
) -> None:
    """Register /ask and the other commands. Safe to repeat; what another tool registered stays."""
    found = run_or_fail(lambda: _register(account, guild, overwrite=overwrite))
    output.write(found, as_json=as_json)


def _register(word: str, guild: str | None, *, overwrite: bool) -> CommandResult:
    if guild is not None and not guild.isdigit():
        raise Misconfigured(f"{guild!r} is no server's id: it is a number; Discord copies it in developer mode")
    channel = _channel(accounts.name_of("discord", word))

    async def go() -> tuple[CommandRegistration, str | None]:
        client = HttpClient()
        try:
            async with asyncio.timeout(_LIMIT_S):
                done = await command_list.register(channel.api, client, guild_id=guild, overwrite=overwrite)
                return done, await command_list.check_application(channel.api, client)
        finally:
            await client.close()

    try:
        done, address = asyncio.run(go())
    except WrongState as error:
        mend = command_line(f"channel discord register{_options(word, guild)} --overwrite")
        raise AlreadyInUse(f"{error}. To change them: {mend}") from None
    facts = {
        "changed": done.is_changed,
        "new": list(done.difference.new),
        "overwritten": list(done.difference.changed),
        "others": list(done.difference.others),
        "interactionsEndpoint": address,
    }
    return result(facts, *_told(done, guild, address))


def _told(done: CommandRegistration, guild: str | None, address: str | None) -> Iterator[str]:
    where = f"in server {guild}" if guild else "everywhere; Discord's clients show that within minutes"
    if done.difference.new:
        yield f"Registered {where}: {', '.join(done.difference.new)}."
    if done.difference.changed:
        yield f"Changed {where}: {', '.join(done.difference.changed)}."
    if not done.is_changed:
        yield "The commands are registered already. Nothing was changed."
    if done.difference.others:
        yield f"Commands of other tools, unchanged: {', '.join(done.difference.others)}."
    if address is None:
        yield (
            "Discord sends them to no webhook yet: set Interactions Endpoint URL, on the page General Information of "
            "https://discord.com/developers/applications, to the address of this host, such as "
            "https://bot.example.com/webhooks/discord"
        )


def _channel(account: str) -> DiscordChannel:
    return cast(DiscordChannel, adapter_of(account))  # the registry's adapter of this platform


def _no_address(account: str) -> str:
    name = f"{accounts.prefix_of(account)}WEBHOOK_URL"
    raise UsageError(f"say where Discord reaches this host: --url https://bot.example.com, or set {name}")


def _options(word: str, guild: str | None) -> str:
    further = "" if word == "discord" else f" --account {word}"
    return further + (f" --guild {guild}" if guild else "")
