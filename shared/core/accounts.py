"""The names of accounts: one bot or app on one platform.

The first account of a platform is called like it, such as ``telegram``; a further one has a word of its own behind a
dot, such as ``telegram.sales``. The channel of a client over REST has no dot, so no client can take an account's name.
"""

import re

from shared.core.errors import ConfigInvalid

WORD = r"[a-z][a-z0-9_]{0,22}"
FURTHER = rf"[a-z][a-z0-9]{{0,15}}\.{WORD}"
_WORD = re.compile(WORD)


def platform_of(account: str) -> str:
    """The platform of the account; of any other channel, its name."""
    return account.partition(".")[0]


def is_further(account: str) -> bool:
    """Whether it is not the first account of its platform."""
    return "." in account


def name_of(platform: str, word: str) -> str:
    """The name of the account that *word* tells from the others of the platform; empty: the first one.

    Raises:
        ConfigInvalid: *word* can't be part of a name.
    """
    if not word or word == platform:
        return platform
    word = word.removeprefix(f"{platform}.")
    if not _WORD.fullmatch(word):
        raise ConfigInvalid(
            f"{word[:40]!r} can't name an account: use at most 23 of a-z, 0-9 and _, and begin with a letter"
        )
    return f"{platform}.{word}"


def with_its_variables(account: str, text: str) -> str:
    """*text* about the first account of a platform, with the names of this account's variables."""
    if not is_further(account):
        return text
    return text.replace(prefix_of(platform_of(account)), prefix_of(account))


def prefix_of(account: str) -> str:
    """How the account's variables begin: ``TELEGRAM_`` of ``telegram``, ``TELEGRAM_SALES_`` of ``telegram.sales``."""
    return account.upper().replace(".", "_") + "_"
