"""Sets up a bot that a person made for one of ours: its token into the file of tokens, its webhook to its account."""

from collections.abc import Mapping
from pathlib import Path

from shared.channels import account_secrets
from shared.channels.base import BotManager, Channel
from shared.core import chance
from shared.core.errors import PermanentError
from shared.db.roster.accounts import Account
from shared.roster import account_tokens
from shared.runtime.http_client import Client


async def set_up(
    account: Account, manager: Channel | None, client: Client, tokens: Path, *, menu: Mapping[str, str]
) -> str | None:
    """The bot's user name. Safe to run twice: the secret of an earlier run is kept.

    Args:
        menu: the commands that the platform lists for people, with a line of help each.

    Raises:
        PostroomError: it can't be done now; the message says why.
        OSError: the file of tokens can't be written.
    """
    if not isinstance(manager, BotManager):
        raise PermanentError(f"the account {account.manager}, whose bot manages this one, lacks a setting")
    known = account_secrets.read(tokens).get(account.name, {})
    secret = known.get("webhook_secret") or chance.token_urlsafe(32)
    made = await manager.take_bot(account.bot_id or "", account.name, client, secret=secret, menu=menu)
    account_tokens.put(tokens, account.name, known | dict(made))
    return made.get("bot_username") or None
