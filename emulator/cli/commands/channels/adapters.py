"""The adapter of an account, with the settings of this shell, or of the emulator that runs here."""

import os

from emulator.base.errors import Misconfigured
from emulator.base.hints import STATE
from emulator.base.state import StateFolder, find_running
from shared.channels import registry
from shared.channels.base import Channel
from shared.core import accounts
from shared.core.errors import ConfigInvalid


def adapter_of(account: str) -> Channel:
    """The adapter. Where this shell has no bot's token, the settings of the running emulator are taken, all together.

    Raises:
        Misconfigured: neither has them.
    """
    try:
        return registry.get(account)
    except ConfigInvalid as error:
        running = find_running(StateFolder(STATE.resolve())) or {}
        has_own_bot = bool(os.environ.get(f"{accounts.prefix_of(account)}BOT_TOKEN"))
        if has_own_bot or not running.get("environment"):
            hint = "Read the bot's settings into this shell first: set -a; . ./bot.env; set +a"
            raise Misconfigured(f"{error}. {hint}") from None
    os.environ.update(running["environment"])
    try:
        return registry.get(account)
    except ConfigInvalid as error:
        raise Misconfigured(f"{error}. The emulator has no bot of this account") from None
