"""``python -m infra.discord_relay [ACCOUNT]``: relay Discord's Gateway to ``ingest`` until a signal comes."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from infra.discord_relay.gateway import CONTENT, INTENTS, GatewayClient, RelayOptions
from infra.discord_relay.outbox import Outbox
from infra.discord_relay.settings import RelaySettings
from infra.discord_relay.state import StateFile
from shared.channels.discord.settings import DiscordSettings
from shared.core import accounts, logs
from shared.core.errors import ConfigInvalid

FIRST_ACCOUNT = "discord"

log = logs.get()


@dataclass(frozen=True, slots=True)
class RelayPlan:
    """What a relay needs to know, from both models of settings."""

    options: RelayOptions
    target: str
    secret: str
    state: Path


def plan(account: str) -> RelayPlan:
    """The relay of *account*.

    Raises:
        ConfigInvalid: names each variable that is missing or wrong.
    """
    bot, own = DiscordSettings.of(account), RelaySettings.of(account)
    if bot.relay_secret is None:
        raise ConfigInvalid(f"{accounts.prefix_of(account)}RELAY_SECRET is not set: ingest would refuse every post")
    intents = INTENTS | (CONTENT if own.content else 0)
    token = bot.bot_token.get_secret_value()
    return RelayPlan(
        RelayOptions(bot.api_base.rstrip("/"), token, bot.application_id, intents=intents),
        own.target or f"http://127.0.0.1:9001/webhooks/{account}",
        bot.relay_secret.get_secret_value(),
        own.state,
    )


async def relay(planned: RelayPlan) -> None:
    """Relay until cancelled.

    Raises:
        ConfigInvalid: Discord refuses the bot for good.
    """
    async with aiohttp.ClientSession() as http:
        client = GatewayClient(http, planned.options, StateFile(planned.state))
        outbox = Outbox(http, planned.target, planned.secret, done=client.note_stored)
        posting = asyncio.create_task(outbox.run())
        try:
            await client.run(outbox)
        finally:
            posting.cancel()
            await asyncio.gather(posting, return_exceptions=True)
            client.save()


async def _until_signalled(planned: RelayPlan) -> int:
    task = asyncio.ensure_future(relay(planned))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        log.info("relay.stopped")
    except ConfigInvalid as error:
        log.error("relay.refused", reason=str(error))
        return os.EX_CONFIG
    return 0


def main(arguments: Sequence[str]) -> int:
    """Ends with 0 at a signal, 78 where a setting is wrong or Discord refuses the bot: a restart mends neither."""
    try:
        planned = plan(arguments[0] if arguments else FIRST_ACCOUNT)
    except ConfigInvalid as error:
        sys.stderr.write(f"discord_relay: {error}\n")
        return os.EX_CONFIG
    logs.configure("discord_relay")
    return asyncio.run(_until_signalled(planned))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
