"""What people call the bot, on all fake platforms alike."""

from emulator.platforms.store import PlatformStore

BOT_NAME = "Postroom"
BOT_USERNAME = "postroom_bot"


def name_bot(store: PlatformStore, account: str) -> None:
    """Give the bot of a further account, such as ``telegram.sales``, a name of its own: ``Sales``, ``sales_bot``."""
    word = account.partition(".")[2]
    store.get_or_put("bot.name", word.replace("_", " ").title())
    store.get_or_put("bot.username", f"{word}_bot")


def bot_name(store: PlatformStore) -> str:
    """What people read as the bot's name."""
    return store.get("bot.name") or BOT_NAME


def bot_username(store: PlatformStore) -> str:
    """What people write behind an @ to mention the bot, where a platform has that."""
    return store.get("bot.username") or BOT_USERNAME
