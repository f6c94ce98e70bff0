"""The settings of an account: from its variables, and for bots that Postroom was given, from a file of its own.

The variables of the first account begin with the platform's name (``TELEGRAM_BOT_TOKEN``), those of a further account
with both words of its name (``TELEGRAM_SALES_BOT_TOKEN``). What a platform has only one of, such as the address of its
API, a further account takes from the first. A variable overrules the file.
"""

import contextlib
import os
from typing import ClassVar, Self

from shared.channels import account_secrets
from shared.core import accounts
from shared.core.errors import ConfigInvalid
from shared.core.settings import FromEnvironment, Settings


def stated(account: str, setting: str | None) -> str | None:
    """The value of a setting of the account that is no secret, such as ``BOT_USERNAME``; None: it is not known here."""
    if setting is None:
        return None
    if own := os.environ.get(f"{accounts.prefix_of(account)}{setting}"):
        return own
    with contextlib.suppress(ConfigInvalid):  # what sends through the account says so
        return kept(account).get(setting.lower()) or None
    return None


def kept(account: str) -> dict[str, str]:
    """The settings that the file has for the account, by field name; empty where it has none.

    Raises:
        ConfigInvalid: the file can't be read.
    """
    return account_secrets.read(Settings.load().account_tokens).get(account, {})


class AccountSettings(FromEnvironment):
    """The base of each adapter's settings; ``env_prefix`` is the first account's.

    Attributes:
        of_platform: the fields that a further account takes from the first, where it has none of its own.
    """

    is_of_accounts: ClassVar[bool] = True
    of_platform: ClassVar[tuple[str, ...]] = ("api_base",)

    @classmethod
    def of(cls, account: str) -> Self:
        """The settings of *account*.

        Raises:
            ConfigInvalid: names each variable that is missing or wrong.
        """
        if not accounts.is_further(account):
            return cls.load()
        own, first = accounts.prefix_of(account), accounts.prefix_of(accounts.platform_of(account))
        values = {name: os.environ[f"{first}{name.upper()}"] for name in cls._shared(first)}
        values |= kept(account)
        given = {name: value for name, value in values.items() if f"{own}{name.upper()}" not in os.environ}
        return cls.load(own, given)

    @classmethod
    def _shared(cls, first: str) -> list[str]:
        return [name for name in cls.of_platform if f"{first}{name.upper()}" in os.environ]
